"""Compiles the library in C beside the scanner, for wheels and checkouts: `python hatch_build.py`.

lastgood does without it, only slower. So where there is no compiler a wheel without it is made, which is for
any machine. LASTGOOD_WHEEL names what a wheel has to be for, as `scripts/release` does: `any`, or a platform
for which CC compiles.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "src/lastgood/scanner/libstates.so.2"
_SOURCE = "src/lastgood/scanner/states.c"
_FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-fPIC", "-shared", "-s")


def compile_library(root: str) -> str:
    """Compile it in a checkout; return what was wrong, and nothing if it is there."""
    if sys.platform != "linux":
        return "it is of use on Linux alone"
    target = os.path.join(root, LIBRARY)
    made = f"{target}.{os.getpid()}"
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError as error:
        return f"CC: {error}"
    try:
        done = subprocess.run(
            [*compiler, *_FLAGS, "-o", made, os.path.join(root, _SOURCE)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            return done.stderr.strip() or f"{compiler[0]} ended with {done.returncode}"
        os.replace(made, target)  # who has the one before loaded keeps it
    except OSError as error:
        return f"{compiler[0]}: {error.strerror}"
    finally:
        if os.path.lexists(made):
            os.unlink(made)
    return ""


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the library into a wheel, which is for this kind of machine then, and for any Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile it; a wheel without it is still a wheel, where none with it was asked for."""
        del version
        asked = os.environ.get("LASTGOOD_WHEEL", "")
        if asked == "any":
            return
        if wrong := compile_library(self.root):
            if asked:
                self.app.abort(f"no {LIBRARY} for {asked}: {wrong}")
            self.app.display_warning(f"made without {LIBRARY}, so it looks at files more slowly: {wrong}")
            return
        platform = asked or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(LIBRARY)


if __name__ == "__main__":
    said = compile_library(os.path.dirname(os.path.abspath(__file__)))
    sys.exit(f"hatch_build: {said}" if said else 0)
