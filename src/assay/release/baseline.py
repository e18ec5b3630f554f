"""Stored baselines: the evidence of one side, with its results, its date and the digests that
protect it.

A baseline is never overwritten. `NAME@1.json` and its evidence `NAME@1.jsonl` stay as they are;
storing the name again makes `NAME@2`, and `NAME.json` is a copy of the newest record. Both digests
are checked whenever one is used, and a baseline that was changed is refused.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.canon import digest, time_of, time_text
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.atomic import atomic_create, atomic_write
from assay.files.inputs import file_digest
from assay.files.json_files import read_json
from assay.registry import is_path, near_miss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from assay.records.evidence import Run
    from assay.release.policy import ReleaseRules

BASELINE_SCHEMA = "assay.baseline/1"
_json = msgspec.json.Encoder(decimal_format="number").encode
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_STORED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99}?)(?:@([1-9][0-9]{0,8}))?")
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


class StoredBaseline(NamedTuple):
    """A stored baseline: its record, and the file with its evidence."""

    name: str
    """With its version."""
    path: str
    kind: str
    """`runs`, or `exam` for the result of an exam."""
    made_at: datetime
    record: dict[str, Any]


def check_name(name: str) -> None:
    """Refuse a name that is not a valid file name on every system, or that could be taken for a
    path or for `latest`, which is an evaluation.

    >>> check_name("production-2.1")
    >>> check_name("../secrets")
    Traceback (most recent call last):
    assay.errors.UsageError: A baseline can't be named '../secrets'. Use up to 100 letters, digits, '.', '_' and '-', but no extension such as '.json', and not 'latest'.
    """  # noqa: E501
    if (
        not _NAME.fullmatch(name)
        or _RESERVED.fullmatch(name)
        or name.endswith(".")
        or is_path(name)
        or name.casefold() == "latest"
    ):
        raise UsageError(
            "CLI-001",
            f"A baseline can't be named {name!r}.",
            fix=(
                "Use up to 100 letters, digits, '.', '_' and '-', but no extension such as '.json',"
                " and not 'latest'."
            ),
        )


def store(
    folder: str,
    name: str,
    *,
    kind: str,
    facts: Mapping[str, Any],
    write: Callable[[Any], None],
    now: datetime,
) -> StoredBaseline:
    """Store a baseline as the next version of its name. `write` puts the evidence into the stream
    it is given.
    """
    check_name(name)
    version = max([number for other, number in _versions(folder) if other == name], default=0) + 1
    while True:
        label = f"{name}@{version}"
        evidence = f"{label}.{'jsonl' if kind == 'runs' else 'exam.json'}"
        try:
            with atomic_create(os.path.join(folder, evidence)) as stream:
                write(stream)
            break
        except FileExistsError:
            # another process stored this name at the same time, or stopped before it wrote the
            # record
            version += 1
    fields: dict[str, Any] = {
        "schema": BASELINE_SCHEMA,
        "name": name,
        "version": version,
        "kind": kind,
        "made_at": time_text(now),
        "evidence": evidence,
        "evidence_digest": file_digest(os.path.join(folder, evidence)),
        **facts,
    }
    record = {**fields, "digest": digest(fields)}
    with atomic_create(os.path.join(folder, f"{label}.json")) as stream:
        stream.write(_json(record) + b"\n")
    if version == max(versions(folder, name)):  # else a newer one was stored meanwhile
        with atomic_write(os.path.join(folder, f"{name}.json")) as stream:
            stream.write(_json(record) + b"\n")
    return find(folder, label)


def find(folder: str, name: str) -> StoredBaseline:
    """A stored baseline by its name, or by `NAME@N` for an older version. Raises
    `NotEnoughEvidence` for a missing one and `InputError` for a changed one.
    """
    matched = _STORED.fullmatch(name)
    path = os.path.join(folder, f"{name}.json")
    if matched is None or not os.path.isfile(path):
        if name in names(folder):  # what a ledger has of that name must not replace it
            raise changed(path, "the record of its newest version is missing")
        raise no_baseline(
            name,
            names(folder),
            where=folder,
            fix="`assay baseline set NAME FILE...` stores one, `assay baseline list` shows them.",
        )
    record = _record(path)
    if record["name"] != matched[1] or (
        matched[2] is not None and record["version"] != int(matched[2])
    ):
        raise changed(path, f"it is the record of {record['name']}@{record['version']}")
    newest = max(versions(folder, matched[1]), default=0)
    if matched[2] is None and record["version"] < newest:
        raise changed(path, f"it is the record of {name}@{record['version']}, not {name}@{newest}")
    evidence = os.path.join(folder, record["evidence"])
    if not os.path.isfile(evidence):
        raise changed(path, f"its evidence {record['evidence']} is missing")
    if file_digest(evidence) != record["evidence_digest"]:
        raise changed(evidence, "the evidence is not what was stored")
    return StoredBaseline(
        f"{record['name']}@{record['version']}",
        evidence,
        record["kind"],
        moment_of(record["made_at"], path),
        record,
    )


def no_baseline(
    name: str, known: Sequence[str], *, where: str, fix: str, neither_in: str = ""
) -> NotEnoughEvidence:
    """The error for a name without a stored baseline: the near miss, else some of the existing
    names.

    >>> no_baseline("prodution", ["production"], where="here", fix="Store one.").message
    "there is no baseline 'prodution'. Did you mean 'production'?"
    """
    hint = near_miss(name, known) or (
        f" Stored: {', '.join(known[:5])}." if known else " None is stored."
    )
    if os.path.lexists(name):
        fix = f"To read the file of that name, write ./{name}. {fix}"
    return NotEnoughEvidence(
        "REL-005",
        f"there is no baseline '{name}'{neither_in and f', neither in {neither_in}'}.{hint}",
        where=where,
        fix=fix,
    )


_SHAPE: dict[str, type] = {
    "name": str,
    "version": int,
    "kind": str,
    "made_at": str,
    "evidence": str,
    "evidence_digest": str,
    "digest": str,
}


def _record(path: str) -> dict[str, Any]:
    tree = read_json(path).tree
    if not isinstance(tree, dict) or tree.get("schema") != BASELINE_SCHEMA:
        raise InputError("REL-005", f"is not a baseline ({BASELINE_SCHEMA}).", where=path)
    wrong = [name for name, kind in _SHAPE.items() if not isinstance(tree.get(name), kind)]
    fingerprint = tree.get("fingerprint", {"fields": {}})
    if not isinstance(fingerprint, dict) or not isinstance(fingerprint.get("fields"), dict):
        wrong.append("fingerprint")
    if wrong:
        raise InputError("REL-005", f"the baseline lacks {', '.join(wrong)}.", where=path)
    if digest({key: value for key, value in tree.items() if key != "digest"}) != tree["digest"]:
        raise changed(path, "the record does not match its digest")
    # the digest is not a signature: anyone who writes a record can compute one, so the name of the
    # evidence file must be the one that `store` gives it
    if (
        tree["kind"] not in ("runs", "exam")
        or tree["evidence"]
        != f"{tree['name']}@{tree['version']}.{'jsonl' if tree['kind'] == 'runs' else 'exam.json'}"
    ):
        raise changed(path, "it names the evidence of another baseline")
    return tree


def changed(path: str, why: str) -> InputError:
    """The refusal of a baseline that is not what was stored."""
    return InputError(
        "REL-005",
        f"the baseline has changed: {why}.",
        where=path,
        fix="Use an older version, or store it again from its evidence.",
    )


def refuse_exam(kind: str, name: str, *, where: str = "") -> None:
    """Refuse a graded exam where a baseline of runs is needed."""
    if kind != "runs":
        raise InputError(
            "REL-002",
            f"the baseline {name} is a graded exam, and has no runs to pair.",
            where=where,
            fix="Use `assay exam gate`.",
        )


def moment_of(text: str, path: str) -> datetime:
    """When a baseline was made."""
    moment = time_of(text)
    if moment is None:
        raise InputError(
            "REL-005", f"the baseline was made at {text!r}, which is not a time.", where=path
        )
    return moment


class EvidenceAge:
    """When the oldest run of a baseline was made, if the runs say so. Storing old runs again
    doesn't make them newer.
    """

    def __init__(self) -> None:
        self._oldest: datetime | None = None

    def add(self, run: Run | None) -> None:
        """Count a run; None is a scorecard or a grade, which state no time."""
        for text in () if run is None else (run.started_at, run.finished_at):
            moment = time_of(text, UTC)
            if moment is not None:
                self._oldest = min(moment, self._oldest or moment)

    def dated(self, now: datetime) -> datetime:
        """The date of a baseline that is stored now."""
        return min(now, self._oldest or now)


def check_age(stored: StoredBaseline, rules: ReleaseRules, *, now: datetime | None) -> None:
    """Refuse a baseline that is older than the policy allows, or from the future."""
    moment = now if now is not None else datetime.now(UTC)
    days = (moment - stored.made_at).total_seconds() / 86400
    if days < 0:
        raise NotEnoughEvidence(
            "REL-005",
            f"the baseline {stored.name} is from the future: {stored.record['made_at']}.",
            where=stored.path,
        )
    if days > float(rules.max_age_days):
        raise NotEnoughEvidence(
            "REL-005",
            f"the baseline {stored.name} is {days:.1f} days old; {rules.policy} allows"
            f" {float(rules.max_age_days):g}.",
            where=stored.path,
            fix="Evaluate the version in production again, and store that.",
        )


def age_warning(
    stored: StoredBaseline, rules: ReleaseRules, *, now: datetime | None, then: str
) -> str | None:
    """A warning of a baseline that is older than the policy allows, and what follows `then`."""
    try:
        check_age(stored, rules, now=now)
    except NotEnoughEvidence as error:
        return f"{error.message} {then} {error.fix}"
    return None


def names(folder: str) -> list[str]:
    """The stored names, in order; a name means its newest version."""
    return sorted({name for name, _ in _versions(folder)})


def versions(folder: str, name: str) -> list[int]:
    """The versions of one name, oldest first."""
    return sorted(version for other, version in _versions(folder) if other == name)


def _versions(folder: str) -> list[tuple[str, int]]:
    try:
        entries = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError("FIL-001", f"cannot be read: {error.strerror}.", where=folder) from None
    versions = []
    for entry in entries:
        matched = (
            _STORED.fullmatch(entry.removesuffix(".json"))
            if entry.endswith(".json") and not entry.endswith(".exam.json")
            else None
        )
        if matched is not None and matched[2] is not None:
            versions.append((matched[1], int(matched[2])))
    return versions
