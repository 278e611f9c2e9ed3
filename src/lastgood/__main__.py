"""``python -m lastgood``."""

from __future__ import annotations

from lastgood.cli.main import run

if __name__ == "__main__":
    run()
