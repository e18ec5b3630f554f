"""Turns results into text that people read. Nothing is decided here: every number on a page comes
from the result it shows.
"""
