"""A grade is made from what is stored: the same evidence, read back from the ledger, makes the same
records.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.server.grading import make
from assay.services.grading import Grader
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


def check(body: bytes) -> None:
    """Grade a body, and its evidence as it is stored."""
    made = make(Document(parse_json(body), "body"), GRADER, author="a")
    again = make(Document(parse_json(made.evidence.body), "stored"), GRADER, author="a")
    assert again.drafts == made.drafts


def test_a_usual_run_of_each_family() -> None:
    for family in FAMILIES:
        check(json.dumps(run(family)).encode())


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
    with suppress(AssayError):  # some of these are refused
        check(text.encode())
