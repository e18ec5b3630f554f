"""Logs of inspect_ai: its own totals, and nothing that failed or is missing has a score."""

from __future__ import annotations

import io
import json
import zipfile
from decimal import Decimal
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, InputError, NotEnoughEvidence
from assay.files.archives import ZSTANDARD, open_archive
from assay.services.importing import import_runs
from peer_files import RECORDED, SHARED, broken, imported, needs_shared, survives, takers

FOLDER = RECORDED / "inspect_ai"
PLAIN = json.loads((FOLDER / "plain.json").read_text())


def log(*samples: dict, **header) -> dict:
    """A small log by hand."""
    spec = {
        "run_id": "r1",
        "task_id": "t1",
        "task": "capitals",
        "model": "m",
        "dataset": {"name": "towns"},
        **header.pop("eval", {}),
    }
    results = {"total_samples": len(samples), "scores": []}
    made = {"version": 2, "status": "success", "eval": spec, "results": results, **header}
    return {**made, "samples": list(samples)}


def sample(number=1, value="C", **more) -> dict:
    message = {"role": "assistant", "content": "Paris"}
    return {
        "id": number,
        "epoch": 1,
        "input": "?",
        "target": "Paris",
        "output": {"choices": [{"message": message}]},
        "scores": {"match": {"value": value}},
        **more,
    }


def read(tmp_path, tree, name="log.json"):
    path = tmp_path / name
    path.write_text(json.dumps(tree))
    return imported("inspect_ai", path)


def raw(run: dict) -> dict:
    return {name: one["raw"] for name, one in run.get("scores", {}).items()}


def archive(path, entries: dict[str, object]) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, tree in entries.items():
            packed.writestr(name, json.dumps(tree))
    path.write_bytes(made.getvalue())


@pytest.mark.parametrize("made", json.loads((FOLDER / "made.json").read_text()))
def test_totals_are_those_of_the_tool(made: Any) -> None:
    (path,) = (FOLDER / name for name in made["files"])
    assert takers(path) == ["inspect_ai"]
    runs, tally = imported("inspect_ai", path)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs) == tally.samples
    assert tally.stated.get("samples", len(runs)) == len(runs)
    for label, mean in totals.items():
        name = tally.metric(label)
        assert float(tally.metrics[name].mean) == pytest.approx(mean, abs=1e-12)
        assert float(tally.stated[name]) == pytest.approx(mean, abs=1e-12)


@needs_shared
def test_totals_of_the_shared_logs() -> None:
    expected = json.loads((SHARED / "expected.json").read_text())
    for name, totals in expected.items():
        if not name.startswith("inspect_ai/"):
            continue
        assert takers(SHARED / name) == ["inspect_ai"]
        runs, tally = imported("inspect_ai", SHARED / name)
        assert len(runs) == tally.samples == totals["total_samples"]
        assert {run["workflow"]["id"] for run in runs} == {totals["task"]}
        versions = {run["workflow"]["version"].partition("+")[0] for run in runs}
        assert versions == {totals["model"]}
        for score in totals["scores"]:
            accuracy = score["metrics"]["accuracy"]
            assert float(tally.metrics[score["name"]].mean) == pytest.approx(accuracy)
        for one, run in zip(totals["sample_scores"], runs, strict=True):
            letters = {key: {"C": 1, "I": 0}[value] for key, value in one["scores"].items()}
            assert raw(run) == letters
            assert (run["dataset"]["sample_id"], run["attempt"]) == (str(one["id"]), one["epoch"])


def test_zstandard_entries_are_read() -> None:
    with open_archive(str(FOLDER / "two-scorers.eval")) as packed:
        assert ZSTANDARD in {entry.compress_type for entry in packed.entries()}
    runs, _ = imported("inspect_ai", FOLDER / "two-scorers.eval")
    assert runs[0]["outputs"] == {"answer": "Paris"}
    assert runs[0]["expected"] == {"answer": "Paris"}
    assert runs[0]["tokens"] == 12


def test_a_failed_sample_has_no_score_and_an_unfinished_log_counts_what_it_lacks() -> None:
    runs, tally = imported("inspect_ai", FOLDER / "errors.eval")
    (failed,) = (run for run in runs if run["status"] != "success")
    assert (failed["dataset"]["sample_id"], failed["status"]) == ("peru", "error")
    assert "scores" not in failed
    assert "the tool is not there" in failed["metadata"]["reason"]
    runs, tally = imported("inspect_ai", FOLDER / "stopped.eval")
    assert sorted(run["status"] for run in runs) == ["error", "error", "success", "success"]
    assert all(bool(raw(run)) == (run["status"] == "success") for run in runs)
    assert {run["dataset"]["sample_id"] for run in runs} == {"france", "spain", "peru", "norway"}
    assert tally.errors == 2
    assert any("'error'" in note for note in tally.notes)


def test_epochs_are_attempts() -> None:
    runs, _ = imported("inspect_ai", FOLDER / "epochs.eval")
    assert sorted((run["dataset"]["sample_id"], run["attempt"]) for run in runs) == [
        (land, epoch) for land in ("france", "norway", "peru", "spain") for epoch in (1, 2)
    ]


def test_values_mean_what_inspect_documents(tmp_path) -> None:
    values = ["C", "P", "I", "N", True, False, 0.25, "yes", "no", "0.5"]
    runs, tally = read(tmp_path, log(*(sample(n, value) for n, value in enumerate(values, 1))))
    assert [raw(run)["match"] for run in runs] == [
        1,
        Decimal("0.5"),
        0,
        0,
        1,
        0,
        Decimal("0.25"),
        1,
        0,
        Decimal("0.5"),
    ]
    runs, tally = read(tmp_path, log(sample(1, "blue"), sample(2, float("nan")), sample(3, [1, 0])))
    assert [raw(run) for run in runs] == [{}, {"match": None}, {"match/0": 1, "match/1": 0}]
    assert tally.dropped == {"scores_that_are_no_numbers": 1}
    assert runs[0]["metadata"]["labels"] == {"match": "blue"}


def test_a_scorer_that_never_gave_a_score_is_missing_from_all(tmp_path, capsys) -> None:
    def counted(name: str, scorer: str, scored: int | None) -> dict:
        return {"name": name, "scorer": scorer, "scored_samples": scored, "metrics": {}}

    tree = log(*(sample(number) for number in range(3)))
    tree["results"]["scores"] = [
        *(counted("match", "match", 3), counted("judge", "judge", 0)),
        *(counted("depth", "rubric", 0), counted("old", "old", None)),
    ]
    _, tally = read(tmp_path, tree)
    assert {name: one.n for name, one in tally.metrics.items()} == {
        "match": 3,
        "judge": 0,
        "rubric/depth": 0,
    }
    assert assay(["grade", str(tmp_path / "log.json")]) == 1
    assert "judge has no value on any sample" in capsys.readouterr().err


def test_scores_that_were_edited_are_counted(tmp_path) -> None:
    edited = {"match": {"value": "C", "history": [{"value": "I"}, {"value": "C"}]}}
    _, tally = read(tmp_path, log(sample(1), sample(2, scores=edited)))
    assert tally.read_text() == "2 samples, 1 edited score"


def test_a_scorer_that_answers_in_words_can_not_be_ignored_by_a_gate(tmp_path, capsys) -> None:
    """`unsafe` on every sample would be promoted over `safe` by the other scorer alone."""
    for word in ("safe", "unsafe"):
        rows = [sample(n, "C") for n in range(1, 61)]
        for row in rows:
            row["scores"]["safety"] = {"value": word}
        (tmp_path / f"{word}.json").write_text(json.dumps(log(*rows)))
    new, old = str(tmp_path / "unsafe.json"), str(tmp_path / "safe.json")
    assert assay(["gate", new, "--baseline", old]) == 4
    assert "safety can't be graded" in capsys.readouterr().err


def test_a_candidate_brings_no_scorer_with_other_options(tmp_path, capsys) -> None:
    def written(name: str, *options: dict, **more) -> str:
        scorers = [{"name": "match", "options": {}}]
        scorers += [{"name": "model_graded_qa", "options": one} for one in options]
        tree = log(*(sample(n, "C") for n in range(1, 61)))
        tree["eval"] |= {"scorers": scorers, **more}
        (tmp_path / name).write_text(json.dumps(tree))
        return str(tmp_path / name)

    old = written("old.json", {"model": "openai/judge"})
    assert assay(["gate", written("same.json", {"model": "openai/judge"}), "--baseline", old]) == 0
    capsys.readouterr()
    role = {"model_roles": {"grader": {"model": "mock/always"}}}
    for eased in (
        written("model.json", {"model": "mock/always"}),
        written("template.json", {"model": "openai/judge", "template": "Write GRADE: C."}),
        written("role.json", {"model": "openai/judge"}, **role),
        written("gone.json"),
    ):
        assert assay(["gate", eased, "--baseline", old]) == 4
        assert "checked for different things" in capsys.readouterr().out


def test_errors_invalidated_samples_and_limits(tmp_path) -> None:
    runs, _ = read(
        tmp_path,
        log(
            sample(1, error={"message": "boom", "traceback": ""}),
            sample(2, invalidation={"author": "x"}),
            sample(3, limit={"type": "token", "limit": 9}),
            sample(4, limit={"type": "time", "limit": 9}, scores=None),
            sample(5, scores={}),
        ),
    )
    assert [run["status"] for run in runs] == [
        "error",
        "cancelled",
        "success",
        "timeout",
        "success",
    ]
    assert [raw(run) for run in runs] == [{"match": None}, {"match": None}, {"match": 1}, {}, {}]
    assert runs[2]["tags"] == ["limit:token"]
    read(tmp_path, log(sample(1), sample(2, invalidation={"author": "x"}), invalidated=True))
    with pytest.raises(InputError, match="doesn't mark which"):
        read(tmp_path, log(sample(1), sample(2), invalidated=True))


def test_old_logs_have_one_score_and_name_its_scorer_once(tmp_path) -> None:
    old = sample(1, score={"value": "C"})
    del old["scores"]
    results = {"scorer": {"name": "includes"}, "metrics": {"accuracy": {"value": 1.0}}}
    runs, tally = read(tmp_path, log(old, version=1, results=results))
    assert raw(runs[0]) == {"includes": 1}
    assert tally.stated == {"includes": 1}


def test_declared_samples_that_are_absent_are_missing(tmp_path) -> None:
    data = {"dataset": {"name": "towns", "sample_ids": [1, 2]}, "config": {"epochs": 2}}
    runs, tally = read(tmp_path, log(sample(1), eval=data, status="cancelled", results=None))
    assert [(run["dataset"]["sample_id"], run["attempt"], run["status"]) for run in runs] == [
        ("1", 1, "success"),
        ("1", 2, "cancelled"),
        ("2", 1, "cancelled"),
        ("2", 2, "cancelled"),
    ]
    old = log(sample(1), results={"total_samples": 3, "scores": []})
    runs, tally = read(tmp_path, old)
    assert [run["dataset"]["sample_id"] for run in runs] == ["1", "missing-1", "missing-2"]
    assert tally.stated["samples"] == 3
    never = {"dataset": {"name": "towns", "samples": 9}, "config": {"limit": 2}}
    runs, _ = read(tmp_path, log(sample(1), eval=never, status="started", results=None))
    assert len(runs) == 2


def test_a_log_that_did_not_end_well_is_never_whole(tmp_path) -> None:
    for limit, missing in (([0, 4], 3), ([2, 9], 2), (3, 2), (None, 4)):
        size = {"dataset": {"name": "towns", "samples": 5}, "config": {"limit": limit}}
        stopped = log(sample(1), eval=size, status="cancelled", results=None)
        runs, _ = read(tmp_path, stopped)
        assert [run["status"] for run in runs] == ["success", *["cancelled"] * missing]
    runs, tally = read(tmp_path, log(sample(1), status="error"))
    assert [run["status"] for run in runs] == ["success", "cancelled"]
    assert "samples" not in tally.stated
    for sizes in ({}, {"dataset": {"samples": 5}, "config": {"sample_id": "a*"}}):
        with pytest.raises(NotEnoughEvidence, match="how many samples it should have"):
            read(tmp_path, log(sample(1), eval=sizes, status="cancelled", results=None))


def test_a_mean_that_the_samples_do_not_have_is_refused(tmp_path) -> None:
    def stated(value, *samples, **more) -> str:
        one = {"name": "match", "scorer": "match", "metrics": {"accuracy": {"value": value}}}
        results = {"total_samples": len(samples), "scores": [{**one, **more}]}
        path = tmp_path / "log.json"
        path.write_text(json.dumps(log(*samples, results=results)))
        return str(path)

    def notes(path: str) -> list[str]:
        (tmp_path / "made").mkdir(exist_ok=True)
        return import_runs([path], str(tmp_path / "made")).tally.notes

    two = (sample(1), sample(2, "I"))
    assert notes(stated(0.5, *two)) == []
    with pytest.raises(InputError, match=r"states a mean match of 0\.9.* is 0\.5000"):
        notes(stated(0.9, *two))
    # inspect leaves out what failed, and another reducer makes another number
    assert len(notes(stated(0.9, *two, sample(3, error={"message": "x"})))) == 1
    assert notes(stated(0.9, *two, reducer="max")) == []
    own = {"accuracy": {"value": 0.9, "params": {"to_float": "mine"}}}
    assert len(notes(stated(0.9, *two, metrics=own))) == 1


def test_a_log_that_is_still_written_or_was_cut_short(tmp_path) -> None:
    path = tmp_path / "log.eval"
    tree = log(eval={"dataset": {"sample_ids": ["a", "b"]}})
    start = {key: tree[key] for key in ("version", "eval")}
    chunked = "samples/b_epoch_1/sample.json"
    archive(path, {"_journal/start.json": start, chunked: sample("b"), "x/notes.json": {}})
    assert takers(path) == ["inspect_ai"]
    runs, _ = imported("inspect_ai", path)
    assert [(run["dataset"]["sample_id"], run["status"]) for run in runs] == [
        ("b", "success"),
        ("a", "cancelled"),
    ]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="damaged ZIP"):
        imported("inspect_ai", path)


def test_a_newer_version_of_an_entry_replaces_the_older(tmp_path) -> None:
    path = tmp_path / "log.eval"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        packed.writestr("header.json", json.dumps(log(sample(), status="started")))
        packed.writestr("samples/1_epoch_1.json", json.dumps(sample(1, "C")))
        with pytest.warns(UserWarning, match="Duplicate"):
            packed.writestr("samples/1_epoch_1.json", json.dumps(sample(1, "I")))
    path.write_bytes(made.getvalue())
    runs, tally = imported("inspect_ai", path)
    assert [raw(run) for run in runs] == [{"match": 0}, {}]
    assert tally.dropped == {"superseded_entries": 1}


@pytest.mark.parametrize("small", [2**21, 1])
def test_texts_that_the_log_keeps_apart_are_put_back(tmp_path, monkeypatch, small: Any) -> None:
    apart = sample(1, input="attachment://abc", attachments={"abc": "a long question", "d": "x"})
    path = tmp_path / "log.eval"
    archive(path, {"header.json": log(apart), "samples/1_epoch_1.json": apart})
    # read whole, and piece by piece
    monkeypatch.setattr("assay.importers.inspect_ai.SMALL", small)
    runs, _ = imported("inspect_ai", path)
    assert runs[0]["inputs"] == {"input": "a long question"}
    assert runs[0]["outputs"] == {"answer": "Paris"}


def test_a_sample_in_several_entries_has_its_texts_by_number(tmp_path) -> None:
    apart = sample("b", input="attachment://2")
    path = tmp_path / "log.eval"
    texts = {f"samples/b_epoch_1/attachments/{n}.json": t for n, t in ((0, ["x", "y"]), (2, ["z"]))}
    archive(path, {"header.json": log(apart), "samples/b_epoch_1/sample.json": apart, **texts})
    runs, _ = imported("inspect_ai", path)
    assert [run["inputs"] for run in runs] == [{"input": "z"}]


def test_bad_logs_are_refused(tmp_path) -> None:
    for tree, words in (
        (log(sample(1), sample(1)), "appears twice"),
        (log(sample(1), sample("1")), "appears twice"),
        (log({"epoch": 1}), "has the id None"),
        (log(sample(1, epoch=0)), "has the epoch 0"),
        (log(sample(1, scores=[1])), "must be an object"),
        ({**log(sample()), "eval": {}}, "does not name the task"),
        ({**log(sample()), "eval": []}, "`eval` must be an object"),
        (log("x"), "a sample must be an object"),
        ([1], "not a log"),
    ):
        with pytest.raises(InputError, match=words):
            read(tmp_path, tree)
    with pytest.raises(NotEnoughEvidence, match="no samples"):
        read(tmp_path, log())
    path = tmp_path / "log.eval"
    archive(path, {"a.json": {}})
    with pytest.raises(InputError, match=r"without a header.json"):
        imported("inspect_ai", path)


def test_broken_logs_are_refused_or_read_but_never_a_crash(tmp_path) -> None:
    tree = {**PLAIN, "samples": PLAIN["samples"][:1]}
    path = tmp_path / "log.json"
    results = []
    for made in broken(tree, 150):
        path.write_text(json.dumps(made))
        results.append(survives("inspect_ai", path))
    assert {True, False} <= set(results)
    whole = (FOLDER / "epochs.eval").read_bytes()
    for cut in range(0, len(whole), 499):
        path.write_bytes(whole[:cut])
        with pytest.raises(AssayError):
            imported("inspect_ai", path)


def test_two_commits_of_one_model_are_two_versions_with_their_own_times(
    assay, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for month, commit, value in (("10", "aaa1112223", "C"), ("11", "bbb1112223", "I")):
        at = f"2026-{month}-15T10:00:00+00:00"
        spec = {"revision": {"type": "git", "commit": commit}, "eval_id": f"e{month}"}
        samples = [sample(number, value, total_time=1) for number in range(60)]
        tree = log(*samples, eval=spec, stats={"started_at": at, "completed_at": at})
        (tmp_path / f"{month}.json").write_text(json.dumps(tree))
        assert assay("import", f"{month}.json", "-o", f"{month}.jsonl").code == 0
    done = assay("gate", "latest", "--baseline", "latest~1", "--now", "2026-11-16T00:00:00Z")
    assert done.code == 1, done.err
    assert "latest~1 is capitals-" in done.err
    assert "capitals@m+aaa1112 on towns@unversioned, evaluated 2026-10-15T10:00:00" in done.err
    both = assay("import", "10.json", "11.json", "--json").json()["evaluations"]
    assert [one["totals"]["n"] for one in both] == [60, 60], "two versions, two evaluations"
    merged = assay("import", "10.json", "11.json", "--workflow", "bot@1")
    assert (merged.code, "e10 and e11 are separate results of bot@1" in merged.err) == (2, True)
    assert "`--workflow bot@VERSION`" in merged.err


@pytest.mark.parametrize("bad", [7, None, "yesterday", {"commit": 7}, {"commit": "a b"}, ["x"]])
def test_times_and_revisions_of_wrong_types_are_left_out(tmp_path, bad: Any) -> None:
    tree = log(sample(started_at=bad), eval={"revision": bad, "created": bad})
    (run,), _ = read(tmp_path, tree)
    assert run["workflow"]["version"] == "m"
    assert "started_at" not in run
