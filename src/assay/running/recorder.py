"""What happens in one run, written down as it happens: steps, tool calls, handoffs, retrieved
passages.

Every adapter writes into a `Recorder`, so that the evidence has one form whoever ran the workflow.
What nobody measured stays absent: an unknown duration, token count or cost is never a zero. A
workflow says what it did and never how well: there is no way in here for scores of the run, gates
or test results. A recorder may be used from several threads at once.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.errors import EvidenceError
from assay.running.checks import exact_number, json_of, said, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Tell = Callable[[str, dict[str, Any]], None]
    """Whoever watches: called with `step_start` or `step_end` and what it says."""
    Check = Callable[[str, Any], bool | None]
    """Whether a tool's arguments keep its schema; None where nobody knows the tool."""

SUCCESS, SKIPPED = "success", "skipped"


class Recorder:
    """The evidence of one run while it grows.

    >>> record = Recorder(clock=None)
    >>> with record.step("plan", agent="planner") as step:
    ...     step.used(model="m-1", tokens=12)
    ...     step.tool("search", {"q": "x"}, valid=True)
    >>> record.evidence()["steps"]
    [{'name': 'plan', 'status': 'success', 'agent': 'planner', 'model': 'm-1', 'tokens': 12}]
    """

    def __init__(
        self,
        *,
        clock: Callable[[], int] | None,
        tell: Tell | None = None,
        check: Check | None = None,
    ) -> None:
        self.clock = clock
        """Nanoseconds that only go up; None where no time is measured."""
        self._tell = tell
        self._check = check
        self._lock = threading.Lock()
        self._steps: list[OpenStep] = []
        self._calls: list[tuple[tuple[int, ...], dict[str, Any]]] = []
        self._handoffs: list[dict[str, Any]] = []
        self._retrieved: list[dict[str, Any]] = []
        self._claims: list[dict[str, Any]] = []
        self._seen: set[str] = set()

    # --- what adapters and workflows say

    def begin(self, name: str, *, agent: str | None = None, critical: bool = True) -> OpenStep:
        """A step that has begun; whoever begins it ends it."""
        with self._lock:
            step = OpenStep(
                self,
                len(self._steps),
                text_of(name, "a step's name"),
                None if agent is None else text_of(agent, "an agent's name"),
                critical,
            )
            self._steps.append(step)
        self.tell(
            "step_start", {"step": {"name": step.name, "agent": step.agent, "index": step.index}}
        )
        return step

    @contextmanager
    def step(
        self, name: str, *, agent: str | None = None, critical: bool = True
    ) -> Iterator[OpenStep]:
        """A step as a block: it ends with the block, and fails with it."""
        step = self.begin(name, agent=agent, critical=critical)
        try:
            yield step
        except BaseException as error:
            step.end("error" if isinstance(error, Exception) else "cancelled", error=said(error))
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
        place: tuple[int, ...] = (),
    ) -> None:
        """A tool was called. Where the workflow declares the tool, its arguments are checked here;
        a call that its own caller found invalid stays so.

        `place` orders calls that are reported later than they were made; without it they stand as
        reported.
        """
        arguments = json_of(arguments, "the arguments of a tool call")
        verdict = valid
        if self._check is not None and valid is not False:
            verdict = self._check(
                name, arguments
            )  # a declared tool is held to its schema, whatever the workflow says of its call
        call: dict[str, Any] = {
            "name": text_of(name, "a tool's name"),
            "step": step,
            "arguments": arguments,
            "valid": verdict,
            "error": error,
        }
        with self._lock:
            self._calls.append(
                (
                    place,
                    {
                        key: value
                        for key, value in call.items()
                        if value is not None or key == "valid"
                    },
                )
            )
            self._seen.add("tool_calls")

    def handoff(self, source: str, to: str) -> None:
        """One agent passed the work to another. Whether it was the right one is for others to
        say.
        """
        made = {"from": text_of(source, "an agent's name"), "to": text_of(to, "an agent's name")}
        with self._lock:
            self._handoffs.append(made)
            self._seen.add("handoffs")

    def retrieved(self, id: str, text: str | None = None, *, rank: int | None = None) -> None:
        """A passage that the workflow found and used. Whether it is relevant is for others to
        say.
        """
        made = {"id": text_of(id, "a passage's id"), "text": text, "rank": rank}
        with self._lock:
            self._retrieved.append({key: value for key, value in made.items() if value is not None})
            self._seen.add("retrieval")

    def watched(self, *names: str) -> None:
        """Say that these lists are complete even if nothing enters them: `tool_calls`, `handoffs`,
        `retrieval`, `claims`. An absent list: nobody looked.
        """
        with self._lock:
            self._seen.update(names)

    def claim(self, text: str, *, citations: list[str] | None = None) -> None:
        """A claim that the answer makes, and what it cites. Whether it is supported is for others
        to say.
        """
        made: dict[str, Any] = {
            "text": text_of(text, "a claim"),
            **({"citations": list(citations)} if citations else {}),
        }
        with self._lock:
            self._claims.append(made)
            self._seen.add("claims")

    # --- what the runner asks

    def tell(self, kind: str, fields: dict[str, Any]) -> None:
        """Tell whoever watches."""
        if self._tell is not None:
            self._tell(kind, fields)

    @property
    def steps(self) -> list[OpenStep]:
        """The steps in the order in which they began."""
        return self._steps

    def close(self, status: str, error: str) -> None:
        """End every step that is still open: the run is over."""
        for step in list(self._steps):
            step.end(status, error=error)

    def calls_of(self, step: OpenStep) -> list[dict[str, Any]]:
        """The tool calls of a step."""
        return [call for call in self._ordered_calls() if call.get("step") == step.name]

    def _ordered_calls(self) -> list[dict[str, Any]]:
        return [call for _, call in sorted(self._calls, key=lambda one: one[0])]

    def evidence(self) -> dict[str, Any]:
        """The parts of `assay.run/1` that were written down."""
        found: dict[str, Any] = {"steps": [step.shown() for step in self._steps]}
        lists: Mapping[str, list[dict[str, Any]]] = {
            "tool_calls": self._ordered_calls(),
            "handoffs": self._handoffs,
            "retrieval": self._retrieved,
            "claims": self._claims,
        }
        found.update(
            {name: list(items) for name, items in lists.items() if items or name in self._seen}
        )
        found.update(self.totals())
        return found

    def totals(self) -> dict[str, Any]:
        """Tokens, cost and retries over all steps. A step that names a model and not what it used
        makes the total unknown, not smaller.
        """
        found: dict[str, Any] = {"retries": sum(step.retries for step in self._steps)}
        for name in ("tokens", "cost_usd"):
            values = [
                getattr(step, name)
                for step in self._steps
                if step.model is not None or getattr(step, name) is not None
            ]
            if values and None not in values:
                found[name] = sum(values)
        return found


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
        self._began = record.clock() if record.clock is not None else 0
        self._ended = False

    def began(self, at: int) -> None:
        """It began earlier than it was written down."""
        self._began = at

    def used(
        self,
        *,
        model: str | None = None,
        tier: str | None = None,
        tokens: int | None = None,
        cost_usd: Any = None,
    ) -> None:
        """What a model call of this step used; several calls add up."""
        if tokens is not None and (
            not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0
        ):
            raise EvidenceError("RUN-006", f"tokens is {tokens!r}; it is a whole number from 0.")
        self.model = model if model is not None else self.model
        self.tier = tier if tier is not None else self.tier
        if tokens is not None:
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
        """A tool that this step called."""
        self.record.tool(name, arguments, step=self.name, valid=valid, error=error)

    def retry(self, times: int = 1) -> None:
        """The work of this step was tried again."""
        self.retries += times

    def score(self, name: str, raw: Any, *, n: int = 1) -> None:
        """A score of this step alone."""
        self.scores[name] = {"raw": json_of(raw, "a score"), "n": n}

    def end(
        self, status: str = SUCCESS, *, error: str | None = None, duration_ms: Any = None
    ) -> None:
        """The step is over. Only the first end counts."""
        if self._ended:
            return
        self._ended = True
        self.status = status
        self.error = error
        if duration_ms is not None:
            self.duration_ms = exact_number(duration_ms)
        elif self.record.clock is not None and status != SKIPPED:
            self.duration_ms = milliseconds(self.record.clock() - self._began)
        self.record.tell(
            "step_end",
            {
                "step": {**self.shown(), "index": self.index},
                "tool_calls": self.record.calls_of(self),
            },
        )

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._ended

    def shown(self) -> dict[str, Any]:
        """The step as evidence. One that nobody ended is `cancelled`, not a success."""
        found = {
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
        return {key: value for key, value in found.items() if value is not None}


def milliseconds(nanoseconds: int) -> Any:
    """A span of time to the microsecond, exact."""
    from decimal import Decimal

    return Decimal(nanoseconds // 1000) / 1000
