"""The records of what the sandbox saw, and the gate they feed.

`status` is how a run ended, `violations` what it tried or used beyond its limits. The sandbox
detects: wall time, CPU time, memory, the number of processes, floods of output, files beyond the
size limit, processes left behind, connections to outside addresses (which the kernel counts, as
there is no route), and the loss of the supervisor. It doesn't detect attempts that the system
refuses: a write to a read-only place, opening a file that doesn't exist, a system call that the
filter denies.
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
    """One thing that untrusted code tried or used beyond its limits."""

    kind: Kind
    detail: str


class Stream(NamedTuple):
    """The kept part of one stream, and its total size."""

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
    """passed: ended by itself with 0 and without violations; violation: ended with 0, but with
    violations.
    """
    exit_code: int | None
    """None if a signal ended it."""
    signal: int | None
    wall_s: float
    cpu_s: float
    peak_kb: int
    """The larger of two numbers: the peak of the largest process, and the most that all processes
    together used when they were checked.
    """
    stdout: Stream
    stderr: Stream
    violations: tuple[Violation, ...]
    isolation: Isolation
    """`process` means limits without isolation."""
    reason: str
    """One sentence for a person."""
    report: bytes | None
    """The file a command was asked to write outside its tree; None if there is none."""
    unneeded: bool = False
    """Whether it was ended because nothing waited for it any longer."""

    def unless(self, failed: bool) -> SandboxOutcome:
        """The outcome with the status `failed` if the process ended well but its tests failed."""
        return self._replace(status="failed") if failed and self.status == "passed" else self


class SandboxVerdict(NamedTuple):
    """Whether a solution or a tree passed; None if that is unknown, which passes no gate."""

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
    """The gate `no_sandbox_violation` over all runs. Without any run, or with a run without
    isolation, it is undetermined, which fails.

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
        # Without isolation there is nothing to break out of: a pass would claim what nobody saw.
        reason = "ran under limits only (`process`): writes, files read and network were not held"
        return {"passed": None, "reason": reason}
    if any(outcome.status == "error" for outcome in seen):
        return {"passed": None, "reason": "a run did not start"}
    return {"passed": True, "reason": f"the sandbox saw nothing in {runs}"}
