"""Confirm what seems to fail newly, by fresh runs: a suspicion is not a regression.

Each turn runs the candidate on a suspect sample, and the baseline where the candidate failed again.
A sample is left alone as soon as its fresh runs say something, and everything ends as soon as a
rule is violated. The decision itself is `compare`'s, on the fresh runs as on any evidence; here
they are only made, one by one, and each is kept before the next is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from assay.errors import InputError
from assay.files.json_files import Document
from assay.records.decision import Decision
from assay.release.policy import ReleaseRules
from assay.services.compare import Asked, FreshRuns, ReadSide, compare
from assay.services.grading import Grader
from assay.services.sides import Rereadable, severe_of, side_of

SideName = Literal["candidate", "baseline"]
SIDES: tuple[SideName, SideName] = ("candidate", "baseline")


class FreshRun(NamedTuple):
    """A run that was made again."""

    side: SideName
    sample: str
    attempt: int
    tree: dict[str, Any]
    """The run as evidence, with its attempt."""


MakeRun = Callable[[SideName, str, int], dict[str, Any]]
"""Runs one side on a sample, for the attempt with this number."""
KeepRun = Callable[[FreshRun], None]


class NeededRuns(NamedTuple):
    """What a confirmation may take."""

    suspects: list[str]
    """Samples that seem to fail newly."""
    severe: list[str]
    """Samples that failed severely."""
    turns: int
    severe_turns: int

    @property
    def most(self) -> int:
        """Runs of each side, at most."""
        return sum(self.turns_of(name) for name in dict.fromkeys([*self.suspects, *self.severe]))

    def turns_of(self, sample: str) -> int:
        """Turns that a sample may take."""
        return max(
            self.turns if sample in self.suspects else 0,
            self.severe_turns if sample in self.severe else 0,
        )


def needed_runs(decision: Decision, rules: ReleaseRules) -> NeededRuns:
    """What is still open in a decision."""
    confirmation = decision.confirmation
    open_samples = dict.fromkeys(
        suspect.sample for suspect in confirmation.suspects if suspect.verdict == "open"
    )
    return NeededRuns(
        list(open_samples),
        list(confirmation.severe),
        confirmation.repeats,
        rules.limits.severe_turns,
    )


class Confirmed(NamedTuple):
    """A decision after its confirmation."""

    decision: Decision
    fresh: FreshRuns
    made: int
    """Runs that were made now; others were kept from before."""


class Confirmation:
    """Makes the fresh runs of one decision. `kept` are those that an earlier, interrupted
    confirmation made.
    """

    def __init__(
        self,
        sides: tuple[ReadSide, ReadSide],
        rules: ReleaseRules,
        grader: Grader,
        asked: Asked,
        *,
        make: MakeRun,
        keep: KeepRun,
        kept: list[FreshRun],
    ) -> None:
        self._sides, self._rules, self._grader, self._asked = sides, rules, grader, asked
        self._make, self._keep = make, keep
        self._runs: dict[tuple[SideName, str], list[dict[str, Any]]] = {}
        self._made = 0
        for run in sorted(kept, key=lambda run: (run.side, run.sample, run.attempt)):
            known = self._runs.setdefault((run.side, run.sample), [])
            if run.attempt != len(known) + 1:
                raise InputError(
                    "REL-002",
                    f"the fresh runs of {run.sample} are not numbered from 1 without a gap.",
                    fix="Remove them, and confirm again.",
                )
            known.append(run.tree)

    def run(self) -> Confirmed:
        """Make runs until nothing is open that they could settle."""
        decision = self._decide()
        for sample, turns in self._samples(needed_runs(decision, self._rules)):
            while decision.outcome != "reject" and len(self._of("candidate", sample)) < turns:
                if sample not in _open(decision):
                    break
                self._turn(sample, decision)
                decision = self._decide()
            if decision.outcome == "reject":
                break
        return Confirmed(decision, self._fresh(), self._made)

    def _samples(self, needed: NeededRuns) -> Iterator[tuple[str, int]]:
        for sample in sorted({*needed.suspects, *needed.severe}):
            yield sample, needed.turns_of(sample)

    def _turn(self, sample: str, decision: Decision) -> None:
        """Run the candidate, and the baseline unless the candidate's run cleared the sample."""
        self._add("candidate", sample)
        still = _open(self._decide())
        if sample in still or sample in decision.confirmation.severe:
            while len(self._of("baseline", sample)) < len(self._of("candidate", sample)):
                self._add("baseline", sample)

    def _add(self, side: SideName, sample: str) -> None:
        known = self._runs.setdefault((side, sample), [])
        number = len(known) + 1
        tree = {**self._make(side, sample, number), "attempt": number}
        tree.pop("attempts", None)
        self._keep(FreshRun(side, sample, number, tree))
        known.append(tree)
        self._made += 1

    def _of(self, side: SideName, sample: str) -> list[dict[str, Any]]:
        return self._runs.get((side, sample), [])

    def _fresh(self) -> FreshRuns:
        made: list[ReadSide | None] = []
        for side in SIDES:
            documents = [
                Document(tree, f"fresh {side}", number)
                for (of, _), trees in sorted(self._runs.items())
                if of == side
                for number, tree in enumerate(trees, 1)
            ]
            if not documents:
                made.append(None)
                continue
            read = side_of(
                documents, self._grader, name=f"fresh {side}", severe=severe_of(self._rules)
            )
            made.append(Rereadable(read, lambda documents=documents: documents))  # type: ignore[misc]
        return FreshRuns(*made)

    def _decide(self) -> Decision:
        asked = self._asked._replace(fresh=self._fresh())
        return compare(*self._sides, self._rules, self._grader, asked)


def _open(decision: Decision) -> set[str]:
    """The samples that more fresh runs could settle."""
    suspects = decision.confirmation.suspects
    waiting = {suspect.sample for suspect in suspects if suspect.verdict == "open"}
    return waiting | set(decision.confirmation.severe)
