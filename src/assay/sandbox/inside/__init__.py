"""What runs on the other side of the wall.

These modules start in a bare interpreter (`-I -S`) inside the sandbox, under the package name `inside`; they import nothing of `assay`, and of the
standard library only what starts fast. `supervisor` is the trusted parent there; `command`, `solution`, `examiner` and `together` are what it starts.
"""
