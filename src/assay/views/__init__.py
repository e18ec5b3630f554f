"""Grades -> text that people read. Nothing here decides: every number on a page comes from the
result it shows.
"""
