"""Frozen records, one file per record; data passes between stages only in these."""
