"""What is done to the files of a workspace, as generated: writes, moves, links, and saves in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "A", ".gitignore"])
PLACES = st.lists(st.sampled_from(["a", "b", "c", "A"]), max_size=3)
Step = tuple[str, list[str], str, list[str], str]
STEPS = st.tuples(
    st.sampled_from(
        [
            "write",
            "append",
            "same-size",
            "cut",
            "folder",
            "move",
            "move-in",
            "move-out",
            "swap",
            "link",
            "alias",
            "remove",
            "mode",
            "save",
        ]
    ),
    PLACES,
    NAMES,
    PLACES,
    NAMES,
)


def take(  # noqa: C901, PLR0912 - one case for each operation
    step: Step, number: int, *, root: Path, outside: Path, save: Callable[[], None]
) -> None:
    """Do one thing to files, if it can be done; or ``save``."""
    kind, above, name, others, other = step
    path, target = root.joinpath(*above, name), root.joinpath(*others, other)
    text = f"{number:06}\n"
    try:
        match kind:
            case "write":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("a\n" if name == ".gitignore" else text)
            case "append":
                with path.open("a") as file:
                    file.write(text)
            case "same-size":
                before = path.stat()
                path.write_text("x" * before.st_size)
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            case "cut":
                os.truncate(path, 1)
            case "folder":
                path.mkdir(parents=True)
                (path / "inside").write_text(text)
            case "move":
                path.rename(target)
            case "move-in":
                shutil.rmtree(outside)
                (outside / "x" / "a").mkdir(parents=True)
                (outside / "x" / "a" / "b").write_text(text)
                (outside / "x").rename(target)
            case "move-out":
                shutil.rmtree(outside)
                outside.mkdir()
                path.rename(outside / "x")
            case "swap":
                aside = outside / "swap"
                path.rename(aside)
                target.rename(path)
                aside.rename(target)
            case "link":
                target.symlink_to(name)
            case "alias":
                os.link(path, target)
            case "remove":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "mode":
                path.chmod(path.stat().st_mode ^ 0o100)
            case _:
                save()
    except OSError:  # what was to be changed is not there, or in the way
        pass
