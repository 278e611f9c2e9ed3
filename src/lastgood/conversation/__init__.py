"""Conversations of agents with their hosts: read, captured in segments, written out again."""
