"""Judging: models that score against a rubric or compare two answers, and what is known about how
well they do it.
"""
