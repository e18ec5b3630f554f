"""The profile that is made from the metrics of another tool's results: one criterion for each, with
equal weights, no floors and no roles; the tool's own verdict is a gate.

A metric counts where all of its values are from 0 to 1, the one scale that needs no explanation.
Any other is named and not graded. A metric without any value counts as well, as missing from every
sample: a judge that failed each time must not be forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.errors import NotEnoughEvidence
from assay.importers.column_map import LESS_IS_BETTER
from assay.importers.samples import gate_name
from assay.scoring.extension import marked
from assay.scoring.gates import GATES
from assay.scoring.profile import GateRef, Profile, ProfileCriterion

if TYPE_CHECKING:
    from assay.importers.tally import ImportTally, Metric

PREFIX = "imported-"
"""How the names of these profiles begin."""
SHOWN = 200
"""Characters of an error that a message shows."""
PASSED = "passed"
"""The criterion of results that have a verdict and no metric."""


class MadeProfile(NamedTuple):
    """A profile made from metrics, with notes on those that it leaves out or that have no value."""

    profile: Profile
    not_graded: tuple[str, ...]


def make_profile(tool: str, tally: ImportTally, *, where: str) -> MadeProfile:
    """The profile for what one import counted."""
    gate = gate_name(tool)
    metrics = "the columns of a table" if tool == "table" else f"the metrics that {tool} wrote"
    criteria, left_out = [], []
    for name, metric in tally.metrics.items():
        if why := _why_not(
            name, metric, gate, mapped=tool == "table" or metric.label in tally.told
        ):
            left_out.append(f"{metric.label} is not graded: {why}")
            continue
        if not metric.n:
            left_out.append(f"{metric.label} has no value on any sample: it is missing from all")
        criteria.append(
            ProfileCriterion(
                id=name,
                label=metric.label.strip() or name,
                weight=1,
                layer=2 if metric.judged else 1,
                formula="zero_one",
            )
        )
    if tally.errors == tally.samples:
        reason = " ".join(tally.first_error.split()).rstrip(".")
        why = f": {reason[:SHOWN]}{'..' if len(reason) > SHOWN else ''}" if reason else ""
        raise NotEnoughEvidence(
            "SCO-010",
            f"{tally.errors:,} of {tally.samples:,} samples errored{why}.",
            where=where,
            fix="Fix that and run the evaluation again: there is nothing to grade.",
        )
    if not any(tally.metrics[one.id].n for one in criteria):
        lacking = f" {left_out[0]}." if left_out else " Its samples have no scores."
        raise NotEnoughEvidence(
            "SCO-010",
            f"there is nothing to grade: no metric has values on a known scale.{lacking}",
            where=where,
            fix="Give a profile that measures these runs with --profile P.",
        )
    made = Profile(
        profile=f"{PREFIX}{tool}",
        version="1",
        title=f"Made from {metrics}",
        family=f"{PREFIX}{tool}",
        gates=[GateRef(id=gate, verdict=True, title=f"{tool}: passed")] if tally.verdicts else [],
        criteria=criteria,
        description=(
            f"Assay made this profile from {metrics}: one criterion for each, equal weights, no"
            " floors. Write a profile with your own weights and floors and give it with --profile."
        ),
        made_from=metrics,
    )
    return MadeProfile(marked(made), tuple(left_out))


def _why_not(name: str, metric: Metric, gate: str, *, mapped: bool) -> str:
    if name in GATES or name == gate:
        return "its name is that of a gate"
    # graded as written, the most toxic answer would get the best grade; a mapping says the scale
    if not mapped and LESS_IS_BETTER.search(metric.label):
        return "less may be better by its name, and the file doesn't say"
    if metric.words and not metric.n:
        return "its values are words, and nothing says which are good"
    if metric.n and not metric.is_share:
        return (
            f"its values run from {metric.low} to {metric.high}, and only 0 to 1 is a known scale"
        )
    return ""
