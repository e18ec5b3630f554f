"""What the adapters of agent frameworks have in common: a run followed from the outside as it
happens, and told to a recorder.

A framework says that a unit of work begins and ends, that a model answers, that a tool ran. What is
a step, an agent, a retry, a handoff and a valid call is decided by the rules of `importers.rules`,
which spans that are read later are held to as well, so that the same workflow gives the same
evidence in every framework and on every way (W-083). Beside those rules: an agent is also a step
that the workflow file lists as one, and a call that a framework carried out without any schema
being known is valid, because it accepted the arguments.
"""

from __future__ import annotations

import threading
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.tracing.rules import (
    BROKEN,
    NOT_RUN,
    UNKNOWN,
    Tries,
    agents_before,
    keeps,
    made_at,
    not_carried_out,
    passages,
)
from assay.tracing.spans import Call as Asked

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from assay.running.recorder import OpenStep, Recorder

__all__ = ["BROKEN", "NOT_RUN", "UNKNOWN", "Answer", "Asked", "Ran", "Trail"]


class Answer(NamedTuple):
    """What a model answered, and what it used; None where nobody said."""

    model: str | None
    tokens: int | None
    cost_usd: Any = None
    calls: Sequence[Asked] = ()
    offered: Mapping[str, Any] | None = None
    """The tools that the model was shown, with the JSON Schema of each; None where nobody knows."""


class Ran(NamedTuple):
    """A tool that ran, or that the framework refused to run because of its arguments."""

    name: str
    arguments: Any
    call_id: str | None
    error: str | None = None
    refused: bool = False
    began: int | None = None
    """The moment at which it began; None where nobody saw it begin."""


class _Followed:
    """A step with what is known of it beside the evidence."""

    __slots__ = ("costs", "failed", "sources", "step", "tokens", "tries")

    def __init__(self, step: OpenStep, sources: Sequence[_Followed]) -> None:
        self.step = step
        self.sources = sources
        self.failed: tuple[str, str] | None = None
        self.tries = Tries()
        self.tokens: list[int | None] = []
        self.costs: list[Any] = []


class _Waiting(NamedTuple):
    place: tuple[int, int]
    call: Asked
    step: str | None
    offered: Mapping[str, Any] | None


class Trail:
    """One run of a workflow, followed from the outside. It may be used from several threads; after
    `close` it hears nothing more.

    >>> from assay.running.recorder import Recorder
    >>> record = Recorder(clock=None)
    >>> trail = Trail(record, agents=None)
    >>> trail.begins("1", "planner")
    >>> trail.speaks("1", None)
    >>> trail.answers("1", Answer("m-1", 12))
    >>> trail.ends("1")
    >>> trail.begins("2", "writer", sources=["1"])
    >>> trail.speaks("2", None)
    >>> trail.fails("2", "lost")
    >>> trail.begins("2", "writer")
    >>> trail.ends("2")
    >>> trail.close(interrupted=False)
    >>> record.evidence()["handoffs"], [(step.name, step.retries) for step in record.steps]
    ([{'from': 'planner', 'to': 'writer'}], [('planner', 0), ('writer', 1)])
    """

    def __init__(self, record: Recorder, *, agents: frozenset[str] | None) -> None:
        self._record = record
        self._agents = agents
        self._lock = threading.RLock()
        self._followed: dict[str, _Followed] = {}
        self._waiting: list[_Waiting] = []
        self._found: list[Sequence[tuple[str | None, str | None]]] = []
        self._closed = False
        self._moments = count()
        record.watched("tool_calls")

    def moment(self) -> int:
        """Now, as a number that grows with every call of this: the order of what happens in a
        run.
        """
        with self._lock:
            return next(self._moments)

    # --- steps

    def begins(
        self, key: str, name: str, *, sources: Iterable[str] = (), agent: str | None = None
    ) -> None:
        """A step begins, because of the steps in `sources`. One that failed before and begins again
        is the same step, tried again.
        """
        with self._lock:
            if self._closed:
                return
            known = self._followed.get(key)
            if known is not None:
                known.step.retry()
                known.failed = None
                known.tries.forget()
                return
            named = agent if self._agents is None else name if name in self._agents else None
            step = self._record.begin(name, agent=named)
            self._followed[key] = _Followed(
                step, [self._followed[one] for one in sources if one in self._followed]
            )
            if named is not None:
                self._hand_on(self._followed[key])

    def ends(self, key: str) -> None:
        """A step ends well."""
        with self._lock:
            known = self._open(key)
            if known is not None:
                known.step.end()

    def fails(self, key: str, error: str, *, cancelled: bool = False) -> None:
        """A step failed. It stays open, for it may begin again."""
        with self._lock:
            known = self._open(key)
            if known is not None:
                known.failed = ("cancelled" if cancelled else "error", error)

    def speaks(self, key: str, agent: str | None) -> None:
        """A step asks a model, so it is an agent's: `agent`, or the step's own name. The first to
        speak gives the name.
        """
        with self._lock:
            known = self._open(key)
            if known is not None and known.step.agent is None and self._agents is None:
                known.step.agent = agent or known.step.name
                self._hand_on(known)

    def _hand_on(self, known: _Followed) -> None:
        """Write down from which agents the work came."""
        to = known.step.agent
        for source in agents_before(
            known.sources, lambda one: one.step.agent, lambda one: one.sources
        ):
            if to is not None and source != to:
                self._record.handoff(source, to)

    def _open(self, key: str) -> _Followed | None:
        known = None if self._closed else self._followed.get(key)
        return None if known is None or known.step.over else known

    # --- models

    def tries(self, key: str, unit: Hashable) -> None:
        """A model or an agent is asked inside a step. If the same unit broke before, this is a
        retry.
        """
        with self._lock:
            known = self._open(key)
            if known is not None and known.tries.begins(unit):
                known.step.retry()

    def breaks(self, key: str, unit: Hashable) -> None:
        """A model or an agent failed inside a step."""
        with self._lock:
            known = self._open(key)
            if known is not None:
                known.tries.fails(unit)

    def answers(self, key: str, answer: Answer) -> None:
        """A model answered. One answer of unknown use makes the step's use unknown, not smaller."""
        with self._lock:
            known = self._open(key)
            if known is None:
                return
            known.tokens.append(answer.tokens)
            known.costs.append(answer.cost_usd)
            step = known.step
            step.model = answer.model or step.model
            step.tokens = (
                None
                if None in known.tokens
                else sum(one for one in known.tokens if one is not None)
            )
            step.cost_usd = None
            if None not in known.costs:
                for cost in known.costs:
                    step.used(cost_usd=cost)
            places = made_at(self.moment(), [None] * len(answer.calls))
            self._waiting += [
                _Waiting(place, call, step.name, answer.offered)
                for place, call in zip(places, answer.calls, strict=True)
            ]

    # --- tools

    def runs(self, key: str | None, ran: Ran) -> None:
        """A tool ran. Its arguments are those the model wrote, where a model asked for it: a
        framework may have filled some in.
        """
        with self._lock:
            if self._closed:
                return
            asked = self._take(ran)
            known = self._followed.get(key) if key is not None else None
            arguments = (
                ran.arguments
                if asked is None or asked.call.arguments is None
                else asked.call.arguments
            )
            schema = None if asked is None or asked.offered is None else asked.offered.get(ran.name)
            valid = False if ran.refused else keeps(schema, arguments, otherwise=True)
            self._record.tool(
                ran.name,
                {} if arguments is None and not ran.refused else arguments,
                step=known.step.name if known is not None else None,
                valid=valid,
                error=BROKEN if ran.refused else ran.error,
                place=asked.place
                if asked is not None
                else (self.moment() if ran.began is None else ran.began, 0),
            )

    def refuses(self, key: str, call_id: str) -> None:
        """The framework refused the arguments of a call, and told only the model so."""
        with self._lock:
            waiting = next((one for one in self._waiting if one.call.call_id == call_id), None)
            if waiting is not None:
                self.runs(
                    key, Ran(waiting.call.name, waiting.call.arguments, call_id, refused=True)
                )

    @property
    def waits(self) -> bool:
        """Whether a model asked for a call that nobody has carried out yet."""
        return bool(self._waiting)

    def _take(self, ran: Ran) -> _Waiting | None:
        """The request that a tool's run answers: by its id; without one, the first of that name."""
        for index, one in enumerate(self._waiting):
            if one.call.name == ran.name and (
                ran.call_id is None or one.call.call_id in (ran.call_id, None)
            ):
                return self._waiting.pop(index)
        return None

    def _left(self) -> None:
        """Calls that were asked for and never made: a tool that does not exist, arguments that were
        refused, an end before it.
        """
        for one in self._waiting:
            valid, error = not_carried_out(one.call, one.offered)
            self._record.tool(
                one.call.name,
                one.call.arguments,
                step=one.step,
                valid=valid,
                error=error,
                place=one.place,
            )
        self._waiting.clear()

    # --- passages and the end

    def finds(self, found: Sequence[tuple[str | None, str | None]]) -> None:
        """A search found these: the id and the text of each, the best first."""
        with self._lock:
            if not self._closed:
                self._found.append(found)

    def close(self, *, interrupted: bool) -> None:
        """The run is over. A step that failed for good ends so; where the run was interrupted, open
        steps are left to whoever interrupted it.
        """
        with self._lock:
            if self._closed:
                return
            self._left()
            for known in self._followed.values():
                if known.failed is not None and not (
                    interrupted and known.failed[0] == "cancelled"
                ):
                    known.step.end(known.failed[0], error=known.failed[1])
            for one in passages(self._found).found:
                self._record.retrieved(one.id, one.text, rank=one.rank)
            self._closed = True
