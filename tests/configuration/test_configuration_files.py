from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lastgood.configuration import read_configuration, read_settings, user_file
from lastgood.configuration.rules import KEYS
from lastgood.errors import Invalid
from lastgood.settings import Rungs, Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config" / "lastgood").mkdir(parents=True)
    return tmp_path / "config"


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(home), **more}


def test_no_files_and_no_variables_leave_the_defaults(project: Path, home: Path) -> None:
    found = read_configuration(str(project), environment=environment(home))
    assert found.settings.capture.exclude == ()


def test_where_nobody_says_anything_the_rules_give_the_built_in_settings(project: Path, home: Path) -> None:
    found = read_configuration(str(project), environment=environment(home)).settings
    assert read_settings(str(project), environment=environment(home)) == (found, ()) == (Settings(), ())


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_is_heard_as_a_variable(project: Path, home: Path, key: str) -> None:
    name = "LASTGOOD_" + key.upper().replace(".", "_").replace("-", "_")
    text = {
        "rungs": "last=3",
        "choice": next(iter(KEYS[key].choices), ""),
        "choices": "",
        "flag": "0",
        "text": "/f",
        "duration": "7m",
    }.get(KEYS[key].form)
    given = environment(home, **{name: "7" if text is None else text})
    found = read_configuration(str(project), environment=given)
    assert next(one for one in found.origins if one.key == key).sources == ("environment",)
    assert read_settings(str(project), environment=given) == (found.settings, ())


def test_the_layers_add_up_in_their_order(project: Path, home: Path) -> None:
    (home / "lastgood" / "config.toml").write_text(
        '[capture]\nexclude = ["mine"]\nmax_file_size = "1MiB"\n', encoding="utf-8"
    )
    (project / ".lastgood.toml").write_text('[capture]\nexclude = ["theirs"]\n', encoding="utf-8")
    variables = environment(home, LASTGOOD_CAPTURE_MAX_FILE_SIZE="2MiB", LASTGOOD_CAPTURE_EXCLUDE="x, y")
    capture = read_configuration(str(project), environment=variables).settings.capture
    assert capture.exclude == ("mine", "theirs", "x", "y")
    assert capture.max_file_size == 2 << 20


def test_a_section_of_pyproject_counts_where_there_is_no_own_file(project: Path, home: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.lastgood.capture]\nexclude = ["p"]\n', encoding="utf-8")
    found = read_configuration(str(project), environment=environment(home))
    assert found.settings.capture.exclude == ("p",)
    (project / ".lastgood.toml").write_text('[capture]\nexclude = ["own"]\n', encoding="utf-8")
    found = read_configuration(str(project), environment=environment(home))
    assert found.settings.capture.exclude == ("own",)


@pytest.mark.parametrize("text", ["this = is [ not TOML", "dependencies = ['lastgood'\n[ broken"])
def test_a_broken_pyproject_without_a_table_of_ours_is_passed_over(
    project: Path, home: Path, text: str
) -> None:
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    assert read_configuration(str(project), environment=environment(home)).added_by_project == ()


@pytest.mark.parametrize("header", ["[tool.lastgood.capture]", '[ tool . "lastgood" . capture ]'])
def test_a_wrong_key_in_pyproject_is_named_with_its_line(project: Path, home: Path, header: str) -> None:
    (project / "pyproject.toml").write_text(f"[project]\nname = 'x'\n\n{header}\nexlude = []\n")
    with pytest.raises(Invalid, match=r"pyproject\.toml:5: there is no setting 'capture\.exlude'") as caught:
        read_configuration(str(project), environment=environment(home))
    assert caught.value.details["scope"] == "project"


def test_a_broken_pyproject_with_a_table_of_ours_is_an_error(project: Path, home: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.lastgood.capture]\nexclude = [\n")
    with pytest.raises(Invalid, match=r"pyproject\.toml is not TOML"):
        read_configuration(str(project), environment=environment(home))


MERGED = """\
durability = "fast"
[auto]
<<<<<<< ours
enabled = false
=======
enabled = false
interval = "5m"
>>>>>>> theirs
[capture]
exclude = ["a"]
max_file_size = "1MiB
"""


@pytest.mark.parametrize("last", ["", "[capture", "[retention\nmax_checkpoints = 5", "x = [[["])
def test_a_setting_that_is_off_stays_off_beside_the_marks_of_a_merge(
    project: Path, home: Path, last: str
) -> None:
    """Rule K7; and no key is taken for one of another table."""
    own = Path(user_file(environment(home)) or "")
    own.write_text(MERGED + last)
    found, faults = read_settings(str(project), environment=environment(home))
    assert not found.auto.enabled
    assert found.durability == "fast"
    assert found.capture.exclude == ("a",)
    assert found.capture.max_file_size == Settings().capture.max_file_size
    assert found.limits == Settings().limits
    assert faults[0].details["scope"] == "user"
    with pytest.raises(Invalid, match="is not TOML"):
        read_configuration(str(project), environment=environment(home))


def test_what_is_no_text_at_all_says_nothing(project: Path, home: Path) -> None:
    own = Path(user_file(environment(home)) or "")
    for content in (bytes(range(256)) * 40, b"[" * 100_000, b"a = " + b"[" * 100_000, b"\xff\xfe[auto]"):
        own.write_bytes(content)
        found, faults = read_settings(str(project), environment=environment(home))
        assert found == Settings()
        assert faults[0].details["scope"] == "user"


def test_a_file_nested_without_end_is_no_toml(project: Path, home: Path) -> None:
    (project / ".lastgood.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(Invalid, match="is not TOML"):
        read_configuration(str(project), environment=environment(home))


def test_without_a_workspace_the_users_own_settings_count(project: Path, home: Path) -> None:
    (home / "lastgood" / "config.toml").write_text('durability = "fast"\n', encoding="utf-8")
    assert read_configuration(None, environment=environment(home)).settings.durability == "fast"


def test_what_stays_of_a_kind_can_be_given_as_a_variable(project: Path, home: Path) -> None:
    given = environment(home, LASTGOOD_RETENTION_SESSION_START="last=5,daily=7")
    found = read_configuration(str(project), environment=given).settings.retention
    assert found == {"session-start": Rungs(last=5, daily=7)}


def test_a_repository_cannot_weaken_durability(project: Path, home: Path) -> None:
    """Rule K7."""
    (project / ".lastgood.toml").write_text('durability = "fast"\n', encoding="utf-8")
    with pytest.raises(Invalid, match=r"\.lastgood\.toml:1: 'durability' is not for a repository"):
        read_configuration(str(project), environment=environment(home))


def test_the_user_can_choose_fast_durability(project: Path, home: Path) -> None:
    """Rule S13."""
    (home / "lastgood" / "config.toml").write_text('durability = "fast"\n', encoding="utf-8")
    assert read_configuration(str(project), environment=environment(home)).settings.durability == "fast"


@pytest.mark.parametrize("content", [b"[capture\n", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_named(project: Path, home: Path, content: bytes) -> None:
    (project / ".lastgood.toml").write_bytes(content)
    with pytest.raises(Invalid, match=r"\.lastgood\.toml is not TOML"):
        read_configuration(str(project), environment=environment(home))


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(project: Path, home: Path) -> None:
    os.mkfifo(project / ".lastgood.toml")
    with pytest.raises(Invalid, match="no file that settings could be in"):
        read_configuration(str(project), environment=environment(home))


def test_a_pipe_in_the_place_of_pyproject_is_passed_over(project: Path, home: Path) -> None:
    os.mkfifo(project / "pyproject.toml")
    assert read_configuration(str(project), environment=environment(home)).added_by_project == ()


def test_a_variable_that_is_nearly_a_setting_is_an_error(project: Path, home: Path) -> None:
    with pytest.raises(Invalid) as caught:
        read_configuration(str(project), environment=environment(home, LASTGOOD_CAPTURE_EXCLUDES="x"))
    assert caught.value.hint == "did you mean LASTGOOD_CAPTURE_EXCLUDE?"


def test_variables_that_are_no_settings_are_left_alone(project: Path, home: Path) -> None:
    given = environment(home, LASTGOOD_STORE="/s", LASTGOOD_SESSION="x", LASTGOOD_TRACE="1")
    assert {one.sources for one in read_configuration(str(project), environment=given).origins} == {
        ("default",)
    }


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("0", False), ("no", False)], ids=["true", "zero", "no"]
)
def test_a_flag_can_be_given_as_a_variable(project: Path, home: Path, text: str, *, value: bool) -> None:
    found = read_configuration(str(project), environment=environment(home, LASTGOOD_AUTO_ENABLED=text))
    assert next(one.value for one in found.origins if one.key == "auto.enabled") is value


@pytest.mark.skipif(sys.platform == "darwin", reason="the place is another there")
def test_without_xdg_the_users_file_is_below_home() -> None:
    assert user_file({"HOME": "/h"}) == "/h/.config/lastgood/config.toml"
    assert user_file({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == "/h/.config/lastgood/config.toml"
    assert user_file({}) is None
