"""The asynchronous face: the same verbs, awaited."""
