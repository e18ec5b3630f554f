"""Resource limits for untrusted code, and the reason for each default."""

from __future__ import annotations

from typing import NamedTuple

from assay.errors import InputError

WALL_S = 10.0
"""HumanEval gives a task 3 seconds; this is three times that, so that a correct answer doesn't fail
on a slow machine.
"""
CPU_S = 10
"""The same as the wall time, which stops one busy process first; this stops several of them."""
MEMORY_MB = 1024
"""Address space of one process and resident memory of all together. Python alone needs about 30 MB;
each thread reserves some 8 MB more.
"""
PROCESSES = 32
"""Processes and threads at once: enough for a test runner with workers, too few for a fork bomb."""
FILE_MB = 64
"""The largest file, and the size of each private folder (the working folder, /tmp, /dev/shm)
besides the tree that is copied in.
"""
OUTPUT_KB = 256
"""How much of standard output and of standard error is kept, each. The rest is counted and
dropped.
"""

OUTPUT_FLOOD = 64
"""Output beyond this many times `output_kb` ends the run."""
OPEN_FILES = 512
MAX_TREE_MB = 256
MAX_TREE_FILES = 50_000
MAX_REPORT_MB = 8


class SandboxLimits(NamedTuple):
    """The limits of one run. The first that is reached ends the run, or makes the call fail that
    would exceed it.
    """

    wall_s: float = WALL_S
    cpu_s: int = CPU_S
    memory_mb: int = MEMORY_MB
    processes: int = PROCESSES
    file_mb: int = FILE_MB
    output_kb: int = OUTPUT_KB

    def check(self) -> None:
        """Raise InputError SBX-003 for an impossible limit."""
        for name, value in self._asdict().items():
            if not value > 0 or value > 10**7:
                raise InputError(
                    "SBX-003",
                    f"the limit {name} is {value!r}.",
                    fix="Give a positive number; there is no 'unlimited'.",
                )


DEFAULT = SandboxLimits()
