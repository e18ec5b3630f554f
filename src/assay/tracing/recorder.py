"""Records one run as it happens: steps, tool calls, handoffs, retrieved passages, claims.

Every adapter writes to a `Recorder`, so that evidence has the same form for every framework. Values
that weren't measured stay absent: an unknown duration, token count or cost is never 0. A workflow
reports what it did, not how well: a recorder takes no scores of the run, no gates and no test
results. Reports are untrusted input and are checked here. Recorders are thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from assay.canon import canonical
from assay.errors import AssayError, EvidenceError
from assay.files.json_files import parse_json
from assay.tracing.failures import describe
from assay.tracing.steps import milliseconds

Notify = Callable[[str, dict[str, Any]], None]
"""Called with `step_start` or `step_end` and the fields of the event."""
ToolCheck = Callable[[str, Any], bool | None]
"""Whether a tool's arguments keep its schema; None for a tool without a known schema."""

SUCCESS, SKIPPED = "success", "skipped"


class Recorder:
    """The evidence of one run while it is being recorded.

    >>> record = Recorder(clock=None)
    >>> with record.step("plan", agent="planner") as step:
    ...     step.used(model="m-1", tokens=12)
    ...     step.tool("search", {"q": "x"})
    >>> record.evidence()["steps"]
    [{'name': 'plan', 'status': 'success', 'agent': 'planner', 'model': 'm-1', 'tokens': 12}]
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] | None,
        notify: Notify | None = None,
        check: ToolCheck | None = None,
    ) -> None:
        self.clock = clock
        """A monotonic clock in nanoseconds; None if no time is measured."""
        self.steps: list[OpenStep] = []
        """The steps in the order in which they began."""
        self.tools: list[dict[str, Any]] = []
        """The tools that the models were shown, as evidence."""
        self._notify = notify
        self._check = check
        self._lock = threading.Lock()
        self._calls: list[dict[str, Any]] = []
        self._lists: dict[str, list[dict[str, Any]]] = {
            "handoffs": [],
            "retrieval": [],
            "claims": [],
        }
        self._complete: set[str] = set()

    # --- for adapters and workflows

    def begin(self, name: str, *, agent: str | None = None, critical: bool = True) -> OpenStep:
        """Begin a step; the caller ends it."""
        with self._lock:
            step = OpenStep(
                self,
                len(self.steps),
                text_of(name, "a step's name"),
                None if agent is None else text_of(agent, "an agent's name"),
                critical,
            )
            self.steps.append(step)
        self.notify(
            "step_start", {"step": {"name": step.name, "agent": step.agent, "index": step.index}}
        )
        return step

    @contextmanager
    def step(
        self, name: str, *, agent: str | None = None, critical: bool = True
    ) -> Iterator[OpenStep]:
        """A step as a block: it ends when the block does, and fails if the block raises."""
        step = self.begin(name, agent=agent, critical=critical)
        try:
            yield step
        except BaseException as error:
            step.end(
                "error" if isinstance(error, Exception) else "cancelled", error=describe(error)
            )
            raise
        step.end()

    def tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        step: str | None = None,
        valid: bool | None = None,
        error: str | None = None,
    ) -> None:
        """Record a tool call. `valid=True` counts only for declared tools, which are checked: a
        workflow can't vouch for its own calls.
        """
        valid = None if self._check is None and valid else valid
        self.keep_call(self.checked_call(name, arguments, step=step, valid=valid, error=error))

    def keep_call(self, call: dict[str, Any]) -> None:
        """Keep a tool call that `checked_call` made."""
        with self._lock:
            self._calls.append(call)
            self._complete.add("tool_calls")

    def checked_call(
        self,
        name: str,
        arguments: Any,
        *,
        step: str | None = None,
        valid: bool | None = None,
        checked: bool = False,
        error: str | None = None,
    ) -> dict[str, Any]:
        """A tool call as evidence. It was `checked` if `valid` comes from the schema that the model
        was shown.
        """
        arguments = json_of(arguments, "the arguments of a tool call")
        if self._check is not None:
            # A declared tool is checked against its schema, whatever the workflow reports; a call
            # that the workflow itself reports as invalid stays invalid.
            kept = self._check(name, arguments)
            valid, checked = False if valid is False else kept, kept is not None
        return _known(
            {
                "name": text_of(name, "a tool's name"),
                "step": step,
                "arguments": arguments,
                "valid": valid,
                "checked": checked or None,
                "error": error,
            },
            "valid",
        )

    def handoff(self, source: str, to: str) -> None:
        """Record that one agent passed the work to another."""
        self._add(
            "handoffs",
            {"from": text_of(source, "an agent's name"), "to": text_of(to, "an agent's name")},
        )

    def retrieved(self, id: str, text: str | None = None, *, rank: int | None = None) -> None:
        """Record a retrieved passage."""
        self._add("retrieval", {"id": text_of(id, "a passage's id"), "text": text, "rank": rank})

    def claim(self, text: str, *, citations: list[str] | None = None) -> None:
        """Record a claim that the answer makes, and what it cites."""
        self._add(
            "claims", {"text": text_of(text, "a claim"), "citations": list(citations or ()) or None}
        )

    def _add(self, name: str, item: dict[str, Any]) -> None:
        with self._lock:
            self._lists[name].append(_known(item))
            self._complete.add(name)

    def watched(self, *names: str) -> None:
        """Mark these lists as complete even if they stay empty: `tool_calls`, `handoffs`,
        `retrieval`, `claims`. An absent list means that nobody looked.
        """
        with self._lock:
            self._complete.update(names)

    # --- for the runner

    @property
    def has_listener(self) -> bool:
        """Whether anybody receives the events."""
        return self._notify is not None

    def calls_of(self, step: OpenStep) -> list[dict[str, Any]]:
        """The tool calls of a step."""
        return [call for call in self._calls if call.get("step") == step.name]

    def notify(self, kind: str, fields: dict[str, Any]) -> None:
        """Pass an event to the listener, if there is one."""
        if self._notify is not None:
            self._notify(kind, fields)

    def close(self, status: str, error: str) -> None:
        """End every open step when the run is over."""
        for step in list(self.steps):
            step.end(status, error=error)

    def evidence(self) -> dict[str, Any]:
        """The parts of `assay.run/1` that were recorded."""
        lists = {"tool_calls": self._calls, **self._lists}
        return {
            "steps": [step.shown() for step in self.steps],
            **{name: list(items) for name, items in lists.items() if name in self._complete},
            **({"tools": self.tools} if self.tools else {}),
            **self.totals(),
        }

    def totals(self) -> dict[str, Any]:
        """Tokens, cost and retries over all steps. A step that names a model but not its usage
        makes the total unknown, not smaller.
        """
        totals: dict[str, Any] = {"retries": sum(step.retries for step in self.steps)}
        for name in ("tokens", "cost_usd"):
            used = [(step.model, getattr(step, name)) for step in self.steps]
            values = [value for model, value in used if model is not None or value is not None]
            if values and None not in values:
                totals[name] = sum(values)
        return totals


class OpenStep:
    """One step while it runs."""

    def __init__(
        self, record: Recorder, index: int, name: str, agent: str | None, critical: bool
    ) -> None:
        self.record = record
        self.index = index
        self.name = name
        self.agent = agent
        self.critical = critical
        self.status: str | None = None
        self.error: str | None = None
        self.retries = 0
        self.model: str | None = None
        self.tier: str | None = None
        self.tokens: int | None = None
        self.cost_usd: Any = None
        self.duration_ms: Any = None
        self.scores: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.began_ns = record.clock() if record.clock is not None else 0
        self.over = False

    def used(
        self,
        *,
        model: str | None = None,
        tier: str | None = None,
        tokens: int | None = None,
        cost_usd: Any = None,
    ) -> None:
        """Add what a model call of this step used."""
        self.model = model if model is not None else self.model
        self.tier = tier if tier is not None else self.tier
        if tokens is not None:
            if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
                raise EvidenceError(
                    "RUN-006", f"tokens is {tokens!r}; it must be a whole number from 0."
                )
            self.tokens = (self.tokens or 0) + tokens
        if cost_usd is not None:
            self.cost_usd = exact_number(cost_usd) + (self.cost_usd or 0)

    def tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        valid: bool | None = None,
        error: str | None = None,
    ) -> None:
        """Record a tool that this step called."""
        self.record.tool(name, arguments, step=self.name, valid=valid, error=error)

    def retry(self, times: int = 1) -> None:
        """Count retries of this step."""
        self.retries += times

    def score(self, name: str, raw: Any, *, n: int = 1) -> None:
        """Score this step, not the run."""
        self.scores[name] = {"raw": json_of(raw, "a score"), "n": n}

    def end(
        self,
        status: str = SUCCESS,
        *,
        error: str | None = None,
        duration_ms: Any = None,
        tool_calls: list[dict[str, Any]] | None = None,
    ) -> None:
        """End the step. Only the first call counts. `tool_calls` are the step's calls if they are
        not recorded yet.
        """
        if self.over:
            return
        self.over, self.status, self.error = True, status, error
        if duration_ms is not None:
            self.duration_ms = exact_number(duration_ms)
        elif self.record.clock is not None and status != SKIPPED:
            self.duration_ms = elapsed_ms(self.record.clock() - self.began_ns)
        calls = self.record.calls_of(self) if tool_calls is None else tool_calls
        self.record.notify(
            "step_end", {"step": {**self.shown(), "index": self.index}, "tool_calls": calls}
        )

    def shown(self) -> dict[str, Any]:
        """The step as evidence; `cancelled` if nobody ended it."""
        return _known(
            {
                "name": self.name,
                "status": self.status or "cancelled",
                "agent": self.agent,
                "critical": None if self.critical else False,
                "duration_ms": self.duration_ms,
                "retries": self.retries or None,
                "model": self.model,
                "tier": self.tier,
                "tokens": self.tokens,
                "cost_usd": self.cost_usd,
                "scores": self.scores or None,
                "error": self.error,
                "metadata": self.metadata or None,
            }
        )


def _known(fields: dict[str, Any], *kept: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None or key in kept}


def elapsed_ms(nanoseconds: int) -> int | Decimal:
    """A measured time in milliseconds, exact to the microsecond."""
    return milliseconds(nanoseconds // 1000 * 1000)


# --- checks of what a workflow reports


def text_of(value: Any, what: str) -> str:
    """The value if it is a text that isn't empty. Raises an error that names it otherwise."""
    if not isinstance(value, str) or not value:
        kind = "empty" if isinstance(value, str) else type(value).__name__
        raise EvidenceError("RUN-006", f"{what} is {kind}; it must be a string.")
    return value


def exact_number(value: Any) -> Decimal:
    """A duration or cost as an exact decimal."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise EvidenceError(
            "RUN-006", f"a duration or cost is {type(value).__name__}; it must be a number."
        )
    number = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not number.is_finite() or number < 0:
        raise EvidenceError(
            "RUN-006", f"a duration or cost is {value}; it must be a finite number from 0."
        )
    return number


def json_of(value: Any, what: str) -> Any:
    """A JSON copy of a value, so that later changes by the workflow don't change the evidence."""
    if value is None or isinstance(value, bool | int):
        return value
    try:
        return parse_json(canonical(value))
    except (AssayError, TypeError, ValueError, RecursionError) as error:
        raise EvidenceError(
            "RUN-006", f"{what} can't be written as JSON: {describe(error)}."
        ) from None
