"""Checkpoints by themselves within the hosts of coding agents: their events, and their settings."""
