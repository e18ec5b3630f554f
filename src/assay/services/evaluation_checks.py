"""Recomputes stored evaluations: their totals from the grades they name (`verify_ledger`), or
everything from the evidence (`replay_evaluation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import structs

from assay.canon import digest
from assay.errors import AssayError, NotEnoughEvidence
from assay.family import parts
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.digests import run_digest
from assay.records.evaluation import EvaluatedRun, Evaluation
from assay.records.reading import read_run
from assay.release.summary import EvaluationTally
from assay.services.evaluations import read_evaluation, stored_items
from assay.services.replay import Remaker, Replayed, compared
from assay.services.storing import identified, trace
from assay.store.drafts import Item
from assay.store.ledger import Ledger
from assay.store.verify import SHOWN, Flaw, VerifyReport, verify

_AT_ONCE = 500
_FIX = "Don't rely on it; evaluate again."


def verify_ledger(
    ledger: Ledger,
    progress: Callable[[int], None] | None = None,
    *,
    expected: Mapping[str, tuple[int, str]] | None = None,
) -> VerifyReport:
    """Check every record of a ledger, as `verify` does, and then recompute its evaluations and
    check its labels.
    """
    report = verify(ledger, progress, expected=expected)
    if not report.clean:
        return report  # the records that its evaluations name may have been changed
    flaws = [
        Flaw(project, item.seq, item.digest, what, _FIX)
        for project in report.heads
        for item in ledger.each("evaluation", project=project, at_once=1)
        for what in _faults(ledger, item, project)
    ]
    flaws += [
        Flaw(project, item.seq, item.digest, what, "Don't rely on it; label again.")
        for project in report.heads
        for _, faults in parts("checks")
        for item, what in faults(ledger, project)
    ]
    return report._replace(flaws=tuple(flaws[:SHOWN]), flaw_count=len(flaws))


def _faults(ledger: Ledger, item: Item, project: str) -> Iterator[str]:
    """Each false statement in an evaluation."""
    try:
        evaluation = read_evaluation(item).evaluation
    except AssayError as error:
        yield f"the content is not an evaluation: {error.message}"
        return
    if identified(evaluation).id != evaluation.id:
        yield "the id of the evaluation is not that of its content."
    if digest(evaluation.settings) != evaluation.configuration:
        yield "the digest of the configuration is not that of the settings."
    if len({run.run_id for run in evaluation.runs}) < len(evaluation.runs):
        yield "the evaluation counts a run twice."
    tally = EvaluationTally()
    whole = True
    for run, evidence, grade in stored_items(ledger, evaluation, project=project):
        if evidence is None or (grade is None and run.grade is not None):
            yield f"the evaluation names the run {run.run_id!r}, but it or its grade is missing."
            return
        if evidence.body is None or (grade is not None and grade.body is None):
            whole = False  # forgotten, with a tombstone: its part can't be computed again
            continue
        try:
            fault = _mismatch(evaluation, run, evidence, grade)
            tally.add_ungraded() if grade is None else tally.add(grade.tree())
        except (AssayError, KeyError, TypeError, ValueError, AttributeError) as error:
            fault = f"can't be read: {error}"
        if fault:
            yield f"the run {run.run_id!r} of the evaluation {fault}."
            return
    if whole and tally.totals() != evaluation.totals:
        yield "the totals of the evaluation don't match the grades it names."


def _mismatch(
    evaluation: Evaluation, run: EvaluatedRun, evidence: Item, grade: Item | None
) -> str | None:
    """Why a run, its record and its grade do not belong together; None if they do."""
    if evidence.kind != "run" or (grade is not None and grade.kind != "grade"):
        return "is not named by a run and a grade"
    record = read_run(Document(evidence.tree(), evidence.digest))
    if record.run_id != run.run_id:
        return f"is stored as {record.run_id!r}"
    for what in ("workflow", "dataset"):
        named, own = getattr(evaluation, what), getattr(record, what)
        if (own.id, own.version) != (named.id, named.version):
            return f"belongs to the {what} {own.id}@{own.version}"
    if grade is not None and grade.tree()["digests"].get("run") != run_digest(record):
        return "has the grade of another run"
    return None


def replay_evaluation(ledger: Ledger, item: Item, shelf: Shelf, *, project: str) -> Replayed:
    """Recompute a stored evaluation (every grade from its evidence with the recorded versions, then
    the totals) and compare the bytes.
    """
    evaluation = read_evaluation(item).evaluation
    remaker, tally = Remaker(shelf), EvaluationTally()
    runs: list[EvaluatedRun] = []
    for start in range(0, len(evaluation.runs), _AT_ONCE):
        part = evaluation.runs[start : start + _AT_ONCE]
        named = [run.grade for run in part if run.grade is not None]
        stored = ledger.get_many(named, project=project)
        if len(stored) < len(set(named)):
            raise NotEnoughEvidence(
                "STO-008", "a grade of this evaluation is not in the ledger.", where=item.digest
            )
        traced = {
            traced.grade.digest: traced
            for traced in trace(ledger, list(stored.values()), project=project)
        }
        for run in part:
            if run.grade is None:
                tally.add_ungraded()
                runs.append(run)
                continue
            payload = remaker.remake(traced[run.grade]).payload()
            tally.add(payload)
            runs.append(structs.replace(run, grade=digest(payload)))
    again = identified(structs.replace(evaluation, totals=tally.totals(), runs=runs))
    tree: dict[str, Any] = item.tree()
    return compared(item, tree, again)
