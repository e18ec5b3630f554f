"""One side of a comparison: the runs of each sample, and what makes them comparable.

A sample is compared with the same sample of the other side. Its repeats, numbered by `attempt`, are
kept one by one: the rules read shares and means of them. The fingerprint names everything that two
sides must share, except the workflow itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from assay import exact
from assay.canon import canonical, digest
from assay.errors import InputError, count
from assay.records.evidence import Source
from assay.records.grade import Grade
from assay.records.scorecard import Criterion
from assay.records.summary import SummaryBlock
from assay.release.observations import PASS, Attempt, Check, Observed, Pair
from assay.release.pass_rate import PassedBy, passed_share
from assay.stats.clusters import MINIMUM

T = TypeVar("T")
ERRORED = ("error", "timeout", "cancelled")
"""How a run ends for reasons that may be those of the infrastructure."""


class SevereKinds(NamedTuple):
    """What counts as a severe failure."""

    gates: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()


class Stratum(NamedTuple):
    """Samples that were scored alike: by one profile, with the same criteria and weights."""

    profile: str
    criteria: tuple[str, ...]
    weights: tuple[int, ...]
    formulas: tuple[str, ...]
    """The formula of each criterion, with its parameters."""


class SampleContent(NamedTuple):
    """What a sample was, as digests: each of its inputs, its expected value and its assertions; and
    the row of the dataset, where that is known.
    """

    inputs: tuple[tuple[str, str], ...] | None = None
    expected: str | None = None
    assertions: str | None = None
    row: str | None = None


class Evidence(NamedTuple):
    """What is known of a run besides its grade."""

    digest: str
    """Of the whole record."""
    behaviour: bytes
    """A digest that leaves out which run of which version it was."""
    attempt: int | None = None
    attempts: int | None = None
    """How many were announced."""
    contract: bytes | None = None
    """The digest of what was asked of it; None where that is not known."""
    content: SampleContent | None = None
    imported: bool = False
    unchecked: bool = False
    """Whether another tool passed it without checking anything."""
    title: str = ""
    """What the tool that made the sample calls it."""


class Sample(NamedTuple):
    """The runs of one sample."""

    sample: str
    attempts: tuple[Attempt, ...]
    """In the order of their numbers."""
    numbers: tuple[int, ...]
    """The number of each attempt; 1 for a run that states none."""
    announced: int
    """How many attempts there should be."""
    passed: int
    """How many of them passed."""
    stratum: Stratum
    group: str | None
    tags: frozenset[str]
    family: str | None
    runs: tuple[str, ...]
    floors: Mapping[str, int]
    """The critical floor of each criterion that has one, in billionths."""
    judges: Mapping[str, frozenset[str]]
    """The judges of each criterion that somebody scored; an empty text for no judge."""
    contracts: frozenset[bytes | None]
    contents: frozenset[SampleContent | None]
    behaviours: tuple[bytes, ...]
    unchecked: bool = False
    """Whether another tool passed all of its runs without checking anything."""
    title: str = ""
    """What the tool that made it calls it, if its id says nothing."""

    @property
    def observed(self) -> Observed:
        """Its runs as the rules read them."""
        return Observed(self.attempts, max(0, self.announced - len(self.attempts)))

    @property
    def score(self) -> float:
        """The mean of its scores, in points."""
        return float(Fraction(sum(run.score for run in self.attempts), len(self.attempts))) / 100

    def failed(self, kind: str) -> frozenset[str]:
        """The gates, or the criteria with a floor, that any of its runs fails."""
        checks = (check for run in self.attempts for check in run.failed)
        return frozenset(check.name for check in checks if check.kind == kind)

    def pass_share(self, by: PassedBy) -> Fraction:
        """How much of it passed."""
        return passed_share(self.passed, self.announced, by)


class Side(NamedTuple):
    """All samples of one side, and its fingerprint."""

    name: str
    samples: Mapping[str, Sample]
    fingerprint: Mapping[str, Any]
    summary: SummaryBlock
    digests: Mapping[str, str]
    runs: int
    versions: Mapping[str, frozenset[str]]
    """The versions of each workflow among its runs."""
    imported: bool = False
    """Whether runs of another tool are among them."""

    @property
    def fingerprint_digest(self) -> str:
        """The fingerprint as one digest."""
        return digest(self.fingerprint)

    def floors(self) -> dict[str, int]:
        """The critical floor of each criterion, the strictest of all samples."""
        strictest: dict[str, int] = {}
        seen: set[int] = set()
        for sample in self.samples.values():
            if id(sample.floors) not in seen:  # most samples share one mapping
                seen.add(id(sample.floors))
                for name, floor in sample.floors.items():
                    strictest[name] = max(floor, strictest.get(name, 0))
        return strictest


class _Shared:
    """Equal values as one object: most samples have the same checks, criteria and floors."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def one(self, key: Hashable, value: T) -> T:
        """The value that was first seen under this key."""
        known: T = self._known.setdefault(key, value)
        return known

    def same(self, value: T) -> T:
        """The value that was first seen of those equal to it."""
        known: T = self._known.setdefault(value, value)
        return known


class ScoredCriterion(NamedTuple):
    """What an attempt keeps of a criterion."""

    name: str
    weight: int
    norm: int | None
    """In billionths; None where nobody scored it."""
    floor_failed: bool | None = None
    """Whether it misses its critical floor; None where it has none."""
    is_severe: bool = False
    """Whether missing that is severe."""
    is_doubted: bool = False
    """Whether only a judge that may not gate says that it reaches its floor."""


class Attempts:
    """Makes attempts of graded runs, sharing what they have in common."""

    def __init__(self, severe: SevereKinds) -> None:
        self._severe = severe
        self._shared = _Shared()

    def of(self, grade: Grade) -> Attempt:
        """A graded run as the rules read it."""
        card = grade.scorecard
        used = (card.cost_usd, card.latency_ms, card.tokens)
        return self.made(
            card.hard_gates,
            [
                ScoredCriterion(
                    item.name,
                    weight,
                    None
                    if item.criterion.raw_score is None and not item.was_measured
                    else item.norm_units,
                    None if item.floor_units is None else item.floor_failed,
                    item.criterion.role in self._severe.roles,
                    item.judge_fault is not None
                    and item.floor_units is not None
                    and item.norm_units >= item.floor_units,
                )
                for item, weight in zip(grade.criteria, grade.weights, strict=True)
            ],
            score=grade.score_units,
            threshold=grade.threshold_units,
            passed=grade.passed,
            errored=card.status in ERRORED,
            used=()
            if used == (None, None, None)
            else tuple(None if value is None else float(value) for value in used),
        )

    def made(
        self,
        gates: Mapping[str, bool | None],
        criteria: Iterable[ScoredCriterion],
        *,
        score: int,
        threshold: int,
        passed: bool,
        errored: bool = False,
        used: tuple[float | None, ...] = (),
    ) -> Attempt:
        """An attempt of its gates and criteria; score and threshold are in hundredths. A gate
        without a verdict is None.
        """
        shared = self._shared
        judged, failed, severe, unjudged = (set[Check]() for _ in range(4))
        for name, verdict in gates.items():
            check = Check("gate", name)
            if verdict is None:
                unjudged.add(check)
                continue
            judged.add(check)
            if not verdict:
                failed.add(check)
                if name in self._severe.gates:
                    severe.add(check)
        ordered = sorted(criteria, key=_name_of)
        total = sum([item.weight for item in ordered])
        gaps: dict[str, int] = {}
        for item in ordered:
            if item.norm is None:
                gaps[item.name] = -(-exact.SCORE_MAX * item.weight // total) if total else 0
            elif item.floor_failed is not None:
                check = Check("floor", item.name)
                if item.is_doubted:  # what it says does not count, for either side
                    unjudged.add(check)
                    continue
                judged.add(check)
                if item.floor_failed:
                    failed.add(check)
                    if item.is_severe:
                        severe.add(check)
        errored = errored and not severe
        best = min(exact.SCORE_MAX, score + sum(gaps.values()))
        if passed:
            judged.add(PASS)
        elif failed or errored or best < threshold:
            judged.add(PASS)
            failed.add(PASS)
        return Attempt(
            shared.same(frozenset(judged)),
            shared.same(frozenset(failed)),
            shared.same(frozenset(severe)),
            score,
            shared.same(tuple([item.name for item in ordered])),
            shared.same(tuple([item.norm for item in ordered])),
            shared.one(tuple(gaps.items()), MappingProxyType(gaps)) if gaps else _NO_GAPS,
            shared.same(frozenset(unjudged)),
            used,
            errored,
        )


_name_of = attrgetter("name")
_NO_GAPS: Mapping[str, int] = MappingProxyType({})
_UNNUMBERED, _FIRST = (0,), (1,)


def judge_text(source: Source | None) -> str:
    """The judge behind a score; empty if it was none. An endpoint may move, so its settings don't
    count here.
    """
    if source is None or source.kind != "llm":
        return ""
    return replace(source, settings=None, answered_by=None).judge


def _formula(criterion: Criterion) -> str:
    return (
        f"{criterion.formula_id} {canonical(criterion.params).decode()}"
        if criterion.params
        else criterion.formula_id
    )


def parts_of(grade: Grade) -> dict[str, str | None]:
    """What this run adds to the fingerprint of its side."""
    card = grade.scorecard
    judge = card.judge
    return {
        "dataset": (
            None if card.dataset is None else f"{card.dataset.id} version {card.dataset.version}"
        ),
        "profile": None if card.profile is None else card.profile.id,
        "profile_digest": card.digests.get("profile"),
        "rubric": None if card.rubric is None else card.rubric.id,
        "rubric_digest": card.digests.get("rubric"),
        "judge": (
            None
            if judge is None
            else " ".join(
                part for part in (judge.model, judge.version, judge.prompt_version) if part
            )
        ),
        "policy": grade.policy,
        "policy_digest": grade.policy_digest,
        "scoringSystem": grade.scoring_system,
        "gradingSystem": grade.grading_system,
    }


def scorers_of(grade: Grade) -> set[str]:
    """The models that gave this run its scores."""
    sources = (item.criterion.source for item in grade.criteria)
    return {
        " ".join(part for part in (source.name, source.version) if part)
        for source in sources
        if source is not None and source.kind == "llm"
    }


class SideBuilder:
    """Builds a side from its graded runs, one by one."""

    def __init__(self, name: str, severe: SevereKinds | None = None) -> None:
        self.name = name
        self._attempts = Attempts(severe or SevereKinds())
        self._shared = _Shared()
        self._samples: dict[str, Sample] = {}
        self._parts: dict[str, set[str | None]] = {}
        self._ids: list[str] = []
        self._versions: dict[str, set[str]] = {}
        self._most: dict[str, int] = {}
        """The highest number of an attempt in each dataset."""
        self._stated: set[str] = set()
        """The samples that state how many attempts were announced."""
        self._imported = False

    def add(self, grade: Grade, evidence: Evidence) -> None:
        """Add one run. Two runs of one sample need two attempt numbers: which of them counts is not
        ours to choose.
        """
        sample = self._sample(grade, evidence)
        self.add_sample(sample)
        if evidence.attempts is not None:
            self._stated.add(sample.sample)
        for key, value in parts_of(grade).items():
            self._parts.setdefault(key, set()).add(value)
        self._parts.setdefault("scored_by", set()).update(scorers_of(grade))
        self._ids.append(evidence.digest)
        if (workflow := grade.scorecard.workflow) is not None:
            self._versions.setdefault(workflow.id, set()).add(workflow.version)
        self._imported |= evidence.imported

    def add_sample(self, sample: Sample) -> None:
        """Add a sample of one run; with the runs of that sample that were added before."""
        known = self._samples.get(sample.sample)
        self._samples[sample.sample] = sample if known is None else self._together(known, sample)
        dataset = _dataset(sample.sample)
        self._most[dataset] = max(self._most.get(dataset, 1), sample.numbers[0])

    def _sample(self, grade: Grade, evidence: Evidence) -> Sample:
        """A sample of one run."""
        card, shared, attempt = grade.scorecard, self._shared, self._attempts.of(grade)
        ordered = sorted(
            zip(grade.criteria, grade.weights, strict=True), key=lambda pair: pair[0].name
        )
        stratum = Stratum(
            "" if card.profile is None else card.profile.id,
            attempt.criteria,
            tuple([weight for _, weight in ordered]),
            tuple([_formula(item.criterion) for item, _ in ordered]),
        )
        floors = {
            item.name: item.floor_units for item in grade.criteria if item.floor_units is not None
        }
        judges = {
            item.name: frozenset((judge_text(item.criterion.source),))
            for item in grade.criteria
            if item.criterion.raw_score is not None
        }
        return Sample(
            grade.sample,
            (attempt,),
            (evidence.attempt or 0,),
            evidence.attempts or 1,
            int(grade.passed),
            shared.same(stratum),
            card.group or None,  # an empty name is none: those samples share nothing
            shared.same(frozenset(card.tags)),
            None if card.workflow is None else card.workflow.family,
            (grade.run_id,),
            shared.one(("floors", *floors.items()), floors),
            shared.one(("judges", *judges.items()), judges),
            shared.same(frozenset((evidence.contract,))),
            frozenset((evidence.content,)),
            (evidence.behaviour,),
            evidence.unchecked,
            evidence.title,
        )

    def _together(self, known: Sample, new: Sample) -> Sample:
        """The runs of one sample, with one more."""
        number = new.numbers[0]
        if not number or 0 in known.numbers or number in known.numbers:
            raise InputError(
                "REL-004",
                f"the sample {known.sample!r} appears twice: runs {known.runs[0]!r} and"
                f" {new.runs[0]!r}.",
                where=self.name,
                fix="Keep one run for each sample, or number the repeats with `attempt`.",
            )
        if new.stratum != known.stratum:
            raise InputError(
                "REL-004",
                f"the repeats of the sample {known.sample!r} were scored by different criteria or"
                " weights.",
            )
        order = sorted(
            zip(
                (*known.numbers, number),
                (*known.attempts, *new.attempts),
                (*known.runs, *new.runs),
                (*known.behaviours, *new.behaviours),
                strict=True,
            ),
            key=lambda item: item[0],
        )
        numbers, attempts, runs, behaviours = zip(*order, strict=True)
        return known._replace(
            attempts=attempts,
            numbers=numbers,
            announced=max(known.announced, new.announced),
            passed=known.passed + new.passed,
            tags=known.tags | new.tags,
            runs=runs,
            floors={
                name: max(side.get(name, 0) for side in (known.floors, new.floors))
                for name in sorted(known.floors.keys() | new.floors.keys())
            }
            if known.floors != new.floors
            else known.floors,
            judges={
                name: known.judges.get(name, frozenset()) | new.judges.get(name, frozenset())
                for name in sorted(known.judges.keys() | new.judges.keys())
            }
            if known.judges != new.judges
            else known.judges,
            contracts=known.contracts | new.contracts,
            contents=known.contents | new.contents,
            behaviours=behaviours,
            unchecked=known.unchecked and new.unchecked,
            title=known.title or new.title,
        )

    def side(self, summary: SummaryBlock) -> Side:
        """The side, once all runs are added."""
        samples = {name: self._announced(sample) for name, sample in self._samples.items()}
        fingerprint = {
            key: sorted("" if value is None else value for value in values)
            for key, values in sorted(self._parts.items())
        }
        return Side(
            self.name,
            samples,
            fingerprint,
            summary,
            {"evidence": digest(sorted(self._ids))},
            len(self._ids),
            {name: frozenset(names) for name, names in self._versions.items()},
            self._imported,
        )

    def _announced(self, sample: Sample) -> Sample:
        """A sample with as many announced attempts as its runs state, else as any sample of its
        dataset has.
        """
        stated = sample.sample in self._stated
        least = sample.announced if stated else self._most[_dataset(sample.sample)]
        announced = max(least, len(sample.attempts), max(sample.numbers))
        if announced == sample.announced and sample.numbers[0]:
            return sample
        numbers = (
            _FIRST
            if sample.numbers in (_UNNUMBERED, _FIRST)
            else tuple([number or 1 for number in sample.numbers])
        )
        return sample._replace(announced=announced, numbers=numbers)


def _dataset(sample: str) -> str:
    """The dataset of a sample, of its full name."""
    return sample.partition("/")[0] if "/" in sample else ""


SLICES = ("tag", "group", "family")
"""What samples can be sliced by."""


def pair_up(
    candidate: Side,
    baseline: Side,
    *,
    planned: Iterable[str] | None = None,
    left_out: Collection[str] = (),
) -> list[Pair]:
    """Every sample of the plan, or of the baseline, in the order of their names. One that a side
    lacks is lost there.
    """
    names = sorted(set(baseline.samples if planned is None else planned) - set(left_out))
    before = [baseline.samples.get(name) for name in names]
    groups = clustered([None if sample is None else sample.group for sample in before])
    pairs = []
    for place, (name, theirs) in enumerate(zip(names, before, strict=True)):
        ours = candidate.samples.get(name)
        if ours is not None and theirs is not None:
            _check_judges(ours, theirs)
            check_strata(name, ours.stratum, theirs.stratum)
        pairs.append(
            Pair(
                name,
                _LOST if ours is None else ours.observed,
                _LOST if theirs is None else theirs.observed,
                None if groups is None else groups[place],
                frozenset[str]() if theirs is None else theirs.tags,
                next((side.title for side in (theirs, ours) if side and side.title), ""),
            )
        )
    return pairs


_LOST = Observed((), 1)


def slices_of(pairs: Sequence[Pair], baseline: Side, kinds: Iterable[str]) -> dict[str, list[Pair]]:
    """The pairs of each slice. Samples without a value are a slice too: a regression in them must
    show as well.
    """
    slices: dict[str, list[Pair]] = {}
    for pair in pairs:
        sample = baseline.samples.get(pair.sample)
        if sample is None:
            continue
        for kind in sorted(set(kinds)):
            for value in _values(sample, kind):
                slices.setdefault(f"{kind}: {value}" if value else f"no {kind}", []).append(pair)
    return dict(sorted(slices.items()))


def _values(sample: Sample, kind: str) -> Sequence[str | None]:
    if kind == "tag":
        return sorted(sample.tags) or [None]
    return [sample.group if kind == "group" else sample.family]


def check_strata(sample: str, ours: Stratum, theirs: Stratum) -> None:
    """Refuse a sample that the two sides scored by different criteria, weights or formulas. A
    criterion that the candidate lost is left to the rules.
    """
    if ours is theirs or ours == theirs or set(theirs.criteria) - set(ours.criteria):
        return
    added = sorted(set(ours.criteria) - set(theirs.criteria))
    if added:
        what = f"the candidate adds the criteria {', '.join(added)}"
    elif ours.profile != theirs.profile:
        what = (
            f"its profile is {ours.profile or 'none'} here and {theirs.profile or 'none'} in the"
            " baseline"
        )
    else:
        own, before = (
            dict(zip(side.criteria, zip(side.weights, side.formulas, strict=True), strict=True))
            for side in (ours, theirs)
        )
        other = [name for name in own if own[name] != before[name]]
        what = f"another weight, formula or parameter than in the baseline for {', '.join(other)}"
    raise InputError(
        "REL-002",
        f"the sample {sample!r} cannot be compared: {what}.",
        fix="Score both sides with the same criteria, weights and formulas.",
    )


def _check_judges(ours: Sample, theirs: Sample) -> None:
    """Refuse a sample with a score that another judge gave than in the baseline: another model,
    version, prompt or rubric, or none.
    """
    if ours.judges is theirs.judges or ours.judges == theirs.judges:
        return
    for name, judges in ours.judges.items():
        known = theirs.judges.get(name, judges)
        if other := sorted(judges - known):
            before = " or ".join(sorted(judge or "no judge" for judge in known))
            raise InputError(
                "REL-002",
                f"the sample {ours.sample!r} cannot be compared: {name} was scored by"
                f" {other[0] or 'no judge'} here, and by {before} in the baseline.",
                fix="Judge both sides with the same model, prompt and rubric.",
            )


def clustered(groups: list[str | None]) -> list[str | None] | None:
    """The group of each sample; None if no two samples share one, or if there are too few groups to
    estimate their spread.

    With fewer than five groups, no interval over groups reaches its level. The comparison is then
    one of these samples in these groups; `group_note` reports that.
    """
    return groups if shares_groups(groups) and cluster_count(groups) >= MINIMUM else None


def shares_groups(groups: Sequence[str | None]) -> bool:
    """Whether two samples are of one group."""
    return any(count > 1 for group, count in Counter(groups).items() if group is not None)


def cluster_count(groups: Sequence[str | None]) -> int:
    """How many groups there are; a sample without one is its own group."""
    return len({group for group in groups if group is not None}) + sum(
        group is None for group in groups
    )


def group_note(samples: Mapping[str, Sample]) -> str | None:
    """A warning if samples share groups, and there are too few groups; else None."""
    groups = [sample.group for sample in samples.values()]
    clusters = cluster_count(groups)
    if not shares_groups(groups) or clusters >= MINIMUM:
        return None
    return (
        f"the samples come from {count(clusters, 'group')}, too few to estimate how groups differ;"
        " samples are treated as independent, and other groups may score differently"
    )
