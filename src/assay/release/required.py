"""The requirements on a candidate's sample: they come from the baseline, never from the candidate.

A gate, criterion, role or floor that the baseline has for a sample is required as the baseline has
it, and so is what its run declares. If the candidate lost one, it counts as failed and is named; if
the candidate lowered one, the baseline's value applies. Without pairs, both sides must meet what
similar samples have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from assay.errors import InputError, count, few
from assay.release.declarations import (
    UNSHOWN,
    Declarations,
    Schemas,
    lost_schemas,
    weakened,
    weakest,
)
from assay.release.sides import Lost, Row, Stratum


class Required(NamedTuple):
    """The gates and floors of samples that are scored alike, on either side: for samples without a
    pair.
    """

    gates: frozenset[str]
    floors: Mapping[str, int]


def requirements(*sides: Iterable[Row]) -> dict[Stratum, Required]:
    """For each way of scoring, every gate and the strictest floors."""
    required: dict[Stratum, Required] = {}
    for row in chain.from_iterable(sides):
        known = required.get(row.stratum, _NOTHING)
        floors = {
            **known.floors,
            **{name: max(floor, known.floors.get(name, 0)) for name, floor in row.floors.items()},
        }
        required[row.stratum] = Required(known.gates | row.gates, floors)
    return required


def closest(stratum: Stratum, others: Iterable[Stratum]) -> Stratum:
    """The way of scoring that is most like this one: this one itself where the others have it."""
    return min(
        others,
        key=lambda near: (
            near != stratum,
            near.profile != stratum.profile,
            -len(set(near.criteria) & set(stratum.criteria)),
            near,
        ),
    )


def schemas_of(rows: Iterable[Row]) -> Schemas:
    """The schemas of every tool in any of these samples."""
    known: dict[str, set[str]] = {}
    for row in rows:
        for name, schemas in () if row.declared is None else row.declared.offered.items():
            known.setdefault(name, set()).update(schemas)
    return {name: frozenset(schemas) for name, schemas in known.items()}


def held(row: Row, before: Row, schemas: Schemas = MappingProxyType({})) -> Row:
    """A candidate's sample, held to what the baseline has for the same sample. `schemas` are those
    of the baseline's tools, in all samples.
    """
    norms = dict(zip(row.stratum.criteria, row.lowest, strict=True))
    unroled = [
        name for name, role in before.roles.items() if name in norms and row.roles.get(name) != role
    ]
    lost = [Lost("gate", f"gate {name}") for name in before.gates - row.gates]
    lost += [
        Lost("declaration", what)
        for what in weakened(row.declared, before.declared, passed=row.passed, elsewhere=schemas)
    ]
    if row.threshold < before.threshold:
        lost.append(_threshold(before.threshold))
    lost += [
        Lost("criterion", f"criterion {name}")
        for name in before.stratum.criteria
        if name not in norms
    ]
    lost += [Lost("role", f"role {before.roles[name]} of {name}") for name in unroled]
    lost += [
        Lost("floor", f"floor of {name}")
        for name in before.floors
        if name in norms and name not in row.floors and name not in unroled
    ]
    return _strict(row, before.gates, before.floors)._replace(
        lost=tuple(sorted(lost)), roles={**row.roles, **before.roles}
    )


def held_alike(
    row: Row, required: Mapping[Stratum, Required], *, like: Stratum | None = None
) -> Row:
    """A sample of either side that cannot be paired, held to the gates and floors of samples that
    are scored like it, or as `like`; what it lacks counts as failed. Among pairs it lost the gate:
    otherwise a baseline that drops the sample would leave it to the rate that a policy allows.
    """
    needed = required[like or row.stratum]
    gone = (
        [Lost("gate", f"gate {name}") for name in needed.gates - row.gates]
        if like is None
        else [
            Lost("criterion", f"criterion {name}")
            for name in like.criteria
            if name not in row.stratum.criteria
        ]
    )
    found = _strict(row, needed.gates, needed.floors)
    return found._replace(lost=tuple(sorted(gone))) if gone else found


def _strict(row: Row, gates: frozenset[str], floors: Mapping[str, int]) -> Row:
    """A row under these gates and floors as well as its own."""
    norms = dict(zip(row.stratum.criteria, row.lowest, strict=True))
    absent = gates - row.gates
    under = {name for name, floor in floors.items() if name not in norms or norms[name] < floor}
    if not absent and under <= row.missed:
        return row
    return row._replace(
        passed=row.passed and not absent and not under,
        gates=row.gates | absent,
        failed=row.failed | absent,
        missed=row.missed | under,
        floors={
            **row.floors,
            **{name: max(floor, row.floors.get(name, 0)) for name, floor in floors.items()},
        },
    )


def lost_altogether(
    ours: Sequence[Row], theirs: Sequence[Row], like: Mapping[str, Stratum]
) -> tuple[Lost, ...]:
    """What no sample of the candidate has and some of the baseline do, where nothing can be paired;
    the schemas of tools that the baseline knows; and the pass threshold of the samples that each is
    `like`, where it is below all of theirs.
    """
    mine, before = (_everything(rows) for rows in (ours, theirs))
    before |= {Lost("declaration", what) for what in _lost_schemas(ours, theirs)}
    least: dict[Stratum, int] = {}
    for row in theirs:
        least[row.stratum] = min(row.threshold, least.get(row.stratum, row.threshold))
    limits = ((row.threshold, least[like[row.sample]]) for row in ours)
    lowered = {_threshold(limit) for threshold, limit in limits if threshold < limit}
    return tuple(sorted((before - mine) | lowered))


def _lost_schemas(ours: Sequence[Row], theirs: Sequence[Row]) -> list[str]:
    """As `lost_schemas` has it, where other samples may be about other tools, and where a tool that
    the baseline shows by another schema from sample to sample may have others here.
    """
    before, mine = _declared(theirs), _declared(ours)
    if before is None or not (before.offered or before.calls_checked):
        return []
    if mine is None or any(row.declared is None for row in ours):
        return [UNSHOWN]
    called = (
        name
        for name in mine.called & before.offered.keys()
        if len(before.offered[name]) == 1 or not mine.offered.get(name)
    )
    return lost_schemas(mine._replace(called=frozenset(called)), before)


def _declared(rows: Sequence[Row]) -> Declarations | None:
    """The weakest declarations of all runs; of their tools, all schemas."""
    stated = (row.declared._replace(offered={}) for row in rows if row.declared is not None)
    whole = reduce(weakest, stated, next(stated, None))
    return whole if whole is None else whole._replace(offered=schemas_of(rows))


def _threshold(units: int) -> Lost:
    return Lost("declaration", f"pass threshold of {units / 100:g}")


def _everything(rows: Iterable[Row]) -> set[Lost]:
    lost: set[Lost] = set()
    for row in rows:
        lost |= {Lost("gate", f"gate {name}") for name in row.gates}
        lost |= {Lost("criterion", f"criterion {name}") for name in row.stratum.criteria}
        lost |= {Lost("role", f"role {role} of {name}") for name, role in row.roles.items()}
        lost |= {Lost("floor", f"floor of {name}") for name in row.floors}
        if row.declared is not None:  # what a workflow declares; the rest goes with the sample
            lost |= {Lost("declaration", declaration) for declaration in row.declared.of_workflow()}
    return lost


def check_strata(pairs: Iterable[tuple[str, Stratum, Stratum]]) -> None:
    """Refuse samples that the two sides scored by different criteria, weights or formulas. A
    criterion that the candidate lost is left to the rules.
    """
    for sample, ours, theirs in pairs:
        if ours == theirs or set(theirs.criteria) - set(ours.criteria):
            continue
        added = sorted(set(ours.criteria) - set(theirs.criteria))
        if added:
            what = f"the candidate adds the criteria {', '.join(added)}"
        elif ours.profile != theirs.profile:
            what = (
                f"its profile is {ours.profile or 'none'} here and {theirs.profile or 'none'} in"
                " the baseline"
            )
        else:
            own, before = (
                dict(zip(side.criteria, zip(side.weights, side.formulas, strict=True), strict=True))
                for side in (ours, theirs)
            )
            other = [name for name in own if own[name] != before[name]]
            what = (
                f"another weight, formula or parameter than in the baseline for {', '.join(other)}"
            )
        raise InputError(
            "REL-002",
            f"the sample {sample!r} cannot be compared: {what}.",
            fix="Score both sides with the same criteria, weights and formulas.",
        )


def check_judges(ours: Iterable[Row], before: Iterable[Row]) -> None:
    """Refuse samples with a score that another judge gave than in the baseline's: another model,
    version, prompt or rubric, or none.
    """
    known: dict[str, set[str]] = {}
    for row in before:
        for name, judge in row.judges.items():
            known.setdefault(name, set()).add(judge)
    for row in ours:
        for name, judge in row.judges.items():
            if judge not in known.get(name, {judge}):
                theirs = " or ".join(sorted(judge or "no judge" for judge in known[name]))
                raise InputError(
                    "REL-002",
                    f"the sample {row.sample!r} cannot be compared: {name} was scored by"
                    f" {judge or 'no judge'} here, and by {theirs} in the baseline.",
                    fix="Judge both sides with the same model, prompt and rubric.",
                )


def lost_of(rows: Iterable[Row | None], *kinds: str) -> list[dict[str, str]]:
    """What the baseline has and the candidate lost, of these kinds."""
    return [
        {"sample": row.sample, "what": what}
        for row in rows
        if row is not None
        for kind, what in row.lost
        if kind in kinds
    ]


def lost_sentence(lost: Sequence[Mapping[str, str]]) -> str:
    """The result of `lost_of` in words."""
    return lost_words(
        list(dict.fromkeys(item["what"] for item in lost)),
        lost[0]["sample"],
        len({item["sample"] for item in lost}),
    )


def lost_words(named: Sequence[str], sample: str, samples: int) -> str:
    """What was lost, the first sample that lost it and the number of samples, in words."""
    more = f" and {count(samples - 1, 'more sample')}" if samples > 1 else ""
    return f"the candidate lost the {few(named, between=', the ')} in {sample}{more}"


_NOTHING = Required(frozenset(), {})
