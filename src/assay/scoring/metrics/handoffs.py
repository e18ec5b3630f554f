"""Agents passing work on: whether it went to the right one, and along the edges that the rules
allow.

The rules are a graph that may hold cycles; every walk remembers where it has been, so none runs for
ever. The gate `handoff_graph_respected` decides on edges alone; here also who handed on what he
never held, and who went round in circles.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from assay.exact import Ratio
from assay.scoring.metrics.measure import Undetermined

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from assay.records.evidence import Run


class Edge(NamedTuple):
    """One agent passing work to another."""

    source: str
    to: str


class GraphFinding(NamedTuple):
    """How handoffs keep a graph of rules; every list is empty where all is well."""

    outside: tuple[Edge, ...]
    """Handoffs that no rule allows, each once."""
    not_held: tuple[Edge, ...]
    """Handoffs by an agent that neither began nor was handed the work."""
    unreachable: tuple[str, ...]
    """Agents that were handed work although no path of rules leads to them from the first."""
    repeated: int
    """Handoffs along an edge already taken: going round in circles, allowed or not."""

    @property
    def holds(self) -> bool:
        """Whether every handoff is allowed and made by one who held the work."""
        return not (self.outside or self.not_held or self.unreachable)


def reachable(rules: Iterable[tuple[str, str]], start: str) -> frozenset[str]:
    """Every agent that work can get to from `start`, itself included.

    >>> sorted(reachable([("a", "b"), ("b", "a"), ("b", "b"), ("c", "d")], "a"))
    ['a', 'b']
    """
    follows: dict[str, list[str]] = {}
    for source, to in rules:
        follows.setdefault(source, []).append(to)
    seen = {start}
    open_ = [start]
    while open_:
        for agent in follows.get(open_.pop(), ()):
            if agent not in seen:
                seen.add(agent)
                open_.append(agent)
    return frozenset(seen)


def check_graph(
    handoffs: Sequence[tuple[str, str]],
    rules: Iterable[tuple[str, str]],
    *,
    start: str | None = None,
) -> GraphFinding:
    """Whether handoffs keep the rules. The work begins with `start`, or with whoever hands it on
    first.

    >>> check_graph([("a", "b"), ("b", "a"), ("a", "b")], [("a", "b"), ("b", "a")])
    GraphFinding(outside=(), not_held=(), unreachable=(), repeated=1)
    >>> check_graph([("a", "b"), ("x", "b")], [("a", "b"), ("x", "b")]).not_held
    (Edge(source='x', to='b'),)
    """
    allowed = {Edge(*rule) for rule in rules}
    edges = [Edge(*handoff) for handoff in handoffs]
    if not edges:
        return GraphFinding((), (), (), 0)
    first = edges[0].source if start is None else start
    held = {first}
    not_held: dict[Edge, None] = {}
    for edge in edges:
        if edge.source not in held:
            not_held[edge] = None
        held.add(edge.to)
    legal = reachable(allowed, first)
    return GraphFinding(
        tuple(dict.fromkeys(edge for edge in edges if edge not in allowed)),
        tuple(not_held),
        tuple(dict.fromkeys(edge.to for edge in edges if edge.to not in legal)),
        len(edges) - len(set(edges)),
    )


def accuracy(handoffs: Sequence[tuple[str, str]], expected: Sequence[tuple[str, str]]) -> Ratio:
    """Expected handoffs that were made, each as often as it was expected, of all that were made or
    expected.

    >>> accuracy([("a", "b"), ("b", "c"), ("b", "c")], [("a", "b"), ("b", "c")])
    Ratio(num=2, den=3)
    """
    if not handoffs and not expected:
        return Ratio(1, 1)
    return Ratio(
        sum((Counter(map(tuple, handoffs)) & Counter(map(tuple, expected))).values()),
        max(len(handoffs), len(expected)),
    )


def run_accuracy(run: Run) -> Ratio | Undetermined:
    """Handoff accuracy of a run: against `expected.handoffs` where it is there, else each handoff
    against its own `expected`.
    """
    if run.handoffs is None:
        return Undetermined("the run lists no `handoffs` (an empty list says there were none)")
    made = [(handoff.source, handoff.to) for handoff in run.handoffs]
    if isinstance(run.expected, dict) and "handoffs" in run.expected:
        listed = run.expected["handoffs"]
        expected = [_edge(item) for item in listed] if isinstance(listed, list) else [None]
        known = [edge for edge in expected if edge is not None]
        if len(known) < len(expected):
            return Undetermined('`expected.handoffs` is no list of {"from", "to"}')
        return accuracy(made, known)
    if not made:
        return Undetermined(
            "the run made no handoff, and `expected.handoffs` does not say that none was due"
        )
    # One without a label is not left out of the count: a run could then label only what went well.
    unlabelled = sum(handoff.expected is None for handoff in run.handoffs)
    if unlabelled:
        return Undetermined(
            f"{unlabelled} of {len(made)} handoffs do not say where they should have gone"
            " (`expected`)"
        )
    return Ratio(sum(handoff.to == handoff.expected for handoff in run.handoffs), len(made))


def _edge(item: object) -> Edge | None:
    if (
        isinstance(item, dict)
        and isinstance(item.get("from"), str)
        and isinstance(item.get("to"), str)
    ):
        return Edge(item["from"], item["to"])
    if (
        isinstance(item, list | tuple)
        and len(item) == 2
        and isinstance(item[0], str)
        and isinstance(item[1], str)
    ):
        return Edge(item[0], item[1])
    return None
