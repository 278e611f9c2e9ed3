"""Arguments and options that several verbs have."""

from __future__ import annotations

from lastgood.cli.grammar import Argument, Option
from lastgood.model.part import SCOPES

GLOBAL_OPTIONS: tuple[Option, ...] = (
    Option(
        name="directory",
        short="C",
        value="DIR",
        form="folder",
        says="work on this workspace instead of looking for one",
    ),
    Option(name="store", value="DIR", form="folder", says="keep and find checkpoints here"),
    Option(name="allow-root", says="accept a home, system or temporary folder as workspace"),
    Option(
        name="set",
        value="KEY=VALUE",
        form="pair",
        repeated=True,
        says="decide a setting of `lastgood config` for this call",
    ),
    Option(name="json", says="print one JSON document"),
    Option(name="quiet", short="q", says="print only what was asked for"),
    Option(name="help", short="h", says="explain, and do nothing"),
)

REF = Argument(name="REF", form="ref")
YES = Option(name="yes", short="y", says="do not ask (without a terminal, this or --plan is needed)")
DRY_RUN = Option(name="dry-run", short="n", says="show the plan and its id, change nothing")
TIMEOUT = Option(
    name="timeout", value="T", form="duration", says="stop the check after this time (default: 10m)"
)
FORCE_UNDO = Option(name="force", says="also where files have changed since (a guard is kept)")
MERGE_UNDO = Option(name="merge", says="keep what has changed since, file by file")
RESTORING = (
    Option(
        name="only",
        value="SCOPE",
        choices=SCOPES,
        repeated=True,
        says="bring back only this (without it: files, conversation and progress)",
    ),
    Option(name="git", says="put HEAD and the index back too; no branch is moved"),
    Option(
        name="to",
        value="DIR",
        form="folder",
        says="write to a new or empty folder, leave the workspace alone",
    ),
    DRY_RUN,
    YES,
    Option(name="plan", value="ID", form="plan", says="carry out exactly the plan that a dry run showed"),
    Option(name="merge", says="keep what has changed since the base, file by file"),
    Option(name="base", value="REF", form="ref", says="what --merge goes by (default: @)"),
    Option(
        name="conflict",
        value="C",
        choices=("ours", "theirs", "markers"),
        says="where both changed: keep it as it is now, take it as it was, or mark it",
    ),
    Option(name="discard", says="go on although something that would be lost cannot be kept"),
    Option(name="force", says="go on although another session is at work"),
)
