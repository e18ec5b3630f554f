"""Other tools' results as evidence: one module for each tool, and a count of what was dropped and
why.
"""
