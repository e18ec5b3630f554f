"""The modules that run inside the sandbox.

These modules run in a bare interpreter (`-I -S`) inside the sandbox, under the package name
`inside`. They come through a pipe, compiled, so that nothing of this package lies there as a file.
They import nothing of `assay`, and of the standard library only what starts fast. `supervisor` is
the trusted parent there; it starts a `command`, a `solution` or an `examiner`.
`runner` is the exception: the interpreter of a project runs it.
"""
