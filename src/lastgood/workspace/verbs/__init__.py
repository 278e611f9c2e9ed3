"""The verbs of a workspace, a group a file; each is one call of an action."""
