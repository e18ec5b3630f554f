"""Fields of `assay.run/1` that decide comparisons: tools, checks, assertions, rows and attempts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from assay.canon import encode
from assay.errors import EvidenceError
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.records.evidence import Run
from assay.records.reading import read_run
from assay.records.schemas import schema_faults
from assay.services.given_grades import grades_of
from assay.services.grading import Grader
from assay.views.schemas import SCHEMAS

RUN = {
    "schema": "assay.run/1",
    "run_id": "r-1",
    "workflow": {"id": "agent", "version": "1", "family": "tool-use"},
    "dataset": {"id": "d", "version": "1", "sample_id": "q1"},
    "status": "success",
}
FULL = {
    "dataset": {**RUN["dataset"], "row": "sha256:1"},
    "tools": [{"name": "add", "schema": {"type": "object"}}, {"name": "add"}, {"name": "b"}],
    "tool_calls": [{"name": "add", "valid": True, "checked": True}],
    "testing": "sha256:2",
    "assertions": [{"contains": "nine"}],
    "checks": {"metric faithfulness": 0.5, "scorer tone": 0},
    "unchecked": True,
    "attempt": 2,
    "attempts": 3,
}


def read(**more: Any) -> Run:
    return read_run(Document(parse_json(json.dumps({**RUN, **more}).encode()), "run"))


def test_the_fields_are_read_written_and_described() -> None:
    written = parse_json(encode(read(**FULL)))
    assert written == parse_json(json.dumps({**RUN, **FULL}).encode())
    assert list(schema_faults(Run, written)) == []


@pytest.mark.parametrize("missing", [*(name for name in FULL if name != "dataset"), "row"])
def test_a_field_that_is_not_given_is_not_written(missing: str) -> None:
    full = {name: value for name, value in FULL.items() if name != missing}
    if missing == "row":
        full["dataset"] = RUN["dataset"]
    written = parse_json(encode(read(**full)))
    assert missing not in written
    assert missing not in written["dataset"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attempts", 0),
        ("attempts", 1.5),
        ("attempt", 0),
        ("checks", {"metric": "0.5"}),
        ("checks", {"metric": None}),
        ("checks", {"metric": True}),
        ("checks", ["metric"]),
        ("tools", ["add"]),
        ("tools", {"add": {}}),
        ("tools", [{"schema": {}}]),
        ("tools", [{"name": "add", "schema": "sha256:a"}]),
        ("tools", [{"name": "add", "parameters": {}}]),
        ("tool_calls", [{"name": "add", "checked": None}]),
        ("unchecked", "yes"),
        ("testing", 3),
        ("assertions", "contains nine"),
    ],
)
def test_a_value_of_another_kind_is_refused(field: str, value: Any) -> None:
    with pytest.raises(EvidenceError) as refused:
        read(**{field: value})
    assert refused.value.faults[0].path.startswith(field)


@pytest.mark.parametrize(
    "given",
    [{}, {"attempt": 2}, {"attempts": 3}, {"attempt": 2, "attempts": 3}],
    ids=["neither", "attempt", "attempts", "both"],
)
def test_scorecards_and_grades_carry_the_attempt_and_are_graded_again_with_it(given: Any) -> None:
    grader = Grader(Shelf(), policy="workflow")
    graded = grader.grade(Document(parse_json(json.dumps({**RUN, **given}).encode()), "run"))
    results, rest = [graded.payload()], {"faults": [], "counts": {}}
    tree = parse_json(encode({"schema": "assay.grades/1", "results": results, **rest}))
    schema = jsonschema_rs.Draft202012Validator(SCHEMAS["grades"])
    assert [error.message for error in schema.iter_errors(json.loads(encode(tree)))] == []
    (again,) = grades_of(Document(tree, "grades"), grader)
    for card in (graded.grade.scorecard, again.grade.scorecard):
        assert (card.attempt, card.attempts) == (given.get("attempt"), given.get("attempts"))
    for result in (tree["results"][0], parse_json(encode(again.payload()))):
        assert {name: result[name] for name in ("attempt", "attempts") if name in result} == given
