"""The tests of the shed. Some fail: they belong to the issues."""
