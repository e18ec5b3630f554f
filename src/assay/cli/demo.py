"""`assay demo`: the main features on bundled examples, without network, key or server."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from assay.canon import plain, pretty
from assay.cli import demo_noise, demo_parts
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg
from assay.family import parts as family_parts
from assay.files.atomic import write_file
from assay.files.json_files import read_documents
from assay.library.shelf import Shelf
from assay.records.grade_line import as_line
from assay.records.summary import SummaryBlock
from assay.release.ranking import contender, rank
from assay.release.summary import Summary
from assay.services.grading import Graded, Grader
from assay.views.documents import JsonDocument
from assay.views.grade_line import surprises
from assay.views.pieces import number
from assay.views.report import render

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples")
STORIES = {
    "code-repair": "Code repair: a bot fixes bugs in a repository",
    "dag-review": "DAG review: agents review data pipelines",
    "rag": "RAG: a support assistant answers from its documents",
    "tool-use": "Tool use: an agent books and rebooks travel",
    "scorecards": "Bare scorecards: scores a team took with its own scripts",
}
NOW = "2026-11-15T10:00:00Z"
"""The clock of what runs in the demo."""
SUBTITLE = "Twelve bundled runs from four families of AI workflows, and three bare scorecards"


RELEASES = 50
"""The place of the core's own parts, on releases, after its grades."""


class DemoPart(NamedTuple):
    """A family's part of the demo. It is made by a function of the folder for its files."""

    place: int
    """Where it is shown: after the parts with lower numbers."""
    document: dict[str, Any]
    """Its members of the JSON document."""
    lines: Iterable[str]
    """What is printed."""
    files: dict[str, bytes] = {}
    """Files to write, by name."""
    written: tuple[str, ...] = ()
    """The paths of files that it wrote itself."""


def _place(part: DemoPart) -> int:
    return part.place


def run(options: Options) -> int:
    """Grade the bundled examples, explain each, and write a report."""
    grader = Grader(Shelf())
    groups = {
        name: [
            grader.grade(document)
            for document in read_documents(os.path.join(EXAMPLES, f"{name}.jsonl"))
        ]
        for name in STORIES
    }
    everything = [graded for group in groups.values() for graded in group]
    results = [plain(graded.payload()) for graded in everything]
    summary = Summary()
    for graded in everything:
        summary.add(graded.grade)
    block = summary.block()
    grades = _grades(results, block)
    # a folder that can't be written is refused before the work that takes seconds
    write_file(os.path.join(options.out, "grades.json"), grades)
    parts = sorted((make(options.out) for _, make in family_parts("demo")), key=_place)
    first = [part for part in parts if part.place < RELEASES]
    last = parts[len(first) :]
    decisions = demo_parts.decided(os.path.join(EXAMPLES, "release"))
    noisy = demo_noise.decided(os.path.join(EXAMPLES, "projects", "noisy"), now=NOW)
    imported = demo_parts.imported(os.path.join(EXAMPLES, "results", "promptfoo.csv"))
    page = render(
        results,
        title="Assay demo",
        subtitle=SUBTITLE,
        runs=[graded.run for graded in everything],
    ).encode()
    files = {"report.html": page, "grades.json": grades}
    for part in first:
        files |= part.files
    files["decisions.json"] = pretty({"decisions": [*(one.decision for one in noisy), *decisions]})
    for part in last:
        files |= part.files
    for name, data in files.items():
        write_file(os.path.join(options.out, name), data)
    written = [os.path.join(options.out, name) for name in files]
    written += [path for part in parts for path in part.written]
    document: dict[str, Any] = {
        "schema": "assay.grades/1",
        "results": results,
        "faults": [],
        "counts": {"graded": len(results)},
        "summary": block,
    }
    for part in first:
        document |= part.document
    document |= {
        "decisions": decisions,
        "noise": demo_noise.document_of(noisy),
        "imported": imported,
    }
    for part in last:
        document |= part.document
    document["written"] = written
    lines = chain(
        _grade_lines(groups, grader, block),
        *(part.lines for part in first),
        demo_noise.lines(noisy),
        demo_parts.decision_lines(decisions),
        demo_parts.import_lines(imported),
        *(part.lines for part in last),
        _next_lines(written),
    )
    return opt.give(options, document, lines)


def _grades(results: list[dict[str, Any]], block: SummaryBlock) -> bytes:
    form = JsonDocument()
    counts = {
        "graded": len(results),
        "passed": sum(result["passed"] for result in results),
        "grades": block.grades,
    }
    pieces = form.joint().join(form.piece(result) for result in results)
    return form.head() + pieces + form.foot([], counts)


def _grade_lines(
    groups: dict[str, list[Graded]], grader: Grader, block: SummaryBlock
) -> Iterator[str]:
    for name, group in groups.items():
        yield opt.paint(f"\n{STORIES[name]}", "bold")
        for graded in group:
            yield from _run_lines(graded)
    places = rank(
        [contender(graded.grade) for group in groups.values() for graded in group],
        tie_window=grader.rules.tie_window,
    )
    best = ", ".join(place.contender.id for place in places[:2])
    rate, mean = block.pass_rate, block.weighted_score.mean
    yield opt.paint("\nOverview", "bold")
    passed = number(rate.value, interval=rate, percent=True)
    yield f"  pass rate {passed}; mean score {number(mean.value, interval=mean)}"
    letters = " · ".join(f"{letter} {count}" for letter, count in block.grades.items())
    yield f"  grades {letters}; ranked first: {best}"
    yield f"  policy {grader.rules.policy} · {block.scoring_system} · {block.grading_system}"


def _next_lines(written: list[str]) -> list[str]:
    path = sys.argv[0]
    on_path = os.path.basename(path) != "assay" or path == shutil.which("assay")
    shown = "assay" if on_path else os.path.relpath(path)
    return [
        f"\nThe report is {written[0]} (open it in a browser); the grades are in {written[1]}.",
        f"Set up your own project: {shown} init",
        f"Grade another tool's results: {shown} grade results.json",
        f"Decide between two versions: {shown} gate candidate.jsonl --baseline baseline.jsonl",
        f"Check the tools of an MCP server: {shown} tools check --mcp 'python server.py'",
    ]


def _run_lines(graded: Graded) -> Iterator[str]:
    grade, result = graded.grade, graded.payload()
    yield opt.paint(f"  {as_line(grade).head}", "green" if grade.passed else "red")
    yield from (f"       {sentence}" for sentence in surprises(result))
    yield from (f"       Note: {note.rstrip('.')}." for note in result["notes"])


COMMANDS = {
    "demo": Command(
        run,
        "Grade bundled example runs of all four families, good and bad, explain each, and write a"
        " report.",
        "assay demo",
        (
            arg(
                "--out",
                kind="path",
                metavar="DIR",
                default="demo",
                help="the folder for report.html and grades.json (default: demo)",
            ),
        ),
        configured=False,
    ),
}
