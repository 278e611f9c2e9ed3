"""Export files: one tar archive of a fixed form."""
