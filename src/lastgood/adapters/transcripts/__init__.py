"""Files of conversations: read where hosts keep them, and remembered between saves."""
