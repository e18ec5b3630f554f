"""Judged runs of two versions, kept as evaluations, for tests of labels."""

from __future__ import annotations

from typing import Any

from assay.judging.identity import rubric_name
from assay.library.shelf import Shelf
from assay.services.evaluations import StoredEvaluation, find_evaluation
from assay.store.ledger import Ledger
from documents import run
from test_evaluations import keep

RUBRIC = Shelf().rubric("rag")
CRITERIA = [one.name for one in RUBRIC.criteria]


def judged(n: int, version: str = "1", **changes: Any) -> list[dict[str, Any]]:
    """Runs that a judge scored; every third got a bad score, every fourth fails a rule."""
    made = []
    for index in range(n):
        one = run("rag")
        scores = {
            name: {
                "raw": int(bool(index % 3)),
                "source": {"kind": "llm", "name": "m-1", "rubric": rubric_name(RUBRIC)},
            }
            for name in CRITERIA
        }
        one.update(
            {
                "run_id": f"hush-{version}-{index}",
                "workflow": {**one["workflow"], "version": version},
                "dataset": {**one["dataset"], "sample_id": f"s-{index}"},
                "status": "success" if index % 4 else "failed",
                "inputs": {"question": f"When does ferry {index} leave?"},
                "outputs": {"answer": f"At {index} o'clock, says number {version}."},
                "scores": {**one["scores"], **scores},
                **changes,
            }
        )
        made.append(one)
    return made


def stored(ledger: Ledger, documents: list[dict[str, Any]], name: str) -> StoredEvaluation:
    """An evaluation of these runs, in the ledger."""
    keep(ledger, documents, name)
    found = find_evaluation(ledger, name, project="default")
    assert found is not None
    return found
