"""Tools that neighbours lend each other."""
