"""No code decides by the text of a reason, a note or an error: a wording may change, and then the
decision would change with it. What other code needs to know is a field.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import assay

SOURCE = Path(assay.__file__).parent
SENTENCES = frozenset(
    [
        *("reason", "reasons", "note", "notes", "message", "messages", "problem", "sentence"),
        *("sentences", "explanation", "why"),
    ]
)
"""Names of fields and variables that hold prose."""
ERRORS = frozenset(["error", "exc", "caught", "refusal", "fault"])
READING = frozenset(
    [
        *("startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix"),
        *("index", "find", "rfind"),
    ]
)
MATCHING = frozenset(["match", "fullmatch", "search"])
CODES = {
    "grading/grade.py": "`reason` of a grade is a code that contract.md lists",
    "grading/explain.py": "`reason` of a grade is a code that contract.md lists",
    "families/tools/entry.py": "`blocked_entry` takes one of the published reasons",
    "families/tools/answers.py": "`naReason` is one of six published codes",
    "tracing/payloads.py": "the reason why a model stopped is a code of its provider",
    "families/tools/conform.py": "`reason` of stable.eligibility is a code of the vectors",
    "families/batch/verbs.py": "a row is rejected for one of a list of reasons, each with its code",
    "views/evaluation_page.py": "a reader picks one of the causes that the page lists",
    "records/grade_line.py": "`reason` of a grade is a code that contract.md lists",
    "records/samples.py": "a reader picks one of the causes that the page lists",
}
"""Files where such a name holds one of a closed list in place of a sentence."""
SHOWN = {
    "mcp/server.py": "sentences for a shell are left out of what an agent reads",
    "views/grade_line.py": "a sentence ends with one mark; the option that named a profile is shown",
}
"""Files that only change how a sentence is shown."""
THIRD_PARTIES = {
    "files/json_files.py": "jiter says only in words what is wrong with a document",
    "importers/promptfoo.py": "promptfoo says only in words what failed, and that it checked nothing",
    "families/judges/audit.py": "a judge's own words are what is looked at",
    "records/reading.py": "msgspec gives the place of a fault only in its message",
    "sandbox/inside/suite.py": "unittest says only in words that a test returned a value",
    "tracing/failures.py": "a program's traceback is what is looked at",
}
EXCEPTIONS = {**CODES, **SHOWN, **THIRD_PARTIES}
REWRITTEN_NEXT = ("release/attestation.py",)
"""It reads the notes of a decision until those have a field of their own."""
EXAMPLES = ("cli/examples/", "server/static/")


class Reading(NamedTuple):
    """A place that reads prose."""

    file: str
    line: int
    code: str


def name_of(node: ast.expr) -> str:
    """What an expression is called: `x.reason`, `reason`, `x["reason"]`, `x.get("reason")`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "get" and node.args and isinstance(node.args[0], ast.Constant):
            return str(node.args[0].value)
        return name_of(node.func.value)
    if isinstance(node, ast.BoolOp):
        return name_of(node.values[0])
    return ""


def is_prose(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        return bool(node.args) and name_of(node.args[0]) in ERRORS | SENTENCES
    return name_of(node) in SENTENCES


def is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr) or (
        isinstance(node, ast.Name) and node.id.isupper()
    )


def is_plain(node: ast.expr) -> bool:
    """Whether a comparison with this only asks whether there is a text at all."""
    return isinstance(node, ast.Constant) and node.value in (None, "", 0, 1, True, False)


def reads_prose(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        kinds = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
        if not all(isinstance(kind, kinds) for kind in node.ops):
            return False
        # a name in a mapping of reasons is a key; a constant is a text
        if isinstance(node.ops[0], ast.In | ast.NotIn) and not is_constant(node.left):
            return is_prose(node.left)
        prose = [side for side in sides if is_prose(side)]
        return bool(prose) and not any(is_plain(side) for side in sides) and len(prose) == 1
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in READING:
            return is_prose(node.func.value)
        if node.func.attr in MATCHING:
            return any(map(is_prose, node.args))
    return False


def readings() -> Iterator[Reading]:
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        if file.startswith((*REWRITTEN_NEXT, *EXAMPLES)):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if reads_prose(node):
                yield Reading(file, node.lineno, ast.unparse(node))  # type: ignore[attr-defined]


@cache
def found() -> tuple[Reading, ...]:
    return tuple(readings())


def test_no_code_decides_by_the_text_of_a_reason_a_note_or_an_error() -> None:
    assert [place for place in found() if place.file not in EXCEPTIONS] == []


@pytest.mark.parametrize("file", list(EXCEPTIONS))
def test_an_exception_is_still_needed(file: str) -> None:
    assert file in {place.file for place in found()}


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("result.reason == NOT_NEEDED", True),
        ("'.json' in blocker.reason", True),
        ("UNCHECKED in (stored.get('notes') or ())", True),
        ("note.startswith(LOUD)", True),
        ("str(error) == 'Query interrupted'", True),
        ("_ENDED.search(gate['reason'])", True),
        ("fault.message.startswith('unknown key')", True),
        ("reason is None", False),
        ("reason == ''", False),
        ("name in reasons", False),
        ("result.code == 'EXM-007'", False),
    ],
)
def test_the_walk_sees_what_it_should(code: str, reads: bool) -> None:
    assert any(map(reads_prose, ast.walk(ast.parse(code)))) is reads
