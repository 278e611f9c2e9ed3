"""What `doctor` looks at: the machine, the store, the clocks, the leases."""

from __future__ import annotations

import errno
import os
import platform
import sqlite3
import sys
from importlib.util import find_spec

from lastgood.catalogue import Query
from lastgood.disk import LEAST_BYTES, LEAST_FILES, PRUNE_HINT, free, shortage
from lastgood.errors import Damaged, Storage, count
from lastgood.libraries import install
from lastgood.machine_check import file_clock_ahead, git_version, locks_exclude
from lastgood.model.report import Finding
from lastgood.objects.read import Packs
from lastgood.objects.repository import Layout, suspect_packs
from lastgood.paths import printable
from lastgood.scanner.states import Sheet
from lastgood.workspace.arguments import programs
from lastgood.workspace.health import exposures, kept_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.context import Context
    from lastgood.literals import FindingState
    from lastgood.model.checkpoint import HealthNote
    from lastgood.model.session import SessionReport

_LITTLE_SPACE = 1 << 30
_ELSEWHERE = "keep the store elsewhere: LASTGOOD_STORE"
_MORE_SPACE = f"free space, or {_ELSEWHERE}"
_SKEW = 2.0
_SECOND = 10**9
# The first save of a workspace earlier than this was told by a clock that was never set.
_YEAR_2020 = 1_577_836_800 * _SECOND
_MAKING = "the first save makes it; if one should be there, look at --store and LASTGOOD_STORE"
_COMPILE = (
    "install a C compiler (cc), then lastgood again with --no-binary lastgood; in a clone, run scripts/setup"
)
_INSTALL_AGAIN = "install lastgood again; in a clone, delete that file and run scripts/setup"
# Libraries that a bare clone lacks, or that only an extra brings: what each installs as, and their use.
_EXTRAS = {
    "report": (
        {"jinja2": "jinja2", "vl_convert": "vl-convert-python"},
        "reports as a page: lastgood report --html",
    ),
    "yaml": (
        {"yaml": "pyyaml", "tomlkit": "tomlkit"},
        "plans in YAML, and changed settings: lastgood run PLAN, config set, config import",
    ),
}


def examine_machine() -> list[Finding]:
    """Look at what lastgood runs on."""
    return [
        finding("python", f"{platform.python_version()} ({sys.executable})"),
        finding("platform", f"{platform.system()} {platform.release()} {platform.machine()}"),
        finding("sqlite", sqlite3.sqlite_version),
        _compression(),
        _stat(),
        *(_extra(name, *extra) for name, extra in _EXTRAS.items()),
    ]


def examine_git(environment: Mapping[str, str], root: str) -> Finding:
    """Look for git where it would be run from: never in the workspace (rule S12)."""
    version = git_version(programs(environment, root))
    if version is not None:
        return finding("git", version)
    message = "not found: saving and restoring need none, tidying large stores does"
    return finding("git", message, "install git when it suits you")


def _compression() -> Finding:
    if find_spec("isal") is not None:
        return finding("compression", "ISA-L")
    return finding("compression", "zlib alone, so that first saves take longer", install("isal"))


def _stat() -> Finding:
    quick = finding("stat", "as quick as it gets here")
    if sys.platform != "linux":
        return quick
    try:
        Sheet()
    except FileNotFoundError:
        library, hint = "lastgood's library in C", _COMPILE
    except (ImportError, OSError) as error:
        # What glibc says of one for another processor sounds as if there were none.
        why = f"which is broken or for another machine ({error})"
        library, hint = f"lastgood's library in C, {why}", _INSTALL_AGAIN
    else:
        return quick
    return finding("stat", f"without {library}, so that looking for changes takes longer", hint)


def _extra(name: str, libraries: Mapping[str, str], purpose: str) -> Finding:
    missing = [package for library, package in libraries.items() if find_spec(library) is None]
    if not missing:
        return finding(f"extra-{name}", purpose)
    message = f"not installed ({', '.join(missing)}); it is for {purpose}"
    return finding(f"extra-{name}", message, f"if you want it: {install(*missing)}")


def examine_store(context: Context) -> list[Finding]:
    """Look at the store's place, and at the clocks."""
    if not os.path.isdir(context.store):
        return [finding("no-store", "nothing was saved here yet, so there is no store", _MAKING)]
    try:
        space = _space(context.store)
        read = [*_privacy(context.store), *_packs(context), *_kept(context)]
        if space.state == "bad":  # what else is looked at takes a file
            return [space, *read]
        return [space, _locks(context.store), *read, *_clocks(context)]
    except OSError as error:
        message = f"the store cannot be used: {error.strerror}"
        return [finding("store-access", message, "check disk and permissions", state="bad")]


def _space(store: bytes) -> Finding:
    if os.statvfs(store).f_flag & os.ST_RDONLY:
        message = "the store's file system is read-only: all can be read, nothing saved"
        hint = f"mount it writable (the system's log says if an error closed it)\nor {_ELSEWHERE}"
        return finding("space", message, hint, state="bad")
    bytes_free, files_free = free(store)
    lack = shortage(store)
    if lack is not None:
        room = count(bytes_free, "byte") if files_free >= LEAST_FILES else "no further file"
        said = f"room for {room} is left"
        # What is free on the disk says nothing of what a quota leaves, or a file system has set apart.
        if lack.errno == errno.EDQUOT:
            said = "your quota is used up"
        elif files_free >= LEAST_FILES and bytes_free >= LEAST_BYTES:
            said = f"no room is left, though {bytes_free >> 10:,} KiB count as free,"
        message = f"{said} where the store is: nothing can be saved"
        return finding("space", message, f"{PRUNE_HINT}\nor {_MORE_SPACE}", state="bad")
    if bytes_free >= _LITTLE_SPACE:
        return finding("space", f"{bytes_free >> 30:,} GiB free")
    left = f"{bytes_free >> 20:,} MiB" if bytes_free >= 1 << 20 else f"{bytes_free >> 10:,} KiB"
    return finding("space", f"only {left} free where the store is", _MORE_SPACE)


def _locks(store: bytes) -> Finding:
    hint = "keep the store on a local disk: LASTGOOD_STORE"
    try:
        if locks_exclude(store):
            return finding("locks", "a held lock keeps others out")
    except OSError as error:
        message = f"the store's file system has no locks: {error.strerror}"
    else:
        message = "the store's file system gives a lock to two at once"
    return finding("locks", message, hint, state="bad")


def _privacy(store: bytes) -> list[Finding]:
    found = [noted(one) for one in exposures(store)]
    return found or [finding("privacy", "the store is yours alone")]


def _packs(context: Context) -> list[Finding]:
    # Looked up without opening the engine, which would make what a store lacks.
    layout = Layout(context.store + b"/objects.git", temporary=context.store + b"/tmp")
    return [*_lost(context, Packs(layout.packs)), _doubted(layout)]


def _lost(context: Context, packs: Packs) -> list[Finding]:
    """Say so if checkpoints that count are no longer stored."""
    try:
        commits = context.catalogue.commits(deleted_after=context.clock.now())
        found = packs.lacking(map(bytes.fromhex, commits))
        if found:
            packs.refresh()  # they may have been joined with others meanwhile
            found = packs.lacking(found)
    except Storage as error:
        return [finding("packs", error.message, "look at the store's disk: lastgood verify", state="bad")]
    except Damaged as error:
        return [finding("catalogue", error.message, error.hint, state="bad")]
    finally:
        packs.close()
    if not found:
        return []
    are, them = ("is", "it") if len(found) == 1 else ("are", "them")
    message = (
        f"{len(found):,} of {count(len(commits), 'checkpoint')} {are} lost: no pack of the store has {them}"
    )
    hint = "name them: lastgood verify\nsave what is there now: lastgood save"
    return [finding("lost", message, hint, state="bad")]


def _doubted(layout: Layout) -> Finding:
    found = suspect_packs(layout)
    if not found:
        return finding("packs", "no pack is doubted")
    message = (
        f"{len(found)} doubted, and relied on by no new checkpoint: copied and not proven yet, or damaged"
    )
    hint = "prove what was copied: lastgood maintain\nmend what is damaged: lastgood verify --repair"
    return finding("packs", message, hint)


def _kept(context: Context) -> list[Finding]:
    keys = [row.key for row in context.catalogue.workspaces()]
    return [noted(one) for one in kept_edits(context.store, keys)]


def _clocks(context: Context) -> list[Finding]:
    now = context.clock.now()
    ahead = file_clock_ahead(context.store, now=now)
    newest = context.catalogue.find(Query(workspace_key=context.key, limit=1))
    latest = newest[0].manifest.created_at if newest else 0
    if now < _YEAR_2020 or latest > now + _SECOND:
        shown = "the clock was never set" if now < _YEAR_2020 else "the clock went back since the last save"
        message = f"{shown}; checkpoints keep their order, times do not tell it"
        clock = finding("clock", message, "set the clock: timedatectl status")
    else:
        clock = finding("clock", "not behind the last checkpoint")
    if abs(ahead) <= _SKEW:
        return [clock]
    message = (
        f"the store's file system is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine"
    )
    return [clock, finding("file-clock", message, "keep both machines on network time")]


def examine_leases(context: Context, sessions: list[SessionReport]) -> list[Finding]:
    """Look at who holds the workspace; ``sessions`` are those not ended."""
    findings = []
    for one in sessions:
        owner = one.session.owner
        who = (
            f"process {owner.pid} on {owner.host}"
            if owner.pid is not None
            else f"nobody known on {owner.host}"
        )
        age = max(0, context.clock.now() - one.session.heartbeat_at) // _SECOND
        is_active = one.state == "active"
        how = "is active" if is_active else "ended without finishing"
        message = f"{one.id} {how}: {printable(who)}, last heartbeat {age:,} s ago"
        findings.append(finding("lease", message, "" if is_active else "lastgood recover"))
    return findings or [finding("lease", "no session holds this workspace")]


def finding(code: str, message: str, hint: str = "", *, state: FindingState | None = None) -> Finding:
    """Return what was found: what comes with a hint is a note, the rest is good, unless it is said."""
    return Finding(code=code, state=state or ("note" if hint else "good"), message=message, hint=hint)


def noted(note: HealthNote) -> Finding:
    """Return as a finding what `status` says too."""
    return finding(note.code, note.message, note.hint, state="note")
