"""What the sandbox saw: records, and the gate they feed.

`status` says how a run ended, `violations` what it tried or took beyond its limits. Seen are: the
clock, computing time, memory, the number of processes, floods of output, file sizes that end the
process, processes left behind, addresses outside (counted by the kernel: there is no route), and
the loss of the supervisor. Not seen are attempts that the system merely refuses: a write to a
read-only place, an open of a file that is not there, a system call that the filter denies. They do
no harm, and leave no trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypedDict

Isolation = Literal["bubblewrap", "process"]
Status = Literal["passed", "failed", "timeout", "memory", "killed", "output", "violation", "error"]
Mode = Literal["two-process", "one-process"]
Kind = Literal[
    "timeout",
    "cpu",
    "memory",
    "processes",
    "output",
    "file-size",
    "leftover",
    "network",
    "supervisor",
]


class Violation(NamedTuple):
    """One thing that untrusted code tried or took beyond its limits."""

    kind: Kind
    detail: str


class Stream(NamedTuple):
    """What was kept of one stream, and how much there was."""

    data: bytes
    total: int

    @property
    def dropped(self) -> int:
        """Bytes that were read and not kept."""
        return self.total - len(self.data)

    @property
    def text(self) -> str:
        """The kept bytes as text; invalid UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


class SandboxOutcome(NamedTuple):
    """One run, as the trusted side saw it."""

    status: Status
    """passed: ended by itself with 0, and nothing was seen. violation: ended with 0, and something
    was.
    """
    exit_code: int | None
    """None if a signal ended it."""
    signal: int | None
    wall_s: float
    cpu_s: float
    peak_kb: int
    """Of the largest process, or of all together at the moments somebody looked: the larger of the
    two.
    """
    stdout: Stream
    stderr: Stream
    violations: tuple[Violation, ...]
    isolation: Isolation
    """Under `process` there were limits and no walls."""
    reason: str
    """One sentence for a person."""
    report: bytes | None
    """The file a command was asked to write outside its tree; None if there is none."""

    def unless(self, failed: bool) -> SandboxOutcome:
        """The record of a process that ended well, although its tests failed: it must not read as
        passed.
        """
        return self._replace(status="failed") if failed and self.status == "passed" else self


class SandboxVerdict(NamedTuple):
    """Whether a solution or a tree passed. None: it was not found out, which passes no gate."""

    passed: bool | None
    outcome: SandboxOutcome
    reason: str
    mode: Mode | None = None
    """How solution and tests were kept apart; None for a command."""
    collected: tuple[str, ...] = ()
    """The tests that the report of a command names."""


class GateEntry(TypedDict):
    """An entry of a run's `gates`."""

    passed: bool | None
    reason: str


def verdict(outcomes: Iterable[SandboxOutcome]) -> GateEntry:
    """The gate `no_sandbox_violation` over all that ran. No run at all, or one without walls,
    leaves it open, and open fails closed.

    >>> verdict([])
    {'passed': None, 'reason': 'nothing ran in the sandbox'}
    """
    seen = list(outcomes)
    if not seen:
        return {"passed": None, "reason": "nothing ran in the sandbox"}
    runs = f"{len(seen)} run{'s' if len(seen) > 1 else ''}"
    violations = [violation for outcome in seen for violation in outcome.violations]
    if violations:
        count = f"{len(violations)} violation{'s' if len(violations) > 1 else ''}"
        shown = "; ".join(f"{each.kind}: {each.detail}" for each in violations[:3])
        more = f"; and {len(violations) - 3} more" if len(violations) > 3 else ""
        return {"passed": False, "reason": f"{count} in {runs}: {shown}{more}"}
    if any(outcome.isolation != "bubblewrap" for outcome in seen):
        # Without walls nothing can break out of them: a pass would claim what nobody saw.
        reason = "ran under limits only (`process`): writes, files read and network were not held"
        return {"passed": None, "reason": reason}
    if any(outcome.status == "error" for outcome in seen):
        return {"passed": None, "reason": "a run did not start"}
    return {"passed": True, "reason": f"the sandbox saw nothing in {runs}"}
