"""Handoffs: which agent passed the work to which, as far as the spans show it: by links (Agent
Framework), handoff spans, a node's parent in the graph (OpenInference), or LangGraph's supersteps
where only one node can have come before. If the source is unknown for one agent, those of the whole
run are: a list with gaps could hide a forbidden handoff.
"""

from __future__ import annotations

from typing import Any

from assay.errors import InputError
from assay.tracing.rules import agents_before
from assay.tracing.spans import name, tree
from assay.tracing.steps import TracedStep
from assay.tracing.trace import Trace

Edge = tuple[str, str]
MAX_LOOKS = 1_000_000
"""How many edges are followed at most: a hostile trace could connect every step to every other."""


class _Unclear(Exception):  # ends the search; never an error for the user
    """Several steps may have handed over the work, and no span shows which did."""


def handoffs(trace: Trace, steps: list[TracedStep]) -> list[Edge] | None:
    """Every handoff in order; None if they are not known."""
    explicit = _explicit(trace)
    if explicit:
        return explicit
    graph = _Graph(trace, steps)
    edges: list[Edge] = []
    try:
        for step in steps:
            if step.agent is not None:
                before = agents_before(
                    graph.sources(step),
                    lambda source: source if isinstance(source, str) else source.agent,
                    graph.sources,
                )
                edges += [(source, step.agent) for source in sorted(before) if source != step.agent]
    except _Unclear:
        return None
    if any(trace.means[step.key].superstep == 0 for step in steps):
        return None  # an entrypoint of LangGraph's functional API, whose spans show no edges
    agents = {step.agent for step in steps} - {None}
    # without any model span, a workflow without agents looks the same as one whose models are not
    # instrumented
    if len(steps) != 1 and (
        not agents or (len(agents) > 1 and not any(map(graph.shows_source, steps)))
    ):
        return None
    return edges


def _explicit(trace: Trace) -> list[Edge]:
    edges = []
    for span in trace.spans.values():
        source = name(span.attributes.get("gen_ai.handoff.from_agent"))
        to = name(span.attributes.get("gen_ai.handoff.to_agent"))
        if source is not None and to is not None:
            edges.append((source, to))
    return edges


class _Graph:
    """The steps that each step got its work from. A step that is only named counts as an agent."""

    def __init__(self, trace: Trace, steps: list[TracedStep]) -> None:
        self._trace = trace
        self._by_key = {key: step for step in steps for key in step.keys}
        self._named: dict[str, list[TracedStep]] = {}
        self._at: dict[tuple[Any, ...], list[TracedStep]] = {}
        """The nodes of each superstep, by graph and number."""
        for step in steps:
            self._named.setdefault(
                name(trace.spans[step.key].attributes.get("graph.node.id")) or step.name, []
            ).append(step)
            number = trace.means[step.key].superstep
            if number is not None:
                self._at.setdefault((trace.graph_of[step.key], number), []).append(step)
        self._edges: dict[str | None, frozenset[Edge]] = {None: frozenset()}
        self._looks = 0

    def shows_source(self, step: TracedStep) -> bool:
        """Whether the spans of a step would show where its work came from."""
        span = self._trace.spans[step.key]
        stated = (
            span.links
            or "executor.id" in span.attributes
            or name(span.attributes.get("graph.node.parent_id"))
        )
        return bool(stated) or self._trace.means[step.key].superstep is not None

    def sources(self, step: TracedStep | str) -> list[TracedStep | str]:
        """The known steps before a step."""
        sources = [] if isinstance(step, str) else self._sources(step)
        self._look(len(sources))
        return sources

    def _look(self, edges: int) -> None:
        self._looks += 1 + edges
        if self._looks > MAX_LOOKS:
            raise InputError(
                "FIL-004",
                f"finding the handoffs of a trace means following more than {MAX_LOOKS:,} edges.",
                fix="Split the trace.",
            )

    def _sources(self, step: TracedStep) -> list[TracedStep | str]:
        trace = self._trace
        span, meant = trace.spans[step.key], trace.means[step.key]
        if span.links or "executor.id" in span.attributes:
            linked = dict.fromkeys(trace.within(link) for link in span.links if link in trace.spans)
            return [self._by_key[key] for key in linked if key in self._by_key]
        parent = name(span.attributes.get("graph.node.parent_id"))
        if parent is not None:
            self._look(len(self._named.get(parent, [])))
            earlier = [
                other
                for other in self._named.get(parent, [])
                if other is not step and other.beginning <= step.beginning
            ]
            return [earlier[-1]] if earlier else [parent]
        if meant.superstep is None:
            return []
        return list(self._before(step, meant.superstep, meant.sources))

    def _before(
        self, step: TracedStep, superstep: int, joined: tuple[str, ...] | None
    ) -> list[TracedStep]:
        """The nodes before: the only one, or those that a join or a declared edge names."""
        graph = self._trace.graph_of[step.key]
        before = self._at.get((graph, superstep - 1), [])
        self._look(len(before))
        if joined is not None:
            return [node for node in before if node.name in joined]
        if len({node.name for node in before}) > 1:
            edges = self._declared(graph)
            before = [node for node in before if (node.name, step.name) in edges]
            if not before:
                raise _Unclear
        return before

    def _declared(self, graph: str | None) -> frozenset[Edge]:
        """The edges `a -> b` that the graph, or a graph around it, lists."""
        path = []
        while graph not in self._edges:
            assert graph is not None
            path.append(graph)
            listed = tree(self._trace.spans[graph].attributes.get("gen_ai.workflow.edges"))
            if isinstance(listed, list | tuple):
                parts = [edge.split(" -> ") for edge in listed if isinstance(edge, str)]
                self._edges[graph] = frozenset(
                    (part[0], part[1]) for part in parts if len(part) == 2
                )
            else:
                graph = self._trace.graph_of[graph]
        self._edges.update(dict.fromkeys(path, self._edges[graph]))
        return self._edges[graph]
