"""The verbs: one table that the reader, the help, the completion and the documentation are made from."""

from __future__ import annotations

from lastgood.cli.grammar import (
    DRY_RUN,
    FORCE_UNDO,
    GLOBAL_OPTIONS,
    MERGE_UNDO,
    PLAN,
    PRIVATE,
    REF,
    RESTORING,
    TIMEOUT,
    Argument,
    Option,
    Verb,
)
from lastgood.model.checkpoint import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["GLOBAL_OPTIONS", "all_verbs", "spellings", "verb_of"]


def verb_of(word: str) -> Verb | None:
    """Return the verb that a word names; the groups behind its own are not loaded."""
    for group in _groups():
        for verb in group:
            if word == verb.name or word in verb.spellings:
                return verb
    return None


def all_verbs() -> tuple[Verb, ...]:
    """Return every verb, in the order of the overview."""
    return tuple(verb for group in _groups() for verb in group)


def spellings() -> dict[str, Verb]:
    """Return every word that names a verb."""
    words = {}
    for verb in all_verbs():
        words[verb.name] = verb
        for spelling in verb.spellings:
            words[spelling] = verb
    return words


def _groups() -> Iterator[tuple[Verb, ...]]:
    yield FILES
    from lastgood.cli.table_of_work import WORK

    yield WORK
    from lastgood.cli.table_of_store import STORE

    yield STORE


# What another system calls some kinds, so that its users can go on saying so.
_KINDS_THERE = {
    "session_start": "session-start",
    "task_complete": "task",
    "sprint_complete": "sprint",
    "error_recovery": "error",
}

# --- Verbs that save, look and restore ---

FILES: tuple[Verb, ...] = (
    Verb(
        name="save",
        says="make a checkpoint",
        about=(
            "Keeps every file of the workspace that is not ignored. When it returns, the\n"
            "checkpoint survives a power cut. If nothing has changed, and no message, name or check\n"
            "is given, none is made and the last one is named."
        ),
        spellings=("create",),
        arguments=(Argument(name="MESSAGE", required=False),),
        options=(
            Option(name="message", short="m", value="TEXT", says="the message, as git takes it"),
            Option(name="name", value="NAME", says="give it a name to find it by (kept for ever)"),
            Option(
                name="kind",
                value="K",
                choices=KINDS,
                spellings=_KINDS_THERE,
                says="say what occasion this is (default: manual)",
            ),
            Option(name="meta", value="KEY=VALUE", form="pair", repeated=True, says="attach a note"),
            Option(name="allow-empty", says="make one although nothing has changed"),
            Option(
                name="budget", value="T", form="duration", says="stop reading after this time, for example 2s"
            ),
            Option(name="pin", says="never let retention remove it"),
            Option(name="check", value="CMD", says="run this in a shell, and record whether it passed"),
            TIMEOUT,
            Option(
                name="transcript", value="FILE", says="keep the conversation too, out of the file of its host"
            ),
            Option(name="task", value="ID", says="say which task it is for"),
            Option(name="tokens", value="N", form="number", says="record how many tokens were used so far"),
        ),
        examples=(
            ('lastgood save "before the refactor"', "a checkpoint with a message"),
            ("lastgood save --name parser-works --pin", "one to come back to by name"),
            ('lastgood save --check "pytest -q"', "one that says whether it is good"),
        ),
        codes=(0, 3, 14, 15),
    ),
    Verb(
        name="watch",
        says="make checkpoints by itself whenever the files come to rest",
        about=(
            "For work that nothing else makes checkpoints of: an editor, an agent without hooks.\n"
            "Makes a checkpoint when nothing has changed for two seconds (--rest), at most every\n"
            "ten; while changes go on, one at each auto.interval. Looks only where the system\n"
            "told of a change, so that it costs nothing while nothing happens. Belongs to the\n"
            "session at hand, if there is one. Ctrl-C, SIGTERM or SIGHUP ends it, after a last\n"
            "checkpoint. With --json each checkpoint is a line, the document of `save`."
        ),
        options=(
            Option(
                name="rest",
                value="T",
                form="duration",
                says="how long nothing must have changed (default: 2s)",
            ),
            Option(name="background", says="go on in the background, until nothing happens for watch.idle"),
            Option(name="stop", says="end the process that watches, in the background or a terminal"),
        ),
        examples=(
            ("lastgood watch", "in a terminal of its own"),
            ("lastgood watch --background", "without a terminal"),
            ("lastgood watch --rest 30s", "the same, more seldom"),
        ),
        codes=(0, 10, 14, 17),
    ),
    Verb(
        name="list",
        says="list checkpoints, newest first",
        about=(
            "With words, only those that have all of them, in whatever case, in their name, message,\n"
            "task, kind, date or id, or in a path that changed there (`list price`, `list '*.py'`).\n"
            "`@` marks where you are. An agent's turn is the state before or after its prompt, as the\n"
            "row says. What a run saves where it begins and ends has a row only if its files are not\n"
            "those of another row; --all, --kind, --session and --name leave out nothing, nor does --json.\n"
            "In a pipe nothing is cut, and a row is one line."
        ),
        spellings=("ls",),
        arguments=(Argument(name="WORD", required=False, many=True),),
        options=(
            Option(name="grep", short="g", value="WORD", repeated=True, says="the same as a WORD"),
            Option(name="limit", short="n", value="N", form="number", says="at most N"),
            Option(name="kind", value="K", choices=KINDS, spellings=_KINDS_THERE, says="only this kind"),
            Option(name="session", value="S", says="only this session"),
            Option(name="since", value="T", form="moment", says="only since then: 2h, 7d, 2026-11-21T10:00"),
            Option(
                name="name",
                value="GLOB",
                says="only names that match, or messages where there is no name: '*fix*'",
            ),
            Option(name="good", says="only those whose check passed"),
            Option(name="all", says="also what restores saved first, and all that runs saved"),
            Option(name="all-workspaces", says="of every workspace in the store"),
        ),
        examples=(
            ("lastgood list --limit 20", "the newest twenty"),
            ("lastgood list wallet", "what has that in its message"),
            ("lastgood list --since 2h --kind manual", "what was saved by hand lately"),
        ),
        codes=(0,),
    ),
    Verb(
        name="show",
        says="show what a checkpoint holds",
        arguments=(Argument(name="REF", form="ref", required=False),),
        options=(
            Option(name="files", says="list every path"),
            Option(name="conversation", says="print the conversation, known secrets left out"),
            Option(name="stat", says="what changed since the checkpoint before it"),
        ),
        examples=(
            ("lastgood show @", "the one you stand at"),
            ("lastgood show parser-works --files", "all its paths"),
        ),
        codes=(0, 10, 11),
    ),
    Verb(
        name="diff",
        says="compare checkpoints, or one with the workspace",
        about=(
            "Without a REF: the checkpoint you stand at (@) against the workspace. With one: that\n"
            "checkpoint against the workspace. With two: the first against the second. Paths\n"
            "come after them, or alone.\n"
            "`git apply` takes the patch; of binary files, and of those over 8 MiB, it\n"
            "only says that they differ."
        ),
        arguments=(
            Argument(name="A", form="ref", required=False),
            Argument(name="B", form="ref", required=False),
            Argument(name="PATH", form="path", required=False, many=True),
        ),
        options=(
            Option(name="stat", says="lines added and removed per file"),
            Option(name="name-status", says="one letter and path per file"),
            PRIVATE,
            Option(
                name="previous",
                value="REF",
                form="ref",
                says="what REF changed: the one before it against it",
            ),
            Option(name="since-start", says="from the start of the session to the workspace"),
        ),
        paths=True,
        examples=(
            ("lastgood diff", "what has changed since the latest checkpoint"),
            ("lastgood diff README.md", "in this file only"),
            ("lastgood diff @~1 @ -- src", "between the last two, in src only"),
        ),
        codes=(0, 3, 10, 11),
    ),
    Verb(
        name="log",
        says="list when a path changed, or when a text came or went",
        about=(
            "Newest first, with the size that the file had then and the lines that came and\n"
            "went since the checkpoint before. Of a folder: whatever changed in it. Without\n"
            "PATH and TEXT all checkpoints, as `list` shows them.\n"
            "With -S TEXT, as in git: those at which TEXT is in a file more or less often than\n"
            "before; in any file, or in PATH. Private files only with --private."
        ),
        arguments=(Argument(name="PATH", form="held", required=False),),
        options=(
            Option(name="text", short="S", value="TEXT", says="only where TEXT came or went"),
            Option(name="limit", short="n", value="N", form="number", says="at most N"),
            Option(name="all", says="those too that restores make first"),
            PRIVATE,
        ),
        examples=(
            ("lastgood log src/app.py", "when this file changed"),
            ("lastgood log -S 'def total('", "when this function came, and went"),
            ("lastgood cat ckpt_1a2b3c4d src/app.py", "its bytes at one of these"),
        ),
        codes=(0, 10, 16),
    ),
    Verb(
        name="blame",
        says="tell who changed each line of a file: an agent, a tool, or you",
        about=(
            "Of each line, as it is now, the checkpoint that it came with, who changed it, when, and\n"
            "for what: the prompt, the tool's call, the task. Of a folder the same of each file.\n"
            "Who it was is known from what made the checkpoint: a turn of an agent's host, or what\n"
            "you saved on a terminal. Where two worked at once, or the checkpoints between are gone,\n"
            "it says `unknown`. Renamed files are followed; a file that is no text is told as a whole."
        ),
        arguments=(Argument(name="PATH", form="held"),),
        options=(PRIVATE,),
        examples=(
            ("lastgood blame src/app.py", "line by line"),
            ("lastgood blame src", "who changed each file in it last"),
        ),
        codes=(0, 10, 15),
    ),
    Verb(
        name="cat",
        says="print a file as a checkpoint holds it",
        about=(
            "Exactly its bytes; of a link, its target. On a terminal, control characters are escaped.\n"
            "Without a REF it is as in the last checkpoint (@), or as of the newest that holds it."
        ),
        arguments=(
            Argument(name="REF", form="ref", required=False),
            Argument(name="PATH", form="held"),
        ),
        options=(PRIVATE,),
        examples=(
            ("lastgood cat @good src/app.py", "as it was when the check passed"),
            ("lastgood cat @{2h} notes.md > notes.old", "aside, as it was two hours ago"),
        ),
        codes=(0, 10, 11, 15),
    ),
    Verb(
        name="restore",
        says="bring back a checkpoint, whole or some paths",
        about=(
            "Files, conversation and progress come back together; paths mean files only.\n"
            "First saves everything as it is now, so that `lastgood undo` takes the restore back.\n"
            "Files that were made since are deleted, once that save holds them; ignored files\n"
            "that no checkpoint holds are left alone. HEAD and the index of a git repository\n"
            "stay as they are unless --git is given; branches always do.\n"
            "On a terminal it shows the plan and asks; elsewhere it needs --yes or --plan ID.\n"
            "Without a REF there is a list to pick from on a terminal. There a path alone is\n"
            "meant as in the last checkpoint, or in the newest that holds it, and `2h`\n"
            "as `@{2h}`. A workspace whose folder is gone is made again."
        ),
        spellings=("rollback",),
        arguments=(
            Argument(name="REF", form="ref", required=False),
            Argument(name="PATH", form="path", required=False, many=True),
        ),
        options=(
            *RESTORING,
            Option(
                name="only-agent",
                says="take back what one session's agent changed (since REF, if given); keep the rest",
            ),
            Option(name="session", value="S", says="what it did in this session (default: in the last)"),
        ),
        paths=True,
        examples=(
            ("lastgood restore", "pick from a list (on a terminal)"),
            ("lastgood restore src/app.py", "one file or folder, as it was saved last"),
            ("lastgood restore src/app.py 1h", "the same, as it was an hour ago"),
            ("lastgood restore @ src/app.py", "one file, as it was where you stand"),
            ("lastgood restore @", "everything, as it was where you stand"),
            ("lastgood restore before-refactor", "everything, as it was at a checkpoint"),
            ("lastgood restore @ --dry-run", "what would happen"),
            ("lastgood restore @~3 --to /tmp/older", "a copy aside"),
            ("lastgood restore @~3 --merge", "take back all since, but unsaved edits"),
            ("lastgood restore --only-agent", "take back what the agent did, not you"),
            ("lastgood restore @ --only progress", "no files, only how far the work had come"),
        ),
        codes=(0, 2, 3, 10, 11, 13, 14, 15),
    ),
    Verb(
        name="rewind",
        says="go back to before the Nth last turn or run (default 1)",
        about=(
            "Like `restore`, counted instead of named: to the state before the Nth last turn of an\n"
            "agent, a prompt and all that it did for it. A turn counts if it changed a file. Where\n"
            "there are no turns, to before the Nth last `run` that changed one. What was changed beside\n"
            "them goes too, and is named first; with --only-agent it stays, as `restore --merge` would\n"
            "keep it. Where there are no runs either, N saved states back: a checkpoint whose files are\n"
            "those of the one after it does not count, nor does what restores saved first.\n"
            "Without N there is a list to pick from on a terminal. With PATHs only these go back."
        ),
        arguments=(
            Argument(name="N", form="number", required=False),
            Argument(name="PATH", form="path", required=False, many=True),
        ),
        options=(
            *RESTORING,
            Option(
                name="only-agent", says="take back what agents changed in these turns or runs; keep the rest"
            ),
        ),
        paths=True,
        examples=(
            ("lastgood rewind --dry-run", "what one step back would do"),
            ("lastgood rewind 2", "take back the last two turns, or runs"),
            ("lastgood rewind 2 src", "the same, in this folder only"),
            ("lastgood rewind 2 --only-agent", "only what agents changed in them"),
        ),
        codes=(0, 2, 3, 10, 13, 14, 15),
    ),
    Verb(
        name="undo",
        says="take back the last restore, delete or prune",
        about=(
            "On a terminal it asks where checkpoints were made since the restore that it takes back,\n"
            "where it deletes more than twenty files or half of them, right after another undo, and\n"
            "with --force. What came of a run is taken back by `restore` or `rewind`."
        ),
        options=(
            Option(name="list", says="list what can be taken back"),
            DRY_RUN,
            PLAN,
            FORCE_UNDO,
            MERGE_UNDO,
            Option(name="yes", short="y", says="do not ask"),
        ),
        examples=(
            ("lastgood undo", "take back the last one"),
            ("lastgood undo --merge", "the same, and keep what was changed since"),
            ("lastgood undo --dry-run", "what that would do"),
            ("lastgood undo --list", "what there is"),
        ),
        codes=(0, 3, 10, 13, 14),
    ),
    Verb(
        name="redo",
        says="do again what the last undo took back",
        about=(
            "On a terminal it asks where checkpoints were made since that undo, where it deletes more\n"
            "than twenty files or half of them, and with --force."
        ),
        options=(
            Option(name="list", says="list what can be done again"),
            DRY_RUN,
            PLAN,
            FORCE_UNDO,
            MERGE_UNDO,
            Option(name="yes", short="y", says="do not ask"),
        ),
        examples=(("lastgood redo", "do it again"),),
        codes=(0, 3, 10, 13, 14),
        module="undo",
    ),
    Verb(
        name="check",
        says="run a command on a checkpoint, and record whether it passed",
        about=(
            "Runs in the workspace if that equals the checkpoint, else in a copy aside, with\n"
            "LASTGOOD_CHECKPOINT set and no lock held. The verdict counts only if what was\n"
            "checked is still what the checkpoint holds. `@good` is the newest that passed.\n"
            "Ends with 3 if the command failed, or does not count."
        ),
        arguments=(REF,),
        options=(TIMEOUT,),
        command=True,
        examples=(
            ("lastgood check @ -- pytest -q", "is the last checkpoint good?"),
            ("lastgood check @~3 --timeout 30m -- make test", "in a copy of an older one"),
        ),
        codes=(0, 2, 3, 10, 11),
    ),
    Verb(
        name="recover",
        says="finish what was interrupted, and go on where the work stood",
        about=(
            "First finishes an interrupted restore. Then finds the run that died, says where it\n"
            "stood, and goes on with it: its session is active again, finished tasks stay done, a\n"
            "task that was running waits to be done again, and steps of which nobody saw the end\n"
            "are named. What --rollback takes back waits until somebody goes on with it; with\n"
            "--continue that is now. REF is a checkpoint, a session or its goal. On a terminal it\n"
            "asks; elsewhere a REF, or the only run that died, goes on; of one whose owner may live\n"
            "it has to be said what becomes of it. With nothing dead it tells the position of REF or\n"
            "of where the workspace stands (`@`), and brings back artifacts that are missing there."
        ),
        spellings=("resume",),
        arguments=(Argument(name="REF", form="ref", required=False),),
        options=(
            Option(name="continue", says="go on with the run that died, files as they are"),
            Option(name="fresh", says="end the run that died, and start anew from the present files"),
            Option(name="review", says="only say where it stood"),
            Option(
                name="rollback",
                says="take back: an interrupted restore; else files and progress to before what the run"
                " left unfinished, or to REF",
            ),
            Option(name="plan", value="ID", says="consent to a plan that takes very many files away"),
            Option(
                name="owner-pid",
                value="PID",
                form="number",
                says="the session lives as long as this process (default: who is above its verbs)",
            ),
            Option(
                name="force",
                says="bring files back although another session is at work, and take over from it",
            ),
        ),
        examples=(
            ("lastgood recover", "after a crash"),
            ("lastgood recover --rollback", "take back what is unfinished"),
            ("lastgood recover --review", "only look"),
        ),
        codes=(0, 2, 3, 10, 11, 13, 14),
    ),
    Verb(
        name="status",
        says="show where you are, and what has changed since",
        options=(
            Option(name="ignored", says="what rules leave out of checkpoints: the topmost paths"),
            Option(
                name="verbose", short="v", says="also what seldom changes: store, durability, health, git"
            ),
        ),
        examples=(("lastgood status", "where things stand"),),
        codes=(0,),
    ),
)
