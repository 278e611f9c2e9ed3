"""What the verbs do, one file a verb."""
