"""Datasets that grow: two versions are compared on the samples that are equal on both sides, and a
candidate never gains by dropping, changing or renaming one.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InputError
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.services.grading import Grader
from examples import repeats
from sides import DETERMINISTIC, POLICY, RULES, decide, verdicts

PROFILE = """
profile: plain
version: 1
title: One given score
family: plain
gates: [{id: looks_right, verdict: true}]
criteria: [{id: quality, label: quality, weight: 1, layer: 1, formula: zero_one}]
"""
N = 60
ORDER = {"reject": 0, "not_enough_evidence": 1, "hold": 2, "promote": 3}


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> Grader:
    path = tmp_path_factory.mktemp("profile") / "plain@1.yaml"
    path.write_text(PROFILE)
    return Grader(Shelf(), profile=str(path))


def run(
    sample: str, *, version: str = "1", score: float = 0.9, passed: bool = True, **changes: Any
) -> dict[str, Any]:
    return {
        "schema": "assay.run/1",
        "run_id": f"r-{version}-{sample}-{changes.get('attempt', 1)}",
        "workflow": {"id": "w", "version": "1"},
        "dataset": {"id": "d", "version": version, "sample_id": sample},
        "status": "success",
        "outputs": {"answer": "x"},
        "required_outputs": [],
        "required_inputs": [],
        "output_schema": True,
        "steps": [],
        "inputs": {"q": sample},
        "expected": {"answer": sample},
        "scores": {"quality": {"raw": score}},
        "gates": {"looks_right": {"passed": passed}},
        **changes,
    }


def runs(names: list[str], **changes: Any) -> list[dict[str, Any]]:
    return [run(name, **changes) for name in names]


def decided(
    grader: Grader,
    candidate: list[dict[str, Any]],
    baseline: list[dict[str, Any]],
    bars: Bars | None = None,
    rules: ReleaseRules = RULES,
    **asked: Any,
) -> Decision:
    return decide(candidate, baseline, rules=rules, bars=bars, grader=grader, **asked)


NAMES = [f"q-{number:02}" for number in range(N)]


def test_added_samples_leave_a_baseline_comparable(grader: Grader) -> None:
    new = [*runs(NAMES, version="2"), run("q-new", version="2", passed=False)]
    made = decided(grader, new, runs(NAMES))
    assert made.outcome == "promote"
    assert made.comparison.n_paired == N
    assert made.overlap
    assert (made.overlap.equal, made.overlap.share) == (N, 1.0)
    assert made.overlap.new == made.overlap.new_failing == ["d/q-new"]
    assert made.missing.baseline == []
    assert made.missing.only_candidate == ["d/q-new"]


def test_a_candidate_does_not_escape_its_pairs_by_another_version_of_the_dataset(
    grader: Grader,
) -> None:
    kept = runs(NAMES[1:], version="2")  # without the one that failed
    made = decided(grader, kept, runs(NAMES))
    assert (made.outcome, made.missing.candidate) == ("hold", ["d/q-00"])
    few = [*runs(NAMES[:9], version="2"), *runs([f"n-{name}" for name in NAMES], version="2")]
    assert decided(grader, few, runs(NAMES)).outcome != "promote"
    none = runs([f"n-{name}" for name in NAMES], version="2")
    assert decided(grader, none, runs(NAMES)).outcome == "not_enough_evidence"


def test_the_same_version_says_nothing_of_overlap(grader: Grader) -> None:
    made = decided(grader, runs(NAMES), runs(NAMES))
    assert not made.overlap
    assert "overlap" not in made.tree()
    assert "overrides" not in made.tree()


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": {"q": "easier"}},
        {"inputs": {"q": "easier"}, "expected": {"answer": "easier"}},
        {"inputs": {}},
    ],
)
def test_a_changed_sample_is_named_and_counts_as_lost(
    grader: Grader, change: dict[str, Any]
) -> None:
    candidate = [*runs(NAMES[1:], version="2"), run(NAMES[0], version="2", **change)]
    made = decided(grader, candidate, runs(NAMES))
    assert made.outcome == "hold"
    assert made.overlap
    assert made.overlap.changed == ["d/q-00"]
    assert made.missing.candidate == ["d/q-00"]
    assert decided(grader, candidate, runs(NAMES), rules=DETERMINISTIC).outcome == "reject"
    eased = decided(grader, candidate, runs(NAMES), Bars(min_overlap=0.9))
    assert eased.outcome == "promote"
    assert eased.overlap
    assert eased.overlap.changed_set_aside
    assert eased.overrides
    assert eased.overrides[0].eases
    assert eased.policy.startswith("release@1+")
    left_out = decided(grader, candidate, runs(NAMES), quarantine=("d/q-00",))
    assert left_out.outcome == "promote"
    for one in (eased, left_out):
        assert not any(text.startswith("Re-run the baseline") for text in one.would_change)


def test_the_samples_that_count_as_lost_are_to_be_run_again(grader: Grader) -> None:
    candidate = [*runs(NAMES[2:], version="2"), run(NAMES[1], version="2", inputs={"q": "easier"})]
    made = decided(grader, candidate, runs(NAMES))
    assert verdicts(made)["complete"] == "open"
    assert "Run the samples without results again: d/q-00, d/q-01." in made.would_change


def test_a_dropped_sample_counts_as_lost_whatever_the_overlap(grader: Grader) -> None:
    for bars in (None, Bars(min_overlap=0.5)):
        made = decided(grader, runs(NAMES[1:], version="2"), runs(NAMES), bars)
        assert made.outcome == "hold"
        assert made.overlap
        assert made.overlap.dropped == made.missing.candidate == ["d/q-00"]


def test_below_the_overlap_changed_samples_count_as_lost(grader: Grader) -> None:
    candidate = [
        *runs(NAMES[10:], version="2"),
        *(run(name, version="2", inputs={"q": "easier"}) for name in NAMES[:10]),
    ]
    made = decided(grader, candidate, runs(NAMES), Bars(min_overlap=0.9))
    assert made.outcome != "promote"
    assert made.overlap
    assert not made.overlap.changed_set_aside


def with_row(one: dict[str, Any], row: str) -> dict[str, Any]:
    return {**one, "dataset": {**one["dataset"], "row": row}}


def test_a_renamed_column_is_the_same_row(grader: Grader) -> None:
    before = [with_row(run(name), f"row of {name}") for name in NAMES]
    after = [
        with_row(run(name, version="2", inputs={"q": name, "tone": "calm"}), f"row of {name}")
        for name in NAMES
    ]
    made = decided(grader, after, before)
    assert made.overlap
    assert (made.overlap.equal, made.outcome) == (N, "promote")


def test_an_edited_sample_is_changed_also_under_the_same_version(grader: Grader) -> None:
    before = [with_row(run(name), f"row of {name}") for name in NAMES]
    edited = with_row(run(NAMES[0], inputs={"q": "easier"}), "another row")
    made = decided(grader, [edited, *before[1:]], before)
    assert made.outcome == "hold"
    assert made.overlap
    assert made.overlap.changed == ["d/q-00"]
    noted = with_row(run(NAMES[0]), "a column of notes more")
    assert not decided(grader, [noted, *before[1:]], before).overlap


def test_a_row_with_another_expected_value_is_the_same_sample(grader: Grader) -> None:
    before = [with_row(run(name), f"row of {name}") for name in NAMES]
    after = [with_row(run(name, version="2"), f"row of {name}") for name in NAMES]
    after[0] = with_row(run(NAMES[0], version="2", expected={"answer": "new"}), "edited row")
    made = decided(grader, after, before)
    assert made.overlap
    assert (made.overlap.changed, made.overlap.corrected) == ([], ["d/q-00"])
    assert made.outcome == "promote"


@pytest.mark.parametrize(
    ("version", "row", "change"),
    [
        ("1", None, {"inputs": {"q": "easier"}}),
        ("1", None, {"inputs": None}),
        ("1", None, {"inputs": None, "expected": None}),
        ("1", "row of q-00", {"inputs": {"q": "easier"}}),
        ("1", "row of q-00", {"inputs": {"renamed": "easier"}}),
        ("1", "row of q-00", {"expected": {"answer": "easier"}}),
        ("2", "row of q-00", {"inputs": {"q": "easier"}}),
        ("2", "row of q-00", {"expected": {"answer": "easier"}}),
    ],
)
def test_a_candidate_can_not_hide_a_changed_sample_behind_its_row(
    grader: Grader, version: str, row: str | None, change: dict[str, Any]
) -> None:
    before = [with_row(run(name), f"row of {name}") for name in NAMES]
    after = [with_row(run(name, version=version), f"row of {name}") for name in NAMES]
    edited = run(NAMES[0], version=version, **change)
    after[0] = edited if row is None else with_row(edited, row)
    made = decided(grader, after, before)
    assert made.outcome == "hold"
    assert made.overlap
    assert made.overlap.changed == ["d/q-00"]
    assert decided(grader, after, before, rules=DETERMINISTIC).outcome == "reject"


def test_runs_without_a_row_are_compared_by_what_they_were_given(grader: Grader) -> None:
    before = [with_row(run(name), f"row of {name}") for name in NAMES]
    assert not decided(grader, runs(NAMES), before).overlap
    assert not decided(grader, before, runs(NAMES)).overlap
    bare = runs(NAMES, inputs=None, expected=None)
    assert decided(grader, bare, bare).outcome == "promote"


def test_other_inputs_under_the_names_of_the_baseline_are_noted(grader: Grader) -> None:
    easier = [*runs(NAMES[1:]), run(NAMES[0], inputs={"q": "easier"})]
    made = decided(grader, easier, runs(NAMES))
    assert any(
        f"1 of {N} pairs have different inputs on the two sides, for example d/q-00" in note
        for note in made.notes or ()
    )
    same = decided(grader, runs(NAMES, score=0.91), runs(NAMES))
    assert not any("different inputs" in note for note in same.notes or ())


def test_another_dataset_or_unknown_content_is_refused(grader: Grader) -> None:
    other = [{**one, "dataset": {**one["dataset"], "id": "e"}} for one in runs(NAMES)]
    bare = [
        {key: value for key, value in one.items() if key not in ("inputs", "expected")}
        for one in runs(NAMES, version="2")
    ]
    with pytest.raises(InputError, match="cannot be compared: dataset"):
        decided(grader, bare, runs(NAMES))
    assert decided(grader, other, runs(NAMES)).outcome == "not_enough_evidence"
    changed = runs(NAMES, version="2", inputs={"q": "other"}, expected=None)
    assert decided(grader, changed, runs(NAMES, expected=None)).outcome != "promote"


def test_repeats_that_disagree_on_their_sample_are_not_equal(grader: Grader) -> None:
    repeated = [
        run(name, version=version, attempt=number, inputs={"q": f"{name}{odd}"})
        for version, odd in (("2", ""),)
        for name in NAMES
        for number in (1, 2)
    ]
    repeated[1]["inputs"] = {"q": "easier"}
    before = [run(name, attempt=number) for name in NAMES for number in (1, 2)]
    made = decided(grader, repeated, before)
    assert made.overlap
    assert made.overlap.changed == ["d/q-00"]


# --- laws

marks = st.lists(st.tuples(st.sampled_from([0.2, 0.8, 0.9]), st.booleans()), min_size=N, max_size=N)
touched = st.dictionaries(
    st.integers(0, N - 1), st.sampled_from(["drop", "change", "rename"]), min_size=1, max_size=5
)


@settings(max_examples=repeats(5, 300))
@given(marks=marks, touched=touched)
def test_a_candidate_never_gains_by_dropping_changing_or_renaming_samples(
    grader: Grader, marks: list[tuple[float, bool]], touched: dict[int, str]
) -> None:
    baseline = runs(NAMES, score=0.85)
    honest, touched_up = [], []
    for index, (name, (score, passed)) in enumerate(zip(NAMES, marks, strict=True)):
        own = run(name, version="2", score=score, passed=passed)
        honest.append(own)
        how = touched.get(index)
        if how == "change":
            touched_up.append(run(name, version="2", score=1, inputs={"q": "easier"}))
        elif how == "rename":
            touched_up.append(run(f"{name}-b", version="2", score=1))
        elif how is None:
            touched_up.append(own)
    before, after = (decided(grader, one, baseline) for one in (honest, touched_up))
    assert ORDER[after.outcome] <= ORDER[before.outcome]


@settings(max_examples=repeats(4, 200))
@given(marks=marks, more=st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=8))
def test_growth_changes_no_outcome(
    grader: Grader, marks: list[tuple[float, bool]], more: list[tuple[float, bool]]
) -> None:
    baseline = runs(NAMES, score=0.85)
    plain = [
        run(name, version="2", score=score, passed=passed)
        for name, (score, passed) in zip(NAMES, marks, strict=True)
    ]
    grown = plain + [
        run(f"new-{number}", version="2", score=round(score, 3), passed=passed)
        for number, (score, passed) in enumerate(more)
    ]
    one, two = decided(grader, plain, baseline), decided(grader, grown, baseline)
    assert one.outcome == two.outcome
    assert one.comparison.difference == two.comparison.difference


# --- bars of a decision


def test_the_least_pass_rate_counts_lost_samples_and_not_new_ones(grader: Grader) -> None:
    baseline = runs(NAMES)
    candidate = [*runs(NAMES[1:], version="2"), run("new", version="2")]
    for least, confidence, said in [
        (0.98, None, "holds"),
        (0.99, None, "violated"),
        (0.95, 0.95, "open"),
        (0.80, 0.95, "holds"),
    ]:
        bars = Bars(min_pass_rate=least, confidence=confidence)
        made = decided(grader, candidate, baseline, bars)
        rule = made.rules[-1]
        assert rule.id == "pass_rate"
        assert (rule.evidence["passed"], rule.evidence["n"]) == (N - 1, N)
        assert verdicts(made)["pass_rate"] == said
        assert made.overrides
        assert not made.overrides[0].eases


def test_a_tolerance_is_shown_and_marks_the_policy(grader: Grader) -> None:
    candidate, baseline = runs(NAMES, score=0.86), runs(NAMES)
    assert decided(grader, candidate, baseline).outcome == "reject"
    made = decided(grader, candidate, baseline, Bars(tolerance=5))
    assert made.outcome == "promote"
    assert made.policy.startswith("release@1+")
    assert made.grading_system.count("+") == 1
    (override,) = made.overrides or []
    assert (override.field, override.policy, override.used, override.eases) == (
        "tolerance",
        3.0,
        5.0,
        True,
    )


def test_a_policy_with_bars_is_another_policy_than_without() -> None:
    plain = make_release_rules(POLICY)
    assert plain.policy == "release@1"
    assert plain.min_overlap == Fraction(1)
    barred = make_release_rules(POLICY, Bars(min_pass_rate=0.9))
    other = make_release_rules(POLICY, Bars(min_pass_rate=0.91))
    assert len({plain.policy, barred.policy, other.policy}) == 3


# --- the command


def write(path: Path, documents: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return str(path)


def test_gate_takes_bars_and_says_what_was_eased(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "plain@1.yaml").write_text(PROFILE)
    baseline = write(tmp_path / "b.jsonl", runs(NAMES))
    candidate = write(
        tmp_path / "c.jsonl",
        [*runs(NAMES, version="2", score=0.86), run("new", version="2", passed=False)],
    )
    common = ("gate", candidate, "--baseline", baseline, "--profile", "plain@1.yaml")
    assert assay(*common).code == 1
    found = assay(*common, "--tolerance", "5", "-o", "d.html", "-o", "d.md")
    assert found.code == 0, found.err
    for page in ("d.html", "d.md"):
        assert "easier to pass" in (tmp_path / page).read_text()
    assert (
        "tolerance is 5 for this decision, which is easier to pass; the policy sets 3" in found.out
    )
    assert "1 sample, not compared; 1 of them fail a gate: d/new" in found.out
    assert assay(*common, "--tolerance", "5", "--min-pass-rate", "0.98").code == 0
    few = assay(
        *common, "--tolerance", "5", "--min-pass-rate", "0.95", "--confidence", "0.95", "--json"
    )
    assert (few.code, json.loads(few.out)["outcome"]) == (1, "hold")
    for wrong in (["--tolerance", "-1"], ["--min-overlap", "2"], ["--confidence", "0.9"]):
        assert assay(*common, *wrong).code == 2


def test_a_decision_with_bars_can_be_stored_replayed_and_attested(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "own" / "profiles").mkdir(parents=True)
    (tmp_path / "own" / "profiles" / "plain@1.yaml").write_text(PROFILE)
    baseline = write(tmp_path / "b.jsonl", runs(NAMES))
    candidate = write(tmp_path / "c.jsonl", runs(NAMES, version="2", score=0.86))
    more = ("--store", "sqlite:///l.db", "--profile", "plain@1", "--library", "own", "--json")
    found = assay(
        "gate", candidate, "--baseline", baseline, "--tolerance", "5", "--attest", "a.json", *more
    )
    assert found.code == 0, found.err
    listed = assay("ledger", "verify", "--db", "sqlite:///l.db")
    assert listed.code == 0, listed.err
    import base64

    envelope = json.loads((tmp_path / "a.json").read_text())
    terms = json.loads(base64.b64decode(envelope["payload"]))["predicate"]["assay:terms"]
    assert terms["overrides"][0]["field"] == "tolerance"
