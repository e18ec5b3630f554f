"""The bar on the pass rate: by the plain share, or by the lower end of its interval."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.release.pass_rate import PassBar, check_pass_rate, percent, samples_needed
from assay.stats.intervals import wilson


def test_without_a_confidence_the_plain_share_is_compared_exactly() -> None:
    bar = PassBar.of(0.95)
    assert bar is not None
    assert check_pass_rate(19, 20, bar).holds is True
    assert check_pass_rate(18, 20, bar).holds is False
    assert check_pass_rate(0, 0, bar).holds is None
    tenth = PassBar.of(0.1)
    assert tenth is not None
    assert check_pass_rate(1, 10, tenth).holds is True


@pytest.mark.parametrize(
    ("passed", "n", "holds"), [(20, 20, None), (73, 73, True), (72, 73, None), (10, 20, False)]
)
def test_with_a_confidence_the_interval_decides(passed: int, n: int, holds: bool | None) -> None:
    bar = PassBar.of(0.95, 0.95)
    assert bar is not None
    found = check_pass_rate(passed, n, bar)
    assert found.holds is holds
    assert f"{passed} of {n} passed" in found.reason
    assert ("too few samples to tell" in found.reason) is (holds is None)


@given(st.integers(0, 300), st.integers(1, 300), st.sampled_from([0.5, 0.8, 0.95, 0.99, 1.0]))
def test_the_bar_holds_only_where_the_lower_end_reaches_it(
    passed: int, n: int, least: float
) -> None:
    passed = min(passed, n)
    bar = PassBar.of(least, 0.9)
    assert bar is not None
    found, interval = check_pass_rate(passed, n, bar), wilson(passed, n, level=0.9)
    assert interval.low is not None
    assert interval.high is not None
    assert (found.holds is True) == (interval.low >= least)
    assert (found.holds is False) == (interval.high < least)
    if found.holds and passed < n:
        better = check_pass_rate(passed + 1, n, bar)
        assert better.holds


@given(st.integers(1, 60), st.sampled_from([0.5, 0.8, 0.9]))
def test_so_many_samples_as_are_named_would_do(n: int, least: float) -> None:
    bar = PassBar.of(least, 0.95)
    assert bar is not None
    needed = samples_needed(Fraction(1), bar)
    assert needed is not None
    assert check_pass_rate(needed, needed, bar).holds
    assert not check_pass_rate(needed - 1, needed - 1, bar).holds
    assert samples_needed(Fraction(2, 5), bar) is None


@pytest.mark.parametrize(
    ("least", "confidence", "words"),
    [
        (None, 0.95, "needs a minimum pass rate"),
        (0, None, "above 0"),
        (1.5, None, "at most 1"),
        (95, None, "at most 1"),
        (float("nan"), None, "must be a share"),
        (float("inf"), None, "must be a share"),
        (0.9, 1, "below 1"),
        (0.9, 0.2, "from 0.5"),
        (True, None, "must be a share"),
    ],
)
def test_a_bar_that_is_no_share_is_refused(least: Any, confidence: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        PassBar.of(least, confidence)
    assert words in str(caught.value)


def test_a_share_never_looks_better_than_it_is() -> None:
    assert percent(Fraction(9999, 10000)) == "99.9%"


# --- the commands


def cards(passing: int, failing: int) -> list[dict[str, Any]]:
    return [
        {
            "schema": "assay.scorecard/1",
            "run_id": f"r-{number}",
            "hard_gates": {"g": number < passing},
            "criteria": [
                {"name": "c", "raw_score": 1, "formula_id": "zero_one", "weight": 1, "n": 1}
            ],
        }
        for number in range(passing + failing)
    ]


@pytest.mark.parametrize(
    ("passing", "failing", "more", "code", "words"),
    [
        (19, 1, [], 1, ""),
        (19, 1, ["--min-pass-rate", "0.95"], 0, "minimum pass rate met"),
        (18, 2, ["--min-pass-rate", "0.95"], 1, "minimum pass rate not met"),
        (
            19,
            1,
            ["--min-pass-rate", "0.95", "--confidence", "0.95"],
            4,
            "minimum pass rate: can't tell yet",
        ),
        (20, 0, ["--min-pass-rate", "0.95", "--confidence", "0.95"], 4, "about 73 would be enough"),
        (80, 0, ["--min-pass-rate", "0.95", "--confidence", "0.95"], 0, "minimum pass rate met"),
        (
            1,
            19,
            ["--min-pass-rate", "0.95", "--confidence", "0.95"],
            1,
            "minimum pass rate not met",
        ),
        (20, 0, ["--confidence", "0.95"], 2, ""),
        (20, 0, ["--min-pass-rate", "95"], 2, ""),
    ],
)
def test_grade_passes_by_the_bar(
    assay: Any, tmp_path: Any, passing: int, failing: int, more: list[str], code: int, words: str
) -> None:
    path = tmp_path / "cards.jsonl"
    path.write_text("".join(json.dumps(card) + "\n" for card in cards(passing, failing)))
    found = assay("grade", str(path), *more)
    assert found.code == code, found.err
    assert words in found.out
    if code in (0, 1, 4) and more:
        files = [
            str(tmp_path / f"o{extension}") for extension in (".md", ".html", ".xml", ".sarif")
        ]
        outputs = [word for file in files for word in ("-o", file)]
        counts = json.loads(assay("grade", str(path), *more, "--json", *outputs).out)["counts"]
        assert counts["bar"]["passed"] == passing
        assert counts["bar"]["holds"] is {0: True, 1: False, 4: None}[code]
        page, report, junit, sarif = (Path(file).read_text() for file in files)
        assert page.startswith("## Assay: not passed\n" if code else "## Assay: passed\n")
        assert ("Not passed." in report) is (code != 0)
        assert f'failures="{failing}" errors="{int(code == 4)}"' in junit
        assert ("pass-rate" in sarif) is (code == 4)


def test_repeats_of_a_sample_are_one_sample(assay: Any, tmp_path: Any) -> None:
    many = [{**card, "sample_id": f"s-{number % 5}"} for number, card in enumerate(cards(39, 1))]
    path = tmp_path / "cards.jsonl"
    path.write_text("".join(json.dumps(card) + "\n" for card in many))
    found = assay("grade", str(path), "--min-pass-rate", "0.8", "--json")
    bar = json.loads(found.out)["counts"]["bar"]
    assert (bar["passed"], bar["n"]) == (4, 5)
    assert found.code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--min-pass-rate", "2"], "--min-pass-rate is 2"),
        (["--min-pass-rate", "0.9", "--confidence", "1"], "--confidence is 1"),
        (["--confidence", "0.9"], "--confidence needs a minimum pass rate"),
    ],
)
def test_a_wrong_bar_is_refused_before_anything_runs(
    assay: Any, tmp_path: Any, options: list[str], words: str
) -> None:
    (tmp_path / "bot.py").write_text("open('called', 'w')\ndef f(inputs): return {'answer': 'x'}\n")
    (tmp_path / "w.yaml").write_text(
        "workflow: w\nversion: 1\ninputs: [q]\noutputs: [answer]\nprofile: rag-measured\n"
        "adapter: {kind: python, target: 'bot:f'}\n"
    )
    (tmp_path / "s.jsonl").write_text('{"id": "a", "q": "x"}\n')
    found = assay("run", "w.yaml", "--dataset", "s.jsonl", *options)
    assert (found.code, words in found.err) == (2, True), found.err
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "assay-runs").exists()
