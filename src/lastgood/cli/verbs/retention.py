"""prune: let go what is not kept, each checkpoint with its reason (rules K1, K2, K3)."""

from __future__ import annotations

from lastgood.cli.opening import DECLINED, OMISSIONS, ProgressLine, number_option, open_for
from lastgood.cli.restoring import agreed
from lastgood.cli.wording import moment, size, table
from lastgood.errors import Usage, count
from lastgood.ids import short
from lastgood.paths import printable, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.cli.grammar import Call
    from lastgood.cli.opening import Console
    from lastgood.model.report import VerifyReport
    from lastgood.retention.policy import PrunePlan, PruneReport


def prune_verb(call: Call, console: Console) -> int:
    """Prune, or show what that would do."""
    if call.has("verify"):
        return _verify(call, console)
    from lastgood.retention.prune import dry

    keep, older_than, now = number_option(call, "keep"), call.text("older-than"), call.has("now")
    with open_for(call) as workspace:
        if call.has("dry-run"):
            plan = workspace.plan_prune(keep=keep, older_than=older_than, now=now)
            return _tell_prune(dry(plan), call, console)
        if now and not call.has("yes"):
            _demand_terminal(call, console)
            plan = workspace.plan_prune(keep=keep, older_than=older_than, now=now)
            if not _consented(plan, console):
                return DECLINED
        report = workspace.prune(keep=keep, older_than=older_than, now=now)
    return _tell_prune(report, call, console)


def _demand_terminal(call: Call, console: Console) -> None:
    if not console.can_ask:
        raise Usage(
            "freeing at once cannot be undone: without a terminal `prune --now` needs --yes",
            hint=f"look first: {call.command('prune --now --dry-run')}",
        )


def _consented(plan: PrunePlan, console: Console) -> bool:
    what = count(len(plan.remove), "checkpoint")
    console.warn(f"This removes {what} and frees about {size(plan.freed_bytes)}. It cannot be undone.")
    if plan.lost:
        console.warn(f"{count(len(plan.lost), 'checkpoint')} deleted before cannot be had back either.")
    return agreed("Free the bytes at once?", console)


def _verify(call: Call, console: Console) -> int:
    for option in ("keep", "older-than", "now", "dry-run"):
        if call.has(option):
            raise Usage(
                f"`prune --verify` removes nothing and takes no --{option}",
                hint="verify first, then prune",
            )
    with open_for(call) as workspace:
        report = workspace.prune(verify=True)
    if not console.answer("prune", report):
        _tell_proof(report, call, console)
    return OMISSIONS if report.set_aside or report.faults else 0


def _tell_proof(report: PruneReport, call: Call, console: Console) -> None:
    for fault in report.faults:
        console.warn(printable(fault))
    for id in report.set_aside:
        console.line(f"set aside: {short(id)}")
    if report.set_aside or report.faults:
        console.line("nothing was removed; the rest can be used")
        console.line(f"mend what can be mended with: {call.command('verify --repair')}")
    else:
        console.line("everything can be restored; nothing was removed")


def _tell_prune(report: PruneReport, call: Call, console: Console) -> int:
    code = OMISSIONS if report.waiting_bytes else 0
    if console.answer("prune", report):
        return code
    words = ("would keep", "would remove") if report.dry_run else ("kept", "removed")
    rows = [(words[1], short(one.id), printable(one.reason)) for one in report.remove]
    rows += [(words[0], short(one.id), printable(one.reason)) for one in report.keep]
    if not console.quiet and rows:
        paint = console.painter({0: {"removed": "red"}, 1: "yellow"})
        rows.insert(0, ("", "ID", "Reason"))
        console.lines(table(rows, flexible=(2,), limit=console.columns(), paint=paint))
    _sum_up(report, words, call, console)
    return code


def _sum_up(report: PruneReport, words: tuple[str, str], call: Call, console: Console) -> None:
    removed = count(len(report.remove), "checkpoint")
    console.line(f"{words[1]} {removed}, {words[0]} {len(report.keep):,}")
    freed = size(report.freed_bytes)
    if report.free_after is not None:
        free = "would be freed" if report.dry_run else "are freed"
        console.sentence(f"about {freed} {free} after {moment(report.free_after)} at the earliest")
    elif report.remove or report.lost:
        free = f"about {freed} would be freed at once" if report.dry_run else f"{freed} freed"
        console.line(f"{free}; this cannot be undone")
    if report.waiting_bytes:
        console.warn(
            f"{size(report.waiting_bytes)} more wait: the disk has no room to write their packs anew"
        )
        console.warn(f"  make some on it, then: {call.command('maintain')}")
    if report.operation is not None:
        console.line(f"take it back with: {call.command('undo')}")


# --- maintain: tidy the store; started by itself when it is due ---


def maintain_verb(call: Call, console: Console) -> int:
    """Tidy, and say what was done."""
    with open_for(call, purpose="need") as workspace:
        done = workspace.maintain()
    if console.answer("maintain", {"done": done}):
        return 0
    for line in done:
        console.line(printable(line))
    if not done:
        console.note("nothing to do")
    return 0


# --- verify: prove that what is stored is whole (rule K4) ---

_DAMAGED = 16


def verify_verb(call: Call, console: Console) -> int:
    """Verify; exit code 16 where damage remains."""
    repair = call.has("repair")
    with (
        open_for(call, purpose="repair" if repair else "find") as workspace,
        ProgressLine(console, "verifying"),
    ):
        report = workspace.verify(call.argument(0), deep=call.has("deep"), repair=repair)
    if not console.answer("verify", report):
        _tell_damage(report, call, console)
    return 0 if report.ok else _DAMAGED


def _tell_damage(report: VerifyReport, call: Call, console: Console) -> None:
    for line in report.repaired:
        console.line(f"repaired: {printable(line)}")
    for line in report.faults:
        console.line(f"fault: {printable(line)}")
    for one in report.damaged:
        console.line(f"damaged {short(one.id)}: {printable(one.reason)}")
        for path in one.files:
            console.line(f"  {printable(to_text(path)) or '.'}")
    checked = count(report.checkpoints, "checkpoint")
    if report.unlisted and not call.has("repair"):
        stored = count(report.unlisted, "checkpoint")
        console.line(f"{stored} stored and not listed: of a killed save, or of a row that was lost")
        console.warn(f"list what is stored: {call.command('verify --repair')}")
    if report.ok:
        proof = "restored aside and compared" if call.has("deep") else "every stored byte proven"
        console.line(f"{checked} whole: {proof}")
        return
    if report.damaged:
        console.line(f"{len(report.damaged):,} of {checked} damaged; the others can be restored")
    else:
        console.line(f"{checked} can be restored; the store itself needs mending")
    if not call.has("repair"):
        console.warn(f"mend what can be mended: {call.command('verify --repair')}")
