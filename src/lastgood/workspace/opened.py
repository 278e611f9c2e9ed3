"""An open workspace: what all verbs stand on, those who observe it, and how it is saved and looked at."""

from __future__ import annotations

import gc
import os
from _thread import _count

from lastgood.catalogue import Query
from lastgood.errors import Invalid, LastgoodError, NotFound, Usage, crowded
from lastgood.files import count_disk_threads
from lastgood.ids import effect_id
from lastgood.model.checkpoint import KINDS
from lastgood.paths import printable, to_text
from lastgood.workspace.arguments import (
    check_budget,
    check_count,
    check_draft,
    expect,
    inside,
    pairs,
    scope,
    sought,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self, TypeVar

    from lastgood.context import Context
    from lastgood.conversation.capture import GivenConversation
    from lastgood.literals import Direction, EventType, Kind, Moment
    from lastgood.model.calls import Observer
    from lastgood.model.checkpoint import (
        Actor,
        CheckOrder,
        Checkpoint,
        CheckReport,
        HealthNote,
        Ref,
        SaveReport,
    )
    from lastgood.model.operation import Operation
    from lastgood.model.report import (
        BlameReport,
        DiffReport,
        ListedEntry,
        LogReport,
        ProgressReport,
        SessionEnded,
        SessionStarted,
        StatusReport,
    )
    from lastgood.model.session import Effect
    from lastgood.settings import Settings
    from lastgood.transaction import Draft
    from lastgood.view import View
    from lastgood.workspace import WorkspaceState
    from lastgood.workspace.arguments import PathLike
    from lastgood.worktree import Commands

    Report = TypeVar("Report")
    Changed = TypeVar("Changed", ProgressReport, SessionStarted, SessionEnded)


# What happens at every turn of the work, and so is logged for those alone who want everything.
_EVERYDAY = frozenset({"task_changed"})
_MOMENTS: dict[str, Moment] = {"task": "after", "risky": "before"}


class Proposal:
    """The digits that were drawn for a call: what there is of them was made when it was tried before.

    They are those of the first checkpoint that it makes, and of the step that it begins; None if none were.
    A ``step`` is recorded together with the next one, if that is made.
    """

    def __init__(self, digits: str | None = None) -> None:
        self.digits = digits
        self.step: Effect | None = None
        self._is_taken = False

    def taken(self) -> str | None:
        """Return the digits for a checkpoint, once."""
        is_taken, self._is_taken = self._is_taken, True
        return None if is_taken else self.digits

    def taken_step(self) -> Effect | None:
        """Return the step that is to be recorded with a checkpoint, once."""
        step, self.step = self.step, None
        return step

    def has_begun(self, step: Effect) -> bool:
        """Tell whether it was this call that began a step."""
        return self.digits is not None and step.id == effect_id(bytes.fromhex(self.digits))


class OpenWorkspace:
    """One open workspace, as those see it who work in a ``session``, with the verbs that start most often.

    These are loaded without any of the others, which derive from it.
    """

    def __init__(self, state: WorkspaceState, *, session: str | None = None) -> None:
        self._state = state
        self._session = session
        self.proposal: Proposal = Proposal()
        # The context that was last looked at, as it is within the session.
        self._known: tuple[Context, Context] | None = None

    @property
    def _context(self) -> Context:
        base, known = self._state.context, self._known
        if known is None or known[0] is not base:
            context = base if self._session is None else base.replace(session=self._session)
            self._known = known = base, context
        return known[1]

    @property
    def _view(self) -> View:
        from lastgood.view import View  # lazily: a save refers to no checkpoint

        context = self._context
        return View(
            catalogue=context.catalogue,
            objects=context.engine_of,
            key=context.key,
            clock=context.clock,
            work=context.work_of,
            session=self._session_at_hand,
            gone_below=self._gone_below,
            left_elsewhere=self._left_elsewhere,
            commit=lambda revision: context.project.commit(context.root, revision),
        )

    def _use(self, context: Context) -> None:
        """Have all objects of the workspace go on with a context, each within its own session."""
        self._state.context = context.replace(session=self._state.context.session)

    def _gone_below(self) -> Sequence[HealthNote]:
        from lastgood.lease import gone_below

        context = self._context
        return gone_below(context.catalogue, to_text(context.root), machine=context.row.machine)

    def _left_elsewhere(self) -> Sequence[HealthNote]:
        from lastgood.lease import left_elsewhere

        return left_elsewhere(self._context)

    def _session_at_hand(self) -> str | None:
        from lastgood.lease import session_at_hand

        return session_at_hand(self._context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        within = "" if self._session is None else f", session={self._session!r}"
        return f"{type(self).__name__}({self.path!r}{within})"

    @property
    def path(self) -> str:
        """The workspace's real path."""
        return os.fsdecode(self._context.root)

    @property
    def store(self) -> str:
        """The store's real path."""
        return os.fsdecode(self._context.store)

    @property
    def settings(self) -> Settings:
        """What configuration decided."""
        return self._context.settings

    @property
    def remarks(self) -> tuple[HealthNote, ...]:
        """What was wrong with configuration files, or the store, when it was opened; `status` says it too."""
        return self._context.remarks

    @property
    def watching(self) -> bool:
        """Whether what changes is heard of here (``watch=True``), so that nothing else is looked at."""
        return self._state.is_watching

    def close(self) -> None:
        """Let go of the store; harmless when repeated."""
        self._state.release()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell an observer what happened, after the fact; return the call that ends it.

        An exception of an observer never harms the operation.
        """
        if not callable(observer):
            raise Usage(f"the observer is {type(observer).__name__}, not a call", hint="hand over a function")
        observers = self._state.observers
        observers.append(observer)
        return lambda: observers.remove(observer) if observer in observers else None

    # --- Saving ---

    def save(  # noqa: PLR0913 - the words of the interface, all but the message by keyword
        self,
        message: str = "",
        *,
        name: str | None = None,
        kind: Kind = "manual",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool | None = None,
        budget: float | None = None,
        pin: bool = False,
        actor: Actor | None = None,
        task: str | None = None,
        tokens: int | None = None,
        check: str | Sequence[str] | None = None,
        check_timeout: float | None = None,
        messages: Iterable[Mapping[str, object]] | None = None,
        transcript: PathLike | None = None,
        conversation_alone: bool = True,
    ) -> SaveReport:
        """Make a checkpoint; when it returns, the checkpoint survives a power cut.

        ``budget`` bounds the scan, in seconds; past it the checkpoint is partial. Of an unchanged workspace
        one is made if ``allow_empty``; unless that is given, a manual one of which something is said: a
        message, a name, metadata, a pin or a check. An agent is believed to be the ``actor`` in a session.
        ``task`` is a task's id, ``tokens`` how many were used, ``check`` a command whose verdict it carries.
        ``messages`` (or a host's ``transcript``) alone are no change unless ``conversation_alone``.
        """
        from lastgood.transaction import Draft

        draft = Draft(
            kind=kind,
            message=message,
            name=name,
            pinned=pin,
            metadata=pairs(metadata),
            task=task,
            moment=_MOMENTS.get(kind) if task else None,
            tokens=tokens,
        )
        if actor is not None:
            draft = draft.replace(actor=actor)
        order = None if check is None else order_of(check, timeout=check_timeout)
        # Rule S10: a check says something about a moment, as a name does.
        if allow_empty is None and order is not None and kind == "manual":
            allow_empty = True
        given = _given_conversation(messages, transcript, alone=conversation_alone)
        report = self._saved(draft, allow_empty=allow_empty, budget=budget, given=given)
        if order is None:
            return report
        return report.replace(checkpoint=self._judge(report.checkpoint, order, here=True).checkpoint)

    # --- Checking: what a command says about a checkpoint ---

    def check(self, ref: Ref, command: str | Sequence[str], *, timeout: float | None = None) -> CheckReport:
        """Run a command on what a checkpoint holds, and record whether it passed.

        A text goes to ``/bin/sh -c``, a list is a program with its arguments. It runs in the workspace
        if that equals the checkpoint, else in a copy aside; after ``timeout`` seconds (600 unless given)
        it is stopped, and with it all that it started.
        """
        order = order_of(command, timeout=timeout)
        return self._judge(self._view.resolve(ref), order)

    # --- Looking: nothing is changed by any of these ---

    def list(  # noqa: PLR0913 - each is a condition of its own, by keyword alone
        self,
        *,
        limit: int | None = None,
        kind: Kind | None = None,
        session: str | None = None,
        since: int | None = None,
        name: str | None = None,
        message: str | None = None,
        good: bool = False,
        guards: bool = True,
        all_workspaces: bool = False,
        brief: bool = False,
    ) -> tuple[Checkpoint, ...]:
        """Return checkpoints, newest first. ``since`` is in nanoseconds, ``name`` a glob, ``message`` whole.

        The glob is matched with the first line of the message where a checkpoint has no name.

        In ``brief`` they come as a list shows them, without the tasks of their progress and the paths
        that git showed: where there are thousands, that is most of the work.
        """
        if limit is not None:
            check_count(limit, least=0, what="the limit")
        expect(since, int, type(None), what="since when")
        expect(name, str, type(None), what="the name")
        expect(message, str, type(None), what="the message")
        expect(session, str, type(None), what="the session")
        if kind is not None and kind not in KINDS:
            raise Invalid(f"'{printable(str(kind))}' is no kind", hint="kinds: " + ", ".join(KINDS))
        query = Query(
            workspace_key=None if all_workspaces else self._context.key,
            limit=limit,
            kind=kind,
            session=None if session is None else self._session_meant(session),
            since=since,
            name=name,
            message=message,
            good=good,
            guards=guards,
            brief=brief,
        )
        return tuple(self._context.catalogue.find(query))

    def _session_meant(self, text: str) -> str:
        """Return the whole id of a session named by some digits; of another workspace it is given whole."""
        from lastgood.lease import session_of

        try:
            return session_of(self._context, text).id
        except NotFound:
            return text

    def stands_at(self) -> str | None:
        """Return the id of the checkpoint at which the workspace stands, which `@` means; None before any.

        That is the complete one, no guard, that was last saved or wholly restored to.
        """
        return self._context.catalogue.stands_at(self._context.key)

    def get(self, ref: Ref) -> Checkpoint:
        """Return the checkpoint that a REF names."""
        return self._view.resolve(ref)

    def previous(self, ref: Ref) -> Checkpoint | None:
        """Return the complete checkpoint before the one that a REF names, along its history."""
        return self._view.previous(self._view.resolve(ref))

    def entries(self, ref: Ref, *, folder: PathLike | None = None) -> tuple[ListedEntry, ...]:
        """Return every path that a checkpoint holds; of one ``folder`` what lies directly in it."""
        from lastgood.show import entries

        within = None if folder is None else inside(folder, self._context.root)
        return entries(self._context, self._view, self._view.resolve(ref), folder=within)

    def read(self, ref: Ref, path: PathLike, *, private: bool = True) -> bytes:
        """Return the content of one file of a checkpoint (of a link, its target).

        Who names a file gets it; with ``private=False`` one that is private is refused (`Unsafe`), as on the
        command line (rule S5).
        """
        from lastgood.show import content

        wanted = inside(path, self._context.root)
        return content(self._context, self._view, self._view.resolve(ref), path=wanted, private=private)

    def log(
        self,
        path: PathLike = ".",
        *,
        limit: int | None = None,
        guards: bool = False,
        text: str | bytes | None = None,
        private: bool = False,
    ) -> LogReport:
        """Return the checkpoints at which a path changed, newest first; guards too if asked for.

        Of a ``text`` those at which it is in a file of that path more or less often than before, as git's
        `log -S` means it; private files are searched only if asked for (rule S5). They come in brief, as
        `list` can return them. Raises `NotFound` if no checkpoint ever held the path, or the text in it.
        """
        from lastgood.path_log import path_log

        if limit is not None:
            check_count(limit, least=0, what="the limit")
        wanted = inside(path, self._context.root)
        return path_log(
            self._context,
            self._view,
            wanted,
            limit=limit,
            guards=guards,
            text=None if text is None else sought(text),
            private=private,
        )

    def blame(self, path: PathLike, *, private: bool = True) -> BlameReport:
        """Return who changed each line of a file last, as it is now; of a folder the same of each file.

        Lines that nobody saved yet are told as that. Who names a file gets it; with ``private=False`` one
        that is private is refused (`Unsafe`), as on the command line (rule S5). Raises `NotFound` for what
        is not there, or in no checkpoint.
        """
        from lastgood.blame import blame

        return blame(self._context, inside(path, self._context.root), private=private)

    def changed_paths(
        self, checkpoints: Sequence[Checkpoint], *, patient: bool = True
    ) -> dict[str, tuple[bytes, ...]]:
        """Return which paths changed at some checkpoints since the one before each, by id.

        They are given newest first, as `list` returns them. One that cannot be read tells of no path. Where
        bytes are being freed it waits for that; it raises `Busy` at once unless it is ``patient``.
        """
        from lastgood.path_log import changed_paths

        return changed_paths(self._context, self._view, checkpoints, patient=patient)

    def conversation(self, ref: Ref, *, redacted: bool = False) -> tuple[dict[str, object], ...]:
        """Return the messages that a checkpoint holds, exactly, or without known secrets.

        Of a host's transcript these are the messages to and from the model; `NotFound` if the
        checkpoint holds no conversation.
        """
        from lastgood.show import messages

        return messages(self._context, self._view.resolve(ref), redacted=redacted)

    def transcript(self, ref: Ref) -> bytes:
        """Return a checkpoint's conversation byte for byte as it was captured."""
        from lastgood.show import transcript

        return transcript(self._context, self._view.resolve(ref))

    def diff(
        self,
        a: Ref | None = None,
        b: Ref | None = None,
        *,
        paths: Sequence[PathLike] = (),
        patch: bool = True,
        private: bool = False,
        redacted: bool = False,
    ) -> DiffReport:
        """Compare two checkpoints, or one (if none is named, `@`) with the workspace.

        Of files that are private the patch says only that they differ, unless it is asked for (rule S5).
        ``redacted``: the patch is to be read and not applied, and shows no known secret (rule S17).
        """
        from lastgood import diff

        before = self._view.resolve("@" if a is None else a)
        chosen = scope(paths, self._context.root)
        if b is not None:
            after = self._view.resolve(b)
            return diff.between(
                self._context,
                self._view,
                before,
                after,
                paths=chosen,
                patch=patch,
                private=private,
                redacted=redacted,
            )
        return diff.with_workspace(
            self._context,
            self._view,
            before,
            paths=chosen,
            patch=patch,
            private=private,
            redacted=redacted,
        )

    def operations(self, *, can: Direction | None = None) -> tuple[Operation, ...]:
        """Return what was restored, deleted, undone and redone, newest first.

        ``can``: only what `undo`, or `redo`, would take one after the other; what they need may be freed.
        """
        if can is not None:
            from lastgood.undo import within_reach

            return within_reach(self._context, can)
        return tuple(self._context.catalogue.operations(self._context.key))

    def status(self) -> StatusReport:
        """Return where the workspace stands."""
        from lastgood.configuration import added_by_project
        from lastgood.status import status
        from lastgood.workspace.health import exposures, kept_edits, misplaced
        from lastgood.workspace.residence import Watching

        context = self._context
        report = status(context, self._view)
        exposed = (one for one in exposures(context.store) if one not in report.health)
        kept = kept_edits(context.store, [context.key])
        placed = misplaced(context.store, context.root)
        watching = Watching(context)
        return report.replace(
            health=(*report.health, *placed, *kept, *exposed),
            resident=watching.is_watched,
            resident_note=watching.note(),
            project_settings=added_by_project(self.path, environment=self._state.environment),
        )

    # --- What the verbs are made of ---

    def _saved(
        self, draft: Draft, *, allow_empty: bool | None, budget: float | None, given: GivenConversation | None
    ) -> SaveReport:
        from lastgood.save import save

        expect(allow_empty, bool, type(None), what="allow_empty")
        check_draft(draft)
        check_budget(budget)
        digits = self.proposal.taken()
        step = self.proposal.taken_step()
        if digits is not None or step is not None:
            draft = draft.replace(digits=digits, step=step)
        report = self._told(
            "saved",
            lambda: save(self._context, draft, allow_empty=allow_empty, budget=budget, given=given),
        )
        if not report.checkpoint.manifest.partial:
            self._state.settle()
        self._state.auto_maintenance.after_save(self._context)
        if report.created and report.checkpoint.manifest.previous is None:
            from lastgood.lease import begun_beside

            report = report.replace(notes=(*report.notes, *begun_beside(self._context)))
        return report

    def _judge(
        self,
        checkpoint: Checkpoint,
        order: CheckOrder,
        *,
        here: bool = False,
        commands: Commands | None = None,
    ) -> CheckReport:
        # Lazily: a save without a check has no use for processes.
        from lastgood.cancellation import check_cancelled
        from lastgood.check import check
        from lastgood.command import GuardedCommands
        from lastgood.workspace.scratch import in_copy

        return check(
            self._context,
            self._view,
            checkpoint,
            order=order,
            commands=commands or GuardedCommands(os.environ, tick=check_cancelled),
            aside=in_copy(self._context.store, name=os.path.basename(self._context.root) or b"copy"),
            here=here,
        )

    def _told(self, type: EventType, work: Callable[[], Report]) -> Report:
        began = self._context.clock.now() if self._state.observers else None
        try:
            report = _undelayed(work)
        except (LastgoodError, OSError) as fault:
            error = crowded(fault) or fault
            self._state.log("not %s in %s: %r", type, self._context.root, error)
            if isinstance(error, LastgoodError):
                self._tell("failed", error, began=began, attempted=type)
            if error is fault:
                raise
            raise error from fault
        self._state.log("%s in %s: %r", type, self._context.root, report, detail=type in _EVERYDAY)
        self._tell(type, report, began=began)
        return report

    def _tell(
        self,
        type: EventType,
        report: object,
        *,
        began: int | None = None,
        attempted: EventType | None = None,
    ) -> None:
        if not self._state.observers:
            return
        from lastgood.model.operation import Event

        event = Event(
            type=type,
            workspace=self.path,
            report=report,
            began=began,
            ended=self._context.clock.now(),
            attempted=attempted,
        )
        for observer in tuple(self._state.observers):
            try:  # noqa: SIM105 - contextlib costs start-up time
                observer(event)
            except Exception:  # noqa: BLE001, S110 - an observer's fault never harms the operation
                pass

    def _changed(self, work: Callable[[], Changed], *, type: EventType = "task_changed") -> Changed:
        """Do some of the work about the work, and tell of it, and of the checkpoint that came of it."""
        report = self._told(type, work)
        if report.saved is not None:
            self._tell("saved", report.saved)
            self._state.auto_maintenance.after_save(self._context)
        return report


def _undelayed(work: Callable[[], Report]) -> Report:
    """Do some work without waiting long for the interpreter where other threads are busy with it."""
    if _count() > count_disk_threads():
        from lastgood.cancellation import SHORT_SWITCH_INTERVAL

        with SHORT_SWITCH_INTERVAL:
            return work()
    if not gc.isenabled():
        return work()
    gc.disable()  # it makes no cycles, and in a large program each look for them takes long
    try:
        return work()
    finally:
        gc.enable()


def order_of(command: str | Sequence[str], *, timeout: float | None) -> CheckOrder:
    """Return a check to be made; `Usage` for what is no command or no number of seconds."""
    from lastgood.model.checkpoint import CHECK_TIMEOUT, CheckOrder

    words, shown = _read(command)
    return CheckOrder(words=words, shown=shown, timeout=_limit(CHECK_TIMEOUT if timeout is None else timeout))


def _limit(timeout: float) -> float:
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < float("inf"):
        return timeout
    raise Usage(f"the time limit of a check is {timeout!r}", hint="give a number of seconds above 0")


def _read(command: str | Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the words to run, and how they are shown."""
    if isinstance(command, str):
        words, shown = ("/bin/sh", "-c", command), command
    elif isinstance(command, (list, tuple)) and all(isinstance(word, str) for word in command):
        from shlex import join

        words, shown = tuple(command), join(command)
    else:
        raise Usage(f"{command!r} is no command", hint="give a text for the shell, or a list of words")
    if not shown.strip():
        raise Usage("the check command is empty", hint="name a command, for example: pytest -q")
    if any("\0" in word for word in words):
        raise Usage("the check command holds a NUL", hint="no argument of a program can")
    try:
        os.fsencode(shown)
    except UnicodeEncodeError:
        raise Usage("the check command is no Unicode text", hint="write it as UTF-8") from None
    return words, shown


def _given_conversation(
    messages: Iterable[Mapping[str, object]] | None, transcript: PathLike | None, *, alone: bool
) -> GivenConversation | None:
    if messages is None and transcript is None and alone:
        return None
    from lastgood.workspace.conversation import given_conversation  # lazily: a plain save has no use for it

    return given_conversation(messages, transcript, alone=alone)
