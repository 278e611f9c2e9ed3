"""Program: forks one child for each line of standard input, which carries out one verb of lastgood.

A child prints what it did the moment the verb returned (``saved ID``), or ``failed CODE MESSAGE``
with the error's exit code; anything else that escapes is exit code 70. It leads its own process
group, so that the shim can kill it with all its children.

What a child imported for its verb, this process imports too, so that the next children find it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

from lastgood.objects import write
from lastgood.scanner import cache, parallel, read, scan
from lastgood.workspace import Workspace

LONGEST = 120
_LOADED = "loaded "


def main() -> None:
    """Serve until standard input ends."""
    for line in sys.stdin.buffer:
        order = json.loads(line)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _be(order, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            said = stream.read().decode(errors="replace")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGKILL:
            _see_off(child)
        lines = said.splitlines()
        if lines and lines[-1].startswith(_LOADED):
            _load(lines.pop().split()[1:])
        answer = {"status": status, "lines": lines}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _load(names: list[str]) -> None:
    for name in names:
        import_module(name)
    if names:
        gc.collect()
        gc.freeze()  # so that no child copies the pages of all this when it looks for garbage


def _see_off(group: int) -> None:
    """Wait for what was killed with a run: until it is gone, it holds what it had locked."""
    while _is_dying(group):
        time.sleep(0.001)


def _is_dying(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, _, at = file.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(at) == group and state not in {"Z", "X"}:
            return True
    return False


def _be(order: dict[str, Any], writer: int) -> None:
    os.setpgid(0, 0)
    signal.alarm(LONGEST)

    def say(line: str) -> None:
        os.write(writer, line.replace("\n", " ").encode(errors="backslashreplace") + b"\n")

    status = 70
    before = set(sys.modules)
    try:
        status = _carry_out(order, say)
        say(_LOADED + " ".join(name for name in sys.modules if name not in before))
    except BaseException:  # noqa: BLE001 - the child reports whatever escapes, and ends
        say(f"escaped {traceback.format_exc()}")
    finally:
        os._exit(status)


def _carry_out(order: dict[str, Any], say: Callable[[str], None]) -> int:
    if order["verb"] == "write":
        for number in range(order["files"]):
            with open(os.path.join(order["directory"], f"file-{number}"), "w", encoding="utf-8") as file:
                file.write("content")
        say("wrote")
        return 0
    import lastgood
    from lastgood.errors import LastgoodError

    os.environ.update(order.get("environment", {}))
    if order.get("ordinary"):
        _be_ordinary()
    try:
        with lastgood.open(
            order["workspace"],
            store=order["store"],
            maintenance="off",
            allow_root=True,
            repair=order.get("repair", False),
            watch=order.get("looking") == "watch",
        ) as workspace:
            (_looking if "looking" in order else VERBS[order["verb"]])(workspace, order, say)
    except LastgoodError as error:
        say(f"failed {error.code} {error.message} | {error.hint}")
        return error.exit_code
    return 0


def _looking(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    """Carry a verb out where all is known, and say what the next save by what is known then comes to.

    ``looking`` says who knows it: a watch, or two processes that look. What comes before the verb, with
    ``edits``, and after it is not counted.
    """
    from lastgood.errors import Busy, LastgoodError

    _count(yes=False)
    forks = []
    os.register_at_fork(after_in_parent=lambda: forks.append(1))
    # Strangers do not store through mappings here, and all else it stamps as ext4 does.
    read._MULTIGRAIN |= {b"tmpfs"}
    scan._SEVERAL_DIRECTORIES = 0
    if order["looking"] == "two processes":
        cache.WORTHWHILE_FILES = 1
        parallel.RESIDENT_BYTES_A_FILE = 1 << 40
        os.sched_getaffinity = lambda _process: {0, 1}
    if order["verb"] == "undo":
        workspace.restore("first")
    for _ in range(2):
        workspace.save(kind="auto")
    for path, text in order["edits"].items():
        with open(os.path.join(order["workspace"], path), "w", encoding="utf-8") as file:
            file.write(text)
    forks.clear()
    _count(yes=True)
    try:
        VERBS[order["verb"]](workspace, order, say)
    except LastgoodError as error:
        say(f"failed {error.code} {error.message} | {error.hint}")
    finally:
        _count(yes=False)
    say(f"forked {len(forks)}")
    say(f"watching {workspace.watching}")
    try:
        saved = workspace.save("the next save")
    except Busy:
        workspace.recover()
        saved = workspace.save("the next save")
    root = saved.checkpoint.manifest.root
    say(f"next {root.tree} {root.modes}")


def _count(*, yes: bool) -> None:
    """Have calls be counted, and hit, from here on, or not."""
    with open(os.environ["LASTGOOD_FAULT_MAP"], "r+b", buffering=0) as plan:
        plan.write(bytes([yes]))


def _be_ordinary() -> None:
    """Let permissions hold for root as for everybody else (capset(2), version 3: none at all)."""
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    assert ctypes.CDLL(None).capset(header, none) == 0


def _save(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    report = workspace.save(order.get("message", "under fire"), name=order.get("name"))
    say(f"saved {report.checkpoint.id}")


def _save_in_parts(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    """Save as a workspace is saved whose parts are large: several packs, and then the last one."""
    write._PART_OBJECTS = 2
    write._PART_SHARE = sys.maxsize
    _save(workspace, order, say)


def _restore(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    report = workspace.restore(order["ref"], **order.get("options", {}))
    failures = [str(one) for one in report.outcomes if one.result == "failed"]
    failures += [str(one) for one in report.parts if one.result == "failed"]
    for one in report.outcomes:
        if one.kept is not None:
            say(f"kept {os.fsdecode(one.kept)}")
    say(f"incomplete {failures[0]}" if failures else f"restored {report.operation}")


def _undo(workspace: Workspace, _order: dict[str, Any], say: Callable[[str], None]) -> None:
    report = workspace.undo()
    failures = [outcome for outcome in report.outcomes if outcome.result == "failed"]
    say(f"incomplete {failures[0]}" if failures else f"undone {report.operation.id}")


def _redo(workspace: Workspace, _order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"redone {workspace.redo().operation.id}")


def _delete(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"deleted {workspace.delete(*order['refs']).operation.id}")


def _maintain(workspace: Workspace, _order: dict[str, Any], say: Callable[[str], None]) -> None:
    for one in workspace.maintain():
        say(f"did {one}")
    say("maintained")


def _verify(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    report = workspace.verify(deep=order.get("deep", False), repair=order.get("repair", False))
    say(f"verified {report.ok}")


def _recover(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"recovered {workspace.recover(roll_back=order.get('roll_back', False)).done}")


def _prune(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"pruned {len(workspace.prune(**order['asked']).remove)}")


def _purge(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"purged {len(workspace.purge(order['path']).plan.checkpoints)}")


def _import(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"imported {len(workspace.import_file(order['file']).checkpoints)}")


def _export(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"exported {len(workspace.export(order['file']).checkpoints)}")


def _run(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"ran {workspace.run(order['plan']).state}")


def _task(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    workspace.task_start(order["id"])
    say(f"done {workspace.task_done(order['id']).task}")


def _hook(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    from lastgood.hooks.event import HookEvent
    from lastgood.hooks.respond import respond

    respond(workspace, HookEvent(**order["event"]), session=None)
    say("responded")


def _list(workspace: Workspace, _order: dict[str, Any], say: Callable[[str], None]) -> None:
    say(f"listed {json.dumps([one.id for one in workspace.list() if one.kind != 'guard'])}")


def _look(workspace: Workspace, order: dict[str, Any], say: Callable[[str], None]) -> None:
    """Do all that only reads, and say what was seen."""
    workspace.list()
    workspace.get(order["ref"])
    workspace.entries(order["ref"])
    state = workspace.status().state
    report = workspace.verify()
    say(f"verified {report.ok}{''.join(f' {text}' for text in report.faults)}")
    say(f"aside {len(workspace.restore(order['ref'], to=order['aside']).omissions)}")
    say(f"looked {state}")


VERBS: dict[str, Callable[[Any, dict[str, Any], Callable[[str], None]], None]] = {
    "list": _list,
    "look": _look,
    "save": _save,
    "save in parts": _save_in_parts,
    "restore": _restore,
    "undo": _undo,
    "redo": _redo,
    "delete": _delete,
    "maintain": _maintain,
    "verify": _verify,
    "recover": _recover,
    "prune": _prune,
    "purge": _purge,
    "import": _import,
    "export": _export,
    "run": _run,
    "task": _task,
    "hook": _hook,
}


if __name__ == "__main__":
    main()
