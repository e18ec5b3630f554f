"""Per-instance statistics of HELM: one sample for an instance, a perturbation and a trial."""

from __future__ import annotations

import json

import pytest

from assay.errors import InputError
from assay.services.importing import reasons_not_to_grade
from peer_files import RECORDED, broken, imported, survives, takers

FOLDER = RECORDED / "helm"
STATS, SPEC, STATE, MEANS = (
    FOLDER / name
    for name in ("per_instance_stats.json", "run_spec.json", "scenario_state.json", "stats.json")
)
ENTRIES = json.loads(STATS.read_text())


def written(path, tree):
    path.write_text(json.dumps(tree))
    return path


def test_each_file_of_a_run_is_taken_for_helms() -> None:
    assert [takers(path) for path in (STATS, SPEC, STATE, MEANS)] == [["helm"]] * 4


def test_statistics_of_one_sample_are_gathered_from_the_whole_file() -> None:
    runs, tally = imported("helm", STATS)
    names = [run["dataset"]["sample_id"] for run in runs]
    assert names[:3] == ["id1", "id2", "id3"]
    assert names[3].startswith("id1/lowercase-")
    scores = [{key: one["raw"] for key, one in run["scores"].items()} for run in runs]
    assert [one["quasi_exact_match"] for one in scores] == [1, 0, 1, 0]
    assert (runs[0]["latency_ms"], runs[0]["tokens"]) == (250, 15)
    assert runs[0]["tags"] == ["split:test"]
    assert tally.dropped == {"statistics_that_are_no_scores": 20}


def test_the_run_spec_names_scenario_and_model_and_the_state_has_the_answers() -> None:
    runs, _ = imported("helm", STATS, SPEC, STATE)
    assert runs[0]["workflow"] == {"id": "capitals:hemisphere=both", "version": "acme/small-1"}
    assert runs[0]["dataset"]["id"] == "capitals:hemisphere=both"
    assert runs[1]["inputs"] == {"prompt": "Capital of Peru?"}
    assert runs[1]["outputs"] == {"answer": "Quito"}
    assert runs[1]["expected"][0]["output"] == {"text": "Lima"}


def test_the_folder_names_a_run_without_its_spec(tmp_path) -> None:
    folder = tmp_path / "boolq:model=acme_small-1"
    folder.mkdir()
    runs, _ = imported("helm", written(folder / STATS.name, ENTRIES))
    assert runs[0]["workflow"] == {"id": "boolq", "version": "acme_small-1"}


def test_means_are_those_that_the_run_states(tmp_path) -> None:
    entries = [entry for entry in ENTRIES if "perturbation" not in entry]
    means = [one for one in json.loads(MEANS.read_text()) if "perturbation" not in one["name"]]
    paths = written(tmp_path / "a.json", entries), written(tmp_path / "b.json", means)
    _, tally = imported("helm", *paths)
    assert tally.stated.keys() == {"exact_match", "quasi_exact_match"}
    for name, mean in tally.stated.items():
        assert float(tally.metrics[name].mean) == pytest.approx(float(mean))


def test_a_request_that_failed_or_has_no_statistics_is_missing(tmp_path) -> None:
    state = json.loads(STATE.read_text())
    state["request_states"][0]["result"] |= {"success": False, "error": "overloaded"}
    lost = {**state["request_states"][1], "instance": {"id": "id9", "input": {"text": "?"}}}
    state["request_states"].append(lost)
    runs, tally = imported("helm", STATS, written(tmp_path / "s.json", state))
    assert [run["status"] for run in runs] == ["error", *["success"] * 3, "cancelled"]
    assert runs[0]["scores"]["exact_match"]["raw"] is None
    assert runs[0]["metadata"]["reason"] == "overloaded"
    assert tally.errors == 2


def test_trials_are_attempts_and_a_count_of_nothing_is_missing(tmp_path) -> None:
    again = json.loads(json.dumps(ENTRIES[0])) | {"train_trial_index": 1}
    again["stats"][0] = {"name": again["stats"][0]["name"], "count": 0, "sum": 0}
    runs, _ = imported("helm", written(tmp_path / "x.json", [ENTRIES[0], again]))
    assert [run["attempt"] for run in runs] == [1, 2]
    assert runs[1]["scores"]["exact_match"]["raw"] is None


def test_statistics_that_contradict_each_other_are_refused(tmp_path) -> None:
    def changed(**parts):
        entry = json.loads(json.dumps(ENTRIES[0]))
        entry["stats"][0] |= parts
        return entry

    other = {"name": "exact_match", "split": "test", "perturbation": {"name": "typos"}}
    for entries, words in (
        ([changed(mean=0.5)], "has the mean 0.5, and 1 values of sum 1"),
        ([ENTRIES[0], changed(mean=0, sum=0)], "has two values of 'exact_match'"),
        ([changed(name=other)], "another perturbation"),
        ([changed(name={"name": "logprob"})], "has 'logprob' twice"),
        ([changed(count="many")], "must be a whole number"),
    ):
        with pytest.raises(InputError, match=words):
            imported("helm", written(tmp_path / "x.json", entries))
    with pytest.raises(InputError, match="a second per_instance_stats"):
        imported("helm", STATS, STATS)
    with pytest.raises(InputError, match=r"Give per_instance_stats\.json too"):
        imported("helm", SPEC)


def test_what_is_better_when_lower_is_not_graded(tmp_path) -> None:
    entry = json.loads(json.dumps(ENTRIES[0]))
    entry["stats"][0]["name"]["name"] = "bits_per_byte"
    runs, tally = imported("helm", written(tmp_path / "x.json", [entry]))
    assert list(runs[0]["scores"]) == ["bits_per_byte", "quasi_exact_match"]
    assert list(reasons_not_to_grade("helm", tally, where="x.json")) == ["bits_per_byte"]


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path) -> None:
    path = tmp_path / "x.json"
    results = [survives("helm", written(path, made)) for made in broken(ENTRIES[:2], 80)]
    state = json.loads(STATE.read_text())
    state = {"adapter_spec": {}, "request_states": state["request_states"][:2]}
    for made in broken(state, 60):
        try:
            imported("helm", STATS, written(path, made))
        except InputError:
            results.append(False)
    assert {True, False} <= set(results)


def test_metrics_and_annotators_are_required_with_their_arguments(tmp_path) -> None:
    def checks(**args):
        spec = json.loads(SPEC.read_text())
        spec["annotators"] = [{"class_name": "acme.Judge", "args": args}]
        runs, _ = imported("helm", STATS, written(tmp_path / "spec.json", spec))
        return runs[0]["checks"]

    plain, one, other = checks(), checks(model="m-1"), checks(model="yes-2")
    metric = "metric helm.benchmark.metrics.basic_metrics.BasicGenerationMetric"
    assert {*plain} == {metric, "annotator acme.Judge"}
    assert len({*plain, *one, *other}) == 4
    assert checks(device="cuda") == plain


def test_fewer_instances_than_the_baseline_never_promote_and_fewer_trials_may(
    assay, tmp_path
) -> None:
    def stats(name, instances, trials=1):
        one = {"name": {"name": "exact_match", "split": "test"}, "count": 1, "sum": 1, "mean": 1}
        entries = [
            {"instance_id": f"id{index}", "train_trial_index": trial, "stats": [one]}
            for trial in range(trials)
            for index in range(instances)
        ]
        return written(tmp_path / name, entries)

    old = stats("old.json", 80, 2)
    assert assay("gate", stats("few.json", 78, 2), "--baseline", old).code == 1
    assert assay("gate", stats("once.json", 80), "--baseline", old).code == 0
