"""Verbs about the work itself: sessions, tasks, progress."""

from __future__ import annotations

from lastgood.cli.grammar import Argument, Option, Verb
from lastgood.model.run import ON_FAILURE

HOSTS = ("claude-code", "codex", "gemini-cli", "opencode", "cline", "cursor")
# What people call some of them.
_CALLED = {"claude": "claude-code", "claude_code": "claude-code", "gemini": "gemini-cli"}
_IN_PROJECT = Option(name="project", says="in the settings of this folder, which others may share")
_PRINT = Option(name="print", says="print what the file would hold, and write nothing")
_ID = Argument(name="ID")
_STARTED_OR_DONE = (Argument(name="ACTION", choices=("start", "done")), _ID)

WORK: tuple[Verb, ...] = (
    Verb(
        name="run",
        says="carry out a plan of tasks, or one command, with a way back",
        about=(
            "Each task runs by itself, in a session that holds the workspace: a checkpoint before\n"
            "it and after it, and its check decides whether it is done. What fails is tried again,\n"
            "taken back, left or ends the run, as the plan says. After an interruption or a crash\n"
            "the same command goes on: what is done is not done again, and what may have happened\n"
            "is told. A plan that has finished is not carried out again without --again.\n"
            "\n"
            "PLAN is a YAML or JSON file (--schema prints what may stand in it). With -- COMMAND\n"
            "the exit code is the command's own, 128 and the signal's number if one killed it; it\n"
            "has the terminal, and its output is not recorded then, or else what is piped in.\n"
            "With --json each line is a document: what happened, and at the end the report."
        ),
        arguments=(Argument(name="PLAN", form="folder", required=False),),
        options=(
            Option(name="continue", says="go on with the run that did not finish"),
            Option(name="fresh", says="end that run and start anew from the present files"),
            Option(name="again", says="carry out a plan that has finished before, all of it"),
            Option(name="review", says="say where that run stood, and change nothing"),
            Option(name="rebase", says="the plan was edited since: go on with what it says now, task by ID"),
            Option(
                name="redo",
                value="TASK",
                repeated=True,
                says="an irreversible task that may have happened: do it again",
            ),
            Option(
                name="done", value="TASK", repeated=True, says="the same: it did happen, do not repeat it"
            ),
            Option(
                name="check", value="CMD", says="of a command: run this in a shell to see whether it is done"
            ),
            Option(
                name="retries",
                value="N",
                form="number",
                says="of a command: try it so many times more (default: 0)",
            ),
            Option(
                name="timeout", value="T", form="duration", says="of a command: how long one attempt may take"
            ),
            Option(
                name="on-failure",
                value="P",
                choices=ON_FAILURE,
                says="of a command: what becomes of the files of a failed attempt; stop unless given",
            ),
            Option(name="goal", value="TEXT", says="of a command: what it is for"),
            Option(
                name="transcript",
                value="FILE",
                form="folder",
                says="keep the conversation out of this file, where it is not found by itself",
            ),
            Option(name="schema", says="print the JSON Schema of plans, and do nothing"),
        ),
        command=True,
        examples=(
            ("lastgood run plan.yaml", "carry it out, or go on with it"),
            ("lastgood run plan.yaml --review", "where it stood when it was interrupted"),
            ("lastgood run plan.yaml --again", "once more, though it has finished"),
            ('lastgood run -- claude -p "fix the tests"', "one command, and a way back from it"),
            (
                "lastgood run --check make --retries 2 --on-failure rollback -- ./agent.sh",
                "until it is good",
            ),
        ),
        codes=(0, 2, 3, 10, 12, 13, 14, 15, 17, 130, 143),
    ),
    Verb(
        name="install",
        says="have a coding agent's host make checkpoints by itself",
        about=(
            "Enters hooks into the settings of HOST, the user's unless --project is given; what\n"
            "else they say stays as it is, byte for byte. From then on a checkpoint is made\n"
            "where a session begins, before a prompt (of what you changed), before commands that\n"
            "may take away more than they say, after each turn and before the conversation is\n"
            "compacted. Repeated, it changes nothing but the way to a lastgood that has moved."
        ),
        arguments=(Argument(name="HOST", choices=HOSTS, spellings=_CALLED),),
        options=(
            _IN_PROJECT,
            _PRINT,
            Option(name="check", says="say whether they are there, and write nothing"),
        ),
        examples=(
            ("lastgood install claude-code", "for all projects"),
            ("lastgood install claude-code --project", "for this one, in .claude/settings.json"),
            ("lastgood install gemini-cli --print", "what would be in the file"),
        ),
    ),
    Verb(
        name="uninstall",
        says="take out of a host's settings what install entered",
        arguments=(Argument(name="HOST", choices=HOSTS, spellings=_CALLED),),
        options=(_IN_PROJECT, _PRINT),
        examples=(("lastgood uninstall claude-code", "no more checkpoints by itself"),),
    ),
    Verb(
        name="hook",
        says="be told by a host what happens in it; what install enters calls this",
        about=(
            "Reads the host's JSON from standard input, and answers as the host expects. It ends\n"
            "with 0 whatever happens: where no checkpoint could be made, the host shows why.\n"
            "Without HOST that is told from what it says."
        ),
        arguments=(
            Argument(name="HOST", choices=HOSTS, required=False),
            Argument(name="EVENT", required=False),
        ),
        options=(
            Option(name="block", says="keep a risky command from running if no checkpoint could be made"),
            Option(name="tools", says="make checkpoints before and after calls of tools too"),
        ),
        examples=(("lastgood hook claude-code", "as the host does"),),
        codes=(0,),
        hidden=True,
    ),
    Verb(
        name="mcp",
        says="serve an agent's host the verbs as MCP tools",
        about=(
            "Speaks the Model Context Protocol on standard input and output, for as long as the host\n"
            "that started it wants. Its tools are the verbs that look, save and bring back, in the\n"
            "folder that the host has open (of several the one that a call names), else in this one; they\n"
            "take and answer what the Python interface and --json do. What changes files asks a person\n"
            "through the host, or needs a plan's id, or confirm=true. Checkpoints are resources too:\n"
            "checkpoint://REF, checkpoint://REF/PATH. Needs: pip install 'lastgood[mcp]'."
        ),
        examples=(
            ("lastgood mcp", "as the host starts it"),
            ("lastgood -C ~/project mcp", "for one project, whatever the host has open"),
        ),
        codes=(0, 17, 130, 143),
    ),
    Verb(
        name="session",
        says="start, end, list, show or renew a session: one run of work",
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
        codes=(0, 3, 10, 11, 12, 13, 14),
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
