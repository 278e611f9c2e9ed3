"""Prints the public surface of a checkpoints package, for another process to compare."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from dataclasses import fields

TYPES = ("CheckpointConfig", "Checkpoint", "FileDiff", "CheckpointDiff", "CheckpointResult")


def surface(package: str) -> dict[str, object]:
    """Return names, parameters, defaults, fields and values."""
    types = importlib.import_module(f"{package}.types")
    service = importlib.import_module(f"{package}.service").CheckpointService
    return {
        "events": {one.name: one.value for one in types.CheckpointEvent},
        "fields": {
            name: [one.name for one in fields(getattr(types, name)) if not one.kw_only] for name in TYPES
        },
        "methods": {
            name: {
                "parameters": [
                    (one.name, repr(one.default))
                    for one in inspect.signature(method).parameters.values()
                    if one.kind is not one.KEYWORD_ONLY
                ],
                "awaited": inspect.iscoroutinefunction(method),
            }
            for name, method in inspect.getmembers(service, inspect.isfunction)
            if not name.startswith("_") or name == "__init__"
        },
        "properties": [
            name for name, _ in inspect.getmembers(service, lambda one: isinstance(one, property))
        ],
        "excludes": types.CheckpointConfig("x").exclude_patterns,
        "storage": types.CheckpointConfig("x").storage_dir,
    }


async def story(package: str, project: str, storage: str) -> list[object]:
    """Use a service as its users do, and return all that can be seen of it."""
    types = importlib.import_module(f"{package}.types")
    service = importlib.import_module(f"{package}.service").CheckpointService(project, storage)
    seen: list[object] = []
    for event in types.CheckpointEvent:
        service.on(event, lambda _said, event=event: seen.append(event.value))

    def put(text: str) -> None:
        with open(f"{project}/file", "w", encoding="utf-8") as file:
            file.write(text)

    def kept() -> str:
        with open(f"{project}/file", encoding="utf-8") as file:
            return file.read()

    def told(result: object) -> None:
        made = result.checkpoint  # type: ignore[attr-defined]
        step = None if made is None else (made.message, made.step, made.short_id == made.id[:8])
        seen.append((result.success, step, result.error))  # type: ignore[attr-defined]

    told(await service.save("too early"))
    seen.append(await service.initialize())
    told(await service.save("nothing there"))
    put("one\n")
    told(await service.save("one"))
    told(await service.save("again"))
    told(await service.save("empty", allow_empty=True))
    put("two\n")
    told(await service.save("[step-9] two", step=2))
    put("three\nthree\n")
    told(await service.save("three", step=3))
    told(await service.save("bad", step=-1))
    diff = await service.diff()
    seen.append([(one.path, one.status, one.additions, one.deletions) for one in diff.files])
    seen.append([(one.message, one.step) for one in await service.list_checkpoints()])
    seen.append([one.message for one in await service.list_checkpoints(limit=2)])
    put("unsaved\n")
    told(await service.restore(step=2))
    seen.append(kept())
    told(await service.save("no change"))
    told(await service.rewind(1))
    told(await service.rewind(1))
    seen.append(kept())
    told(await service.rewind(0))
    told(await service.rewind(99))
    told(await service.restore())
    told(await service.restore("abcd", step=1))
    told(await service.restore(step=77))
    seen.append(await service.get_checkpoint_by_step(77))
    await service.cleanup()
    told(await service.save("late"))
    seen.append(await service.delete_all())
    return seen


if __name__ == "__main__":
    words = sys.argv[1:]
    told = surface(words[0]) if len(words) == 1 else asyncio.run(story(*words))
    print(json.dumps(told))
