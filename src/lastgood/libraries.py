"""How a library that is not here comes to where lastgood runs: another Python's pip brings it elsewhere."""

from __future__ import annotations

import os
import sys
import sysconfig
from importlib.util import find_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def install(*packages: str) -> str:
    """Return what to type so that some packages come to where lastgood runs."""
    return install_command(packages, prefix=sys.prefix, python=sys.executable, has_pip=_has_pip())


def _has_pip() -> bool:
    """Tell whether this Python's own pip may install into it."""
    in_environment = sys.prefix != sys.base_prefix
    managed = os.path.exists(sysconfig.get_path("stdlib") + "/EXTERNALLY-MANAGED")
    return find_spec("pip") is not None and (in_environment or not managed)


def install_command(packages: Sequence[str], *, prefix: str, python: str, has_pip: bool) -> str:
    """Return what to type so that libraries come to where lastgood runs.

    ``prefix`` is that of its Python: pipx and uv leave a file there that says that it is theirs.
    """
    from shlex import join, quote

    if os.path.exists(f"{prefix}/pipx_metadata.json"):
        return join(["pipx", "inject", os.path.basename(prefix), *packages])
    if os.path.exists(f"{prefix}/uv-receipt.toml"):
        beside = [word for package in packages for word in ("--with", package)]
        return join(["uv", "tool", "install", *beside, _uv_source(f"{prefix}/uv-receipt.toml")])
    if has_pip:
        return f"{quote(python)} -m pip install {join(packages)}"
    return f"uv pip install --python {quote(python)} {join(packages)}"


def _uv_source(receipt: str) -> str:
    """Return what uv was told to install: a folder, or the name by which an index has it."""
    import tomllib

    try:
        with open(receipt, "rb") as file:
            requirements = tomllib.load(file)["tool"]["requirements"]
        known = next(one for one in requirements if one["name"] == "lastgood")
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return "lastgood"
    return str(known.get("directory") or known.get("editable") or known.get("path") or "lastgood")
