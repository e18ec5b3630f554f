"""Judging: models that score against a rubric or compare two answers, and measurements of how well
they do it.
"""
