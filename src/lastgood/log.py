"""What a program's user can have logged: silent unless the program asks for it.

Loaded only where `logging` is: where it is not, nobody listens, and no command pays for it.
"""

from __future__ import annotations

import logging

logger: logging.Logger = logging.getLogger("lastgood")
