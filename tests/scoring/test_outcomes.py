"""Outcomes of tests as SWE-bench counts them, with every denominator; and nothing resolved that was
not tested.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document
from assay.formulas import normalise
from assay.records.reading import read_run
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.metrics.operations import OPERATIONS
from assay.scoring.metrics.outcomes import (
    OUTCOMES,
    Instance,
    Share,
    read_instances,
    read_report,
    resolution,
    summarise,
)
from documents import run

if TYPE_CHECKING:
    from pathlib import Path

MEASURES = {measure.id: measure for measure in (*OUTCOMES, *OPERATIONS)}


def line(
    name: str = "i-1",
    first: tuple[int, int] = (1, 0),
    second: tuple[int, int] = (1, 0),
    **more: Any,
) -> dict[str, Any]:
    """An instance with so many passed and failed tests of each kind."""

    def named(kind: str, counts: tuple[int, int]) -> dict[str, list[str]]:
        return {
            "passed": [f"{kind}-p{index}" for index in range(counts[0])],
            "failed": [f"{kind}-f{index}" for index in range(counts[1])],
        }

    return {
        "instance_id": name,
        "fail_to_pass": named("f", first),
        "pass_to_pass": named("p", second),
        **more,
    }


def summary(*trees: Any) -> dict[str, Any]:
    return summarise(
        read_instances(
            [Document(tree, "tests.jsonl", index) for index, tree in enumerate(trees, 1)]
        )
    )


# --- against the tool of the field


def test_every_status_and_every_mean_is_swebenchs(shared: Path) -> None:
    home = shared / "data/swe_bench_docker"
    expected = json.loads((home / "expected.json").read_text())
    cases = json.loads((home / "check_harness_cases.json").read_text())
    found = summary(cases)
    assert {
        name: f"RESOLVED_{item['status'].upper()}" for name, item in found["instances"].items()
    } == expected["status"]
    assert found["counts"]["all"] == expected["n"] == 63
    assert (found["counts"]["full"], found["counts"]["partial"], found["counts"]["no"]) == (
        58,
        0,
        5,
    )
    assert found["rates"]["resolved"] == expected["resolved_rate"]
    for ours, theirs in (("fail_to_pass", "f2p"), ("pass_to_pass", "p2p")):
        assert found["rates"][f"{ours}_mean"] * 100 == pytest.approx(
            expected[f"{theirs}_mean_over_instances_pct"], abs=1e-9
        )
        assert found["rates"][f"{ours}_pooled"] * 100 == pytest.approx(
            expected[f"{theirs}_pooled_tests_pct"], abs=1e-9
        )


def test_lines_say_what_the_report_says(shared: Path) -> None:
    cases = json.loads((shared / "data/swe_bench_docker/check_harness_cases.json").read_text())
    made: list[dict[str, Any]] = []
    for name, case in cases.items():
        made.append({"instance_id": name})
        for kind in ("fail_to_pass", "pass_to_pass"):
            made[-1][kind] = {
                "passed": case[kind.upper()]["success"],
                "failed": case[kind.upper()]["failure"],
            }
    assert summary(*made) == summary(cases)
    assert summary(
        {
            name: {"patch_exists": True, "patch_successfully_applied": True, "tests_status": case}
            for name, case in cases.items()
        }
    ) == summary(cases)


@pytest.mark.parametrize("name", ["20240402_sweagent_gpt4", "auto-code-rover-run-1"])
def test_a_report_has_the_published_counts_and_the_published_rates(shared: Path, name: str) -> None:
    home = shared / "data/swe_bench_docker"
    expected = json.loads((home / "expected.json").read_text())["reports"][name]
    found = read_report(json.loads((home / f"reports/{name}.report.json").read_text()))
    assert {key: found["counts"][key] for key in expected["report_counts"]} == expected[
        "report_counts"
    ]
    table = expected["published_table"]
    assert (
        round(found["rates"]["resolved_of_applied"] * 100, 2)
        == table["Patch Apply Success"]["yes_pct"]
    )
    assert (
        round(found["rates"]["resolved_of_generated"] * 100, 2)
        == table["Patch Apply Success + Failure"]["yes_pct"]
    )
    assert (
        found["rates"]["resolved"]
        <= found["rates"]["resolved_of_generated"]
        <= found["rates"]["resolved_of_applied"]
    )


# --- laws

COUNTS = st.tuples(st.integers(0, 4), st.integers(0, 4))


@given(COUNTS, COUNTS)
def test_the_status_is_the_one_the_harness_computes(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    f2p = first[0] / sum(first) if sum(first) else 1
    p2p = second[0] / sum(second) if sum(second) else 1
    expected = "full" if f2p == 1 and p2p == 1 else "partial" if 0 < f2p < 1 and p2p == 1 else "no"
    assert resolution(Share(first[0], sum(first)), Share(second[0], sum(second))) == expected
    assert summary(line(first=first, second=second))["instances"]["i-1"] == {
        "status": expected,
        "fail_to_pass": f2p,
        "pass_to_pass": p2p,
    }


@given(
    st.lists(
        st.tuples(COUNTS, COUNTS, st.sampled_from(["applied", "generated", "nothing"])),
        min_size=1,
        max_size=8,
    )
)
def test_counts_add_up_and_a_patch_that_did_not_apply_resolves_nothing(
    drawn: list[tuple[Any, Any, str]],
) -> None:
    trees = [
        line(f"i-{index}", first, second, generated=how != "nothing", applied=how == "applied")
        for index, (first, second, how) in enumerate(drawn)
    ]
    found = summary(*trees)
    counts, rates = found["counts"], found["rates"]
    assert counts["full"] + counts["partial"] + counts["no"] == counts["all"] == len(drawn)
    assert counts["resolved"] <= counts["applied"] <= counts["generated"] <= counts["all"]
    for tree, (_, _, how) in zip(trees, drawn, strict=True):
        if how != "applied":
            assert found["instances"][tree["instance_id"]]["status"] == "no"
    for name, count in (
        ("resolved", "all"),
        ("resolved_of_generated", "generated"),
        ("resolved_of_applied", "applied"),
    ):
        assert rates[name] == (counts["resolved"] / counts[count] if counts[count] else None)
        assert (rates[name] is None) == (name in found.get("reasons", {}))


def test_an_instance_without_tests_counts_as_swebench_counts_it_and_is_named_as_such() -> None:
    found = summary(line(first=(0, 0), second=(0, 0)))
    assert found["counts"]["full"] == 1
    assert found["counts"]["without_tests"] == 1
    assert found["rates"]["fail_to_pass_pooled"] is None
    assert found["reasons"]["fail_to_pass_pooled"] == "there are no such tests"


def test_an_instance_without_a_patch_needs_no_tests() -> None:
    found = summary({"instance_id": "a", "generated": False}, line("b"))
    assert found["instances"]["a"] == {"status": "no", "fail_to_pass": None, "pass_to_pass": None}
    assert found["rates"] == {
        "resolved": 0.5,
        "resolved_of_generated": 1.0,
        "resolved_of_applied": 1.0,
        "fail_to_pass_mean": 1.0,
        "fail_to_pass_pooled": 1.0,
        "pass_to_pass_mean": 1.0,
        "pass_to_pass_pooled": 1.0,
    }


# --- what is refused


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            {**line(), "fail_to_pass": {"passed": ["t"], "failed": ["t"]}},
            "'t' appears among the passed and among the failed",
        ),
        ({**line(), "fail_to_pass": {"passed": ["t", "t"], "failed": []}}, "'t' appears twice"),
        ({**line(), "pass_to_pass": {"passed": ["t"]}}, "both lists of strings"),
        ({**line(), "pass_to_pass": {"passed": [1], "failed": []}}, "both lists of strings"),
        ({**line(), "pass_to_pass": {"passed": 3, "failed": 0}}, "both lists of strings"),
        (
            {"instance_id": "a", "fail_to_pass": {"passed": [], "failed": []}},
            "pass_to_pass: must be",
        ),
        ({**line(), "applied": "yes"}, "must be true or false"),
        ({**line(), "generated": False, "applied": True}, "cannot have applied"),
        (
            {
                "fail_to_pass": {"passed": [], "failed": []},
                "pass_to_pass": {"passed": [], "failed": []},
            },
            '"instance_id"',
        ),
        ({"instance_id": 7}, '"instance_id"'),
        ("text", '"instance_id"'),
    ],
)
def test_a_line_that_contradicts_itself_is_refused(tree: Any, message: str) -> None:
    with pytest.raises(InputError) as refused:
        summary(line("other"), tree)
    assert [fault.line for fault in refused.value.faults] == [2]
    assert message in refused.value.message
    assert refused.value.code == "SCO-034"


def test_an_instance_stands_once_and_no_instance_is_no_rate() -> None:
    with pytest.raises(InputError, match="appears twice"):
        summary(line(), line())
    with pytest.raises(NotEnoughEvidence):
        summary()


@pytest.mark.parametrize(
    "tree",
    [
        [],
        {},
        {"generated": ["a"], "applied": ["b"], "resolved": []},
        {"generated": ["a"], "applied": [], "resolved": ["a"]},
        {"generated": 3, "applied": [], "resolved": []},
    ],
)
def test_a_report_that_contradicts_itself_is_refused(tree: Any) -> None:
    with pytest.raises(InputError) as refused:
        read_report(tree)
    assert refused.value.code == "SCO-034"


NEW = {
    "total_instances": 5,
    "submitted_instances": 4,
    "completed_instances": 2,
    "resolved_instances": 1,
    "unresolved_instances": 1,
    "empty_patch_instances": 1,
    "error_instances": 1,
    "schema_version": 2,
    "submitted_ids": ["a", "b", "c", "d"],
    "completed_ids": ["a", "b"],
    "resolved_ids": ["a"],
    "unresolved_ids": ["b"],
    "empty_patch_ids": ["c"],
    "error_ids": ["d"],
}


def test_the_newer_report_of_swebench_is_read_with_every_denominator() -> None:
    found = read_report(NEW)
    assert {key: found["counts"][key] for key in ("all", "generated", "applied", "resolved")} == {
        "all": 5,
        "generated": 3,
        "applied": 2,
        "resolved": 1,
    }
    assert found["rates"] == {
        "resolved": 0.2,
        "resolved_of_generated": 1 / 3,
        "resolved_of_applied": 0.5,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"resolved_instances": 2},
        {"resolved_ids": ["a", "a"], "resolved_instances": 2},
        {"resolved_ids": ["b"]},
        {"resolved_ids": ["d"]},
        {"resolved_ids": "a"},
        {"completed_ids": ["a", "z"]},
        {"total_instances": "many"},
        {"submitted_ids": None},
    ],
)
def test_a_newer_report_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError) as refused:
        read_report({**NEW, **changes})
    assert refused.value.code == "SCO-034"


@pytest.mark.parametrize(
    ("first", "second"), [((1, 1), (1, 0)), ((1, 0), (1, 1)), ((0, 1), (1, 0))]
)
def test_a_resolved_that_the_lists_do_not_support_is_refused(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    with pytest.raises(InputError, match="says resolved: true"):
        summary(line(first=first, second=second, resolved=True))
    with pytest.raises(InputError, match="says resolved: false"):
        summary(line(resolved=False))
    with pytest.raises(InputError, match="says resolved: true"):
        summary(line(generated=False, resolved=True))
    assert summary(line(first=first, second=second, resolved=False))["counts"]["resolved"] == 0
    assert summary(line(resolved=True))["counts"]["resolved"] == 1


def test_a_report_is_measured_and_held_against_the_lists(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps(NEW))
    done = assay("measure", "tests", "report.json", "--json")
    assert done.code == 0, done.err
    assert done.json()["counts"]["resolved"] == 1
    rows = [
        line("a"),
        line("b", first=(0, 1)),
        line("c", generated=False),
        line("d", applied=False),
    ]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert assay("measure", "tests", "results.jsonl", "--report", "report.json").code == 0
    (tmp_path / "results.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [line("a", second=(1, 1)), *rows[1:]])
    )
    refused = assay("measure", "tests", "results.jsonl", "--report", "report.json")
    assert refused.code == 3
    assert (
        "'a' is resolved according to the report, but not according to its lists of tests"
        in refused.err
    )


# --- measures of one run


def take(name: str, **changes: Any) -> Any:
    return MEASURES[name].take(read_run(Document(run(**changes), "test")), MEASURES[name].params)


def tallies(first: tuple[int, int], second: tuple[int, int]) -> dict[str, Any]:
    return {
        "fail_to_pass": {"passed": first[0], "total": first[1]},
        "pass_to_pass": {"passed": second[0], "total": second[1]},
    }


def test_a_run_is_resolved_where_all_its_tests_pass() -> None:
    assert take("tests_resolved", tests=tallies((2, 2), (9, 9))) == 1
    assert take("tests_resolved", tests=tallies((1, 2), (9, 9))) == 0
    assert take("tests_resolved", tests=tallies((2, 2), (8, 9))) == 0
    assert take("tests_resolved", tests=tallies((2, 2), (9, 9)), patch_applies=False) == 0
    assert take("fail_to_pass", tests=tallies((1, 2), (9, 9))) == {"passed": 1, "total": 2}


def test_without_tests_nothing_is_resolved() -> None:
    for given_tests in (None, {"fail_to_pass": {"passed": 1, "total": 1}}, tallies((0, 0), (9, 9))):
        assert isinstance(take("tests_resolved", tests=given_tests), Undetermined)
    assert isinstance(take("pass_to_pass", tests=tallies((1, 1), (0, 0))), Undetermined)


def step(status: str = "success", **more: Any) -> dict[str, Any]:
    return {"name": "s", "status": status, **more}


def test_operations_are_read_off_the_steps() -> None:
    steps = [step(duration_ms=index, retries=1, tokens=10) for index in range(1, 21)]
    assert take("tokens", steps=steps) == 200
    assert take("tokens", steps=steps, tokens=7) == 7
    assert take("retries", steps=steps) == 20
    assert take("retry_amplification", steps=steps) == 2
    beyond = take("retry_amplification", steps=[step(retries=10**400)])
    assert isinstance(beyond, Undetermined)
    assert take("step_duration_p50", steps=steps) == 10
    assert take("step_duration_p95", steps=steps) == 19
    mixed = [
        step(),
        step("failed"),
        step("timeout"),
        step("error"),
        step("skipped", critical=False),
    ]
    assert take("step_failure_rate", steps=mixed) == 0.75
    assert take("infrastructure_stability", steps=mixed) == {"passed": 2, "total": 4}


@pytest.mark.parametrize(
    "name",
    [
        "tokens",
        "retries",
        "retry_amplification",
        "step_failure_rate",
        "infrastructure_stability",
        "step_duration_p50",
        "step_duration_p95",
    ],
)
@pytest.mark.parametrize("steps", [None, [], [step("skipped")], [step("skipped", critical=False)]])
def test_what_no_step_says_is_undetermined(name: str, steps: Any) -> None:
    found = take(name, steps=steps)
    assert isinstance(found, Undetermined)
    assert found.reason


@given(
    st.lists(st.integers(0, 10**6), min_size=1),
    st.sampled_from(["step_duration_p50", "step_duration_p95"]),
)
def test_a_percentile_is_a_duration_that_was_seen(durations: list[int], name: str) -> None:
    found = take(name, steps=[step(duration_ms=value) for value in durations])
    assert found in durations
    assert sum(value <= found for value in durations) * 100 >= len(durations) * int(name[-2:])


@pytest.mark.parametrize("measure", list(MEASURES.values()))
def test_every_raw_score_is_one_its_formula_reads_and_every_sheet_is_full(measure: Any) -> None:
    steps = [step(duration_ms=5, retries=1, tokens=10)]
    raw = take(measure.id, steps=steps, cost_usd=0.1)
    assert (
        0
        <= normalise(
            raw,
            measure.formula,
            {"slo_good": 1, "slo_bad": 9} if measure.formula == "lower_is_better" else {},
        )
        <= 10**9
    )
    if measure.id not in ("latency", "cost"):
        sheet = measure.sheet()
        assert all(
            sheet[key]
            for key in ("title", "unit", "direction", "evidence", "absence", "range", "limits")
        )


def test_an_instance_is_a_plain_record() -> None:
    assert Instance("a", Share(1, 1), Share(0, 0), True, True).status() == "full"
