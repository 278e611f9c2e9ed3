"""Reports on what was done in a period."""
