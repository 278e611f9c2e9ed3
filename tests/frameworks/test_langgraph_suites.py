"""The public suites for LangGraph savers, from their published packages, nothing left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from agmi import check
from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from lastgood.integrations.langgraph import LastgoodSaver
from lastgood.workspace import Workspace
from tools.memory_under_attack import SaverUnderAttack


def test_it_conforms_in_all_eight_capabilities(workspace: Workspace) -> None:
    @checkpointer_test(name="LastgoodSaver")
    async def saver() -> AsyncGenerator[LastgoodSaver, None]:
        yield LastgoodSaver(workspace)

    report = asyncio.run(validate(saver))
    assert not saver.skip_capabilities
    assert set(report.results) == {one.value for one in ALL_CAPABILITIES}
    assert len(report.results) == 8
    assert {name: one.failures for name, one in report.results.items() if one.passed is not True} == {}
    assert sum(one.tests_passed for one in report.results.values()) == 81
    assert report.conformance_level() == "FULL"


@pytest.mark.parametrize("attack", AT_REST_ATTACKS_WITH_SNAPSHOT, ids=lambda one: str(one.name))
def test_it_rejects_the_tampering_edit(attack: type) -> None:
    adapter = SaverUnderAttack()
    result = attack().run(adapter)
    assert (result.guard, result.error) == (None, None)
    assert check.verdict(result, adapter) == "REJECTED", result.detail


def test_there_are_nine_tampering_edits() -> None:
    assert len(AT_REST_ATTACKS_WITH_SNAPSHOT) == len(check.LABELS) == 9
