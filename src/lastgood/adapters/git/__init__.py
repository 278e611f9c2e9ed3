"""The engine on git's object format, written and read in process."""
