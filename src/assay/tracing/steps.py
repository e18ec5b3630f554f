"""The steps of a run, each with its agent, its retries, and what its models used, counted once."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from heapq import heappop, heappush
from typing import Any, NamedTuple

from assay.grouping import grouped
from assay.tracing.content import reported_tokens
from assay.tracing.spans import Meaning
from assay.tracing.trace import Trace


class Used(NamedTuple):
    """How much of something was used. If not `known`, something was used but not reported; if
    `known`, an amount of None means that nothing was used.
    """

    amount: Any
    known: bool = True

    def plus(self, other: Used) -> Used:
        """The sum of both."""
        if not (self.known and other.known):
            return Used(None, False)
        return (
            self
            if other.amount is None
            else other
            if self.amount is None
            else Used(self.amount + other.amount)
        )


NOTHING = Used(None)
UNKNOWN = Used(None, False)


def used(parts: Iterable[Used], declared: Any) -> Used:
    """The larger of the sum of the parts and the amount that the whole declares. If a part is
    unknown, the declared amount counts only if it exceeds the known parts: otherwise it may merely
    add those up and be too small.

    >>> (
    ...     used([Used(15), Used(25)], None),
    ...     used([Used(15), UNKNOWN], 15).known,
    ...     used([Used(15), UNKNOWN], 40).amount,
    ... )
    (Used(amount=40, known=True), False, 40)
    """
    listed = list(parts)
    amounts = [part.amount for part in listed if part.amount is not None]
    seen, known = sum(amounts), all(part.known for part in listed)
    if declared is None:
        return UNKNOWN if not known else Used(seen) if amounts else NOTHING
    if not known:
        return Used(declared) if declared > seen else UNKNOWN
    return Used(max(seen, declared))


class TracedStep:
    """One step, with all its attempts."""

    __slots__ = (
        "agent",
        "beginning",
        "duration_ns",
        "end",
        "error",
        "key",
        "keys",
        "models",
        "name",
        "retries",
        "status",
        "used",
    )

    def __init__(self, trace: Trace, key: str, speakers: list[str], tried: list[str]) -> None:
        span, meant = trace.spans[key], trace.means[key]
        self.key = key
        self.keys = [key]
        """The spans of its attempts, in order."""
        self.name = meant.name
        self.agent = _agent(trace, key, speakers)
        self.beginning = span.start_ns
        self.end = span.end_ns
        self.duration_ns = (
            None
            if span.end_ns is None or span.end_ns < span.start_ns
            else span.end_ns - span.start_ns
        )
        self.error = trace.error(key)
        self.status = trace.status(key)
        answered = [speaker for speaker in speakers if trace.means[speaker].error is None]
        ended = sorted(
            answered,
            key=lambda speaker: (
                trace.spans[speaker].end_ns or trace.spans[speaker].start_ns,
                speaker,
            ),
        )
        self.models = [
            model
            for model in (trace.means[speaker].model for speaker in ended)
            if model is not None
        ]
        """The models that answered, in order."""
        self.retries = _repeated(trace, tried)
        self.used = {"tokens": NOTHING, "cost_usd": NOTHING}

    def record(self) -> dict[str, Any]:
        """The step as evidence, without unknown values."""
        several = sorted(set(self.models))
        fields = {
            "name": self.name,
            "status": self.status,
            "agent": self.agent,
            "duration_ms": None if self.duration_ns is None else milliseconds(self.duration_ns),
            "retries": self.retries,
            "model": self.models[-1] if self.models else None,
            "tokens": self.used["tokens"].amount,
            "cost_usd": self.used["cost_usd"].amount,
            "error": self.error,
            "metadata": {"models": several} if len(several) > 1 else None,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def merge(self, later: TracedStep) -> None:
        """Merge a later attempt into this step: its ending counts, and usage adds up."""
        self.keys += later.keys
        self.retries += 1 + later.retries
        self.duration_ns = (
            None
            if later.end is None or self.duration_ns is None or later.duration_ns is None
            else later.end - self.beginning
        )
        self.end, self.status, self.error = later.end, later.status, later.error
        self.used = {name: amount.plus(later.used[name]) for name, amount in self.used.items()}
        self.models = self.models + later.models
        self.agent = self.agent or later.agent


def milliseconds(nanoseconds: int) -> int | Decimal:
    """An exact number of milliseconds.

    >>> milliseconds(1_500_000), milliseconds(2_000_000)
    (Decimal('1.5'), 2)
    """
    whole, rest = divmod(nanoseconds, 10**6)
    return Decimal(nanoseconds).scaleb(-6).normalize() if rest else whole


def traced_steps(trace: Trace) -> list[TracedStep]:
    """The steps of a trace in the order they began, with retries merged."""
    speakers = grouped((trace.within(key) or key, key) for key in trace.speakers)
    tried = grouped(
        (trace.within(key) or key, key)
        for key, kind in trace.kinds.items()
        if kind == "agent" or (kind == "model" and not trace.is_nested(key))
    )
    steps = {
        key: TracedStep(trace, key, speakers.get(key, []), tried.get(key, []))
        for key in trace.steps
    }
    for name in ("tokens", "cost_usd"):
        for key, amount in _amounts(trace, name).items():
            steps[key].used[name] = amount
    for step in steps.values():
        if step.agent is None and step.used["tokens"].amount is not None:
            # no span of its model was recorded, but its answer shows what the model used
            step.agent = step.name
    return _merge_attempts(trace, list(steps.values()))


def _agent(trace: Trace, key: str, speakers: list[str]) -> str | None:
    """The agent of a step, from its first model call: the agent or graph that makes the call, else
    the step itself.
    """
    stated = trace.means[key].agent
    if stated is not None and trace.kinds[key] != "agent":
        return stated
    if not speakers:
        return None
    first = speakers[0]
    return (
        trace.agent_of[first]
        or trace.means[first].agent
        or trace.inner_graph_of[first]
        or trace.means[key].name
    )


def _amounts(trace: Trace, name: str) -> dict[str, Used]:
    """What each step used, added up from the innermost spans."""
    parts: dict[str, list[tuple[bool, Used]]] = {}
    """What is used inside a span, and whether it is the same model call reported again."""
    speaking, totals = set(trace.speakers), {}
    for key in reversed(trace.order):
        kind, meant, inside = trace.kinds[key], trace.means[key], parts.pop(key, [])
        if kind == "model":
            same = [amount for is_repeat, amount in inside if is_repeat]
            own = (
                Used(getattr(meant, name))
                if getattr(meant, name) is not None
                else used(same, None)
                if same
                else _unreported(meant)
            )
            total = used([own, *(amount for is_repeat, amount in inside if not is_repeat)], None)
        elif kind in ("agent", "step", "workflow"):
            declared = _declared(trace, key, name)
            unreported = [_unreported(meant)] if key in speaking and declared is None else []
            total = used([*(amount for _, amount in inside), *unreported], declared)
        else:
            total = used((amount for _, amount in inside), None)
        if trace.within(key) == key:
            totals[key] = total
            continue
        holder = trace.holder[key]
        if holder is not None and total != NOTHING:
            parts.setdefault(holder, []).append((kind == "model" and trace.is_nested(key), total))
    return totals


def _unreported(meant: Meaning) -> Used:
    """The usage of a model or an agent that doesn't report any: none if it failed, else unknown."""
    return UNKNOWN if meant.error is None else NOTHING


def _declared(trace: Trace, key: str, name: str) -> Any:
    """The total that the span of a step or an agent declares."""
    declared = getattr(trace.means[key], name)
    return (
        reported_tokens(trace.spans[key])
        if declared is None and name == "tokens" and trace.kinds[key] == "step"
        else declared
    )


def _repeated(trace: Trace, tried: list[str]) -> int:
    """How many models and agents failed inside a step and began again in the same place."""
    events: list[tuple[int, int, str]] = []
    for key in tried:
        span = trace.spans[key]
        events.append((span.start_ns, 1, key))
        if trace.means[key].error is not None:
            # it fails before another begins at the same moment, and never before it begins itself
            late = span.end_ns is not None and span.end_ns > span.start_ns
            events.append(
                (
                    span.end_ns if late and span.end_ns is not None else span.start_ns,
                    0 if late else 2,
                    key,
                )
            )
    failed, count = set(), 0  # a retry is a unit that failed and has not begun again since
    for _, what, key in sorted(events):
        unit = (
            trace.up[key],
            trace.kinds[key],
            trace.means[key].name if trace.kinds[key] == "agent" else "",
        )
        if what == 1:
            count += unit in failed
            failed.discard(unit)
        else:
            failed.add(unit)
    return count


def _merge_attempts(trace: Trace, steps: list[TracedStep]) -> list[TracedStep]:
    """Merge each retry into the step that failed before it: one of the same name in the same place
    that ended before the retry began.
    """
    merged: list[TracedStep] = []
    failed: dict[tuple[Any, ...], list[tuple[int, str, TracedStep]]] = {}
    for step in sorted(steps, key=lambda step: (step.beginning, step.key)):
        same = failed.setdefault(
            (trace.graph_of[step.key], step.name, trace.means[step.key].execution), []
        )
        if same and same[0][0] <= step.beginning:
            _, _, first = heappop(same)
            first.merge(step)
        else:
            first = step
            merged.append(step)
        if first.status != "success":
            heappush(same, (first.beginning if first.end is None else first.end, step.key, first))
    return merged
