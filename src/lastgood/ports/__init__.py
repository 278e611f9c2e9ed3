"""What the core asks of the world: protocols only, readers apart from writers."""
