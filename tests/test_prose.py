"""Documents, messages and docstrings read as a native would write them."""

from __future__ import annotations

from conftest import ROOT
from prose import PHRASES, files, hits

PENDING: tuple[str, ...] = (
    "docs/how-to/",
    "docs/reference/",
    "src/assay/plugins/",
)
"""Folders and files that were not read yet, as paths from the root."""
FROZEN = ("src/assay/judging/questions.py",)
"""Texts that carry a version: the wording of prompts changes only with the next one."""


def test_each_rule_finds_its_example_and_leaves_plain_english_alone() -> None:
    for phrase in PHRASES:
        assert phrase.pattern.search(phrase.example), phrase.example
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
    pending = {name for name in found if name.startswith(PENDING)} if PENDING else set()
    assert not [line for name, lines in found.items() if name not in pending for line in lines]
