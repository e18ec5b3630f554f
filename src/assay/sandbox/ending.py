"""Interprets the supervisor's report: how a run ended, and which violations it saw.

Only this report decides. Standard error is read in one place, to tell out-of-memory failures from
others; both are failures.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, get_args

from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Kind, Status, Violation

READY = b"ready\n"
_BY_SIGNAL: dict[int, Kind] = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "file-size"}
_NAMES = {number.value: number.name for number in signal.Signals}


def read_ending(
    report: bytes, limits: SandboxLimits, stderr: bytes, *, stopped: Kind | None, over: bool
) -> dict[str, Any]:
    """The part of an outcome that the supervisor knows. `stopped` is why the caller stopped the
    run, `over` whether it did.
    """
    head, _, tail = report.removeprefix(READY).partition(b"\nend\n")
    lines = [line.split(" ", 2) for line in head.decode("utf-8", "replace").splitlines()]
    words = {line[0]: " ".join(line[1:]) for line in lines}
    kinds: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
    killed_by = int(words["signal"]) if "signal" in words else None
    reached = stopped or kinds.get(words.get("stopped", "")) or _BY_SIGNAL.get(killed_by or 0)
    last = stderr.rstrip().rpartition(b"\n")[2]
    if not reached and words.get("exit", "0") != "0" and last.startswith(b"MemoryError"):
        reached = "memory"
    status, reason = _limit(reached, limits) if reached else _ended(words, killed_by, over=over)
    unneeded = not reached and "error" not in words and killed_by is not None and over
    if not reached and not words.keys() & {"error", "exit", "signal"}:
        reached = "supervisor"
    violations = [Violation(reached, reason)] if reached else []
    violations += [
        Violation(kinds[line[1]], line[2])
        for line in lines
        if line[0] == "violation" and line[1] in kinds and line[1] != reached
    ]
    if status == "passed" and violations:
        status, reason = "violation", f"ended with 0, but: {violations[0].detail}"
    return {
        "status": status,
        "reason": reason,
        "unneeded": unneeded,
        "exit_code": int(words["exit"]) if "exit" in words else None,
        "signal": killed_by,
        "cpu_s": float(words.get("cpu", 0)),
        "peak_kb": int(words.get("peak", 0)),
        "violations": tuple(violations),
        "report": tail[: int(words["report"])] if "report" in words else None,
    }


def _limit(reached: Kind, limits: SandboxLimits) -> tuple[Status, str]:
    endings: dict[Kind, tuple[Status, str]] = {
        "timeout": ("timeout", f"was still running after {limits.wall_s:g} s"),
        "cpu": ("timeout", f"computed for more than {limits.cpu_s} s"),
        "memory": ("memory", f"used more than {limits.memory_mb} MB of memory"),
        "output": ("output", "printed without end"),
        "processes": ("violation", f"had more than {limits.processes} processes and threads"),
        "file-size": ("killed", f"wrote a file of more than {limits.file_mb} MB"),
    }
    return endings[reached]


def _ended(words: Mapping[str, str], killed_by: int | None, *, over: bool) -> tuple[Status, str]:
    if "error" in words:
        return "error", f"could not be started: {words['error']}"
    if killed_by is not None:
        name = _NAMES.get(killed_by, f"signal {killed_by}")
        return "killed", "was no longer needed" if over else f"was ended by {name}"
    if "exit" not in words:
        return "killed", "ended without a report from its supervisor"
    return "passed" if words["exit"] == "0" else "failed", f"ended with {words['exit']}"
