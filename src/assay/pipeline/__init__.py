"""The stages in order: evidence to grade to decision."""
