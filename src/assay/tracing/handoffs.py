"""Handoffs: which agent passed the work to which, as far as the spans show it.

They are read from links (Agent Framework), handoff spans, a node's parent in the graph
(OpenInference), or LangGraph's supersteps where only one node can have come before. Steps without
an agent are skipped. Where it is unknown for one agent, it is unknown for the run: a list without
an edge could hide a broken rule.
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
"""The most edges to follow: a hostile trace could connect every step to every other."""


class _Unclear(Exception):  # ends the search; never an error for the user
    """Several steps may have handed the work on, and nothing says which did."""


def handoffs(trace: Trace, steps: list[TracedStep]) -> list[dict[str, Any]] | None:
    """Every handoff in its order; None if it is not known."""
    explicit = _explicit(trace)
    if explicit:
        return [{"from": source, "to": to} for source, to in explicit]
    graph = _Graph(trace, steps)
    found: list[Edge] = []
    try:
        for step in steps:
            if step.agent is not None:
                before = agents_before(
                    graph.sources(step),
                    lambda one: one if isinstance(one, str) else one.agent,
                    graph.sources,
                )
                found += [(source, step.agent) for source in sorted(before) if source != step.agent]
    except _Unclear:
        return None
    if any(trace.means[step.key].superstep == 0 for step in steps):
        return None  # an entrypoint of LangGraph's functional API: there are no edges to hand on by
    agents = {step.agent for step in steps} - {None}
    # without any model span, a workflow without agents looks the same as one whose models are not
    # instrumented
    if len(steps) != 1 and (not agents or (len(agents) > 1 and not any(map(graph.tells, steps)))):
        return None
    return [{"from": source, "to": to} for source, to in found]


def _explicit(trace: Trace) -> list[Edge]:
    edges = []
    for span in trace.spans.values():
        source = name(span.attributes.get("gen_ai.handoff.from_agent"))
        to = name(span.attributes.get("gen_ai.handoff.to_agent"))
        if source is not None and to is not None:
            edges.append((source, to))
    return edges


class _Graph:
    """Which steps each step got its work from. A step that is only named is taken for an agent."""

    def __init__(self, trace: Trace, steps: list[TracedStep]) -> None:
        self._trace = trace
        self._by_key = {key: step for step in steps for key in step.keys}
        self._named: dict[str, list[TracedStep]] = {}
        self._at: dict[tuple[Any, ...], list[TracedStep]] = {}
        """The nodes of each superstep, by where they run."""
        for step in steps:
            self._named.setdefault(
                name(trace.spans[step.key].attributes.get("graph.node.id")) or step.name, []
            ).append(step)
            number = trace.means[step.key].superstep
            if number is not None:
                self._at.setdefault((trace.graph_of[step.key], number), []).append(step)
        self._edges: dict[str | None, frozenset[Edge]] = {None: frozenset()}
        self._looks = 0

    def tells(self, step: TracedStep) -> bool:
        """Whether the spans of a step show where its work came from, if from anywhere."""
        span = self._trace.spans[step.key]
        stated = (
            span.links
            or "executor.id" in span.attributes
            or name(span.attributes.get("graph.node.parent_id"))
        )
        return bool(stated) or self._trace.means[step.key].superstep is not None

    def sources(self, step: TracedStep | str) -> list[TracedStep | str]:
        """The steps before a step, as far as they are known."""
        found = [] if isinstance(step, str) else self._sources(step)
        self._look(len(found))
        return found

    def _look(self, edges: int) -> None:
        self._looks += 1 + edges
        if self._looks > MAX_LOOKS:
            raise InputError(
                "FIL-004",
                f"the steps of a trace hand on in more than {MAX_LOOKS:,} ways.",
                fix="Grade smaller parts of it.",
            )

    def _sources(self, step: TracedStep) -> list[TracedStep | str]:
        trace = self._trace
        span, meant = trace.spans[step.key], trace.means[step.key]
        if span.links or "executor.id" in span.attributes:
            within = dict.fromkeys(trace.within(link) for link in span.links if link in trace.spans)
            return [self._by_key[one] for one in within if one in self._by_key]
        parent = name(span.attributes.get("graph.node.parent_id"))
        if parent is not None:
            self._look(len(self._named.get(parent, [])))
            known = [
                one
                for one in self._named.get(parent, [])
                if one is not step and one.beginning <= step.beginning
            ]
            return [known[-1]] if known else [parent]
        if meant.superstep is None:
            return []
        return list(self._before(step, meant.superstep, meant.sources))

    def _before(
        self, step: TracedStep, superstep: int, joined: tuple[str, ...] | None
    ) -> list[TracedStep]:
        """The node before: the only one, or those that a join or a declared edge names."""
        graph = self._trace.graph_of[step.key]
        before = self._at.get((graph, superstep - 1), [])
        self._look(len(before))
        if joined is not None:
            return [one for one in before if one.name in joined]
        if len({one.name for one in before}) > 1:
            edges = self._declared(graph)
            before = [one for one in before if (one.name, step.name) in edges]
            if not before:
                raise _Unclear
        return before

    def _declared(self, graph: str | None) -> frozenset[Edge]:
        """The edges of the graph, where it or what holds it names them: `a -> b`."""
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
