"""The world behind the ports: git format, SQLite, files, locks, clocks."""
