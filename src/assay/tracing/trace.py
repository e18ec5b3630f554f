"""The structure of one trace: which span contains which, which spans are a step, and what is known
to be missing.

The result depends only on the set of spans: their order in the file and duplicates change nothing.
A missing span that others refer to is a gap. A trace with a gap is not a complete run, and its
totals are unknown. A missing leaf that no span refers to can't be noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from assay.grouping import grouped
from assay.tracing.dialects import meaning
from assay.tracing.spans import Kind, Meaning, Span

UNNAMED = "LangGraph"
"""LangGraph's default name of a graph."""
_HOLDS: tuple[Kind, ...] = ("workflow", "step", "agent", "model", "tool")


class Trace:
    """One trace. A span is a step, runs in one, or belongs to none."""

    def __init__(self, spans: Iterable[Span], means: Mapping[str, Meaning] | None = None) -> None:
        """`means` has the meanings of the spans, if they are known already."""
        self.dropped: Counter[str] = Counter()
        self.gaps: Counter[str] = Counter()
        self.spans = self._unique(spans)
        self.means: dict[str, Meaning] = {
            key: meaning(span) if means is None else means[key] for key, span in self.spans.items()
        }
        self.kinds: dict[str, Kind] = {key: meaning.kind for key, meaning in self.means.items()}
        self.up = self._parents()
        self.roots = [
            key
            for key, span in self.spans.items()
            if span.parent_id is None or (span.remote_parent and span.parent_id not in self.spans)
        ]
        self.order = self._from_the_top()
        self.holder: dict[str, str | None] = {}
        self.step_of: dict[str, str | None] = {}
        """The step that a span runs in; for a step, not the step itself."""
        self.graph_of: dict[str, str | None] = {}
        self._hold()
        self._is_step: set[str] = set()
        self.steps: list[str] = []
        """The spans that are a step."""
        self._find_steps()
        self.speakers = self._find_speakers()
        """Models, and agents whose models nobody reports, each once, in the order they began."""
        self.agent_of: dict[str, str | None] = {}
        """The name of the outermost agent around a span within its step."""
        self.inner_graph_of: dict[str, str | None] = {}
        """The name of the outermost named graph around a span within its step."""
        self.offered_to: dict[str, Mapping[str, Any] | None] = {}
        """The tools that a speaker was shown, from its span or a span around it in its step."""
        self._inherit()
        self._find_gaps()

    # --- the tree

    def _unique(self, spans: Iterable[Span]) -> dict[str, Span]:
        kept = []
        for same in grouped((span.span_id, span) for span in spans).values():
            if len(same) > 1:
                self.dropped["duplicate_span_ids"] += len(same) - 1
            # a good copy must not hide a bad one: only one of them is kept, and it is unknown what
            # the others were
            self.gaps["spans_that_differ"] += any(span != same[0] for span in same)
            kept.append(same[0] if len(same) == 1 else max(same, key=_weight))
        return {
            span.span_id: span
            for span in sorted(kept, key=lambda span: (span.start_ns, span.span_id))
        }

    def _parents(self) -> dict[str, str | None]:
        up = {
            key: span.parent_id if span.parent_id in self.spans else None
            for key, span in self.spans.items()
        }
        done: set[str] = set()
        for start in up:
            path: dict[str, None] = {}
            at: str | None = start
            while at is not None and at not in done and at not in path:
                path[at] = None
                at = up[at]
            if at is not None and at in path:
                self.gaps["spans_in_a_circle"] += 1
                circle = list(path)[list(path).index(at) :]
                up[min(circle)] = None  # cut at the same place in any order
            done.update(path)
        return up

    def _from_the_top(self) -> list[str]:
        down = grouped((parent, key) for key, parent in self.up.items())
        order = list(down.get(None, ()))
        for key in order:
            order += down.get(key, ())
        return order

    def _hold(self) -> None:
        """Find the holder of each span, the nearest span above it with a known meaning. An agent
        that contains a graph is a workflow.
        """
        for key in self.order:
            parent = self.up[key]
            self.holder[key] = (
                None
                if parent is None
                else parent
                if self.kinds[parent] in _HOLDS
                else self.holder[parent]
            )
        for key in reversed(self.order):
            holder = self.holder[key]
            if (
                holder is not None
                and self.kinds[holder] == "agent"
                and self.kinds[key] in ("step", "workflow")
            ):
                self.kinds[holder] = "workflow"
        for key in self.order:
            parent = self.up[key]
            self.graph_of[key] = (
                None
                if parent is None
                else parent
                if self.kinds[parent] == "workflow"
                else self.graph_of[parent]
            )

    # --- steps

    def _find_steps(self) -> None:
        """A step is an outermost unit; whatever runs inside it belongs to it. A model outside any
        step is a step itself.
        """
        for key in self.order:
            holder, kind = self.holder[key], self.kinds[key]
            self.step_of[key] = None if holder is None else self.within(holder)
            alone = kind == "model" and (holder is None or self.kinds[holder] != "model")
            if self.step_of[key] is None and (kind in ("step", "agent") or alone):
                self.steps.append(key)
                self._is_step.add(key)

    def _find_speakers(self) -> list[str]:
        speaking: set[str] = set()
        """The spans that are or contain a model call."""
        speakers = []
        for key in reversed(self.order):
            kind = self.kinds[key]
            if (kind == "model" and not self.is_nested(key)) or (
                kind == "agent" and key not in speaking
            ):
                speakers.append(key)
                speaking.add(key)
            holder = self.holder[key]
            if key in speaking and holder is not None:
                speaking.add(holder)
        return sorted(speakers, key=lambda key: (self.spans[key].start_ns, key))

    def _inherit(self) -> None:
        """Find what each span inherits from the spans above it in the same step."""
        graphs = {
            self.up[key]
            for key, kind in self.kinds.items()
            if kind == "step" and self.means[key].execution is not None
        }
        for key in self.order:
            meant, parent = self.means[key], self.up[key]
            inside = parent if key not in self._is_step and parent is not None else None
            own = self.spans[key].attributes.get("traceloop.entity.name") or self.spans[key].name
            graph = (
                own
                if inside is not None
                and key in graphs
                and isinstance(own, str)
                and own.strip()
                and own != UNNAMED
                else None
            )
            self.agent_of[key] = (self.agent_of[inside] if inside else None) or (
                meant.name if self.kinds[key] == "agent" else None
            )
            self.inner_graph_of[key] = (self.inner_graph_of[inside] if inside else None) or graph
            self.offered_to[key] = (
                meant.offered
                if meant.offered is not None or inside is None
                else self.offered_to[inside]
            )

    # --- gaps

    def _find_gaps(self) -> None:
        spans = self.spans
        if not self.roots:
            self.gaps["no_root_span"] += 1
        missing = {
            span.parent_id
            for span in spans.values()
            if span.parent_id is not None and span.parent_id not in spans and not span.remote_parent
        }
        self.gaps["missing_parents"] += len(missing)
        self.gaps["missing_links"] += len(
            {link for span in spans.values() for link in span.links if link not in spans}
        )
        self.gaps["spans_with_dropped_parts"] += sum(span.dropped > 0 for span in spans.values())
        self.gaps["unfinished_roots"] += sum(spans[key].end_ns is None for key in self.roots)
        self.gaps["missing_supersteps"] += self._missing_supersteps()
        self.gaps["messages_without_a_receiver"] += self._unreceived()
        self.gaps = +self.gaps

    def _missing_supersteps(self) -> int:
        seen: dict[str | None, set[int]] = {}
        for key, kind in self.kinds.items():
            number = self.means[key].superstep
            if kind == "step" and number is not None:
                seen.setdefault(self.graph_of[key], set()).add(number)
        return sum(
            min(max(numbers) - min(numbers) + 1 - len(numbers), 1) for numbers in seen.values()
        )

    def _unreceived(self) -> int:
        steps = [key for key, kind in self.kinds.items() if kind == "step"]
        received = {link for key in steps for link in self.spans[key].links}
        names = {self.means[key].name for key in steps}
        lost = 0
        for span in self.spans.values():
            if span.attributes.get("edge_group.delivery_status") == "delivered":
                target = span.attributes.get("message.target_id")
                lost += bool(span.links and received.isdisjoint(span.links)) or (
                    isinstance(target, str) and target not in names
                )
        return lost

    # --- questions about one span

    def is_nested(self, key: str) -> bool:
        """Whether a model's or tool's span only repeats its holder, as when two instrumentations
        report one call.
        """
        holder = self.holder[key]
        if holder is None or self.kinds[holder] != self.kinds[key]:
            return False
        if self.kinds[key] == "model":
            return True
        inner, outer = self.means[key], self.means[holder]
        return self.kinds[key] == "tool" and (
            inner.name == outer.name
            if None in (inner.call_id, outer.call_id)
            else inner.call_id == outer.call_id
        )

    def error(self, key: str) -> str | None:
        """Why a span failed; None if it succeeded."""
        unfinished = "the span never ended" if self.spans[key].end_ns is None else None
        return self.means[key].error or unfinished

    def status(self, key: str) -> str:
        """How a span ended."""
        is_over = self.spans[key].end_ns is not None or self.means[key].error is not None
        return self.means[key].status if is_over else "error"

    def within(self, key: str) -> str | None:
        """The step that a span belongs to: the span itself, or the step that it runs in."""
        return key if key in self._is_step else self.step_of[key]


def _weight(span: Span) -> tuple[bool, bool, int, str]:
    content = repr(
        (
            span.name,
            span.parent_id,
            span.start_ns,
            span.error,
            sorted(span.attributes.items(), key=lambda item: str(item[0])),
        )
    )
    return span.error is not None, span.end_ns is None, -(span.end_ns or 0), content
