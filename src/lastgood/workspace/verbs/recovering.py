"""Going on after a crash."""

from __future__ import annotations

from lastgood.errors import Usage
from lastgood.workspace.arguments import check_count, expect
from lastgood.workspace.verbs.door import Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lastgood.model.effect import Effect
    from lastgood.model.recovery import Choice, RecoverReport


class Recovers(Door):
    """Verbs for the day after."""

    def recover(
        self,
        ref: str | None = None,
        *,
        choice: Choice | None = None,
        roll_back: bool = False,
        owner_pid: int | None = None,
        force: bool = False,
    ) -> RecoverReport:
        """Finish an interrupted restore, then continue the run that died, end it, or only look.

        ``ref`` names a checkpoint or a session; ``choice`` is ``continue``, ``fresh`` or ``review``.
        Without one the named or the only dead run continues, under ``owner_pid`` or else by heartbeat.
        Its files stay as they are; ``roll_back`` takes them and its progress back to the checkpoint, or
        an interrupted restore back. With nothing dead it reports the position and reloads artifacts
        that are missing, unless another session is at work. ``force`` brings files back beside such a
        session, and takes over from one that holds the workspace. Raises `Ambiguous` if several runs
        died, `Conflict` if one is not dead, or cannot go on beside another.
        """
        from lastgood.actions.recover import recover
        from lastgood.model.recovery import CHOICES

        expect(ref, str, type(None), what="what to recover")
        if choice is not None and choice not in CHOICES:
            raise Usage(f"{choice!r} is no choice", hint="choices: " + ", ".join(CHOICES))
        if owner_pid is not None:
            check_count(owner_pid, least=1, what="the owner's process number")
        return recover(
            self._context,
            self._view,
            ref=ref,
            choice=choice,
            roll_back=roll_back,
            owner_pid=owner_pid,
            force=force,
        )

    def steps(self, session: str | None = None) -> tuple[Effect, ...]:
        """Return the steps of the work in the order of their start: of one session, or of all.

        Whoever goes on with a run sees by them what is done, and what nobody saw the end of.
        """
        expect(session, str, type(None), what="the session")
        return tuple(self._context.work.effects(self._context.key, session=session))
