"""The part of the demo in which a bot answers differently each time: a version that is as good as
the current one is promoted, and one that is broken for three questions is rejected.

It takes the steps of `assay run --repeat` and `assay gate --confirm` on the bundled example
`noisy`, in this process and with a fixed seed: so the demo says the same each time. The bot itself
has no seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from assay.cli import options as opt
from assay.errors import count, few
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.release.policy import make_release_rules
from assay.running.compatibility import prepare
from assay.running.dataset import read_dataset
from assay.running.runner import Runner, RunSettings, SampleWork, work_of
from assay.running.workflow import LoadedWorkflow, read_workflow
from assay.services.compare import Asked, ReadSide
from assay.services.confirm import Confirmation, SideName
from assay.services.grading import Grader
from assay.services.sides import Rereadable, severe_of, side_of
from assay.views.decision import outcome_word

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


def decided(folder: str, *, now: str) -> list[NoisyDecision]:
    """The decisions on both candidates."""
    state = random.getstate()
    random.seed(SEED)
    try:
        bot = _Bot(folder, now=now)
        current = bot.side("current", "baseline", BANKED)
        return [_decided(bot, name, current) for name in STORIES]
    finally:
        random.setstate(state)


def _decided(bot: _Bot, name: str, current: ReadSide) -> NoisyDecision:
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


def lines(made: Sequence[NoisyDecision]) -> Iterator[str]:
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
