"""Numbers in, numbers out. Knows no record; nothing random without a seed."""
