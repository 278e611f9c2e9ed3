"""Carrying out plans of work."""

from __future__ import annotations

from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lastgood.model.recovery import Choice
    from lastgood.model.running import RunObserver, RunReport
    from lastgood.model.workplan import WorkPlan
    from lastgood.workspace.paths import PathLike


class Runs(Door):
    """The verb that has work done by others."""

    def run(
        self,
        plan: PathLike | Mapping[str, object] | WorkPlan | Sequence[str],
        *,
        choice: Choice | None = None,
        rebase: bool = False,
        redo: Sequence[str] = (),
        done: Sequence[str] = (),
        observer: RunObserver | None = None,
        output: Callable[[bytes], object] | None = None,
    ) -> RunReport:
        """Carry out a plan of tasks in a session of its own, or go on with its run that did not finish.

        ``plan`` is a file's path, a document as a dict, a `WorkPlan`, or a list of words: one command.
        ``choice`` says what becomes of a run of the same plan that did not finish: ``continue`` (also
        without a choice), ``fresh`` or ``review``. ``rebase`` goes on with a plan that was edited since.
        ``redo`` names tasks whose irreversible command may be run again although nobody knows whether it
        had its effect, ``done`` tasks that somebody knows to have been done. ``observer`` is told what
        happens as it happens, output by lines and no more than anybody can follow; ``output`` gets
        every byte that the tasks' commands write. Asked to end by a signal, the run leaves its session
        to be continued, and the report says so; in the main thread SIGINT, SIGTERM, SIGHUP and SIGQUIT
        are taken for that. The same one again ends the task at once, a third time this process.

        Raises `Invalid` for a plan with faults, `Conflict` for one that was edited since or if another
        session lives, `Busy` if processes of an earlier runner do, `NotFound` if there is nothing to
        be reviewed.
        """
        from lastgood.workspace.running.hands import Hands
        from lastgood.workspace.running.run import run

        return run(
            self._as(Hands),
            plan,
            choice=choice,
            rebase=rebase,
            redo=redo,
            done=done,
            observer=observer,
            output=output,
        )
