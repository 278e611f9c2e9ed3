"""Frozen values: what the rules reason about and what the verbs return."""
