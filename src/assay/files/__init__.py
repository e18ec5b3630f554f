"""Files that others wrote, and files that are never left half written."""
