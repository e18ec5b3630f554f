"""The modules that run inside the sandbox.

They run in a bare interpreter (`-I -S`) under the package name `inside`. They arrive compiled,
through a pipe, so that no file of this package is in the sandbox. They import nothing from `assay`,
and from the standard library only what loads fast. `supervisor` is the trusted parent there; it
starts a `command`, a `solution` or an `examiner`. `runner` is the exception: the interpreter of a
project runs it.
"""
