"""Makes the annotations of what is public readable when a program runs, as `typing.get_type_hints` does.

Commands read none, so each module names what only its annotations need in a block that Python passes
over. A program that asks the package for a name gets all of that put in place (docs/decisions/034).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

# Where annotations of what is public stand.
_MODULES = (
    *("literals", "value", "errors", "settings", "ledger", "ledger.cells", "retention.policy", "host"),
    *("model.tree", "model.session", "model.checkpoint", "model.operation", "model.report", "model.run"),
    *("model.activity", "model.exchange", "model.calls"),
    *("workspace", "workspace.arguments", "workspace.opened", "workspace.restore"),
    *("workspace.api", "workspace.session", "workspace.step"),
)
_ASYNCHRONOUS = ("aio.bridge", "aio.calls", "aio.session", "aio.workspace")
_OF_PYTHON = {
    "builtins": "bool bytes dict float int object str type",
    "collections.abc": "Callable Coroutine Generator Iterable Iterator Mapping Sequence",
    "contextlib": "AbstractContextManager",
    "datetime": "datetime",
    "types": "FrameType TracebackType",
    "typing": "Any ClassVar Concatenate Final Generic Literal Protocol Self Unpack",
}


@cache
def supply(*, asynchronous: bool = False) -> None:
    """Give every public module the names that its annotations use and that it does not have."""
    known = {
        name: getattr(import_module(module), name)
        for module, names in _OF_PYTHON.items()
        for name in names.split()
    }
    modules = [import_module(f"lastgood.{name}") for name in _MODULES + _ASYNCHRONOUS * asynchronous]
    for module in modules:
        for name, item in vars(module).items():
            if name[0].isupper() and not name.isupper():
                known.setdefault(name, item)
    for module in modules:
        for name, item in known.items():
            vars(module).setdefault(name, item)
