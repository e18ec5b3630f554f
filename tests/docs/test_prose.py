"""Documents, messages and docstrings read as a native would write them."""

from __future__ import annotations

from checkout import ROOT
from prose import ANY, PHRASES, files, hits

FROZEN = (
    "src/assay/judging/questions.py",
    "docs/reference/policies.md",
    "docs/reference/rubrics.md",
)
"""Texts that carry a version: prompts, rubrics and policies change only with the next one."""


def test_each_rule_finds_its_example_and_leaves_plain_english_alone() -> None:
    for phrase in PHRASES:
        assert phrase.pattern.search(phrase.example), phrase.example
        assert ANY.search(phrase.example), phrase.example
    plain = (
        "There is no key. It has not been read. What is a gate? PASS stands for passed."
        " Nobody can tell the sides apart. A gate holds. It is no longer used."
        " What you need: Python 3.11."
    )
    assert not [phrase.advice for phrase in PHRASES if phrase.pattern.search(plain)]


def test_no_text_uses_a_phrase_that_we_avoid() -> None:
    found: dict[str, list[str]] = {}
    for root in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "src"):
        for path in files(ROOT / root):
            name = str(path.relative_to(ROOT))
            if name not in FROZEN and (
                lines := [str(hit).removeprefix(f"{ROOT}/") for hit in hits(path)]
            ):
                found[name] = lines
    assert not [line for lines in found.values() for line in lines]
