"""The verbs: one table that the reader, the help, the completion and the documentation are made from."""

from __future__ import annotations

from lastgood.cli.grammar import Argument, Option, Verb
from lastgood.model.checkpoint import KINDS

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
    Option(name="json", says="print one JSON document"),
    Option(name="quiet", short="q", says="print only what was asked for"),
    Option(name="help", short="h", says="explain, and do nothing"),
)

_REF = Argument(name="REF", form="ref")
_YES = Option(name="yes", short="y", says="do not ask (without a terminal, this or --plan is needed)")
_DRY_RUN = Option(name="dry-run", short="n", says="show the plan and its id, change nothing")
_FORCE_UNDO = Option(name="force", says="also where files have changed since (a guard is kept)")
_RESTORING = (
    Option(name="only", value="SCOPE", choices=("files",), repeated=True, says="bring back only this"),
    Option(
        name="to",
        value="DIR",
        form="folder",
        says="write to a new or empty folder, leave the workspace alone",
    ),
    _DRY_RUN,
    _YES,
    Option(name="plan", value="ID", form="plan", says="carry out exactly the plan that a dry run showed"),
    Option(name="discard", says="go on although something that would be lost cannot be kept"),
    Option(name="force", says="go on although a rule advises against it"),
)

VERBS: tuple[Verb, ...] = (
    Verb(
        name="save",
        says="make a checkpoint",
        about=(
            "Keeps every file of the workspace that is not ignored. When it returns, the\n"
            "checkpoint survives a power cut. If nothing has changed, none is made and the\n"
            "last one is named."
        ),
        spellings=("create",),
        arguments=(Argument(name="MESSAGE", required=False),),
        options=(
            Option(name="name", value="NAME", says="give it a name to find it by (kept for ever)"),
            Option(name="kind", value="K", choices=KINDS, says="say what occasion this is (default: manual)"),
            Option(name="meta", value="KEY=VALUE", form="pair", repeated=True, says="attach a note"),
            Option(name="allow-empty", says="make one although nothing has changed"),
            Option(
                name="budget", value="T", form="duration", says="stop reading after this time, for example 2s"
            ),
            Option(name="pin", says="never let retention remove it"),
        ),
        examples=(
            ('lastgood save "before the refactor"', "a checkpoint with a message"),
            ("lastgood save --name parser-works --pin", "one to come back to by name"),
        ),
        codes=(0, 3, 14, 15),
    ),
    Verb(
        name="list",
        says="list checkpoints, newest first",
        spellings=("ls",),
        options=(
            Option(name="limit", short="n", value="N", form="number", says="at most N"),
            Option(name="kind", value="K", choices=KINDS, says="only this kind"),
            Option(name="session", value="S", says="only this session"),
            Option(name="since", value="T", form="moment", says="only since then: 2h, 7d, 2026-11-21T10:00"),
            Option(name="name", value="GLOB", says="only names that match, for example 'before-*'"),
            Option(name="good", says="only those whose check passed"),
            Option(name="all-workspaces", says="of every workspace in the store"),
        ),
        examples=(
            ("lastgood list --limit 20", "the newest twenty"),
            ("lastgood list --since 2h --kind manual", "what was saved by hand lately"),
        ),
        codes=(0,),
    ),
    Verb(
        name="show",
        says="show what a checkpoint holds",
        arguments=(_REF,),
        options=(
            Option(name="files", says="list every path"),
            Option(name="stat", says="what changed since the checkpoint before it"),
        ),
        examples=(("lastgood show @", "the latest"), ("lastgood show parser-works --files", "all its paths")),
        codes=(0, 10, 11),
    ),
    Verb(
        name="diff",
        says="compare checkpoints, or one with the workspace",
        about=(
            "Without a REF: the latest checkpoint against the workspace. With one: that\n"
            "checkpoint against the workspace. With two: the first against the second.\n"
            "`git apply` takes the patch."
        ),
        arguments=(
            Argument(name="A", form="ref", required=False),
            Argument(name="B", form="ref", required=False),
        ),
        options=(
            Option(name="stat", says="lines added and removed per file"),
            Option(name="name-status", says="one letter and path per file"),
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
            ("lastgood diff @~1 @ -- src", "between the last two, in src only"),
        ),
        codes=(0, 10, 11),
    ),
    Verb(
        name="restore",
        says="bring back a checkpoint, whole or some paths",
        about=(
            "First keeps the present state in a guard checkpoint, so that `lastgood undo`\n"
            "takes the restore back. Ignored files and files that no checkpoint holds are\n"
            "left alone. HEAD, branches and the index of a git repository stay as they are.\n"
            "On a terminal it shows the plan and asks; elsewhere it needs --yes or --plan ID."
        ),
        spellings=("rollback",),
        arguments=(Argument(name="REF", form="ref", required=False),),
        options=_RESTORING,
        paths=True,
        examples=(
            ("lastgood restore @ --dry-run", "what would happen"),
            ("lastgood restore before-refactor", "the whole workspace"),
            ("lastgood restore @ -- src/app.py", "one file from the latest"),
            ("lastgood restore @~3 --to /tmp/older", "a copy aside"),
        ),
        codes=(0, 2, 3, 10, 11, 13, 14, 15),
    ),
    Verb(
        name="rewind",
        says="go back N checkpoints (default 1)",
        about="Like `restore`, counted from the newest checkpoint instead of named.",
        arguments=(Argument(name="N", form="number", required=False),),
        options=_RESTORING,
        paths=True,
        examples=(
            ("lastgood rewind --dry-run", "what one step back would do"),
            ("lastgood rewind 3", "three back"),
        ),
        codes=(0, 2, 3, 10, 13, 14, 15),
    ),
    Verb(
        name="undo",
        says="take back the last restore or delete",
        options=(Option(name="list", says="list what can be taken back"), _FORCE_UNDO),
        examples=(("lastgood undo", "take back the last one"), ("lastgood undo --list", "what there is")),
        codes=(0, 3, 10, 13, 14),
    ),
    Verb(
        name="redo",
        says="do again what the last undo took back",
        options=(Option(name="list", says="list what can be done again"), _FORCE_UNDO),
        examples=(("lastgood redo", "do it again"),),
        codes=(0, 3, 10, 13, 14),
        module="undo",
    ),
    Verb(
        name="recover",
        says="finish or roll back an interrupted restore, and say where work stands",
        spellings=("resume",),
        arguments=(Argument(name="REF", form="ref", required=False),),
        options=(Option(name="rollback", says="put back what was there before the interrupted restore"),),
        examples=(
            ("lastgood recover", "after a crash"),
            ("lastgood recover --rollback", "the way back instead"),
        ),
        codes=(0, 3, 10, 14),
    ),
    Verb(
        name="status",
        says="show workspace, store, latest checkpoint, and what has changed since",
        examples=(("lastgood status", "where things stand"),),
        codes=(0,),
    ),
    Verb(
        name="delete",
        says="delete checkpoints (`lastgood undo` takes it back)",
        arguments=(Argument(name="REF", form="ref", many=True),),
        examples=(("lastgood delete ckpt_1a2b3c4d", "one checkpoint"),),
        codes=(0, 10, 11),
    ),
    Verb(
        name="pin",
        says="keep a checkpoint for ever",
        arguments=(_REF,),
        examples=(("lastgood pin @", "the latest"),),
        codes=(0, 10, 11),
    ),
    Verb(
        name="unpin",
        says="let retention decide about a checkpoint again",
        arguments=(_REF,),
        examples=(("lastgood unpin parser-works", "by name"),),
        codes=(0, 10, 11),
        module="pin",
    ),
    Verb(
        name="name",
        says="name a checkpoint",
        arguments=(_REF, Argument(name="NAME")),
        examples=(("lastgood name @ parser-works", "name the latest"),),
        codes=(0, 10, 11, 12),
    ),
    Verb(
        name="verify",
        says="prove that what is stored is whole",
        about="Reads every stored byte and says exactly which checkpoints and files are hit, if any.",
        arguments=(Argument(name="REF", form="ref", required=False),),
        options=(
            Option(name="deep", says="prove it by restoring each checkpoint aside"),
            Option(name="repair", says="mend what can be mended, set damage aside; removes nothing good"),
        ),
        examples=(
            ("lastgood verify", "the whole store"),
            ("lastgood verify @ --deep", "restore the latest aside"),
        ),
        codes=(0, 16),
    ),
    Verb(
        name="workspace",
        says="list the workspaces of the store, attach a moved one, forget one",
        about=(
            "list         every folder with checkpoints, also those not there now\n"
            "attach OLD   this workspace was moved here from OLD: take its checkpoints over\n"
            "forget PATH  delete all checkpoints of a folder, after showing them"
        ),
        arguments=(
            Argument(name="ACTION", choices=("list", "attach", "forget")),
            Argument(name="PATH", form="folder", required=False),
        ),
        options=(_DRY_RUN, Option(name="yes", short="y", says="do not ask")),
        examples=(
            ("lastgood workspace list", "from anywhere"),
            ("lastgood workspace attach /old/place", "after moving a project here"),
            ("lastgood workspace forget /old/project --dry-run", "what forgetting would delete"),
        ),
        codes=(0, 2, 10),
    ),
    Verb(
        name="config",
        says="show every setting, its value and where it comes from",
        arguments=(Argument(name="ACTION", required=False, choices=("show",)),),
        examples=(("lastgood config", "all settings and the built-in excludes"),),
        codes=(0, 12),
    ),
    Verb(
        name="doctor",
        says="check that lastgood can work here",
        examples=(("lastgood doctor", "when something is odd"),),
        codes=(0,),
    ),
    Verb(
        name="completion",
        says="print a completion script for a shell",
        arguments=(Argument(name="SHELL", choices=("bash", "zsh", "fish")),),
        examples=(
            ('eval "$(lastgood completion bash)"', "in ~/.bashrc"),
            ("lastgood completion fish > ~/.config/fish/completions/lastgood.fish", "for fish"),
        ),
        codes=(0,),
    ),
    Verb(
        name="help",
        says="explain a verb, or `refs`, `exit-codes`, `environment`",
        arguments=(Argument(name="TOPIC", required=False),),
        examples=(("lastgood help restore", "one verb"), ("lastgood help refs", "how to name a checkpoint")),
        codes=(0,),
    ),
    Verb(
        name="maintain",
        says="tidy the store (started by itself when it is due)",
        examples=(("lastgood maintain", "tidy now"),),
        hidden=True,
    ),
)


def spellings() -> dict[str, Verb]:
    """Return every word that names a verb."""
    words = {}
    for verb in VERBS:
        words[verb.name] = verb
        for spelling in verb.spellings:
            words[spelling] = verb
    return words
