"""`assay demo`: the main job on bundled examples, without network, key or server."""

from __future__ import annotations

import os
import sys
from typing import Any

from assay.cli import options as opt
from assay.errors import ExitCode, InputError
from assay.files import Unread, atomic_write, stream_documents
from assay.library.shelf import Shelf
from assay.pipeline import Graded, Grader
from assay.release.ranking import contender, rank
from assay.release.summary import Summary
from assay.reports.documents import JsonDocument, plain
from assay.reports.html import render

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples")
STORIES = {
    "code-repair": "Code repair: a bot mends bugs in a repository",
    "dag-review": "DAG review: agents review data pipelines",
    "rag": "RAG: a support assistant answers from its documents",
    "tool-use": "Tool use: an agent books and rebooks travel",
    "scorecards": "Bare scorecards: scores a team took with its own scripts",
}


def run(verb: str, argv: list[str]) -> int:
    """Grade the bundled examples, explain each, and write a report."""
    made = opt.parser("demo", "Grade bundled example runs of all four families, good and bad, explain each, and write a report.", "assay demo")
    made.add_argument("--out", metavar="DIR", default="demo", help="where report.html and grades.json go (default: demo)")
    options = made.parse_args(argv)
    grader = Grader(Shelf())
    groups = {name: _graded(grader, os.path.join(EXAMPLES, f"{name}.jsonl")) for name in STORIES}
    everything = [graded for group in groups.values() for graded in group]
    results = [plain(graded.payload()) for graded in everything]
    summary = Summary()
    for graded in everything:
        summary.add(graded.grade)
    block = summary.shown()
    written = _write(options.out, results, block)
    if options.json:
        opt.print_json({"schema": "assay.grades/1", "results": results, "faults": [], "counts": {"graded": len(results)}, "summary": block, "written": written})
        return ExitCode.PASSED
    _tell(groups, grader, block, written)
    return ExitCode.PASSED


def _graded(grader: Grader, path: str) -> list[Graded]:
    found = []
    for document in stream_documents(path):
        if isinstance(document, Unread):
            raise InputError(document.fault.code, document.fault.message, where=path, faults=[document.fault])
        found.append(grader.grade(document))
    return found


def _write(folder: str, results: list[dict[str, Any]], block: dict[str, Any]) -> list[str]:
    page = os.path.join(folder, "report.html")
    with atomic_write(page) as stream:
        stream.write(render(results, title="Assay demo", subtitle="Twelve bundled runs from four families of AI workflows, and three bare scorecards").encode())
    document = os.path.join(folder, "grades.json")
    form = JsonDocument()
    counts = {"graded": len(results), "passed": sum(result["passed"] for result in results), "grades": block["grades"]}
    with atomic_write(document) as stream:
        stream.write(form.head() + form.joint().join(form.piece(result) for result in results) + form.foot([], counts))
    return [page, document]


def _tell(groups: dict[str, list[Graded]], grader: Grader, block: dict[str, Any], written: list[str]) -> None:
    on = opt.colour()
    out = sys.stdout
    for name, group in groups.items():
        out.write(opt.paint(f"\n{STORIES[name]}\n", "bold", on=on))
        for graded in group:
            _tell_one(graded, on=on)
    places = rank([contender(graded.grade) for group in groups.values() for graded in group], tie_window=grader.rules.tie_window)
    best = ", ".join(place.contender.id for place in places[:3])
    rate = block["pass_rate"]
    mean = block["weighted_score"]["mean"]
    out.write(opt.paint("\nAll together\n", "bold", on=on))
    out.write(f"  pass rate {100 * rate['value']:.0f}%, 95% interval {100 * rate['low']:.0f} to {100 * rate['high']:.0f}%; ")
    out.write(f"mean score {mean['value']:.2f}, {mean['low']:.2f} to {mean['high']:.2f}\n")
    out.write(f"  grades {' · '.join(f'{letter} {count}' for letter, count in block['grades'].items())}; ranked first: {best}\n")
    out.write(f"  policy {grader.rules.policy} · {block['scoringSystem']} · {block['gradingSystem']}\n\n")
    out.write(f"The report is {written[0]} (open it in a browser); the grades are in {written[1]}.\n")
    command = sys.argv[0] if os.path.basename(sys.argv[0]) == "assay" else "assay"
    out.write(f"Grade your own: {os.path.relpath(command) if os.sep in command else command} grade runs.jsonl\n")


def _tell_one(graded: Graded, *, on: bool) -> None:
    grade = graded.grade
    result = graded.payload()
    head = f"  {grade.grade}  {grade.weighted_score:6.2f}  {'passed' if grade.passed else 'FAILED'}  {grade.run_id}"
    sys.stdout.write(opt.paint(head, "green" if grade.passed else "red", on=on) + "\n")
    told = [
        sentence for sentence in result["explanation"] if not sentence.startswith("Grade ") and " brings " not in sentence and not sentence.startswith("All ")
    ]
    for sentence in told:
        sys.stdout.write(f"       {sentence}\n")
    for note in result["notes"]:
        sys.stdout.write(f"       Note: {note.rstrip('.')}.\n")
