"""Extend a profile with a team's gates and criteria: what the scorers of a configuration fill is
required like everything else in the profile.

The result is a separate, complete profile. Its version ends in the digest of its content,
`rag@1+0123456789ab`, so that no result under it can be taken for one under the original profile.
Nothing is removed, and nothing that the profile measures is replaced.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from assay import exact
from assay.canon import digest
from assay.errors import FormulaError, ShelfError
from assay.formulas import check_params
from assay.scoring.gates import GATES
from assay.scoring.profile import GateRef, Profile, ProfileCriterion

ADDED = "added_criteria"
"""The key in a run's metadata for the criteria that were added when it was made."""


class Additions(NamedTuple):
    """Gates and criteria to add to a profile."""

    gates: tuple[str, ...] = ()
    """Gates whose verdicts come with the run."""
    criteria: tuple[ProfileCriterion, ...] = ()
    """Criteria whose scores come with the run."""


def extended(profile: Profile, additions: Additions) -> Profile:
    """The profile with the additions; the profile itself if it has all of them. Raises `ShelfError`
    for a name that the profile uses for something else.
    """
    gates, criteria = list(profile.gates), list(profile.criteria)
    known = {item.id: item for item in criteria}
    for name in additions.gates:
        gate = GATES.get(name)
        if gate is not None and gate.is_computed:
            raise _taken(f"'{name}' is computed from the evidence; a scorer can't fill that gate.")
        if name in known:
            raise _taken(f"'{name}' is a criterion of {profile.id}; a gate carries no weight.")
        if all(ref.id != name for ref in gates):
            gates.append(GateRef(id=name, verdict=gate is None))
    for item in additions.criteria:
        before = known.get(item.id)
        if item.id in GATES or any(ref.id == item.id for ref in gates):
            raise _taken(f"'{item.id}' is a gate; a gate carries no weight.")
        if before is not None and before.measure is not None:
            raise _taken(
                f"{profile.id} measures '{item.id}' from the evidence; a scorer can't replace that."
            )
        if before is not None and _is_same(before, item):
            continue
        if before is not None:
            raise _taken(
                f"{profile.id} has the criterion '{item.id}' with the weight {before.weight}: leave"
                " out the weight of the scorer."
            )
        try:
            check_params(item.formula, item.params)
        except FormulaError as error:
            raise _taken(f"'{item.id}': {error.message}") from None
        criteria.append(item)
        known[item.id] = item
    if gates == profile.gates and criteria == profile.criteria:
        return profile
    version = str(profile.version).partition("+")[0]  # without the digest of earlier additions
    return marked(
        structs.replace(profile, version=version, gates=gates, criteria=criteria, alias=None)
    )


def marked(profile: Profile) -> Profile:
    """The profile with the digest of its content in its version; the order of its gates and
    criteria doesn't count.
    """
    mark = digest(
        structs.replace(
            profile,
            gates=sorted(profile.gates, key=lambda ref: ref.id),
            criteria=sorted(profile.criteria, key=lambda item: item.id),
        )
    )
    version = f"{profile.version}+{mark.removeprefix('sha256:')[:12]}"
    return structs.replace(profile, version=version)


def _is_same(mine: ProfileCriterion, other: ProfileCriterion) -> bool:
    """Whether two criteria are equal; their weights compare as numbers."""
    return structs.replace(mine, weight=0) == structs.replace(other, weight=0) and (
        exact.ratio(mine.weight) == exact.ratio(other.weight)
    )


def _taken(message: str) -> ShelfError:
    return ShelfError(
        "SCO-015", message, fix="Give the scorer another `name:`, or take it out of the profile."
    )
