"""``python -m lastgood``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python looks for modules in the current folder first, and nothing in a workspace is ever run.
        del sys.path[0]

    from lastgood.client import run

    run()
