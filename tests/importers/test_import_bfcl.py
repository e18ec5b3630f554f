"""Score and result files of BFCL: what passed comes from the counts, and errors never pass."""

from __future__ import annotations

import json

import pytest

from assay.errors import InputError
from peer_files import RECORDED, broken, imported, survives, takers

FOLDER = RECORDED / "bfcl"
SCORE, RESULT, IRRELEVANT, IRRELEVANT_RESULT = (
    FOLDER / f"BFCL_v4_{name}.json"
    for name in (
        "simple_python_score",
        "simple_python_result",
        "irrelevance_score",
        "irrelevance_result",
    )
)
ROWS = [json.loads(line) for line in SCORE.read_text().splitlines()]


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdicts(runs):
    return {run["dataset"]["sample_id"]: run["gates"]["bfcl_passed"]["passed"] for run in runs}


def test_each_file_is_taken_for_its_own() -> None:
    paths = (SCORE, RESULT, IRRELEVANT, IRRELEVANT_RESULT)
    assert [takers(path) for path in paths] == [["bfcl"]] * 4


def test_what_passed_comes_from_the_counts_of_a_score_file() -> None:
    runs, tally = imported("bfcl", SCORE)
    assert verdicts(runs) == {
        "simple_python_1": False,
        "simple_python_3": False,
        "simple_python/passed-1": True,
        "simple_python/passed-2": True,
    }
    assert (tally.samples, tally.passed) == (4, 2)
    assert tally.stated == {"samples": 4, "passed": 2}
    assert runs[0]["workflow"] == {"id": "simple_python", "version": "acme-small-1-FC"}
    reason = runs[0]["gates"]["bfcl_passed"]["reason"]
    assert reason.startswith("value_error:others: Invalid value for parameter 'b'")
    assert "doesn't name the 2 items" in tally.notes[0]


def test_the_result_file_names_what_passed() -> None:
    runs, tally = imported("bfcl", SCORE, RESULT)
    assert verdicts(runs) == {f"simple_python_{index}": index in (0, 2) for index in range(4)}
    found = {run["dataset"]["sample_id"]: run for run in runs}
    assert (found["simple_python_0"]["tokens"], found["simple_python_0"]["latency_ms"]) == (49, 500)
    assert not tally.notes


def test_an_item_whose_inference_failed_never_passes() -> None:
    runs, tally = imported("bfcl", IRRELEVANT, IRRELEVANT_RESULT)
    assert verdicts(runs) == {"irrelevance_0": True, "irrelevance_1": None}
    assert tally.stated == {"samples": 2, "passed": tally.passed}
    assert "whose inference failed" in tally.notes[0]


def test_several_categories_are_one_evaluation() -> None:
    runs, tally = imported("bfcl", SCORE, IRRELEVANT)
    assert {(run["workflow"]["id"], run["workflow"]["version"]) for run in runs} == {
        ("bfcl", "acme-small-1-FC")
    }
    assert tally.stated == {"samples": 6, "passed": 4}


def test_results_alone_have_no_verdict() -> None:
    runs, tally = imported("bfcl", RESULT)
    assert set(verdicts(runs).values()) == {None}
    assert "has no verdicts" in tally.notes[0]


def test_failures_that_are_counted_and_not_listed_are_missing(tmp_path) -> None:
    path = written(tmp_path / SCORE.name, ROWS[:2])
    runs, tally = imported("bfcl", path)
    assert runs[-1]["status"] == "cancelled"
    assert (tally.samples, tally.passed) == (4, 2)
    runs, tally = imported("bfcl", path, RESULT)
    assert [one for one in verdicts(runs).values()] == [False, None, None, None]  # noqa: C416
    assert tally.stated == {"samples": 4, "passed": 0}


def test_counts_that_do_not_add_up_are_refused(tmp_path) -> None:
    header = ROWS[0]
    for rows, words in (
        ([{**header, "accuracy": 0.75}], "the accuracy is 0.75, and 2 of 4"),
        ([{**header, "correct_count": 5}], "counts 5 correct items of 4"),
        ([{**header, "accuracy": 0.75, "correct_count": 3}, *ROWS[1:]], "lists 2 failures"),
        ([*ROWS, ROWS[1]], "is listed twice"),
        ([{**header, "total_count": 10**9}], "counts 2 correct"),
    ):
        with pytest.raises(InputError, match=words):
            imported("bfcl", written(tmp_path / SCORE.name, rows))
    short = written(tmp_path / RESULT.name, [json.loads(RESULT.read_text().splitlines()[0])])
    with pytest.raises(InputError, match="items missing from the score file's list: 1"):
        imported("bfcl", SCORE, short)
    other = [ROWS[0], {**ROWS[1], "model_name": "other"}]
    with pytest.raises(InputError, match="two models"):
        imported("bfcl", SCORE, written(tmp_path / "BFCL_v4_java_score.json", other))
    with pytest.raises(InputError, match="two files of the category"):
        imported("bfcl", SCORE, SCORE)


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path) -> None:
    path = tmp_path / SCORE.name
    results = [survives("bfcl", written(path, made)) for made in broken(ROWS, 80)]
    rows = [json.loads(line) for line in RESULT.read_text().splitlines()]
    results += [survives("bfcl", written(path, made)) for made in broken(rows, 60)]
    assert {True, False} <= set(results)


def test_fewer_items_than_the_baseline_never_promote(assay, tmp_path) -> None:
    def score(folder, total, failures):
        counts = {"correct_count": total - failures, "total_count": total}
        rows = [{"id": f"simple_{i}", "valid": False, "error": "x"} for i in range(failures)]
        share = {"accuracy": (total - failures) / total}
        (tmp_path / folder).mkdir()
        return written(tmp_path / folder / "BFCL_v3_simple_score.json", [share | counts, *rows])

    old = score("old", 200, 2)
    assert assay("gate", score("same", 200, 2), "--baseline", old).code == 0
    for folder, total, code in (("passed", 198, 1), ("few", 5, 4)):
        assert assay("gate", score(folder, total, 0), "--baseline", old).code == code


def test_an_item_that_the_candidate_repaired_lost_nothing(assay, tmp_path) -> None:
    """Only failures have a prompt and an expected answer in the file."""

    def evaluated(folder, failures):
        (tmp_path / folder).mkdir()
        counts = {"accuracy": (60 - failures) / 60, "correct_count": 60 - failures}
        asked = {"prompt": {"question": "Multiply 4 by 5."}, "possible_answer": [{"multiply": {}}]}
        asked |= {"model_result_raw": "x"}
        rows = [{"id": f"s_{i}", "valid": False, "error": "x"} | asked for i in range(failures)]
        score = tmp_path / folder / "BFCL_v3_simple_score.json"
        result = tmp_path / folder / "BFCL_v3_simple_result.json"
        answers = [{"id": f"s_{i}", "result": "x", "input_token_count": 1} for i in range(60)]
        return written(score, [counts | {"total_count": 60}, *rows]), written(result, answers)

    old, result = evaluated("old", 60)
    decided = assay("gate", *evaluated("new", 0), "--baseline", old, "--baseline", result, "--json")
    assert decided.code == 0, decided.out
    run = imported("bfcl", old)[0][0]
    assert run["metadata"]["prompt"] == {"question": "Multiply 4 by 5."}
