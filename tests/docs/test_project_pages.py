"""The pages about the project itself: the glossary is complete, and what they name exists."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache

import pytest
import yaml

from checkout import ROOT

TERMS = [
    "adjusted score",
    "baseline",
    "burden",
    "check",
    "confirmation",
    "contract",
    "contribution",
    "criterion",
    "decision",
    "evaluation",
    "floor",
    "fresh run",
    "gate",
    "grade",
    "judge",
    "judge card",
    "layer",
    "ledger",
    "look",
    "margin",
    "may gate",
    "non-inferiority",
    "norm",
    "open",
    "pair",
    "policy",
    "profile",
    "replay",
    "rubric",
    "run",
    "sample",
    "score",
    "suspect",
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


NAMED = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


@cache
def _tests_of(name: str) -> frozenset[str]:
    return frozenset(
        item.name
        for path in (ROOT / "tests").rglob(name)
        for item in ast.parse(path.read_text()).body
        if isinstance(item, ast.FunctionDef)
    )


def _missing(text: str) -> list[str]:
    """The tests that a text names and that don't exist."""
    return [f"{name}::{test}" for name, test in NAMED.findall(text) if test not in _tests_of(name)]


def test_every_promise_names_tests_that_exist() -> None:
    pages = sorted((ROOT / "docs/promises").glob("*.md"))
    assert len(pages) == 5
    for page in pages:
        text = page.read_text()
        assert len(NAMED.findall(text)) >= 3, page.name
        assert _missing(text) == [], page.name


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert _missing("`test_laws.py::test_nothing` `test_nowhere.py::test_x`") == [
        "test_laws.py::test_nothing",
        "test_nowhere.py::test_x",
    ]


def test_every_row_of_the_threat_model_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    rows = re.findall(r"^\| (?!who |---)(.+) \|$", text, re.MULTILINE)
    who = {row.split(" | ")[0] for row in rows}
    assert who == {
        "workflow author",
        "model output",
        "judge",
        "imported file",
        "plugin",
        "rater",
        "local user",
        "network",
        "repository author",
    }
    for row in rows:
        assert NAMED.search(row), row
    assert _missing(text) == []


def _git(*words: str) -> str | None:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def test_every_file_and_commit_that_contributors_are_sent_to_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for name in re.findall(r"`((?:src|tests|docs)/[\w./]+)`", text):
        if not re.search("NAME|FAMILY", name):
            assert (ROOT / name).exists(), name
    commits = re.findall(r"commit `([0-9a-f]{8})`, \"([^\"]+)\"", text, re.IGNORECASE)
    assert len(commits) == 3
    if _git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("not a git checkout with its whole history")
    for commit, subject in commits:
        assert _git("log", "-1", "--format=%s", commit) == subject, commit


@pytest.mark.parametrize("name", ["bug", "feature", "false-pass"])
def test_the_issue_templates_are_forms_with_fields(name: str) -> None:
    folder = ROOT / ".github/ISSUE_TEMPLATE"
    form = yaml.safe_load((folder / f"{name}.yml").read_text())
    assert form["name"]
    assert form["description"]
    fields = [item for item in form["body"] if item["type"] != "markdown"]
    assert len({item["id"] for item in fields}) == len(fields) >= 3
    assert all(item["attributes"]["label"] for item in fields)
    assert any(item.get("validations", {}).get("required") for item in fields)
