"""doctor: check that lastgood can work here, and say what to do where it cannot."""

from __future__ import annotations

import os

from lastgood.cli.columns import table
from lastgood.cli.opening import open_existing
from lastgood.cli.version import VERSION
from lastgood.cli.wording import size
from lastgood.codec.report.documents import document
from lastgood.codec.report.records import text_value
from lastgood.errors import LastgoodError
from lastgood.model.finding import Finding
from lastgood.names import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.console import Console
    from lastgood.cli.grammar import Call
    from lastgood.workspace import Workspace


def carry_out(call: Call, console: Console) -> int:
    """Examine; the exit code is that of the first thing that does not work."""
    from lastgood.workspace.examination import examine_machine

    findings = [_good("lastgood", VERSION), *examine_machine()]
    code = 0
    try:
        with open_existing(call) as workspace:
            findings += _place(workspace)
    except LastgoodError as error:
        code = error.exit_code
        findings.append(
            Finding(code=f"workspace-{error.code}", state="bad", message=error.message, hint=error.hint)
        )
    code = code or (1 if any(one.state == "bad" for one in findings) else 0)
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


def _place(workspace: Workspace) -> list[Finding]:
    from lastgood.workspace.examination import examine_git

    report = workspace.status()
    findings = [
        _good("workspace", workspace.path),
        _good("store", f"{workspace.store} ({size(report.store_bytes)})"),
        _good("checkpoints", f"{report.checkpoints:,}"),
    ]
    findings.append(examine_git(os.environ, workspace.path))
    findings += workspace.examine()
    findings += [
        Finding(code=note.code, state="note", message=note.message, hint=note.hint) for note in report.health
    ]
    return findings


def _good(code: str, message: str) -> Finding:
    return Finding(code=code, state="good", message=message)
