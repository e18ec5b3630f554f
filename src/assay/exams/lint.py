"""Faults and traps of exam files, each with its line, before any tutor is asked.

An error makes the exam unusable: an id that stands twice, an item that expects nothing. A warning
is a trap: an answer that is wrong and would be accepted, or one that no answer can meet. Lint looks
at one exam: all its files together, as they are graded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.exams.exam import ExamFile, ExamItem, line_of, read_document, read_files
from assay.exams.normal import MATCHES, Normaliser, holds_all
from assay.files.json_files import show_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from assay.exams.marking import Marking
    from assay.files.json_files import Document, Path

MAX_FORMS = 2000
"""Forms of one verb that items are held against. No verb has so many; a file that claims so is not
searched without end.
"""
_ENDINGS = ("", "s", "es", "d", "ed", "ing")


class LintFinding(NamedTuple):
    """One thing that lint found."""

    level: str
    rule: str
    file: str
    line: int | None
    path: str
    message: str

    def text(self) -> str:
        """One line for a person."""
        where = f"line {self.line}  " if self.line is not None else ""
        return f"{where}{f'{self.path}: ' if self.path else ''}[{self.rule}] {self.message}"


_RULES = {
    "EXM-001": "shape",
    "EXM-002": "duplicate-id",
    "EXM-003": "empty-expectation",
    "EXM-005": "files-disagree",
}


def lint_exam(paths: Iterable[str], marking: Marking) -> list[LintFinding]:
    """Everything found in the files of one exam, errors first, in the order of the files."""
    documents = [read_document(path) for path in paths]
    files, faults = read_files(documents)
    errors = [
        LintFinding(
            "error",
            _RULES.get(fault.code, "shape"),
            fault.file,
            fault.line,
            fault.path,
            f"{fault.message} {fault.fix}".rstrip(),
        )
        for fault in faults
    ]
    if not errors and not any(file.items for file, _ in files):
        errors.append(
            LintFinding(
                "error", "no-items", documents[0].file, None, "items", "the exam has no items."
            )
        )
    return errors + list(_warnings(files, marking))


class _Placed(NamedTuple):
    """An item, its expectations normalised, and where it stands."""

    item: ExamItem
    expected: tuple[str, ...]
    gloss: tuple[str, ...]
    match: str
    document: Document
    path: Path

    def finding(self, rule: str, key: str, message: str) -> LintFinding:
        at: Path = (*self.path, key)
        line = line_of(self.document, at)
        return LintFinding("warning", rule, self.document.file, line, show_path(at), message)


def _warnings(files: list[tuple[ExamFile, Document]], marking: Marking) -> Iterator[LintFinding]:
    normal = marking.normal
    placed = [
        _Placed(
            item,
            tuple(filter(None, map(normal, item.wanted))),
            tuple(filter(None, map(normal, item.gloss_contains))),
            item.match or marking.rubric.match,
            document,
            ("items", index),
        )
        for file, document in files
        for index, item in enumerate(file.items)
    ]
    verbs: dict[str, list[_Placed]] = {}
    prompts: dict[str, str] = {}
    for one in placed:
        if one.item.verb is not None:
            verbs.setdefault(one.item.verb, []).append(one)
        yield from _own(one, normal)
        first = prompts.setdefault(one.item.prompt, one.item.id)
        if first != one.item.id:
            yield one.finding("same-prompt", "prompt", f"'{one.item.id}' asks what '{first}' asks.")
    for verb, rows in verbs.items():
        yield from _wrong_forms(normal(verb), rows)


def _own(one: _Placed, normal: Normaliser) -> Iterator[LintFinding]:
    for key, entries in (("expected_contains", one.expected), ("gloss_contains", one.gloss)):
        if one.match == "exact" and len(set(entries)) > 1:
            yield one.finding(
                "never-met",
                key,
                "no answer is equal to two different texts. Use `match: word`, or keep one.",
            )
        for entry in entries:
            others = [other for other in entries if other != entry]
            if any(MATCHES[one.match](other, entry) for other in others):
                yield one.finding(
                    "redundant", key, f"'{entry}' is already held by another entry of the list."
                )
    if (
        one.expected
        and one.match != "exact"
        and holds_all(normal(one.item.prompt), one.expected, one.match)
    ):
        yield one.finding(
            "answer-in-prompt",
            "expected_contains",
            "a tutor that repeats the prompt is right. Ask so that the prompt does not hold the"
            " form.",
        )
    for key in ("verb", "tense"):
        if getattr(one.item, key) is None:
            yield one.finding(
                "no-" + key,
                "id",
                f"'{one.item.id}' names no {key}, so that no diagnosis can say what lost items"
                " share.",
            )


def _wrong_forms(verb: str, rows: list[_Placed]) -> Iterator[LintFinding]:
    """Items that would accept a form that belongs to another item of the verb, or a naive form of
    it.
    """
    english = _forms((" ".join(one.expected), one) for one in rows)
    spanish = _forms((" ".join(one.gloss), one) for one in rows)
    naive = [verb + ending for ending in _ENDINGS]
    for one in rows:
        for key, entries, forms in (
            ("expected_contains", one.expected, english),
            ("gloss_contains", one.gloss, spanish),
        ):
            if not entries:
                continue
            own = " ".join(entries)
            wrong = [form for form in forms if form != own and holds_all(form, entries, one.match)]
            if key == "expected_contains":
                wrong += [
                    form
                    for form in naive
                    if form != own and form not in forms and holds_all(form, entries, one.match)
                ]
            if wrong:
                shown = ", ".join(
                    f"'{form}'" + (f" (right for {forms[form]})" if form in forms else "")
                    for form in wrong[:3]
                )
                yield one.finding(
                    "contained-form",
                    key,
                    f"'{own}' is contained in {shown}, which would be accepted. Use `match: word`"
                    " or `exact`, or a longer form.",
                )


def _forms(pairs: Iterable[tuple[str, _Placed]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for form, one in pairs:
        if form and len(found) < MAX_FORMS:
            found.setdefault(form, one.item.id)
    return found


def lint_document(findings: list[LintFinding], paths: list[str]) -> dict[str, Any]:
    """What lint found, as JSON."""
    counts = {level: sum(one.level == level for one in findings) for level in ("error", "warning")}
    return {
        "files": paths,
        "clean": not findings,
        "counts": counts,
        "findings": [one._asdict() for one in findings],
    }
