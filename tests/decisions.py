"""A release decision to show: the bundled one, with what a test changes."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec.structs import replace

from assay.cli import demo_parts
from assay.records.decision import Decision, RuleResult
from conftest import ROOT

EXAMPLES = ROOT / "src/assay/cli/examples"


@cache
def decided() -> list[Decision]:
    return demo_parts.decided(str(EXAMPLES / "release"))


def decision(outcome: str, *holds: bool | None, **changes: Any) -> Decision:
    """A decision whose rules hold like this."""
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
    return replace(decided()[0], **{"outcome": outcome, "rules": rules, **changes})
