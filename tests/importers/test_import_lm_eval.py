"""Results and samples of lm-evaluation-harness: its means, its counts, and no sample lost."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from typing import Any

import pytest

from assay.errors import InputError
from assay.services.importing import reasons_not_to_grade
from peer_files import RECORDED, SHARED, broken, imported, needs_shared, survives, takers

FOLDER = RECORDED / "lm_eval"
RESULTS = next(FOLDER.glob("results_*.json"))
WORDS = next(FOLDER.glob("samples_assay_words_*.jsonl"))
COLOURS = next(FOLDER.glob("samples_assay_colours_*.jsonl"))


def edited(path, change, to):
    tree = json.loads(path.read_text())
    change(tree)
    to.write_text(json.dumps(tree))
    return to


@pytest.mark.parametrize("made", json.loads((FOLDER / "made.json").read_text()))
def test_counts_and_means_are_those_that_the_tool_printed(made: Any) -> None:
    paths = [FOLDER / name for name in made["files"]]
    assert [takers(path) for path in paths] == [["lm_eval"]] * len(paths)
    runs, tally = imported("lm_eval", *paths)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs) == tally.samples
    for label, mean in totals.items():
        assert float(tally.metrics[tally.metric(label)].mean) == pytest.approx(mean, abs=1e-12)


def test_the_rows_of_several_filters_are_one_run() -> None:
    runs, tally = imported("lm_eval", WORDS)
    assert [run["dataset"]["sample_id"] for run in runs] == ["0", "1", "2"]
    assert list(runs[0]["scores"]) == ["exact_match_strict", "exact_match_letter"]
    assert (runs[0]["workflow"]["id"], runs[0]["dataset"]["id"]) == ("assay_words",) * 2
    assert runs[0]["inputs"] == {"prompt": "What does the dummy model say?"}
    assert (runs[0]["outputs"], runs[0]["expected"]) == ({"answer": "lol"}, "lol")
    assert tally.read == {"rows": 6}


def test_results_alone_have_a_run_for_each_task_and_groups_are_left_out() -> None:
    runs, tally = imported("lm_eval", RESULTS)
    assert [run["dataset"]["sample_id"] for run in runs] == ["assay_words", "assay_colours"]
    assert runs[0]["scores"]["score"]["n"] == 3
    assert runs[1]["metadata"]["task_version"] == "2.0"
    assert tally.dropped["groups_that_repeat_their_tasks"] == 1


def test_a_task_with_documents_is_not_left_out_as_a_group(tmp_path) -> None:
    hidden = edited(
        RESULTS,
        lambda tree: tree.update(groups={"assay_words": {}}),
        tmp_path / "results_2026-11-16T14-02-33.613490.json",
    )
    assert [len(imported("lm_eval", path)[0]) for path in (RESULTS, hidden)] == [2, 2]


def test_a_metric_without_numbers_is_named_as_not_graded(tmp_path) -> None:
    rows = [json.loads(line) for line in WORDS.read_text().splitlines()]
    for row in rows:
        row |= {"metrics": [*row["metrics"], "bleu"], "bleu": ["lol", "lal"]}
    path = tmp_path / WORDS.name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, tally = imported("lm_eval", path)
    reasons = reasons_not_to_grade("lm_eval", tally, where="")
    assert list(reasons) == ["bleu_strict", "bleu_letter"]
    assert "not numbers" in reasons["bleu_strict"]


def test_tasks_with_different_metrics_share_the_first_of_each_as_their_score() -> None:
    for paths in ([RESULTS], [RESULTS, WORDS, COLOURS], [WORDS, COLOURS]):
        runs, tally = imported("lm_eval", *paths)
        assert {tuple(run["scores"]) for run in runs} == {("score",)}
        assert {run["metadata"]["metric"] for run in runs} == {"exact_match,strict", "acc,none"}
        assert "exact_match,strict for assay_words" in tally.notes[0]
        assert tally.dropped["metrics_besides_the_score_of_their_task"] == len(runs)
    runs, _ = imported("lm_eval", RESULTS)
    assert [float(run["scores"]["score"]["raw"]) for run in runs] == [pytest.approx(2 / 3), 1]


@needs_shared
def test_old_keys_and_number_versions_are_read() -> None:
    expected = json.loads((SHARED / "expected.json").read_text())
    for name in ("anli_r1", "arc_challenge", "arc_easy"):
        path = SHARED / "lm_eval" / f"{name}-v0-res.json"
        assert takers(path) == ["lm_eval"]
        (run,), _ = imported("lm_eval", path)
        stated = expected[f"lm_eval/{path.name}"]["results"][name]
        metrics = {key: one for key, one in stated.items() if "stderr" not in key}
        assert {key: float(one["raw"]) for key, one in run["scores"].items()} == metrics
        assert run["dataset"].pop("row").startswith("sha256:")
        assert run["dataset"] == {"id": name, "version": "0", "sample_id": name}
    new = sorted((SHARED / "lm_eval_new").iterdir())
    runs, tally = imported("lm_eval", *new)
    assert [run["scores"]["exact_match_none"]["raw"] for run in runs] == [Decimal(0), Decimal(1)]
    assert tally.read["means_that_agree"] == 1


def test_results_that_are_not_of_these_samples_are_refused(tmp_path) -> None:
    def other_mean(tree):
        tree["results"]["assay_words"]["exact_match,strict"] = 0.9

    def fewer(tree):
        tree["n-samples"]["assay_words"]["effective"] = 2

    def one_task(tree):
        del tree["results"]["assay_colours"], tree["n-samples"]["assay_colours"]
        tree["group_subtasks"]["assay_both"].remove("assay_colours")

    for change, words in (
        (other_mean, "its samples give 0.666667"),
        (fewer, "has 3 documents; the results state 2"),
        (one_task, "which the results don't have"),
    ):
        results = edited(RESULTS, change, tmp_path / "results.json")
        with pytest.raises(InputError, match=words):
            imported("lm_eval", results, WORDS, COLOURS)
    with pytest.raises(InputError, match="there is no samples file for it"):
        imported("lm_eval", RESULTS, WORDS)
    with pytest.raises(InputError, match="two results files"):
        imported("lm_eval", RESULTS, RESULTS)
    with pytest.raises(InputError, match="two samples files"):
        imported("lm_eval", WORDS, WORDS)


def test_announced_samples_and_tasks_that_are_not_there_are_missing_runs(tmp_path) -> None:
    def more(tree):
        tree["n-samples"]["assay_words"]["effective"] = 5

    runs, tally = imported("lm_eval", edited(RESULTS, more, tmp_path / "r.json"), WORDS, COLOURS)
    lost = [run for run in runs if run["status"] == "cancelled"]
    assert [run["dataset"]["sample_id"] for run in lost] == [
        "assay_words/missing-1",
        "assay_words/missing-2",
    ]
    assert (len(runs), tally.errors) == (7, 2)
    assert not any(run.get("scores") for run in lost)

    def forget(tree):
        del tree["results"]["assay_words"]

    runs, _ = imported("lm_eval", edited(RESULTS, forget, tmp_path / "r.json"))
    assert [run["status"] for run in runs] == ["success", "cancelled"]


def test_what_is_better_when_lower_is_not_graded(tmp_path) -> None:
    def lower(tree):
        tree["higher_is_better"]["assay_words"]["exact_match"] = False
        tree["results"]["assay_colours"]["brier_score,none"] = 0.1

    runs, tally = imported("lm_eval", edited(RESULTS, lower, tmp_path / "r.json"))
    assert list(runs[1]["scores"]) == ["acc_none", "acc_norm_none", "brier_score_none"]
    reasons = reasons_not_to_grade("lm_eval", tally, where="r.json")
    assert reasons.keys() == {*runs[0]["scores"], "brier_score_none"}
    assert all("better when lower" in why for why in reasons.values())
    assert tally.higher_is_better == {"acc,none", "acc_norm,none"}


def test_a_mean_of_no_documents_is_missing(tmp_path) -> None:
    def none(tree):
        tree["n-samples"]["assay_words"]["effective"] = 0

    runs, _ = imported("lm_eval", edited(RESULTS, none, tmp_path / "r.json"))
    assert runs[0]["scores"]["score"]["raw"] is None


def test_samples_in_one_list_of_an_older_version_are_read(tmp_path) -> None:
    rows = [json.loads(line) for line in WORDS.read_text().splitlines()[:3]]
    for row in rows:
        del row["filter"], row["metrics"]
    path = tmp_path / "samples_words.json"
    path.write_text(json.dumps(rows))
    assert takers(path) == ["lm_eval"]
    runs, tally = imported("lm_eval", path)
    assert (len(runs), runs[0]["workflow"]["id"]) == (3, "words")
    assert list(tally.metrics) == ["exact_match_none"]


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path) -> None:
    tree = json.loads(RESULTS.read_text())
    path = tmp_path / "results.json"
    results = []
    for made in broken(tree, 60):
        path.write_text(json.dumps(made))
        results.append(survives("lm_eval", path))
    rows = [json.loads(line) for line in WORDS.read_text().splitlines()[:2]]
    samples = tmp_path / "samples_x.jsonl"
    for made in broken(rows, 100):
        samples.write_text("".join(json.dumps(row) + "\n" for row in made))
        results.append(survives("lm_eval", samples))
    assert {True, False} <= set(results)
    shutil.copy(WORDS, samples)
    samples.write_bytes(samples.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut off|unterminated"):
        imported("lm_eval", samples)


def test_results_and_samples_are_graded_together(assay) -> None:
    ended = assay("grade", RESULTS, WORDS, COLOURS)
    assert ended.code == 1
    assert "5 graded: 4 passed, 1 failed" in ended.out
    assert "assay explain" not in ended.out  # it takes one file
    ended = assay("gate", WORDS, "--baseline", WORDS, "--json")
    assert json.loads(ended.out)["comparison"]["n_paired"] == 3


def lasting(model, count=60):
    """Results of many tasks, alike but for their names."""
    return {
        "results": {f"t{i}": {"acc,none": 0.8} for i in range(count)},
        "versions": {f"t{i}": 1 for i in range(count)},
        "n-shot": {f"t{i}": 5 for i in range(count)},
        "n-samples": {f"t{i}": {"original": 1000, "effective": 1000} for i in range(count)},
        "configs": {},
        "config": {},
        "model_name": model,
    }


def test_a_mean_over_other_documents_or_other_prompts_never_promotes(assay, tmp_path) -> None:
    def limited(tree):
        for sizes in tree["n-samples"].values():
            sizes["effective"] = 1

    def undeclared(tree):
        del tree["n-samples"], tree["n-shot"]

    def partly(tree):
        tree["n-samples"]["t7"]["effective"] = 999

    def other_version(tree):
        tree["versions"] = dict.fromkeys(tree["versions"], 0)

    def fewer_shots(tree):
        tree["n-shot"] = dict.fromkeys(tree["n-shot"], 0)

    def other_filter(tree):
        tree["results"] = {task: {"acc,lenient": 0.9} for task in tree["results"]}

    def other_metric(tree):
        for metrics in tree["results"].values():
            metrics |= {"acc_norm,none": 0.9, "acc,none": metrics.pop("acc,none")}

    def mixed(tree):
        tree["results"]["t0"]["f1,none"] = 0.8

    def contents(path):
        runs, _ = imported("lm_eval", path)
        return [(run["dataset"]["row"], [*run["scores"]]) for run in runs]

    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(lasting("old")))
    for change in (undeclared, other_version, fewer_shots, other_filter):
        assert not {*map(str, contents(old))} & {*map(str, contents(edited(old, change, new)))}
    first = edited(old, mixed, tmp_path / "first.json")
    assert contents(first) == contents(first) != contents(edited(first, other_metric, new))
    for change, words in ((limited, "0 paired samples"), (partly, "runs of lm_eval/t7")):
        ended = assay("gate", edited(old, change, new), "--baseline", old)
        assert ended.code in (1, 4)
        assert words in ended.out + ended.err
    edited(old, lambda tree: tree["results"]["t3"].update({"acc,none": 0.9}), new)
    assert assay("gate", new, "--baseline", old).code == 0


def test_a_candidate_brings_no_metric_or_filter_with_other_options(assay, tmp_path) -> None:
    def configured(name, metric, pattern, **more):
        filters = [{"name": "none", "filter": [{"function": "regex", "regex_pattern": pattern}]}]
        config = {
            "metric_list": [{"aggregation": "mean", **metric}],
            "filter_list": filters,
            **more,
        }
        tree = lasting(name)
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**tree, "configs": dict.fromkeys(tree["results"], config)}))
        return path

    plain = {"metric": "<function acc at 0x7f01>"}
    old = configured("old", plain, "^(.*)$")
    same = configured("same", {"metric": "<function acc at 0x7f99>"}, "^(.*)$")
    assert assay("gate", same, "--baseline", old).code == 0
    eased = {**plain, "ignore_case": True}
    for name, metric, pattern in (("eased", eased, "^(.*)$"), ("loose", plain, ".*")):
        ended = assay("gate", configured(name, metric, pattern), "--baseline", old)
        assert ended.code == 4
        assert "checked for different things" in ended.out
    for more in ({"process_results": "def score(doc, results): return 1"}, {"test_split": "easy"}):
        other = configured("other", plain, "^(.*)$", **more)
        assert assay("gate", other, "--baseline", old).code == 4


def test_samples_of_other_shots_or_another_task_version_are_another_version(tmp_path) -> None:
    def fewer_shots(tree):
        tree["n-shot"] = dict.fromkeys(tree["n-shot"], 3)

    def other_version(tree):
        tree["versions"]["assay_words"] = 9

    versions = {imported("lm_eval", RESULTS, WORDS, COLOURS)[0][0]["dataset"]["version"]}
    for change in (fewer_shots, other_version):
        results = edited(RESULTS, change, tmp_path / "results.json")
        runs, _ = imported("lm_eval", results, WORDS, COLOURS)
        versions |= {run["dataset"]["version"] for run in runs}
    assert len(versions) == 3
