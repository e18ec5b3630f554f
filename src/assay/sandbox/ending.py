"""What the supervisor's words mean: how a run ended, and what was seen on the way.

Only these words decide. Standard error is looked at in one place, to tell a failure for want of
memory from other failures; both are failures.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple, get_args

from assay.sandbox.outcome import Kind, Status, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.sandbox.limits import Limits

READY = b"ready\n"
NOT_NEEDED = "was no longer needed"
_BY_SIGNAL: dict[int, Kind] = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "file-size"}
_NAMES = {one.value: one.name for one in signal.Signals}


class Ending(NamedTuple):
    """The part of an Outcome that the supervisor knows."""

    status: Status
    reason: str
    exit_code: int | None
    signal: int | None
    cpu_s: float
    peak_kb: int
    violations: tuple[Violation, ...]
    report: bytes | None


def read_ending(
    said: bytes, limits: Limits, stderr: bytes, *, stopped: Kind | None, over: bool
) -> Ending:
    """Read the report. `stopped` is why the caller stopped the run, `over` that it was stopped at
    all.
    """
    head, _, tail = said.removeprefix(READY).partition(b"\nend\n")
    lines = [line.split(" ", 2) for line in head.decode("utf-8", "replace").splitlines()]
    words = {line[0]: " ".join(line[1:]) for line in lines}
    kinds = {kind: kind for kind in get_args(Kind)}
    seen = [
        Violation(kinds[line[1]], line[2])
        for line in lines
        if line[0] == "violation" and line[1] in kinds
    ]
    inner = words.get("stopped", "")
    killed_by = int(words["signal"]) if "signal" in words else None
    status, reason, found = _judge(
        words, stopped or kinds.get(inner), killed_by, limits, stderr, over=over
    )
    violations = [*found, *(one for one in seen if one.kind not in {two.kind for two in found})]
    if status == "passed" and violations:
        status, reason = "violation", f"ended with 0, but: {violations[0].detail}"
    exit_code = int(words["exit"]) if "exit" in words else None
    report = tail[: int(words["report"])] if "report" in words else None
    return Ending(
        status,
        reason,
        exit_code,
        killed_by,
        float(words.get("cpu", 0)),
        int(words.get("peak", 0)),
        tuple(violations),
        report,
    )


def _judge(
    words: Mapping[str, str],
    stopped: Kind | None,
    killed_by: int | None,
    limits: Limits,
    stderr: bytes,
    *,
    over: bool,
) -> tuple[Status, str, list[Violation]]:
    """Status, reason, and the violation that follows from how it ended."""
    reached: dict[str, tuple[Status, str]] = {
        "timeout": ("timeout", f"was still running after {limits.wall_s:g} seconds"),
        "cpu": ("timeout", f"computed for more than {limits.cpu_s} seconds"),
        "memory": ("memory", f"used more than {limits.memory_mb} MB of memory"),
        "output": ("output", "printed without end"),
        "processes": ("violation", f"had more than {limits.processes} processes and threads"),
        "file-size": ("killed", f"wrote a file of more than {limits.file_mb} MB"),
    }
    kind: Kind | None = stopped or _BY_SIGNAL.get(killed_by or 0)
    if (
        kind is None
        and words.get("exit", "0") != "0"
        and stderr.rstrip().rpartition(b"\n")[2].startswith(b"MemoryError")
    ):
        kind = "memory"
    if kind is not None:
        status, why = reached[kind]
        return status, why, [Violation(kind, why)]
    if "error" in words:
        return "error", f"could not be started: {words['error']}", []
    if "exit" not in words and killed_by is None:
        why = "ended, or was ended, without a word from its supervisor"
        return "killed", why, [Violation("supervisor", why)]
    if killed_by is not None:
        return (
            "killed",
            NOT_NEEDED if over else f"was ended by {_NAMES.get(killed_by, f'signal {killed_by}')}",
            [],
        )
    return (
        ("passed", "ended with 0", [])
        if words["exit"] == "0"
        else ("failed", f"ended with {words['exit']}", [])
    )
