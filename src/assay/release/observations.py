"""What was observed of each sample on both sides: the only thing that the rules of a release read.

A check is a gate, a critical floor, or passing as a whole. An attempt is one run of a sample, with
the checks that it answers and those that it fails. What is missing has two readings. For a rule to
hold, whatever the candidate lacks counts as failed and whatever the baseline lacks as passed; for a
rule to be violated, the other way round: only what was seen counts. So forgetting never helps, and
an outage of the infrastructure is not a regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, NamedTuple

from assay.grouping import grouped
from assay.stats.clusters import Groups, gather
from assay.stats.exchange import Attempts

FULL = 10_000
"""A score of 100, in hundredths."""
USED = ("cost_usd", "latency_ms", "tokens")
"""What a run used, in the order of `Attempt.used`."""


class Check(NamedTuple):
    """Something that a run passes or fails."""

    kind: Literal["gate", "floor", "pass"]
    name: str = ""

    def __str__(self) -> str:
        return self.kind if not self.name else f"{self.kind} {self.name}"


PASS = Check("pass")


class Attempt(NamedTuple):
    """One run of a sample."""

    judged: frozenset[Check]
    """The checks that it answers."""
    failed: frozenset[Check]
    """Of these, the ones that it fails."""
    severe: frozenset[Check]
    """Of these, the ones whose failure is severe."""
    score: int
    """In hundredths, with 0 for every criterion that nobody scored."""
    criteria: tuple[str, ...] = ()
    norms: tuple[int | None, ...] = ()
    """In billionths, in the order of `criteria`; None for one that nobody scored."""
    gaps: Mapping[str, int] = MappingProxyType({})
    """What each criterion that nobody scored could add to the score, in hundredths."""
    unjudged: frozenset[Check] = frozenset()
    """The gates that should have a verdict and have none."""
    used: tuple[float | None, ...] = ()
    """Cost, latency and tokens, in the order of `USED`; empty if none of them is known."""
    errored: bool = False
    """Whether it ended for reasons that may be those of the infrastructure: it failed, and shows no
    regression.
    """

    @property
    def scored(self) -> Mapping[str, int]:
        """The criteria that somebody scored."""
        return {
            name: norm
            for name, norm in zip(self.criteria, self.norms, strict=True)
            if norm is not None
        }

    def norm(self, criterion: str) -> int | None:
        """The norm of a criterion; None if nobody scored it."""
        place = self.criteria.index(criterion) if criterion in self.criteria else None
        return None if place is None else self.norms[place]

    def best(self, criteria: frozenset[str]) -> int:
        """The score if each of these criteria that nobody scored were at its best."""
        if not self.gaps:
            return self.score
        more = sum(gap for name, gap in self.gaps.items() if name in criteria)
        return min(FULL, self.score + more)

    def use(self, what: str) -> float | None:
        """Its cost, latency or tokens; None if they are not known."""
        return self.used[USED.index(what)] if self.used else None


class Observed(NamedTuple):
    """The runs of a sample on one side."""

    attempts: tuple[Attempt, ...] = ()
    """In the order of their numbers."""
    lost: int = 0
    """Runs that were announced and are not here."""

    @property
    def announced(self) -> int:
        """How many runs there should be."""
        return len(self.attempts) + self.lost


class Pair(NamedTuple):
    """A sample of the plan, or of the baseline, on both sides."""

    sample: str
    candidate: Observed
    baseline: Observed
    group: Hashable | None = None
    tags: frozenset[str] = frozenset()
    title: str = ""
    """What the tool that made the sample calls it."""

    @property
    def name(self) -> str:
        """What a reason calls it."""
        return self.title or self.sample

    @property
    def checks(self) -> frozenset[Check]:
        """The checks that the baseline answers: what only the candidate has enters no rule. Where
        the baseline lost every run, those of the candidate.
        """
        runs = self.baseline.attempts or self.candidate.attempts
        return frozenset[Check]().union(*(run.judged for run in runs))

    @property
    def criteria(self) -> frozenset[str]:
        """The criteria that somebody scored in the baseline."""
        return _scored(self.baseline)

    @property
    def applying(self) -> frozenset[str]:
        """The criteria that somebody scored on either side. Any other may not apply to the sample,
        and counts as 0 on both.
        """
        return _scored(self.baseline) | _scored(self.candidate)

    @property
    def has_gaps(self) -> bool:
        """Whether nobody scored some criterion of some run."""
        return any(run.gaps for side in (self.candidate, self.baseline) for run in side.attempts)


def _scored(side: Observed) -> frozenset[str]:
    return frozenset(name for run in side.attempts for name in run.scored)


Failing = Callable[[Attempt], bool | None]
"""Whether a run fails; None where it does not say."""


def fails(check: Check) -> Failing:
    """Whether a run fails one check."""
    return lambda run: check in run.failed if check in run.judged else None


def fails_any(kinds: Sequence[str] = ("gate", "floor", "pass")) -> Failing:
    """Whether a run fails any check of these kinds."""
    if len(kinds) == 3:
        return lambda run: bool(run.failed)
    return lambda run: any(check.kind in kinds for check in run.failed)


def is_severe(run: Attempt) -> bool | None:
    """Whether a run fails anything severe."""
    return bool(run.severe)


class Share(NamedTuple):
    """Of the runs that say something, how many fail."""

    failing: int
    runs: int

    @classmethod
    def seen(cls, side: Observed, failing: Failing) -> Share:
        """Of the runs that were seen and did not end in an error."""
        answers = [
            answer
            for run in side.attempts
            if not run.errored and (answer := failing(run)) is not None
        ]
        return cls(sum(answers), len(answers))

    @classmethod
    def worst(cls, side: Observed, failing: Failing) -> Share:
        """Of all announced runs: those that say nothing fail."""
        passing = sum(failing(run) is False for run in side.attempts)
        return cls(side.announced - passing, side.announced)

    @classmethod
    def best(cls, side: Observed, failing: Failing) -> Share:
        """Of all announced runs: those that say nothing pass."""
        return cls(sum(failing(run) is True for run in side.attempts), side.announced)

    @property
    def value(self) -> Fraction:
        """The share."""
        return Fraction(self.failing, self.runs)


class Rise(NamedTuple):
    """How a share of failing runs changed from the baseline to the candidate."""

    mean: Fraction
    """The mean over samples of the shares' differences."""
    groups: Groups
    """The differences, summed over groups."""
    exchange: Mapping[Attempts, int]
    """What could be exchanged between the sides."""
    samples: int


def rise_seen(pairs: Iterable[Pair], failing: Failing) -> Rise:
    """The rise in the runs that were seen on both sides: what a violation is shown by."""
    used: list[tuple[Pair, Share, Share]] = []
    for pair in pairs:
        ours, theirs = Share.seen(pair.candidate, failing), Share.seen(pair.baseline, failing)
        if ours.runs and theirs.runs:
            used.append((pair, ours, theirs))
    return _rise(
        [(pair.group, _between(ours, theirs)) for pair, ours, theirs in used],
        _exchangeable(used, failing),
    )


def rise_feared(pairs: Iterable[Pair], failing: Failing) -> Rise:
    """The rise if all that the candidate lacks fails, and all that the baseline lacks passes: what
    must be small enough for a rule to hold.
    """
    differences = []
    for pair in pairs:
        ours, theirs = Share.worst(pair.candidate, failing), Share.best(pair.baseline, failing)
        if ours.runs or theirs.runs:
            mine = ours if ours.runs else Share(1, 1)
            differences.append((pair.group, _between(mine, theirs if theirs.runs else Share(0, 1))))
    return _rise(differences, {})


def _between(ours: Share, theirs: Share) -> Fraction:
    """The difference of two shares."""
    if ours.runs == theirs.runs == 1:
        return _WHOLE[ours.failing - theirs.failing]
    return ours.value - theirs.value


_WHOLE = {step: Fraction(step) for step in (-1, 0, 1)}


def _rise(
    differences: Sequence[tuple[Hashable | None, Fraction]], exchange: Mapping[Attempts, int]
) -> Rise:
    n = len(differences)
    counts = Counter(difference for _, difference in differences)
    total = sum((value * times for value, times in counts.items()), Fraction(0))
    return Rise(total / n if n else Fraction(0), groups_of(differences), exchange, n)


def groups_of(values: Sequence[tuple[Hashable | None, Fraction | float]]) -> Groups:
    """Values of samples, summed over the groups that they share."""
    return gather([float(value) for _, value in values], [group for group, _ in values])


def _exchangeable(
    used: Sequence[tuple[Pair, Share, Share]], failing: Failing
) -> Mapping[Attempts, int]:
    """A sample alone is exchanged run by run; samples of one group attempt by attempt."""
    units: Counter[Attempts] = Counter()
    alone: Counter[tuple[Share, Share]] = Counter()
    shared: list[tuple[Hashable, Pair]] = []
    for pair, ours, theirs in used:
        if pair.group is None:
            alone[ours, theirs] += 1
        else:
            shared.append((pair.group, pair))
    for (ours, theirs), times in alone.items():
        unit = Attempts.of_runs(
            failing=ours.failing, runs=ours.runs, others_failing=theirs.failing, others=theirs.runs
        )
        units[unit] += times
    for members in grouped(shared).values():
        sides = (
            _by_attempt([getattr(pair, side).attempts for pair in members], failing)
            for side in ("candidate", "baseline")
        )
        units[Attempts.of(*sides)] += 1
    return units


def _by_attempt(members: Sequence[Sequence[Attempt]], failing: Failing) -> list[int]:
    """For each attempt at a group, how many of its samples fail."""
    return [
        sum(failing(runs[place]) is True for runs in members if place < len(runs))
        for place in range(max(map(len, members)))
    ]


# --- scores


def score_feared(pair: Pair) -> float:
    """The difference of the scores in points, if what the candidate lacks is 0 and what the
    baseline lacks is 100.
    """
    if (single := _single(pair)) is not None:
        return single
    applying = pair.applying if pair.has_gaps else frozenset[str]()
    ours = _mean([run.score for run in pair.candidate.attempts], pair.candidate.lost, 0)
    theirs = _mean([run.best(applying) for run in pair.baseline.attempts], pair.baseline.lost, FULL)
    return float((ours - theirs) / 100)


def _single(pair: Pair) -> float | None:
    """The difference of one run on each side that lack nothing; None for any other pair."""
    (ours, lost), (theirs, gone) = pair.candidate, pair.baseline
    if lost or gone or len(ours) != 1 or len(theirs) != 1 or ours[0].gaps or theirs[0].gaps:
        return None
    return (ours[0].score - theirs[0].score) / 100


def score_seen(pair: Pair) -> float | None:
    """The difference of the scores in points that were seen, with the best for what the candidate
    lacks; None if a side was not seen at all.
    """
    if (single := _single(pair)) is not None:
        errored = pair.candidate.attempts[0].errored or pair.baseline.attempts[0].errored
        return None if errored else single
    applying = pair.applying if pair.has_gaps else frozenset[str]()
    ours = [run.best(applying) for run in pair.candidate.attempts if not run.errored]
    theirs = [run.score for run in pair.baseline.attempts if not run.errored]
    if not ours or not theirs:
        return None
    return float((_mean(ours, 0, 0) - _mean(theirs, 0, 0)) / 100)


def _mean(values: Sequence[int], lost: int, worth: int) -> Fraction:
    n = len(values) + lost
    return Fraction(sum(values) + lost * worth, n) if n else Fraction(worth)


def norm_seen(pair: Pair, criterion: str) -> tuple[int | Fraction, int | Fraction] | None:
    """The mean norms of a criterion on both sides, in billionths, where both have some."""
    sides: list[int | Fraction] = []
    for side in (pair.candidate, pair.baseline):
        norms = [
            norm
            for run in side.attempts
            if not run.errored and (norm := run.norm(criterion)) is not None
        ]
        if not norms:
            return None
        sides.append(norms[0] if len(norms) == 1 else Fraction(sum(norms), len(norms)))
    return sides[0], sides[1]
