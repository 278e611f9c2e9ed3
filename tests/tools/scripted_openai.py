"""A stand-in for a model that speaks OpenAI's chat completions on the loopback, by a script."""

from __future__ import annotations

import json
from typing import Any

from tools.loopback import EVENTS, JSON, Answer, Loopback

Turn = str | tuple[str, dict[str, Any]]


class ScriptedCompletions(Loopback):
    """Answers each request with the next turn of its script: a text, or a tool with its arguments.

    When the script is over, the last turn comes again.
    """

    listing = json.dumps({"object": "list", "data": []})

    def __init__(self, *script: Turn) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []
        self._turns = list(script)

    def answer(self, path: str, body: bytes) -> Answer:  # noqa: ARG002 - one path is as good as another
        asked = json.loads(body)
        self.asked.append(asked)
        turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
        message = _message(turn, len(self.asked))
        if asked.get("stream"):
            return _chunks(message), EVENTS
        return json.dumps(_completion(message)), JSON

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{super().url}/v1"


def _message(turn: Turn, number: int) -> dict[str, Any]:
    if isinstance(turn, str):
        return {"role": "assistant", "content": turn}
    name, arguments = turn
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _reason(message: dict[str, Any]) -> str:
    return "tool_calls" if "tool_calls" in message else "stop"


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": _reason(message)}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _chunks(message: dict[str, Any]) -> str:
    calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls", []))]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    frame = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    parts = [
        {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": _reason(message)}]},
    ]
    return "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
