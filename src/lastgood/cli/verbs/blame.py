"""blame: who changed each line of a file, and each file of a folder."""

from __future__ import annotations

from lastgood.attribution import WORDS
from lastgood.cli.opening import open_group
from lastgood.cli.references import reached
from lastgood.cli.typed_paths import path_of
from lastgood.cli.wording import padded, path_within, shortened, table, width
from lastgood.ids import short
from lastgood.paths import printable, quoted, to_text
from lastgood.workspace.opened import OpenWorkspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.report import Blamed, BlameReport

_OF_A_FOLDER = ("Path", "Who", "Date", "ID", "What")
_OF_A_FILE = ("ID", "Who", "Date", "What")
_ROOM = 20
_WHO = 16
_NOT_SAVED = "(not saved)"


def blame_verb(call: Call, console: Console) -> int:
    """Tell who changed what of a path last."""
    with open_group(call, OpenWorkspace, purpose="find") as workspace:
        typed = call.arguments[0]
        typed = reached(typed, call, workspace) if console.can_ask else typed
        report = workspace.blame(path_of(typed, call, workspace), private=call.has("private"))
    if console.answer("blame", report):
        return 0
    if report.kind == "directory":
        limit = console.columns()
        half = None if limit is None else limit // 2
        oldest = _oldest(one.by for one in report.files)
        rows = [
            (path_within(one.path, half), *_words(one.by, console, oldest=oldest)) for one in report.files
        ]
        console.page(
            table(
                [_OF_A_FOLDER, *((path, who, date, id, what) for path, id, who, date, what in rows)],
                flexible=(4, 0),
                limit=limit,
                expendable=(2, 3),
                room=_ROOM,
                paint=console.painter({1: "cyan", 3: "yellow"}),
            )
        )
        return 0
    oldest = _oldest(one.by for one in report.lines)
    changes = table(
        [_OF_A_FILE, *dict.fromkeys(_words(one.by, console, oldest=oldest) for one in report.lines)],
        flexible=(3,),
        limit=console.columns(),
        expendable=(2,),
        room=_ROOM,
        paint=console.painter({0: "yellow", 1: "cyan"}),
    )
    lines = _file_lines(report, console)
    way = f"what such a change was: {call.command(f'diff --previous ID -- {quoted(typed)}')}"
    is_known = any(one.by.checkpoint for one in report.lines)
    console.page([*changes, *([""] if lines else []), *lines], hints=(way,) if is_known else ())
    return 0


def _oldest(changes: Iterable[Blamed]) -> int | None:
    return min((one.at for one in changes if one.checkpoint is not None and one.at is not None), default=None)


def _words(by: Blamed, console: Console, *, oldest: int | None) -> tuple[str, str, str, str]:
    """Return the id, who, when, and for what."""
    if by.checkpoint is None or by.at is None:
        return _NOT_SAVED, "-", "-", "changed since the last checkpoint"
    label = "there before the first checkpoint" if by.initial else " ".join(by.label.split())
    if by.why is not None:
        label = f"{WORDS[by.why]}: {label}".removesuffix(": ")
    return short(by.checkpoint), who(by), console.moment(by.at, oldest=oldest), printable(label) or "-"


def who(by: Blamed) -> str:
    """Return in a word or two who changed something."""
    if by.checkpoint is None or by.initial:
        return "-"
    actor = by.actor
    return printable(actor.name) if actor.name and actor.type in {"agent", "tool"} else actor.type


def _file_lines(report: BlameReport, console: Console) -> list[str]:
    """Return each line of a file behind the checkpoint that it came with, and who that was."""
    if report.content is None:
        return []
    ids = [_NOT_SAVED if one.by.checkpoint is None else short(one.by.checkpoint) for one in report.lines]
    names = [shortened(who(one.by), _WHO) for one in report.lines]
    wide = max(map(width, names), default=0)
    longest = max(map(len, ids), default=0)
    digits = len(str(len(report.content)))
    lines, limit = [], console.columns()
    for one, id, name in zip(report.lines, ids, names, strict=True):
        assert one.first is not None
        assert one.last is not None
        head = f"{id:{longest}}  {padded(name, wide)}"
        for number, text in _numbered(report.content, one.first, one.last):
            line = f"{head}  {number:{digits}}  {text}".rstrip()
            line = line if limit is None else shortened(line, limit)
            start = len(head)
            lines.append(console.styled(line[:start], "dim") + line[start:])
    return lines


def _numbered(content: tuple[bytes, ...], first: int, last: int) -> Iterable[tuple[int, str]]:
    for number in range(first, last + 1):
        text = to_text(content[number - 1].rstrip(b"\r\n"))
        yield number, printable(text.expandtabs())
