"""A graded exam as a baseline of `assay baseline set`."""

from __future__ import annotations

from datetime import datetime

from assay.cli.parsing import Options
from assay.errors import InputError
from assay.families.exams.held_results import check_baseline
from assay.families.exams.stored import exam_baseline_drafts
from assay.families.exams.verbs import outcome_of
from assay.files.json_files import read_json
from assay.release.baseline import StoredBaseline, store
from assay.services.storing import Store


def set_exam(options: Options, now: datetime, ledger: Store | None) -> StoredBaseline:
    """Store a graded exam under its name. Every number of it is recomputed first."""
    document = read_json(options.files[0])
    outcome = outcome_of(options, document, rubric=options.rubric)
    check_baseline(outcome)
    data = document.source
    if data is None:
        raise InputError("FIL-001", "cannot be read again.", where=options.files[0])
    tree = document.tree
    fields = {
        name: [str(tree[name])]
        for name in ("exam", "rubric", "set", "policy", "scoringSystem", "gradingSystem")
        if tree.get(name) is not None
    }
    facts = {
        "runs": tree["n"],
        "samples": tree["n"],
        "fingerprint": {"digest": tree.get("digests", {}).get("exam"), "fields": fields},
        "digests": tree.get("digests", {}),
        "summary": {"n": tree["n"], "score": tree["score"]},
        "scoringSystem": outcome.result.scoring_system,
        "gradingSystem": outcome.result.grading_system,
    }
    stored = store(
        options.dir,
        options.name,
        kind="exam",
        facts=facts,
        write=lambda stream: stream.write(data),
        now=now,
    )
    if ledger is not None:
        ledger.put(exam_baseline_drafts(stored.record, tree))
    return stored
