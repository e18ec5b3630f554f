"""A release decision to show: the bundled one, with what a test changes."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec.structs import replace

from assay.cli import demo
from assay.records.decision import (
    Confirmation,
    Counted,
    Decision,
    RuleResult,
    SidesCounted,
    SuspectRecord,
)
from checkout import ROOT

EXAMPLES = ROOT / "src/assay/cli/examples"


@cache
def decided() -> list[Decision]:
    return demo.release_decisions(str(EXAMPLES / "release"))


def decision(outcome: str, *holds: bool | None, **changes: Any) -> Decision:
    """A decision whose rules hold like this, with nothing suspect."""
    rules = [
        RuleResult(
            id=f"rule-{index}",
            holds=held,
            violated=held is False,
            reason=f"because {index}",
            evidence={"n": 3},
        )
        for index, held in enumerate(holds)
    ]
    nothing = {"confirmation": confirmation(), "criteria": {}, "operations": {}}
    return replace(decided()[0], **{"outcome": outcome, "rules": rules, **nothing, **changes})


def confirmation(*suspects: SuspectRecord, **changes: Any) -> Confirmation:
    """The confirmation of these suspects."""
    known = decided()[0].confirmation
    needed = any(suspect.verdict == "open" for suspect in suspects)
    fresh = sum(suspect.fresh is not None for suspect in suspects)
    runs = {"candidate": fresh, "baseline": fresh}
    return replace(
        known,
        **{"suspects": list(suspects), "needed": needed, "runs": runs, "severe": [], **changes},
    )


def suspect(
    sample: str, verdict: Any = "open", check: str = "gate schema", **changes: Any
) -> SuspectRecord:
    """A check that a sample passed once and now fails."""
    fresh = {
        "open": None,
        "confirmed": counted(0, 7, 7),
        "flaky": counted(1, 1, 1),
        "baseline_fails_too": counted(0, 0, 1),
    }[verdict]
    made = SuspectRecord(
        sample=sample, check=check, first=counted(0, 1, 1), fresh=fresh, verdict=verdict
    )
    return replace(made, **changes)


def counted(candidate: int, baseline: int, runs: int) -> SidesCounted:
    """So many runs of each side that passed."""
    return SidesCounted(
        candidate=Counted(passed=candidate, runs=runs), baseline=Counted(passed=baseline, runs=runs)
    )


def rule(id: str, *, holds: bool | None = None, **evidence: Any) -> RuleResult:
    """A rule that holds, is violated or is open."""
    return RuleResult(
        id=id, holds=holds, violated=holds is False, reason="because", evidence=evidence
    )
