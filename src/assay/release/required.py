"""What is required of a candidate's sample: what the baseline has for it, never what the candidate says of itself.

A gate that either side has in the samples scored alike is required of each of them. A criterion, role or floor that the baseline has is required as the
baseline has it. What the candidate lost counts as failed, and is named; what it lowered is held to the baseline's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assay.release.sides import Row, Side, Stratum


class Lost(NamedTuple):
    """Something the other side has and this sample lacks."""

    kind: str
    """`gate`, `criterion`, `role` or `floor`."""
    name: str


class Required(NamedTuple):
    """What samples that are scored alike must have."""

    gates: frozenset[str]
    floors: Mapping[str, int]
    roles: Mapping[str, str]


def requirements(candidate: Side, baseline: Side) -> dict[Stratum, Required]:
    """For each way of scoring: the gates of both sides; the strictest floors and the roles of the baseline."""
    found: dict[Stratum, Required] = {}
    for row in baseline.rows.values():
        known = found.get(row.stratum, _NOTHING)
        floors = {**known.floors, **{name: max(floor, known.floors.get(name, 0)) for name, floor in row.floors.items()}}
        found[row.stratum] = Required(known.gates | row.gates, floors, {**known.roles, **row.roles})
    for row in candidate.rows.values():
        known = found.get(row.stratum, _NOTHING)
        found[row.stratum] = known._replace(gates=known.gates | row.gates)
    return found


def closest(stratum: Stratum, others: Iterable[Stratum]) -> Stratum:
    """The way of scoring that is most like this one: this one itself where the others have it."""
    return min(others, key=lambda one: (one != stratum, one.profile != stratum.profile, -len(set(one.criteria) & set(stratum.criteria)), one))


def held(row: Row, before: Row | None, required: Mapping[Stratum, Required], *, stratum: Stratum | None = None) -> Row:
    """A candidate's sample, held to what is required of it; `before` is the same sample of the baseline, or `stratum` says how samples like it are scored."""
    stratum = before.stratum if before is not None else stratum or row.stratum
    demands = required[stratum]
    floors, roles = (demands.floors, demands.roles) if before is None else (before.floors, before.roles)
    norms = dict(zip(row.stratum.criteria, row.lowest, strict=True))
    gates = demands.gates - row.gates
    criteria = [name for name in stratum.criteria if name not in norms]
    lost = [Lost("gate", name) for name in gates]
    lost += [Lost("criterion", name) for name in criteria]
    unroled = [name for name, role in roles.items() if name in norms and row.roles.get(name) != role]
    lost += [Lost("role", f"{roles[name]} of {name}") for name in unroled]
    lost += [Lost("floor", f"of {name}") for name in floors if name in norms and name not in row.floors and name not in unroled]
    under = {name for name, floor in floors.items() if name not in norms or norms[name] < floor}
    if not lost and under <= row.missed:
        return row
    return row._replace(
        passed=row.passed and not gates and not under,
        gates=row.gates | gates,
        failed=row.failed | gates,
        missed=row.missed | under,
        floors={**row.floors, **{name: max(floor, row.floors.get(name, 0)) for name, floor in floors.items()}},
        roles={**row.roles, **roles},
        lost=tuple(sorted(lost)),
    )


def check_strata(pairs: Iterable[tuple[str, Stratum, Stratum]]) -> None:
    """Refuse samples that the two sides scored by other criteria, weights or formulas. A criterion that the candidate lost is for the rules to name."""
    for sample, ours, theirs in pairs:
        if ours == theirs or set(theirs.criteria) - set(ours.criteria):
            continue
        added = sorted(set(ours.criteria) - set(theirs.criteria))
        if added:
            what = f"the candidate adds the criteria {', '.join(added)}"
        elif ours.profile != theirs.profile:
            what = f"its profile is {ours.profile or 'none'} here and {theirs.profile or 'none'} in the baseline"
        else:
            own, before = (dict(zip(side.criteria, zip(side.weights, side.formulas, strict=True), strict=True)) for side in (ours, theirs))
            other = [name for name in own if own[name] != before[name]]
            what = f"another weight, formula or parameter than in the baseline for {', '.join(other)}"
        raise InputError("REL-002", f"the sample {sample!r} cannot be compared: {what}.", fix="Score both sides with the same criteria, weights and formulas.")


def lost_of(rows: Iterable[Row | None], *kinds: str) -> list[dict[str, str]]:
    """What the baseline has and the candidate lost, of these kinds."""
    return [{"sample": row.sample, "what": f"{kind} {name}"} for row in rows if row is not None for kind, name in row.lost if kind in kinds]


def lost_said(lost: Sequence[Mapping[str, str]]) -> str:
    """That in words."""
    named = dict.fromkeys(one["what"] for one in lost)
    samples = dict.fromkeys(one["sample"] for one in lost)
    more = f" and {len(samples) - 1} more samples" if len(samples) > 1 else ""
    return f"the candidate lost the {', the '.join(list(named)[:5])}{f' and {len(named) - 5} more' if len(named) > 5 else ''} in {next(iter(samples))}{more}"


_NOTHING = Required(frozenset(), {}, {})
