"""Read a parsed tree into a record, or report all its faults at once.

msgspec decodes. Only if it refuses is the tree validated against the published JSON Schema, which
finds every fault and not just the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from assay import exact
from assay.errors import EvidenceError, Fault, raise_faults
from assay.files.json_files import Document, show_path
from assay.records.evidence import Run
from assay.records.schemas import schema_faults
from assay.records.scorecard import Scorecard
from assay.records.typed import convert
from assay.registry import identifier_fault

R = TypeVar("R")

MAX_FAULTS = 1000
"""How many faults of its shape are listed for one document: each takes a search for a near miss."""
_OPERATIONS = ("latency_ms", "cost_usd")


def read_run(document: Document) -> Run:
    """A run, with its shape, names, numbers and counts checked."""
    run = read_record(document, Run, "SCO-011")
    _refuse(document, list(_run_faults(run)))
    return run


def read_scorecard(document: Document) -> Scorecard:
    """A scorecard, with its shape and names checked; `grading` checks its scores and floors."""
    scorecard = read_record(document, Scorecard, "GRD-101")
    faults = [
        Fault(f"the gate name {problem}.", code="SCO-013", path="hard_gates")
        for problem in map(_identifier_faults, scorecard.hard_gates)
        if problem is not None
    ]
    faults += [
        Fault(f"the name {problem}.", code="SCO-013", path=f"criteria[{index}].name")
        for index, problem in enumerate(
            _identifier_faults(criterion.name) for criterion in scorecard.criteria
        )
        if problem is not None
    ]
    faults += _number_faults("", scorecard, _OPERATIONS)
    _refuse(document, faults)
    return scorecard


def read_record(document: Document, kind: type[R], code: str) -> R:
    """The tree as a record of that kind. Raises an error that lists every fault."""
    try:
        return convert(document.tree, kind)
    except msgspec.ValidationError as error:
        faults = list(_shape_faults(document, kind, code))
        if not faults:
            message, _, path = str(error).partition(" - at `$")
            if message.startswith("Expected `int") and message.endswith(", got `decimal`"):
                # JSON Schema accepts 1.0 as a whole number
                message = "must be a whole number without a decimal point: 1, not 1.0"
            path = path.strip("`.")
            lines = {show_path(place): line for place, line in (document.lines or {}).items()}
            faults = [Fault(f"{message}.", code=code, path=path, line=lines.get(path))]
        _refuse(document, faults)
        raise


def _refuse(document: Document, faults: list[Fault]) -> None:
    for fault in faults:
        fault.file = document.file
        fault.line = document.line if fault.line is None else fault.line
    raise_faults(faults, where=document.file, kind=EvidenceError)


def _shape_faults(document: Document, kind: type[Any], code: str) -> Iterable[Fault]:
    for number, found in enumerate(schema_faults(kind, document.tree), 1):
        if number > MAX_FAULTS:
            yield document.fault(f"has more faults than the {MAX_FAULTS:,} listed.", code=code)
            return
        fault = document.fault(found.message, found.path, code=code)
        fault.unknown_key, fault.hinted = found.unknown_key, found.hinted
        yield fault


def _run_faults(run: Run) -> Iterable[Fault]:
    yield from _number_faults("", run, _OPERATIONS)
    for index, step in enumerate(run.steps or ()):
        if step.duration_ms is not None or step.cost_usd is not None:
            yield from _number_faults(f"steps[{index}].", step, ("duration_ms", "cost_usd"))
    for what, names in (("gates", run.gates), ("scores", run.scores)):
        for name in names:
            problem = _identifier_faults(name)
            if problem is not None:
                yield Fault(f"the name {problem}.", code="SCO-013", path=what)
    for name, least in run.checks.items():
        try:
            exact.ratio(least)
        except ValueError as error:
            yield Fault(f"must be a number; {error}.", code="SCO-003", path=f"checks.{name}")
    if run.tests is not None:
        for name in ("fail_to_pass", "pass_to_pass"):
            tally = getattr(run.tests, name)
            if tally is not None and tally.passed > tally.total:
                yield Fault(
                    f"{tally.passed} passed of {tally.total}; more passed than there are.",
                    code="SCO-007",
                    path=f"tests.{name}",
                )


# names repeat over a stream; the limit keeps a hostile one from filling memory
_identifier_faults = lru_cache(maxsize=4096)(identifier_fault)


def _number_faults(prefix: str, record: Any, names: Iterable[str]) -> Iterator[Fault]:
    for name in names:
        value = getattr(record, name)
        if value is None or (type(value) is int and 0 <= value <= _USUAL):
            continue
        try:
            if exact.ratio(value).num < 0:
                yield Fault(f"is {value}, below zero.", code="SCO-001", path=prefix + name)
        except ValueError as error:
            yield Fault(f"must be a number; {error}.", code="SCO-003", path=prefix + name)


_USUAL = 10**15


KINDS: dict[str, Callable[[Document], Any]] = {
    "assay.run/1": read_run,
    "assay.scorecard/1": read_scorecard,
}
"""The reader for each value of a `schema` key."""
