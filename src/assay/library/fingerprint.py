"""Behaviour fingerprints: each system's results on its golden inputs, as one digest.

A change of output without a new version number shows as a changed fingerprint and fails the build.
The `behaviour` module of each family computes the results.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import ShelfError
from assay.installing import install_hint
from assay.library.behaviour import measure_fingerprints, profile_fingerprints
from assay.library.families import FAMILIES
from assay.library.lints import clashes
from assay.library.lock import Recorded, RecordedSystem, lock_of
from assay.library.shelf import Shelf, changed
from assay.records.grade import GRADING_SYSTEM
from assay.records.scorecard import SCORING_SYSTEM
from assay.registry import home_value

_NEW_VERSION = "give it a new version"
_PUBLISH = "run `assay library publish`"


class System(NamedTuple):
    """One system of one family as it behaves now: its version, and the digest of its results on its
    golden inputs.
    """

    family: str
    name: str
    version: str
    fingerprint: str
    unchecked: str = ""
    """Why its behaviour was not checked: it is slow, or an extra that it needs is not installed."""

    @property
    def title(self) -> str:
        """`family name`."""
        return f"{self.family} {self.name}"


def current(*, slow: bool = True) -> list[System]:
    """Every system as it behaves now. If one can't run, because a file it needs has changed, its
    fingerprint is the reason. Without `slow`, the slow ones are not checked.
    """
    systems = []
    for family in map(FAMILIES.__getitem__, FAMILIES):
        for system in family.systems:
            unchecked = ""
            try:
                if system.slow and not slow:
                    unchecked = "takes a second; `assay versions --check` does it"
                    fingerprint = f"none: {unchecked}"
                elif system.needs and find_spec(system.needs) is None:
                    unchecked = f"needs {system.needs}: {install_hint(system.extra)}"
                    fingerprint = f"none: {unchecked}"
                else:
                    fingerprint = digest(home_value(system.behaviour)())
            except ShelfError as error:
                fingerprint = f"none: {error}"
            systems.append(System(family.id, system.name, system.version, fingerprint, unchecked))
    return systems


def check(now: list[System], recorded: Recorded | None = None) -> list[str]:
    """What changed without a new version: the behaviour of systems, and published files."""
    known = lock_of().systems if recorded is None else recorded
    changes = []
    for system in now:
        record = known.get(system.family, {}).get(system.name)
        if record is None:
            what = f"no fingerprint is recorded for {system.version}; {_PUBLISH}"
        elif record.version != system.version:
            what = (
                f"{system.version} is not recorded yet (the lock has {record.version}); {_PUBLISH}"
            )
        elif system.unchecked:
            continue  # listed by `unchecked`
        elif record.fingerprint != system.fingerprint:
            what = f"behaviour changed and the version is still {system.version}; {_NEW_VERSION}"
        else:
            continue
        changes.append(f"{system.title}: {what}")
    if recorded is None:
        held = lock_of().measures
        for name, taken in _fingerprints().items():
            if name not in held:
                changes.append(f"{_kind(name)}: no fingerprint is recorded; {_PUBLISH}")
            elif held[name] != taken:
                changes.append(
                    f"{_kind(name)}: behaviour changed and the version is still the same;"
                    f" {_NEW_VERSION}"
                )
    wrong = changed(Shelf())
    changes += [
        f"{key}: published and changed since; put the change into a new version" for key in wrong
    ]
    if not wrong:
        changes += [f"{fault.file}: {fault.message}" for fault in clashes(Shelf())]
    return changes


def unchecked(now: list[System]) -> list[str]:
    """The systems whose behaviour can't be checked here, and why."""
    return [f"{system.title}: {system.unchecked}" for system in now if system.unchecked]


def recordable(now: list[System]) -> Recorded:
    """The systems for the lock. Refuses one whose behaviour changed under a recorded version."""
    known = lock_of().systems
    systems: Recorded = {}
    for system in now:
        entry = RecordedSystem(system.version, system.fingerprint)
        record = known.get(system.family, {}).get(system.name, entry)
        if record.version == system.version and record != entry:
            raise _unpublishable(
                f"{system.title}: behaviour changed and the version is still {system.version}"
            )
        systems.setdefault(system.family, {})[system.name] = entry
    return systems


def recordable_measures() -> dict[str, str]:
    """The measures and profiles for the lock. Refuses one whose behaviour changed under a recorded
    version.
    """
    held, fingerprints = lock_of().measures, _fingerprints()
    for name, taken in fingerprints.items():
        if held.get(name, taken) != taken:
            raise _unpublishable(
                f"the {_kind(name)} behaves differently and its version is still the same"
            )
    return {**held, **fingerprints}


def _fingerprints() -> dict[str, str]:
    return {**measure_fingerprints(), **profile_fingerprints()}


def _kind(name: str) -> str:
    """A fingerprint's name for a message: `measure latency@1`, `profile rag@1`."""
    return f"profile {name.partition('/')[2]}" if "/" in name else f"measure {name}"


def _unpublishable(what: str) -> ShelfError:
    return ShelfError("LIB-003", f"{what}.", fix="Give it a new version first.")


def versions(now: list[System], wrong: list[str]) -> dict[str, Any]:
    """The document `assay versions` prints."""
    families: dict[str, dict[str, str]] = {}
    fingerprints: dict[str, dict[str, str]] = {}
    for system in now:
        families.setdefault(system.family, {})[system.name] = system.version
        fingerprints.setdefault(system.family, {})[system.name] = system.fingerprint
    return {
        "scoringSystem": SCORING_SYSTEM,
        "gradingSystem": GRADING_SYSTEM,
        "families": families,
        "fingerprints": fingerprints,
        "published": lock_of().published,
        "changed": wrong,
        "unchecked": unchecked(now),
    }
