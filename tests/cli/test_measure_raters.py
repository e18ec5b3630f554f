"""`assay measure agreement` and `assay measure pairwise`: every number of the reference data, and
what is refused.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run

JUDGE = {"1": "a", "2": "b", "none": None}


def _lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in this process and read what it wrote: `measure("agreement", rows, "--raters",
    "a,b")`.
    """

    def done(kind: str, rows: list[dict[str, Any]], *arguments: str) -> Any:
        file = _lines(tmp_path / "in.jsonl", rows)
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", ["assay"])
        assert run(["measure", kind, str(file), *arguments, "-o", str(out)]) == 0
        return json.loads(out.read_text())

    return done


def _data(shared: Path, *names: str) -> Any:
    return json.loads((shared / "data").joinpath(*names).read_text())


# --- the reference data


@pytest.mark.req("W-067", "W-068", "W-084")
def test_every_number_of_llmbar_is_reproduced(measure: Any, shared: Path) -> None:
    for wanted in _data(shared, "llmbar", "expected.json"):
        rows = _data(shared, "llmbar", wanted["file"])
        verdicts = [
            {
                "id": row["id"],
                "order": order,
                "winner": JUDGE[row[key]],
                "label": JUDGE[row["label"]],
            }
            for row in rows
            for order, key in (("ab", "winner_original_order"), ("ba", "winner_swapped_order"))
        ]
        found, n = measure("pairwise", verdicts), wanted["n"]
        assert (found["pairs"], found["consistent"], found["inconsistent"]) == (
            n,
            wanted["same_winner_both_orders"],
            wanted["position_inconsistent"],
        )
        assert found["inconsistency_rate"]["value"] == pytest.approx(
            1 - wanted["agreement_rate"], abs=1e-9
        )
        merged = {
            "1": found["wins"],
            "2": found["losses"],
            "tie": found["ties"],
            "none": found["unparsable"],
        }
        assert {verdict: count for verdict, count in merged.items() if count} == wanted[
            "merged_verdict_counts"
        ]
        accuracy = {
            key: found["accuracy"][key]["value"]
            for key in ("ab", "ba", "both", "average", "merged_ties_half")
        }
        assert accuracy == pytest.approx(
            {
                "ab": wanted["correct_original"] / n,
                "ba": wanted["correct_swapped"] / n,
                "both": wanted["correct_both"] / n,
                "average": wanted["accuracy_average"],
                "merged_ties_half": wanted["merged_accuracy_ties_half"],
            },
            abs=1e-9,
        )
        bias = found["position_bias"]
        picks = [
            bias["first_position_picks"],
            bias["second_position_picks"],
            found["verdicts"]["unparsable"],
        ]
        assert picks == [
            wanted["first_position_picks"],
            wanted["second_position_picks"],
            wanted["other_verdicts"],
        ]
        for raters, kappa in (
            ("label,winner_original_order", "kappa_label_vs_original"),
            ("label,winner_swapped_order", "kappa_label_vs_swapped"),
            ("winner_original_order,winner_swapped_order", "kappa_original_vs_swapped"),
        ):
            agreed = measure("agreement", rows, "--raters", raters)
            assert agreed["n"] == n
            assert agreed["cohen_kappa"]["value"] == pytest.approx(wanted[kappa], abs=1e-6)
        assert agreed["krippendorff_alpha"]["value"] == pytest.approx(
            wanted["krippendorff_alpha_nominal_original_vs_swapped"], abs=1e-6
        )
        assert agreed["agreement"]["value"] == pytest.approx(wanted["agreement_rate"], abs=1e-9)


def _majority(row: dict[str, Any]) -> int:
    votes = [row["annotator1"], row["annotator2"], row["annotator3"]]
    winner, count = Counter(votes).most_common(1)[0]
    return winner if count > 1 else votes[0]


def test_every_number_of_pandalm_is_reproduced(measure: Any, shared: Path) -> None:
    wanted = _data(shared, "pandalm", "expected.json")
    read = {"1": 1, "2": 2, 0: 0, 1: 1, 2: 2}
    rows = [
        {
            **row,
            "majority": _majority(row),
            "gpt35": read.get(row["gpt35_raw"], 0),
            "pandalm": read.get(row["pandalm_raw"], 0),
        }
        for row in _data(shared, "pandalm", "labels.json")
    ]
    for pair, kappa in wanted["cohen_kappa"].items():
        one, other = pair.split("-")
        assert measure("agreement", rows, "--raters", f"annotator{one},annotator{other}")[
            "cohen_kappa"
        ]["value"] == pytest.approx(kappa, abs=1e-6)
    three = measure("agreement", rows, "--raters", "annotator1,annotator2,annotator3")
    assert three["n"] == wanted["n"]
    assert three["krippendorff_alpha"]["value"] == pytest.approx(
        wanted["krippendorff_alpha_nominal_3_annotators"], abs=1e-6
    )
    assert three["fleiss_kappa"]["value"] == pytest.approx(
        wanted["fleiss_kappa_3_annotators"], abs=1e-6
    )
    for judge in ("gpt35", "pandalm"):
        found, of_judge = measure("agreement", rows, "--raters", f"majority,{judge}"), wanted[judge]
        assert found["agreement"]["value"] == pytest.approx(of_judge["accuracy"], abs=1e-9)
        assert found["cohen_kappa"]["value"] == pytest.approx(
            of_judge["cohen_kappa_vs_majority"], abs=1e-6
        )
        assert found["krippendorff_alpha"]["value"] == pytest.approx(
            of_judge["krippendorff_alpha_nominal_vs_majority"], abs=1e-6
        )
        for key in ("macro_precision", "macro_recall", "macro_f1"):
            assert found["classification"][key] == pytest.approx(of_judge[key], abs=1e-9)
        counts = [sum(column) for column in zip(*found["confusion"]["matrix"], strict=True)]
        assert (
            dict(zip(map(str, found["confusion"]["labels"]), counts, strict=True))
            == of_judge["counts"]
        )
    counts = [sum(row) for row in found["confusion"]["matrix"]]
    assert (
        dict(zip(map(str, found["confusion"]["labels"]), counts, strict=True))
        == wanted["label_counts_majority"]
    )
    name = {1: "a", 2: "b", 0: "tie"}
    for models, by_judge in wanted["pairs"].items():
        here = [row for row in rows if row["cmp_key"] == models]
        for judge in ("majority", "gpt35", "pandalm"):
            found = measure(
                "pairwise",
                [{"id": row["idx"], "order": "ab", "winner": name[row[judge]]} for row in here],
            )
            counts = [found["pairs"], found["wins"], found["losses"], found["ties"]]
            assert counts == [
                by_judge["n"],
                *(by_judge[judge][key] for key in ("response1_wins", "response2_wins", "ties")),
            ]
            assert found["win_rate"]["value"] == pytest.approx(
                by_judge[judge]["response1_win_rate_ties_half"], abs=1e-9
            )


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


@pytest.mark.req("W-008")
@pytest.mark.parametrize("label", ["correctness_label", "completeness_label", "overall_label"])
def test_every_number_of_ragchecker_is_reproduced(measure: Any, shared: Path, label: str) -> None:
    expected = _data(shared, "ragchecker_meta", "expected.json")
    labels = _data(shared, "ragchecker_meta", "labels.json")
    wanted = expected[label]
    judge = [row["ragchecker_model2"][label] - row["ragchecker_model1"][label] for row in labels]
    humans = [[row[f"human_annotator{at}"][label] for row in labels] for at in (1, 2)]
    low, high = min(judge), max(judge)
    rows = [
        # a person who sees no difference takes no side; a judge who sees none does not take the
        # person's
        {
            "one": one,
            "two": two,
            "human_side": _sign(one + two) or None,
            "judge_side": _sign(score),
        }
        for one, two, score in zip(*humans, judge, strict=True)
    ]
    each = [
        {"human": rating, "judge": score, "scaled": (score - low) / (high - low)}
        for ratings in humans
        for rating, score in zip(ratings, judge, strict=True)
    ]
    people = {
        level: measure("agreement", rows, "--raters", "one,two", "--level", level)
        for level in ("nominal", "ordinal", "interval")
    }
    assert people["nominal"]["n"] == expected["n"]
    for level, found in people.items():
        assert found["krippendorff_alpha"]["value"] == pytest.approx(
            wanted[f"alpha_{level}"], abs=1e-6
        )
        assert found["cohen_kappa"]["value"] == pytest.approx(wanted["kappa_annotators"], abs=1e-6)
        assert found["weighted_kappa"]["linear"]["value"] == pytest.approx(
            wanted["kappa_annotators_linear"], abs=1e-6
        )
        assert found["weighted_kappa"]["quadratic"]["value"] == pytest.approx(
            wanted["kappa_annotators_quadratic"], abs=1e-6
        )
        assert found["pearson"]["value"] == pytest.approx(wanted["human_sanity_pearson"], abs=1e-6)
        assert found["spearman"]["value"] == pytest.approx(
            wanted["human_sanity_spearman"], abs=1e-6
        )
    found = measure("agreement", each, "--raters", "human,judge", "--level", "interval")
    assert found["pearson"]["value"] == pytest.approx(wanted["ragchecker_pearson"], abs=1e-6)
    assert found["spearman"]["value"] == pytest.approx(wanted["ragchecker_spearman"], abs=1e-6)
    assert found["kendall_tau_b"]["value"] == pytest.approx(
        wanted["ragchecker_kendall_tau_b"], abs=1e-6
    )
    scaled = measure("agreement", each, "--raters", "human,scaled", "--level", "interval")
    assert scaled["pearson"]["value"] == pytest.approx(
        wanted["ragchecker_pearson_peer_minmax"], abs=1e-6
    )
    # rounding makes and breaks ties on the way to another scale, and moves the fourth decimal
    assert scaled["spearman"]["value"] == pytest.approx(
        wanted["ragchecker_spearman_peer_minmax"], abs=1e-6
    )
    signs = measure("agreement", rows, "--raters", "human_side,judge_side")
    assert signs["agreement"]["value"] == pytest.approx(
        wanted["sign_agreement_with_mean_human_excl_ties"], abs=1e-9
    )


@pytest.mark.req("W-009")
def test_every_number_of_the_repeated_judge_is_reproduced(measure: Any, shared: Path) -> None:
    wanted = _data(shared, "prometheus_gpt4_repeats", "expected.json")
    rows = [
        {
            "model": row["response_source"],
            **{f"run{at}": score for at, score in enumerate(row["gpt4_score"], 1)},
        }
        for row in _data(shared, "prometheus_gpt4_repeats", wanted["file"])
    ]
    for level in ("nominal", "ordinal", "interval"):
        three = measure("agreement", rows, "--raters", "run1,run2,run3", "--level", level)
        assert (three["n"], three["n_complete"]) == (wanted["n"], wanted["n_complete"])
        assert three["krippendorff_alpha"]["value"] == pytest.approx(
            wanted[f"alpha_{level}"], abs=1e-6
        )
    assert three["agreement"]["value"] == pytest.approx(wanted["all_three_equal"], abs=1e-9)
    two = measure("agreement", rows, "--raters", "run1,run2", "--level", "ordinal")
    assert two["cohen_kappa"]["value"] == pytest.approx(wanted["kappa_run1_run2"], abs=1e-6)
    assert two["weighted_kappa"]["quadratic"]["value"] == pytest.approx(
        wanted["kappa_quadratic_run1_run2"], abs=1e-6
    )
    for ours, theirs in (
        ("spearman", "spearman"),
        ("kendall_tau_b", "kendall"),
        ("pearson", "pearson"),
    ):
        assert two[ours]["value"] == pytest.approx(wanted[f"{theirs}_run1_run2"], abs=1e-6)
    for model, of_model in wanted["mean_by_model"].items():
        here = [row for row in rows if row["model"] == model]
        found = measure(
            "agreement",
            here,
            "--raters",
            "run1,run2,run3",
            "--level",
            "interval",
        )
        assert found["n"] == of_model["n"]
        mean = found["item_mean"]
        assert [mean["value"], mean["low"], mean["high"]] == pytest.approx(
            [of_model["mean"], *of_model["t_ci95"]], abs=1e-9
        )


# --- what the numbers are and are not


def test_statistics_of_two_raters_are_null_for_three_and_say_why(measure: Any) -> None:
    found = measure(
        "agreement",
        [{"a": 1, "b": 2, "c": 1}, {"a": 2, "b": 2, "c": 2}, {"a": 1, "b": 1, "c": None}],
        "--raters",
        "a,b,c",
    )
    for name in ("cohen_kappa", "spearman", "kendall_tau_b", "pearson", "confusion"):
        assert found[name] is None
        assert "compares two raters, and there are 3" in found["reasons"][name]
    assert found["weighted_kappa"] == {"linear": None, "quadratic": None}
    assert found["fleiss_kappa"]["value"] is not None
    assert found["krippendorff_alpha"]["value"] is not None
    assert (found["n"], found["n_paired"], found["n_complete"]) == (3, 3, 2)
    assert "items that lack a rating: 1 of 3" in found["notes"][0]


def test_texts_have_kappa_and_alpha_and_no_correlation(measure: Any) -> None:
    rows = [{"a": "yes", "b": "yes"}, {"a": "no", "b": "yes"}, {"a": "no", "b": "no"}]
    found = measure("agreement", rows, "--raters", "a,b")
    assert found["cohen_kappa"]["value"] == pytest.approx(0.4)
    assert found["spearman"] is None
    assert "needs numbers" in found["reasons"]["spearman"]
    assert "needs numbers" in found["reasons"]["weighted_kappa.linear"]
    assert found["confusion"]["matrix"] == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    "name",
    [
        "cohen_kappa",
        "krippendorff_alpha",
        "fleiss_kappa",
        "spearman",
        "pearson",
        "kendall_tau_b",
    ],
)
def test_raters_who_never_vary_have_null_with_a_reason_and_no_nan(measure: Any, name: Any) -> None:
    found = measure("agreement", [{"a": 5, "b": 5}] * 30, "--raters", "a,b", "--level", "ordinal")
    assert found["agreement"]["value"] == 1
    assert found[name]["value"] is None
    assert found[name]["low"] is None
    assert found["reasons"][name] == found[name]["reason"]


def test_categories_with_gaps_have_a_weighted_kappa_by_value_too(measure: Any) -> None:
    rows = [
        {"a": one, "b": other}
        for one, other in [(1, 1), (1, 2), (2, 2), (10, 2), (10, 10), (2, 1)] * 3
    ]
    found = measure("agreement", rows, "--raters", "a,b", "--level", "interval")["weighted_kappa"]
    assert found["linear"]["value"] != found["by_value"]["linear"]["value"]
    assert (
        "by_value"
        not in measure("agreement", rows, "--raters", "a,b", "--level", "ordinal")["weighted_kappa"]
    )


def test_ten_thousand_categories_build_no_table_of_all_of_them(measure: Any) -> None:
    rows = [{"a": f"c{at}", "b": f"c{at if at % 2 else at + 1}"} for at in range(10_000)]
    found = measure("agreement", rows, "--raters", "a,b")
    assert found["confusion"]["matrix"] is None
    assert len(found["confusion"]["cells"]) == 1000
    assert "categories" in found["confusion"]["reason"]
    assert found["agreement"]["value"] == 0.5


# --- CSV


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
def test_numbers_in_csv_are_numbers_and_an_empty_cell_is_not_rated(
    assay: Any, tmp_path: Path, level: str
) -> None:
    (tmp_path / "r.csv").write_bytes(
        b"\xef\xbb\xbfid,human,judge\r\n1,1,1.0\r\n2,2, 2.0\r\n3,,3\r\n4,10,9\r\n\r\n5,9,10\r\n"
    )
    found = assay(
        "measure", "agreement", "r.csv", "--raters", "human,judge", "--level", level, "--json"
    ).json()
    assert (found["n"], found["n_complete"]) == (5, 4)
    assert found["agreement"]["value"] == 0.5
    assert found["spearman"]["value"] == pytest.approx(
        0.8
    )  # 10 is more than 9, which it is not as a text


def test_texts_in_csv_stay_as_they_are_written(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('a,b\n1,1\n"a, b","a, b"\ntie,1.0\n')
    found = assay("measure", "agreement", "r.csv", "--raters", "a,b", "--json").json()
    assert found["confusion"]["labels"] == ["1", "1.0", "a, b", "tie"]
    done = assay("measure", "agreement", "r.csv", "--raters", "a,b", "--level", "interval")
    assert done.code == 3
    assert "3 faults" in done.err
    assert "'tie' is not a number, and the level is interval" in done.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"a,a\n1,2\n", "two columns have the same name, 'a'"),
        (b"a,b\n1\n1,2,3\n", "has 1 instead of 2 columns"),
        (b"a,b\n1,NaN\n-inf,2\n", "'NaN' is not a number"),
        (b"a,b\n1,1e999\n", "beyond 1e+50"),
        (b"a,b\n1,-1.1e50\n", "beyond 1e+50"),
        (b"a,b\n1," + b"9" * 5000 + b"\n", "digits"),
        (b"a,b\n\xff,1\n", "not UTF-8"),
        (b'a,b\n"1,2\n', "not CSV"),
        (b"a, a,b\n1,2,1\n2,1,2\n", "the same name, apart from spaces"),
    ],
)
def test_csv_that_is_not_sound_is_refused(
    assay: Any, tmp_path: Path, text: bytes, says: str
) -> None:
    (tmp_path / "r.csv").write_bytes(text)
    done = assay("measure", "agreement", "r.csv", "--raters", "a,b")
    assert done.code == 3, done.out
    assert says in done.err
    assert "Traceback" not in done.err


# --- bad input


@pytest.mark.parametrize(
    ("text", "arguments", "code", "says"),
    [
        ("", ("--raters", "a,b"), 4, "no items"),
        ('{"a": 1, "b": 2}\n', ("--raters", "a"), 2, "fewer than two"),
        ('{"a": 1, "b": 2}\n', ("--raters", "a,a"), 2, "twice"),
        ('{"a": 1, "b": 2}\n', (), 2, "--raters"),
        ('{"human": 1, "judge": 2}\n', ("--raters", "humman,judge"), 3, "Did you mean 'human'?"),
        ('{"a": NaN, "b": 2}\n{"a": Infinity, "b": 2}\n', ("--raters", "a,b"), 3, "2 faults"),
        ('{"a": 1e99, "b": 2}\n', ("--raters", "a,b"), 3, "beyond 1e+50"),
        (
            '{"a": true, "b": false}\n',
            ("--raters", "a,b", "--level", "ordinal"),
            3,
            "true is not a number",
        ),
        ('{"a": true, "b": 1}\n', ("--raters", "a,b"), 3, "true is not 1 here"),
        ('{"a": 1, "b": "x"}\n{"a": 2, "b": "1"}\n', ("--raters", "a,b"), 3, "written in two ways"),
        (
            '{"a": "1", "b": 2}\n{"a": [], "b": {}}\n',
            ("--raters", "a,b", "--level", "interval"),
            3,
            "3 faults",
        ),
        ('{"a": "", "b": 2}\n[1]\n{"a": 1\n', ("--raters", "a,b"), 3, "3 faults"),
    ],
)
def test_ratings_that_are_not_sound_are_refused_all_faults_at_once(
    assay: Any, tmp_path: Path, text: str, arguments: tuple[str, ...], code: int, says: str
) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    done = assay("measure", "agreement", "r.jsonl", *arguments)
    assert done.code == code, done.out + done.err
    assert says in done.err
    assert not done.out


def test_truth_values_are_categories_at_nominal_level(measure: Any) -> None:
    found = measure(
        "agreement",
        [{"a": True, "b": True}, {"a": False, "b": True}, {"a": False, "b": False}],
        "--raters",
        "a,b",
    )
    assert found["confusion"]["labels"] == ["false", "true"]
    assert found["pearson"] is None


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_the_largest_numbers_one_item_and_nothing_rated_give_no_nan(
    measure: Any, level: str
) -> None:
    huge = [
        {"a": 1e50, "b": -1e50},
        {"a": -1e50, "b": 1e50},
        {"a": 1e50, "b": 1e50},
        {"a": 5e-324, "b": 0},
        {"a": 1e50, "b": 9},
        {"a": 2, "b": 2},
    ]
    for rows in (
        huge,
        [{"a": 1, "b": 2}],
        [{"a": None, "b": None}],
        [{"a": 1, "b": None}, {"a": None, "b": 3}],
    ):
        found = measure("agreement", rows, "--raters", "a,b", "--level", level)
        text = json.dumps(found)
        assert "NaN" not in text
        assert "Infinity" not in text
    assert found["n_paired"] == 0
    assert found["cohen_kappa"]["value"] is None
    assert found["reasons"]["cohen_kappa"] == "no item was rated by both"


def test_a_word_for_missing_is_a_category_and_a_note_says_so(measure: Any) -> None:
    found = measure("agreement", [{"a": "none", "b": "x"}, {"a": "x", "b": "x"}], "--raters", "a,b")
    assert found["n_complete"] == 2
    assert "'none' is a category" in found["notes"][0]


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", 4, "no verdicts"),
        (
            '{"id": 1, "order": "ab", "winner": "a"}\n{"id": "1", "order": "ab", "winner": "a"}\n',
            3,
            "judged in the order ab before",
        ),
        (
            (
                '{"id": 1, "order": "AB", "winner": "A"}\n{"id": 2, "order": "ab", "winner":'
                ' "Tie"}\n{"id": 3, "winner": "a"}\n'
            ),
            3,
            "4 faults",
        ),
        (
            '{"id": 1, "order": "ab", "winner": "Tie"}\n',
            3,
            "winner: 'Tie' is not one of a, b, tie.",
        ),
        ('{"id": 1, "order": "ab"}\n', 3, "the key 'winner' is missing"),
        (
            '{"id": true, "order": "ab", "winner": "a"}\n{"order": "ab", "winner": "a"}\n',
            3,
            "2 faults",
        ),
        ('{"id": 1, "order": "ab", "winner": true}\n', 3, "winner: true is not one of a, b, tie."),
        (
            '{"id": 1, "order": ["ab"], "winner": {"a": 1}}\n',
            3,
            "order: ['ab'] is not one of ab, ba.",
        ),
        (
            (
                '{"id": 1, "order": "ab", "winner": "a", "label": "a"}\n{"id": 1, "order": "ba",'
                ' "winner": "a", "label": "b"}\n'
            ),
            3,
            "label was a before",
        ),
        ('{"id": 1, "order": "ab", "winner": "a", "label": "c"}\n7\n', 3, "2 faults"),
    ],
)
def test_verdicts_that_are_not_sound_are_refused_all_faults_at_once(
    assay: Any, tmp_path: Path, text: str, code: int, says: str
) -> None:
    (tmp_path / "v.jsonl").write_text(text)
    done = assay("measure", "pairwise", "v.jsonl")
    assert done.code == code, done.out + done.err
    assert says in done.err
    assert not done.out


def test_a_fault_names_its_line(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text(
        '{"id": 1, "order": "ab", "winner": "a"}\n\n{"id": 2, "order": "abc", "winner": "a"}\n'
    )
    assert "line 3" in assay("measure", "pairwise", "v.jsonl").err
    (tmp_path / "r.csv").write_text("a,b\n1,2\n1,x\n")
    assert (
        "line 3"
        in assay("measure", "agreement", "r.csv", "--raters", "a,b", "--level", "ordinal").err
    )


def test_people_get_lines_that_say_each_interval_or_why_there_is_none(
    assay: Any, tmp_path: Path
) -> None:
    _lines(tmp_path / "r.jsonl", [{"h": at % 5, "j": (at + at // 7) % 5} for at in range(40)])
    shown = assay("measure", "agreement", "r.jsonl", "--raters", "h,j", "--level", "ordinal").out
    assert "cohen_kappa" in shown
    assert "95% interval" in shown
    _lines(
        tmp_path / "v.jsonl",
        [
            {"id": at, "order": order, "winner": "a", "label": "a"}
            for at in range(9)
            for order in ("ab", "ba")
        ],
    )
    shown = assay("measure", "pairwise", "v.jsonl").out
    assert "9 consistent, 0 inconsistent" in shown
    assert "accuracy both" in shown
