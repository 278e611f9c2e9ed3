"""Values to canonical JSON and back, with the gate for newer formats."""
