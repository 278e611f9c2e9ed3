"""Whatever hosts, agents and a person do: what a person wrote is never taken for an agent's (T17, S22).

An oracle knows who wrote each line, all of which differ, and in which turn. `restore --only-agent` leaves
each of a person's lines there but for those that were written in the middle of a turn (docs/attribution.md
says so, and a plan marks those of a turn under way), and can be undone to the byte; so does `rewind N
--only-agent`. A rewind names each file of which it takes along what a person wrote. `blame` gives no line
to anybody but whoever wrote it.
"""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from lastgood.errors import LastgoodError, NotFound
from lastgood.model.checkpoint import Actor
from lastgood.model.operation import RestorePlan
from lastgood.restore.only_agent import UNDER_WAY
from lastgood.settings import TRIGGERS, AutoSettings, CaptureSettings, Settings
from lastgood.workspace import open_workspace
from tools.long_form import LONG, examples
from tools.telling import Host

LARGEST = 4000
PAD = "x" * LARGEST + "\n"
NAMES = ("a", "b", "hidden")
AGENT = Actor(type="agent", name="claude-code")
PERSON = Actor(type="person")

names = st.sampled_from(NAMES)
places = st.integers(0, 30)
which = st.integers(0, 1)


class Turn:
    """A turn as it was: cut short or not, and whether calls of tools were told of in it."""

    def __init__(self) -> None:
        self.open = True
        self.cut = False
        self.told = False


class Line:
    """Who wrote a line, in the middle of which turns, and in the middle of which call's work."""

    def __init__(self, who: str, turns: list[Turn], call: str | None) -> None:
        self.who = who
        self.turns = turns
        self.call = call

    @property
    def exempt(self) -> bool:
        """Whether nothing tells it from the agent's: written in a turn that ended well, or in its call."""
        if self.call is not None:
            return True
        return any(not turn.cut and not turn.told for turn in self.turns)

    @property
    def under_way(self) -> bool:
        return any(turn.open for turn in self.turns)


class Talk:
    """One conversation of a host."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.starts = 0
        self.host: Host | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.turn: Turn | None = None
        self.left = False
        self.call: tuple[str, str] | None = None

    @property
    def alive(self) -> bool:
        return self.host is not None

    @property
    def at_work(self) -> bool:
        return self.turn is not None and not self.left


class Hands(RuleBasedStateMachine):
    """A person and two agents at the same files."""

    tells_tools = False

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        top = Path(self.home.name)
        self.project = top / "project"
        self.project.mkdir()
        on = (*TRIGGERS, "tool") if self.tells_tools else TRIGGERS
        self.workspace = open_workspace(
            self.project,
            store=top / "store",
            settings=Settings(auto=AutoSettings(on=on), capture=CaptureSettings(max_file_size=LARGEST)),
            allow_root=True,
            environment={"HOME": str(top)},
            maintenance="off",
        )
        self.lines: dict[str, Line] = {}
        self.count = 0
        self.brought: set[str] = set()
        self.renamed = False
        self.talks = [Talk(0), Talk(1)]
        for name in NAMES:
            self.put(name, [f"{name} {number}\n" for number in range(12)])
        self.put(".gitignore", ["hidden\n"])
        self.workspace.save("begin")
        self.began = {text for name in NAMES for text in self.read(name)}
        for number in (0, 1):
            self.starts(number, resumed=False)

    def teardown(self) -> None:
        for number in (0, 1):
            self.take_back(number, back=True)
        for talk in self.talks:
            self._killed(talk)
        self.workspace.close()
        self.home.cleanup()

    # --- Files ---

    def put(self, name: str, lines: list[str]) -> None:
        (self.project / name).write_text("".join(lines))

    def read(self, name: str) -> list[str]:
        file = self.project / name
        return file.read_text().splitlines(keepends=True) if file.exists() else []

    def everything(self) -> dict[str, bytes]:
        return {one.name: one.read_bytes() for one in self.project.iterdir()}

    def texts(self) -> set[str]:
        return {line for content in self.everything().values() for line in content.decode().splitlines(True)}

    def turns(self) -> list[Turn]:
        return [talk.turn for talk in self.talks if talk.turn is not None]

    def writes(self, who: str, name: str, place: int, *, drops: bool, call: str | None = None) -> None:
        """Add a line to a file, which may be new, and take one away if asked to."""
        lines = self.read(name)
        if drops and lines:
            del lines[place % len(lines)]
        self.count += 1
        text = f"{who} {self.count}\n"
        self.lines[text] = Line(who, self.turns() if who == "person" else [], call)
        lines.insert(place % (len(lines) + 1), text)
        self.put(name, lines)

    # --- What hosts tell ---

    @precondition(lambda self: not all(talk.alive for talk in self.talks))
    @rule(number=which, resumed=st.booleans())
    def starts(self, number: int, *, resumed: bool) -> None:
        talk = self.talks[number]
        if talk.alive:
            return
        if not resumed:
            talk.starts += 1
        talk.process = subprocess.Popen(["sleep", "600"])
        talk.host = Host(self.workspace, self.project, name=f"talk-{number}-{talk.starts}")
        self.tells(talk, "session-start", text="startup")

    def tells(self, talk: Talk, kind: str, **fields: Any) -> None:
        assert talk.host is not None
        assert talk.process is not None
        talk.host.tells(kind, owner=talk.process.pid, **fields)

    @rule(number=which)
    def is_asked(self, number: int) -> None:
        talk = self.talks[number]
        if not talk.alive or talk.at_work:
            return
        self.tells(talk, "prompt", text=f"prompt {self.count}")
        self._cut(talk)
        talk.turn, talk.left = Turn(), False

    @rule(number=which)
    def answers(self, number: int) -> None:
        talk = self.talks[number]
        if talk.at_work and talk.call is None:
            self.tells(talk, "turn-end")
            assert talk.turn is not None
            talk.turn.open = False
            talk.turn = None

    @rule(number=which)
    def is_interrupted(self, number: int) -> None:
        """A person presses Esc: the host tells nothing."""
        talk = self.talks[number]
        talk.left, talk.call = talk.turn is not None, None

    @rule(number=which)
    def is_compacted(self, number: int) -> None:
        if self.talks[number].alive:
            self.tells(self.talks[number], "compaction")

    @rule(number=which)
    def is_about_to_risk(self, number: int) -> None:
        talk = self.talks[number]
        if talk.at_work and talk.call is None:
            self.tells(talk, "tool", tool="Bash", command="rm -rf x", call="risky")

    @rule(number=which)
    def ends(self, number: int) -> None:
        talk = self.talks[number]
        if talk.alive:
            self.tells(talk, "session-end")
            self._cut(talk)
            self._killed(talk)
            talk.starts += 1

    @rule(number=which)
    def dies(self, number: int) -> None:
        talk = self.talks[number]
        if talk.alive:
            self._killed(talk)
            self._cut(talk)

    def _cut(self, talk: Talk) -> None:
        if talk.turn is not None:
            talk.turn.open, talk.turn.cut = False, True
        talk.turn, talk.left, talk.call = None, False, None

    def _killed(self, talk: Talk) -> None:
        if talk.process is not None:
            talk.process.kill()
            talk.process.wait()
        talk.process = talk.host = None

    # --- What agents write ---

    @rule(number=which, name=names, place=places, drops=st.booleans())
    def agent_writes(self, number: int, name: str, place: int, *, drops: bool) -> None:
        if self.talks[number].at_work:
            self.writes("agent", name, place, drops=drops)

    @rule(number=which, place=places)
    def agent_makes_a_file(self, number: int, place: int) -> None:
        if self.talks[number].at_work:
            self.writes("agent", f"new{place % 3}", 0, drops=False)

    @rule(number=which, place=places)
    def agent_ignores_or_not(self, number: int, place: int) -> None:
        if self.talks[number].at_work:
            self.put(".gitignore", ["hidden\n" if place % 2 else "other\n"])

    @rule(number=which, name=names, new=places)
    def agent_renames(self, number: int, name: str, new: int) -> None:
        if self.talks[number].at_work and (self.project / name).exists():
            (self.project / name).rename(self.project / f"renamed{new}")
            self.renamed = True

    @precondition(lambda self: any(talk.at_work for talk in self.talks))
    @rule(name=names, place=places)
    def agent_leaves_something_running(self, name: str, place: int) -> None:
        """It writes at any time: nobody can tell it from whoever is at work then."""
        self.writes("background", name, place, drops=False)

    @precondition(lambda self: self.tells_tools)
    @rule(number=which, tool=st.sampled_from(["Write", "Bash"]), name=names)
    def a_call_begins(self, number: int, tool: str, name: str) -> None:
        talk = self.talks[number]
        if talk.at_work and talk.call is None and talk.turn is not None:
            self.tells(talk, "tool", tool=tool, call=f"call {self.count}", command=self._command(tool))
            talk.call = tool, name
            talk.turn.told = True

    @staticmethod
    def _command(tool: str) -> str | None:
        return "echo" if tool == "Bash" else None

    @precondition(lambda self: self.tells_tools)
    @rule(number=which, place=places)
    def a_call_ends(self, number: int, place: int) -> None:
        talk = self.talks[number]
        if talk.call is None:
            return
        tool, name = talk.call
        self.writes("agent", name, place, drops=False)
        self.tells(
            talk,
            "batch-end",
            tool=tool,
            call=f"call {self.count}",
            command=self._command(tool),
            changes=(name,) if tool == "Write" else None,
        )
        talk.call = None

    # --- What the person does ---

    @rule(name=names, place=places, drops=st.booleans())
    def person_writes(self, name: str, place: int, *, drops: bool) -> None:
        self._by_person(name, place, drops=drops)

    @rule(place=places)
    def person_makes_a_file(self, place: int) -> None:
        self._by_person(f"new{place % 3}", 0, drops=False)

    def _by_person(self, name: str, place: int, *, drops: bool) -> None:
        calls = [talk.call for talk in self.talks if talk.call is not None]
        within = next((tool for tool, at in calls if tool == "Bash" or at == name), None)
        self.writes("person", name, place, drops=drops, call=within)

    @rule(name=names)
    def person_removes(self, name: str) -> None:
        (self.project / name).unlink(missing_ok=True)

    @rule(place=places)
    def person_ignores_or_not(self, place: int) -> None:
        self.put(".gitignore", ["hidden\n" if place % 2 else "other\n"])

    @rule(name=names)
    def a_file_grows_too_large_or_shrinks(self, name: str) -> None:
        lines = self.read(name)
        self.put(name, [one for one in lines if one != PAD] if PAD in lines else [*lines, PAD])

    @rule(by_agent=st.booleans())
    def somebody_saves(self, *, by_agent: bool) -> None:
        """As the command line does, which can but guess who it was."""
        self.workspace.save("by hand", actor=AGENT if by_agent else PERSON)

    @rule(back=st.integers(0, 6), name=st.one_of(st.none(), names))
    def person_restores(self, back: int, name: str | None) -> None:
        before = self.texts()
        found = [one for one in self.workspace.list(guards=False) if not one.partial]
        with suppress(LastgoodError):
            self.workspace.restore(
                found[back % len(found)].id, paths=[] if name is None else [name], only=["files"], force=True
            )
        self.brought |= self.texts() - before

    @rule(number=which, name=names, undone=st.booleans())
    def person_restores_within_a_turn(self, number: int, name: str, *, undone: bool) -> None:
        """What they had thrown away before it comes back in it."""
        talk = self.talks[number]
        if not talk.alive or talk.at_work:
            return
        self._by_person(name, 0, drops=False)
        kept = self.workspace.save("to be thrown away", allow_empty=True).checkpoint
        self.put(name, self.read(name)[1:])
        self.is_asked(number)
        with suppress(LastgoodError):
            self.workspace.restore(kept.id, paths=[name], force=True)
            if undone:
                self.workspace.undo()
        self.writes("agent", "new0", 0, drops=False)
        self.answers(number)

    @rule(again=st.booleans())
    def person_undoes(self, *, again: bool) -> None:
        before = self.texts()
        with suppress(LastgoodError):
            self.workspace.redo() if again else self.workspace.undo()
        self.brought |= self.texts() - before

    # --- The law ---

    @rule(number=which, back=st.booleans())
    def take_back(self, number: int, *, back: bool) -> None:
        talk = self.talks[number]
        of_talk = [
            one.id
            for one in self.workspace.sessions()
            if one.session.transcript is not None and f"talk-{talk.number}-" in one.session.transcript
        ]
        for session in of_talk[:2]:
            with suppress(NotFound):
                plan = self.workspace.plan_restore(only_agent=True, session=session, force=True)
                self._takes_back(plan, back=back)

    @rule(turns=st.integers(1, 4), back=st.booleans())
    def take_back_the_last_turns(self, turns: int, *, back: bool) -> None:
        with suppress(NotFound):
            plan = self.workspace.plan_rewind(turns, only_agent=True, force=True)
            self._takes_back(plan, back=back)

    def _takes_back(self, plan: RestorePlan, *, back: bool) -> None:
        before, there = self.everything(), self.texts()
        said = {step.path.decode() for step in plan.steps if step.reason == UNDER_WAY}
        report = self.workspace.apply(plan)
        for text in self._lost_by_the_person(there):
            told = self.lines[text].under_way and any(
                text.encode() in before[name] for name in said if name in before
            )
            assert told, (text, plan.steps)
        if back and report.operation is not None:
            self.workspace.undo()
            assert self.everything() == before

    def _lost_by_the_person(self, there: set[str]) -> list[str]:
        """Return the lines that are there no more and that anybody could know to be a person's."""
        gone = [text for text in there - self.texts() if text not in self.began]
        lines = [(text, self.lines.get(text)) for text in gone]
        return [text for text, one in lines if one is not None and one.who == "person" and not one.exempt]

    @rule(turns=st.integers(1, 4))
    def a_rewind_names_what_it_takes_along(self, turns: int) -> None:
        """And is undone at once."""
        with suppress(NotFound):
            extent = self.workspace.preview_rewind(turns)
            named = {one.path.decode() for one in self.workspace.changed_beside(extent)}
            before, there = self.everything(), self.texts()
            report = self.workspace.rewind(turns, only=["files"], force=True)
            for text in self._lost_by_the_person(there):
                known = self.lines[text].under_way or text in self.brought
                assert known or any(text.encode() in before[name] for name in named if name in before), (
                    text,
                    named,
                )
            if report.operation is not None and report.guard is not None:
                self.workspace.undo()
                assert self.everything() == before

    @rule(name=names)
    def blame_gives_no_line_to_somebody_else(self, name: str) -> None:
        if self.renamed:
            return
        with suppress(NotFound):
            report = self.workspace.blame(name)
            for one in report.lines:
                for number in range((one.first or 1) - 1, one.last or 0):
                    assert report.content is not None
                    self._is_true(report.content[number].decode(), one.by.actor.type)

    def _is_true(self, text: str, said: str) -> None:
        line = self.lines.get(text)
        if line is None or line.who == "background" or text in self.brought:
            return
        if said in {"agent", "tool"}:
            assert line.who == "agent" or line.exempt, (text, said)
        if said == "person":
            assert line.who == "person", (text, said)


class HandsAndCalls(Hands):
    """The same where calls of tools are told apart."""

    tells_tools = True


@pytest.mark.parametrize("hands", [Hands, HandsAndCalls])
def test_what_a_person_wrote_is_never_taken_for_an_agents(hands: type[Hands]) -> None:
    """T17, S22."""
    chosen = settings(
        max_examples=examples(short=6, long=400),
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=not LONG,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(hands, settings=chosen)
