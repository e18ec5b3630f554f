"""The steps of a run: spans of one step put together, attempts after a failure counted as retries, each model's tokens counted once."""

from __future__ import annotations

from decimal import Decimal
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from assay.importers.content import reported_tokens

if TYPE_CHECKING:
    from assay.importers.trace import Trace


class Piece:
    """One step, with all its attempts."""

    __slots__ = ("agent", "beginning", "cost_usd", "duration_ns", "end", "error", "key", "keys", "models", "name", "retries", "status", "tokens", "who")

    def __init__(self, trace: Trace, key: str, members: list[str], models: list[str]) -> None:
        span, meant = trace.spans[key], trace.means[key]
        agents = {trace.means[one].name for one in members if trace.kinds[one] == "agent"}
        self.key = key
        self.keys = [key]
        """The spans that stand for its attempts, the first first."""
        self.name = meant.name
        self.agent = next(iter(agents)) if len(agents) == 1 else meant.agent
        self.beginning = span.start_ns
        self.end = span.end_ns
        self.duration_ns = None if span.end_ns is None or span.end_ns < span.start_ns else span.end_ns - span.start_ns
        self.error = meant.error or ("the span never ended" if span.end_ns is None else None)
        self.status = "success" if self.error is None else failure(self.error)
        self.models = models
        self.who = sorted({model for model in (trace.means[one].model for one in (*models, *members)) if model is not None})
        self.retries = _repeated(trace, models)
        self.tokens: int | None = None
        self.cost_usd: int | Decimal | None = None

    def record(self) -> dict[str, Any]:
        """The step as evidence; what is not known is left out."""
        made = {
            "name": self.name,
            "status": self.status,
            "agent": self.agent,
            "duration_ms": None if self.duration_ns is None else milliseconds(self.duration_ns),
            "retries": self.retries,
            "model": self.who[0] if len(self.who) == 1 else None,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "error": self.error,
            "metadata": {"models": self.who} if len(self.who) > 1 else None,
        }
        return {key: value for key, value in made.items() if value is not None}

    def again(self, later: Piece) -> None:
        """Take a later attempt in: how it ended holds, what both took is added."""
        self.keys += later.keys
        self.retries += 1 + later.retries
        self.duration_ns = None if later.end is None or self.duration_ns is None or later.duration_ns is None else later.end - self.beginning
        self.end, self.status, self.error = later.end, later.status, later.error
        self.tokens = _added(self.tokens, later.tokens, bool(self.models), bool(later.models))
        self.cost_usd = _added(self.cost_usd, later.cost_usd, bool(self.models), bool(later.models))
        self.models = self.models + later.models
        self.who = sorted({*self.who, *later.who})
        self.agent = self.agent or later.agent


def _added(one: Any, other: Any, has_one: bool, has_other: bool) -> Any:
    """Two parts together; None where a model did not say its part."""
    if (one is None and has_one) or (other is None and has_other):
        return None
    return one if other is None else other if one is None else one + other


def failure(error: str) -> str:
    """How something that failed ended: a `timeout`, `cancelled`, `failed` by its own word, else `error`: the machine's fault.

    >>> [failure(x) for x in ("TimeoutError: 30 s", "CancelledError", "the task ended with status 'failure'", "boom")]
    ['timeout', 'cancelled', 'failed', 'error']
    """
    said = error.lower()
    if "timeout" in said or "timed out" in said or "deadline" in said:
        return "timeout"
    if "cancelled" in said or "canceled" in said:
        return "cancelled"
    return "failed" if said.startswith("the task ended with status") else "error"


def milliseconds(nanoseconds: int) -> int | Decimal:
    """An exact number of milliseconds.

    >>> milliseconds(1_500_000), milliseconds(2_000_000)
    (Decimal('1.5'), 2)
    """
    whole, rest = divmod(nanoseconds, 10**6)
    return Decimal(nanoseconds).scaleb(-6).normalize() if rest else whole


def pieces(trace: Trace) -> list[Piece]:
    """The steps of a trace in the order they began, attempts after a failure put together."""
    members: dict[str, list[str]] = {}
    models: dict[str, list[str]] = {}
    for key in trace.spans:
        if key in trace.rep and trace.kinds[key] != "model":
            members.setdefault(trace.rep[key], []).append(key)
        if trace.kinds[key] == "model" and not trace.is_nested(key):
            models.setdefault(trace.within(key) or key, []).append(key)
    reps = [key for key in trace.order if trace.rep.get(key) == key]
    found = {key: Piece(trace, key, members.get(key, []), models.get(key, [])) for key in reps}
    for name in ("tokens", "cost_usd"):
        said = _said(trace, name)
        below: dict[str, Any] = {}
        for key in reversed(reps):  # what is held before what holds it
            held = below.get(key, 0)
            own = _own([said[one] for one in found[key].models], _declared(trace, members.get(key, []), name), held)
            setattr(found[key], name, own)
            holder = trace.step_of[key]
            if holder is not None:
                below[holder] = below.get(holder, 0) + held + (own or 0)
    return _attempts(trace, list(found.values()))


def _said(trace: Trace, name: str) -> dict[str, Any]:
    """What each model says of itself, or what the span inside it says."""
    said = {key: getattr(trace.means[key], name) for key, kind in trace.kinds.items() if kind == "model"}
    for key in reversed(trace.order):
        holder = trace.holder[key]
        if key in said and holder in said and said[holder] is None:
            said[holder] = said[key]
    return said


def _declared(trace: Trace, members: list[str], name: str) -> Any:
    """What the spans of a step say of the whole of it, the outermost of them."""
    own = {one: getattr(trace.means[one], name) for one in members}
    if name == "tokens":
        own = {one: reported_tokens(trace.spans[one]) if value is None and trace.kinds[one] == "step" else value for one, value in own.items()}
    outermost = [value for one, value in own.items() if value is not None and own.get(trace.holder[one] or "") is None]
    return sum(outermost) if outermost else None


def _own(parts: list[Any], declared: Any, below: Any) -> Any:
    """A step's own share: its models' parts; where the step says that it was more, that much more. None where it cannot be told."""
    known = [part for part in parts if part is not None]
    if declared is None:
        return sum(known) if parts and len(known) == len(parts) else None
    seen = sum(known)
    if not parts and declared <= below:
        return None
    return max(seen, declared - below)


def _repeated(trace: Trace, models: list[str]) -> int:
    """Calls of a model that followed a failed call of the same model in one step."""
    count = 0
    failed: dict[str | None, list[int]] = {}
    """When calls of a model failed, the earliest first."""
    for key in models:
        span, meant = trace.spans[key], trace.means[key]
        ends = failed.setdefault(meant.model, [])
        if ends and ends[0] <= span.start_ns:
            heappop(ends)
            count += 1
        if meant.error is not None:
            heappush(ends, span.end_ns if span.end_ns is not None else span.start_ns)
    return count


def _attempts(trace: Trace, steps: list[Piece]) -> list[Piece]:
    """Put an attempt to the step that failed before it: the same name in the same place, begun after the failed one ended."""
    made: list[Piece] = []
    failed: dict[tuple[Any, ...], list[tuple[int, str, Piece]]] = {}
    for step in sorted(steps, key=lambda one: (one.beginning, one.key)):
        same = failed.setdefault((trace.step_of[step.key], trace.graph_of[step.key], step.name, step.agent), [])
        if same and same[0][0] <= step.beginning:
            _, _, first = heappop(same)
            first.again(step)
        else:
            first = step
            made.append(step)
        if first.status != "success":
            heappush(same, (first.beginning if first.end is None else first.end, step.key, first))
    return made
