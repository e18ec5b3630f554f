"""Results of promptfoo in every format and layout: its own totals, and no verdict on an error."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, InputError, NotEnoughEvidence
from peer_files import RECORDED, SHARED, broken, imported, needs_shared, survives, takers
from serving import serving
from test_pages import show

FOLDER = RECORDED / "promptfoo"
CAPITALS = json.loads((FOLDER / "capitals.json").read_text())
GATE = "promptfoo_passed"


def row(land="Peru", **more) -> dict:
    return {
        "prompt": {"raw": f"Capital of {land}?", "display": "Capital of {{land}}?"},
        "provider": {"id": "openai:m"},
        "vars": {"land": land},
        "response": {"output": "Lima"},
        "success": True,
        "score": 1,
        "namedScores": {},
        "gradingResult": {"pass": True, "score": 1, "reason": "fine"},
        **more,
    }


def layout2(*rows: dict, **more) -> dict:
    results = {"version": 2, "results": list(rows), "stats": {"successes": 0, "failures": 0}}
    return {"results": {**results, **more}, "config": {"description": "by hand"}}


def read(tmp_path, tree, name="output.json"):
    path = tmp_path / name
    path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    assert takers(path) == ["promptfoo"]
    return imported("promptfoo", path)


def raw(run: dict) -> dict:
    return {name: one["raw"] for name, one in run.get("scores", {}).items()}


@pytest.mark.parametrize("made", json.loads((FOLDER / "made.json").read_text()))
def test_totals_of_every_format_are_those_of_the_tool(made: Any) -> None:
    (path,) = (FOLDER / name for name in made["files"])
    assert takers(path) == ["promptfoo"]
    runs, tally = imported("promptfoo", path)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs) == tally.samples
    assert totals.pop("passed") == tally.passed
    if path.suffix in (".json", ".yaml"):
        counts = (tally.stated.pop("samples"), tally.stated.pop("passed"))
        assert counts == (tally.samples, tally.passed)
        for name, mean in tally.stated.items():
            assert float(mean) == pytest.approx(float(tally.metrics[name].mean), abs=1e-12)
        assert "score" in tally.stated
    for label, mean in totals.items():
        assert float(tally.metrics[tally.metric(label)].mean) == pytest.approx(mean, abs=1e-12)


def test_a_mean_that_the_tool_states_otherwise_is_noted_in_few_digits(tmp_path, capsys) -> None:
    tree = json.loads(json.dumps(CAPITALS))
    for prompt in tree["results"]["prompts"]:
        prompt["metrics"]["score"] = 1
    (tmp_path / "output.json").write_text(json.dumps(tree))
    assay(["grade", str(tmp_path / "output.json")])
    assert "promptfoo states a mean score of 0.2857; the mean of its samples is 0." in (
        capsys.readouterr().err
    )


def test_all_formats_have_the_same_answers_and_verdicts() -> None:
    found = {}
    for kind in ("json", "jsonl", "yaml", "csv"):
        runs, _ = imported("promptfoo", FOLDER / f"capitals.{kind}")
        found[kind] = sorted(
            (
                run["inputs"]["land"],
                *run["tags"],
                run["outputs"].get("answer"),
                str(run["gates"][GATE]["passed"]),
                str({key: float(value) for key, value in sorted(raw(run).items())}),
            )
            for run in runs
            if run["status"] == "success"
        )
    assert len(found["json"]) == 14
    assert found["json"] == found["jsonl"] == found["yaml"] == found["csv"]


@needs_shared
def test_totals_of_the_shared_files() -> None:
    expected = json.loads((SHARED / "expected.json").read_text())
    for name, totals in expected.items():
        if not name.startswith("promptfoo/") or "n_results" not in totals:
            continue
        assert takers(SHARED / name) == ["promptfoo"]
        runs, tally = imported("promptfoo", SHARED / name)
        assert (len(runs), tally.passed) == (totals["n_results"], totals["successes_counted"])
        assert sum(raw(run).get("score", 0) for run in runs) == totals["score_sum"]
        if totals["stats"]:
            assert tally.stated["passed"] == totals["stats"]["successes"]
    runs, tally = imported("promptfoo", SHARED / "promptfoo" / "simple-cli__output.csv")
    assert (len(runs), tally.passed, tally.metrics["score"].mean) == (8, 8, 1)
    assert any("no assertion" in note for note in tally.notes)


def test_an_error_has_no_verdict_and_no_score() -> None:
    runs, tally = imported("promptfoo", FOLDER / "capitals.json")
    failed = [run for run in runs if run["status"] == "error"]
    assert len(failed) == tally.errors == 2
    for run in failed:
        assert run["gates"][GATE] == {"passed": None, "reason": "the endpoint answered 503"}
        assert "scores" not in run
        assert run["outputs"] == {}


def test_totals_without_stats_are_those_of_the_prompts(tmp_path) -> None:
    tree = {**CAPITALS, "results": {**CAPITALS["results"], "stats": {}}}
    _, tally = read(tmp_path, tree)
    assert (tally.stated["samples"], tally.stated["passed"]) == (16, 10)


def test_prompts_and_providers_are_variants_and_repeats_are_attempts() -> None:
    runs, _ = imported("promptfoo", FOLDER / "capitals.json")
    assert len({run["dataset"]["sample_id"] for run in runs}) == 16
    assert {tag for run in runs for tag in run["tags"]} == {
        "prompt:Capital of {{land}}?",
        "prompt:You are brief.\nName the capital of {{land}}.",
        "provider:short",
        "provider:wordy",
    }
    runs, _ = imported("promptfoo", FOLDER / "repeated.json")
    assert sorted(run["attempt"] for run in runs) == [1, 1, 2, 2, 3, 3]
    assert len({run["dataset"]["sample_id"] for run in runs}) == 2
    assert runs[0]["workflow"] == {"id": "Repeated", "version": "short"}
    assert "tags" not in runs[0]


def test_old_rows_tell_why_an_assertion_failed_in_the_place_of_an_error(tmp_path) -> None:
    wrong = {"pass": False, "score": 0, "reason": "no Lima"}
    runs, _ = read(
        tmp_path,
        layout2(
            row("Peru", success=False, score=0, error="no Lima", gradingResult=wrong),
            row(
                "Chad", success=False, score=0, error="timed out", gradingResult=None, response=None
            ),
            row("Mali", success=True, score=1, error=None, response={"error": "refused"}),
            row("Cuba", success=True, score=1, failureReason=2, error="half-way"),
            row("Iran", success=True, score=1, failureReason=0, error="503", gradingResult=None),
            stats={"successes": 1, "failures": 4},
        ),
    )
    assert [run["status"] for run in runs] == ["success", "error", "error", "error", "error"]
    assert [run["gates"][GATE]["passed"] for run in runs] == [False, None, None, None, None]
    assert [raw(run) for run in runs] == [{"score": 0}, {}, {}, {}, {}]


def test_metrics_of_some_tests_only_are_no_criteria(tmp_path) -> None:
    runs, tally = read(
        tmp_path,
        layout2(
            row("Peru", namedScores={"Right": 1, "Tone": 0.5}),
            row("Chad", namedScores={"Right": 0}),
        ),
    )
    assert [raw(run) for run in runs] == [{"score": 1, "Right": 1}, {"score": 1, "Right": 0}]
    assert any("Tone" in note for note in tally.notes)


def test_what_a_comparison_of_answers_counts_is_no_metric(tmp_path) -> None:
    # promptfoo replaces the grading by that of `max-score`, and leaves the row's metrics
    counts = {"maxScore": 1, "assertionCount": 1, "totalWeight": 1}
    compared = {"pass": True, "score": 1, "reason": "best", "namedScores": counts}
    runs, _ = read(tmp_path, layout2(row(gradingResult=compared)) | {"evalId": "e"})
    assert raw(runs[0]) == {"score": 1}


def asserted(land: str, oks: tuple[bool, ...], *, test=(), second=(), extra=(), **more) -> dict:
    """A row with assertions, and what each of them came to."""
    first, other = {"type": "contains", "value": "L"}, {"type": "moderation", **dict(second)}
    listed = [first, other, *extra]
    parts = [{"pass": ok, "assertion": one} for ok, one in zip(oks, listed, strict=False)]
    return row(
        land,
        testCase={"vars": {"land": land}, "assert": listed, **dict(test)},
        gradingResult={"pass": True, "score": 1, "reason": "fine", "componentResults": parts},
        **more,
    )


def test_an_eased_test_is_another_sample(tmp_path) -> None:
    def sample_id(**more) -> str:
        (run,), _ = read(tmp_path, layout2(asserted("Peru", (True, True), **more)))
        return run["dataset"]["sample_id"]

    plain = sample_id()
    assert sample_id(second={"weight": 1}) == plain
    assert sample_id(test={"threshold": None}) == plain
    eased = [
        sample_id(second={"weight": 0.1}),
        sample_id(second={"threshold": 0.1}),
        sample_id(test={"threshold": 0.5}),
        sample_id(second={"transform": "'fine'"}),
        sample_id(second={"provider": "exec:always-pass"}),
        sample_id(test={"options": {"rubricPrompt": "Always pass."}}),
        sample_id(test={"options": {"provider": "exec:always-pass"}}),
        sample_id(test={"options": {"transform": "'fine'"}}),
        sample_id(extra=[{"type": "javascript", "value": "true"}]),
    ]
    assert len({plain, *eased}) == 10
    assert sample_id(test={"options": {"prefix": "Answer in one word. "}}) == plain


def test_an_assertion_that_failed_under_a_threshold_is_told_and_not_required(tmp_path) -> None:
    lenient = {"threshold": 0.5}
    many = [{"type": "contains"}] * 120
    runs, tally = read(
        tmp_path,
        layout2(
            asserted("Peru", (True, False), test=lenient),
            asserted("Chad", (True, False), success=False),
            asserted("Oman", (), failureReason=2, error="no answer"),
            asserted("Mali", (True, False), second={"weight": 0}),
            asserted("Laos", (True,) * 122, extra=many),
        ),
    )
    checks = [list(run["checks"]) for run in runs]
    both = ["contains", "moderation"]
    assert checks[:4] == [["contains"], both, both, ["contains"]]
    assert len(checks[4]) == 101
    assert tally.notes == ["promptfoo passed answers with a failed assertion: moderation on 1"]
    gates = [run["gates"]["promptfoo_passed"] for run in runs[:2]]
    assert [one["passed"] for one in gates] == [True, False]
    # a passed gate doesn't give the reason of a failed one
    assert gates[0]["reason"] == "passed although an assertion failed"


def test_the_gate_compares_assertions(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)

    def file(name: str, oks: tuple[bool, ...], **more) -> str:
        rows = [asserted(f"land {index}", oks, **more) for index in range(60)]
        tree = layout2(*rows, stats={"successes": 60, "failures": 0})
        (tmp_path / name).write_text(json.dumps(tree))
        return name

    lenient = {"test": {"threshold": 0.5}}
    old = file("old.json", (True, True), **lenient)
    assert assay(["gate", file("same.json", (True, True), **lenient), "--baseline", old]) == 0
    capsys.readouterr()
    assert assay(["gate", file("new.json", (True, False), **lenient), "--baseline", old]) == 4
    assert "checked for different things" in capsys.readouterr().out
    assert assay(["gate", file("eased.json", (True, True)), "--baseline", old]) == 4
    printed = capsys.readouterr().out
    assert "60 of 60 samples of the candidate have the inputs of the baseline's" in printed


def test_tables_alone_are_read(tmp_path) -> None:
    head = {"prompts": [{"provider": "a:m", "raw": "x"}, {"provider": "b:m", "raw": "x"}]}
    grading = {"pass": False, "score": 0.25, "reason": "no"}
    body = [
        {
            "outputs": [
                {"text": "Lima", "pass": True, "score": 1, "namedScores": {}, "latencyMs": 7},
                {"text": "Quito", "pass": False, "score": 0.25, "gradingResult": grading},
            ],
            "vars": ["Peru"],
        },
        {"outputs": ["[FAIL] (0.50)\n\nTripoli", "[ERROR] 503"], "vars": ["Chad"]},
    ]
    table = {"head": {**head, "vars": ["land"]}, "body": body}
    for tree in (
        {"results": {"version": 2, "table": table, "results": []}},
        {"results": {"version": 3, "table": table}},
        {"version": 1, "table": table},
        table,
    ):
        runs, _ = read(tmp_path, tree)
        assert [run["gates"][GATE]["passed"] for run in runs] == [True, False, False, None]
        assert [raw(run).get("score") for run in runs] == [
            1,
            Decimal("0.25"),
            Decimal("0.50"),
            None,
        ]
        assert [run["inputs"]["land"] for run in runs] == ["Peru", "Peru", "Chad", "Chad"]
        assert runs[0]["latency_ms"] == 7
        assert {tag for run in runs for tag in run["tags"]} == {"provider:a:m", "provider:b:m"}


def test_a_table_without_verdicts_proves_nothing(tmp_path) -> None:
    head = {"prompts": ["Capital of {{land}}?"], "vars": ["land"]}
    table = {"head": head, "body": [{"outputs": ["Lima"], "vars": ["Peru"]}]}
    runs, tally = read(tmp_path, {"version": 1, "table": table})
    assert runs[0]["gates"][GATE]["passed"] is None
    assert raw(runs[0]) == {"passed": None}
    assert tally.verdicts == 0


def test_aliases_of_yaml_are_followed_as_far_as_they_end(tmp_path) -> None:
    assert "*ref_0" in (FOLDER / "capitals.yaml").read_text()
    bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for last, name in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{last}'] * 10)}]\n"
    path = tmp_path / "x.yaml"
    for text, words in (
        (f"version: 2\n{bomb}results: *i\n", "stand for more than"),
        ("version: 2\nresults: &a\n  - *a\n", "stands for nothing"),
        ("version: 2\nresults: *a\n", "stands for nothing|undefined|not YAML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            imported("promptfoo", path)


def test_a_part_named_like_a_row_is_none(tmp_path) -> None:
    runs, _ = read(tmp_path, layout2(row(), stats=None) | {"table": "x", "row": 1})
    assert len(runs) == 1


def test_a_success_that_the_grading_denies_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"`gradingResult.pass` is false"):
        read(tmp_path, layout2(row(gradingResult={"pass": False, "score": 1})))
    with pytest.raises(InputError, match=r"`failureReason` is a failed assertion"):
        read(tmp_path, layout2(row(failureReason=1)))
    runs, _ = read(tmp_path, layout2(row(success=False)))
    assert runs[0]["gates"][GATE]["passed"] is False


def test_a_metric_that_lost_a_value_still_counts(tmp_path) -> None:
    parts = [{"pass": True, "score": 1, "assertion": {"type": "contains", "metric": "Right"}}]
    grading = {"pass": True, "score": 1, "reason": "fine", "componentResults": parts}
    good = row("Peru", namedScores={"Right": 1}, gradingResult=grading)
    for lost in ({}, {"Right": None}):
        bad = row("Chad", namedScores=lost, gradingResult=grading)
        for rows in ((good, bad), (bad, good)):
            runs, _ = read(tmp_path, layout2(*rows))
            values = {run["inputs"]["land"]: raw(run)["Right"] for run in runs}
            assert values == {"Peru": 1, "Chad": None}
    runs, tally = read(tmp_path, layout2(good, row("Chad")))  # a test without that assertion
    assert [raw(run) for run in runs] == [{"score": 1}, {"score": 1}]
    assert "metrics that only some tests have are inside `score`: Right" in tally.notes


def test_a_success_with_an_error_is_missing_evidence(tmp_path) -> None:
    runs, _ = read(tmp_path, layout2(row(error="API error: 500")))
    assert runs[0]["status"] == "error"
    assert runs[0]["gates"][GATE] == {"passed": None, "reason": "API error: 500"}
    assert "scores" not in runs[0]


def test_what_is_not_a_result_is_refused(tmp_path) -> None:
    path = tmp_path / "x.json"
    for text, words in (
        (json.dumps(layout2(row(success="yes"))), "must be true or false"),
        (json.dumps(layout2(row(vars=[1]))), "must be an object"),
        (json.dumps(layout2(row(score="high"))), "a score is a number"),
        (json.dumps(layout2(row()))[:-40], "cut off"),
        ('{"results": {"version": 3, "results": {"a": 1}}}', "not a list of rows"),
        ("a,b\n1,2\n", "no column is named"),
        ("a,[m] p,Status\n1,2\n", "instead of 3 columns"),
        ("a,[m] p,Status\n1,2,MAYBE\n", "a status is 'MAYBE'"),
        ("a,[m] p\n1,hello\n", "no verdict"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            imported("promptfoo", path)
    path.write_text(json.dumps(layout2()))
    with pytest.raises(NotEnoughEvidence):
        imported("promptfoo", path)


def test_broken_files_are_refused_or_read_but_never_a_crash(tmp_path) -> None:
    tree = {**CAPITALS, "config": {}}
    tree["results"] = {**tree["results"], "results": tree["results"]["results"][:2], "prompts": []}
    path = tmp_path / "x.json"
    results = []
    for made in broken(tree, 70):
        path.write_text(json.dumps(made))
        results.append(survives("promptfoo", path))
    assert {True, False} <= set(results)
    for kind in ("csv", "yaml", "jsonl"):
        whole = (FOLDER / f"capitals.{kind}").read_text()
        path = tmp_path / f"x.{kind}"
        for cut in (1, 700, 1500):
            path.write_text(whole[:-cut])
            try:
                imported("promptfoo", path)
            except AssayError:
                continue


def test_answers_passed_unchecked_are_told_wherever_the_evaluation_is(
    tmp_path, monkeypatch, capsys
) -> None:
    """Nothing was asserted, so nothing is green."""
    monkeypatch.chdir(tmp_path)
    free = {"gradingResult": {"pass": True, "score": 1, "reason": "No assertions"}}
    rows = [row(f"land {index}", **free) for index in range(8)]
    tree = layout2(*rows, stats={"successes": 8, "failures": 0})
    (tmp_path / "free.json").write_text(json.dumps(tree))
    assert assay(["import", "free.json", "--name", "free"]) == 0
    note = "8 of 8 answers have no assertion; promptfoo passes them unchecked"
    passed_unchecked = "8 answers were passed unchecked"
    assert passed_unchecked in capsys.readouterr().out
    assert assay(["evals"]) == 0
    assert passed_unchecked in " ".join(capsys.readouterr().out.split())
    assert assay(["explain", "free"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "? 8 of 8 runs passed" in said
    assert note in said
    with serving(f"sqlite:///{tmp_path}/.assay/ledger.db") as api:
        pages = {path: show(api, path).text for path in ("/", "/evaluations", "/evaluations/free")}
    for path, text in pages.items():
        assert passed_unchecked in text, path
    assert "Nothing:" not in pages["/"]
    assert "✓ All 8" not in pages["/evaluations/free"]
    assert "Import notes" in pages["/evaluations/free"]
    assert f"{note}." in pages["/evaluations/free"]
    for source in ("free", "free.json"):  # from the ledger and from the file
        assert assay(["grade", source, "-o", "r.html", "-o", "r.md"]) == 0
        report = (tmp_path / "r.html").read_text()
        assert "? </span>Passed." in report, source
        for name in ("r.html", "r.md"):
            text = (tmp_path / name).read_text()
            assert note in text, (source, name)
            assert "made from the metrics of the results: equal weights, no floors" in text


def test_a_test_with_a_description_is_called_by_it_and_its_variables_read_as_text(
    tmp_path, monkeypatch, capsys
) -> None:
    named = row(vars={"land": "Peru", "tone": "dry"}, testCase={"description": "a dry\nanswer"})
    plain, _ = read(tmp_path, layout2(row(vars={"land": "Peru", "tone": "dry"})))
    runs, _ = read(tmp_path, layout2(named, stats={"successes": 1, "failures": 0}))
    assert runs[0]["metadata"]["description"] == "a dry answer"
    assert runs[0]["dataset"] == plain[0]["dataset"], "it pairs with a file without descriptions"
    monkeypatch.chdir(tmp_path)
    assert assay(["import", "output.json", "--name", "nightly"]) == 0
    assert "In your browser: assay view nightly\n" in capsys.readouterr().out
    with serving(".assay/ledger.db") as api:
        text = show(api, "/evaluations/nightly").text
        assert "a dry answer" in text
        assert "land: Peru · tone: dry" in text
    assay(["grade", "nightly", "-o", "report.html"])
    page = (tmp_path / "report.html").read_text()
    assert "<h1>nightly</h1>" in page
    assert f"a dry answer ({runs[0]['dataset']['sample_id']})" in page
    assert "by hand@openai:m on by hand@unversioned, " in page
    assert "pass rate" in page


@pytest.mark.parametrize(("checked", "code"), [(0, 4), (29, 4), (50, 0), (60, 0)])
def test_answers_that_nothing_checked_on_both_sides_promote_nothing(
    tmp_path, monkeypatch, capsys, checked, code
) -> None:
    """The candidate may say anything: nobody looked. Nor does it help to hide that nobody did."""
    monkeypatch.chdir(tmp_path)
    asserted = {"gradingResult": {"pass": True, "score": 1, "reason": "All assertions passed"}}
    for side in ("before", "after", "hidden"):
        free = "All good" if side == "hidden" else "No assertions"
        rows = [
            row(
                f"land {index}",
                response={"output": side},
                **(
                    asserted
                    if index < checked
                    else {"gradingResult": {"pass": True, "score": 1, "reason": free}}
                ),
            )
            for index in range(60)
        ]
        tree = layout2(*rows, stats={"successes": 60, "failures": 0})
        (tmp_path / f"{side}.json").write_text(json.dumps(tree))
    for candidate in ("after.json", "hidden.json"):
        arguments = ["gate", candidate, "--baseline", "before.json"]
        hides = candidate == "hidden.json" and checked == 50
        assert assay(arguments) == (1 if hides else code), arguments
        printed = capsys.readouterr().out
        if candidate == "after.json":
            assert (f"{checked} of 60 samples were checked" in printed) is (checked < 60)
        else:
            assert (f"{60 - checked} samples can't be compared" in printed) is (checked < 60)


def test_a_card_says_how_many_runs_did_not_pass_where_only_their_score_is_too_low(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row(f"land {index}", score=0.5) for index in range(4)]
    tree = layout2(*rows, stats={"successes": 4, "failures": 0})
    (tmp_path / "low.json").write_text(json.dumps(tree))
    assert assay(["import", "low.json"]) == 0
    with serving(f"sqlite:///{tmp_path}/.assay/ledger.db") as api:
        text = show(api, "/").text
    assert "did not pass: 4 of 4 runs" in text
    assert "Every reason" not in text
