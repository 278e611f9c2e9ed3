"""Every stored form and every document is what it was: byte for byte, and refused for the same reasons.

`recorded_forms.json` was written by the release before values had one table of their fields; it is never
made anew, and of it the lists alone were changed since, to ``lastgood.list/2``, and the names of known hosts.
Gaps have got a reason more. A case has a value as Python writes it, and its text. Of malformed texts it has
what came of putting each of `WRONG` in each place: the usual outcome, then the others by number ("=" reads as
what it was, a sum as something else).
"""

from __future__ import annotations

import copy
import json
import os
import zlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from lastgood import documents
from lastgood.errors import LastgoodError
from lastgood.exchange import form as exchange_form
from lastgood.model import activity, checkpoint, exchange, operation, report, run, session, tree
from lastgood.model.canonical import dumps
from lastgood.retention import policy
from lastgood.value import Alias, Value
from lastgood.workplan import plan as workplan_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

with open(os.path.join(os.path.dirname(__file__), "recorded_forms.json"), encoding="ascii") as file:
    RECORDED: dict[str, Any] = json.load(file)

MODELS = (policy, activity, checkpoint, exchange, operation, report, run, session, tree)
NAMES = {name: one for model in MODELS for name, one in vars(model).items() if isinstance(one, type)}
STORED: dict[str, tuple[Callable[[Any], str | bytes], Callable[[Any], Any]]] = {
    "manifest": (checkpoint.encode, checkpoint.decode),
    "operation": (operation.OPERATION.encode, operation.OPERATION.decode),
    "journal": (operation.JOURNAL.encode, operation.JOURNAL.decode),
    "session": (session.SESSION.encode, session.SESSION.decode),
    "effect": (session.EFFECT.encode, session.EFFECT.decode),
    "progress": (session.encode_progress, session.decode_progress),
    "plan": (workplan_plan.PLAN.encode, workplan_plan.PLAN.decode),
    "check": (checkpoint.CHECK.encode, checkpoint.CHECK.decode),
    "header": (exchange_form.encode_header, exchange_form.decode_header),
    "facts": (exchange_form.encode_facts, exchange_form.decode_facts),
}
# What messages say since there is one more of something.
GAINED = (
    ("budget, withheld)", "budget, withheld, purged)"),
    ("reads lastgood.manifest/1", "reads up to lastgood.manifest/2"),
)
ENTRY = report.ListedEntry(path=b"\xff", mode=5, kind="file", size=3, oid="ab", lost=True)
DOCUMENTS: dict[str, Callable[[Any], object]] = {
    "list": lambda one: documents.list_document([one]),
    "show": lambda one: documents.document(
        "show",
        {"checkpoint": documents.record(one), "entries": [documents.record(ENTRY)], "messages": [{"a": 1}]},
    ),
    "workspace": documents.record,
    "effect": documents.record,
    "session": documents.record,
    "restore": lambda one: documents.document("rewind", one),
    "operations": lambda one: documents.operations_document("redo", [one]),
    "progress": lambda one: documents.document("task", one),
    "event": documents.event_document,
    "run": lambda one: documents.reviewed_document(one, at=10**18),
    "report": lambda one: documents.report_document(one, detailed=True),
}
WRONG: tuple[object, ...] = (
    *(None, "x", -5, True, 1.5, [], [5], [{}], {}),
    *({"bytes": "!"}, {"bytes": "AP8="}, {"a": 1}),
)


def plain(annotation: str) -> str:
    """Return a type without what is said of it beside."""
    for said, kind in (("OsText", "str"), ("Text", "str"), ("Scope,", "str,")):
        annotation = annotation.replace(said, kind)
    return annotation


def value_of(written: str) -> object:
    return eval(written, dict(NAMES))


@pytest.mark.parametrize(("form", "written", "text"), RECORDED["stored"])
def test_a_value_is_stored_in_the_same_bytes_as_ever(form: str, written: str, text: str) -> None:
    encoded = STORED[form][0](value_of(written))

    assert (encoded if isinstance(encoded, str) else encoded.decode("ascii")) == text


@pytest.mark.parametrize(("form", "written", "text"), RECORDED["stored"])
def test_what_is_stored_reads_as_the_value_that_it_was(form: str, written: str, text: str) -> None:
    given = text.encode() if isinstance(STORED[form][0](value_of(written)), bytes) else text

    assert STORED[form][1](given) == value_of(written)


@pytest.mark.parametrize(("name", "written", "text"), RECORDED["documents"])
def test_a_document_says_what_it_ever_said(name: str, written: str, text: str) -> None:
    make = DOCUMENTS.get(name, partial(documents.document, name))

    said = cast("dict[str, object]", make(value_of(written)))

    assert dumps(cast("dict[str, object]", without_added(said, json.loads(text)))).decode("ascii") == text


def without_added(said: object, known: object) -> object:
    """Return what a document says without the fields that were added since it was known: any may be."""
    if isinstance(said, Mapping) and isinstance(known, dict):
        return {key: without_added(one, known[key]) for key, one in said.items() if key in known}
    if isinstance(said, list | tuple) and isinstance(known, list) and len(said) == len(known):
        return [without_added(one, then) for one, then in zip(said, known, strict=True)]
    return said


def outcome(form: str, text: str, *, good: str, several: bool) -> str:
    """Tell what comes of a text; of one with several faults, of which any may be named, only the error."""
    encode, decode = STORED[form]
    try:
        found = encode(decode(text.encode()))
    except LastgoodError as error:
        return type(error).__name__ + ("" if several else f": {error.message}")
    plain = found.encode() if isinstance(found, str) else found
    return "=" if plain == good.encode() else f"= {zlib.crc32(plain):08x}"


def places(record: Any, where: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(record, dict):
        inner: list[Any] = sorted(record)
    else:
        inner = [0] if isinstance(record, list) and record else []
    for key in inner:
        yield (*where, key)
        yield from places(record[key], (*where, key))


def changed(record: dict[str, Any]) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any], bool]]:
    """Yield a record with something wrong in each of its places, and without each of its fields.

    With a place and a record: whether several things are wrong with it.
    """
    for where in places(record):
        for wrong in (*WRONG, ...):
            copied: Any = copy.deepcopy(record)
            holder = copied
            for key in where[:-1]:
                holder = holder[key]
            several = all(isinstance(one, dict | list) for one in (wrong, holder[where[-1]]))
            if wrong is not ...:
                holder[where[-1]] = wrong
            elif isinstance(where[-1], str):
                del holder[where[-1]]
            else:
                continue
            yield where, copied, several
    yield ("added",), {**record, "added": 1}, False


def malformed(form: str, text: str) -> Iterator[tuple[str, str, bool]]:
    lines = text.splitlines() if form == "facts" else [text]
    for number, line in enumerate(lines):
        for where, record, several in changed(json.loads(line)):
            whole = [*lines[:number], dumps(record).decode("ascii"), *lines[number + 1 :]]
            if form == "facts":
                yield " ".join(map(str, (number, *where))), "\n".join([*whole, ""]), several
            else:
                yield " ".join(map(str, where)), whole[0], several


@pytest.mark.parametrize("form", RECORDED["malformed"])
def test_what_is_malformed_is_refused_in_the_same_words_as_ever(form: str) -> None:
    good = [text for name, _, text in RECORDED["stored"] if name == form][1]
    outcomes: dict[str, list[str]] = {}
    for place, text, several in malformed(form, good):
        outcomes.setdefault(place, []).append(outcome(form, text, good=good, several=several))

    for place, (usual, others) in RECORDED["malformed"][form].items():
        wanted = [others.get(str(number), usual) for number in range(len(outcomes[place]))]
        for said, now in GAINED:
            wanted = [one.replace(said, now) for one in wanted]
        assert outcomes[place] == wanted, place


ALIASES = [
    (cls, name)
    for cls in NAMES.values()
    for name, member in vars(cls).items()
    if isinstance(member, Alias) and issubclass(cls, Value)
]


@pytest.mark.parametrize(("cls", "name"), ALIASES)
def test_an_alias_is_of_the_type_of_what_it_stands_for(cls: type[Value], name: str) -> None:
    alias = vars(cls)[name]
    found = cls
    for step in alias.path.split("."):
        member = vars(found).get(step)
        fget = getattr(member, "fget", None)
        annotation = found.__annotations__.get(step) or fget.__annotations__["return"]
        found = NAMES.get(annotation, object)

    assert plain(alias.annotation) == plain(annotation)
