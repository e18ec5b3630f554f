"""Grades -> orders, summaries and, later, decisions."""
