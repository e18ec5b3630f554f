"""Reading the two sides of a decision from files, or a stored baseline by its name."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

from assay.canon import digest
from assay.deciding import side_of
from assay.errors import InputError
from assay.files import stream_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from assay.cli.keeping import Looked
    from assay.pipeline import Grader
    from assay.release.baseline import Stored
    from assay.release.policy import ReleaseRules
    from assay.release.sides import Side


def read_side(paths: Sequence[str], grader: Grader, *, name: str, kept: Looked | None = None) -> Side:
    """One side of a comparison, from its files. A line that cannot be read stops everything: what it held is not known. `kept` is told what it rests on."""
    documents, where = chain.from_iterable(map(stream_documents, paths)), ", ".join(paths)
    return side_of(documents, grader, name=name, where=where) if kept is None else kept.read(documents, grader, name=name, where=where)


def read_baseline(paths: Sequence[str], grader: Grader, *, folder: str, rules: ReleaseRules, now: datetime | None, kept: Looked | None = None) -> Side:
    """The baseline: files, or the name of a stored one, which may be too old. With `kept` one that is not in the folder may be in the ledger."""
    if len(paths) == 1 and not os.path.exists(paths[0]) and not paths[0].endswith((".json", ".jsonl", ".ndjson")):
        from assay.release.baseline import check_age

        return read_named(paths[0], grader, folder=folder, kept=kept, check=lambda stored: check_age(stored, rules, now=now))
    return read_side(paths, grader, name="baseline", kept=kept)


def read_named(name: str, grader: Grader, *, folder: str, kept: Looked | None = None, check: Callable[[Stored], None] | None = None) -> Side:
    """The side that a stored baseline is, by its name; `check` may refuse it before it is read."""
    from assay.cli.named import find_named

    stored, in_ledger = find_named(folder, name, None if kept is None else kept.store)
    if stored.kind != "runs":
        raise InputError("REL-002", f"the baseline {stored.name} is a graded exam, and has no runs to pair.", where=stored.path, fix="Use `assay exam gate`.")
    if check is not None:
        check(stored)
    label = f"baseline {stored.name}"
    if kept is not None and in_ledger is not None:
        return kept.read_baseline(in_ledger, grader, name=label)
    return read_side([stored.path], grader, name=label, kept=kept)


def content_digest(paths: Sequence[str]) -> str:
    """What a set of files holds."""
    from assay.release.attestation import file_digest

    return digest(sorted(file_digest(path) for path in paths))
