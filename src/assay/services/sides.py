"""One side of a comparison from its documents: runs, scorecards or grades, graded and collected;
and the texts of its samples.

A side can be read again, because what one side did may have to be scored under what the other was
asked: see `Rereadable`. This module opens no file and stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from assay.canon import plain
from assay.errors import Fault, InputError, NotEnoughEvidence
from assay.files.json_files import Document, Unread
from assay.records.digests import scorecard_digest
from assay.records.evidence import IMPORTED, Run, title_of
from assay.records.grade import is_graded
from assay.records.samples import (
    SideName,
    TextCollector,
    gate_reason,
    names_of,
    sample_evidence,
    sample_grade,
)
from assay.release.comparability import content_of, contract_of_evidence
from assay.release.policy import ReleaseRules
from assay.release.sides import Evidence, SevereKinds, Side, SideBuilder
from assay.release.summary import Summary
from assay.services.given_grades import grades_of
from assay.services.grading import Graded, Grader

MAX_FAULTS = 20
Documents = Callable[[], Iterable[Document | Unread]]
"""The documents of a side, from the start at each call."""
Seen = Callable[[Document, Graded], None]
_encode = msgspec.json.Encoder(order="sorted", decimal_format="string").encode


class Rereadable(NamedTuple):
    """A side, and its documents once more."""

    side: Side
    documents: Documents


def severe_of(rules: ReleaseRules) -> SevereKinds:
    """What a policy calls severe."""
    return SevereKinds(rules.severe_gates, rules.severe_roles)


def side_of(
    documents: Iterable[Document | Unread],
    grader: Grader,
    *,
    name: str,
    severe: SevereKinds | None = None,
    where: str = "",
    seen: Seen | None = None,
) -> Side:
    """One side of a comparison. A document that can't be read is an error, since its content is
    unknown. `seen` receives each grade as it is made.
    """
    builder, summary = SideBuilder(name, severe), Summary()
    faults: list[Fault] = []
    count = 0
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        try:
            for graded in grades_of(document, grader):
                builder.add(graded.grade, evidence_of(graded))
                summary.add(graded.grade)
                count += 1
                if seen is not None:
                    seen(document, graded)
        except InputError as error:
            if getattr(error, "of_shelf", False) or error.code.startswith(("LIB-", "REL-")):
                raise
            faults += error.faults or [
                Fault(error.message, code=error.code, file=document.file, line=document.line)
            ]
        if len(faults) >= MAX_FAULTS:
            break
    if faults:
        raise InputError(
            faults[0].code, faults[0].message, where=faults[0].file, faults=faults[:MAX_FAULTS]
        )
    if not count:
        raise NotEnoughEvidence("REL-003", f"the {name} contains no runs.", where=where)
    return builder.side(summary.block())


def evidence_of(graded: Graded) -> Evidence:
    """What a side keeps of a run besides its grade."""
    run, card, name = graded.run, graded.grade.scorecard, graded.run_digest
    if run is not None and name is not None:
        return Evidence(
            name,
            _digest(_unnamed(run)),
            run.attempt,
            run.attempts,
            contract_of_evidence(run).digest(),
            content_of(run),
            IMPORTED in run.metadata,
            run.unchecked,
            title_of(run.metadata),
        )
    # a grade doesn't say what its run was asked
    asked = None if graded.evidence is None else contract_of_evidence(card).digest()
    return Evidence(
        scorecard_digest(card),
        _digest(structs.replace(card, run_id="", attempt=None, attempts=None)),
        card.attempt,
        card.attempts,
        asked,
    )


def _digest(record: Any) -> bytes:
    return blake2b(_encode(record), digest_size=16).digest()


def _unnamed(run: Run) -> Run:
    """A run without what differs between runs of the same behaviour: its id, number, version, times
    and metadata. An imported run keeps its metadata, which is what its tool reported, without the
    line; it loses the workflow's id, which may come from the file's name.
    """
    workflow, metadata = structs.replace(run.workflow, version=""), dict[str, Any]()
    if isinstance(imported := run.metadata.get(IMPORTED), dict):
        reported = {key: value for key, value in imported.items() if key != "line"}
        workflow = structs.replace(workflow, id="")
        metadata = {**run.metadata, IMPORTED: reported}
    return structs.replace(
        run,
        run_id="",
        attempt=None,
        attempts=None,
        workflow=workflow,
        started_at=None,
        finished_at=None,
        metadata=metadata,
    )


def read_texts(
    documents: Documents,
    grader: Grader,
    side: SideName,
    names: Collection[str],
    into: TextCollector,
) -> Iterator[tuple[Graded, dict[str, Any]]]:
    """Collect the texts of these samples of a side, and yield each of their grades with its
    payload.
    """
    if not names:
        return
    for document in documents():
        if not isinstance(document, Document) or not _may_be_of(document.tree, names):
            continue
        for graded in grades_of(document, grader):
            if graded.grade.sample in names and graded.run is not None:
                payload = plain(graded.payload())
                grade = sample_grade({"weighted_score": 0, **payload})
                into.add(
                    side,
                    graded.grade.sample,
                    grade,
                    sample_evidence(graded.run),
                    reason=gate_reason(grade, payload, graded.run),
                )
                yield graded, payload


def _may_be_of(tree: Any, names: Collection[str]) -> bool:
    """Whether a document may be a run of one of these samples, by its keys alone."""
    if not isinstance(tree, dict) or is_graded(tree):
        return False  # grades have no texts
    return any(name in names for name in names_of(tree))
