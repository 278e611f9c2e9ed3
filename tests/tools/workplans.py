"""Generated work plans: good ones, and documents with every kind of slip in them."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from lastgood.model.run import ON_FAILURE, PlannedTask, WorkPlan

IDS = [f"T{number:02}" for number in range(1, 9)]
words = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12)
filled = words.filter(lambda text: bool(text.strip(" \t\r\n")))
commands = st.one_of(
    filled, st.builds(lambda first, rest: (first, *rest), filled, st.lists(words, max_size=3))
)
names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True)


@st.composite
def tasks(draw: DrawFn, id: str, before: list[str]) -> PlannedTask:
    """Draw a task that may need any of those before it."""
    return PlannedTask(
        id=id,
        run=draw(commands),
        sprint=draw(st.sampled_from([None, "S1", "S2"])),
        check=draw(st.none() | commands),
        retries=draw(st.integers(0, 3)),
        timeout=draw(st.none() | st.floats(0.5, 1000)),
        on_failure=draw(st.sampled_from(ON_FAILURE)),
        irreversible=draw(st.booleans()),
        risky=draw(st.booleans()),
        needs=tuple(draw(st.lists(st.sampled_from(before), unique=True, max_size=3))) if before else (),
        env=draw(st.dictionaries(names, words, max_size=2)),
        cwd=draw(st.sampled_from([None, "sub", "a/b"])),
    )


@st.composite
def plans(draw: DrawFn) -> WorkPlan:
    """Draw a sound plan whose tasks are in an order in which they could be carried out."""
    ids = draw(st.permutations(IDS))[: draw(st.integers(1, len(IDS)))]
    return WorkPlan(
        tasks=tuple(draw(tasks(id, ids[:place])) for place, id in enumerate(ids)),
        goal=draw(st.none() | filled),
        sprints=("S1", "S2"),
        source=draw(st.none() | words),
    )


# Values of all kinds. No whole numbers with a point: JSON Schema takes 2.0 for one, and we do not.
anything: SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2_000),
    st.sampled_from([0.5, -0.5, 604800.5]),
    st.text(max_size=5),
    st.sampled_from(["T01", "T01\n", "-x", "a b", "é", "90s", "1h30m", "5", "0s", "9w", "1.5h\n", "1h "]),
    st.sampled_from(["..", "a/../b", "/abs", ".", "./a/", "a\n/..", "..a", "\0", "a\0", " \n\t", "x" * 2001]),
    st.sampled_from(["rollback", "rolback", "keep", "stop"]),
    st.lists(st.one_of(st.sampled_from(IDS), st.none(), st.text(max_size=3), st.integers(0, 9)), max_size=3),
    st.dictionaries(
        st.sampled_from(["A", "", "A=B", "LASTGOOD_TASK", "LASTGOOD_STORE", "x\0", "\n"]),
        st.one_of(st.text(max_size=2), st.integers(), st.none(), st.booleans()),
        max_size=2,
    ),
)


def mistaken(good: Mapping[str, SearchStrategy[object]], needed: tuple[str, ...]) -> SearchStrategy[object]:
    """Draw an object of known keys: mostly with good values, now and then with a slip."""
    values = {key: st.one_of(value, value, value, anything) for key, value in good.items()}
    required = {key: values.pop(key) for key in needed}
    sound = st.fixed_dictionaries(required, optional=values)
    return st.one_of(
        sound,
        sound,
        sound,
        st.builds(lambda one, value: {**one, "runs": value}, sound, anything),
        st.builds(lambda one: dict(list(one.items())[1:]), sound),
        anything,
    )


listed = commands.map(lambda command: command if isinstance(command, str) else list(command))
ids = st.sampled_from(IDS)
task_documents = mistaken(
    {
        "id": ids,
        "run": listed,
        "check": listed,
        "retries": st.integers(0, 9),
        "timeout": st.one_of(st.integers(1, 90), st.sampled_from(["90s", "15m", "1h30m", "1.5h"])),
        "on_failure": st.sampled_from(ON_FAILURE),
        "irreversible": st.booleans(),
        "risky": st.booleans(),
        "needs": st.lists(ids, max_size=1),
        "env": st.dictionaries(names, st.one_of(words, st.integers()), max_size=2),
        "cwd": st.sampled_from(["sub", "./sub/", "a/b", "."]),
    },
    ("id", "run"),
)
task_lists = st.lists(task_documents, min_size=0, max_size=3)
sprint_documents = mistaken({"id": st.sampled_from(["S1", "S2"]), "tasks": task_lists}, ("id", "tasks"))
shared = {
    "goal": filled,
    "env": st.dictionaries(names, words, max_size=2),
    "cwd": st.just("sub"),
    "risky": st.lists(filled, max_size=2),
}
documents = st.one_of(
    mistaken({"tasks": task_lists, **shared}, ("tasks",)),
    mistaken({"sprints": st.lists(sprint_documents, max_size=2), **shared}, ("sprints",)),
    mistaken({"tasks": task_lists, "sprints": st.lists(sprint_documents, max_size=1)}, ()),
)
