"""The engine does what every engine must do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lastgood.engine import Engine
from lastgood.objects.engine import GitEngine
from lastgood.testing.engine_suite import EngineSuite


class TestGitEngine(EngineSuite):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = os.fsencode(tmp_path)

    def make_engine(self) -> Engine:
        return GitEngine.create(self.folder + b"/objects.git", temporary=self.folder + b"/tmp")


class TestGitEngineWithoutGit(TestGitEngine):
    def make_engine(self) -> Engine:
        return GitEngine.create(
            self.folder + b"/objects.git", temporary=self.folder + b"/tmp", search_path=b""
        )
