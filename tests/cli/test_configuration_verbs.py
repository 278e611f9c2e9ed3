"""config: shown, imported; and what still counts where a file is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools.command import COMMAND, Command, told

GUIDE = """\
# how often
checkpoint:
  auto_checkpoint: true
  interval_minutes: 15
  max_checkpoints: 50
  checkpoint_on:
    - task_complete
    - before_risky_operation
    - lunch
  recovery_mode: auto
"""


ON = ["session-start", "turn", "task", "feature", "iteration", "risky", "compaction", "interrupt", "error"]


def own_file() -> Path:
    return Path(os.environ["HOME"], ".config", "lastgood", "config.toml")


@pytest.fixture
def yaml(lastgood: Command) -> str:
    path = lastgood.project.parent / "yolo.yaml"
    path.write_text(GUIDE)
    return str(path)


def test_an_import_writes_what_it_can_and_lists_the_rest(lastgood: Command, yaml: str) -> None:
    done = lastgood("config", "import", yaml)
    assert tomllib.loads(own_file().read_text()) == {
        "auto": {"enabled": True, "interval": "15m", "on": ON},
        "retention": {"max_checkpoints": 50},
    }
    assert own_file().stat().st_mode & 0o777 == 0o600
    assert "not taken over: checkpoint.checkpoint_on: lunch" in done.err
    assert "not taken over: checkpoint.recovery_mode" in done.err
    settings = {one["key"]: one for one in lastgood("config", "--json").json["settings"]}
    assert settings["auto.on"]["value"] == ON
    assert settings["auto.on"]["from"] == [str(own_file())]


def test_an_import_keeps_what_stands_there_with_its_comments(lastgood: Command, yaml: str) -> None:
    own_file().parent.mkdir(parents=True)
    kept = '# mine\n[auto]\ninterval = "5m" # often\n\n[capture]\nexclude = ["a"]  # why not\n'
    own_file().write_text(kept)
    own_file().chmod(0o640)
    done = lastgood("config", "import", yaml)
    written = own_file().read_text()
    assert [line for line in kept.splitlines() if line not in written] == []
    assert tomllib.loads(written)["auto"] == {"interval": "5m", "enabled": True, "on": ON}
    assert "kept what the file says of auto.interval" in done.err
    assert own_file().stat().st_mode & 0o777 == 0o640


def test_an_import_writes_through_a_link(lastgood: Command, yaml: str, tmp_path: Path) -> None:
    own_file().parent.mkdir(parents=True)
    (tmp_path / "dotfile.toml").write_text("# mine\n")
    own_file().symlink_to(tmp_path / "dotfile.toml")
    lastgood("config", "import", yaml)
    assert own_file().is_symlink()
    assert "15m" in (tmp_path / "dotfile.toml").read_text()


def test_a_printed_import_writes_nothing(lastgood: Command, yaml: str) -> None:
    done = lastgood("config", "import", yaml, "--print")
    assert tomllib.loads(done.out)["retention"] == {"max_checkpoints": 50}
    assert not own_file().exists()
    document = lastgood("config", "import", yaml, "--print", "--json").json
    assert document["schema"] == "lastgood.config/1"
    assert document["dry_run"]
    assert [one["key"] for one in document["left"]] == [
        "checkpoint.checkpoint_on: lunch",
        "checkpoint.recovery_mode",
    ]


def test_a_second_import_changes_nothing(lastgood: Command, yaml: str) -> None:
    lastgood("config", "import", yaml)
    before = own_file().read_bytes()
    assert lastgood("config", "import", yaml, "--json").json["written"] == []
    assert own_file().read_bytes() == before


def test_an_edited_file_is_imported_again_where_that_is_asked_for(lastgood: Command, yaml: str) -> None:
    lastgood("config", "import", yaml)
    Path(yaml).write_text(GUIDE.replace("15", "30"))
    assert "take those over too: --replace" in lastgood("config", "import", yaml).err
    done = lastgood("config", "import", yaml, "--replace")
    assert tomllib.loads(own_file().read_text())["auto"]["interval"] == "30m"
    assert [line for line in done.err.splitlines() if line.startswith("wrote")] == [
        "wrote auto.interval = 30m  (from checkpoint.interval_minutes)"
    ]


def test_an_import_into_a_project_takes_only_what_a_project_may_say(lastgood: Command, yaml: str) -> None:
    """K7: and nothing of it reaches other projects."""
    Path(yaml).write_text(GUIDE.replace("auto_checkpoint: true", "auto_checkpoint: false"))
    done = lastgood("config", "import", yaml, "--project")
    own = lastgood.project / ".lastgood.toml"
    assert tomllib.loads(own.read_text()) == {"auto": {"on": ["task", "risky"]}}
    assert not own_file().exists()
    assert "not taken over: checkpoint.auto_checkpoint: a repository cannot decide it" in done.err
    assert lastgood("config", "get", "auto.enabled").out == "true\n"


def test_an_import_that_disarms_every_project_says_so(lastgood: Command, yaml: str) -> None:
    Path(yaml).write_text("checkpoint:\n  auto_checkpoint: false\n")
    told_of = lastgood("config", "import", yaml).err
    assert "for all your projects" in told_of
    assert "no checkpoint is made by itself then, in none of your projects" in told_of


# --- One setting, changed ---


def test_a_setting_is_set_read_and_unset(lastgood: Command) -> None:
    said = lastgood("config", "set", "capture.max_file_size", "64MiB").err
    assert said == f"capture.max_file_size = 64MiB, in {own_file()}, for all your projects\n"
    assert own_file().stat().st_mode & 0o777 == 0o600
    assert lastgood("config", "get", "capture.max_file_size").out == "64.0 MiB\n"
    assert "is no longer set" in lastgood("config", "unset", "capture.max_file_size").err
    assert lastgood("config", "get", "capture.max_file_size").out == "32.0 MiB\n"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("durability", "fast", "fast"),
        ("auto.enabled", "off", False),
        ("capture.exclude", "data/,*.bin", ["data/", "*.bin"]),
        ("retention.max_checkpoints", "20", 20),
        ("retention.turn", "last=5,hourly=1", {"last": 5, "hourly": 1}),
        ("auto.interval", "90s", "90s"),
    ],
)
def test_every_form_of_setting_can_be_set(lastgood: Command, key: str, text: str, value: object) -> None:
    document = lastgood("config", "set", key, text, "--json").json
    assert (document["written"], document["dry_run"]) == ([{"key": key, "value": value, "from": None}], False)
    table: object = tomllib.loads(own_file().read_text())
    for name in key.split("."):
        assert isinstance(table, dict)
        table = table[name]
    assert table == value
    assert lastgood("config", "--json").json["settings"]


def test_a_change_keeps_everything_else_and_its_comments(lastgood: Command) -> None:
    own_file().parent.mkdir(parents=True)
    own_file().write_text(
        '# mine\n[auto]\ninterval = "5m" # often\n\n[capture]\nexclude = ["a"]  # why not\n'
    )
    lastgood("config", "set", "auto.interval", "10m")
    lastgood("config", "unset", "capture.exclude")
    assert own_file().read_text() == '# mine\n[auto]\ninterval = "10m" # often\n\n[capture]\n'


@pytest.mark.parametrize(
    "words",
    [
        ("set", "capture.max_file_sise", "1MiB"),
        ("set", "capture.max_file_size", "much"),
        ("set", "capture.include", "../x"),
        ("set", "retention.turn", "last=0"),
        ("set", "auto", "true"),
        ("set", "--project", "auto.enabled", "false"),
        ("set", "--project", "capture.exclude", "*"),
        ("get", "capture.max_file_sise"),
    ],
)
def test_a_wrong_change_is_refused_and_changes_nothing(lastgood: Command, words: tuple[str, ...]) -> None:
    told(lastgood("config", *words, expect=None), 12)
    assert not own_file().exists()
    assert not (lastgood.project / ".lastgood.toml").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("set",),
        ("set", "durability"),
        ("set", "durability", "full", "more"),
        ("get",),
        ("get", "durability", "full"),
        ("unset",),
        ("show", "durability"),
        ("get", "durability", "--project"),
        ("set", "durability", "full", "--replace"),
    ],
)
def test_a_change_without_its_words_is_refused(lastgood: Command, words: tuple[str, ...]) -> None:
    told(lastgood("config", *words, expect=None), 2)
    assert not own_file().exists()


def test_what_is_not_set_cannot_be_unset(lastgood: Command) -> None:
    told(lastgood("config", "unset", "auto.interval", expect=None), 10)


def test_a_printed_change_writes_nothing(lastgood: Command) -> None:
    assert lastgood("config", "set", "durability", "fast", "--print").out == 'durability = "fast"\n'
    assert not own_file().exists()


def test_a_change_of_a_broken_file_leaves_it_as_it_is(lastgood: Command) -> None:
    own_file().parent.mkdir(parents=True)
    own_file().write_text("[auto\n")
    told(lastgood("config", "set", "auto.interval", "10m", expect=None), 12)
    assert own_file().read_text() == "[auto\n"


def test_a_projects_setting_goes_where_the_project_keeps_its_own(lastgood: Command) -> None:
    shared = lastgood.project / "pyproject.toml"
    shared.write_text('[project]\nname = "shop"\n\n[tool.lastgood.capture]\nexclude = ["data"] # large\n')
    lastgood("config", "set", "--project", "capture.state_files", "NOTES")
    assert not (lastgood.project / ".lastgood.toml").exists()
    assert tomllib.loads(shared.read_text())["tool"]["lastgood"]["capture"] == {
        "exclude": ["data"],
        "state_files": ["NOTES"],
    }
    assert "# large" in shared.read_text()
    shared.write_text('[project]\nname = "shop"\n')
    lastgood("config", "set", "--project", "capture.state_files", "NOTES")
    assert "NOTES" in (lastgood.project / ".lastgood.toml").read_text()
    assert shared.read_text() == '[project]\nname = "shop"\n'


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"checkpoint: [", 12),
        (b"\xff\xfe\x00", 12),
        (b"checkpoint:\n  max_checkpoints: many\n", 12),
        (b"!!python/object/apply:os.system ['true']", 12),
        (b"a: " + b"[" * 20_000, 12),
        (b"- 1\n- 2\n", 12),
        (b"", 12),
        (b"x" * (2 << 20), 12),
        (
            b"a: &a [x]\n"
            + b"".join(b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(98, 110))
            + b"checkpoint_on: *m\n",
            12,
        ),
    ],
)
def test_what_is_no_settings_is_refused_and_nothing_is_written(
    lastgood: Command, yaml: str, content: bytes, code: int
) -> None:
    Path(yaml).write_bytes(content)
    told(lastgood("config", "import", yaml, expect=None), code)
    assert not own_file().exists()


def test_a_missing_file_a_folder_and_a_pipe_are_refused(lastgood: Command) -> None:
    told(lastgood("config", "import", "nowhere.yaml", expect=None), 10)
    told(lastgood("config", "import", str(lastgood.project), expect=None), 12)
    os.mkfifo(lastgood.project / "pipe")
    told(lastgood("config", "import", "pipe", expect=None), 12)
    told(lastgood("config", "import", expect=None), 2)
    told(lastgood("config", "show", "x", expect=None), 2)


def test_a_wrong_file_of_the_users_is_not_written_over(lastgood: Command, yaml: str) -> None:
    own_file().parent.mkdir(parents=True)
    own_file().write_text("[auto\n")
    told(lastgood("config", "import", yaml, expect=None), 12)
    assert own_file().read_text() == "[auto\n"


def test_a_full_disk_leaves_the_users_file_as_it_was(lastgood: Command, yaml: str) -> None:
    own_file().parent.mkdir(parents=True)
    own_file().write_text("# mine\n")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", sys.executable, COMMAND, "config", "import", yaml],
        cwd=lastgood.project,
        env=lastgood.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "could not be written" in done.stderr) == (1, True)
    assert own_file().read_text() == "# mine\n"
    assert os.listdir(own_file().parent) == ["config.toml"]


def test_without_the_libraries_it_says_what_to_install(lastgood: Command, yaml: str) -> None:
    done = subprocess.run(
        [sys.executable, "-S", COMMAND, "config", "import", yaml],
        cwd=lastgood.project,
        env=lastgood.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 17
    assert sys.executable in done.stderr
    assert re.search(r"pip install .*pyyaml", done.stderr)


EVERYDAY = (
    ("save", "ruined"),
    ("restore", "two", "--yes"),
    ("undo",),
    ("recover",),
    ("list",),
    ("status",),
    ("verify",),
    ("prune",),
    ("session", "start"),
    ("session", "end"),
    ("run", "--", "true"),
)
MARKS = "<<<<<<< ours\n[capture]\n=======\n[auto]\n>>>>>>> theirs\n"


def test_a_broken_file_of_the_project_stops_nothing(kept: Command) -> None:
    """Rule K7: an agent may have broken that very file, or a merge has."""
    (kept.project / "a.txt").write_text("ruined\n")
    for verb in EVERYDAY:
        (kept.project / ".lastgood.toml").write_text(MARKS)
        done = kept(*verb)
        said = done.out if verb == ("status",) else done.err
        assert ".lastgood.toml is not TOML" in said, verb
        assert "going on without that" in said, verb
    (kept.project / ".lastgood.toml").unlink()
    (kept.project / "pyproject.toml").write_text(MARKS.replace("[auto]", "[tool.lastgood.auto]"))
    assert "pyproject.toml is not TOML" in kept("save", "by another name").err


def test_what_is_to_be_done_about_several_faults_is_said_once(kept: Command) -> None:
    """K7: as where somebody writes all that may be set into the project's file."""
    (kept.project / ".lastgood.toml").write_text('durability = "fast"\n[retention]\nmax_checkpoints = 5\n')
    for said in (kept("save", "again").err, kept("status").out):
        assert said.count("going on without that") == 2
        assert said.count("put the rest into your own file") == 1


def test_what_is_wrong_is_told_by_programs_documents_too(kept: Command) -> None:
    """K7: standard output is the one document, whatever is said beside it."""
    (kept.project / "a.txt").write_text("ruined\n")
    (kept.project / ".lastgood.toml").write_text(MARKS)
    saved = kept("save", "--json").json
    assert saved["created"]
    assert [one["code"] for one in saved["notes"]] == ["broken-configuration"]
    health = kept("status", "--json").json["health"]
    assert [one["code"] for one in health] == ["broken-configuration"]
    assert str(kept.project / ".lastgood.toml") in health[0]["message"]


def test_a_status_tells_once_what_is_wrong(kept: Command) -> None:
    """K7: among what else is odd, and nowhere else."""
    (kept.project / ".lastgood.toml").write_text(MARKS)
    done = kept("status")
    assert (done.out + done.err).count(".lastgood.toml is not TOML") == 1
    assert "project adds" not in done.out


def test_what_a_broken_file_said_last_still_counts(kept: Command) -> None:
    """K7, S17: what was left out stays out, and what was private does not become public."""
    (kept.project / ".lastgood.toml").write_text(
        '[capture]\nexclude = ["big/"]\ninclude = [".env"]\nstate_files = ["NOTES"]\n'
    )
    (kept.project / ".gitignore").write_text(".env\nNOTES\n")
    (kept.project / ".env").write_text("KEY=1\n")
    (kept.project / "NOTES").write_text("1\n")
    (kept.project / "big").mkdir()
    (kept.project / "big" / "data").write_text("data\n")
    kept("save", "good")
    (kept.project / ".lastgood.toml").write_text(MARKS)
    (kept.project / ".env").write_text("KEY=2\n")
    (kept.project / "NOTES").write_text("2\n")
    kept("save", "broken")
    shown = kept("show", "@", "--files").out
    assert "big" not in shown
    assert ".env" in shown
    parcel = kept.project.parent / "out.tar"
    left = kept("export", str(parcel), "@", "--json").json
    assert {path for one in left["withheld"] for path in one["paths"]} == {".env", "NOTES"}
    kept("restore", "@~1", "--only", "progress", "--yes")
    assert (kept.project / "NOTES").read_text() == "1\n"
    assert (kept.project / ".env").read_text() == "KEY=2\n"


def test_what_is_right_in_a_file_with_a_fault_counts(kept: Command) -> None:
    """K7: one word that is no setting makes none of the others unheard."""
    (kept.project / ".lastgood.toml").write_text(
        '[capture]\nexclude = ["big/"]\nexlude = ["x"]\n[no_such]\na = 1\n[auto]\non = 7\n'
    )
    (kept.project / "big").mkdir()
    (kept.project / "big" / "data").write_text("data\n")
    notes = kept("save", "--json").json["notes"]
    assert [one["message"].rpartition(".toml")[2].partition(";")[0] for one in notes] == [
        ":4: there is no setting 'no_such'",
        ":3: there is no setting 'capture.exlude'",
        ":7: auto.on cannot be 7",
    ]
    assert "big" not in kept("show", "@", "--files").out
    told(kept("config", expect=None), 12)


def test_a_broken_file_of_the_users_stops_no_save_and_has_nothing_pruned(kept: Command) -> None:
    """K1, K7: how much stays is not known, so all of it does, until somebody says how much."""
    own_file().parent.mkdir(parents=True)
    own_file().write_text("[retention]\ntool = { last = 1000 }\n[capture\n")
    fewer = {"LASTGOOD_RETENTION_TOOL": "last=1", "LASTGOOD_RETENTION_MAX_CHECKPOINTS": "1"}
    for number in range(3):
        (kept.project / "a.txt").write_text(f"{number}\n")
        kept("save", "--kind", "tool")
    done = kept("prune", "--json", env=fewer)
    assert "nothing is pruned by a policy" in done.err
    assert done.json["remove"] == []
    kept("maintain", env=fewer)
    assert len(kept("list", "--json").json["checkpoints"]) == 5
    assert len(kept("prune", "--keep", "1", "--json").json["remove"]) == 2
    told(kept("config", expect=None), 12)
    own_file().write_text("")
    kept("undo")
    assert len(kept("prune", "--json", env=fewer).json["remove"]) == 2


def test_what_all_workspaces_leave_out_stays_out_while_the_users_file_is_broken(kept: Command) -> None:
    """K7, S5: secrets do not come in as ordinary files because nobody can read where they were named."""
    own_file().parent.mkdir(parents=True)
    patterns = own_file().parent / "everywhere"
    patterns.write_text("# keys\n*.pem\n")
    own_file().write_text(f'[capture]\nglobal_excludes = "{patterns}"\n')
    (kept.project / "key.pem").write_text("secret\n")
    (kept.project / "a.txt").write_text("third\n")
    kept("save", "three")
    own_file().write_text(f'[capture]\nglobal_excludes = "{patterns}\n')
    (kept.project / "a.txt").write_text("fourth\n")
    kept("save", "four")
    assert "key.pem" not in kept("show", "@", "--files").out


def test_nothing_is_claimed_of_a_checkpoint_where_there_is_none(lastgood: Command) -> None:
    """K7: a broken file in a new workspace."""
    (lastgood.project / ".lastgood.toml").write_text("[[[")
    assert "until then that counts for nothing" in lastgood("save").err


def test_a_flag_counts_most_and_for_this_call_only(lastgood: Command) -> None:
    """Defaults, the user's file, the project's, the environment, flags: the later counts, lists extend."""
    own_file().parent.mkdir(parents=True)
    own_file().write_text('[capture]\nexclude = ["a"]\nmax_file_size = "1MiB"\n')
    (lastgood.project / ".lastgood.toml").write_text('[capture]\nexclude = ["b"]\n')
    variables = {"LASTGOOD_CAPTURE_EXCLUDE": "c", "LASTGOOD_CAPTURE_MAX_FILE_SIZE": "2MiB"}
    flags = [
        "--set",
        "capture.exclude=d",
        "--set=capture.exclude=e,f",
        "--set",
        "capture.max_file_size=64KiB",
    ]

    def shown(*words: str) -> dict[str, tuple[object, list[str]]]:
        settings = lastgood("config", *words, "--json", env=variables).json["settings"]
        return {one["key"]: (one["value"], one["from"]) for one in settings}

    files = [str(own_file()), str(lastgood.project / ".lastgood.toml")]
    assert shown(*flags)["capture.exclude"] == (list("abcdef"), [*files, "environment", "--set"])
    assert shown(*flags)["capture.max_file_size"] == (64 << 10, ["--set"])
    assert shown()["capture.max_file_size"] == (2 << 20, ["environment"])

    (lastgood.project / "large").write_bytes(bytes(100_000))
    (lastgood.project / "d").touch()
    gaps = lastgood("save", *flags, "--json", expect=3).json["checkpoint"]["gaps"]
    assert [one["path"] for one in gaps] == ["large"]
    assert "d" not in lastgood("show", "@", "--files").out.split()
    lastgood("save", "more")
    assert {"d", "large"} < set(lastgood("show", "@", "--files").out.split())


def test_a_flag_that_says_nothing_known_is_refused_before_anything_is_done(lastgood: Command) -> None:
    for verb in ("save", "list", "status", "config"):
        assert "KEY=VALUE" in lastgood(verb, "--set", "x", expect=2).err
        assert "KEY=VALUE" in lastgood(verb, "--set", "=1", expect=2).err
        done = lastgood(verb, "--set", "capture.max_file_siz=1", expect=12)
        assert "--set: there is no setting" in done.err
        assert "did you mean capture.max_file_size?" in done.err
        assert (
            "--set: capture.max_file_size cannot be"
            in lastgood(verb, "--set", "capture.max_file_size=x", expect=12).err
        )
    assert lastgood("list", "--json").json["checkpoints"] == []


def test_a_flag_decides_beside_a_project_file_that_is_broken(lastgood: Command) -> None:
    (lastgood.project / ".lastgood.toml").write_text("[capture\n")
    done = lastgood("status", "--set", "durability=fast", "--json")
    assert done.json["durability"] == "fast"
    assert "going on without that" in done.err


def test_an_include_that_was_switched_off_stays_off_while_the_users_file_is_broken(kept: Command) -> None:
    """K7, S5."""
    own_file().parent.mkdir(parents=True)
    own_file().write_text('[capture]\nbuilt_in_off = [".env"]\n')
    (kept.project / ".gitignore").write_text(".env\n")
    (kept.project / ".env").write_text("secret\n")
    kept("save", "three")
    own_file().write_text('[capture]\nbuilt_in_off = [".env"\n')
    (kept.project / "a.txt").write_text("fourth\n")
    kept("save", "four")
    assert ".env" not in kept("show", "@", "--files").out
