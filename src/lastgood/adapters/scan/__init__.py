"""Reads a workspace into a tree: walk, read, settle, build; with a cache of what stat said."""
