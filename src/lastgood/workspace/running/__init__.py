"""Carries out a work plan by the workspace's own verbs."""
