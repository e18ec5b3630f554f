"""What a scorer declares, and what it returns: scores, verdicts, or both, by name."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta

from assay.canon import canonical
from assay.errors import FormulaError, InputError
from assay.files.json_files import parse_json
from assay.formulas import evidence_norm
from assay.records.evidence import ClosedRecord, OptionalNumber, Verdict
from assay.registry import identifier_fault, near_miss

if TYPE_CHECKING:
    from assay.scoring.profile import ProfileCriterion

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
