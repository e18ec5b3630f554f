"""Handoffs: which agent passed the work to which, where the spans say so.

Said by links (Agent Framework), by handoff spans, by a node's parent in the graph (OpenInference), or by LangGraph's supersteps where only one node can have
been the one before. Where it cannot be told for one step, it is not told for the run: a list that leaves an edge out would keep rules that were broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.importers.spans import name, tree

if TYPE_CHECKING:
    from assay.importers.stepping import Piece
    from assay.importers.trace import Trace

Edge = tuple[str, str]
AMBIGUOUS: frozenset[str] = frozenset({"?"})
"""Told apart by its identity: several nodes may have handed the work on, and nothing says which did."""


def handoffs(trace: Trace, steps: list[Piece]) -> list[dict[str, Any]] | None:
    """Every handoff in its order; None where it is not known."""
    explicit = _explicit(trace)
    if explicit:
        return [{"from": source, "to": to} for source, to in explicit]
    graph = _Graph(trace, steps)
    found: list[Edge] = []
    told = False
    for step in steps:
        sources = graph.sources(step)
        if sources is AMBIGUOUS:
            return None
        told = told or sources is not None
        if step.agent is not None:
            found += [(source, step.agent) for source in sorted(sources or ()) if source != step.agent]
    if not told and (not steps or len({step.agent for step in steps}) != 1):
        return None
    return [{"from": source, "to": to} for source, to in found]


def _explicit(trace: Trace) -> list[Edge]:
    edges = []
    for span in trace.spans.values():
        source, to = name(span.attributes.get("gen_ai.handoff.from_agent")), name(span.attributes.get("gen_ai.handoff.to_agent"))
        if source is not None and to is not None:
            edges.append((source, to))
    return edges


class _Graph:
    """Which agents a step had its work from."""

    def __init__(self, trace: Trace, steps: list[Piece]) -> None:
        self._trace = trace
        self._by_key = {key: step for step in steps for key in step.keys}
        self._at: dict[tuple[Any, ...], list[Piece]] = {}
        """The nodes of each superstep, by where they run."""
        for step in steps:
            number = trace.means[step.key].superstep
            if number is not None:
                self._at.setdefault((*self._place(step), number), []).append(step)
        self._edges: dict[str | None, frozenset[Edge]] = {None: frozenset()}

    def _place(self, step: Piece) -> tuple[Any, ...]:
        return self._trace.graph_of[step.key], self._trace.step_of[step.key]

    def sources(self, step: Piece) -> frozenset[str] | None:
        """The agents before a step; None where its spans do not tell of handoffs, `AMBIGUOUS` where they may be several."""
        trace = self._trace
        span, meant = trace.spans[step.key], trace.means[step.key]
        if span.links or "executor.id" in span.attributes:
            within = {trace.within(link) for link in span.links if link in trace.spans}
            return frozenset(_who(self._by_key[one]) for one in within if one in self._by_key)
        parent = name(span.attributes.get("graph.node.parent_id"))
        if parent is not None:
            return frozenset({parent})
        return None if meant.superstep is None else self._before(step, meant.superstep, meant.sources)

    def _before(self, step: Piece, superstep: int, joined: tuple[str, ...] | None) -> frozenset[str]:
        """The node before, where it can only be one, is named by a join, or is the one that a declared edge comes from."""
        before = self._at.get((*self._place(step), superstep - 1), [])
        if joined is not None:
            before = [one for one in before if one.name in joined]
        elif len({one.name for one in before}) > 1:
            edges = self._declared(self._trace.graph_of[step.key])
            before = [one for one in before if (one.name, step.name) in edges]
            if not before:
                return AMBIGUOUS
        return frozenset(map(_who, before))

    def _declared(self, graph: str | None) -> frozenset[Edge]:
        """The edges of the graph, where it or what holds it names them: `a -> b`."""
        path = []
        while graph not in self._edges:
            assert graph is not None
            path.append(graph)
            listed = tree(self._trace.spans[graph].attributes.get("gen_ai.workflow.edges"))
            if isinstance(listed, list | tuple):
                parts = [edge.split(" -> ") for edge in listed if isinstance(edge, str)]
                self._edges[graph] = frozenset((part[0], part[1]) for part in parts if len(part) == 2)
            else:
                graph = self._trace.graph_of[graph]
        self._edges.update(dict.fromkeys(path, self._edges[graph]))
        return self._edges[graph]


def _who(step: Piece) -> str:
    return step.agent or step.name
