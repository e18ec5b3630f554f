"""People's labels in a ledger: one record each, replaced and never changed, counted by run and
evaluation.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.families.judges.labelling import (
    label_draft,
    labels_of_evaluation,
    labels_of_run,
    labels_of_set,
    replacing,
)
from assay.families.judges.records import HumanLabel, Override, PairLabel, Rater
from assay.services.evaluation_checks import verify_ledger
from assay.services.evaluations import StoredEvaluation, find_evaluation
from assay.store.ledger import Ledger, open_ledger
from serving import runs
from test_evaluations import keep

SET = "sha256:" + "5" * 64
ANNA, BEN = Rater(name="anna", by="token"), Rater(name="ben", by="stated")


def stored(ledger: Ledger, n: int = 3, name: str = "nightly") -> StoredEvaluation:
    keep(ledger, runs(n), name)
    found = find_evaluation(ledger, name, project="default")
    assert found is not None
    return found


def label(evaluation: StoredEvaluation, at: int = 0, **changes: Any) -> HumanLabel:
    run = evaluation.evaluation.runs[at]
    shape: dict[str, Any] = {"kind": "rubric", "scores": {"helpful": 4}, "set": SET}
    if "override" in changes:
        shape = {"kind": "override"}
    return HumanLabel(
        schema="assay.label/1",
        rater=changes.pop("rater", ANNA),
        run_id=run.run_id,
        run=run.digest,
        sample_id=run.run_id,
        evaluation=evaluation.digest,
        **{**shape, **changes},
    )


def put(ledger: Ledger, one: HumanLabel) -> bool:
    kept = replacing(one, labels_of_set(ledger, SET, project="default"))
    return kept is not None and ledger.put_many([label_draft(kept)])[0].new


def test_a_rater_who_changes_their_mind_adds_a_label_and_both_stay(tmp_path: Any) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        evaluation = stored(ledger)
        first = evaluation.evaluation.runs[0]
        before = ledger.get_many([first.digest, str(first.grade)])
        assert put(ledger, label(evaluation))
        assert not put(ledger, label(evaluation)), "the same form twice is one label"
        assert put(ledger, label(evaluation, scores={"helpful": 2}, comment="no source"))
        assert put(ledger, label(evaluation)), "back again is a third label"
        assert put(ledger, label(evaluation, rater=BEN, scores={"helpful": 1}))
        found = labels_of_run(ledger, first.digest, project="default")
        said = [(one.label.rater.name, one.label.scores) for one in found.labels]
        assert said == [("anna", {"helpful": 4}), ("ben", {"helpful": 1})]
        assert (found.superseded, found.overrides) == (2, ())
        assert len(labels_of_set(ledger, SET, project="default")) == 4
        assert ledger.get_many([first.digest, str(first.grade)]) == before


def test_a_typed_name_is_never_the_rater_of_a_token(tmp_path: Any) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        evaluation = stored(ledger)
        put(ledger, label(evaluation))
        put(ledger, label(evaluation, rater=Rater(name="anna", by="stated"), scores={"x": 1}))
        found = labels_of_run(ledger, evaluation.evaluation.runs[0].digest, project="default")
        assert len(found.labels) == 2
        assert found.superseded == 0
        assert "typed" in found.labels[1].label.rater.shown


def test_overrides_are_counted_and_change_no_grade_and_no_total(tmp_path: Any) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        evaluation = stored(ledger)
        other = evaluation.evaluation.runs[1]
        for verdict, rater in (("pass", ANNA), ("fail", BEN)):
            said = label(
                evaluation, 1, rater=rater, override=Override(verdict=verdict, reason="read it")
            )
            ledger.put_many([label_draft(said)])
        pair = PairLabel(
            a=evaluation.evaluation.runs[0].digest, b=other.digest, shown="ba", choice="tie"
        )
        put(ledger, label(evaluation, kind="pair", scores=None, pair=pair))
        counts = labels_of_evaluation(ledger, evaluation.digest, project="default")
        assert counts == (1, 1, 1, 1, 1, 1, (other.digest,))
        of_other = labels_of_run(ledger, other.digest, project="default")
        assert len(of_other.overrides) == 2
        assert [one.label.kind for one in of_other.labels] == ["pair"], "both runs of a pair"
        again = find_evaluation(ledger, "nightly", project="default")
        assert again == evaluation
        flaws = verify_ledger(ledger).flaws
        assert [flaw.what for flaw in flaws] == ["its set is missing."], "the pair's set is made up"
        stone = ledger.forget(other.digest, author="anna", reason="asked for")
        digests = {one.digest for one in (*of_other.overrides, *of_other.labels)}
        assert digests <= set(stone.rests_on_it), "whoever forgets a run hears of its labels"


@pytest.mark.parametrize(
    "changes",
    [
        {"scores": None},
        {"scores": {}},
        {"set": None},
        {"kind": "pair"},
        {"override": {"verdict": "pass", "reason": "x"}},
        {"override": {"verdict": "pass", "reason": " "}, "kind": "override", "set": None},
        {"rater": {"name": " ", "by": "token"}},
        {"run": "sha256:12"},
        {"grade": "A"},
        {"comment": "x" * 10_001},
    ],
)
def test_a_label_that_says_nothing_or_too_much_is_refused(changes: dict[str, Any]) -> None:
    good = {
        "schema": "assay.label/1",
        "kind": "rubric",
        "rater": {"name": "anna", "by": "token"},
        "run_id": "r",
        "run": SET,
        "sample_id": "s",
        "set": SET,
        "scores": {"helpful": 4},
    }
    assert msgspec.convert(good, HumanLabel).scores == {"helpful": 4}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**good, **changes}, HumanLabel)
