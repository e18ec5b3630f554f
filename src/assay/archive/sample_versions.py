"""One sample in the other evaluations of its workflow: what each answered, and its grade."""

from __future__ import annotations

from typing import NamedTuple

from assay.archive.compared import newest_evaluations
from assay.archive.grades import own_run
from assay.records.evaluation import Evaluation
from assay.store.drafts import key
from assay.store.ledger import Ledger
from assay.store.reading import evaluated_samples, evidence_of
from assay.views.samples import SampleEvidence, SampleRun, sample_evidence, sample_grade

MOST = 6
"""How many versions are shown."""
LOOKED_AT = 20
"""How many evaluations are searched, newest first."""
RUNS = 50_000
"""How many runs these evaluations may have together."""


class SampleVersion(NamedTuple):
    """The sample in another evaluation; of several repeats, the worst."""

    evaluation: Evaluation
    """Without its list of runs."""
    seq: int
    """The position of the evaluation in the ledger: a higher one is newer."""
    run: SampleRun
    evidence: SampleEvidence | None
    """None if the run was forgotten."""
    repeats: int


def other_versions(
    ledger: Ledger, *, project: str, workflow: str, dataset: str, sample: str, but: str = ""
) -> list[SampleVersion]:
    """The newest evaluations of a workflow on a dataset that have the sample, without the one of
    the digest `but`. At most LOOKED_AT evaluations are searched.
    """
    evaluations = _evaluations(ledger, project, workflow, dataset, but)
    places = evaluated_samples(ledger.database, project, list(evaluations), sample)
    versions = []
    for seq in sorted(places, reverse=True)[:MOST]:
        runs = _runs(ledger, project, places[seq])
        if runs:
            worst, evidence = min(runs, key=lambda pair: (pair[0].passed, pair[0].score))
            versions.append(SampleVersion(evaluations[seq], seq, worst, evidence, len(runs)))
    return versions


def _evaluations(
    ledger: Ledger, project: str, workflow: str, dataset: str, but: str
) -> dict[int, Evaluation]:
    evaluations: dict[int, Evaluation] = {}
    runs = 0
    for stored in newest_evaluations(
        ledger, project, LOOKED_AT, workflow=key(workflow), dataset=key(dataset)
    ):
        if stored.digest == but:
            continue
        runs += stored.evaluation.totals.n
        if runs > RUNS:
            break
        evaluations[stored.seq] = stored.evaluation
    return evaluations


def _runs(
    ledger: Ledger, project: str, digests: list[str]
) -> list[tuple[SampleRun, SampleEvidence | None]]:
    """The runs behind grades, or the runs themselves where they have no grade."""
    items = ledger.get_many(digests, project=project)
    behind = {
        digest: own_run(ledger, items[digest], runs, project=project)
        for digest, runs in evidence_of(ledger.database, project, digests).items()
        if digest in items
    }
    runs = ledger.get_many(set(behind.values()), project=project)
    sample_runs = []
    for digest in digests:
        item = items.get(digest)
        run = runs.get(behind.get(digest, "")) or (item if item and item.kind == "run" else None)
        if item is None or run is None:
            continue
        graded = item.kind == "grade" and item.body is not None
        grade = sample_grade(item.checked()) if graded else None
        evidence = None if run.body is None else sample_evidence(run.checked())
        name = (evidence.run_id if evidence else None) or (grade.run_id if grade else None)
        sample_runs.append((SampleRun(name or run.digest, run.digest, grade), evidence))
    return sample_runs
