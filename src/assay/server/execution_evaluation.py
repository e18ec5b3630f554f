"""The evaluation of an execution: all of its runs, once each of them is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from assay.archive.evaluating import run_groups
from assay.archive.evaluation_builder import EvaluationBuilder
from assay.server.state import Services
from assay.store.drafts import Draft
from assay.store.executions import Placed
from assay.store.jobs import Job
from assay.store.listing import grades_of


def execution_evaluation(services: Services, job: Job, placed: Sequence[Placed]) -> Draft | None:
    """The evaluation of the runs of an execution; None if one of them left no evidence, because
    totals without it would be too good.
    """
    digests = [one.digest for one in placed if one.digest is not None]
    if not digests or len(digests) < len(placed):
        return None
    ledger, asked = services.ledger, job.request()
    listed = grades_of(ledger.database, job.project, digests)
    newest = {name: found[-1].digest for name, found in listed.items() if found}
    items = ledger.get_many({*digests, *newest.values()}, project=job.project)
    runs = [items[name] for name in digests if name in items and items[name].body is not None]
    if len(runs) < len(digests):
        return None
    (group, *others) = run_groups(item.tree() for item in runs)
    if others:
        return None
    started, finished = group.span(datetime.now(UTC))
    builder = EvaluationBuilder(
        name=asked["name"],
        workflow=group.workflow,
        dataset=group.dataset,
        settings={
            "execution": job.id,
            "workflow": asked["workflow"]["digest"],
            "dataset": asked["dataset"]["digest"],
            "policy": services.settings.policy,
            **{name: asked[name] for name in ("repeat", "timeout_s", "retries")},
        },
        started=started,
    )
    for item in runs:
        grade = items.get(newest.get(item.digest, ""))
        builder.add_stored(item.body or b"", None if grade is None else grade.body)
    return builder.drafted(finished, author=job.author)[1]
