"""Behaviour fingerprints: each system's results on its golden inputs, as one digest.

A change of output without a new version number shows as a changed fingerprint and fails the build;
so does a changed table or constant (`tables`). The `behaviour` module of each family computes the
results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from assay.canon import digest
from assay.errors import ShelfError
from assay.files.atomic import atomic_write
from assay.installing import install_hint
from assay.library import tables
from assay.library.behaviour import measure_fingerprints, profile_fingerprints
from assay.library.families import FAMILIES
from assay.library.lints import clashes
from assay.library.lock import BUILTIN, Recorded, RecordedSystem, lock_of
from assay.library.shelf import Shelf, changed
from assay.records.grade import GRADING_SYSTEM
from assay.records.scorecard import SCORING_SYSTEM
from assay.registry import home_value

TABLES = os.path.join(BUILTIN, "tables.lock")
_NEW_VERSION = "give it a new version"
_PUBLISH = "run `assay library publish`"


class System(NamedTuple):
    """One system of one family as it behaves now: its version, the digest of its results on its
    golden inputs, and every table and constant of its rules.
    """

    family: str
    name: str
    version: str
    fingerprint: str
    tables: Mapping[str, str] = {}
    unchecked: str = ""
    """Why its behaviour can't be checked here: an extra that it needs is not installed."""

    @property
    def title(self) -> str:
        """`family name`."""
        return f"{self.family} {self.name}"


def current() -> list[System]:
    """Every system as it behaves now. If one can't run, because a file it needs has changed, its
    fingerprint is the reason.
    """
    systems = []
    for family in map(FAMILIES.__getitem__, FAMILIES):
        for system in family.systems:
            unchecked = ""
            try:
                if system.needs and find_spec(system.needs) is None:
                    unchecked = f"needs {system.needs}: {install_hint(system.extra)}"
                    fingerprint = f"none: {unchecked}"
                else:
                    fingerprint = digest(home_value(system.behaviour)())
            except ShelfError as error:
                fingerprint = f"none: {error}"
            held = tables.of_system(family.id, system.name)
            systems.append(
                System(family.id, system.name, system.version, fingerprint, held, unchecked)
            )
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
        changes += [text for system in now for text in moved_tables(system)]
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


def moved_tables(system: System) -> list[str]:
    """What changed in the tables of a system since they were recorded."""
    held = recorded_tables().get(system.title, {})
    changes = []
    for key in sorted(held.keys() | system.tables.keys()):
        is_code = key.endswith(tables.CODE)
        if held.get(key) == system.tables.get(key) or (
            is_code and sys.version_info[:2] != tables.RECORDED_WITH
        ):
            continue
        if key not in system.tables:
            what = f"{key} is recorded and gone; {_PUBLISH}"
        elif key not in held:
            what = f"{key} is not recorded yet; {_PUBLISH}"
        elif is_code:
            what = (
                f"the code of {key.removesuffix(tables.CODE)} changed; if a verdict can move,"
                f" {system.version} must become another, otherwise {_PUBLISH}"
            )
        else:
            what = f"{key} changed and the version is still {system.version}; {_NEW_VERSION}"
        changes.append(f"{system.title}: {what}")
    return changes


@lru_cache(maxsize=1)
def recorded_tables() -> dict[str, dict[str, str]]:
    """The recorded tables of each system, by `family name`. They have their own file because only
    this check reads them.
    """
    if not os.path.exists(TABLES):
        return {}
    with open(TABLES, "rb") as stream:
        return msgspec.json.decode(stream.read(), type=dict[str, dict[str, str]])


def record_tables(now: list[System]) -> None:
    """Record the tables of each system. Refuses a table that changed under a recorded version; new
    and removed ones are allowed.
    """
    held = lock_of().systems
    for system in now:
        recorded = held.get(system.family, {}).get(system.name)
        if recorded is not None and recorded.version == system.version:
            for text in moved_tables(system):
                if _NEW_VERSION in text:
                    raise _unpublishable(text)
    with atomic_write(TABLES) as stream:
        document = {system.title: dict(sorted(system.tables.items())) for system in now}
        stream.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    recorded_tables.cache_clear()


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
    """A fingerprint's name for a message: `measure latency@1`, `profile rag@2`."""
    return f"profile {name.partition('/')[2]}" if "/" in name else f"measure {name}"


def _unpublishable(what: str) -> ShelfError:
    return ShelfError("LIB-003", f"{what}.", fix="Give it a new version first.")


def versions(now: list[System], wrong: list[str]) -> dict[str, Any]:
    """The document `assay versions` prints."""
    families: dict[str, dict[str, str]] = {}
    fingerprints: dict[str, dict[str, str]] = {}
    for system in now:
        families.setdefault(system.family, {})[system.name] = system.version
        fingerprints.setdefault(system.family, {})[system.name] = digest(
            [system.fingerprint, dict(system.tables)]
        )
    return {
        "scoringSystem": SCORING_SYSTEM,
        "gradingSystem": GRADING_SYSTEM,
        "families": families,
        "fingerprints": fingerprints,
        "published": lock_of().published,
        "changed": wrong,
        "unchecked": unchecked(now),
    }
