"""The catalogue in one SQLite file."""
