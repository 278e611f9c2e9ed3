"""Settings: their layers, their page, and AIWF's."""

from __future__ import annotations

import os
import re
import tomllib

import pytest

from lastgood.cli.wording import size, span
from lastgood.configuration.import_ import translated
from lastgood.configuration.rules import KEYS, OPEN_TO_PROJECTS, Key, Layer, configured, flattened, line_of
from lastgood.errors import Invalid
from lastgood.model.checkpoint import KINDS
from lastgood.quantities import parse_duration, parse_size
from lastgood.settings import BUILT_IN_EXCLUDES, BUILT_IN_INCLUDES, TRIGGERS, Settings
from lastgood.suggestions import nearest
from tools.values import not_none


def user(**values: object) -> Layer:
    return Layer(scope="user", source="user.toml", values=_dotted(values))


def project(**values: object) -> Layer:
    return Layer(scope="project", source="project.toml", values=_dotted(values))


def _dotted(values: dict[str, object]) -> dict[str, object]:
    return {key.replace("__", "."): value for key, value in values.items()}


def value_of(key: str, *layers: Layer) -> object:
    return next(one.value for one in configured(layers).origins if one.key == key)


@pytest.mark.parametrize(
    ("text", "size"),
    [("32MiB", 32 << 20), ("5GB", 5 * 10**9), ("4096", 4096), ("1.5 KiB", 1536), ("2g", 2 << 30)],
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.2.3", "1.", "12 apples", "0x10", "１２"])  # noqa: RUF001 - digits of another script are the point
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("2s", 2.0), ("15m", 900.0), ("1h30m", 5400.0), ("7d", 604800.0)]
)
def test_durations_are_read_with_their_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "-2s", "1h 30", "2 parsecs"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_duration(text)


def test_the_nearest_word_is_found_through_a_slip() -> None:
    assert nearest("svae", ["save", "show", "undo"]) == ("save",)
    assert nearest("rest", ["restore", "list"]) == ("restore",)
    assert nearest("frobnicate", ["save", "show"]) == ()


def test_without_any_layer_the_defaults_count() -> None:
    found = configured([])
    assert found.settings.capture.max_file_size == 32 << 20
    assert found.settings.durability == "full"
    assert {one.sources for one in found.origins} == {("default",)}


def test_a_later_layer_wins_and_is_named_as_the_source() -> None:
    environment = Layer(
        scope="environment", source="environment", values={"capture.max_file_size": "1GiB"}, texts=True
    )
    found = configured([user(capture__max_file_size="64MiB"), environment])
    assert found.settings.capture.max_file_size == 1 << 30
    assert [one.sources for one in found.origins if one.key == "capture.max_file_size"] == [("environment",)]


def test_lists_extend_and_name_all_their_sources() -> None:
    found = configured([user(capture__exclude=["a", "b"]), project(capture__exclude=["b", "c"])])
    assert found.settings.capture.exclude == ("a", "b", "c")
    assert [one.sources for one in found.origins if one.key == "capture.exclude"] == [
        ("user.toml", "project.toml")
    ]


def test_the_default_of_a_list_gives_way_to_the_first_layer_that_names_it() -> None:
    assert value_of("auto.on", user(auto__on=["turn"])) == ("turn",)
    assert value_of("auto.on", user(auto__on=["turn"]), project(auto__on=["task"])) == ("turn", "task")


def test_a_built_in_exclude_can_be_switched_off_by_the_user() -> None:
    """Rule S6."""
    found = configured([user(capture__built_in_off=["venv"])])
    assert found.settings.capture.built_in == tuple(one for one in BUILT_IN_EXCLUDES if one != "venv")


def test_state_files_are_captured_although_ignored() -> None:
    """Rule P2."""
    capture = configured([user(capture__state_files=["progress.md"])]).settings.capture
    assert capture.state_files == ("progress.md",)
    assert capture.include == ("/progress.md",)  # the one at the top, not one in every folder


def test_the_usual_state_files_are_the_default_and_a_repository_can_only_add() -> None:
    """Rules P2, K7."""
    assert configured([]).settings == Settings()
    state = configured([project(capture__state_files=["notes.md"])]).settings.capture.state_files
    assert state == ("feature_list.json", "progress.md", "notes.md")


@pytest.mark.parametrize("key", sorted(set(KEYS) - OPEN_TO_PROJECTS))
def test_a_repository_cannot_decide_what_is_the_users_to_decide(key: str) -> None:
    """Rule K7."""
    with pytest.raises(Invalid, match="not for a repository"):
        configured([Layer(scope="project", source="p", values={key: "1"})])


@pytest.mark.parametrize("key", ["store", "store.path"])
def test_a_repository_cannot_name_a_store(key: str) -> None:
    """Rule K7."""
    with pytest.raises(Invalid, match="not for a repository"):
        configured([Layer(scope="project", source="p", values={key: "/elsewhere"})])


@pytest.mark.parametrize("pattern", ["/etc/passwd", "../secret", "a/../../b", "~/.ssh/id", "!.git"])
def test_nothing_outside_the_workspace_can_be_included(pattern: str) -> None:
    """Rule K7."""
    for layer in (project(capture__include=[pattern]), user(capture__state_files=[pattern])):
        with pytest.raises(Invalid, match="outside the workspace"):
            configured([layer])


def test_triggers_of_a_repository_take_none_away() -> None:
    """Rule K7: naming one would otherwise switch off all the others."""
    found = configured([project(auto__on=["turn"])])
    assert found.settings.auto.on == TRIGGERS
    assert next(one.sources for one in found.origins if one.key == "auto.on") == ("default", "project.toml")


@pytest.mark.parametrize("key", ["auto__on", "capture__state_files"])
def test_a_list_that_the_user_emptied_stays_empty(key: str) -> None:
    """Rule K7: a setting that is off stays off."""
    added = {"auto__on": ["turn"], "capture__state_files": ["x"]}[key]
    found = configured([user(**{key: []}), project(**{key: added})])
    assert next(one.value for one in found.origins if one.key == key.replace("__", ".")) == ()
    assert found.added_by_project == ()


@pytest.mark.parametrize("pattern", ["*", "/", "**", "/*", "**/*", "?*", "*/"])
def test_a_repository_cannot_exclude_everything(pattern: str) -> None:
    """Rule K7: it cannot disable capture."""
    with pytest.raises(Invalid, match="cannot switch capture off"):
        configured([project(capture__exclude=["*.bin", pattern])])
    assert configured([user(capture__exclude=[pattern])]).settings.capture.exclude == (pattern,)


def test_what_a_repository_adds_is_told_apart() -> None:
    """Rule K7: triggers and excludes of a repository's own file are listed."""
    found = configured([project(capture__exclude=["*.bin"], auto__on=["turn"])])
    assert found.added_by_project == ("capture.exclude: *.bin", "auto.on: turn")


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    with pytest.raises(Invalid, match=r"no setting 'capture\.exlude'") as caught:
        configured([user(capture__exlude=[])])
    assert caught.value.hint == "did you mean capture.exclude?"


def test_a_key_in_the_wrong_section_is_answered_with_its_place() -> None:
    with pytest.raises(Invalid) as caught:
        configured([user(auto__max_file_size="1MiB")])
    assert caught.value.hint == "did you mean capture.max_file_size?"


def test_an_unknown_section_is_an_error() -> None:
    with pytest.raises(Invalid, match="no setting 'captured'"):
        flattened({"captured": {"exclude": []}}, source="f")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("capture.exclude", "*.bin"),
        ("capture.exclude", [1]),
        ("capture.max_file_size", "big"),
        ("capture.max_file_size", 0),
        ("capture.max_file_size", True),
        ("durability", "slow"),
        ("auto.enabled", "yes"),
        ("auto.interval", "15"),
        ("auto.on", ["lunch"]),
        ("retention.max_checkpoints", 0),
        ("retention.max_checkpoints", "500"),
        ("retention.turn", {"weekly": 1}),
        ("retention.turn", {"last": -1}),
        ("retention.turn", {}),
        ("retention.turn", {"last": 0, "daily": 0}),
        ("retention.turn", {"last": True}),
        ("retention.turn", {"last": 1.5}),
        ("retention.turn", {"last": 10**20}),
        ("retention.turn", 100),
        ("retention.max_checkpoints", 10**20),
        ("retention.max_store_size", "9" * 5000),
        ("auto.interval", "9" * 400 + "h"),
        ("auto.interval", "1000000d"),
        ("capture.exclude", ["a\nb"]),
        ("capture.global_excludes", "\0"),
        ("session.expires_after", 24),
    ],
)
def test_a_wrong_type_names_the_key_and_the_right_form(key: str, wrong: object) -> None:
    with pytest.raises(Invalid, match=key) as caught:
        configured([Layer(scope="user", source="f", values={key: wrong})])
    assert caught.value.hint.startswith(f"{key} is ")


@pytest.mark.parametrize(
    ("text", "rungs"),
    [
        ("last=100,hourly=24, daily=14", {"last": 100, "hourly": 24, "daily": 14}),
        ("daily = 3", {"daily": 3}),
        ("7", {"last": 7}),
    ],
)
def test_rungs_can_be_given_as_a_variable(text: str, rungs: dict[str, int]) -> None:
    values = {"retention.turn": text}
    assert (
        value_of("retention.turn", Layer(scope="environment", source="e", values=values, texts=True)) == rungs
    )


@pytest.mark.parametrize("text", ["", "many", "last=x", "last=-1", "last=1,last=2", "weekly=1", "=1", "0"])
def test_a_variable_that_holds_no_rungs_is_refused(text: str) -> None:
    """Rule K2: a slip never changes what is kept."""
    values = {"retention.turn": text}
    with pytest.raises(Invalid, match=r"retention\.turn"):
        configured([Layer(scope="environment", source="e", values=values, texts=True)])


@pytest.mark.parametrize(
    ("content", "key", "line"),
    [
        ('a = 1\n[capture]\n# exclude = 0\nexclude = ["x"]\n', "capture.exclude", 4),
        ('capture.exclude = ["x"]\n', "capture.exclude", 1),
        ('capture = { exclude = ["x"] }\n', "capture.exclude", 1),
        ("[ retention . turn ]\nlast = 1\n", "retention.turn", 1),
        ('["capture"]\n"exclude" = 1\n', "capture.exclude", 2),
        ("[capture]\n[auto]\n", "auto", 2),
        ("[capture]\nexclude = 1\nexclude = 2\n", "capture.exclude", None),
        ("[capture]\nother = 1\n", "capture.exclude", None),
    ],
)
def test_the_line_of_a_key_is_found_where_there_is_no_doubt(content: str, key: str, line: int | None) -> None:
    assert line_of(content, key) == line


def test_the_error_names_file_and_line() -> None:
    content = "[capture]\nexclude = []\nexlude = []\n"
    layer = Layer(scope="user", source="f.toml", values={"capture.exlude": []}, content=content)
    with pytest.raises(Invalid, match=r"^f\.toml:3: there is no setting 'capture\.exlude'") as caught:
        configured([layer])
    assert caught.value.details == {"source": "f.toml", "key": "capture.exlude", "line": 3, "scope": "user"}


def test_every_key_of_the_published_sample_is_accepted() -> None:
    sample = {
        "capture": {
            "exclude": ["data/*.parquet"],
            "include": [".env"],
            "state_files": ["feature_list.json", "progress.md"],
            "max_file_size": "32MiB",
        },
        "auto": {"enabled": True, "interval": "15m", "on": ["session-start", "turn", "interrupt"]},
        "retention": {
            "max_checkpoints": 500,
            "max_store_size": "5GiB",
            "turn": {"last": 100, "hourly": 24, "daily": 14},
        },
        "session": {"expires_after": "24h"},
    }
    layer = Layer(scope="user", source="f", values=flattened(sample, source="f"))
    assert value_of("retention.turn", layer) == {"last": 100, "hourly": 24, "daily": 14}


# docs/configuration.md says what the table of settings says.


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def page() -> str:
    with open(os.path.join(ROOT, "docs", "configuration.md"), encoding="utf-8") as file:
        return file.read()


def default_of(known: Key) -> str:
    value = known.default
    if isinstance(value, bool):
        return str(value).lower()
    if known.form == "size" and isinstance(value, int):
        return size(value)
    if known.form == "duration" and isinstance(value, float):
        return span(value)
    if isinstance(value, tuple):
        every = value and value == known.choices
        return "all" if every else ", ".join(f"`{one}`" for one in value) or "empty"
    if value is None:
        return "none"
    return f"`{value}`" if isinstance(value, str) else str(value)


def test_every_setting_has_its_row() -> None:
    rows = [
        f"| `{key}` | {default_of(known)} | {'adds' if key in OPEN_TO_PROJECTS else 'no'} | {known.says} |"
        for key, known in KEYS.items()
        if known.form != "rungs"
    ]
    written = [
        line for line in page().splitlines() if re.match(r"\| `[a-z_.]+` \| [^|]+ \| (adds|no) \|", line)
    ]
    assert written == rows


def test_every_kind_and_every_built_in_pattern_is_named() -> None:
    text = page()
    assert [
        word for word in (*KINDS, *BUILT_IN_EXCLUDES, *BUILT_IN_INCLUDES) if f"`{word}`" not in text
    ] == []


def test_the_example_is_accepted_and_shows_the_defaults() -> None:
    found = not_none(re.search(r"```toml\n(.*?)```", page(), re.DOTALL))
    values = flattened(tomllib.loads(found.group(1)), source="docs")
    settings = configured([Layer(scope="user", source="docs", values=values)]).settings
    assert settings.auto == Settings().auto
    assert settings.limits == Settings().limits
    assert settings.session_expires_after == Settings().session_expires_after
    assert settings.capture.state_files == Settings().capture.state_files


# AIWF's settings, as its guide and its template have them.


def as_pairs(tree: object) -> dict[str, object]:
    return {one.key: one.value for one in translated(tree, source="f.yaml").taken}


def test_the_settings_of_the_guide_are_translated() -> None:
    guide = {
        "auto_checkpoint": True,
        "interval_minutes": 15,
        "max_checkpoints": 50,
        "checkpoint_on": ["task_complete", "sprint_complete", "before_risky_operation", "interval"],
    }
    ours = {
        "auto.enabled": True,
        "auto.interval": "15m",
        "retention.max_checkpoints": 50,
        "auto.on": list(TRIGGERS),
    }
    assert as_pairs({"checkpoint": guide}) == ours
    assert as_pairs(guide) == ours


def test_a_setting_that_is_off_stays_off() -> None:
    """Rule K7."""
    assert as_pairs({"checkpoint": {"auto_checkpoint": False}}) == {"auto.enabled": False}
    assert as_pairs({"checkpoint": {"enabled": False}}) == {"auto.enabled": False}
    assert as_pairs({"checkpoint": {"checkpoint_on": []}}) == {"auto.on": []}


def test_what_has_no_like_is_listed_with_the_reason() -> None:
    tree = {
        "enabled": True,
        "quality": {"x": 1},
        "checkpoint": {"interval": 5, "recovery_mode": "auto", "checkpoint_on": ["task_complete", "lunch"]},
    }
    found = translated(tree, source="f.yaml")
    assert [key for key, _ in found.left] == [
        "enabled",
        "quality",
        "checkpoint.interval",
        "checkpoint.recovery_mode",
        "checkpoint.checkpoint_on: lunch",
    ]
    assert all(reason for _, reason in found.left)
    assert [one.value for one in found.taken] == [
        ["session-start", "turn", "task", "feature", "iteration", "compaction", "interrupt", "error"]
    ]


def test_moments_of_which_a_list_of_theirs_says_nothing_stay_on() -> None:
    """Its guide makes a checkpoint at the start of a session and on an interruption, whatever is listed."""
    off = {"sprint", "risky", "interval"}
    assert as_pairs({"checkpoint_on": ["task_complete"]}) == {
        "auto.on": [one for one in TRIGGERS if one not in off]
    }


@pytest.mark.parametrize(
    "tree",
    [
        None,
        [],
        "text",
        {"checkpoint": 5},
        {"auto_checkpoint": "yes"},
        {"interval_minutes": 0},
        {"interval_minutes": True},
        {"interval_minutes": 10**12},
        {"max_checkpoints": "50"},
        {"checkpoint_on": "task_complete"},
        {"checkpoint_on": [1]},
    ],
)
def test_nonsense_is_refused_and_named(tree: object) -> None:
    with pytest.raises(Invalid, match=r"^f\.yaml") as caught:
        translated(tree, source="f.yaml")
    assert caught.value.hint


def test_a_built_in_include_can_be_switched_off_by_the_user_alone() -> None:
    """S5, K7: a repository's own file cannot switch capture off."""
    found = configured([user(capture__built_in_off=[".env"])]).settings.capture
    assert found.built_in_includes == tuple(one for one in BUILT_IN_INCLUDES if one != ".env")
    assert found.built_in == BUILT_IN_EXCLUDES
    with pytest.raises(Invalid, match="not for a repository to decide"):
        configured([project(capture__built_in_off=[".env"])])
