"""How a call in another thread is asked to give up; the door to it for the asynchronous face."""

from __future__ import annotations

from lastgood.adapters.stopping import Listening, Stopped, pause

__all__ = ["Listening", "Stopped", "pause"]
