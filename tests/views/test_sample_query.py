"""Filters, search, order, pages and counts of the samples of an evaluation."""

from __future__ import annotations

from typing import Any

from assay.records.samples import (
    SampleQuery,
    SampleRow,
    SampleRun,
    change_of,
    count_samples,
    neighbours,
    page_of,
    read_query,
    sample_grade,
    select_samples,
)


def run(name: str, score: float, **more: Any) -> SampleRun:
    """A graded run; it passes from 70 unless a gate fails."""
    shut = more.pop("gates", ())
    passed = score >= 70 and not shut and not more.get("floor_failures")
    grade = {
        "run_id": name,
        "sample_id": name.split("/")[0],
        "passed": passed,
        "grade": "A" if passed else "F",
        "weighted_score": score,
        "reason": "" if passed else "below_pass_threshold",
        "hard_gate_failures": list(shut),
        "hard_gates": {gate: {"status": "fail", "reason": "found dirt"} for gate in shut},
        **more,
    }
    return SampleRun(name, f"sha256:{name}", sample_grade(grade))


def row(name: str, score: float, **more: Any) -> SampleRow:
    """A sample of one run."""
    texts = [more.pop(text, "") for text in ("question", "answer", "expected")]
    return SampleRow(name, *texts, (run(name, score, **more),))


ROWS = [
    row("q-10", 90, question="Où est la gare?", answer="At the harbour"),
    row("q-9", 50, question="When?", answer="nine", criteria=[{"name": "score", "norm": 0.2}]),
    row("q-1", 95, gates=["clean", "signed"], question="Who?", expected="Ada"),
    row("q-2", 30, gates=["clean"], cause="error: 429\nat noon"),
    row("q-3", 80, floor_failures=["safety"], criteria=[{"name": "score", "norm": 0.9}]),
    SampleRow("q-4", "", "", "", (SampleRun("q-4"),)),
    SampleRow("q-5", "", "", "", (run("q-5/b", 10), run("q-5/a", 90))),
]
BEFORE = {one.sample: one for one in (row("q-10", 90), row("q-9", 60), row("q-1", 40))}


def names(query: SampleQuery, **more: Any) -> list[str]:
    """The samples that a query shows."""
    return [one.sample for one in select_samples(ROWS, query, **more)]


def test_the_worst_sample_comes_first_unless_another_order_is_asked_for() -> None:
    assert names(SampleQuery()) == ["q-4", "q-2", "q-9", "q-5", "q-3", "q-1", "q-10"]
    assert names(SampleQuery(sort="sample"))[:2] == ["q-1", "q-2"]
    assert names(SampleQuery(sort="sample"))[-2:] == ["q-9", "q-10"]
    assert names(SampleQuery(sort="-score"))[0] == "q-1"
    assert names(SampleQuery(sort="-question"))[:3] == ["q-1", "q-9", "q-10"]
    assert names(SampleQuery(sort="unknown")) == names(SampleQuery())
    assert names(SampleQuery(sort="-unknown"))[0] == "q-10"


def test_a_missing_score_of_a_criterion_is_the_worst() -> None:
    by_criterion = names(SampleQuery(sort="criterion:score"))
    assert by_criterion[-2:] == ["q-9", "q-3"]
    assert names(SampleQuery(sort="-criterion:score"))[:2] == ["q-3", "q-9"]


def test_filters_hold_together() -> None:
    assert names(SampleQuery(show=("passed",))) == ["q-10"]
    assert names(SampleQuery(show=("floor",))) == ["q-3"]
    assert names(SampleQuery(show=("flaky",))) == ["q-5"]
    assert names(SampleQuery(show=("ungraded",))) == ["q-4"]
    assert names(SampleQuery(gate=("clean",))) == ["q-2", "q-1"]
    assert names(SampleQuery(gate=("clean", "signed"))) == ["q-1"]
    assert names(SampleQuery(gate=("clean",), show=("passed",))) == []
    assert names(SampleQuery(why="error: 429")) == ["q-2"]
    assert names(SampleQuery(show=("no such thing",))) == names(SampleQuery())


def test_search_knows_neither_case_nor_how_a_letter_is_composed() -> None:
    assert names(SampleQuery(q="OU\u0300 EST")) == ["q-10"]
    assert names(SampleQuery(q="ada")) == ["q-1"]
    assert names(SampleQuery(q="harbour")) == ["q-10"]
    assert names(SampleQuery(q="Q-9")) == ["q-9"]
    assert names(SampleQuery(q="nowhere")) == []


def test_a_sample_differs_from_the_baseline_by_verdict_then_by_score() -> None:
    of = {one.sample: change_of(one, BEFORE.get(one.sample)) for one in ROWS}
    assert (of["q-10"], of["q-9"], of["q-1"], of["q-3"]) == ("same", "worse", "better", "new")
    assert change_of(row("q-1", 95, gates=["clean"]), row("q-1", 80)) == "worse"
    assert change_of(row("s", 80, grade="C"), row("s", 80)) == "worse"
    differing = names(SampleQuery(show=("differs",)), baseline=BEFORE)
    assert "q-10" not in differing
    assert len(differing) == len(ROWS) - 1
    assert names(SampleQuery(show=("worse",)), baseline=BEFORE) == ["q-9"]
    assert names(SampleQuery(show=("differs",))) == []


def test_what_got_worse_most_comes_first() -> None:
    by_change = names(SampleQuery(sort="change"), baseline=BEFORE)
    assert by_change[:3] == ["q-9", "q-10", "q-1"]
    assert SampleQuery(sort="-change").needs_baseline
    assert names(SampleQuery(sort="change")) == [one.sample for one in ROWS]


def test_counts_are_what_each_filter_would_show() -> None:
    counts = count_samples(ROWS, BEFORE)
    assert counts.n == len(ROWS)
    for name, n in counts.show.items():
        assert len(names(SampleQuery(show=(name,)), baseline=BEFORE)) == n
    assert (counts.show["failed"], counts.show["passed"]) == (6, 1)
    assert counts.gates == {"clean": 2, "signed": 1}
    for reason, n in counts.reasons.items():
        assert len(names(SampleQuery(why=reason))) == n
    assert counts.reasons["score below the threshold"] == 2
    assert {"error: 429", "not graded", "safety misses its floor"} <= counts.reasons.keys()
    assert ROWS[0].causes == []
    broken = row("q-6", 0, gates=["overall_status_success", "clean"], status="timeout")
    assert broken.causes == ["the run ended with status timeout"]
    assert count_samples([]).n == 0


def test_pages_cover_every_row_once_and_never_run_off_the_end() -> None:
    rows = select_samples(ROWS, SampleQuery())
    pages = [page_of(rows, number, on_a_page=3) for number in (1, 2, 3)]
    assert [one for page in pages for one in page.rows] == rows
    assert [page.first for page in pages] == [1, 4, 7]
    assert page_of(rows, 99, on_a_page=3) == pages[-1]
    assert page_of(rows, -1, on_a_page=3) == pages[0]
    assert page_of([], 2) == ([], 1, 1, 0, 0)


def test_the_neighbours_of_a_sample_follow_the_query() -> None:
    rows = select_samples(ROWS, SampleQuery(show=("failed",)))
    first = neighbours(rows, "q-4")
    assert (first.previous, first.place, first.total) == (None, 1, 6)
    assert first.following is rows[1]
    assert neighbours(rows, "sha256:q-5/a").place == neighbours(rows, "q-5/b").place == 4
    assert neighbours(rows, "q-10") == (None, None, 0, 6)


def test_a_query_is_its_address() -> None:
    query = SampleQuery(show=("failed",), sort="-score", page=3)
    assert query.pairs() == {"show": ("failed",), "sort": "-score", "page": "3"}
    assert SampleQuery().pairs() == {}
    assert query.toggled("passed") == SampleQuery(show=("passed",), sort="-score")
    assert query.toggled("failed") == SampleQuery(sort="-score")
    assert query.toggled("flaky").show == ("failed", "flaky")
    assert query.toggled_gate("clean").toggled_gate("clean") == query.but()
    assert query.but(page=2).page == 2
    assert SampleQuery(q="x").needs_texts
    assert SampleQuery(sort="-answer").needs_texts
    assert not query.needs_texts
    assert (query.filters, SampleQuery(sort="score").filters) == (True, False)


def test_an_address_that_makes_no_sense_is_an_empty_query() -> None:
    odd = {"show": ["all"], "page": ["-1", "2"], "sort": [""], "q": ["  "], "gate": []}
    assert read_query(odd.get) == SampleQuery()
    long = read_query({"q": ["x" * 10_000], "gate": [str(n) for n in range(99)]}.get)
    assert (len(long.q), len(long.gate)) == (500, 20)
    query = SampleQuery(show=("failed", "floor"), gate=("a b",), why="x", q="y", sort="z", page=7)
    pairs = {
        name: [value] if isinstance(value, str) else value for name, value in query.pairs().items()
    }
    assert read_query(pairs.get) == query
