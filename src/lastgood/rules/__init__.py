"""Pure functions: values in, decisions with their reasons out."""
