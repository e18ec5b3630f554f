"""`assay label` and `assay judge calibrate --from-ledger`, from the draw to the card of a judge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assay.families.judges.labelling import need_set, saving, set_label
from assay.families.judges.pairwise import DEFINITION
from assay.families.judges.records import Rater
from assay.judging.identity import definition_name, rubric_name
from assay.judging.items import read_items
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.services.evaluations import find_evaluation
from assay.store.ledger import open_ledger
from labelling import CRITERIA, RUBRIC, judged, stored
from once import once


def prepared(folder: Path) -> str:
    """A ledger with two evaluations in a folder: made once in a test run, and copied."""

    def make(first: Path) -> None:
        with open_ledger(f"sqlite:///{first}/ledger.db") as ledger:
            stored(ledger, judged(36), "first")
            stored(ledger, judged(36, "2"), "second")

    shutil.copytree(once("labelling", make), folder / ".assay")
    return f"sqlite:///{folder}/.assay/ledger.db"


def label_all(url: str, name: str, *raters: str) -> None:
    """Have raters label a set: the judge is right, but for the first item."""
    with open_ledger(url) as ledger:
        found = need_set(ledger, name, project="default")
        for rater in raters:
            for place, item in enumerate(found.set.items):
                right = int(bool(int(item.sample[2:]) % 3))
                value = str(1 - right if place == 0 else right)
                label = set_label(
                    found,
                    item,
                    Rater(name=rater, by="token"),
                    scores=dict.fromkeys(CRITERIA, value),
                    choice="a",
                    comment="odd" if place == 0 else "",
                )
                ledger.put_many(saving(ledger, label, project="default"))


def test_labels_of_the_ledger_calibrate_a_judge_and_draw_its_card(
    assay: Any, tmp_path: Path
) -> None:
    url = prepared(tmp_path)
    made = assay("label", "new", "first", "--n", "34", "--json").json()
    assert (made["items"], made["new"], made["draw"]["pool"]) == (34, True, 36)
    again = assay("label", "new", "first", "--n", "34")
    assert "the set existed already" in again.out
    assert "assay view" in again.out
    label_all(url, "latest", "anna", "ben")
    shown = assay("label", "show", "latest")
    assert "anna" in shown.out
    assert "34 of 34" in shown.out
    assert "odd" not in shown.out, "a rater who looks first stays blind"
    assert "--labels" in shown.out
    assert "odd" in assay("label", "show", "latest", "--labels").out
    assert assay("label", "list", "--json").json()["sets"][0]["labelled"] == 34
    assert "first-random" in assay("label", "list").out
    several = assay("judge", "calibrate", "--from-ledger", "latest")
    assert (several.code, "--criterion" in several.err) == (2, True)
    options = ("--from-ledger", "first-random", "--criterion", "safety")
    found = assay("judge", "calibrate", *options, "-o", "calibration.json", "--json").json()
    assert found["label_set"]["digest"] == made["digest"]
    assert found["label_set"]["raters"] == ["anna", "ben"]
    assert (found["n_labelled"], found["n_unlabelled"]) == (34, 2)
    assert found["accuracy"]["value"] == 33 / 34
    assert found["scorer"]["criteria"] == ["safety"]
    card = assay("judge", "card", "--calibration", "calibration.json", "--model", "m-1")
    assert (card.code, "may not gate" in card.out) == (1, True), "nobody has audited it"
    document = json.loads((tmp_path / "calibration.json").read_text())
    document["label_set"]["typed_raters"] = 2
    (tmp_path / "typed.json").write_text(json.dumps(document))
    words = ("judge", "card", "--calibration", "typed.json", "--model", "m-1", "-o", "card.html")
    assert assay(*words).code == 1
    assert "2; 2 only typed names, which count as one rater" in (tmp_path / "card.html").read_text()
    exported = assay("label", "export", "first-random", "--criterion", "safety", "-o", "l.jsonl")
    assert exported.out == "36 rows, 34 labelled, in l.jsonl\n"
    from_file = assay("judge", "calibrate", "--labels", "l.jsonl", "--json").json()
    assert from_file["agreement"] == found["agreement"]
    assert from_file["set"]["digest"] == found["set"]["digest"]
    both = assay("judge", "calibrate", "--labels", "l.jsonl", "--from-ledger", "latest")
    neither = assay("judge", "calibrate")
    assert (both.code, neither.code) == (2, 2)
    assert assay("ledger", "verify").code == 0


def test_a_set_takes_the_rubric_of_the_project_where_the_judge_used_it(
    assay: Any, tmp_path: Path
) -> None:
    shown = assay("library", "show", "rubrics", "rag").out
    own = tmp_path / "own.yaml"
    own.write_text(shown.replace("rubric_id: rag", "rubric_id: ours"))
    name = rubric_name(Shelf().rubric(str(own)))
    runs = judged(36)
    for one in runs:
        for criterion in CRITERIA:
            one["scores"][criterion]["source"]["rubric"] = name
    (tmp_path / ".assay").mkdir()
    with open_ledger(f"sqlite:///{tmp_path}/.assay/ledger.db") as ledger:
        stored(ledger, runs, "first")
    assert "not in the library" in assay("label", "new", "first").err
    (tmp_path / "assay.yaml").write_text("rubric: own.yaml\n")
    assert assay("label", "new", "first", "--json").json()["rubric"] == name
    own.write_text(own.read_text().replace("version: 1", "version: 2"))
    changed = assay("label", "new", "first", "--n", "20")
    assert (changed.code, "not in the library" in changed.err) == (2, True)
    own.unlink()
    chosen = assay("label", "new", "first", "--n", "20", "--rubric", "rag", "--json")
    assert chosen.json()["rubric"].startswith("rag@"), "the project's rubric isn't needed"


def test_pairs_are_exported_for_the_judge_and_calibrate_it(assay: Any, tmp_path: Path) -> None:
    url = prepared(tmp_path)
    assert assay("label", "new", "first", "--pairs", "second", "--name", "duel").code == 0
    label_all(url, "duel", "anna")
    refused = assay("judge", "calibrate", "--from-ledger", "duel")
    assert (refused.code, "--pairs -o pairs.jsonl" in refused.err) == (2, True)
    assert assay("label", "export", "duel", "--pairs", "-o", "pairs.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert (len(rows), rows[0]["label"]) == (36, "a")
    comparisons = {
        "schema": "assay.comparisons/1",
        "judge": {"model": "m-1"},
        "scorer": {"kind": "llm", "name": "m-1", "rubric": definition_name(DEFINITION)},
        "items": [
            {"id": row["id"], "a_run": row["a_run"], "b_run": row["b_run"], "winner": "ba"[n == 0]}
            for n, row in enumerate(rows)
        ],
    }
    words = ("judge", "calibrate", "--from-ledger", "duel", "--judgements", "comparisons.json")

    def calibrated(**changes: Any) -> Any:
        (tmp_path / "comparisons.json").write_text(json.dumps({**comparisons, **changes}))
        return assay(*words, "--json")

    found = calibrated().json()
    assert found["accuracy"]["value"] == 1 / 36
    assert found["judge"]["model"] == "m-1"
    swapped = [
        {**one, "a_run": one["b_run"], "b_run": one["a_run"]} for one in comparisons["items"]
    ]
    turned = calibrated(items=swapped).json()
    assert turned["accuracy"]["value"] == 35 / 36, "sides are matched by their runs"
    for changes, words_of_it in (
        (
            {"items": [{"id": row["id"], "winner": "a"} for row in rows]},
            "36 of 36 judgements don't",
        ),
        ({"items": [{**swapped[0], "a_run": "sha256:0"}]}, "'first' and 'second' do not have"),
        ({"scorer": {"name": "m-1", "rubric": "rag@1"}}, "not asked the question of this set"),
    ):
        refused = calibrated(**changes)
        assert (refused.code, words_of_it in refused.err) == (3, True), refused.err
        assert "JDG-009" in refused.err
        assert "assay judge pairwise pairs.jsonl" in refused.err


def test_verdicts_of_another_rubric_criterion_or_evaluation_calibrate_nobody(
    assay: Any, tmp_path: Path
) -> None:
    url = prepared(tmp_path)
    assert assay("label", "new", "first", "--criterion", "safety", "--name", "one").code == 0
    label_all(url, "one", "anna")
    with open_ledger(url) as ledger:
        runs = [
            find_evaluation(ledger, name, project="default").evaluation.runs
            for name in ("first", "second")
        ]
    rubric = rubric_name(RUBRIC)
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, judged(36))))
    read = [one.run_digest for one in read_items([str(tmp_path / "runs.jsonl")])]
    assert read == [run.digest for run in runs[0]], "a judge names a run as the ledger does"

    def calibrated(scorer: dict[str, Any], items: list[dict[str, Any]]) -> Any:
        document = {
            "schema": "assay.judgements/1",
            "judge": {"model": "m-1"},
            "scorer": {"kind": "llm", "name": "m-1", **scorer},
            "items": items,
        }
        (tmp_path / "j.json").write_text(json.dumps(document))
        return assay("judge", "calibrate", "--from-ledger", "one", "--judgements", "j.json")

    whole = [
        [
            {"id": run.run_id, "criterion": "safety", "raw": n % 2, "run": run.digest}
            for n, run in enumerate(each)
        ]
        for each in runs
    ]
    good = calibrated({"rubric": rubric}, whole[0])
    assert good.code == 0, good.err
    assert calibrated({"rubric": RUBRIC.id}, whole[0]).code == 0, "a name without its content"
    for scorer, items, words in (
        ({"rubric": "quality@1"}, whole[0], "scored by the rubric quality@1, people by rag@"),
        ({"rubric": f"{RUBRIC.id}+000000000000"}, whole[0], "scored by the rubric"),
        ({}, whole[0], "name no rubric"),
        ({"rubric": rubric}, [{**one, "criterion": "other"} for one in whole[0]], "no verdict on"),
        ({"rubric": rubric}, [{"id": one["id"], "raw": 1} for one in whole[0]], "no verdict on"),
        (
            {"rubric": rubric},
            [{**one, "run": None} for one in whole[0]],
            "which run they are about",
        ),
        (
            {"rubric": rubric},
            [*whole[0], {**whole[0][3], "raw": 0}],
            "items[36]: is a second verdict on 'hush-1-3': 0, while items[3] is 1.",
        ),
        (
            {"rubric": rubric},
            [*whole[0], {**whole[0][3], "id": "copy"}],
            "several verdicts on 'hush-1-3'",
        ),
        ({"rubric": rubric}, whole[1], "36 of 36 judgements are about runs that 'first' does not"),
    ):
        refused = calibrated(scorer, items)
        assert (refused.code, words in refused.err) == (3, True), refused.err
        assert "j.json" in refused.err


def test_labels_by_another_rubric_than_the_judges_are_exported_without_its_verdicts(
    assay: Any, tmp_path: Path
) -> None:
    url = prepared(tmp_path)
    text = Path(BUILTIN, "rubrics", f"{RUBRIC.id}.yaml").read_text(encoding="utf-8")
    (tmp_path / "edited.yaml").write_text(text.replace("rubric_id: rag", "rubric_id: edited"))
    words = ("label", "new", "first", "--rubric", "edited.yaml", "--criterion", "safety")
    assert assay(*words, "--name", "later", "--n", "34").code == 0
    label_all(url, "later", "anna")
    refused = assay("judge", "calibrate", "--from-ledger", "later")
    assert (refused.code, "scored by the rubric" in refused.err) == (2, True)
    exported = assay("label", "export", "later", "-o", "labels.jsonl")
    assert exported.out == "34 rows, 34 labelled, in labels.jsonl\n"
    assert "scored by the rubric" in exported.err
    assert "The rows have no verdicts of a judge." in exported.err
    rows = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert {row["judge"] for row in rows} == {None}
    assert {row["human"] for row in rows} == {0, 1}
    calibrated = assay("judge", "calibrate", "--labels", "labels.jsonl")
    assert (calibrated.code, "0 labelled verdicts of 34 rows" in calibrated.err) == (4, True)


def test_an_override_is_recorded_once_and_refused_without_a_reason(
    assay_process: Any, assay: Any, tmp_path: Path
) -> None:
    prepared(tmp_path)
    words = ("label", "override", "hush-1-1", "--verdict", "fail", "--rater", "anna")
    before = assay("explain", "first", "--json").out
    done = assay_process(*words, "--reason", "wrong pier", "--in", "first")
    assert (done.code, "The grade is unchanged" in done.out) == (0, True)
    again = assay(*words, "--reason", "wrong pier", "--json").json()
    assert (again["new"], again["overrides"]) == (False, 1)
    for wrong in (
        (*words, "--reason", " "),
        ("label", "override", "nope", "--verdict", "fail", "--reason", "x"),
        (*words, "--reason", "x", "--in", "second"),
        ("label", "new", "fist"),
        ("label", "show", "latest"),
        ("label", "new", "first", "--question", "Which?"),
    ):
        refused = assay(*wrong)
        assert refused.code in (2, 3, 4)
        assert refused.err.count("\n") == 1
    assert assay("explain", "first", "--json").out == before


@pytest.mark.parametrize(
    ("how", "rater", "sentence"),
    [
        ("random", "anna", ""),
        ("near-floor", "anna", "not at random"),
        ("random", "M-1", "The rater M-1 has the name of the judge"),
    ],
)
def test_exported_labels_of_picked_samples_or_of_the_judge_name_no_judge_either(
    assay: Any, tmp_path: Path, how: str, rater: str, sentence: str
) -> None:
    url = prepared(tmp_path)
    assert assay("label", "new", "first", "--n", "34", "--draw", how, "--name", "one").code == 0
    label_all(url, "one", rater)
    assert assay("label", "export", "one", "--criterion", "safety", "-o", "l.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text().splitlines()]
    document = {
        "schema": "assay.judgements/1",
        "judge": {"model": "m-1"},
        "scorer": {"kind": "llm", "name": "m-1"},
        "items": [{"id": row["id"], "criterion": "safety", "raw": row["judge"]} for row in rows],
    }
    (tmp_path / "j.json").write_text(json.dumps(document))
    labels = ("--labels", "l.jsonl", "--judgements", "j.json")
    found = assay("judge", "calibrate", *labels, "--json").json()
    assert (found["judge"] is None, found["scorer"] is None) == (bool(sentence),) * 2
    assert sentence in found["sentences"][0]
