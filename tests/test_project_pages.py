"""The pages about the project itself: the glossary is complete, and what they name exists."""

from __future__ import annotations

import re

from conftest import ROOT

TERMS = [
    "adjusted score",
    "baseline",
    "contribution",
    "criterion",
    "decision",
    "evaluation",
    "floor",
    "gate",
    "grade",
    "judge",
    "judge card",
    "layer",
    "ledger",
    "looks",
    "margin",
    "may gate",
    "non-inferiority",
    "norm",
    "policy",
    "profile",
    "replay",
    "rubric",
    "run",
    "sample",
    "score",
    "tier",
    "undetermined",
]


def test_the_glossary_has_each_term_once_in_order_with_an_example_that_has_a_number() -> None:
    glossary = (ROOT / "docs/concepts.md").read_text().partition("## Glossary\n")[2]
    headings = re.findall(r"^### (.+)$", glossary, re.MULTILINE)
    assert [heading.lower() for heading in headings] == TERMS
    for heading, text in zip(
        headings, re.split(r"^### .+$", glossary, flags=re.MULTILINE)[1:], strict=True
    ):
        example = text.partition("*Example:*")[2]
        assert re.search(r"\d", example), f"the example of {heading!r} has no number"
