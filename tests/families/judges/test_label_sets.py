"""Sets of samples to label: drawn by a seed, for reasons that are counted; and what labels come
to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from assay.errors import AssayError, NotEnoughEvidence, ShelfError, UsageError
from assay.families.judges.calibration import calibrate
from assay.families.judges.label_views import results_view, says
from assay.families.judges.labelling import (
    SetRequest,
    counted,
    find_set,
    label_draft,
    labelled_rows,
    labels_of_set,
    make_set,
    need_set,
    order_for,
    people_say,
    results_of,
    saving,
    set_draft,
    set_label,
    side_order,
)
from assay.families.judges.records import LabelResults, Rater, StoredSet
from assay.judging.config import JudgeSpec
from assay.judging.identity import rubric_name
from assay.library.shelf import Shelf
from assay.services.evaluation_checks import verify_ledger
from assay.services.evaluations import find_evaluation
from assay.services.storing import drafts_of
from assay.store.ledger import Ledger, open_ledger
from assay.views.blocks import Paragraph, Section, Table
from documents import run
from labelling import CRITERIA, RUBRIC, judged, stored
from test_evaluations import evaluation_draft, graded
from test_evaluations import made as evaluated

RATERS = [Rater(name=name, by="token") for name in ("anna", "ben", "cleo")]


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with open_ledger(f"sqlite:///{tmp_path}/l.db") as opened:
        yield opened


def drawn(ledger: Ledger, runs: int = 40, *, other: int = 0, **asked: Any) -> StoredSet:
    """A set of a new evaluation, or of pairs with another of `other` runs."""
    first = stored(ledger, judged(runs), "first")
    second = stored(ledger, judged(other, "2"), "second") if other else None
    made = make_set(ledger, Shelf(), first, second, SetRequest(**asked), project="default")
    ledger.put_many([set_draft(made)])
    return need_set(ledger, made.id, project="default")


def say(ledger: Ledger, stored: StoredSet, rater: Rater, values: list[Any]) -> LabelResults:
    """Have a rater label the first items of a set: with a score for every criterion, or a choice."""
    for item, value in zip(stored.set.items, values, strict=False):
        given: dict[str, Any] = (
            {"choice": value}
            if stored.set.other
            else {"scores": dict.fromkeys(CRITERIA, str(value))}
        )
        label = set_label(stored, item, rater, **given)
        ledger.put_many(saving(ledger, label, project="default"))
    return results_of(stored, labels_of_set(ledger, stored.digest, project="default"))


def test_a_set_by_the_judges_rubric_is_refused_if_that_has_changed(ledger: Ledger) -> None:
    runs = judged(6)
    for one in runs:
        for score in one["scores"].values():
            if (score.get("source") or {}).get("rubric"):
                score["source"]["rubric"] = f"{RUBRIC.id}+000000000000"
    evaluation = stored(ledger, runs, "old")
    with pytest.raises(UsageError, match="which has changed"):
        make_set(ledger, Shelf(), evaluation, None, SetRequest(), project="default")
    named = SetRequest(rubric=RUBRIC.id)
    made = make_set(ledger, Shelf(), evaluation, None, named, project="default")
    assert made.rubric is not None
    assert made.rubric.id == rubric_name(RUBRIC)


def test_a_judges_rubric_that_is_a_file_has_to_be_named(ledger: Ledger) -> None:
    runs = judged(6)
    for one in runs:
        for score in one["scores"].values():
            if (score.get("source") or {}).get("rubric"):
                score["source"]["rubric"] = "tariff@1+a63946e5beb9"
    evaluation = stored(ledger, runs, "own")
    with pytest.raises(UsageError, match=r"tariff@1\+a63946e5beb9, which .* new own --rubric FILE"):
        make_set(ledger, Shelf(), evaluation, None, SetRequest(), project="default")
    with pytest.raises(ShelfError, match="nobody"):
        make_set(ledger, Shelf(), evaluation, None, SetRequest(rubric="nobody"), project="default")


def test_the_same_seed_draws_the_same_set_and_it_is_stored_once(ledger: Ledger) -> None:
    first = drawn(ledger, 30)
    again = need_set(ledger, "first-random", project="default")
    assert (again, len(first.set.items), first.set.draw.pool) == (first, 30, 30)
    ledger.put_many([set_draft(first.set)])
    assert ledger.count("labelset").n == 1
    few = drawn(ledger, 30, seed=1).set.items[:10]
    assert few != first.set.items[:10]
    assert find_set(ledger, "latest", project="default") != first
    with pytest.raises(NotEnoughEvidence, match="first-random"):
        need_set(ledger, "first-randon", project="default")


def test_each_draw_takes_what_it_says(ledger: Ledger) -> None:
    apart = drawn(ledger, how="disagree").set
    samples = {int(item.sample[2:]) for item in apart.items}
    # a rule fails every fourth run, the judge every third: where both or neither, they agree
    assert {i for i in range(1, 40) if bool(i % 3) != bool(i % 4)} <= samples
    assert apart.draw.pool == len(apart.items)
    near = drawn(ledger, how="near-floor", n=5).set
    assert (len(near.items), near.draw.pool) == (5, 40)
    plain = [{**one, "scores": {}} for one in judged(4)]
    nobody = stored(ledger, plain, "unjudged")
    with pytest.raises(NotEnoughEvidence, match="no judge's score: 4"):
        make_set(ledger, Shelf(), nobody, None, SetRequest("disagree"), project="default")


def test_pairs_leave_out_what_can_not_be_compared_and_count_it(ledger: Ledger) -> None:
    first = stored(ledger, judged(6), "first")
    others = judged(8, "2")[1:]  # the first sample is on one side only, and so are two more
    others[0]["inputs"] = {"question": "Something else?"}
    others[1]["outputs"] = judged(6)[2]["outputs"]
    others[2]["outputs"] = {}
    second = stored(ledger, others, "second")
    made = make_set(ledger, Shelf(), first, second, SetRequest(), project="default")
    assert sorted(item.sample for item in made.items) == ["s-4", "s-5"]
    assert made.draw.left_out == {
        "different inputs": 1,
        "no answer": 1,
        "only in one evaluation": 4,
        "same answer": 1,
    }


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"how": "randon"}, "Did you mean 'random'"),
        ({"n": 0}, "1 to 2,000"),
        ({"n": 10**6}, "1 to 2,000"),
        ({"criteria": ["safty"]}, "Did you mean 'safety'"),
        ({"rubric": "rga"}, "library list rubrics"),
        ({"name": "a/b.json"}, "can't be named"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    ledger: Ledger, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(AssayError) as refused:
        drawn(ledger, 4, **asked)
    assert words in f"{refused.value.message} {refused.value.fix}"


def test_a_rubric_without_anchors_is_refused_with_its_faults(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "bare.yaml"
    path.write_text(
        "rubric_id: bare\nversion: 1\ncriteria:\n- {name: a, definition: d, evidence_required:"
        " [e], scale: [0, 1], anchors: {'0': bad}, weight: 1}\n"
    )
    with pytest.raises(AssayError) as refused:
        drawn(ledger, rubric=str(path))
    assert 'Add an anchor "1"' in str([fault.fix for fault in refused.value.faults])


def test_every_rater_gets_every_item_once_in_an_order_of_their_own(ledger: Ledger) -> None:
    pairs = drawn(ledger, 40, other=40)
    orders = [order_for(pairs, rater) for rater in RATERS]
    assert all(sorted(order, key=str) == sorted(pairs.set.items, key=str) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert orders[0] == order_for(pairs, RATERS[0]), "a reload changes nothing"
    sides = [side_order(pairs, RATERS[0], item) for item in pairs.set.items]
    assert 5 < sides.count("ab") < 35


def test_agreement_comes_with_the_labels(ledger: Ledger) -> None:
    made = drawn(ledger, 12)
    assert say(ledger, made, RATERS[0], [0, 1] * 6).agreement == ()
    two = say(ledger, made, RATERS[1], [0, 1] * 4 + [1, 0])
    assert [one.statistic for one in two.agreement] == ["Cohen's kappa, quadratic weights"] * 2
    assert (two.agreement[0].items, two.agreement[0].same.value) == (10, 0.8)
    assert two.agreement[0].beyond_chance.value == pytest.approx(0.6)
    assert two.agreement[0].beyond_chance.low is not None
    assert len(two.disagreed) == 4, "two items, by two criteria"
    three = say(ledger, made, RATERS[2], [0, 1] * 6)
    assert three.agreement[0].statistic == "Krippendorff's alpha, ordinal"
    assert [(one.rater.name, one.done) for one in three.progress] == [
        ("anna", 12),
        ("ben", 10),
        ("cleo", 12),
    ]
    assert verify_ledger(ledger).clean


def test_several_raters_become_one_value_in_the_stated_way(ledger: Ledger) -> None:
    pairs = drawn(ledger, 6, other=6)
    for rater, values in zip(RATERS, (["a", "a", "tie"], ["a", "b", "b"], ["b"]), strict=True):
        results = say(ledger, pairs, rater, values)
    said = [people_say(results, "choice").get(item.run) for item in pairs.set.items[:3]]
    assert said == ["a", None, None], "level votes are not label"
    assert results.agreement[0].statistic == "Krippendorff's alpha, nominal"
    won = next(one for one in results_view(results) if isinstance(one, Section))
    share, table = won.parts[:2]
    assert isinstance(share, Paragraph)
    assert "first wins 66.7% [26.9% to 87.7% (95%), n 3] of the pairs" in share.text
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [["first", "3"], ["tie", "1"], ["second", "3"]]
    assert "42.9%" in table.rows[0][2]
    assert says(results.labels[0].label, pairs.set) == "first better"
    scores = drawn(ledger, 4, seed=5)
    for rater, value in zip(RATERS, (0, 1, 1), strict=True):
        results = say(ledger, scores, rater, [value])
    assert people_say(results, CRITERIA[0]) == {scores.set.items[0].run: 1}


def test_labels_calibrate_the_judge_of_the_runs_and_name_their_set(ledger: Ledger) -> None:
    made = drawn(ledger, 40)
    truth = {item.run: int(item.sample[2:]) % 3 > 0 for item in made.set.items}
    results = say(ledger, made, RATERS[0], [int(truth[item.run]) for item in made.set.items[:35]])
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert found.about["digest"] == made.digest
    document = calibrate(found.rows, judgements=found.judgements)
    assert (document["n_labelled"], document["n_unlabelled"]) == (35, 5)
    assert document["accuracy"]["value"] == 1
    assert document["judge"]["model"] == document["scorer"]["name"] == "m-1"
    assert document["answered_at"] is None, "runs that were judged elsewhere don't say when"
    with pytest.raises(UsageError, match="2 criteria"):
        labelled_rows(ledger, results, project="default")


def test_runs_with_the_same_texts_calibrate_a_judge_once(ledger: Ledger) -> None:
    same = judged(40, inputs={"question": "When?"}, outputs={"answer": "At noon."})
    request = make_set(
        ledger, Shelf(), stored(ledger, same, "first"), None, SetRequest(), project="default"
    )
    ledger.put_many([set_draft(request)])
    made = need_set(ledger, request.id, project="default")
    results = say(ledger, made, RATERS[0], [1] * 40)
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert (found.about["items"], found.about["labelled"]) == (40, 40)
    with pytest.raises(NotEnoughEvidence, match="1 labelled verdicts of 1 rows, 39 copies left"):
        calibrate(found.rows, judgements=found.judgements)


def test_labels_of_picked_samples_name_no_judge_so_no_card_lets_it_gate(ledger: Ledger) -> None:
    made = drawn(ledger, how="near-floor", n=30)
    results = say(ledger, made, RATERS[0], [1] * 30)
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert found.judgements is None
    assert "not at random" in found.sentences[-1]
    assert calibrate(found.rows, judgements=None, minimum=1)["judge"] is None


@pytest.mark.parametrize("by", ["token", "stated"])
def test_a_rater_with_the_name_of_the_judge_calibrates_nobody(ledger: Ledger, by: Any) -> None:
    made = drawn(ledger, 40)
    rater = Rater(name="M-1", by=by, id="abc" if by == "token" else None)
    results = say(ledger, made, rater, [1] * 40)
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert found.judgements is None
    assert "has the name of the judge" in found.sentences[-1]


def test_scores_of_two_judges_or_of_another_rubric_are_not_calibrated_as_one(
    ledger: Ledger,
) -> None:
    made = drawn(ledger, 4)
    documents = judged(4)
    for name in CRITERIA:
        documents[0]["scores"][name]["source"]["name"] = "m-2"
    two = stored(ledger, documents, "two-judges")
    mixed = make_set(ledger, Shelf(), two, None, SetRequest(), project="default")
    ledger.put_many([set_draft(mixed)])
    results = say(ledger, need_set(ledger, mixed.id, project="default"), RATERS[0], [1] * 4)
    with pytest.raises(UsageError, match="scored by 2 judges"):
        labelled_rows(ledger, results, project="default", criterion="safety")
    first = say(ledger, made, RATERS[0], [1] * 4)
    ledger.forget(made.set.evaluation.digest, author="anna", reason="asked for")
    with pytest.raises(NotEnoughEvidence, match="was forgotten"):
        labelled_rows(ledger, first, project="default", criterion="safety")
    given = {
        "scorer": {"rubric": made.set.rubric and made.set.rubric.id},
        "items": [
            {"id": item.run_id, "criterion": "safety", "raw": 1, "run": item.run}
            for item in made.set.items[:3]
        ],
    }
    found = labelled_rows(ledger, first, project="default", criterion="safety", judgements=given)
    assert [row.judge for row in found.rows].count(None) == 1, "a label without a verdict stays"


def test_a_correction_counts_soon_and_until_another_rater_has_labelled_the_item(
    ledger: Ledger,
) -> None:
    made = drawn(ledger, 4)
    anna, ben, _ = RATERS
    say(ledger, made, anna, [1, 1])
    say(ledger, made, anna, [0])  # before anybody else has labelled the item
    say(ledger, made, ben, [1, 0])
    results = say(ledger, made, anna, [0, 0])  # the second item, with ben's label to be seen
    runs = [item.run for item in made.set.items]
    assert people_say(results, "safety") == {runs[0]: 0, runs[1]: 0}
    kept = {one.label.run: one.label.scores for one in results.labels if one.label.rater == anna}
    assert [(kept[run] or {})["safety"] for run in runs[:2]] == [0, 1]
    assert (results.changed, results.changed_late, results.superseded) == (2, 1, 2)
    assert results.agreement[0].same.value == 0.0, "not what anna said once she knew"
    shown = str(results_view(results))
    assert "Changed minds" in shown
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert "1 was changed after others' labels could be seen." in " ".join(found.sentences)
    assert (found.about["changed"], found.about["changed_after_others"]) == (2, 1)
    unseen = str(results_view(results, seen={runs[2]}))
    assert "Changed minds" not in unseen
    alone = labels_of_set(ledger, made.digest, project="default")[:3]
    later = alone[2]._replace(at="2099-01-01T00:00:00Z")
    for correction, kept_value in ((alone[2], 0), (later, 1)):
        counts = {one.label.run: one.label.scores for one in counted([*alone[:2], correction])}
        assert (counts[runs[0]] or {})["safety"] == kept_value


def test_tokens_of_one_name_are_two_raters_and_all_typed_names_are_one(ledger: Ledger) -> None:
    made = drawn(ledger, 4)
    alike = [Rater(name="anna", by="token", id=one) for one in ("t1", "t2")]
    say(ledger, made, alike[0], [1, 1])
    two = say(ledger, made, alike[1], [0, 1])
    assert (len(two.labels), two.superseded, two.independent) == (4, 0, 2)
    assert "anna (token t2)" in str(results_view(two))
    tokens = [Rater(name="anna", by="token", id=f"t{n}") for n in range(9)]
    assert len({tuple(one.run for one in order_for(made, token)) for token in tokens}) > 1
    three = drawn(ledger, 4, seed=7)
    typed = [Rater(name=name, by="stated") for name in ("alice", "bob", "carol")]
    for rater in typed:
        results = say(ledger, three, rater, [0, 1])
    assert (results.typed, results.independent, results.agreement) == (3, 1, ())
    assert "Typed names count as one rater" in str(results_view(results))
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert "1 person may have typed all of them" in " ".join(found.sentences)
    assert (found.about["typed_raters"], found.about["independent_raters"]) == (3, 1)
    say(ledger, three, RATERS[0], [1])
    outvoted = say(ledger, three, RATERS[1], [1])
    assert people_say(outvoted, "safety")[three.set.items[0].run] == 1, "three names, one vote"
    assert outvoted.agreement[0].items == 1


def test_verify_finds_labels_that_do_not_fit_their_set(ledger: Ledger) -> None:
    made = drawn(ledger, 4, n=3)
    item, outside = made.set.items[0], judged(4)
    good = set_label(made, item, RATERS[0], scores=dict.fromkeys(CRITERIA, "1"))
    first = ledger.put_many([label_draft(good)])[0]
    assert verify_ledger(ledger).clean
    left = {one.sample for one in made.set.items} ^ {one["dataset"]["sample_id"] for one in outside}
    evaluation = find_evaluation(ledger, "first", project="default")
    assert evaluation is not None
    other = next(
        run.digest
        for run in evaluation.evaluation.runs
        if run.digest not in {one.run for one in made.set.items}
    )
    assert len(left) == 1
    for changes in (
        {"run": other},
        {"scores": {**dict.fromkeys(CRITERIA, 1), "extra": 1}},
        {"scores": dict.fromkeys(CRITERIA, 9)},
        {"rater": RATERS[1], "supersedes": first.digest},
    ):
        ledger.put_many([label_draft(structs.replace(good, **changes))])
    found = [flaw.what for flaw in verify_ledger(ledger).flaws]
    assert found == [
        "its set doesn't have this item.",
        "its scores are not on the scale of its set.",
        "its scores are not on the scale of its set.",
        "it replaces a label of another rater or item.",
    ]


def test_the_judge_that_a_run_was_asked_with_is_named_as_its_card_names_it(ledger: Ledger) -> None:
    spec = JudgeSpec(judge="strict", model="m-1")
    documents = judged(4)
    settings = {"judge": {"name": spec.judge, **spec.identity()}}
    ledger.put_many([each for one in graded(*documents) for each in drafts_of(one)])
    ledger.put_many([evaluation_draft(evaluated(documents, "asked", **settings))])
    evaluation = find_evaluation(ledger, "asked", project="default")
    assert evaluation is not None
    drawn_set = make_set(ledger, Shelf(), evaluation, None, SetRequest(), project="default")
    ledger.put_many([set_draft(drawn_set)])
    results = say(ledger, need_set(ledger, "latest", project="default"), RATERS[0], [1] * 4)
    found = labelled_rows(ledger, results, project="default", criterion="safety")
    assert found.judgements is not None
    assert found.judgements["judge"]["digest"] == spec.digest
    assert found.judgements["judge"]["judge"] == "strict"
    document = calibrate(found.rows, minimum=1, judgements=found.judgements)
    assert document["answered_at"] == f"{evaluation.evaluation.started[:19]}Z"


def test_runs_without_a_judge_are_scored_by_the_rubric_of_their_family(ledger: Ledger) -> None:
    bare = [{**one, "scores": run("rag")["scores"]} for one in judged(3)]
    made = make_set(
        ledger, Shelf(), stored(ledger, bare, "bare"), None, SetRequest(), project="default"
    )
    assert made.rubric is not None
    assert made.rubric.id.startswith("rag@")
