"""Plans of work: what one may say, and how it is read."""
