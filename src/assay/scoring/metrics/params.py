"""The values that the parameters of measures accept. A name means the same in every measure, so
that a profile is checked before anything is graded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args

from assay import exact
from assay.records.evidence import Severity
from assay.registry import near_miss
from assay.scoring.checks import MATCHES, STEPS, step_name
from assay.scoring.metrics.calls import Mode, Over
from assay.scoring.metrics.measure import Measure


class Accepted(NamedTuple):
    """The values that a parameter accepts, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]
    names: tuple[str, ...] = ()
    """The names that it accepts, if it accepts only those."""


def _one_of(names: Iterable[str]) -> Accepted:
    known = tuple(names)
    return Accepted(
        f"one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known, known
    )


def _is_amount(value: Any, most: int | None = None) -> bool:
    if not exact.is_number(value):
        return False
    amount = exact.ratio(value)
    return amount.num >= 0 and (most is None or amount.num <= most * amount.den)


def _are_weights(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) <= set(get_args(Severity))
        and all(_is_amount(weight, 1) for weight in value.values())
    )


_COUNT = Accepted("a whole number from 1 on", lambda value: type(value) is int and value >= 1)
_AMOUNT = Accepted("a number from 0 on", _is_amount)

ACCEPTED: dict[str, Accepted] = {
    "absolute": _AMOUNT,
    "cost_share": Accepted("a number from 0 to 1", lambda value: _is_amount(value, 1)),
    "cost_usd_bad": _AMOUNT,
    "cost_usd_good": _AMOUNT,
    "closed": Accepted("true or false", lambda value: isinstance(value, bool)),
    "k": _COUNT,
    "latency_ms_bad": _AMOUNT,
    "latency_ms_good": _AMOUNT,
    "match": _one_of(MATCHES),
    "mode": _one_of(get_args(Mode)),
    "output": Accepted(
        "the name of an output, or null for all that are expected",
        lambda value: value is None or (isinstance(value, str) and bool(value)),
    ),
    "over": _one_of(get_args(Over)),
    "relative": _AMOUNT,
    "relevant": Accepted(
        "a name in `expected`", lambda value: isinstance(value, str) and bool(value)
    ),
    "steps": Accepted(
        f"a list of {', '.join(STEPS)}",
        lambda value: isinstance(value, list | tuple) and None not in map(step_name, value),
    ),
    "threshold": Accepted("a number from 0 to 1", lambda value: _is_amount(value, 1)),
    "weights": Accepted(
        f"numbers from 0 to 1 for some of {', '.join(get_args(Severity))}", _are_weights
    ),
    "words": _COUNT,
}


class ParamFault(NamedTuple):
    """What is wrong with a parameter; `name` is None if a required parameter is missing."""

    name: str | None
    message: str


def param_faults(measure: Measure, given: Mapping[str, Any]) -> Iterator[ParamFault]:
    """The faults of the parameters that a criterion passes to a measure."""
    for name, value in given.items():
        if name not in measure.params:
            yield ParamFault(
                name,
                f"the measure '{measure.id}' has no parameter"
                f" '{name}'.{near_miss(name, measure.params)}",
            )
            continue
        accepted = _accepted(name, measure.params[name])
        if not accepted.holds(value):
            near = near_miss(value, accepted.names) if isinstance(value, str) else ""
            yield ParamFault(name, f"is {value!r}; it must be {accepted.words}.{near}")
    for name, default in measure.params.items():
        if name not in given and not _accepted(name, default).holds(default):
            yield ParamFault(
                None,
                f"the measure '{measure.id}' needs the parameter '{name}',"
                f" {_accepted(name, default).words}.",
            )


def _accepted(name: str, default: Any) -> Accepted:
    """The values that a parameter accepts. An unknown name, of a plugin's measure, accepts values
    of the same type as its default.
    """
    known = ACCEPTED.get(name)
    if known is not None or default is None:
        return known or Accepted("anything", lambda _value: True)
    if exact.is_number(default):
        return Accepted("a number", exact.is_number)
    kind = (list, tuple) if isinstance(default, list | tuple) else type(default)
    return Accepted(f"of the kind of {default!r}", lambda value: isinstance(value, kind))
