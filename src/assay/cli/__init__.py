"""The command line: one file per group of verbs. Only the standard library is loaded until the verb
is known.
"""
