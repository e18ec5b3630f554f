"""What the sandbox saw: records, and the gate they feed.

`status` says how a run ended, `violations` what it tried or took beyond its limits. Seen are: the
clock, computing time, memory, the number of processes, floods of output, file sizes that end the
process, processes left behind, addresses outside (counted by the kernel: there is no route), and
the loss of the supervisor. Not seen are attempts that the system merely refuses: a write to a
read-only place, an open of a file that is not there, a system call that the filter denies. They do
no harm, and leave no trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable

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
        """The kept bytes as text; what is no UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


class Outcome(NamedTuple):
    """One run, as the trusted side saw it."""

    status: Status
    """passed: ended by itself with 0, and nothing was seen. violation: ended with 0, and something
    was.
    """
    exit_code: int | None
    """None where a signal ended it."""
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
    """The file a command was asked to write outside its tree; None where there is none."""


class Verdict(NamedTuple):
    """Whether a solution or a tree passed. None: it was not found out, which passes no gate."""

    passed: bool | None
    outcome: Outcome
    reason: str
    mode: Mode | None = None
    """How solution and tests were kept apart; None for a command."""
    replaced: tuple[str, ...] = ()
    """Files of the tree that gave way to protected ones."""
    collected: tuple[str, ...] = ()
    """The tests that the report of a command names."""


class GateEntry(TypedDict):
    """An entry of a run's `gates`."""

    passed: bool | None
    reason: str


def verdict(outcomes: Iterable[Outcome]) -> GateEntry:
    """The gate `no_sandbox_violation` over all that ran. No run at all, or one without walls,
    leaves it open, and open fails closed.

    >>> verdict([])
    {'passed': None, 'reason': 'nothing ran in the sandbox'}
    """
    seen = list(outcomes)
    if not seen:
        return {"passed": None, "reason": "nothing ran in the sandbox"}
    found = [violation for one in seen for violation in one.violations]
    if found:
        shown = "; ".join(f"{one.kind}: {one.detail}" for one in found[:3])
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return {
            "passed": False,
            "reason": (
                f"{len(found)} violation{'s' if len(found) > 1 else ''} in"
                f" {len(seen)} run{'s' if len(seen) > 1 else ''}: {shown}{more}"
            ),
        }
    if any(one.isolation != "bubblewrap" for one in seen):
        # Without walls nothing can break out of them: a pass would say what nobody saw.
        return {
            "passed": None,
            "reason": (
                "ran under limits only (`process`): writes, files read and network were not held"
            ),
        }
    if any(one.status == "error" for one in seen):
        return {"passed": None, "reason": "a run did not start"}
    return {
        "passed": True,
        "reason": f"the sandbox saw nothing in {len(seen)} run{'s' if len(seen) > 1 else ''}",
    }
