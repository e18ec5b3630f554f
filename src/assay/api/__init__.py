"""The Python interface: what a notebook or a script needs to run, compare and read evaluations.

Thin functions over `running`, `pipeline` and `archive`; the command line goes the same way.
"""
