"""On which line of a TOML file a key stands; the reader of the standard library keeps no places."""

from __future__ import annotations


def line_of(content: str, key: str) -> int | None:
    """Return the number of the line on which a key (or its table) is written, None in any doubt.

    A key is looked for as written (``capture.exclude`` or, below ``[capture]``, ``exclude``), else the
    table or inline table that it is in.
    """
    exact: list[int] = []
    around: list[int] = []
    table = ""
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.strip()
        if text.startswith("["):
            table = _joined(text.partition("]")[0].lstrip("["))
            found = table
        else:
            name, equals, _ = text.partition("=")
            if not equals or text.startswith("#"):
                continue
            found = f"{table}.{_joined(name)}" if table else _joined(name)
        if found == key:
            exact.append(number)
        elif key.startswith(f"{found}.") and not text.startswith("["):
            around.append(number)
    places = exact or around
    return places[0] if len(places) == 1 else None


def _joined(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))
