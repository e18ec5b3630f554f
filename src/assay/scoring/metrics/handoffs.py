"""Handoff accuracy: whether work went to the right agents.

The gate `handoff_graph_respected` checks whether the rules allow a handoff: see `scoring.gates`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from assay.exact import Ratio
from assay.records.evidence import Run
from assay.scoring.metrics.measure import Undetermined


def accuracy(handoffs: Sequence[tuple[str, str]], expected: Sequence[tuple[str, str]]) -> Ratio:
    """The share of expected handoffs that were made, each as often as expected, among all that were
    made or expected.

    >>> accuracy([("a", "b"), ("b", "c"), ("b", "c")], [("a", "b"), ("b", "c")])
    Ratio(num=2, den=3)
    """
    if not handoffs and not expected:
        return Ratio(1, 1)
    return Ratio(
        sum((Counter(map(tuple, handoffs)) & Counter(map(tuple, expected))).values()),
        max(len(handoffs), len(expected)),
    )


def run_accuracy(run: Run) -> Ratio:
    """Handoff accuracy of a run: against `expected.handoffs` if present, else each handoff against
    its `expected`.
    """
    if run.handoffs is None:
        raise Undetermined("the run lists no `handoffs` (an empty list means there were none)")
    made = [(handoff.source, handoff.to) for handoff in run.handoffs]
    if isinstance(run.expected, dict) and "handoffs" in run.expected:
        listed = run.expected["handoffs"]
        expected = [_edge(item) for item in listed] if isinstance(listed, list) else [None]
        known = [edge for edge in expected if edge is not None]
        if len(known) < len(expected):
            raise Undetermined('`expected.handoffs` is not a list of {"from", "to"}')
        return accuracy(made, known)
    if not made:
        raise Undetermined(
            "the run made no handoff, and `expected.handoffs` does not say that none was due"
        )
    # An unlabelled handoff is not left out: a run could then label only what went well.
    unlabelled = sum(handoff.expected is None for handoff in run.handoffs)
    if unlabelled:
        raise Undetermined(
            f"{unlabelled} of {len(made)} handoffs do not say where they should have gone"
            " (`expected`)"
        )
    return Ratio(sum(handoff.to == handoff.expected for handoff in run.handoffs), len(made))


def _edge(item: object) -> tuple[str, str] | None:
    """The agents of an expected handoff, written as an object or as a pair."""
    if (
        isinstance(item, dict)
        and isinstance(item.get("from"), str)
        and isinstance(item.get("to"), str)
    ):
        return item["from"], item["to"]
    if (
        isinstance(item, list | tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], str)
    ):
        return item[0], item[1]
    return None
