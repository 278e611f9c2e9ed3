"""Verbs about the work itself: sessions, tasks, progress."""

from __future__ import annotations

from lastgood.cli.grammar import Argument, Option, Verb

_ID = Argument(name="ID")
_STARTED_OR_DONE = (Argument(name="ACTION", choices=("start", "done")), _ID)

WORK: tuple[Verb, ...] = (
    Verb(
        name="session",
        says="start, end, list, show or renew a session: one run of work over the workspace",
        about=(
            "start       hold the workspace; a second session is refused while this one lives\n"
            "end [ID]    make its last checkpoint and let go; a dead one, named, is given up\n"
            "list        every session of the workspace, newest first\n"
            "show [ID]   one session, and how far its work has come\n"
            "heartbeat   tell that it lives (saves and tasks do so too)\n"
            "\n"
            "A session is over when its owner's process is provably dead; without --owner-pid,\n"
            "24 hours after its last sign of life (session.expires_after). Processes that work\n"
            "in it name it by LASTGOOD_SESSION."
        ),
        arguments=(
            Argument(name="ACTION", choices=("start", "end", "list", "show", "heartbeat")),
            Argument(name="ID", required=False),
        ),
        options=(
            Option(name="goal", value="TEXT", says="what the session is to achieve"),
            Option(name="sprint", value="S", says="the sprint that it works on"),
            Option(name="owner-pid", value="PID", form="number", says="the process on whose life it depends"),
            Option(
                name="transcript", value="FILE", form="folder", says="capture the conversation from this file"
            ),
            Option(name="shared", says="beside others, holding nothing"),
            Option(name="force", says="take over from a session that lives"),
            Option(name="incomplete", says="end it without having finished, to be continued by `recover`"),
        ),
        examples=(
            ('lastgood session start --goal "migrate to v2" --owner-pid $$', "in a script"),
            ("lastgood session list", "what ran here, and how it ended"),
        ),
        codes=(0, 10, 11, 12, 13, 14),
    ),
    Verb(
        name="task",
        says="tell that a task starts, is done, failed or is skipped",
        about=(
            "The end of a task makes a checkpoint: `task:ID` names it, `before:task:ID` the last\n"
            "one before the task started. Each start counts as an attempt."
        ),
        arguments=(Argument(name="ACTION", choices=("start", "done", "fail", "skip")), _ID),
        options=(
            Option(name="risky", says="make a checkpoint before it starts"),
            Option(name="irreversible", says="the same, and mark it as what no restore takes back"),
            Option(name="reason", value="TEXT", says="why it failed"),
        ),
        examples=(
            ("lastgood task start T01", "one more attempt"),
            ("lastgood task done T01", "and its checkpoint"),
            ("lastgood restore before:task:T01 --dry-run", "what going back would do"),
        ),
        codes=(0, 3, 12, 13, 14),
        module="task",
    ),
    Verb(
        name="feature",
        says="tell which feature is being built, or that it is complete",
        about="The checkpoint of a complete feature is kept for ever.",
        arguments=_STARTED_OR_DONE,
        examples=(("lastgood feature done login", "the feature and its checkpoint"),),
        codes=(0, 3, 12, 13, 14),
        module="task",
    ),
    Verb(
        name="sprint",
        says="tell that a sprint starts or is over",
        arguments=_STARTED_OR_DONE,
        examples=(("lastgood sprint start S02", "where the work stands from now on"),),
        codes=(0, 3, 12, 13, 14),
        module="task",
    ),
    Verb(
        name="progress",
        says="say or show how far the work has come",
        about=(
            "set    what is given; everything else stays. Another iteration makes a checkpoint\n"
            "show   goal, position, tasks, features and state (the default)"
        ),
        arguments=(Argument(name="ACTION", required=False, choices=("set", "show")),),
        options=(
            Option(name="goal", value="TEXT", says="what it is all for"),
            Option(name="phase", value="P", says="the phase of the workflow"),
            Option(name="iteration", value="N", form="number", says="the iteration"),
            Option(name="step", value="N/M", says="the step, of how many"),
            Option(
                name="artifact",
                value="PATH",
                form="folder",
                repeated=True,
                says="what is being worked on, in the place of what was said before",
            ),
            Option(name="no-artifacts", says="nothing is being worked on any more"),
            Option(name="state", value="JSON", says="an object laid over the one kept; null removes a key"),
        ),
        examples=(
            ("lastgood progress set --phase Construction --iteration 3 --step 12/15", "where it stands"),
            ("lastgood progress set --state '{\"retries\": 2}'", "whatever else is worth keeping"),
            ("lastgood progress", "how far it has come"),
        ),
        codes=(0, 2, 12, 13, 14),
    ),
)
