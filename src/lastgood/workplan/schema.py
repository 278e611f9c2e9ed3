"""The JSON Schema of work plans, made from the same table that their validation goes by.

Beyond it, a plan's ids have to be different, its needs have to name tasks and lead in no circle, and
its times have to be more than 0 seconds.
"""

from __future__ import annotations

from lastgood.workplan.form import (
    COMMAND_LIMIT,
    COUNT_LIMIT,
    CWD_PATTERN,
    DURATION_PATTERN,
    FILLED_PATTERN,
    ID_PATTERN,
    PATTERNS_LIMIT,
    PLAN_KEYS,
    RESERVED_VARIABLES,
    SECONDS_LIMIT,
    SPRINT_KEYS,
    TASK_KEYS,
    TASKS_LIMIT,
    TEXT_LIMIT,
    TEXT_PATTERN,
    VARIABLE_PATTERN,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from lastgood.workplan.form import Key

_WORD: dict[str, object] = {
    "type": ["string", "integer"],
    "pattern": TEXT_PATTERN,
    "maxLength": COMMAND_LIMIT,
}
_FILLED: dict[str, object] = {"allOf": [{"pattern": FILLED_PATTERN}, {"pattern": TEXT_PATTERN}]}
_DEFINITIONS: dict[str, object] = {
    "id": {"type": "string", "pattern": ID_PATTERN},
    "ids": {"type": "array", "items": {"$ref": "#/$defs/id"}},
    "text": {"type": "string", "maxLength": TEXT_LIMIT, **_FILLED},
    "texts": {"type": "array", "maxItems": PATTERNS_LIMIT, "items": {"$ref": "#/$defs/text"}},
    "word": _WORD,
    "command": {
        "anyOf": [
            {"type": "string", "maxLength": COMMAND_LIMIT, **_FILLED},
            {
                "type": "array",
                "minItems": 1,
                "prefixItems": [{"allOf": [{"$ref": "#/$defs/word"}, {"pattern": FILLED_PATTERN}]}],
                "items": {"$ref": "#/$defs/word"},
            },
        ]
    },
    "count": {"type": "integer", "minimum": 0, "maximum": COUNT_LIMIT},
    "duration": {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": SECONDS_LIMIT},
            {"type": "string", "pattern": DURATION_PATTERN},
        ]
    },
    "flag": {"type": "boolean"},
    "choice": {"type": "string"},
    "env": {
        "type": "object",
        "propertyNames": {"pattern": VARIABLE_PATTERN, "not": {"enum": list(RESERVED_VARIABLES)}},
        "additionalProperties": {"$ref": "#/$defs/word"},
    },
    "cwd": {"type": "string", "maxLength": TEXT_LIMIT, "pattern": CWD_PATTERN},
    "tasks": {
        "type": "array",
        "minItems": 1,
        "maxItems": TASKS_LIMIT,
        "items": {"$ref": "#/$defs/task"},
    },
    "sprints": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/sprint"}},
}


def plan_schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a work plan."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:lastgood:workplan:1",
        "title": "A work plan for `lastgood run`",
        **_object(PLAN_KEYS),
        "oneOf": [{"required": ["tasks"]}, {"required": ["sprints"]}],
        "$defs": {**_DEFINITIONS, "task": _object(TASK_KEYS), "sprint": _object(SPRINT_KEYS)},
    }


def _object(keys: Mapping[str, Key]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {name: _property(key) for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.needed],
        "additionalProperties": False,
    }


def _property(key: Key) -> dict[str, object]:
    found: dict[str, object] = {"description": key.says, "$ref": f"#/$defs/{key.form}"}
    if key.choices:
        found["enum"] = list(key.choices)
    if key.default is not None:
        found["default"] = key.default
    return found
