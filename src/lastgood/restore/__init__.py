"""Bringing a workspace back: the plan, what it is applied by, and the way back from it."""
