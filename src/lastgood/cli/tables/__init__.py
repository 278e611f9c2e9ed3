"""The verbs by group; `lastgood.cli.table` joins them."""
