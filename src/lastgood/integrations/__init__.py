"""Doors for frameworks; each is loaded by its own user only."""
