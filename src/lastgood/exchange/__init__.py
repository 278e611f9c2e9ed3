"""Checkpoints on their way from one store to another, in one file."""
