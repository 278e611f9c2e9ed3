"""Runs of work over a workspace: sessions, their tasks, their steps."""
