"""Faults and traps of exam files, each with its line, before any tutor is asked.

An error makes the exam unusable: an id that appears twice, an item that expects nothing. A warning
is a trap: an answer that is wrong and would be accepted, or one that no answer can meet. Lint looks
at one exam: all its files together, as they are graded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from assay.families.exams.exam import ExamFile, exam_of, read_document, read_files
from assay.families.exams.marking import Marking, self_test
from assay.families.exams.rules import (
    SHORT,
    ExamItem,
    OptionChoice,
    PassesTests,
    TextRule,
    entries_of,
    item_faults,
    options_of,
    parsed,
)
from assay.files.json_files import Document, Path, show_path
from assay.grouping import grouped
from assay.scoring.checks import MATCHES, holds

MAX_FORMS = 2000
"""Forms of one verb that items are held against. No verb has that many; the limit bounds the search
in a file that claims so.
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
    if not faults:
        faults = list(marking.faults(exam_of(files)))
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
    return [*errors, *_rubric_findings(marking, documents), *_warnings(files, marking)]


def _rubric_findings(marking: Marking, documents: list[Document]) -> Iterator[LintFinding]:
    """Cases of the rubric's own test that it doesn't pass."""
    for failure in self_test(marking):
        expected, actual = failure["expected"], failure["actual"]
        wrong = [axis for axis, mark in actual.items() if mark != expected[axis]]
        message = f"{marking.id} marks its own case '{failure['name']}' differently on"
        yield LintFinding(
            "error",
            "rubric-self-test",
            documents[0].file,
            None,
            "rubric",
            f"{message} {', '.join(wrong)}. Correct the rule or the case.",
        )


class _Expected(NamedTuple):
    """What an item expects on an axis that looks for text, normalized, and under which key."""

    path: Path
    entries: tuple[str, ...]
    match: str
    of: str


class _Placed(NamedTuple):
    """An item, its expected texts by axis, and where it is."""

    item: ExamItem
    texts: dict[str, _Expected]
    document: Document
    path: Path

    def finding(self, rule: str, key: str | Path, message: str) -> LintFinding:
        at: Path = (*self.path, *((key,) if isinstance(key, str) else key))
        line = self.document.line_of(at)
        return LintFinding("warning", rule, self.document.file, line, show_path(at), message)


def _placed(item: ExamItem, marking: Marking, document: Document, path: Path) -> _Placed:
    texts = {}
    for axis, rule in marking.rules.items():
        if not isinstance(rule, TextRule):
            continue
        key = rule.expects or axis
        want = rule.wanted(axis, item.expectations)
        entries = [entry for entry in entries_of(want) if isinstance(entry, str)]
        texts[axis] = _Expected(
            (SHORT[key],) if key in SHORT and item.gloss_contains is not None else ("expect", key),
            tuple(filter(None, map(marking.normal, entries))),
            rule.match_of(item, marking.rubric.matching),
            rule.of,
        )
    return _Placed(item, texts, document, path)


def _warnings(files: list[tuple[ExamFile, Document]], marking: Marking) -> Iterator[LintFinding]:
    placed = [
        _placed(item, marking, document, ("items", index))
        for file, document in files
        for index, item in enumerate(file.items)
    ]
    prompts: dict[str, str] = {}
    for placed_item in placed:
        yield from _own(placed_item, marking)
        first = prompts.setdefault(placed_item.item.prompt, placed_item.item.id)
        if first != placed_item.item.id:
            yield placed_item.finding(
                "same-prompt", "prompt", f"'{placed_item.item.id}' asks what '{first}' asks."
            )
    verbs = grouped((one.item.verb, one) for one in placed if one.item.verb is not None)
    for verb, rows in verbs.items():
        yield from _wrong_forms(marking.normal(verb), rows)


def _own(case: _Placed, marking: Marking) -> Iterator[LintFinding]:
    for path, entries, match, of in case.texts.values():
        if match == "exact" and len(set(entries)) > 1 and of == "all":
            yield case.finding(
                "never-met",
                path,
                "no answer is equal to two different texts. Use `match: word`, or keep one.",
            )
        for entry in entries:
            others = [other for other in entries if other != entry]
            if any(MATCHES[match](other, entry) for other in others):
                yield case.finding(
                    "redundant", path, f"'{entry}' is contained in another entry of the list."
                )
    yield from _in_prompt(case, marking)
    for tag in marking.rubric.tags:
        if tag not in case.item.labels:
            yield case.finding(
                "no-" + tag,
                "id",
                f"'{case.item.id}' names no {tag}, so no diagnosis can show what lost items share.",
            )


def _in_prompt(case: _Placed, marking: Marking) -> Iterator[LintFinding]:
    """Traps of the main axis: a prompt that is its own answer, options that nobody is shown, tests
    that their own solution fails.
    """
    axis = marking.main
    rule, key = marking.rules[axis], ("expect", axis)
    want = rule.wanted(axis, case.item.expectations)
    if axis in case.texts:
        path, entries, match, of = case.texts[axis]
        wrong = holds(marking.normal(case.item.prompt), entries, match, of)
        if entries and match != "exact" and wrong:
            yield case.finding(
                "answer-in-prompt",
                path,
                "a tutor that repeats the prompt is right. Word the prompt so that it doesn't"
                " contain the form.",
            )
    elif any(item_faults(case.item, marking.rules, marking.setting())):
        return  # an error says so; there is nothing to try
    elif isinstance(rule, OptionChoice):
        prompt = case.item.prompt.lower()
        unseen = [text for text in options_of(case.item).values() if text.lower() not in prompt]
        if unseen:
            message = f"the prompt doesn't show the option '{unseen[0]}'."
            yield case.finding("option-not-in-prompt", "prompt", message)
    elif isinstance(rule, PassesTests):
        solution = want.get("solution")
        verdict = None if solution is None else rule.run(solution, want)
        if verdict is not None and verdict.passed is not True:
            message = f"its own solution doesn't pass the tests: {verdict.reason}."
            yield case.finding("solution-fails", key, message)
    elif rule.wants:
        setting = marking.setting()
        check = rule.prepare(want, case.item, setting)
        if check(rule.read(parsed(case.item.prompt))):
            yield case.finding(
                "answer-in-prompt", key, "an answer that repeats the prompt is right."
            )


def _wrong_forms(verb: str, rows: list[_Placed]) -> Iterator[LintFinding]:
    """Items that would accept a form that belongs to another item of the verb, or a naive form of
    it.
    """
    forms_of = {
        axis: _forms((" ".join(row.texts[axis].entries), row) for row in rows)
        for axis in rows[0].texts
    }
    naive = [verb + ending for ending in _ENDINGS]
    for row in rows:
        for axis, (key, entries, match, _) in row.texts.items():
            if not entries:
                continue
            forms, own = forms_of[axis], " ".join(entries)
            wrong = [form for form in forms if form != own and holds(form, entries, match)]
            if axis == "correctness":
                wrong += [
                    form
                    for form in naive
                    if form != own and form not in forms and holds(form, entries, match)
                ]
            if wrong:
                shown = ", ".join(
                    f"'{form}'" + (f" (right for {forms[form]})" if form in forms else "")
                    for form in wrong[:3]
                )
                yield row.finding(
                    "contained-form",
                    key,
                    f"'{own}' is contained in {shown}, which would be accepted. Use `match: word`"
                    " or `exact`, or a longer form.",
                )


def _forms(pairs: Iterable[tuple[str, _Placed]]) -> dict[str, str]:
    forms: dict[str, str] = {}
    for form, placed in pairs:
        if form and len(forms) < MAX_FORMS:
            forms.setdefault(form, placed.item.id)
    return forms


def lint_document(findings: list[LintFinding], paths: list[str]) -> dict[str, Any]:
    """What lint found, as JSON."""
    counts = {
        level: sum(finding.level == level for finding in findings) for level in ("error", "warning")
    }
    return {
        "files": paths,
        "clean": not findings,
        "counts": counts,
        "findings": [finding._asdict() for finding in findings],
    }
