"""doctor: check that lastgood can work here, and say what to do where it cannot."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import sys

from lastgood.cli.columns import table
from lastgood.cli.opening import open_for
from lastgood.cli.version import VERSION
from lastgood.cli.wording import size
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import text_value
from lastgood.errors import LastgoodError
from lastgood.names import printable
from lastgood.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.workspace import Workspace

    State = Literal["good", "note", "bad"]

_LITTLE_SPACE = 1 << 30


class Finding(Value):
    """One thing that was looked at."""

    code: str
    state: State
    message: str
    hint: str = ""


def carry_out(call: Call, console: Console) -> int:
    """Examine; the exit code is that of the first thing that does not work."""
    findings = _machine()
    code = 0
    try:
        with open_for(call) as workspace:
            findings += _place(workspace)
    except LastgoodError as error:
        code = error.exit_code
        findings.append(
            Finding(code=f"workspace-{error.code}", state="bad", message=error.message, hint=error.hint)
        )
    if console.json:
        records = [_record(one) for one in findings]
        console.document(document("doctor", {"ok": code == 0, "findings": records}))
        return code
    for line in table([_row(one) for one in findings], flexible=2, limit=None):
        console.line(line)
    for one in findings:
        if one.hint:
            console.line(f"{one.code}: {printable(one.hint)}")
    return code


def _row(finding: Finding) -> tuple[str, str, str]:
    return finding.state, finding.code, printable(finding.message)


def _record(finding: Finding) -> dict[str, object]:
    return {
        "code": finding.code,
        "state": finding.state,
        "message": text_value(finding.message),
        "hint": text_value(finding.hint),
    }


def _machine() -> list[Finding]:
    findings = [
        _good("lastgood", VERSION),
        _good("python", f"{platform.python_version()} ({sys.executable})"),
        _good("platform", f"{platform.system()} {platform.release()} {platform.machine()}"),
        _good("sqlite", sqlite3.sqlite_version),
    ]
    git = shutil.which("git")
    if git is None:
        findings.append(
            Finding(
                code="git",
                state="note",
                message="not found: saving and restoring need none, tidying large stores does",
                hint="install git when it suits you",
            )
        )
    else:
        findings.append(_good("git", git))
    return findings


def _place(workspace: Workspace) -> list[Finding]:
    report = workspace.status()
    findings = [
        _good("workspace", workspace.path),
        _good("store", f"{workspace.store} ({size(report.store_bytes)})"),
        _space(workspace.store),
        _good("checkpoints", f"{report.checkpoints:,}"),
    ]
    findings += [
        Finding(code=note.code, state="note", message=note.message, hint=note.hint) for note in report.health
    ]
    return findings


def _space(store: str) -> Finding:
    figures = os.statvfs(store)
    free = figures.f_bavail * figures.f_frsize
    if free >= _LITTLE_SPACE:
        return _good("space", f"{size(free)} free")
    return Finding(
        code="space",
        state="note",
        message=f"only {size(free)} free where the store is",
        hint="free space, or keep the store elsewhere: LASTGOOD_STORE",
    )


def _good(code: str, message: str) -> Finding:
    return Finding(code=code, state="good", message=message)
