"""No sentence is protocol: code never tests the text of a reason, a note or an error."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay

SOURCE = Path(assay.__file__).parent
SENTENCES = {"explanation", "message", "messages", "note", "notes", "reason", "reasons", "why"}
ERRORS = {"error", "caught", "warning"}
TESTS = {
    "endswith",
    "find",
    "partition",
    "removeprefix",
    "removesuffix",
    "rpartition",
    "startswith",
}
PATTERNS = {"findall", "fullmatch", "match", "search"}
ALLOWED = {
    "files/json_files.py": "the JSON parser's errors have no fields; other code asks for the fault",
    "importers/promptfoo.py": "promptfoo says only in its reason that nothing was asserted",
    "judging/injection_probe.py": "looks for a secret in what a judge wrote",
    "pipeline/deciding.py": "until decisions are assembled in one place",
    "records/reading.py": "the errors of msgspec have no fields",
    "release/attestation.py": "until decisions are assembled in one place",
    "release/decision.py": "until decisions are assembled in one place",
    "sandbox/inside/suite.py": "a warning of unittest has no class of its own",
    "server/guard.py": "what uvloop raises when a client has gone has no class of its own",
    "tracing/failures.py": "cuts a traceback from what a program printed",
}


def is_sentence(node: ast.expr) -> bool:
    """Whether an expression is, by its name, a text for people."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in SENTENCES
        case ast.Subscript(slice=ast.Constant(value=name)):
            return name in SENTENCES
        case ast.Call(func=ast.Name(id="str"), args=[value]):
            return is_sentence(value) or (isinstance(value, ast.Name) and value.id in ERRORS)
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "strip")):
            return is_sentence(value)
    return False


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a text of several words, or made of parts; not a code."""
    match node:
        case ast.Constant(value=str(value)):
            return " " in value
        case ast.JoinedStr():
            return True
    return False


def lines_that_test(tree: ast.AST) -> Iterator[int]:
    """The lines where a text for people is compared, searched or taken apart."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                for first, op, second in zip(sides, ops, others, strict=False):
                    is_within = isinstance(op, ast.In | ast.NotIn)
                    if (is_within and is_sentence(second) and isinstance(first, ast.Constant)) or (
                        (is_sentence(first) and is_text(second))
                        or (is_text(first) and is_sentence(second))
                    ):
                        yield node.lineno
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in TESTS:
                if is_sentence(value):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in PATTERNS:
                if any(map(is_sentence, arguments)):
                    yield node.lineno


@pytest.mark.parametrize(
    "text",
    [
        "error.message.startswith('the')",
        "x = 'Event loop stopped' in str(error)",
        "if grade['reason'] == 'it is below the floor': pass",
        "why == f'asked for with {kind}'",
        "re.search('a', fault.message)",
        "str(error).partition(' at ')",
    ],
)
def test_a_test_of_a_sentence_is_found(text: str) -> None:
    assert list(lines_that_test(ast.parse(text))) == [1]


@pytest.mark.parametrize(
    "text", ["reason == 'passed'", "reason in REASONS", "'a' in reasoned", "error.code == 'A'"]
)
def test_codes_are_no_sentences(text: str) -> None:
    assert list(lines_that_test(ast.parse(text))) == []


def test_no_code_tests_a_sentence() -> None:
    found = {
        f"{name}:{line}"
        for path in SOURCE.rglob("*.py")
        if (name := path.relative_to(SOURCE).as_posix()) not in ALLOWED
        and not name.startswith("cli/examples/")
        for line in lines_that_test(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize("name", ALLOWED)
def test_every_exception_is_needed(name: str) -> None:
    path = SOURCE / name
    assert list(lines_that_test(ast.parse(path.read_text(encoding="utf-8"))))
