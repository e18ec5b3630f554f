"""Many bodies graded together: what becomes of each is what would become of it alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.server.grading import make, make_many, read_body
from assay.store.facets import facets_of
from documents import FAMILIES, run

GRADER = Grader(Shelf(), policy="workflow@1", profile=None, rubric=None)
STRANGE = st.sampled_from(
    [
        "0",
        "-0.0",
        "1.0",
        "0.10",
        "1e-5",
        "1E-7",
        "0.000001",
        "100",
        "1e15",
        "1e16",
        "12345678901234567",
        "1e20",
        "999999999999999999999",
        "1e21",
        "1e25",
        "123456789012345678901234.5",
        "0.30000000000000004",
        "7.00",
        "8000.50",
    ]
)
TEXTS = st.sampled_from(
    [
        "plain",
        "5.0,",
        '"q"',
        "\\",
        "é",
        "😀",
        "1e+21",
        "-0",
        "sha256:" + "0" * 64,
        "x" * 300,
        "2026-11-15T10:00:00+01:00",
    ]
)
AMOUNTS = ("latency_ms", "cost_usd", "tokens", "retries")


def alike(body: bytes) -> bool:
    """Whether it was graded with others; then every record is the one that it would be alone."""
    [together] = make_many([body], GRADER, author="a")
    if together is None:
        return False
    alone = make(read_body(body), GRADER, author="a")
    assert together == alone.posted
    for draft in together.drafts:
        assert draft.facets == facets_of(draft.kind, draft.body)
    return True


@pytest.mark.parametrize("family", FAMILIES)
def test_a_usual_run_of_each_family(family: str) -> None:
    assert alike(json.dumps(run(family)).encode())


@given(st.data())
def test_strange_numbers_and_texts(data: st.DataObject) -> None:
    one: dict[str, Any] = run(data.draw(st.sampled_from(FAMILIES)))
    marks: dict[str, str] = {}

    def number() -> str:
        mark = f"@{len(marks)}@"
        marks[f'"{mark}"'] = data.draw(STRANGE)
        return mark

    for name in data.draw(st.sets(st.sampled_from(AMOUNTS))):
        one[name] = number()
    for step in one.get("steps") or []:
        step["agent"] = "one"
        for name in data.draw(st.sets(st.sampled_from(("duration_ms", "cost_usd", "tokens")))):
            step[name] = number()
    one["run_id"] = data.draw(TEXTS)
    one["tags"] = data.draw(st.lists(TEXTS, max_size=3))
    one["metadata"] = {"text": data.draw(TEXTS), "number": number()}
    text = json.dumps(one)
    for mark, spelled in marks.items():
        text = text.replace(mark, spelled)
    alike(text.encode())


@pytest.mark.parametrize(
    ("amount", "together"),
    [("5e15", True), ("0.5", True), ("1e-7", True), ("5000000000000000.5", False), ("1e17", True)],
)
def test_a_sum_that_is_too_large_for_the_short_way_is_left_to_whoever_asked(
    amount: str, together: bool
) -> None:
    one = run("code-repair")
    steps = [
        {"name": name, "agent": "one", "status": "success", "duration_ms": "@"}
        for name in ("a", "b", "c")
    ]
    one["steps"] = steps
    assert alike(json.dumps(one).replace('"@"', amount).encode()) is together
