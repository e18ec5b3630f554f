"""Running untrusted code with limits.

`running` runs a command, alone or against a working tree, `testing` one test of it with pytest or
unittest, `solutions` a solution against tests. Each reports how it ended in a SandboxOutcome;
`outcome` turns these into the gate `no_sandbox_violation`. Bubblewrap isolates the
code; without it nothing runs (SBX-001), unless limits without isolation are requested by name.
Nothing here scores: see `scoring`. Nothing here decides when to run: see `assay.running`.
This module loads nothing: most commands need the worker alone.
"""
