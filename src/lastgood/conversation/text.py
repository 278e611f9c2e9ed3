"""Messages of any form as text that a person can read."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Results of tools can be whole files: enough to tell which.
_SHOWN = 2_000


def speaker(message: Mapping[str, object]) -> str:
    """Return who speaks: user, assistant, system, tool and so on."""
    role = message.get("role")
    if isinstance(role, str):
        return role
    kind = message.get("type")
    if isinstance(kind, str):
        return "tool" if kind.endswith("_output") else "assistant" if kind.endswith("_call") else kind
    return "line"


def message_text(message: Mapping[str, object]) -> str:
    """Return what is said, paragraph by paragraph; tools by name, with what they were given."""
    kind = message.get("type")
    if isinstance(kind, str) and kind.endswith("_call"):
        given = message.get("arguments", message.get("input", message.get("action")))
        return _call(message.get("name", "shell"), given)
    if isinstance(kind, str) and kind.endswith("_call_output"):
        return "[result] " + _cut(_content_text(message.get("output")))
    if "content" in message:
        return _content_text(message["content"])
    return _content_text(message["line"]) if "line" in message else _as_json(dict(message))


def _content_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(part for part in map(_content_text, content) if part)
    if isinstance(content, dict):
        return "\n".join(_block(content))
    return "" if content is None else str(content)


def _block(block: dict[str, object]) -> Iterator[str]:
    kind = block.get("type")
    if isinstance(block.get("text"), str):
        yield str(block["text"])
    elif kind == "thinking":
        yield "[thinking] " + _cut(_content_text(block.get("thinking")))
    elif kind == "tool_use":
        yield _call(block.get("name"), block.get("input"))
    elif kind == "tool_result":
        yield "[result] " + _cut(_content_text(block.get("content")))
    elif isinstance(kind, str) and ("image" in kind or "document" in kind):
        yield f"[{kind}]"
    else:
        yield _cut(_as_json(block))


def _call(name: object, given: object) -> str:
    text = given if isinstance(given, str) else _as_json(given)
    return f"[{name}] {_cut(text)}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} … ({len(text)} characters)"


def _as_json(value: object) -> str:
    import json  # lazily: only a person who reads a conversation needs it

    return json.dumps(value, ensure_ascii=False, default=str)
