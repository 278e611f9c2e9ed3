"""SQLite as CPython binds it.

The package ``sqlite3`` adds adapters for dates to it, and imports for them that cost a save 2 ms.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import _sqlite3 as sqlite3
    except ImportError:  # an interpreter that binds SQLite in another way
        import sqlite3

__all__ = ["sqlite3"]
