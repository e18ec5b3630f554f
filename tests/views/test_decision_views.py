"""What people read of a decision: what newly fails first, under names that they know, with what may
be noise called so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assay.records.decision import (
    ContractChange,
    Decision,
    MissingSamples,
    OperationDifference,
    RuleResult,
)
from assay.records.evidence import title_of
from assay.records.samples import (
    SampleAnswer,
    SampleEvidence,
    SampleGrade,
    SampleTexts,
    TextCollector,
)
from assay.views.blocks import Details, Section
from assay.views.decision import (
    NO_LINKS,
    cleared_line,
    confidence,
    confirmation_lines,
    confirmation_section,
    could_not_see,
    criteria_table,
    decision_summary,
    decision_view,
    doubled,
    failure_facts,
    failures_section,
    new_failures,
    rule_word,
    sample_label,
    suspect_verdict,
)
from assay.views.text import text_view
from decisions import confirmation, counted, decided, decision, rule, suspect
from documents import run

HASH = "pf/4ac6a20b5d6e"


def failing(made: Decision) -> list[tuple[str, bool]]:
    return [(item.sample, item.shown) for item in new_failures(made)]


# --- what newly fails


def test_severe_failures_come_first_then_what_is_confirmed_then_what_may_be_noise() -> None:
    made = decision(
        "reject",
        rules=[
            rule("new_failures", holds=False, p=0.5),
            rule("severe_failures", holds=False, samples=["s/9"]),
        ],
        confirmation=confirmation(
            suspect("s/1"),
            suspect("s/2", "confirmed"),
            suspect("s/3", "flaky"),
            suspect("s/4", "baseline_fails_too"),
            suspect("s/5", "confirmed", accepted="known (ann)"),
        ),
    )
    assert failing(made) == [("s/9", True), ("s/2", True), ("s/1", False), ("s/5", True)]
    assert new_failures(made)[-1].accepted == "known (ann)"
    assert "2 samples cleared by fresh runs: s/3, s/4" in cleared_line(made)


def test_what_fell_most_comes_first_among_alike() -> None:
    worst = decided()[0].worse[0]
    made = decision(
        "hold",
        None,
        worse=[replace(worst, sample="s/3"), replace(worst, sample="s/2")],
        confirmation=confirmation(*(suspect(f"s/{n}") for n in (1, 2, 3))),
    )
    assert [name for name, _ in failing(made)] == ["s/3", "s/2", "s/1"]


@pytest.mark.parametrize(
    ("holds", "verdicts", "shown"),
    [
        (None, ["open"], [False]),
        (False, ["open"], [True]),  # more runs fail over all samples
        (False, ["open", "confirmed"], [True, False]),
    ],
)
def test_a_failure_is_shown_where_it_is_confirmed_or_the_runs_fail_more_often_together(
    holds: bool | None, verdicts: list[str], shown: list[bool]
) -> None:
    suspects = [suspect(f"s/{n}", verdict) for n, verdict in enumerate(verdicts)]
    made = decision(
        "hold", rules=[rule("new_failures", holds=holds)], confirmation=confirmation(*suspects)
    )
    assert [known for _, known in failing(made)] == shown


def test_a_sample_with_one_confirmed_check_is_not_called_cleared() -> None:
    made = decision(
        "reject", confirmation=confirmation(suspect("s/1", "confirmed"), suspect("s/1", "flaky"))
    )
    assert cleared_line(made) == ""


def test_checks_of_a_sample_that_fared_alike_are_one_line() -> None:
    alike = [suspect("s/1", check=check) for check in ("gate a", "floor b", "pass")]
    other = suspect("s/1", check="gate c", first=counted(0, 2, 2))
    assert [len(line) for line in confirmation_lines([*alike, other])] == [3, 1]
    text = text_view(decision_summary(decision("hold", None, confirmation=confirmation(*alike))))
    assert "gate a, floor of b" in text


def test_what_fresh_runs_cleared_is_folded_and_what_is_open_is_not() -> None:
    made = decision(
        "hold", None, confirmation=confirmation(suspect("s/1"), suspect("s/2", "flaky"))
    )
    section = confirmation_section(made, NO_LINKS)
    assert section is not None
    folded = [part for part in section.parts if isinstance(part, Details)]
    assert ["s/2" in part.summary for part in folded] == [True]


def test_no_verdict_but_a_cleared_one_looks_good() -> None:
    signs = {
        verdict: suspect_verdict(suspect("s/1", verdict)).values[1]
        for verdict in ("confirmed", "flaky", "baseline_fails_too", "open")
    }
    assert signs == {
        "confirmed": "bad",
        "flaky": "good",
        "baseline_fails_too": "good",
        "open": "open",
    }
    accepted = suspect_verdict(suspect("s/1", "confirmed", accepted="ok"))
    assert accepted.values[1] == "open"


def test_of_many_samples_the_first_are_open_and_the_others_folded() -> None:
    suspects = [suspect(f"s/{n:03}", "confirmed") for n in range(120)]
    made = decision("reject", False, confirmation=confirmation(*suspects))
    section = failures_section(made, {}, NO_LINKS)
    assert section is not None
    first, rest, left = section.parts
    assert len(first.entries) == 5
    assert len(rest.parts[0].entries) == 45
    assert "70 more" in left.text
    assert failures_section(decision("promote", True), {}, NO_LINKS) is None


# --- names


def test_a_title_stands_for_a_hash_and_beside_an_id_that_says_something() -> None:
    made = decision("hold", None, titles={HASH: "refund after 30 days", "s/q1": "opening hours"})
    assert sample_label(made, HASH) == "refund after 30 days"
    assert sample_label(made, "s/q1") == "opening hours (s/q1)"
    assert sample_label(made, "s/q2") == "s/q2"
    assert title_of({"description": "a\n  b"}) == "a b"
    assert title_of({"description": 3}) == ""


def test_no_text_of_a_decision_shows_a_hash_where_the_tool_had_a_title(
    assay: Any, tmp_path: Path
) -> None:
    for name, failing_ones in (("old", ()), ("new", range(8))):
        runs = [
            run(
                "rag",
                run_id=f"{name}-{n}",
                dataset={"id": "pf", "version": "1", "sample_id": f"4ac6a20b5{n:03x}"},
                inputs={"question": f"question {n}"},
                metadata={"description": f"case number {n}"},
                **({"claims": None, "scores": {}} if n in failing_ones else {}),
            )
            for n in range(60)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, runs)))
    outputs = [word for kind in ("md", "xml", "json") for word in ("-o", f"d.{kind}")]
    done = assay("gate", "new.jsonl", "--baseline", "old.jsonl", *outputs)
    assert done.code == 1, done.err
    record = json.loads((tmp_path / "d.json").read_text())
    assert record["titles"]["pf/4ac6a20b5003"] == "case number 3"
    shown = done.out.rpartition("policy release@1")[0]  # a command names a sample by its id
    for text in (shown, (tmp_path / "d.md").read_text(), record["reason"]):
        assert "4ac6a20b5" not in text
        assert "case number" in text or text is record["reason"]
    cases = (tmp_path / "d.xml").read_text()
    assert cases.count('<testcase name="case number ') == 8
    assert "question 3" in cases


# --- texts


def test_of_repeats_the_failing_answer_now_and_the_passing_one_before_are_shown() -> None:
    collector = TextCollector()
    for side, outcomes in (("candidate", (True, False, False)), ("baseline", (False, True, True))):
        for n, passed in enumerate(outcomes):
            grade = SampleGrade(passed=passed, hard_gate_failures=() if passed else ("g",))
            evidence = SampleEvidence(
                status="success", inputs={"q": "why?"}, outputs={"answer": f"{passed} {n}"}
            )
            collector.add(side, "s/1", grade, evidence)
    texts = collector.texts()["s/1"]
    assert texts.question == "why?"
    assert texts.candidate is not None
    assert texts.candidate[:3] == ("False 1", 1, 3)
    assert texts.baseline is not None
    assert texts.baseline[:3] == ("True 1", 2, 3)


def test_the_same_answer_is_not_repeated() -> None:
    same = SampleAnswer("a long answer", 1, 1)
    facts = dict(failure_facts(None, SampleTexts("q", "", same, same)).pairs)
    assert facts["before"] == "a long answer"
    assert "a long answer" not in facts["now"]


# --- how sure it is, and what it could not see


@pytest.mark.parametrize("outcome", ["reject", "hold", "not_enough_evidence"])
def test_only_a_promotion_says_that_the_score_did_not_fall(outcome: str) -> None:
    holding = "did not fall"
    assert holding in confidence(decided()[1])
    assert decided()[1].outcome == "promote"
    assert holding not in confidence(decision(outcome, None, False))


def test_noise_is_called_so_where_fresh_runs_are_needed() -> None:
    open_ones = confirmation(suspect("s/1"))
    assert "may be noise" in confidence(decision("hold", None, confirmation=open_ones))
    assert "may be noise" not in confidence(decision("hold", None))
    assert "may be noise" not in confidence(decision("reject", False, confirmation=open_ones))


def test_a_rejection_says_how_often_chance_would_reject_the_same_version() -> None:
    assert "at most 5% of cases" in confidence(decision("reject", False))
    lost = decision("reject", rules=[rule("complete", holds=False)])
    assert confidence(lost) == "", "what is missing is not missing by chance"


def test_what_a_decision_could_not_see_is_listed() -> None:
    known = decided()[0]
    made = replace(
        known,
        outcome="hold",
        missing=MissingSamples(
            candidate=["s/1", "s/2"],
            baseline=[],
            quarantined=[],
            only_candidate=["s/new"],
            candidate_total=1200,
        ),
        contracts=ContractChange(
            samples=3, parts={"expected values": 3}, examples=["s/3"], own_outcome="hold"
        ),
        expectation=replace(known.expectation, smallest_loss=4.5, sd=9.0, assumed=False),
        operations={},
    )
    text = " ".join(could_not_see(made))
    for part in ("4.50 points", "1,200 samples", "s/new", "expected values", "s/3", "cost"):
        assert part in text
    assert "5% of cases" in text
    assumed = replace(made, expectation=replace(made.expectation, assumed=True))
    assert "assumed" in " ".join(could_not_see(assumed))
    blind = replace(made, expectation=replace(made.expectation, smallest_loss=140.0))
    assert "no loss" in " ".join(could_not_see(blind))
    unknown = replace(made, expectation=replace(made.expectation, smallest_loss=None, sd=None))
    assert "points" not in could_not_see(unknown)[0]


def test_a_rule_that_is_neither_is_open() -> None:
    states = [(True, False), (False, True), (None, False), (False, False)]
    rules = [
        RuleResult(id="r", holds=holds, violated=violated, reason="", evidence={})
        for holds, violated in states
    ]
    assert list(map(rule_word, rules)) == ["holds", "violated", "open", "open"]


# --- criteria and operations


def test_a_doubling_is_said_before_the_rules_and_a_smaller_change_only_listed() -> None:
    used = {
        "cost_usd": OperationDifference(n=9, candidate=0.25, baseline=0.0025, ratio=100.0),
        "latency_ms": OperationDifference(n=9, candidate=1300.0, baseline=1000.0, ratio=1.3),
        "tokens": OperationDifference(n=9, candidate=2000.0, baseline=1000.0, ratio=2.0),
    }
    made = decision("promote", True, operations=used)
    assert len(doubled(made)) == 2
    text = text_view(decision_summary(made))
    assert text.index("100 times") < text.index("rule-0")
    for part in ("$0.0025", "$0.25", "1.00 s", "1.30 s", "30% more", "2,000 tokens"):
        assert part in text


def test_every_criterion_is_on_a_page_and_those_that_moved_on_a_terminal() -> None:
    known = decided()[0]
    whole, moved = criteria_table(known), criteria_table(known, most=3)
    assert whole is not None
    assert {str(row[0]) for row in whole.rows} == set(known.criteria)
    assert moved is not None
    assert len(moved.rows) <= 3
    values = [known.criteria[str(row[0])].difference.value for row in whole.rows]
    assert values == sorted(values)


def test_a_page_has_what_newly_fails_before_the_rules_and_says_what_it_could_not_see() -> None:
    made = replace(decided()[0], confirmation=confirmation(suspect("s/1")))
    ids = [part.id for part in decision_view(made) if isinstance(part, Section)]
    assert ids.index("newly-failing") < ids.index("rules") < ids.index("unseen")
