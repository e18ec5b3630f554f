"""Charts: each says what it shows, has its table, holds no number that its document does not, and
cannot be broken by what a document says.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from assay.canon import number_text, plain
from assay.errors import UsageError
from assay.families.exams import views as exams
from assay.families.exams.records import ExamFileCount, ExamResult, PatternSeen
from assay.families.exams.results import exam_result
from assay.families.exams.views import ExamPoint, exam_charts, exam_page
from assay.families.judges import charts as agreement
from assay.families.judges import charts as judges
from assay.families.judges.calibration import calibrate
from assay.families.judges.views import judge_page
from assay.files.json_files import Document, parse_json
from assay.judging.card import read_card
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.records.judge_card import CardAdmission, CardTerm, Estimate, JudgeCard, WeightedKappas
from assay.records.samples import SampleAnswer, SampleTexts
from assay.release.summary import Summary
from assay.services.grading import Grader
from assay.views import drawing
from assay.views.blocks import Figure
from assay.views.charts import (
    DARK,
    PALETTE,
    Chart,
    chart,
    decisions,
    grades,
    steps,
    summaries,
    trends,
)
from assay.views.decision import decision_charts, decision_view
from assay.views.pieces import points
from assay.views.render import report
from assay.views.report import Report, render
from checkout import ROOT
from decisions import confirmation, decided, suspect
from examples import CAMPAIGN
from test_exam_marking import RULES, graded_of
from test_reports_html import HOSTILE, Page, poisoned

pytest.importorskip("vl_convert", reason="no renderer here: pip install 'assaykit[charts]'")

EXAMPLES = ROOT / "src" / "assay" / "cli" / "examples"
FAMILIES = ("code-repair", "rag", "tool-use", "dag-review", "scorecards")
PATTERNED = [7, 7, 7, *[15] * 8, 11, *[14] * 5, 15, 14, 14]
"""Marks in which three of the four patterns are seen."""


@cache
def results() -> list[dict[str, Any]]:
    grader = Grader(Shelf())
    lines = [
        line for name in FAMILIES for line in (EXAMPLES / f"{name}.jsonl").read_bytes().splitlines()
    ]
    return [plain(grader.grade(Document(parse_json(line), "example")).payload()) for line in lines]


@cache
def summary() -> dict[str, Any]:
    grader, made = Grader(Shelf()), Summary()
    for name in FAMILIES:
        for line in (EXAMPLES / f"{name}.jsonl").read_bytes().splitlines():
            made.add(grader.grade(Document(parse_json(line), "example")).grade)
    return plain(made.block())


def decision_page(decision: Decision, **more: Any) -> str:
    return report("Assay: a decision", *decision_view(decision, **more), heading="Assay decision")


def poisoned_decision(text: str) -> Decision:
    rule = replace(decided()[0].rules[0], id=text, reason=text, evidence={text: [text]})
    worse = replace(decided()[0].worse[0], sample=text, newly_failed_gates=[text])
    suspects = [suspect(text, check=f"gate {text}"), suspect(f"{text}2", "flaky")]
    return replace(
        decided()[0],
        reason=text,
        rules=[rule],
        worse=[worse],
        policy=text,
        would_change=[text],
        titles={text: text},
        confirmation=confirmation(*suspects),
        criteria={text: next(iter(decided()[0].criteria.values()))},
        loud=[text],
        notes=[text],
    )


def poisoned_texts(text: str) -> dict[str, SampleTexts]:
    same = SampleAnswer(text, 0, 1, text, text)
    return {text: SampleTexts(text, text, same, same)}


@cache
def exam() -> ExamResult:
    return exam_result(graded_of(PATTERNED, verb=["go"] * 3 + ["eat"] * 17), RULES)


def hostile_exam(text: str) -> ExamResult:
    """The exam with a foreign text wherever an exam file or a tutor can put one."""
    items = [
        replace(item, item=f"{text}{place}", prompt=text, expected=[text], got=text)
        for place, item in enumerate(exam().items)
    ]
    seen = PatternSeen(kind="outlier_item", evidence={"item": text, "axis": "schema"}, hint=text)
    files = [ExamFileCount(exam=text, version=text, items=1)]
    return replace(exam(), items=items, patterns=[seen], diagnosis=[text], rubric=text, exams=files)


@cache
def card() -> dict[str, Any]:
    rows = [
        {"id": f"i{k}", "human": k % 5 + 1, "judge": (k * 7 // 3) % 5 + 1 if k % 3 else k % 5 + 1}
        for k in range(60)
    ]
    bias = {
        "value": 0.4,
        "low": 0.2,
        "high": 0.6,
        "level": 0.95,
        "items": 12,
        "sentence": "the judge favours what comes first.",
    }
    calibration = calibrate(rows, minimum=1)
    injection = {**bias, "value": 0.1, "low": 0.05}
    return plain(
        {
            "schema": "assay.judge-card/1",
            "model": "m",
            "made_at": "2026-11-15T10:00:00Z",
            "calibration": calibration,
            "agreement": calibration["agreement"],
            "verdicts": {row["id"]: row["judge"] for row in rows},
            "biases": {"position": bias, "injection": injection},
        }
    )


def hostile_card(text: str) -> JudgeCard:
    """The card with a foreign text wherever a judge or an endpoint can put one."""
    made = read_card(card())
    position = made.biases["position"]
    assert position is not None
    probe = replace(position, sentence=text)
    admission = CardAdmission(False, text, text, [CardTerm(text, None, text)])
    return replace(
        made,
        model=text,
        family=text,
        biases={"position": probe},
        identity={text: text},
        prompt_version=text,
        admission=admission,
    )


MONTHS: list[dict[str, Any]] = [
    {
        "at": f"2026-0{m}-01T10:00:00Z",
        "value": 0.5 + m / 20,
        "low": 0.4 + m / 20,
        "high": 0.6 + m / 20,
        "level": 0.95,
    }
    for m in range(1, 7)
]


def monthly_cards() -> list[JudgeCard]:
    """A card of each month, whose kappa is that of the month."""
    made = read_card(card())
    assert made.agreement is not None
    return [
        replace(
            made,
            made_at=month["at"],
            agreement=replace(
                made.agreement,
                weighted_kappa=WeightedKappas(),
                cohen_kappa=Estimate(*(month[key] for key in ("value", "low", "high", "level"))),
            ),
        )
        for month in MONTHS
    ]


SCORES = [ExamPoint(point["at"], point["value"], 20, "tutor@1") for point in MONTHS]


def bins_of(scores: Iterable[object]) -> list[int]:
    counts = Counter(map(summaries.bin_of, scores))
    return [counts[place] for place in range(summaries.BINS)]


@cache
def charts() -> dict[str, Chart]:
    """Every chart there is, on a document that has all it needs."""
    run, decision = results()[5], decided()[0]
    return {
        "contributions": grades.contributions(run),
        "floors": grades.floors(run),
        "timeline": steps.timeline(run),
        "grade_mix": summaries.grade_mix(summary()["grades"], "workflow@1"),
        "score_histogram": summaries.score_histogram(
            bins_of(one["weighted_score"] for one in results()),
            bands=run["bands"],
            threshold=run["pass_threshold"],
            policy=run["policy"],
        ),
        "gate_failures": summaries.gate_failures(
            {name: one["failed"] for name, one in summary()["gates"].items()}, summary()["n"]
        ),
        "paired_scatter": decisions.paired_scatter(
            decision.worse, n_paired=decision.comparison.n_paired
        ),
        "difference": decisions.difference(decision),
        "rules": decisions.rules(decision),
        "axes": exams.axes(exam()),
        "axes_raw": exams.axes(exam(), weighted=False),
        "heatmap": exams.heatmap(exam()),
        "patterns": exams.patterns(exam()),
        "history": exams.exam_history_chart(SCORES, exam().distribution, limit=0.92),
        "reliability": agreement.reliability(read_card(card()).agreement, 60),
        "calibration": judges.calibration(read_card(card())),
        "confusion": judges.confusion(read_card(card()).agreement),
        "bias": judges.bias(read_card(card()).biases),
        "drift": trends.drift(monthly_cards()),
    }


NAMES = (
    *(
        "contributions",
        "floors",
        "timeline",
        "grade_mix",
        "score_histogram",
        "gate_failures",
    ),
    *(
        "paired_scatter",
        "difference",
        "rules",
        "axes",
        "axes_raw",
        "heatmap",
        "patterns",
        "history",
        "reliability",
        "calibration",
        "confusion",
        "bias",
        "drift",
    ),
)
FUNCTIONS = {
    "contributions": grades.contributions,
    "floors": grades.floors,
    "timeline": steps.timeline,
    "score_histogram": lambda document: summaries.score_histogram(
        bins_of([document.get("score")]), bands=[document], policy="p"
    ),
}


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *strings(item))]
    return (
        [text for item in value for text in strings(item)]
        if isinstance(value, list)
        else [value]
        if isinstance(value, str)
        else []
    )


# --- every chart


def test_no_chart_is_forgotten() -> None:
    assert tuple(charts()) == NAMES
    made = {
        name
        for module in (
            grades,
            steps,
            summaries,
            trends,
            decisions,
            exams,
            agreement,
            judges,
        )
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
        and getattr(value, "__annotations__", {}).get("return") == "Chart"
    }
    public = {name for name in made if not name.startswith("_")}
    assert public == {*NAMES, "exam_history_chart"} - {"axes_raw", "history"}


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_says_what_it_shows_and_has_its_table(name: str) -> None:
    made = charts()[name]
    assert made.spec is not None
    assert re.fullmatch("[a-z-]+", made.name)
    assert made.title
    assert re.search(r"[.]$", made.sentence)
    assert made.rows
    assert {len(row) for row in made.rows} == {len(made.columns)}
    assert all(isinstance(cell, str) for row in made.rows for cell in row)
    assert "None" not in json.dumps([made.sentence, made.rows])


@pytest.mark.parametrize("name", NAMES)
def test_a_specification_has_colours_of_the_palette_only_and_fields_of_our_own(name: str) -> None:
    text = json.dumps(charts()[name].spec)
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", text)) <= PALETTE
    assert set(re.findall(r'"field": "([^"]*)"', text)) <= set(
        re.findall(r'"field": "([a-z0-9]+)"', text)
    )
    assert "url" not in re.findall(r'"([a-z]+)":', text)


@pytest.mark.parametrize("name", NAMES if CAMPAIGN else sorted({*NAMES[::3], "heatmap", "drift"}))
def test_a_picture_is_well_formed_stands_alone_and_follows_the_readers_scheme(name: str) -> None:
    made = charts()[name]
    source = drawing.svg(made).decode()
    root = ET.fromstring(source)
    assert root.get("role") == "img"
    assert root.get("aria-label") == made.sentence
    assert {child.tag.split("}")[1] for child in root.iter()} <= {
        "svg",
        "title",
        "style",
        "g",
        "path",
        "line",
        "rect",
        "text",
    }
    assert not re.search(r"href|url\(|@import|\son\w+=", source.replace("xmlns", ""))
    colours = {
        value
        for child in root.iter()
        for key in ("fill", "stroke")
        if (value := child.get(key)) and value.startswith("#")
    }
    assert {colour.lower() for colour in colours} <= {colour.lower() for colour in PALETTE}
    assert "prefers-color-scheme:dark" in source
    assert all(f'[fill="{light}"]{{fill:{dark}}}' in source for light, dark in DARK.items())
    if CAMPAIGN or name in ("heatmap", "drift"):
        assert drawing.png(made).startswith(b"\x89PNG")


def _contrast(one: str, other: str) -> float:
    parts = [[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in (one, other)]
    bright = [
        sum(
            w * (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4)
            for w, p in zip((0.2126, 0.7152, 0.0722), part, strict=True)
        )
        for part in parts
    ]
    return (max(bright) + 0.05) / (min(bright) + 0.05)


def test_text_and_marks_can_be_seen_on_a_light_and_on_a_dark_ground() -> None:
    grounds = (chart.GROUND, DARK[chart.GROUND])
    for ground, ink, quiet in zip(
        grounds, (chart.INK, DARK[chart.INK]), (chart.QUIET, DARK[chart.QUIET]), strict=True
    ):
        assert min(_contrast(ink, ground), _contrast(quiet, ground)) >= 4.5
    for colour in (chart.BLUE, chart.RED, chart.GREY):
        assert min(_contrast(colour, ground) for ground in grounds) >= 3
    assert _contrast(chart.WHITE, chart.BLUE) >= 4.5
    assert (
        min(_contrast(chart.BLACK, colour) for colour in (chart.ORANGE, chart.SKY, chart.GREEN))
        >= 4.5
    )


def test_the_same_chart_gives_the_same_bytes_also_from_many_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = [charts()[name] for name in ("rules", "grade_mix", "floors", "heatmap")]
    first = [drawing.svg(made) for made in some]
    monkeypatch.setattr(drawing, "_kept", OrderedDict())
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(drawing.svg, some * 3))
    assert again == first * 3
    assert len({drawing.digest(made) for made in some}) == 4


def test_the_pictures_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "KEPT", 2)
    monkeypatch.setattr(drawing, "_kept", OrderedDict())
    for name in ("rules", "grade_mix", "floors"):
        drawing.svg(charts()[name])
    assert len(drawing._kept) == 2


# --- numbers


@pytest.mark.req("C-016", "X-94")
@pytest.mark.parametrize("weighted", [True, False])
def test_the_stacked_bar_of_each_item_has_the_four_axes_of_the_result(weighted: bool) -> None:
    made, items = (
        exams.axes(exam(), weighted=weighted),
        {item.item: item for item in exam().items},
    )
    assert made.columns[2:6] == ("correctness", "spanish_gloss", "schema", "conciseness")
    assert len(made.rows) == len(items) == 20
    for row in made.rows:
        item = items[row[0]]
        parts = [part for _, part in (item.weighted if weighted else item.breakdown).items()]
        assert row[1:6] == tuple(number_text(value) for value in (item.score, *parts))
    segments = made.spec["layer"][1]["data"]["values"]
    for name, item in items.items():
        length = sum(part["to"] - part["from"] for part in segments if part["name"] == name)
        assert length == pytest.approx(item.score if weighted else 4 - len(item.lost))


@pytest.mark.req("C-017")
def test_the_four_patterns_are_named_and_marked_where_they_are() -> None:
    assert {row[0]: row[1] for row in exams.patterns(exam()).rows} == {
        "axis_zero": "not found",
        "verb_zero": "found",
        "conciseness_trend": "found",
        "outlier_item": "found",
    }
    marked = {row[0]: row[-1] for row in exams.axes(exam()).rows if row[-1] != "none"}
    assert marked == {
        "e-000": "verb_zero",
        "e-001": "verb_zero",
        "e-002": "verb_zero",
        "e-011": "outlier_item",
    }
    assert {row[0]: row[-1] for row in exams.heatmap(exam()).rows} == {
        "correctness": "verb_zero",
        "spanish_gloss": "outlier_item",
        "schema": "none",
        "conciseness": "conciseness_trend",
    }
    broken = exam_result(graded_of([13] * 9 + [15]), RULES)
    assert exams.patterns(broken).rows[0][:3] == ("axis_zero", "found", "schema")
    assert [row[1] for row in exams.heatmap(broken).rows] == ["0", "0", "9", "0"]


def test_the_points_of_a_run_are_those_of_its_result() -> None:
    for run in results():
        made = grades.contributions(run)
        assert [row[1] for row in made.rows] == [
            points(one["contribution"]) for one in run["criteria"]
        ]
        assert [row[2] for row in made.rows] == [points(one["maximum"]) for one in run["criteria"]]
        assert (
            f"{run['weighted_score']:.2f} of 100 points, grade {run['grade']} under {run['policy']}"
            in made.sentence
        )
        assert ("no score makes up" in made.sentence) == bool(run["hard_gate_failures"])
        floors = grades.floors(run)
        assert [row[0] for row in floors.rows if row[4] == "missed"] == [
            one["label"] or one["name"] for one in run["criteria"] if one["floor_failed"]
        ]


def test_a_run_without_start_times_is_drawn_step_after_step_and_says_so() -> None:
    run = results()[0]
    made = steps.timeline(run)
    assert [row[3] for row in made.rows] == [
        number_text(step["duration_ms"]) for step in run["step_scores"]
    ]
    assert "drawn one after another" in made.sentence
    bars = made.spec["data"]["values"]
    assert [bar["from"] for bar in bars[1:]] == [bar["to"] for bar in bars[:-1]]
    placed = steps.timeline(
        {
            "steps": [
                {"name": "a", "duration_ms": 5, "start_ms": 0},
                {"name": "b", "duration_ms": 5, "start_ms": 2},
            ]
        }
    )
    assert [bar["from"] for bar in placed.spec["data"]["values"]] == [0, 2]
    assert "one after another" not in placed.sentence
    untimed = steps.timeline({"steps": [{"name": "a", "status": "success"}]})
    assert (untimed.spec, untimed.rows) == (None, (("a", "no agent", "success", "not reported"),))


def test_the_difference_is_that_of_the_decision_with_its_interval_and_margin() -> None:
    for decision in decided():
        found = decision.comparison
        made = decisions.difference(decision)
        ends = [f"{getattr(found.difference, key):+.2f}" for key in ("estimate", "low", "high")]
        assert made.sentence.startswith(
            f"{ends[0]} points of 100, 95% interval {ends[1]} to {ends[2]}, n 60; margin 3."
        )
        lines = [layer["data"]["values"] for layer in made.spec["layer"] if "data" in layer]
        assert -found.margin in [row.get("at") for rows in lines for row in rows]
        assert [row[:2] for row in decisions.rules(decision).rows if row[1] == "holds"] == [
            (rule.id, "holds") for rule in decision.rules if rule.holds
        ]


def test_a_decision_without_a_difference_is_not_drawn_as_no_difference() -> None:
    compared = decided()[0].comparison
    nothing = replace(compared.difference, estimate=None, low=None, high=None)
    bare = decisions.difference(
        replace(decided()[0], comparison=replace(compared, difference=nothing))
    )
    assert bare.spec is None
    assert "states no difference" in bare.sentence
    unshown = replace(
        compared,
        difference=replace(nothing, estimate=0.5, reason="one pair"),
        superior=None,
        non_inferior=None,
        equivalent=None,
    )
    open_ended = decisions.difference(replace(decided()[0], comparison=unshown))
    assert "no interval: one pair" in open_ended.sentence
    assert "not been shown to be as good" in open_ended.sentence


def test_worse_pairs_are_marked_and_pairs_without_a_side_are_counted() -> None:
    pairs = [
        decisions.ScorePair("a", 80, 90),
        decisions.ScorePair("b", 90, 80),
        decisions.ScorePair("c", None, 70),
    ]
    made = decisions.paired_scatter(pairs)
    assert [point["turn"] for point in made.spec["data"]["values"]] == ["worse", "better"]
    assert "1 pair lacks a side and is not drawn." in made.sentence
    assert made.rows[0] == ("c", "missing", "70.00", "not known")
    many = decisions.paired_scatter([decisions.ScorePair(str(k), k % 100, 50) for k in range(3000)])
    assert len(many.spec["data"]["values"]) == decisions.MAX_POINTS
    assert "Only the 1,000 that fell most are drawn." in many.sentence


def test_confusion_and_calibration_count_what_the_card_holds() -> None:
    found = card()["calibration"]["agreement"]["confusion"]
    assert [row[1:] for row in judges.confusion(read_card(card()).agreement).rows] == [
        tuple(map(str, line)) for line in found["counts"]
    ]
    assert sum(int(row[2]) for row in judges.calibration(read_card(card())).rows) == 60
    assert (
        "Biased by position: the interval excludes 0. 2 of 7 probes were run."
        in judges.bias(read_card(card()).biases).sentence
    )
    assert ("Length", "not measured", "not measured", "none", "") in judges.bias(
        read_card(card()).biases
    ).rows


def test_a_letter_is_never_shown_without_its_policy() -> None:
    assert "under workflow@1" in summaries.grade_mix({"A": 3}, "workflow@1").sentence
    assert "under a policy that is not stated" in summaries.grade_mix({"A": 3}, "").sentence
    assert (
        "under a policy that is not stated"
        in grades.contributions(
            {"grade": "A", "criteria": [{"name": "c", "contribution": 3}]}
        ).sentence
    )
    without = summaries.score_histogram(bins_of([50]), bands=[{"grade": "A", "min": 90}])
    assert '"A"' not in json.dumps(without.spec)


def test_the_sentence_of_a_histogram_reads_without_its_picture() -> None:
    made = summaries.score_histogram(bins_of([50]), threshold=70)
    assert made.sentence.endswith(" with 1 run. The passing score is 70.00.")


def test_a_long_exam_draws_what_lost_something_and_says_so() -> None:
    long = exam_result(graded_of([15] * 400 + [11] * 60), RULES)
    made = exams.axes(long)
    assert len(made.spec["layer"][-1]["data"]["values"]) == chart.MAX_ROWS
    assert "Only the 40 that lost most are drawn." in made.sentence
    assert made.rows[-1][0] == f"… and {460 - chart.MAX_TABLE:,} more, left out here"
    assert "Only 60 items that lost points are drawn." in exams.heatmap(long).sentence
    perfect = exams.axes(exam_result(graded_of([15] * 60), RULES))
    assert perfect.spec is None
    assert "no mark was lost" in perfect.sentence


# --- missing and hostile


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_document_without_the_parts_is_said_to_be_so_and_not_drawn(name: str) -> None:
    made = FUNCTIONS[name]({})
    assert made.spec is None
    assert made.sentence
    assert made.rows


def test_what_nobody_counted_or_measured_is_not_drawn() -> None:
    nobody = replace(read_card(card()), agreement=None)
    unmeasured = [replace(one, made_at="") for one in monthly_cards()]
    for made, sentence in (
        (summaries.grade_mix({}, "p"), "No run was graded under p, so there is no grade to show."),
        (summaries.gate_failures({}, 3), "No run has a gate, so none can fail."),
        (
            trends.drift([nobody]),
            "This judge has no card with labels yet, so there is no agreement to show.",
        ),
        (
            trends.drift(unmeasured),
            "6 points without a time or a value: nothing can be drawn.",
        ),
    ):
        assert (made.spec, made.sentence) == (None, sentence)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 200)
    | st.floats()
    | st.sampled_from(["pass", "a", "2026-01-01", "\ud800", "axis_zero", "correctness"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["a", "breakdown", "weighted", "status", "norm", "value", "low", "high"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KEYS = (
    *(
        "criteria",
        "hard_gates",
        "weighted_score",
        "bands",
        "steps",
        "rules",
        "comparison",
        "slices",
        "items",
        "patterns",
        "calibration",
        "verdicts",
        "biases",
    ),
    *(
        "at",
        "value",
        "low",
        "high",
        "n",
        "score",
        "candidate",
        "baseline",
        "sample",
        "count",
        "min",
        "grade",
        "policy",
        "pass_threshold",
        "floor_failures",
    ),
)


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8))
def test_no_document_breaks_a_chart(document: dict[str, Any]) -> None:
    for name, function in FUNCTIONS.items():
        made = function(document)
        assert made.sentence, name
        assert {len(row) for row in made.rows} == {len(made.columns)}, name
        json.dumps(made.spec, allow_nan=False)


@pytest.mark.parametrize(
    ("place", "poison"),
    list(
        enumerate(
            [
                *HOSTILE,
                "a\u202eb\x00c\ud800\x1b[31m\ufffe",
                "x.y[0]",
                "{signal: 'alert(1)'}",
                "datum.x",
            ]
        )
    ),
)
def test_hostile_text_is_drawn_as_text(place: int, poison: str) -> None:
    """In the suite each text in one of the five charts, in a campaign in all of them."""
    makers: list[Callable[[], Chart]] = [
        lambda: grades.contributions(poisoned(results()[5], poison)),
        lambda: grades.floors(poisoned(results()[1], poison)),
        lambda: steps.timeline(poisoned(results()[0], poison)),
        lambda: decisions.rules(poisoned_decision(poison)),
        lambda: exams.axes(hostile_exam(poison)),
    ]
    for make in makers if CAMPAIGN else (makers[place % 5],):
        source = drawing.svg(make()).decode()
        root = ET.fromstring(source)
        assert {child.tag.split("}")[1] for child in root.iter()} <= {
            "svg",
            "title",
            "style",
            "g",
            "path",
            "line",
            "rect",
            "text",
        }
        said = "".join(child.text or "" for child in root.iter() if child.tag.endswith("text"))
        assert chart.clean(poison)[:8] in said or chart.clean(poison)[:8] in (
            root.get("aria-label") or ""
        )


@given(st.lists(st.text(max_size=6) | st.text("ab\u202e", min_size=30, max_size=60), max_size=12))
def test_two_rows_never_fall_into_one(names: list[str]) -> None:
    made = chart.labels(names)
    assert len(set(made)) == len(names)
    assert not {sign for text in made for sign in map(ord, text)} & set(chart.UNSEEN)


# --- pages


def test_the_report_draws_what_failed_and_has_the_verdict_first() -> None:
    source = render(results(), title="Nightly")
    page = Page(source)
    assert page.text.startswith(
        "Nightly Nightly ✗ Not passed. 7 of 15 runs did not pass. Most common reasons: gate answer_grounded"
        " does not pass (2); "
    )
    assert source == render(results(), title="Nightly"), "the same results give the same bytes"
    pictures = [attributes for name, attributes in page.elements if name == "img"]
    assert len(pictures) == 3, "only those of all runs"
    assert all(one["alt"] for one in pictures)
    assert all(str(one["src"]).startswith("data:image/svg+xml;base64,") for one in pictures)
    ids = page.values("id")
    assert len(set(ids)) == len(ids)
    bare = re.sub(r"base64,[^\"]*", "", source)
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script[^>]|<link", bare)
    folds = [kept for name, kept in page.elements if kept.get("class") == "sample"]
    assert len(folds) == 7, "the evidence of what failed; what passed is a row"
    assert sum("open" in kept for kept in folds) == 3, "that of the worst is open"


@pytest.mark.parametrize(
    "make",
    [
        lambda text: render(poisoned(results()[4:6], text), title=text),
        lambda text: decision_page(
            poisoned_decision(text), texts=poisoned_texts(text), broken=[text]
        ),
        lambda text: exam_page(hostile_exam(text)),
        lambda text: judge_page(hostile_card(text)),
    ],
)
def test_no_string_changes_the_structure_of_a_page_with_pictures(make: Any) -> None:
    shape = Page(make("h" * len(HOSTILE[0]))).shape
    for poison in HOSTILE if CAMPAIGN else HOSTILE[-1:]:
        page = Page(make(poison))
        assert page.shape == shape, poison
        assert {name for name, _ in page.elements}.isdisjoint(
            {"iframe", "object", "link", "base", "form"}
        )
        scripts = [values for name, values in page.elements if name == "script"]
        assert scripts in ([], [{}]), "none but the report's own"
        sources = [dict(values).get("src") for name, values in page.elements if name == "img"]
        assert all(str(source).startswith("data:image/svg+xml;base64,") for source in sources)


def test_a_decision_page_says_the_outcome_the_rules_and_what_fell() -> None:
    first = decided()[0]
    held, other = (Page(decision_page(one)).text for one in decided())
    assert f"Hold under release@1 {first.reason}" in held
    assert "The candidate may not replace the baseline" in held
    assert "Promote under release@1" in other
    assert "The candidate may replace the baseline." in other
    for rule in first.rules:
        assert rule.reason in held
    for one in first.worse:
        row = f"{one.sample} {one.baseline:.2f} {one.candidate:.2f} {one.difference:+.2f}"
        assert row in held
    assert "91.7% 81.9% to 96.4% (95%), n 60" in held
    for name in first.criteria:
        assert name in held
    assert "This is not all: the decision is based on 60 pairs" in held
    pairs = [decisions.ScorePair(str(k), k, 50) for k in range(60)]
    assert "60 pairs: 50 got worse" in Page(decision_page(first, pairs=pairs)).text


@pytest.mark.req("C-016", "C-017")
def test_an_exam_page_shows_the_axes_the_patterns_and_the_items_that_lost() -> None:
    page = Page(exam_page(exam()))
    assert page.text.startswith(
        "Assay exam Exam: x 1 Score 0.88 over 20 items, 0 without an answer. Grading is not a gate:"
        " assay exam gate decides."
    )
    assert sum(name == "img" for name, _ in page.elements) == 3
    assert "every item of 'go' is wrong" in page.text
    assert "e-000 0.4" in page.text


def test_without_the_renderer_tables_stand_in_for_pictures_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(drawing, "available", lambda: False)
    source = render(results(), title="t")
    assert Page(source).text.count("pip install 'assaykit[charts]'") == 1
    assert '<svg class="chart"' not in source
    grades, scores = re.findall(r"<details([^>]*)><summary>Table</summary>", source)[:2]
    assert (grades, scores) == (' open="open"', ""), "twenty ranges of scores hide the samples"
    with pytest.raises(UsageError, match="vl-convert-python"):
        drawing.write_charts([charts()["floors"]], str(tmp_path))


def test_charts_are_written_as_svg_and_png(tmp_path: Path) -> None:
    report = Report()
    for result in results()[:2]:
        report.add(result)
    drawn = {"grade-mix", "run-1-contributions", "run-2-contributions"}
    written = drawing.write_charts(
        [
            *(one for one in report.charts() if one.name in drawn),
            *exam_charts(exam())[:1],
            *decision_charts(decided()[0])[:1],
            charts()["floors"],
            charts()["floors"],
        ],
        str(tmp_path / "new"),
    )
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == sorted(Path(path).name for path in written)
    assert {
        "grade-mix.svg",
        "grade-mix.png",
        "run-1-contributions.svg",
        "run-2-contributions.png",
        "axes.svg",
        "rules.png",
        "floors.svg",
        "floors-2.svg",
    } <= set(names)


def test_the_command_writes_the_same_report_however_many_workers(
    assay: Any, tmp_path: Path
) -> None:
    lines = [
        line
        for name in FAMILIES
        for line in (EXAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines()[:2]
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    done = assay("grade", "runs.jsonl", "-o", "a.html", "-o", "grades.json")
    assert done.code == 1
    assert assay("grade", "runs.jsonl", "-o", "b.html", "--jobs", 1).code == 1
    source = (tmp_path / "a.html").read_text("utf-8")
    assert source == (tmp_path / "b.html").read_text("utf-8")


def test_a_report_of_many_runs_is_bounded_and_says_what_it_leaves_out() -> None:
    report = Report(pictures=False, rows=100, evidence=5)
    good, bad = results()[0], results()[1]
    for number in range(150):
        own = {"run_id": f"r-{number}", "sample_id": f"s-{number}"}
        report.add({**(bad if number % 3 == 0 else good), **own})
    source = report.foot([], {})
    page = Page(source.decode())
    assert len(source) < 1_000_000
    assert "Not passed. 50 of 150 runs did not pass." in page.text
    assert (
        "150 samples; 50 did not pass. The worst comes first. The table has 100 of them;"
        " -o grades.jsonl writes every one." in page.text
    )
    assert "The worst 5 of 50 samples that did not pass." in page.text
    assert page.text.index("s-147") < page.text.index("s-1 "), "what did not pass comes first"
    report.close()


def test_the_room_kept_for_a_picture_is_no_higher_than_the_picture() -> None:
    for name, made in charts().items():
        height = re.search(rb'height="([\d.]+)"', drawing.svg(made))
        assert height is not None
        room = Figure(made, url=f"/charts/{name}").room
        assert 0 < room <= float(height[1]), name
