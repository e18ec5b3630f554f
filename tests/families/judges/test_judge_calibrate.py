"""`assay judge calibrate`: a judge against human labels, on files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from assay.cli.frame import dispatch
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.families.judges.calibration import agreement_block, calibrate, set_digest
from assay.families.judges.label_rows import labels_of, read_labels, scale_of


def command(arguments: list[str]) -> int:
    return dispatch("judge", ["calibrate", *arguments])


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    )
    return path


def verdicts(
    n: int = 60,
    more: int = 240,
    *,
    right: float = 0.85,
    values: tuple[Any, ...] = (True, False),
    seed: int = 1,
) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows = []
    for place in range(n + more):
        human = rng.choice(values)
        judge = human if rng.random() < right else rng.choice(values)
        rows.append({"id": f"i{place}", "human": human if place < n else None, "judge": judge})
    return rows


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    code = command([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def check_interval(found: dict[str, Any]) -> None:
    assert {"value", "low", "high", "level", "method"} <= set(found)
    assert (found["low"] is None) == (found["high"] is None)
    if found["low"] is None or found["value"] is None:
        assert found["reason"]


@pytest.mark.req("W-008", "W-070")
@pytest.mark.parametrize(
    "values",
    [
        (True, False),
        ("a", "b", "tie"),
        (1, 2, 3, 4, 5),
        (0.1, 0.25, 0.7, 0.95),
        ("pass", "fail", "unsure"),
    ],
)
def test_a_calibration_has_the_shape_of_the_contract_on_every_scale(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, values: tuple[Any, ...]
) -> None:
    path = write(tmp_path / "labels.jsonl", verdicts(values=values))
    code, found = run(capsys, "--labels", path, "--set", "support@3")
    assert code == 0
    assert (found["n_labelled"], found["n_unlabelled"], found["n_judged"]) == (60, 240, 300)
    assert found["set"]["id"] == "support"
    assert found["set"]["version"] == "3"
    assert found["set"]["digest"].startswith("sha256:")
    assert list(found["corrected"]) == ["naive", "ppi", "misclassification"]
    for interval in (
        *found["corrected"].values(),
        found["bias"]["mean_difference"],
        found["accuracy"],
    ):
        check_interval(interval)
    block = found["agreement"]
    for name in (
        "agreement",
        "cohen_kappa",
        "krippendorff_alpha",
        "spearman",
        "kendall_tau_b",
        "pearson",
    ):
        check_interval(block[name])
    for name in ("linear", "quadratic"):
        check_interval(block["weighted_kappa"][name])
    assert found["sentences"][0] == "60 of 300 rows have a human label."


def test_the_words_come_first_and_every_number_has_its_interval_and_n(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command(["--labels", str(write(tmp_path / "l.jsonl", verdicts()))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "60 of 300 rows have a human label."
    assert any("not the truth" in line for line in lines)
    assert all(
        " to " in line and "n=" in line
        for line in lines
        if line.startswith(("accuracy", "cohen_kappa", "ppi", "naive", "bias"))
    )


@pytest.mark.req("W-070")
def test_too_few_labels_are_not_enough_evidence_and_unread_verdicts_do_not_help(
    tmp_path: Path,
) -> None:
    rows = verdicts(29)
    with pytest.raises(NotEnoughEvidence) as error:
        command(["--labels", str(write(tmp_path / "l.jsonl", rows))])
    assert (error.value.code, error.value.exit_code) == ("JDG-010", 4)
    rows = [*rows, *({"id": f"x{place}", "human": True, "judge": None} for place in range(50))]
    with pytest.raises(NotEnoughEvidence, match="50 more have a label"):
        calibrate(rows, minimum=30)
    assert calibrate(rows, minimum=29)["n_labelled"] == 79
    with pytest.raises(NotEnoughEvidence):
        calibrate([], minimum=1)


def test_the_command_is_reached_through_assay(assay: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "l.jsonl", verdicts())
    done = assay("judge", "calibrate", "--labels", path, "-o", "c.json", "--json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "c.json").read_text()) == done.json()
    assert assay("judge", "calibrate", "--labels", path, "--minimum", "61").code == 4
    assert assay("judge", "calibrate", "--labels", path, "--set", "support").code == 2
    assert assay("judge", "calibrate", "--labels", path, "-o", path).code == 2
    assert assay("judge", "calibrate", "--labels", "no.jsonl").code == 3
    assert assay("judge", "calibrate", "--labels", path, "--level", "95").code == 2


# --- against the tools of the field


def test_the_agreement_of_a_judge_with_the_majority_of_people_is_scikit_learns(
    shared: Path,
) -> None:
    home = shared / "data/pandalm"
    expected = json.loads((home / "expected.json").read_text())["gpt35"]
    names = {"0": "tie", "1": "a", "2": "b"}
    rows = []
    for row in json.loads((home / "labels.json").read_text()):
        people = [row[f"annotator{place}"] for place in (1, 2, 3)]
        majority = max(people, key=people.count)
        rows.append(
            {
                "id": row["idx"],
                "human": names[str(majority)],
                "judge": names.get(str(row["gpt35_raw"]), "tie"),
            }
        )
    found = calibrate(rows)
    assert found["accuracy"]["value"] == pytest.approx(expected["accuracy"], abs=1e-9)
    assert found["agreement"]["cohen_kappa"]["value"] == pytest.approx(
        expected["cohen_kappa_vs_majority"], abs=1e-9
    )
    assert found["agreement"]["krippendorff_alpha"]["value"] == pytest.approx(
        expected["krippendorff_alpha_nominal_vs_majority"], abs=1e-9
    )


def test_the_agreement_of_repeated_scores_is_that_of_scipy_and_scikit_learn(shared: Path) -> None:
    home = shared / "data/prometheus_gpt4_repeats"
    expected = json.loads((home / "expected.json").read_text())
    scores = [row["gpt4_score"] for row in json.loads((home / "vicuna_eval.json").read_text())]
    block = calibrate(
        [{"id": str(place), "human": one[0], "judge": one[1]} for place, one in enumerate(scores)]
    )["agreement"]
    assert block["cohen_kappa"]["value"] == pytest.approx(expected["kappa_run1_run2"], abs=1e-9)
    assert block["weighted_kappa"]["quadratic"]["value"] == pytest.approx(
        expected["kappa_quadratic_run1_run2"], abs=1e-9
    )
    assert block["spearman"]["value"] == pytest.approx(expected["spearman_run1_run2"], abs=1e-9)
    assert block["kendall_tau_b"]["value"] == pytest.approx(expected["kendall_run1_run2"], abs=1e-9)
    assert block["pearson"]["value"] == pytest.approx(expected["pearson_run1_run2"], abs=1e-9)


def test_weighted_kappa_counts_by_value_where_ratings_leave_gaps() -> None:
    pairs = [(1, 1), (2, 2), (5, 5), (2, 5), (1, 2), (5, 2)] * 6
    human, judge = zip(*pairs, strict=True)
    seen = sum((one - other) ** 2 for one, other in pairs) / len(pairs)
    chance = sum((one - other) ** 2 for one in human for other in judge) / len(pairs) ** 2
    block = calibrate(
        [
            {"id": str(place), "human": one, "judge": other}
            for place, (one, other) in enumerate(pairs)
        ]
    )["agreement"]
    assert block["weighted_kappa"]["quadratic"]["value"] == pytest.approx(
        1 - seen / chance, abs=1e-12
    )


# --- what a judge must not gain by


@pytest.mark.parametrize("values", [(True, False), ("a", "b", "tie"), (1, 2, 3, 4, 5)])
def test_a_judge_that_falls_silent_where_it_errs_does_not_agree_better(
    values: tuple[Any, ...],
) -> None:
    rows = verdicts(100, 0, values=values, right=0.7)
    silent = [{**row, "judge": None} if row["judge"] != row["human"] else row for row in rows]
    before, after = calibrate(rows), calibrate(silent)
    assert (
        after["agreement"]["cohen_kappa"]["value"]
        <= before["agreement"]["cohen_kappa"]["value"] + 0.05
    )
    assert after["accuracy"]["value"] <= before["accuracy"]["value"]
    assert (
        after["agreement"]["weighted_kappa"]["quadratic"]["value"]
        <= before["agreement"]["weighted_kappa"]["quadratic"]["value"] + 1e-9
    )
    assert after["agreement_of_read"]["cohen_kappa"]["value"] == pytest.approx(1)
    assert after["unparsable"] == {
        "total": len(rows) - len([row for row in silent if row["judge"] is not None]),
        "labelled": after["unparsable"]["total"],
    }
    assert after["agreement"]["n"] == 100


def test_a_lenient_judge_is_corrected_downwards() -> None:
    rng = random.Random(4)
    rows = []
    for place in range(2000):
        human = rng.random() < 0.3
        rows.append(
            {
                "id": str(place),
                "human": human if place < 150 else None,
                "judge": human or rng.random() < 0.4,
            }
        )
    found = calibrate(rows)
    truth = 0.3
    assert found["corrected"]["naive"]["low"] > 0.5
    for name in ("ppi", "misclassification"):
        assert found["corrected"][name]["low"] <= truth <= found["corrected"][name]["high"]
    assert found["bias"]["mean_difference"]["low"] > 0
    assert any("higher than people" in sentence for sentence in found["sentences"])
    assert any("the judge alone is wrong" in sentence for sentence in found["sentences"])


def test_labels_that_were_picked_are_noticed() -> None:
    rows = [
        {
            "id": str(place),
            "human": place % 3 == 0 if place < 60 else None,
            "judge": place < 60 or place % 2 == 0,
        }
        for place in range(400)
    ]
    found = calibrate(rows)
    assert found["selection"]["looks_random"] is False
    assert any("drawn at random" in sentence for sentence in found["sentences"])


def test_leaving_out_the_unlabelled_rows_does_not_hide_that_labels_were_picked() -> None:
    judged = [{"id": str(n), "criterion": "tone", "raw": 1 + n % 5} for n in range(200)]
    judgements = {"judge": {}, "scorer": {}, "items": judged}
    picked = [{"id": one["id"], "human": one["raw"], "judge": one["raw"]} for one in judged]
    easy = [row for row in picked if row["human"] > 2][:60]
    found = calibrate(easy, judgements=judgements)
    assert (found["n_labelled"], found["n_unlabelled"]) == (60, 140)
    assert found["selection"]["looks_random"] is False
    assert found["verdicts"] == {one["id"]: one["raw"] for one in judged}
    drawn = calibrate(picked[::4], judgements=judgements)
    assert drawn["selection"]["looks_random"] is True
    assert calibrate(picked, judgements=judgements)["selection"] is None


@pytest.mark.parametrize("values", [(0, 1), ("poor", "good")])
def test_labels_of_what_the_judge_could_read_alone_are_noticed(values: tuple[Any, Any]) -> None:
    rows = [
        {
            "id": str(n),
            "human": values[n % 2] if n < 60 else None,
            "judge": values[n % 2] if n < 60 or n % 9 == 0 else None,
        }
        for n in range(120)
    ]
    found = calibrate(rows)["selection"]
    assert (found["unread_on_labelled"], found["unread_on_others"]) == (0, 53 / 60)
    assert found["looks_random"] is False
    none_read = [{**row, "judge": row["human"]} for row in rows]
    assert calibrate(none_read)["selection"]["looks_random"] is False
    equally = [{**row, "judge": values[n % 2] if n % 3 else None} for n, row in enumerate(rows)]
    assert calibrate(equally)["selection"]["looks_random"] is True


@pytest.mark.parametrize("rare", [{3}, {399}, set(range(100, 110)), set()])
def test_a_rare_verdict_on_one_side_does_not_make_a_draw_look_picked(rare: set[int]) -> None:
    rows = [
        {"id": str(n), "human": n not in rare if n < 40 else None, "judge": n not in rare}
        for n in range(400)
    ]
    assert calibrate(rows)["selection"]["looks_random"] is True


def test_words_have_a_rate_only_when_the_positive_one_is_named() -> None:
    rows = verdicts(values=("pass", "fail", "unsure"))
    assert calibrate(rows)["corrected"]["ppi"]["value"] is None
    unnamed = calibrate(rows)
    assert unnamed["corrected"]["ppi"]["reason"].startswith("the values are words; name the one")
    assert unnamed["agreement"]["spearman"]["reason"] == (
        "the categories have no order; name the positive one"
    )
    found = calibrate(rows, positive="pass")
    assert found["corrected"]["ppi"]["low"] < 1 / 3 < found["corrected"]["ppi"]["high"]
    with pytest.raises(InputError, match="no label and no verdict is 'passed'"):
        calibrate(rows, positive="passed")
    with pytest.raises(UsageError):
        calibrate(rows, level=1.0)


def test_a_scale_of_numbers_is_not_reduced_to_one_value_against_the_rest() -> None:
    people = [1, 2, 5] * 20
    rows = [
        {"id": str(place), "human": label, "judge": {1: 4, 2: 3, 5: 5}[label]}
        for place, label in enumerate(people)
    ]
    assert calibrate(rows)["agreement"]["weighted_kappa"]["quadratic"]["value"] < 0.5
    with pytest.raises(InputError, match="agreement is measured on the whole scale"):
        calibrate(rows, positive="5")
    assert calibrate(verdicts(values=(0, 1)), positive="0")["scale"]["positive"] == "0"


def test_groups_widen_the_estimates_and_the_result_says_what_ignores_them() -> None:
    rows = verdicts(80, 320)
    copies = [
        {**row, "id": f"{row['id']}-{copy}", "group": row["id"]}
        for row in rows
        for copy in range(3)
    ]
    alone, fooled, known = (
        calibrate(made)["corrected"]["ppi"]
        for made in (
            rows,
            [{key: row[key] for key in ("id", "human", "judge")} for row in copies],
            copies,
        )
    )
    widths = [found["high"] - found["low"] for found in (alone, fooled, known)]
    assert widths[1] < 0.7 * widths[0]
    assert widths[2] == pytest.approx(widths[0], rel=0.1)
    found = calibrate(copies)
    assert found["groups"] == {"n": 400, "corrected": "cluster-robust", "agreement": "ignored"}
    assert any("groups" in sentence for sentence in found["sentences"])


@pytest.mark.req("W-070")
def test_a_calibration_is_of_one_criterion_and_names_it() -> None:
    verdicts = {"easy": [n % 2 for n in range(40)], "hard": [n % 3 % 2 for n in range(40)]}
    judgements = {
        "judge": {"model": "m-1"},
        "scorer": {"kind": "llm", "name": "m-1"},
        "items": [
            {"id": str(n), "criterion": name, "raw": raw}
            for name, raws in verdicts.items()
            for n, raw in enumerate(raws)
        ],
    }

    def calibrated(judge: list[int]) -> Any:
        rows = [{"id": str(n), "human": n % 2, "judge": raw} for n, raw in enumerate(judge)]
        return calibrate(rows, judgements=judgements)

    for name in verdicts:
        assert calibrated(verdicts[name])["scorer"]["criteria"] == [name]
    mixed = [verdicts["easy" if n % 2 else "hard"][n] for n in range(40)]
    with pytest.raises(InputError, match="match several of the criteria easy, hard"):
        calibrated(mixed)
    judgements["items"].append({"id": "7", "criterion": "easy", "raw": 0})  # it gave a 1 before
    with pytest.raises(InputError, match=r"the verdict on '7' is 1; the judge gave 0 and 1\."):
        calibrated(verdicts["easy"])


def test_copies_of_a_text_count_once_whatever_the_order_of_the_rows() -> None:
    texts = 40  # as many items again are copies of the first ten
    names = [f"{n:02}" for n in range(texts)] + [f"{n:02}-copy" for n in range(texts)]
    items = [
        {"id": name, "raw": int(name[:2]) % 3 % 2, "samples": [{"key": name[:2]}]} for name in names
    ]
    for item in items[texts:]:
        item["samples"] = [{"key": f"{int(item['id'][:2]) % 10:02}"}]
        item["raw"] = int(item["samples"][0]["key"]) % 3 % 2
    judgements = {"judge": {"model": "m-1"}, "scorer": {"kind": "llm"}, "items": items}
    rows = [{"id": item["id"], "human": item["raw"], "judge": item["raw"]} for item in items]
    rows[0]["human"] = None  # a copy of it has a label, which is not lost
    found = calibrate(rows, judgements=judgements)
    assert (found["n_labelled"], found["n_unlabelled"], found["copies"]) == (40, 0, 40)
    assert "40 more rows left out: copies of another text." in found["sentences"]
    rows[texts]["human"] = 1 - rows[texts]["human"]
    again = [calibrate(each, judgements=judgements)["agreement"] for each in (rows, rows[::-1])]
    assert again[0] == again[1]
    with pytest.raises(NotEnoughEvidence, match="10 labelled verdicts of 10 rows, 40 copies left"):
        calibrate(
            [*rows[:10], *rows[texts:]],
            judgements={**judgements, "items": [*items[:10], *items[texts:]]},
        )
    assert "copies" not in calibrate(rows), "without judgements the texts are unknown"


def test_labels_without_verdicts_take_them_from_the_judgements(assay: Any, tmp_path: Path) -> None:
    document = {
        "schema": "assay.judgements/1",
        "judge": {"model": "m-1"},
        "scorer": {"kind": "llm", "name": "m-1"},
        "items": [{"id": str(n), "criterion": "easy", "raw": n % 3 % 2} for n in range(40)],
    }
    (tmp_path / "judgements.json").write_text(json.dumps(document))
    rows = [{"id": str(n), "human": n % 2} for n in range(40)]
    bare = write(tmp_path / "bare.jsonl", rows)
    whole = write(
        tmp_path / "whole.jsonl", [{**row, "judge": n % 3 % 2} for n, row in enumerate(rows)]
    )
    given = ("--judgements", "judgements.json", "--json")
    found = assay("judge", "calibrate", "--labels", bare, *given).json()
    assert found == assay("judge", "calibrate", "--labels", whole, *given).json()
    refused = assay("judge", "calibrate", "--labels", bare)
    assert refused.code == 3
    assert "`assay judge calibrate --judgements FILE` takes verdicts from there" in refused.err
    assert "name one with --criterion" in refused.err
    other = write(tmp_path / "other.jsonl", [{**row, "id": f"q-{row['id']}"} for row in rows])
    unknown = assay("judge", "calibrate", "--labels", other, "--judgements", "judgements.json")
    assert (unknown.code, "`judge` is missing" in unknown.err) == (3, False)
    assert "the judge was not asked about this item. Its ids are like '0'." in unknown.err
    document["items"] += [{**item, "criterion": "hard"} for item in document["items"]]
    (tmp_path / "judgements.json").write_text(json.dumps(document))
    several = assay("judge", "calibrate", "--labels", bare, *given)
    assert (several.code, "`judge` is missing" in several.err) == (3, True)
    fitting = assay("judge", "calibrate", "--labels", whole, *given)
    assert (fitting.code, "several of the criteria easy, hard" in fitting.err) == (3, True)
    for labels in (bare, whole):
        chosen = assay("judge", "calibrate", "--labels", labels, *given, "--criterion", "hard")
        assert chosen.json()["scorer"]["criteria"] == ["hard"]
    wrong = assay("judge", "calibrate", "--labels", whole, *given, "--criterion", "tone")
    assert (wrong.code, "no judgement is on the criterion 'tone'" in wrong.err) == (2, True)


def test_the_digest_of_a_set_is_of_its_labels_alone() -> None:
    rows = verdicts()
    first = calibrate(rows)["set"]["digest"]
    random.Random(1).shuffle(rows)
    other = [{**row, "judge": not row["judge"]} for row in rows]
    assert calibrate(other)["set"]["digest"] == first
    assert calibrate([row for row in rows if row["human"] is not None])["set"]["digest"] == first
    labelled = next(row for row in rows if row["human"] is not None)
    labelled["human"] = not labelled["human"]
    assert calibrate(rows)["set"]["digest"] != first
    assert set_digest(labels_of(rows)) == calibrate(rows)["set"]["digest"]


def test_the_order_of_rows_changes_no_number() -> None:
    rows = verdicts(values=(1, 2, 3, 4, 5))
    one = calibrate(rows)
    two = calibrate(rows[::-1])
    del one["labels"], two["labels"]
    assert json.dumps(one, sort_keys=True) == pytest.approx(
        json.dumps(two, sort_keys=True)
    ) or _near(one, two)


def _near(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return set(one) == set(two) and all(_near(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(_near, one, two))
    return bool(one == pytest.approx(two, abs=1e-12)) if isinstance(one, float) else one == two


# --- bad input


def test_every_fault_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "human": 1, "judge": 2},
        {"id": "a", "human": 1, "judge": 2},
        {"id": "", "human": 1, "judge": 2},
        {"id": "c", "judge": 2},
        {"id": "d", "human": "4", "judge": 2},
        {"id": "e", "human": [1], "judge": {"score": 1}},
        '{"id": "f", "human": NaN, "judge": 1}',
        "[1, 2]",
        '{"id": "g", "human": 1',
        {"id": "h", "humna": 1, "judge": 1},
        {"id": "i", "human": 1, "judge": True},
        '{"id": "j", "human": 1e400, "judge": 1}',
        {"id": "k", "human": 1, "judge": 1, "group": [1]},
    ]
    with pytest.raises(InputError) as error:
        read_labels(str(write(tmp_path / "l.jsonl", rows)))
    text = str(error.value)
    assert error.value.exit_code == 3
    for line in range(2, 14):
        assert f"line {line} " in text, (line, text)
    assert "line 1 " not in text
    assert "first in line 1" in text
    assert "Did you mean 'humna'?" in text
    assert "quotation marks" in text


def test_a_verdict_that_is_only_spelled_otherwise_is_a_fault_and_not_a_disagreement(
    tmp_path: Path,
) -> None:
    rows = [{"id": str(place), "human": "pass", "judge": "Pass "} for place in range(40)]
    with pytest.raises(InputError, match="Spell them alike"):
        read_labels(str(write(tmp_path / "l.jsonl", rows)))


def test_rows_from_python_are_held_to_the_same_rules() -> None:
    with pytest.raises(InputError, match=r"rows\[1\]"):
        calibrate(
            [{"id": "a", "human": 1, "judge": 1}, {"id": "a", "human": 1, "judge": float("nan")}]
        )


def test_a_file_may_count_its_raters_or_name_them() -> None:
    given: list[Any] = [["anna"], "anna", 3, [1, 2], None]
    rows = [{"id": n, "human": 1, "judge": 1, "raters": one} for n, one in enumerate(given)]
    assert [row.raters for row in labels_of(rows)] == [["anna"], ["anna"], None, None, None]


def test_a_constant_judge_has_no_kappa_and_no_correlation_and_that_is_said() -> None:
    rows = [{"id": str(place), "human": place % 4 + 1, "judge": 3} for place in range(60)]
    found = calibrate(rows)
    assert found["agreement"]["spearman"]["value"] is None
    assert found["agreement"]["spearman"]["reason"]
    assert found["agreement"]["cohen_kappa"]["value"] == pytest.approx(0, abs=1e-9)
    json.dumps(found, allow_nan=False)
    same = calibrate([{"id": str(place), "human": True, "judge": True} for place in range(60)])
    assert same["agreement"]["cohen_kappa"]["value"] is None
    assert any("cannot be determined" in sentence for sentence in same["sentences"])


@pytest.mark.parametrize("size", [1e49, 1e-49, 1e-190, 1e-290])
def test_huge_and_tiny_scores_neither_overflow_nor_divide_by_nothing(size: float) -> None:
    rows = [
        {
            "id": str(place),
            "human": (place % 9) * size if place < 60 else None,
            "judge": (place % 7) * size,
        }
        for place in range(90)
    ]
    json.dumps(calibrate(rows), allow_nan=False)


def test_the_scale_is_read_from_the_values() -> None:
    def name(*values: Any) -> str:
        return scale_of(
            labels_of(
                [
                    {"id": str(place), "human": value, "judge": value}
                    for place, value in enumerate(values)
                ]
            )
        ).name

    assert [
        name(0, 1),
        name(True),
        name("a", "tie"),
        name("x", "y"),
        name(1, 5),
        name(0.5, 1),
        name(*range(40)),
    ] == [
        "binary",
        "binary",
        "comparison",
        "categories",
        "ordinal",
        "continuous",
        "continuous",
    ]
    block = agreement_block(
        ["x", "y"],
        ["x", None],
        scale_of(labels_of([{"id": "1", "human": "x", "judge": "y"}])),
        level=0.95,
    )
    assert block["confusion"] == {
        "human": ["x", "y"],
        "judge": ["x", "y", "(unparsable)"],
        "counts": [[1, 0, 0], [0, 0, 1]],
    }
