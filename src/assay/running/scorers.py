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
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from assay.canon import canonical
from assay.errors import AssayError, FormulaError, InputError
from assay.files.json_files import Document, parse_json
from assay.formulas import evidence_norm
from assay.records.evidence import ClosedRecord, OptionalNumber, Run, Verdict
from assay.records.reading import read_run
from assay.registry import identifier_fault, near_miss
from assay.running.adapters.loading import load
from assay.running.runner import PostRun
from assay.scoring.profile import ProfileCriterion
from assay.tracing.failures import describe

TIMEOUT_S = 60
MAX_REASON = 500
_SCORE_KEYS = {"raw", "n"}
_VERDICT_KEYS = {"passed", "reason", "score"}


class Scorer(ClosedRecord, frozen=True, kw_only=True):
    """A function of your own that sees the run once it is over, and returns scores, a gate's
    verdict, or both.
    """

    target: str
    """`module:function`."""
    name: str | None = None
    """The criterion or gate that it fills; without one, the name of the function."""
    version: str | None = None
    """The scorer's version, kept with its scores."""
    gate: bool | list[str] = False
    """`true`: it gives the verdict of the gate `name`. A list names several gates. Each is required
    of every run.
    """
    weight: OptionalNumber = None
    """Adds the criterion `name` with this weight to the profile."""
    formula: str | None = None
    """How the raw score of that criterion is read; without one, `zero_one`."""
    role: str | None = None
    """The role of the criterion, such as `correctness`; the policy has floors by role."""
    timeout_s: Annotated[Any, Meta(extra_json_schema={"type": "number", "exclusiveMinimum": 0})] = (
        TIMEOUT_S
    )
    """Seconds for one run."""

    @property
    def id(self) -> str:
        """The name of what it fills."""
        return self.name or self.target.rpartition(":")[2].rpartition(".")[2]

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates whose verdicts it gives."""
        if isinstance(self.gate, bool):
            return (self.id,) if self.gate else ()
        return tuple(self.gate)


class ScorerResults(NamedTuple):
    """The scores and verdicts that a scorer returned, by name."""

    scores: dict[str, dict[str, Any]]
    gates: dict[str, dict[str, Any]]


def results_of(
    result: Any,
    spec: Scorer,
    source: Mapping[str, Any],
    criteria: Mapping[str, ProfileCriterion] = MappingProxyType({}),
) -> ScorerResults:
    """Scores and verdicts by name. Raises `InputError` for anything else, for a declared gate
    without a verdict, and for a score off the scale of its criterion.
    """
    results, result = ScorerResults({}, {}), _plain(result)
    is_one = not isinstance(result, Mapping) or _is_verdict(result)
    if is_one or ("raw" in result and result.keys() <= _SCORE_KEYS):
        is_gate = isinstance(result, bool | tuple) or _is_verdict(result)
        name = spec.gates[0] if is_gate and len(spec.gates) == 1 else spec.id
        _add(results, name, result, spec)
    else:
        for name, value in result.items():
            _add(results, str(name), value, spec)
    if absent := [name for name in spec.gates if name not in results.gates]:
        raise InputError(
            "RUN-006", f"it returned no verdict for the gate '{absent[0]}': return True or False"
        )
    if spec.weight is not None and spec.id not in results.scores:
        raise InputError("RUN-006", f"it returned no score for '{spec.id}'")
    if not results.scores and not results.gates:
        raise InputError("RUN-006", "it returned no score and no verdict")
    scores = {name: {**score, "source": dict(source)} for name, score in results.scores.items()}
    tree: dict[str, Any] = parse_json(canonical({"scores": scores, "gates": results.gates}))
    scales = {name: (criterion.formula, criterion.params) for name, criterion in criteria.items()}
    if spec.weight is not None:
        scales[spec.id] = (spec.formula or "zero_one", {})
    for name, score in tree["scores"].items():
        if name in scales and (score["raw"] is not None or name == spec.id):
            try:
                evidence_norm(score["raw"], *scales[name])
            except FormulaError as error:
                raise InputError("RUN-006", f"it returned no score: {error.message}") from None
    return ScorerResults(tree["scores"], tree["gates"])


def _plain(value: Any) -> Any:
    """The value with Python's own numbers for the scalars of NumPy and tensors."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if type(value) is tuple:
        return tuple(map(_plain, value))
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def _is_verdict(value: Any) -> bool:
    return isinstance(value, Verdict) or (isinstance(value, Mapping) and "passed" in value)


def _add(results: ScorerResults, name: str, value: Any, spec: Scorer) -> None:
    """Sort one returned value into scores or gates."""
    if problem := identifier_fault(name):
        raise InputError("RUN-006", f"the name {problem}")
    if isinstance(value, tuple):
        if len(value) != 2 or not isinstance(value[1], str):
            raise InputError("RUN-006", f"{_shown(value)} is not a verdict with its reason")
        value = {"passed": value[0], "reason": value[1]}
    if isinstance(value, Verdict):
        value = {"passed": value.passed, "reason": value.reason}
    if _is_verdict(value):
        # `passed` and `total` are the raw score of a ratio, unless the name is a declared gate
        if name not in spec.gates and value.keys() == {"passed", "total"}:
            results.scores[name] = {"raw": dict(value)}
            return
        _add_verdict(results, name, value, spec)
    elif isinstance(value, bool) and name in spec.gates:
        _add_verdict(results, name, {"passed": value}, spec)
    elif value is None or isinstance(value, str | bytes):
        raise InputError("RUN-006", f"{_shown(value)} is neither a score nor a verdict")
    elif name in spec.gates and spec.weight is None:
        raise InputError(
            "RUN-006",
            f"{_shown(value)} is not a verdict for the gate '{name}': return True or False",
        )
    elif isinstance(value, Mapping) and "raw" in value:
        results.scores[name] = dict(value)
    else:
        # on another scale than 0..1, True means nothing
        is_share = spec.formula in (None, "zero_one", "binary")
        results.scores[name] = {
            "raw": int(value) if isinstance(value, bool) and is_share else value
        }


def _add_verdict(results: ScorerResults, name: str, value: Mapping[str, Any], spec: Scorer) -> None:
    if name not in spec.gates:
        raise InputError(
            "RUN-006",
            f"it returned a verdict for '{name}', which it does not declare as a gate: add"
            f" `gate: {'true' if name == spec.id else f'[{name}]'}` to the scorer",
        )
    if unknown := sorted(map(str, value.keys() - _VERDICT_KEYS)):
        near = near_miss(unknown[0], sorted(_VERDICT_KEYS))
        raise InputError("RUN-006", f"a verdict has no key {unknown[0]!r}.{near}")
    passed, reason = value["passed"], value.get("reason") or ""
    if passed is not None and not isinstance(passed, bool):
        raise InputError("RUN-006", f"`passed` is {_shown(passed)}; it must be True or False")
    results.gates[name] = {"passed": passed, "reason": str(reason)[:MAX_REASON]}
    if "score" in value:
        score = value["score"]
        if isinstance(score, bool) or not isinstance(score, int | float | Decimal | Mapping):
            raise InputError("RUN-006", f"the score is {_shown(score)}; it must be a number")
        results.scores[spec.id] = {"raw": score}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


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
