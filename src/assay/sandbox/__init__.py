"""Running untrusted code with limits.

`run` runs a command, `run_command` a command against a working tree, `run_test` one test of it with
pytest or unittest, `check_solution` a solution against tests. Each reports how it ended in a
SandboxOutcome; `verdict` turns these into the gate `no_sandbox_violation`. Bubblewrap isolates the
code; without it nothing runs (SBX-001), unless limits without isolation are requested by name.
Nothing here scores: see `scoring`. Nothing here decides when to run: see `running`.
"""

from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.isolation import available, require
from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Isolation, SandboxOutcome, SandboxVerdict, verdict
from assay.sandbox.running import REPORT, run, run_command
from assay.sandbox.solutions import check_solution
from assay.sandbox.testing import PythonRunner, run_test
from assay.sandbox.trees import check_paths, read_tree

__all__ = [
    "REPORT",
    "Isolation",
    "PythonRunner",
    "SandboxLimits",
    "SandboxOutcome",
    "SandboxVerdict",
    "TreeEntry",
    "available",
    "check_paths",
    "check_solution",
    "read_tree",
    "require",
    "run",
    "run_command",
    "run_test",
    "verdict",
]
