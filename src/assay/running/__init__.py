"""Runs workflows on datasets: the files that describe them, the check that they fit, the adapters
that call them, and the evidence they leave.
"""
