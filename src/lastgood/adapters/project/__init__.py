"""The project's own git repository, read as plain files; nothing of it is run or changed."""
