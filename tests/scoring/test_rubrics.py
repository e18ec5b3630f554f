"""Rubrics: the authoring standard of the scoring guide, section 7, and an error that names every
fault of a file at once.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import AssayError, ShelfError
from assay.files.json_files import Document
from assay.files.yaml_files import parse_yaml
from assay.judging.items import JudgedItem
from assay.judging.rubric_task import questions_of
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.scoring.gates import GATES
from assay.scoring.rubric import Rubric, load_rubric
from assay.services.grading import Grader
from documents import run
from examples import share

if TYPE_CHECKING:
    from pathlib import Path

GUIDE = """\
rubric_id: fullstack_generation_v1
version: 1
criteria:
  - name: correctness
    scale: [1, 5]
    weight: 0.35
    critical_floor: 3
    definition: "Output satisfies functional requirements and constraints."
    evidence_required:
      - "Requirement-to-output mapping"
      - "No contradiction with input spec"
    anchors:
      "1": "Major requirement failures"
      "2": "Multiple significant errors"
      "3": "Minimum acceptable correctness"
      "4": "Accurate with minor issues"
      "5": "Fully correct and robust"
"""
"""The example of the guide, letter for letter."""


def read(text: str) -> Rubric:
    return load_rubric(parse_yaml(text.encode(), "rubric.yaml"))


def faults_of(text: str) -> list[tuple[int | None, str, str]]:
    """Line, place and words of each fault of a rubric that is refused."""
    with pytest.raises(ShelfError) as caught:
        read(text)
    assert caught.value.code == "LIB-002"
    assert caught.value.where == "rubric.yaml"
    assert all(fault.file == "rubric.yaml" for fault in caught.value.faults)
    return [
        (fault.line, fault.path, f"{fault.message} {fault.fix}".strip())
        for fault in caught.value.faults
    ]


def one_fault(text: str) -> tuple[int | None, str, str]:
    found = faults_of(text)
    assert len(found) == 1, found
    return found[0]


def criterion(name: str, /, **changes: Any) -> str:
    """A criterion as YAML; `changes` replace a line's value, and None removes it."""
    lines: dict[str, Any] = {
        "name": name,
        "scale": "[1, 5]",
        "weight": "1",
        "definition": "What it means.",
        "evidence_required": '["the diff"]',
        "anchors": '{"1": bad, "2": poor, "3": fair, "4": good, "5": best}',
        **changes,
    }
    listed = [f"{key}: {value}" for key, value in lines.items() if value is not None]
    return "  - " + "\n    ".join(listed) + "\n"


def rubric(*criteria: str, head: str = "rubric_id: mine\nversion: 1\n") -> str:
    return head + "criteria:\n" + "".join(criteria)


# --- what is read


@pytest.mark.req("W-064")
def test_the_rubric_of_the_guide_loads_as_it_is_written() -> None:
    found = read(GUIDE)
    assert (found.rubric_id, found.version, found.id) == (
        "fullstack_generation_v1",
        1,
        "fullstack_generation_v1@1",
    )
    (item,) = found.criteria
    assert (item.name, item.scale, item.weight, item.formula_id) == (
        "correctness",
        (1, 5),
        Decimal("0.35"),
        "likert_1_5",
    )
    assert item.floor() == {"raw": 3}
    assert item.definition == "Output satisfies functional requirements and constraints."
    assert item.evidence_required == [
        "Requirement-to-output mapping",
        "No contradiction with input spec",
    ]
    assert item.anchors == {
        "1": "Major requirement failures",
        "2": "Multiple significant errors",
        "3": "Minimum acceptable correctness",
        "4": "Accurate with minor issues",
        "5": "Fully correct and robust",
    }


def test_anchors_may_be_written_as_numbers() -> None:
    plain = rubric(criterion("tone", anchors="{1: bad, 2: poor, 3: fair, 4: good, 5: best}"))
    assert read(plain).criteria[0].anchors["4"] == "good"


@pytest.mark.parametrize(
    ("scale", "formula", "points"),
    [
        ("[1, 5]", "likert_1_5", range(1, 6)),
        ("[-2, 2]", "likert_neg2_2", range(-2, 3)),
        ("[0, 5]", "likert_0_5", range(6)),
        ("[0, 1]", "zero_one", range(2)),
    ],
)
def test_each_scale_of_the_guide_is_read_by_its_own_formula(
    scale: str, formula: str, points: range
) -> None:
    anchors = "{" + ", ".join(f'"{point}": text {point}' for point in points) + "}"
    assert (
        read(rubric(criterion("tone", scale=scale, anchors=anchors))).criteria[0].formula_id
        == formula
    )


@pytest.mark.req("W-062")
def test_the_built_in_rubrics_keep_the_standard_and_have_an_anchor_for_each_point() -> None:
    shelf = Shelf()
    five_points = 0
    for entry in shelf.entries("rubrics"):
        if entry.root != BUILTIN or not isinstance(shelf.load("rubrics", entry.id), Rubric):
            continue
        for item in shelf.rubric(entry.id).criteria:
            assert item.name.strip()
            assert item.definition.strip()
            assert item.evidence_required
            assert all(text.strip() for text in item.evidence_required)
            low, high = item.scale
            assert set(item.anchors) == {str(point) for point in range(low, high + 1)}, (
                entry.id,
                item.name,
            )
            assert len({text.strip().casefold() for text in item.anchors.values()}) == len(
                item.anchors
            )
            assert all(len(text.strip()) > 10 for text in item.anchors.values())
            five_points += item.scale == (1, 5)
    assert five_points >= 4


QUALITIES = (
    "coherence",
    "instruction_following",
    "completeness",
    "code_review_quality",
    "documentation",
    "communication",
)
MEANINGS = (
    "Fails the core",
    "Significant gaps",
    "Acceptable baseline",
    "Strong, minor issues",
    "Excellent",
)


@pytest.mark.req("W-021")
@pytest.mark.parametrize("quality", QUALITIES)
def test_a_judge_is_asked_about_each_quality_and_its_score_reaches_the_grade(quality: str) -> None:
    shelf = Shelf()
    (asked,) = [
        criterion
        for _, criterion, _ in questions_of(
            [JudgedItem("i", "the task", "the text")], shelf.rubric("quality"), only=[quality]
        )
    ]
    assert (asked.name, asked.scale) == (quality, (1, 5))

    def graded(raw: int) -> dict[str, Any]:
        tree = run(
            "tool-use",
            scores={
                **run("tool-use")["scores"],
                **{name: {"raw": raw if name == quality else 3} for name in QUALITIES},
            },
        )
        found: dict[str, Any] = (
            Grader(shelf, rubric="quality").grade(Document(tree, "run")).payload()
        )
        return found

    low, high = graded(1), graded(5)
    shown = {
        item["name"]: (item["raw_score"], item["norm"], item["layer"]) for item in high["criteria"]
    }
    assert shown[quality] == (5, 1, 2)
    assert set(QUALITIES) <= set(shown)
    assert high["weighted_score"] > low["weighted_score"]


@pytest.mark.req("W-063")
@pytest.mark.parametrize("quality", QUALITIES)
def test_each_point_from_1_to_5_means_the_same_to_the_judge_and_in_the_grade(quality: str) -> None:
    rubric = Shelf().rubric("quality")
    (question,) = [
        question
        for _, _, question in questions_of(
            [JudgedItem("i", "the task", "the text")], rubric, only=[quality]
        )
    ]
    lines = question.messages("0" * 32)[1]["content"].split("\n")
    for point, meaning in enumerate(MEANINGS, 1):
        assert [line for line in lines if line.startswith(f"{point} = {meaning}: ")], (
            point,
            meaning,
        )
    alone = Document(
        {
            "schema": "assay.scorecard/1",
            "run_id": "r",
            "hard_gates": {"g": True},
            "criteria": [
                {
                    "name": quality,
                    "raw_score": 3,
                    "formula_id": rubric.criteria[0].formula_id,
                    "weight": 1,
                }
            ],
        },
        "card",
    )
    letters = []
    for point in range(1, 6):
        alone.tree["criteria"][0]["raw_score"] = point
        letters.append(Grader(Shelf()).grade(alone).grade.grade)
    assert letters == ["F", "F", "F", "C", "A"], "a baseline in everything is half of the points"


# --- what is refused


@pytest.mark.req("W-062", "W-084")
@pytest.mark.parametrize(
    "key", ["name", "definition", "evidence_required", "scale", "anchors", "weight"]
)
def test_each_required_field_of_a_criterion_is_missed_with_its_line(key: str) -> None:
    line, path, message = one_fault(rubric(criterion("tone"), criterion("style", **{key: None})))
    assert (line, path) == (10, "criteria[1]")
    assert f"the key '{key}' is missing" in message


@pytest.mark.req("W-062")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("definition", '""'),
        ("definition", "null"),
        ("definition", "5"),
        ("definition", '"  "'),
        ("evidence_required", "[]"),
        ("evidence_required", '[""]'),
        ("evidence_required", "the diff"),
        ("evidence_required", '["\\t"]'),
        ("anchors", "{}"),
        ("anchors", "[bad, good]"),
        ("anchors", "null"),
        ("name", '""'),
        ("name", "null"),
        ("name", "7"),
        ("weight", "heavy"),
        ("weight", '"0.35"'),
        ("weight", "true"),
        ("weight", "null"),
        ("weight", "-0.1"),
        ("weight", ".nan"),
        ("weight", "0"),
        ("weight", "1e400"),
        ("weight", "1e30000"),
        ("weight", "[1]"),
    ],
)
def test_a_required_field_that_says_nothing_is_refused_where_it_stands(
    key: str, value: str
) -> None:
    found = faults_of(rubric(criterion("tone", **{key: value})))
    assert all(path.startswith("criteria") for _, path, _ in found)
    assert all(line is not None and 3 <= line <= 10 for line, _, _ in found)


@pytest.mark.req("W-064")
@pytest.mark.parametrize("key", ["rubric_id", "version", "criteria"])
def test_each_required_field_of_a_rubric_is_missed(key: str) -> None:
    parts = {
        "rubric_id": "rubric_id: mine\n",
        "version": "version: 1\n",
        "criteria": "criteria:\n" + criterion("tone"),
    }
    _, _, message = one_fault("".join(text for name, text in parts.items() if name != key))
    assert f"the key '{key}' is missing" in message


@pytest.mark.req("W-062", "W-064")
@pytest.mark.parametrize("point", ["1", "2", "3", "4", "5"])
def test_each_missing_anchor_is_named_with_its_line(point: str) -> None:
    text = "\n".join(
        line for line in GUIDE.splitlines() if not line.strip().startswith(f'"{point}"')
    )
    line, path, message = one_fault(text)
    assert (line, path) == (12, "criteria[0].anchors")
    assert f"no text for score {point} of the scale 1..5" in message
    assert f'Add an anchor "{point}"' in message


@pytest.mark.req("W-062")
@pytest.mark.parametrize("text", ['""', '"   "', "null"])
def test_an_anchor_without_words_is_a_missing_anchor(text: str) -> None:
    found = faults_of(
        rubric(
            criterion(
                "tone", anchors='{"1": bad, "2": poor, "3": fair, "4": ' + text + ', "5": best}'
            )
        )
    )
    assert any("anchors" in path for _, path, _ in found)


@pytest.mark.parametrize("anchor", ["0", "6", "3.5", "03", "five"])
def test_an_anchor_that_is_no_point_of_the_scale_is_refused(anchor: str) -> None:
    line, path, message = one_fault(GUIDE + f'      "{anchor}": "odd"\n')
    assert (line, path) == (18, f"criteria[0].anchors.{anchor}")
    assert "not a point of the scale 1..5" in message


@pytest.mark.parametrize(
    "scale",
    [
        "[1, 10]",
        "[5, 1]",
        "[1, 4]",
        "[0, 100]",
        "[1, 1]",
        "1..5",
        "[1]",
        "[1, 5, 6]",
        "[1.5, 5]",
        '["1", "5"]',
        "[true, 5]",
        "null",
        "{low: 1, high: 5}",
    ],
)
def test_a_scale_that_no_formula_reads_is_refused_and_never_guessed(scale: str) -> None:
    found = faults_of(rubric(criterion("tone", scale=scale)))
    assert all(path.startswith("criteria[0].scale") and line == 5 for line, path, _ in found), found


def test_an_unknown_key_is_refused_with_its_line_and_the_near_miss() -> None:
    line, path, message = one_fault(rubric(criterion("tone", critical_flor=3)))
    assert (line, path) == (10, "criteria[0].critical_flor")
    assert "Did you mean 'critical_floor'?" in message
    _, path, message = one_fault(
        rubric(criterion("tone"), head="rubric_id: mine\nversion: 1\ntittle: x\n")
    )
    assert (path, "Did you mean 'title'?" in message) == ("tittle", True)


@pytest.mark.parametrize(
    "floor",
    [
        "0",
        "6",
        "-1",
        "0.7",
        '"3"',
        "true",
        "[3]",
        "{}",
        "{raw: 6}",
        "{norm: 1.5}",
        "{norm: -0.1}",
        "{raw: 3, norm: 0.5}",
        "{low: 3}",
        "{raw: null}",
        ".inf",
        "1e400",
    ],
)
def test_a_floor_outside_its_scale_or_of_a_wrong_shape_is_refused(floor: str) -> None:
    found = faults_of(rubric(criterion("tone", critical_floor=floor)))
    assert all(
        path.startswith("criteria[0].critical_floor") and line == 10 for line, path, _ in found
    ), found


@pytest.mark.parametrize(
    "override",
    [
        "{value: 2}",
        "{reason: tuned}",
        '{value: 2, reason: ""}',
        '{value: 2, reason: "   "}',
        "{value: 2, reason: null}",
        "{value: 9, reason: tuned}",
        "{value: null, reason: tuned}",
        '{value: "2", reason: tuned}',
        "{value: 2, reason: tuned, why: x}",
        "2",
        "true",
        "{}",
    ],
)
def test_a_floor_override_needs_a_floor_on_the_scale_and_a_reason(override: str) -> None:
    found = faults_of(rubric(criterion("tone", floor_override=override)))
    assert all(
        path.startswith("criteria[0].floor_override") and line == 10 for line, path, _ in found
    ), found


def test_a_name_that_stands_twice_is_refused() -> None:
    line, path, message = one_fault(
        rubric(criterion("tone"), criterion("style"), criterion("tone"))
    )
    assert (line, path) == (16, "criteria[2]")
    assert "'tone' appears twice" in message


@pytest.mark.parametrize(
    ("name", "culprit"),
    [
        ("c\u043errectness", "CYRILLIC"),
        ("\uff43orrectness", "FULLWIDTH"),
        ("correct\u200bness", "ZERO WIDTH"),
        ("correct\u00adness", "SOFT HYPHEN"),
        ("\u0441\u043e\u0440", "CYRILLIC"),
        ("correctne\u017fs", "LONG S"),
        ("corre\u0441tness", "CYRILLIC"),
        ("\u2066correctness", "ISOLATE"),
    ],
)
def test_a_name_that_looks_like_another_is_refused_with_the_sign_that_poses(
    name: str, culprit: str
) -> None:
    line, path, message = one_fault(rubric(criterion("correctness"), criterion(f'"{name}"')))
    assert (line, path) == (10, "criteria[1]")
    assert culprit in message


@pytest.mark.parametrize("name", GATES)
def test_a_criterion_with_the_name_of_a_gate_is_refused(name: Any) -> None:
    found = faults_of(rubric(criterion(name)))
    assert any("gate" in message for _, _, message in found)


# --- all faults at once


def test_every_fault_of_a_file_is_named_at_once_with_its_line() -> None:
    text = rubric(
        criterion(
            "tone", anchors='{"1": bad, "2": poor, "3": fair, "5": best}', critical_floor="9"
        ),
        criterion("tone", scale="[1, 7]"),
        criterion("st\u0443le", weight="-1"),
        criterion("length", floor_override="{value: 8, reason: tuned}"),
    )
    found = faults_of(text)
    assert [(line, path) for line, path, _ in found] == [
        (9, "criteria[0].anchors"),
        (10, "criteria[0].critical_floor"),
        (11, "criteria[1]"),
        (12, "criteria[1].scale"),
        (17, "criteria[2]"),
        (19, "criteria[2].weight"),
        (29, "criteria[3].floor_override"),
    ]


def test_every_fault_of_shape_is_named_at_once_with_its_line() -> None:
    text = rubric(
        criterion("tone", definition=None, wieght=1),
        criterion("style", scale="five"),
        head="rubric_id: mine\nversion: 1\nowner: me\n",
    )
    found = faults_of(text)
    assert [(line, path) for line, path, _ in found] == [
        (3, "owner"),
        (5, "criteria[0]"),
        (10, "criteria[0].wieght"),
        (12, "criteria[1].scale"),
    ]


def test_a_fault_of_shape_does_not_hide_a_fault_of_meaning() -> None:
    found = faults_of(
        rubric(
            criterion("tone", definition=None),
            criterion("style", anchors='{"1": bad, "2": poor, "3": fair, "5": best}'),
        )
    )
    assert [(line, path) for line, path, _ in found] == [
        (4, "criteria[0]"),
        (14, "criteria[1].anchors"),
    ]


def test_every_weight_that_is_no_number_is_named() -> None:
    found = faults_of(
        rubric(
            criterion("tone", weight="heavy"),
            criterion("style", weight="light"),
            criterion("length", weight="-1"),
        )
    )
    assert [path for _, path, _ in found] == [
        "criteria[0].weight",
        "criteria[1].weight",
        "criteria[2].weight",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "- a\n- b\n",
        "5\n",
        "a: [\n",
        "a: 1\na: 2\n",
        "a: &x 1\nb: *x\n",
        "a: !!python/object:os.system x\n",
        "a: 1\n---\nb: 2\n",
        "{a: 1}: 2\n",
        "\x00",
    ],
)
def test_a_file_that_is_no_plain_mapping_is_refused_with_a_known_error(text: str) -> None:
    with pytest.raises(AssayError) as caught:
        read(text)
    assert caught.value.exit_code == 3


@settings(max_examples=share(150))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "scale", "weight", "anchors", "criteria", "version", "x"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(
        [
            (),
            ("criteria",),
            ("criteria", 0),
            ("criteria", 0, "scale"),
            ("criteria", 0, "weight"),
            ("criteria", 0, "anchors"),
            ("criteria", 0, "critical_floor"),
            ("criteria", 0, "floor_override"),
            ("criteria", 0, "name"),
        ]
    ),
)
def test_any_tree_is_a_rubric_or_is_refused_with_a_known_error(
    value: Any, path: tuple[str | int, ...]
) -> None:
    tree: Any = parse_yaml(GUIDE.encode(), "rubric.yaml").tree
    if path:
        inner = tree
        for part in path[:-1]:
            inner = inner[part]
        inner[path[-1]] = value
    else:
        tree = value
    refused: ShelfError | None = None
    try:
        found = load_rubric(Document(tree, "rubric.yaml"))
    except ShelfError as error:
        refused = error
    if refused is None:
        assert found.criteria
    else:
        assert refused.code == "LIB-002"
        assert refused.faults


# --- floors are on the declared scale


def floor_in_result(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "r.yaml"
    file.write_text(text)
    tree = run("dag-review")
    tree["scores"]["tone"] = {"raw": 1}
    result = Grader(Shelf(), rubric=str(file)).grade(Document(tree, "test")).payload()
    return next(item for item in result["criteria"] if item["name"] == "tone")


@pytest.mark.req("X-52")
@pytest.mark.parametrize(
    ("scale", "floor", "norm"),
    [
        ("[1, 5]", "3", 0.5),
        ("[1, 5]", "1", 0.0),
        ("[1, 5]", "4.6", 0.9),
        ("[1, 5]", "5", 1.0),
        ("[-2, 2]", "0", 0.5),
        ("[-2, 2]", "1", 0.75),
        ("[-2, 2]", "0.5", 0.625),
        ("[-2, 2]", "-1", 0.25),
        ("[0, 5]", "1", 0.2),
        ("[0, 5]", "0.5", 0.1),
        ("[0, 1]", "0.7", 0.7),
        ("[1, 5]", "{norm: 0.7}", 0.7),
        ("[1, 5]", "{raw: 2}", 0.25),
        ("[0, 5]", "{norm: 1}", 1.0),
    ],
)
@pytest.mark.parametrize("key", ["critical_floor", "floor_override"])
def test_a_bare_floor_of_a_rubric_is_on_the_declared_scale(
    tmp_path: Path, scale: str, floor: str, norm: float, key: str
) -> None:
    low, high = (int(end) for end in scale.strip("[]").split(","))
    anchors = "{" + ", ".join(f'"{point}": text {point}' for point in range(low, high + 1)) + "}"
    value = floor if key == "critical_floor" else f"{{value: {floor}, reason: tuned}}"
    item = floor_in_result(
        tmp_path, rubric(criterion("tone", scale=scale, anchors=anchors, **{key: value}))
    )
    assert item["critical_floor"]["norm"] == norm
    assert item["critical_floor"]["from"] == (
        "criterion" if key == "critical_floor" else "override"
    )


@pytest.mark.req("X-53")
def test_a_rubric_raises_a_role_floor_and_lowers_it_only_with_a_reason_that_the_result_shows(
    tmp_path: Path,
) -> None:
    cases: list[tuple[dict[str, Any], float, str]] = [
        ({}, 0.7, "role"),
        ({"critical_floor": "2"}, 0.7, "role"),
        ({"critical_floor": "4.5"}, 0.875, "criterion"),
        ({"floor_override": "{value: 2, reason: calibrated on 200 labels}"}, 0.25, "override"),
    ]
    for changes, norm, origin in cases:
        item = floor_in_result(tmp_path, rubric(criterion("tone", role="correctness", **changes)))
        assert (item["critical_floor"]["norm"], item["critical_floor"]["from"]) == (norm, origin)
    file = tmp_path / "r.yaml"
    tree = run("dag-review")
    tree["scores"]["tone"] = {"raw": 3}
    result = Grader(Shelf(), rubric=str(file)).grade(Document(tree, "test")).payload()
    assert any(
        found["rule"] == "floor_override" and "calibrated on 200 labels" in found["text"]
        for found in result["findings"]
    )
    assert any("calibrated on 200 labels" in sentence for sentence in result["explanation"])


@pytest.mark.req("W-022", "W-063")
def test_a_yes_or_no_scale_is_defined_as_a_yes_or_no() -> None:
    shelf = Shelf()
    names = dict.fromkeys(entry.name for entry in shelf.entries("rubrics"))
    newest = [shelf.load("rubrics", name) for name in names]
    asked = [
        item
        for rubric in newest
        for item in getattr(rubric, "criteria", ())
        if item.scale == (0, 1)
    ]
    assert {item.name for item in asked} >= {"response_relevance", "safety"}
    for item in asked:
        assert item.definition.startswith("Whether "), item.name
        assert "share" not in item.definition
