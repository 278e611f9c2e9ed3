"""Verbs about what is kept, and about lastgood itself."""

from __future__ import annotations

from lastgood.cli.grammar import DRY_RUN, REF, Argument, Option, Verb

STORE: tuple[Verb, ...] = (
    Verb(
        name="delete",
        says="delete checkpoints (`lastgood undo` takes it back)",
        about="On a terminal it asks, unless --yes is given.",
        arguments=(Argument(name="REF", form="ref", many=True),),
        options=(Option(name="yes", short="y", says="do not ask"),),
        examples=(("lastgood delete ckpt_1a2b3c4d", "one checkpoint"),),
        codes=(0, 10, 11),
    ),
    Verb(
        name="pin",
        says="keep a checkpoint for ever",
        arguments=(REF,),
        examples=(("lastgood pin @", "the latest"),),
        codes=(0, 10, 11),
    ),
    Verb(
        name="unpin",
        says="let retention decide about a checkpoint again",
        arguments=(REF,),
        examples=(("lastgood unpin parser-works", "by name"),),
        codes=(0, 10, 11),
        module="pin",
    ),
    Verb(
        name="name",
        says="name a checkpoint",
        arguments=(REF, Argument(name="NAME")),
        examples=(("lastgood name @ parser-works", "name the latest"),),
        codes=(0, 10, 11, 12),
    ),
    Verb(
        name="prune",
        says="delete what need not be kept (`lastgood undo` takes it back)",
        about=(
            "Says of every checkpoint why it stays or goes. With --keep or --older-than only what is named,\n"
            "pinned, a feature, or needed by an operation is spared beside what they keep; with both, only\n"
            "what neither keeps goes. Bytes are freed a day later."
        ),
        spellings=("clean",),
        options=(
            Option(name="keep", value="N", form="number", says="keep the newest N"),
            Option(
                name="older-than", value="AGE", form="duration", says="days, or a duration such as 7d or 12h"
            ),
            DRY_RUN,
            Option(
                name="verify",
                says="check everything, mark what cannot be restored, remove nothing",
            ),
            Option(name="now", says="free the bytes at once: there is no undo"),
            Option(name="yes", short="y", says="with --now: do not ask"),
        ),
        examples=(
            ("lastgood prune --dry-run", "what would go, and why"),
            ("lastgood clean --keep 10", "the ten newest stay"),
            ("lastgood clean --older-than 7", "a week stays"),
            ("lastgood prune --now --yes", "free their bytes at once"),
        ),
        codes=(0, 2, 3, 14),
    ),
    Verb(
        name="purge",
        says="take what a file holds out of every checkpoint, for good",
        about=(
            "For a secret that was saved. All contents that the file (or the files in a folder)\n"
            "ever had go out of every checkpoint, what restores saved first too, and out of the\n"
            "store's files. What is at another path too stays and is named, but with --everywhere.\n"
            "Checkpoints stay, without that path. It shows them first, and asks. Exports,\n"
            "conversations and what runs printed are not reached."
        ),
        arguments=(Argument(name="PATH", form="held"),),
        options=(
            Option(name="dry-run", short="n", says="show where it is, change nothing"),
            Option(name="everywhere", says="also contents that are at other paths too, and there as well"),
            Option(name="all-workspaces", says="also where other workspaces of the store hold it"),
            Option(name="yes", short="y", says="do not ask"),
        ),
        examples=(
            ("lastgood purge .env --dry-run", "which checkpoints hold it"),
            ("lastgood purge .env", "a key that must not be kept"),
        ),
        codes=(0, 2, 3, 10, 13, 14, 16),
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
        options=(DRY_RUN, Option(name="yes", short="y", says="do not ask")),
        examples=(
            ("lastgood workspace list", "from anywhere"),
            ("lastgood workspace attach /old/place", "after moving a project here"),
            ("lastgood workspace forget /old/project --dry-run", "what forgetting would delete"),
        ),
        codes=(0, 2, 10),
    ),
    Verb(
        name="report",
        says="sessions, tasks, success, times, sizes and tokens of a period",
        about=(
            "As text, as JSON, or as one HTML page with plots that needs no network and has no\n"
            "script in it (what the page needs, `lastgood doctor` tells). Known shapes of\n"
            "secrets are left out of all of them."
        ),
        options=(
            Option(
                name="period",
                value="P",
                choices=("day", "week", "month", "all"),
                says="the last day, week, month (30 days), or all time (the default)",
            ),
            Option(name="detailed", says="also each session, task, and what fell into each stretch of time"),
            Option(name="html", value="FILE", says="write a page with plots"),
            Option(name="session", value="S", says="only this session"),
        ),
        examples=(
            ("lastgood report --period week", "the last seven days"),
            ("lastgood report --html report.html", "a page to look at, or to send"),
        ),
        codes=(0, 10, 11, 13, 17),
    ),
    Verb(
        name="export",
        says="write checkpoints into one portable file",
        about=(
            "A plain tar: git's objects, facts as lines of JSON, checksums. By default all\n"
            "checkpoints of this workspace. Private files stay here, and texts leave without what\n"
            "looks like a secret."
        ),
        arguments=(
            Argument(name="FILE", form="folder"),
            Argument(name="REF", form="ref", required=False, many=True),
        ),
        options=(
            Option(
                name="private",
                says="take private files along, what only restores saved, and what frameworks keep",
            ),
            Option(name="no-conversation", says="leave conversations out"),
            Option(name="exact", says="leave texts and conversations as they are"),
            Option(name="allow-secrets", says="although files show what looks like a secret"),
        ),
        examples=(
            ("lastgood export checkpoints-$(date +%Y%m%d).tar", "a backup of this workspace"),
            ("lastgood export good.tar @good", "one checkpoint"),
        ),
        codes=(0, 3, 10, 12, 15, 16),
    ),
    Verb(
        name="import",
        says="take in an export, all of it or nothing",
        about="Proves the whole file first. What is here already stays as it is.",
        arguments=(Argument(name="FILE", form="folder"),),
        options=(Option(name="attach", says="give this folder the workspace that the file holds"),),
        examples=(
            ("lastgood import checkpoints-20261121.tar", "into this store"),
            ("lastgood import checkpoints-20261121.tar --attach", "to go on with them in this folder"),
        ),
        codes=(0, 10, 12, 13, 16, 17),
    ),
    Verb(
        name="config",
        says="show the settings and where they come from, or change one",
        about=(
            "show            every setting that counts here (without an action, the same)\n"
            "get KEY         one of them\n"
            "set KEY VALUE   write it into your own file, which counts in all your projects;\n"
            "                lists are written a,b\n"
            "unset KEY       take it out of that file\n"
            "import FILE     take AIWF's checkpoint settings (YAML) over; what stands in the file\n"
            "                stays, and what has no like here is listed\n"
            "With --project they change the file of this project, which may only add what is\n"
            "left out, taken in, or makes a checkpoint by itself."
        ),
        arguments=(
            Argument(name="ACTION", required=False, choices=("show", "get", "set", "unset", "import")),
            Argument(name="KEY or FILE", required=False),
            Argument(name="VALUE", required=False),
        ),
        options=(
            Option(name="project", says="change the project's file instead of your own"),
            Option(name="replace", says="with import: also what the file decides already"),
            Option(name="print", says="show the file as it would be, write nothing"),
        ),
        examples=(
            ("lastgood config", "all settings and the built-in excludes"),
            ("lastgood config set capture.max_file_size 64MiB", "for all your projects"),
            ("lastgood config set --project capture.exclude 'data/,*.bin'", "for this one"),
            ("lastgood config import .aiwf/yolo-config.yaml --print", "what an import would bring"),
        ),
        codes=(0, 10, 12, 17),
    ),
    Verb(
        name="doctor",
        says="check that lastgood can work here",
        about="Each finding is good, a note or bad. With a bad one the exit code is not 0.",
        examples=(("lastgood doctor", "when something is odd"),),
        codes=(0, 1),
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
        name="complete",
        says="list what can follow the words of a command line, for a shell's completion",
        command=True,
        examples=(("lastgood complete -- restore @ src/", "what the checkpoint holds there"),),
        codes=(0,),
        hidden=True,
    ),
    Verb(
        name="help",
        says="explain a verb, or `refs`, `exit-codes`, `environment`",
        arguments=(Argument(name="TOPIC", required=False),),
        options=(Option(name="man", says="print all of it as a page for man(1)"),),
        examples=(
            ("lastgood help restore", "one verb"),
            ("lastgood help refs", "how to name a checkpoint"),
            ("lastgood help --man > ~/.local/share/man/man1/lastgood.1", "for `man lastgood`"),
        ),
        codes=(0,),
    ),
    Verb(
        name="maintain",
        says="tidy the store now; else it is done when it is due",
        about="Deletes what the retention policy does not keep, frees what was deleted a day\n"
        "ago, joins packs and backs the catalogue up. LASTGOOD_MAINTENANCE=off keeps\n"
        "saves from starting it: a timer of your own can, then.",
        examples=(("lastgood maintain", "tidy now"),),
    ),
)
