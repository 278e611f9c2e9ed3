"""Changes a workspace's files, and follows no link while doing so (rule T12)."""
