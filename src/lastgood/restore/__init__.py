"""Restores: a plan says what becomes of each path, an execution carries it out.

- What is wanted: `restore.py`, which `undo.py` above asks too; a step a path by `plan.py`, `merge.py` and
  `only_agent.py`, anew by `steps.py`; what comes back beside files, `parts/`.
- One plan on its way: `PlanExecution` in `execution.py` takes the guard, opens the journal, has the applier
  apply the steps, proves and records what came of them; `finish.py` has those of what was interrupted.
- Files: `DescriptorApplier` in `apply.py` is the door to a workspace, an `Application` one turn of steps
  through it. That changes directories and permissions; files and links are changed by `Chunk` and
  `Displaced` in `displaced.py` alone, and what those left in a crash by `leftovers.py`. What somebody may
  still be writing to goes to `kept.py`.
- Descriptors: a `Site` (`site.py`) owns the directories and what is closed late, a `Chunk` the files that it
  writes.
- `look.py` reads what paths hold, and lets go what came out of them.
"""
