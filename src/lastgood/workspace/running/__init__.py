"""The conductor of `run`: carries out a work plan by the workspace's own verbs."""
