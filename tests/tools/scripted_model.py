"""A stand-in for a model on the loopback: the same answer to everything, and a memory of what was asked.

A script may have it use one of the agent's tools first.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from tools.loopback import EVENTS, JSON, Answer, Loopback

# From what was last said to the model: the shell command that it has the agent run, or the tool that
# it uses and how; None for the usual answer.
Use = str | tuple[str, dict[str, Any]] | None
Script = Callable[[str], Use]

ANSWER = "understood, said the scripted model"
BEGUN = "I begin, said the scripted model"


class ScriptedModel(Loopback):
    """Speaks as much of four protocols as their programs need for a turn of plain text."""

    listing = json.dumps({"data": [], "models": []})

    def __init__(self, script: Script = lambda _: None) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._calls = itertools.count(1)
        self._script = script

    def answer(self, path: str, body: bytes) -> Answer:
        self.asked.append(body.decode("utf-8", "replace"))
        if "count_tokens" in path:
            return json.dumps({"input_tokens": 10}), JSON
        if "responses" in path:
            return _events(_response(self._script(_last_said(body, "input")), self._call())), EVENTS
        if path.endswith("streamGenerateContent?alt=sse"):
            used = self._script(_last_said(body, "contents"))
            return f"data: {_generated(used, self._call())}\n\n", EVENTS
        if path.endswith("/chat/completions"):
            used = self._script(_last_said(body, "messages")) if b'"tools"' in body else None
            return _chat(used, self._call()), EVENTS
        if b'"stream":true' in body.replace(b" ", b""):
            return _events(_message_events(self._script(_last_said(body, "messages")), self._call())), EVENTS
        return json.dumps(_message(ANSWER, "end_turn")), JSON

    def _call(self) -> str:
        """Return what the next call of a tool is called: each by a name of its own, as models have it."""
        return f"call_{next(self._calls)}"


def _events(events: list[dict[str, Any]]) -> str:
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def _message(text: str | None, stop: str | None, *, id: str = "msg_scripted") -> dict[str, Any]:
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [] if text is None else [{"type": "text", "text": text}],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _last_said(body: bytes, key: str) -> str:
    """Return what the person said last, "" where that only brings a tool's result."""
    said = [one for one in json.loads(body)[key] if one.get("role", "user") in {"user", "tool"}][-1]
    if said.get("role") == "tool":
        return ""
    content = said.get("content", said.get("parts", ""))
    if isinstance(content, str):
        return content
    if any(block.get("type") == "tool_result" or "functionResponse" in block for block in content):
        return ""
    return "\n".join(
        block["text"] for block in content if block.get("type", "text") in {"text", "input_text"}
    )


def _message_events(used: Use, call: str) -> list[dict[str, Any]]:
    if used is None:
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": ANSWER}
    else:
        shell = ("Bash", {"command": used, "description": "As the script says"})
        name, how = shell if isinstance(used, str) else used
        block = {"type": "tool_use", "id": call, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(how)}
    return [
        {"type": "message_start", "message": _message(None, None, id=f"msg_{call}")},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn" if used is None else "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 5},
        },
        {"type": "message_stop"},
    ]


def _chat(used: Use, id: str) -> str:
    """Return an answer in the form that most vendors copy."""
    delta: dict[str, Any] = {"role": "assistant", "content": ANSWER if used is None else BEGUN}
    deltas = [delta]
    if used is not None:
        shell = ("bash", {"command": used, "description": "As the script says"})
        name, how = shell if isinstance(used, str) else used
        call = {"name": name, "arguments": json.dumps(how)}
        deltas.append({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": call}]})
    choices: list[dict[str, Any]] = [{"index": 0, "delta": one, "finish_reason": None} for one in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop" if used is None else "tool_calls"})
    head: dict[str, Any] = {
        "id": "chat_1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    events = [json.dumps({**head, "choices": [one], "usage": usage}) for one in choices]
    return "".join(f"data: {one}\n\n" for one in (*events, "[DONE]"))


def _generated(used: Use, call: str) -> str:
    """Return an answer as Gemini CLI reads it."""
    part: dict[str, Any] = {"text": ANSWER}
    if used is not None:
        shell = ("run_shell_command", {"command": used, "description": "As the script says"})
        name, how = shell if isinstance(used, str) else used
        part = {"functionCall": {"id": call, "name": name, "args": how}}
    answer = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return json.dumps({"candidates": [answer], "usageMetadata": usage, "modelVersion": "scripted"})


def _response(used: Use, call: str) -> list[dict[str, Any]]:
    item: dict[str, Any] = {
        "id": "item_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
    }
    if used is not None:
        shell = ("exec_command", {"cmd": used, "login": False})
        name, how = shell if isinstance(used, str) else used
        item = {"type": "function_call", "id": "item_1", "call_id": call, "name": name}
        item |= {"arguments": json.dumps(how), "status": "completed"}
        space, dot, inner = name.partition(".")
        if dot:  # one of several that have a name in common
            item |= {"namespace": space, "name": inner}
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    return [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "status": "completed", "output": [item], "usage": usage},
        },
    ]
