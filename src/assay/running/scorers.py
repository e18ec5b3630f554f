"""A team's own scorers: Python functions that see the finished run and return scores, the verdict
of a gate, or both.

A scorer that raises, hangs or returns nonsense leaves no score and an undetermined gate, with the
reason: missing evidence fails closed. A gate that a scorer declares is in every run, so that no run
passes because the gate was forgotten in it. A scorer gets a copy, so it can't change the evidence.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.canon import canonical
from assay.errors import AssayError, InputError
from assay.files.json_files import Document
from assay.records.evidence import Run
from assay.records.reading import read_run
from assay.registry import identifier_fault, near_miss
from assay.running.adapters.loading import load
from assay.running.runner import PostRun
from assay.running.scorer_results import MAX_REASON, Scorer, ScorerResults, results_of
from assay.scoring.profile import ProfileCriterion
from assay.tracing.failures import describe

MAX_HUNG = 3
"""Runs in which a scorer may hang before it is no longer called: each leaves a thread behind."""
_PLAIN = {name: name for name in Run.__struct_fields__ if name != "schema"}
PARAMETERS = {
    **_PLAIN,
    "retrieved": "retrieval",
    "calls": "tool_calls",
    "latency": "latency_ms",
    "cost": "cost_usd",
}
"""The parameters that a scorer may name besides `run`, and the field of the run that each gets."""


class PlacedScorer(NamedTuple):
    """A scorer, and the folder and file that declare it."""

    scorer: Scorer
    folder: Path
    where: str


def placed_scorers(
    scorers: Iterable[Scorer], gates: Iterable[Scorer], *, folder: Path, where: str
) -> list[PlacedScorer]:
    """The scorers of a configuration; each scorer under `gates` fills a gate."""
    required = [replace(scorer, gate=scorer.gate or True) for scorer in gates]
    return [PlacedScorer(scorer, folder, where) for scorer in (*scorers, *required)]


def check_scorers(scorers: Iterable[PlacedScorer]) -> None:
    """Refuse invalid names, invalid time limits, contradictory keys, and a gate that two scorers
    would fill.
    """
    seen: dict[str, str] = {}
    for scorer, _, where in scorers:
        for name in (scorer.id, *scorer.gates):
            if problem := identifier_fault(name):
                raise InputError(
                    "RUN-001", f"the scorer {scorer.target!r}: the name {problem}.", where=where
                )
        seconds = scorer.timeout_s
        if isinstance(seconds, bool) or not isinstance(seconds, int | float | Decimal):
            seconds = 0
        if not 0 < seconds <= 86_400:
            raise InputError(
                "RUN-001",
                f"the scorer {scorer.target!r}: timeout_s is {scorer.timeout_s!r}; it must be a"
                " number of seconds above 0.",
                where=where,
            )
        if scorer.weight is None and (scorer.formula is not None or scorer.role is not None):
            raise InputError(
                "RUN-001",
                f"the scorer {scorer.target!r} has a formula or a role, but no weight.",
                where=where,
                fix="Add `weight:`, or leave them to the profile that has this criterion.",
            )
        if scorer.weight is not None and scorer.id in scorer.gates:
            raise InputError(
                "RUN-001",
                f"the scorer {scorer.target!r} gives '{scorer.id}' a weight, but a gate has none.",
                where=where,
                fix=f"Give the gate a different name from the criterion: `gate: [{scorer.id}_ok]`.",
            )
        for gate in scorer.gates:
            if gate in seen:
                raise InputError(
                    "RUN-001",
                    f"two scorers fill the gate '{gate}': {seen[gate]!r} and {scorer.target!r}.",
                    where=where,
                    fix="Give one of them another `name:`.",
                )
            seen[gate] = scorer.target


def scorer_measures(
    scorers: Sequence[PlacedScorer], criteria: Iterable[ProfileCriterion]
) -> list[PostRun]:
    """The scorers, loaded and ready to be called after each run; `criteria` are those that they may
    fill. Raises `InputError` for one that cannot be called, before anything runs.
    """
    check_scorers(scorers)
    known = {criterion.id: criterion for criterion in criteria}
    return [_Measure(scorer, known).measure for scorer in scorers]


class _Measure:
    """One scorer, called after each run."""

    def __init__(self, placed: PlacedScorer, criteria: Mapping[str, ProfileCriterion]) -> None:
        self._spec = placed.scorer
        self._criteria = criteria
        function = load(placed.scorer.target, placed.folder, placed.where)
        if not callable(function):
            raise InputError(
                "RUN-004",
                f"the scorer {placed.scorer.target!r} cannot be called.",
                where=placed.where,
            )
        self._call = call_of(function, placed.scorer.target, placed.where)
        self._hung = 0
        spec = placed.scorer
        self._source = {"kind": "script", "name": spec.name or spec.target}
        if spec.version is not None:
            self._source["version"] = spec.version

    def measure(self, _sample: Any, run: dict[str, Any]) -> dict[str, Any]:
        """What the scorer adds to a run."""
        given_scores, given_gates = run.get("scores", {}), run.get("gates", {})
        contested: dict[str, Any] = {}
        try:
            results = self._results(run)
            if twice := sorted(results.scores.keys() & given_scores.keys()):
                # otherwise the order of the scorers would decide which of two verdicts counts
                contested = {name: {**given_scores[name], "raw": None} for name in twice}
                raise InputError(
                    "RUN-006", f"another scorer fills {twice[0]!r} too, so neither score counts"
                )
        except Exception as error:
            reason = error.message if isinstance(error, AssayError) else describe(error)
            reason = reason[:MAX_REASON]
            absent = f"the scorer {self._spec.target} gave no verdict: {reason}"
            gates = {name: {"passed": None, "reason": absent} for name in self._spec.gates}
            errors = run.get("metadata", {}).get("scorer_errors", {})
            return {
                "metadata": {"scorer_errors": {**errors, self._spec.target: reason}},
                **({"gates": with_verdicts(given_gates, gates)} if gates else {}),
                **({"scores": {**given_scores, **contested}} if contested else {}),
            }
        scores, gates = results
        return {
            **({"scores": {**given_scores, **scores}} if scores else {}),
            **({"gates": with_verdicts(given_gates, gates)} if gates else {}),
        }

    def _results(self, run: dict[str, Any]) -> ScorerResults:
        if run.get("outputs") is None:
            raise InputError("RUN-006", f"the run has no outputs (status {run['status']})")
        if self._hung >= MAX_HUNG:
            raise InputError("RUN-006", f"it is no longer called: it hung in {self._hung} runs")
        # a copy with plain floats: what a scorer changes does not change the evidence
        seen = read_run(Document(msgspec.json.decode(canonical(run)), "the run"))
        try:
            result = _within(float(self._spec.timeout_s), self._call, seen)
        except queue.Empty:
            self._hung += 1
            raise InputError(
                "RUN-006", f"it did not finish within {float(self._spec.timeout_s):g} s"
            ) from None
        return results_of(result, self._spec, self._source, self._criteria)


def with_verdicts(
    given: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The verdicts of a run with those of a scorer: of two on one gate, the worse."""
    order = {False: 0, None: 1, True: 2}
    verdicts = dict(given)
    for name, verdict in found.items():
        known = verdicts.get(name)
        if known is None or order[verdict["passed"]] < order[known["passed"]]:
            verdicts[name] = dict(verdict)
    return verdicts


def call_of(function: Callable[..., Any], target: str, where: str) -> Callable[[Run], Any]:
    """How to call a scorer with a run: by the names of its parameters. A function with one
    parameter of any name gets the whole run, one with three gets inputs, outputs and expected.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    unknown = [
        parameter.name
        for parameter in needed
        if parameter.name != "run" and parameter.name not in PARAMETERS
    ]
    if not unknown and all(parameter.kind is not parameter.POSITIONAL_ONLY for parameter in needed):
        names = [
            parameter.name
            for parameter in parameters
            if (parameter.name == "run" or parameter.name in PARAMETERS)
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        if names:
            return lambda run: function(
                **{name: run if name == "run" else getattr(run, PARAMETERS[name]) for name in names}
            )
    if len(needed) == 1 and needed[0] in positional:
        return function
    if len(needed) == 3 and all(parameter in positional for parameter in needed):
        return lambda run: function(run.inputs, run.outputs, run.expected)
    known = ["run", *PARAMETERS]
    if not needed:
        message, near = "takes no parameters", ""
    else:
        message, near = f"has a parameter {unknown[0]!r}", near_miss(unknown[0], known)
    raise InputError(
        "RUN-004",
        f"the scorer {target!r} {message}, and there is nothing to give it.{near}",
        where=where,
        fix="Take `run`, or any of inputs, outputs, expected, retrieved, claims, calls, steps.",
    )


def _within(seconds: float, call: Callable[[Run], Any], run: Run) -> Any:
    """The result of a call, made in a thread. Raises `queue.Empty` when the time is over, and
    leaves the thread behind.
    """
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

    def work() -> None:
        try:
            result = call(run)
            if inspect.isawaitable(result):
                result = asyncio.run(_awaited(result))
            answers.put((True, result))
        except BaseException as error:  # whatever a scorer raises is a reason, `SystemExit` too
            answers.put((False, error))

    threading.Thread(target=work, daemon=True, name="assay-scorer").start()
    is_result, value = answers.get(timeout=seconds)
    if is_result:
        return value
    raise value if isinstance(value, Exception) else RuntimeError(describe(value))


async def _awaited(result: Any) -> Any:
    return await result
