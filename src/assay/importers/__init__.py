"""What others wrote, as evidence: one file for each tool, and a count of what was dropped and
why.
"""
