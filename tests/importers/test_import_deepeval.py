"""Test runs of deepeval: its own totals; errors and skipped metrics are missing evidence."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import InputError, NotEnoughEvidence
from peer_files import RECORDED, SHARED, broken, imported, needs_shared, survives, takers

FOLDER = RECORDED / "deepeval"
GATE = "deepeval_passed"


def case(asked="?", success=True, **metrics) -> dict:
    listed = [{"name": name, **one} for name, one in metrics.items()]
    return {
        "name": "x",
        "input": asked,
        "actualOutput": "a",
        "success": success,
        "metricsData": listed,
    }


def scored(score, success, **more) -> dict:
    return {"score": score, "success": success, "threshold": 0.5, **more}


def read(tmp_path, *cases: dict, **header):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"testCases": list(cases), **header}))
    assert takers(path) == ["deepeval"]
    return imported("deepeval", path)


def raw(run: dict) -> dict:
    return {name: one["raw"] for name, one in run.get("scores", {}).items()}


@pytest.mark.parametrize("made", json.loads((FOLDER / "made.json").read_text()))
def test_totals_are_those_of_the_tool(made: Any) -> None:
    (path,) = (FOLDER / name for name in made["files"])
    assert takers(path) == ["deepeval"]
    runs, tally = imported("deepeval", path)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs) == tally.stated["samples"]
    assert totals.pop("passed") == tally.passed == tally.stated["passed"]
    for label, mean in totals.items():
        name = tally.metric(label)
        assert float(tally.metrics[name].mean) == pytest.approx(mean, abs=1e-12)
        assert float(tally.stated[name]) == pytest.approx(mean, abs=1e-12)


@needs_shared
def test_totals_of_the_shared_run() -> None:
    path = SHARED / "deepeval" / "test_run.json"
    assert takers(path) == ["deepeval"]
    runs, tally = imported("deepeval", path)
    assert (len(runs), tally.passed) == (2, 0)
    assert [raw(run) for run in runs] == [
        {"Contains": 1, "Exact Match": 0},
        {"Contains": 0, "Exact Match": 0},
    ]
    assert tally.stated == {"samples": 2, "passed": 0, "Contains": 0.5, "Exact Match": 0}


def test_a_metric_that_failed_has_no_score_and_leaves_no_verdict() -> None:
    runs, _ = imported("deepeval", FOLDER / "errors.json")
    assert raw(runs[2]) == {"Contains": 1, "Fragile": None}
    assert runs[2]["gates"][GATE]["passed"] is None
    assert "the metric broke" in runs[2]["gates"][GATE]["reason"]
    assert runs[1]["gates"][GATE]["passed"] is False


def test_a_skipped_metric_is_missing_and_lower_is_better_counts_from_the_other_end() -> None:
    runs, tally = imported("deepeval", FOLDER / "skipped.json")
    assert raw(runs[3]) == {"1 - Shouting": Decimal("0.9"), "Exact Match": None}
    assert runs[3]["metadata"]["deepeval"] == {
        "Shouting": {"score": Decimal("0.1"), "threshold": Decimal("0.5")}
    }
    assert runs[3]["checks"] == {"1 - Shouting": Decimal("0.5")}
    assert "1 - Shouting" in tally.doubts, "it never failed, so it may pass whatever its score is"
    assert runs[0]["workflow"] == {"id": "deepeval", "version": "towns-1"}
    assert runs[0]["latency_ms"] == 500


def test_conversations_are_cases(tmp_path) -> None:
    runs, _ = imported("deepeval", FOLDER / "talks.json")
    assert runs[0]["outputs"] == {"answer": ["Paris, please."]}
    assert runs[0]["inputs"] == {"scenario": "asks for the capital of France", "turns": ["France?"]}
    wrapped = tmp_path / ".latest_test_run.json"
    tree = json.loads((FOLDER / "talks.json").read_text())
    wrapped.write_text(json.dumps({"testRunData": tree, "testRunLink": None}))
    assert takers(wrapped) == ["deepeval"]
    again, tally = imported("deepeval", wrapped)
    assert [raw(run) for run in again] == [raw(run) for run in runs]
    assert tally.stated["passed"] == 1


def test_tests_of_a_file_have_metrics_of_their_own(tmp_path) -> None:
    runs, tally = read(
        tmp_path,
        case("1", A=scored(1, True), B=scored(0.5, True)),
        case("2", False, A=scored(0, False)),
        testFile="tests/test_bot.py",
        datasetAlias="towns",
    )
    own = "mean of its metrics"
    assert [raw(run) for run in runs] == [{"A": 1, own: Decimal("0.75")}, {"A": 0, own: 0}]
    assert any("each test's metrics: B" in note for note in tally.notes)
    assert runs[0]["workflow"]["id"] == "test_bot"
    assert runs[0]["dataset"]["id"] == "towns"


def test_a_verdict_that_contradicts_the_others_is_refused(tmp_path) -> None:
    good = [case(str(index), A=scored(0.9, True)) for index in range(3)]
    for odd in (scored(0.4, True), scored(0.9, False)):
        with pytest.raises(InputError, match=r"test case 4; by test case 1, higher is better"):
            read(tmp_path, *good, case("x", A=odd))
    # at the threshold, and after an error, a verdict doesn't tell
    broke = scored(0.1, True, error="broke")
    even = case("x", False, A=scored(0.5, False)), case("y", False, A=broke)
    runs, _ = read(tmp_path, *good, *even)
    assert [raw(run)["A"] for run in runs[3:]] == [Decimal("0.5"), None]


def test_a_metric_that_passes_whatever_its_score_is_not_taken_for_better_when_lower(
    tmp_path,
) -> None:
    low = [case(str(index), A=scored(0.1, True), Rude=scored(0.1, True)) for index in range(3)]
    _, tally = read(tmp_path, *low)
    assert tally.doubts.keys() == {"1 - A", "1 - Rude"}
    assert not tally.higher_is_better
    high = case("x", False, A=scored(0.1, True), Rude=scored(0.9, False))
    _, tally = read(tmp_path, *low, high)
    assert tally.doubts.keys() == {"1 - A"}
    assert tally.higher_is_better == {"1 - Rude"}


@pytest.mark.parametrize(
    "bad", [scored(0.4, False), scored(0.5, False), scored(None, None, error="broke")]
)
def test_a_case_that_passed_with_a_failed_metric_is_refused(tmp_path, bad: Any) -> None:
    with pytest.raises(InputError, match=r"`success` true, and its 'B' failed"):
        read(tmp_path, case("x", A=scored(0.9, True), B=bad))


OTHER_CHECKS = "checked for different things"


def test_a_candidate_does_not_set_its_own_bar(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)

    def tests(name: str, of, **header) -> str:
        path = tmp_path / f"{name}.json"
        cases = [case(f"question {index}", **of(index)) for index in range(60)]
        path.write_text(json.dumps({"testCases": cases, **header}))
        return str(path)

    def decided(new: str, old: str) -> str:
        code = assay(["gate", new, "--baseline", old])
        printed = capsys.readouterr()
        assert code != 0, printed.out
        return printed.out + printed.err

    def toxic(score, line) -> dict:
        return {"Toxicity": scored(score, True) | {"threshold": line}}

    old = tests("old", lambda _: toxic(0.05, 0.1))
    assert assay(["gate", tests("same", lambda _: toxic(0.04, 0.1)), "--baseline", old]) == 0
    capsys.readouterr()
    assert OTHER_CHECKS in decided(tests("new", lambda _: toxic(0.95, 1)), old)
    eased = decided(tests("eased", lambda _: toxic(0.05, 0.2)), old)
    assert OTHER_CHECKS in eased
    judged = tests("judged", lambda _: {"A": scored(1, True, evaluationModel="gpt-4o")})
    other = tests("other", lambda _: {"A": scored(1, True, evaluationModel="always-1")})
    assert OTHER_CHECKS in decided(other, judged)
    models = ["always-1"] * 59 + ["gpt-4o"]
    mixed = tests("mixed", lambda n: {"A": scored(1, True, evaluationModel=models[n])})
    assert OTHER_CHECKS in decided(mixed, judged)
    # a metric that only some tests of a file have
    files = {"testFile": "test_bot.py"}
    own = {"A": scored(1, True), "B": scored(1, True)}
    a = {"A": scored(1, True)}
    part = tests("part", lambda index: own if index else a, **files)
    worse = tests("worse", lambda n: own | {"B": scored(0.51, True)} if n else a, **files)
    assert "score_non_inferiority" in decided(worse, part)
    padded = {f"C{index}": scored(1, True) for index in range(20)} | own
    thin = tests("thin", lambda n: padded | {"B": scored(0.51, True)} if n else a, **files)
    assert OTHER_CHECKS in decided(thin, part)
    swapped = tests("swapped", lambda n: a | {"C": scored(1, True)} if n else a, **files)
    assert OTHER_CHECKS in decided(swapped, part)
    decided(tests("gone", lambda _: a, **files), part)
    strict = tests("strict", lambda _: a)
    loose = tests("loose", lambda _: {"A": scored(1, True, flaky=True)})
    assert OTHER_CHECKS in decided(loose, strict)


@pytest.mark.parametrize(
    ("bad", "score"),
    [
        (scored(0.2, False), Decimal("0.2")),
        (scored(None, False, error="!"), None),
    ],
)
def test_a_flaky_metric_fails_no_case_and_keeps_its_score(tmp_path, bad: Any, score: Any) -> None:
    runs, tally = read(tmp_path, case("x", A=scored(1, True), B={**bad, "flaky": True}))
    assert raw(runs[0]) == {"A": 1, "B": score}
    assert runs[0]["gates"][GATE]["passed"] is True
    assert any("marked as flaky: B on 1" in note for note in tally.notes)


def test_metrics_of_spans_and_expectations_belong_to_their_case(tmp_path) -> None:
    def traced(asked: str, success: bool, *metrics: dict) -> dict:
        span = {"output": "from the span", "metricsData": list(metrics)}
        made = {**case(asked, success), "trace": {"agentSpans": [span], "llmSpans": []}}
        return {key: value for key, value in made.items() if key != "actualOutput"}

    good, bad = ({"name": "Hit", **scored(n, n > 0)} for n in (1, 0))
    runs, tally = read(tmp_path, traced("1", True, good), traced("2", False, good, bad))
    assert [raw(run) for run in runs] == [{"Hit": 1}, {"Hit": 0}]
    assert runs[0]["outputs"] == {"answer": "from the span"}
    assert not tally.unchecked
    with pytest.raises(InputError, match=r"`success` true, and its 'Hit' failed"):
        read(tmp_path, traced("1", True, bad))
    verdict = {"success": False, "score": 0.5, "evaluationModel": "gpt-4o", "verdicts": []}
    runs, tally = read(tmp_path, {**case("1", False), "expectationsData": verdict})
    assert raw(runs[0]) == {"Expectations": Decimal("0.5")}
    assert runs[0]["scores"]["Expectations"]["source"]["kind"] == "llm"


def test_unmeasured_cases_have_no_score_and_repeats_are_attempts(tmp_path) -> None:
    runs, tally = read(tmp_path, case("1"), case("1", None), testPassed=1, testFailed=0)
    assert [raw(run) for run in runs] == [{"passed": None}, {"passed": None}]
    assert [run["attempt"] for run in runs] == [1, 2]
    assert tally.stated == {"samples": 2, "passed": 1}
    assert any("have no metric; deepeval passes them unchecked" in note for note in tally.notes)


def test_what_is_not_a_test_run_is_refused(tmp_path) -> None:
    path = tmp_path / "run.json"
    for tree, words in (
        ({"testCases": [case("1", A={"score": "high"})]}, "a score is a number"),
        ({"testCases": [case("1", "yes")]}, "must be true or false"),
        ({"testCases": {"a": 1}}, "must be a list"),
        ({"testCases": [1]}, "must be an object"),
        ([1], "must be an object"),
    ):
        path.write_text(json.dumps(tree))
        with pytest.raises(InputError, match=words):
            imported("deepeval", path)
    path.write_text('{"testCases": []}')
    with pytest.raises(NotEnoughEvidence):
        imported("deepeval", path)
    for name in ("skipped", "talks"):
        results = []
        for made in broken(json.loads((FOLDER / f"{name}.json").read_text()), 70):
            path.write_text(json.dumps(made))
            results.append(survives("deepeval", path))
        assert {True, False} <= set(results)
