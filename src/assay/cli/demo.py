"""`assay demo`: every family on bundled examples, with a report."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from assay.canon import plain, pretty
from assay.cli import options as opt
from assay.cli.deciding import read_side
from assay.cli.frame import Command, Options, arg
from assay.errors import count, few
from assay.family import parts as family_parts
from assay.files.atomic import write_file
from assay.files.inputs import Source
from assay.files.json_files import Document, read_documents
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.records.grade_line import as_line
from assay.records.summary import SummaryBlock
from assay.release.policy import make_release_rules
from assay.release.ranking import contender, rank
from assay.release.summary import Summary
from assay.running.compatibility import prepare
from assay.running.dataset import read_dataset
from assay.running.runner import Runner, RunSettings, SampleWork, work_of
from assay.running.workflow import LoadedWorkflow, read_workflow
from assay.services.compare import Asked, ReadSide, compare
from assay.services.confirm import Confirmation, SideName
from assay.services.grading import Graded, Grader
from assay.services.importing import import_runs, totals
from assay.services.sides import Rereadable, severe_of, side_of
from assay.views.decision import outcome_word, rule_word
from assay.views.documents import JsonDocument
from assay.views.grade_line import surprises
from assay.views.pieces import number
from assay.views.report import render

SEED = 2
BANKED, REPEATS = 3, 2
"""Runs of each question: of the current version, which are made once, and of a candidate."""
STORIES = {
    "same": "The bot, rewritten: as good as the current version",
    "next": "The bot with a shorter prompt: three questions can't be answered any longer",
}


class NoisyDecision(NamedTuple):
    """A decision on a candidate, and what it took."""

    name: str
    decision: Decision
    runs: int
    """Runs of the candidate before the gate."""
    fresh: int
    """Fresh runs of both sides, made to confirm."""


def noisy_decisions(folder: str, *, now: str) -> list[NoisyDecision]:
    """The decisions on both candidates."""
    state = random.getstate()
    random.seed(SEED)
    try:
        bot = _Bot(folder, now=now)
        current = bot.side("current", "baseline", BANKED)
        return [_noisy_decision(bot, name, current) for name in STORIES]
    finally:
        random.setstate(state)


def _noisy_decision(bot: _Bot, name: str, current: ReadSide) -> NoisyDecision:
    candidate = bot.side(name, "candidate", REPEATS)
    workflows = {"candidate": name, "baseline": "current"}

    def make(side: SideName, sample: str, attempt: int) -> dict[str, Any]:
        return bot.run_again(workflows[side], sample.rpartition("/")[2], attempt)

    confirmed = Confirmation(
        (candidate, current),
        bot.rules,
        bot.grader,
        Asked(),
        make=make,
        keep=lambda _run: None,
        kept=[],
    ).run()
    runs = sum(len(sample.attempts) for sample in candidate.side.samples.values())
    return NoisyDecision(name, confirmed.decision, runs, confirmed.made)


class _Bot:
    """The three versions of the example, and its samples."""

    def __init__(self, folder: str, *, now: str) -> None:
        config = os.path.join(folder, "assay.yaml")
        shelf = Shelf()
        self.grader = Grader(shelf, profile="rag-measured")
        self.rules = make_release_rules(shelf.policy_of("release", "release"))
        self._now = now
        self._dataset = read_dataset(os.path.join(folder, "samples.jsonl"))
        self._workflows = {
            name: read_workflow(f"{config}#workflows.{name}") for name in ("current", *STORIES)
        }

    def side(self, workflow: str, name: str, repeats: int) -> ReadSide:
        """A version, run on every sample."""
        settings = RunSettings(workflow, concurrency=1, repeat=repeats, now=self._now)
        loaded = self._workflows[workflow]
        runs = self._run(loaded, work_of(prepare(loaded, self._dataset), settings), settings)
        documents = [Document(run, workflow, line) for line, run in enumerate(runs, 1)]
        side = side_of(documents, self.grader, name=name, severe=severe_of(self.rules))
        return Rereadable(side, lambda: documents)

    def run_again(self, workflow: str, sample: str, attempt: int) -> dict[str, Any]:
        """One fresh run of one sample."""
        settings = RunSettings(f"fresh-{workflow}-{attempt}", concurrency=1, now=self._now)
        loaded = self._workflows[workflow]
        work = [
            work
            for work in work_of(prepare(loaded, self._dataset), settings)
            if work.sample.sample_id == sample
        ]
        (run,) = self._run(loaded, work, settings)
        return run

    def _run(
        self, workflow: LoadedWorkflow, work: Sequence[SampleWork], settings: RunSettings
    ) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = []
        asyncio.run(Runner(workflow, self._dataset, settings, keep=runs.append).run(work))
        return runs


def document_of(made: Sequence[NoisyDecision]) -> dict[str, Any]:
    """Both decisions, for `--json`."""
    return {
        one.name: {"runs": one.runs, "fresh_runs": one.fresh, "decision": one.decision.tree()}
        for one in made
    }


def noise_lines(made: Sequence[NoisyDecision]) -> Iterator[str]:
    """Both decisions in a few lines."""
    yield opt.paint(
        "\nNoise: a bot that answers differently each time, and two versions that may replace it",
        "bold",
    )
    for one in made:
        decision = one.decision
        style = "green" if decision.outcome == "promote" else "red"
        yield opt.paint(f"  {outcome_word(decision).upper()}  {STORIES[one.name]}", style)
        yield from (f"       {line}" for line in _confirmation(one))
    limit = made[0].decision.errors.reject_at_most
    yield (
        f"  policy {made[0].decision.policy}: a version that is the same as the current one is"
        f" rejected in at most {limit:.0%} of cases"
    )


def _confirmation(made: NoisyDecision) -> Iterator[str]:
    """What seemed to fail newly, and what its fresh runs showed."""
    confirmation = made.decision.confirmation
    by_verdict: dict[str, list[str]] = {}
    for suspect in confirmation.suspects:
        names = by_verdict.setdefault(suspect.verdict, [])
        if (name := suspect.sample.rpartition("/")[2]) not in names:
            names.append(name)
    seen = {suspect.sample for suspect in confirmation.suspects}
    yield (
        f"{count(made.runs, 'run')}; {count(len(seen), 'question')} seem to fail newly. After"
        f" {count(made.fresh, 'fresh run')} of both versions:"
    )
    for name in by_verdict.get("confirmed", ()):
        yield (
            f"newly fails  {name}: failed {confirmation.repeats} of {confirmation.repeats} fresh"
            " runs, and the current version passed each time"
        )
    if cleared := [*by_verdict.get("flaky", ()), *by_verdict.get("baseline_fails_too", ())]:
        yield (
            f"noise        {few(cleared, 5)}: passed when run again, or the current version failed"
            " too"
        )
    if waiting := by_verdict.get("open"):
        yield f"not run      {few(waiting, 5)}: one confirmed new failure is enough to reject"


RELEASE_STORIES = {
    "candidate": "Version 8 of a support assistant against version 7, on the same 60 tickets",
    "fixed": "Version 8.1, which fixes what the decision named",
}


def release_decisions(folder: str) -> list[Decision]:
    """The decisions on the bundled candidates."""
    grader = Grader(Shelf())
    rules = make_release_rules(Shelf().policy_of("release", "release"))
    file = os.path.join(folder, "baseline.jsonl")
    baseline = read_side([Source(file, file)], grader, name="baseline", rules=rules)
    decisions = []
    for name in RELEASE_STORIES:
        file = os.path.join(folder, f"{name}.jsonl")
        candidate = read_side([Source(file, file)], grader, name=name, rules=rules)
        decisions.append(compare(candidate, baseline, rules, grader))
    return decisions


def decision_lines(decisions: list[Decision]) -> Iterator[str]:
    """Both decisions in a few lines."""
    yield opt.paint(
        "\nMay this version replace that one? (scores a team took, one run of each ticket)", "bold"
    )
    for story, document in zip(RELEASE_STORIES.values(), decisions, strict=True):
        style = "green" if document.outcome == "promote" else "red"
        yield opt.paint(f"  {outcome_word(document).upper()}  {story}", style)
        held = [rule.id for rule in document.rules if rule.holds]
        for rule in document.rules:
            if rule.holds is not True:
                yield f"       {rule_word(rule):<6} {rule.id}: {rule.reason}"
        yield f"       holds  {', '.join(held)}"
        yield from (f"       {line}" for line in document.would_change)
    first = decisions[0]
    yield f"  policy {first.policy} · {first.scoring_system} · {first.grading_system}"


def promptfoo_imported(file: str) -> dict[str, Any]:
    """The tool's totals next to ours, and the grades under the profile made from its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        imported_runs = import_runs([file], folder)
        profile = imported_runs.made_profile()
        assert profile is not None
        grader = Grader(Shelf(), profile=profile)
        graded = [grader.grade(document) for document in read_documents(imported_runs.spool)]
    return {
        "tool": imported_runs.importer.name,
        "profile": profile.id,
        "totals": totals(imported_runs.tally),
        "results": [plain(graded_run.payload()) for graded_run in graded],
        "failed": [
            as_line(graded_run.grade).text for graded_run in graded if not graded_run.grade.passed
        ],
    }


def import_lines(imported_part: dict[str, Any]) -> Iterator[str]:
    """The totals and the first samples that fail, in a few lines."""
    yield opt.paint("\nAnother tool's results, as promptfoo wrote them", "bold")
    theirs = next(row["ours"] for row in imported_part["totals"] if row["total"] == "passed")
    n, failed = len(imported_part["results"]), imported_part["failed"]
    yield (
        f"  promptfoo passed {theirs} of {n} samples, Assay passes {n - len(failed)}; errors are"
        " missing evidence"
    )
    yield from (opt.paint(f"  {line}", "red") for line in failed[:2])
    yield f"       ... and {len(failed) - 2} more"
    yield f"  profile {imported_part['profile']}, made from the file's metrics"


EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples")
RUN_STORIES = {
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
        for name in RUN_STORIES
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
    decisions = release_decisions(os.path.join(EXAMPLES, "release"))
    noisy = noisy_decisions(os.path.join(EXAMPLES, "projects", "noisy"), now=NOW)
    imported = promptfoo_imported(os.path.join(EXAMPLES, "results", "promptfoo.csv"))
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
        "noise": document_of(noisy),
        "imported": imported,
    }
    for part in last:
        document |= part.document
    document["written"] = written
    lines = chain(
        _grade_lines(groups, grader, block),
        *(part.lines for part in first),
        noise_lines(noisy),
        decision_lines(decisions),
        import_lines(imported),
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
        yield opt.paint(f"\n{RUN_STORIES[name]}", "bold")
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
