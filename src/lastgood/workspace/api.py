"""The verbs, synchronous: each is one call of an action, told to the observers afterwards."""

from __future__ import annotations

from lastgood.workspace.running.verb import Runs
from lastgood.workspace.verbs.keeping import Keeps
from lastgood.workspace.verbs.looking import Looks
from lastgood.workspace.verbs.neighbours import Neighbours
from lastgood.workspace.verbs.recording import Records
from lastgood.workspace.verbs.recovering import Recovers
from lastgood.workspace.verbs.reporting import Reports
from lastgood.workspace.verbs.restoring import Restores
from lastgood.workspace.verbs.working import Works


class Workspace(Works, Looks, Restores, Recovers, Keeps, Neighbours, Records, Reports, Runs):
    """A folder whose states are kept, and can be had back.

    Made by `lastgood.open`; a context manager. One instance may be used by several threads. Failures
    are the exceptions of `lastgood.errors`.

    >>> with lastgood.open(project, store=store) as workspace:
    ...     before = workspace.save("before the refactor").checkpoint
    ...     (project / "notes.txt").write_text("ruined")
    ...     report = workspace.restore(before.id)
    ...     report.omissions
    6
    ()
    """
