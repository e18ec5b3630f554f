"""Grades -> text that people read. Nothing here decides: every number on a page stands in the
result it was given.
"""
