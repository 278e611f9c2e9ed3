"""The version, written here once more so that asking for it reads no package metadata (35 ms)."""

from __future__ import annotations

VERSION = "0.1.0"
