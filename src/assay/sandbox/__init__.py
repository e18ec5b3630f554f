"""Running untrusted code with limits.

`run` runs a command, `run_command` a command against a working tree, `run_test` one test of it with
pytest or unittest, `check_solution` a solution against tests. Each says how it ended in an Outcome;
`verdict` makes of Outcomes the gate `no_sandbox_violation`. Walls are put up by bubblewrap; where
there is none, nothing runs (SBX-001), unless limits without walls are asked for by name. Nothing
here scores: see `scoring`. Nothing here decides when to run: see `running`.
"""

from assay.sandbox.box import Entry
from assay.sandbox.isolation import Available, available, interpreter, require
from assay.sandbox.limits import Limits
from assay.sandbox.outcome import (
    GateEntry,
    Isolation,
    Mode,
    Outcome,
    Status,
    Stream,
    Verdict,
    Violation,
    verdict,
)
from assay.sandbox.running import REPORT, pytest_command, run, run_command
from assay.sandbox.solutions import check_solution
from assay.sandbox.testing import Runner, run_test
from assay.sandbox.trees import check_paths, read_tree

__all__ = [
    "REPORT",
    "Available",
    "Entry",
    "GateEntry",
    "Isolation",
    "Limits",
    "Mode",
    "Outcome",
    "Runner",
    "Status",
    "Stream",
    "Verdict",
    "Violation",
    "available",
    "check_paths",
    "check_solution",
    "interpreter",
    "pytest_command",
    "read_tree",
    "require",
    "run",
    "run_command",
    "run_test",
    "verdict",
]
