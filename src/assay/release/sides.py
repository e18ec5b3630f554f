"""One side of a comparison: the result of each sample, and what makes it comparable.

A sample is compared with the same sample of the other side, so it appears once per side. Its
repeats, numbered by `attempt`, form one sample: its score is their mean, and a gate fails if any of
them failed it. A repeat that only the other side has counts against the side that lost it:
otherwise a failed repeat could be dropped. The fingerprint names everything that two sides must
share, except the workflow itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.canon import canonical, digest
from assay.errors import InputError
from assay.exact import NORM_ONE
from assay.records.evidence import Source
from assay.records.grade import Grade
from assay.records.scorecard import Criterion
from assay.records.summary import SummaryBlock
from assay.release.declarations import Declarations, weakest


class Lost(NamedTuple):
    """Something the other side has and this sample lacks."""

    kind: str
    """`gate`, `declaration`, `criterion`, `role` or `floor`."""
    what: str
    """In words."""


class Stratum(NamedTuple):
    """Samples that were scored alike: by one profile, with the same criteria and weights. Criteria
    are averaged within a stratum.
    """

    profile: str
    criteria: tuple[str, ...]
    weights: tuple[int, ...]
    formulas: tuple[str, ...]
    """The formula of each criterion, with its parameters."""


class Row(NamedTuple):
    """The result of one sample."""

    sample: str
    score: int | Fraction
    """Hundredths of points on 0..100; a fraction only where it is the mean of repeats."""
    passed: bool
    gates: frozenset[str]
    """The gates it has."""
    failed: frozenset[str]
    """Those that do not pass; undetermined is one of them."""
    undetermined: frozenset[str]
    """Those of `failed` that lack evidence in a run that succeeded, and that no repeat fails."""
    missed: frozenset[str]
    """Criteria below their critical floor."""
    norms: tuple[int | Fraction, ...]
    """In billionths, in the order of the stratum's criteria."""
    stratum: Stratum
    group: str | None
    tags: frozenset[str]
    family: str | None
    runs: tuple[str, ...]
    floors: Mapping[str, int]
    """The critical floor of each criterion that has one, in billionths."""
    roles: Mapping[str, str]
    """The role of each criterion that has one."""
    lowest: tuple[int | Fraction, ...]
    """Like `norms`, the lowest of all repeats."""
    threshold: int
    """The hundredths that its score had to reach; of several repeats, the lowest."""
    judges: Mapping[str, str]
    """The judge of each score by model, version, prompt and rubric; empty if it was none."""
    declared: Declarations | None = None
    """What its runs declare about their own bar; None for a scorecard."""
    lost: tuple[Lost, ...] = ()
    """What the baseline has for this sample and the candidate does not."""
    unknown: int | Fraction = 0
    """The share of its repeats that were lost: worst for a candidate, best for a baseline."""

    @property
    def missed_roles(self) -> frozenset[str]:
        """The roles of the criteria below their floor."""
        return frozenset(self.roles[name] for name in self.missed if name in self.roles)

    @property
    def floor_roles(self) -> frozenset[str]:
        """The roles of the criteria that have a floor."""
        return frozenset(self.roles[name] for name in self.floors if name in self.roles)


class Repeat(NamedTuple):
    """The result of one numbered repeat of a sample."""

    attempt: int
    passed: bool
    score: int | Fraction


class SampleContent(NamedTuple):
    """What a sample was, as digests: each of its inputs, its expected value and its assertions; and
    the row of the dataset, where that is known.
    """

    inputs: tuple[tuple[str, str], ...] | None = None
    expected: str | None = None
    assertions: str | None = None
    row: str | None = None


class Side(NamedTuple):
    """All samples of one side, and its fingerprint."""

    name: str
    rows: Mapping[str, Row]
    fingerprint: Mapping[str, Any]
    summary: SummaryBlock
    digests: Mapping[str, str]
    runs: int
    versions: Mapping[str, frozenset[str]]
    """The versions of each workflow among its runs."""
    repeats: Mapping[str, tuple[Repeat, ...]] = MappingProxyType({})
    """The numbered repeats of the samples that have some."""
    contents: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """What was seen of each sample, as digests that leave out which run of which version it was."""
    samples: Mapping[str, frozenset[SampleContent]] = MappingProxyType({})
    """What each sample was, in all of its repeats; one that does not say is absent."""
    imported: bool = False
    """Whether runs of another tool are among them."""
    unscored: Mapping[tuple[str, str], int] = MappingProxyType({})
    """By criterion and sample, how many runs succeeded and were never scored."""
    counted: int | None = None
    """How many samples it has, where they were counted elsewhere and have no rows here."""

    @property
    def size(self) -> int:
        """How many samples it has."""
        return len(self.rows) if self.counted is None else self.counted

    @property
    def fingerprint_digest(self) -> str:
        """The fingerprint as one digest."""
        return digest(self.fingerprint)


def row_of(grade: Grade) -> Row:
    """The row of one graded run."""
    card = grade.scorecard
    ordered = sorted(zip(grade.criteria, grade.weights, strict=True), key=lambda pair: pair[0].name)
    norms = tuple([item.norm_units for item, _ in ordered])
    failed, ended_well = grade.hard_gate_failures, card.status in (None, "success")
    return Row(
        grade.sample,
        grade.score_units,
        grade.passed,
        frozenset(card.hard_gates),
        frozenset(failed),
        frozenset(name for name in failed if ended_well and card.hard_gates[name] is None),
        frozenset(grade.floor_failures),
        norms,
        Stratum(
            "" if card.profile is None else card.profile.id,
            tuple([item.name for item, _ in ordered]),
            tuple([weight for _, weight in ordered]),
            tuple([_formula(item.criterion) for item, _ in ordered]),
        ),
        card.group or None,  # an empty name is none: those samples share nothing
        frozenset(card.tags),
        None if card.workflow is None else card.workflow.family,
        (grade.run_id,),
        {item.name: item.floor_units for item in grade.criteria if item.floor_units is not None},
        {
            item.name: item.criterion.role
            for item in grade.criteria
            if item.criterion.role is not None
        },
        norms,
        grade.threshold_units,
        {
            item.name: judge_text(item.criterion.source)
            for item in grade.criteria
            if item.criterion.raw_score is not None
        },
    )


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

    def __init__(self, name: str) -> None:
        self.name = name
        self._rows: dict[str, dict[int | None, Row]] = {}
        self._parts: dict[str, set[str | None]] = {}
        self._ids: list[str] = []
        self._contents: dict[str, list[str]] = {}
        self._samples: dict[str, set[SampleContent | None]] = {}
        self._versions: dict[str, set[str]] = {}
        self._runs = 0
        self._imported = False

    def add(
        self,
        grade: Grade,
        *,
        attempt: int | None,
        digest: str,
        content: str,
        declared: Declarations | None = None,
        sample: SampleContent | None = None,
        imported: bool = False,
    ) -> None:
        """Add one run. Two runs of one sample need two attempt numbers: which of them counts is not
        ours to choose.
        """
        row = row_of(grade)._replace(declared=declared)
        attempts = self._rows.setdefault(row.sample, {})
        if attempt in attempts or (attempts and (attempt is None or None in attempts)):
            other = next(iter(attempts.values())).runs[0]
            raise InputError(
                "REL-004",
                f"the sample {row.sample!r} appears twice: runs {other!r} and {grade.run_id!r}.",
                where=self.name,
                fix="Keep one run for each sample, or number the repeats with `attempt`.",
            )
        attempts[attempt] = row
        for key, value in parts_of(grade).items():
            self._parts.setdefault(key, set()).add(value)
        self._parts.setdefault("scored_by", set()).update(scorers_of(grade))
        self._ids.append(digest)
        self._contents.setdefault(row.sample, []).append(content)
        self._samples.setdefault(row.sample, set()).add(sample)
        if (workflow := grade.scorecard.workflow) is not None:
            self._versions.setdefault(workflow.id, set()).add(workflow.version)
        self._runs += 1
        self._imported |= imported

    def side(self, summary: SummaryBlock) -> Side:
        """The side, once all runs are added."""
        rows = {sample: merged(attempts) for sample, attempts in self._rows.items()}
        fingerprint = {
            key: sorted("" if value is None else value for value in values)
            for key, values in sorted(self._parts.items())
        }
        repeats = {
            sample: tuple(
                Repeat(number, row.passed, row.score)
                for number, row in sorted(attempts.items())
                if number is not None
            )
            for sample, attempts in self._rows.items()
            if None not in attempts
        }
        contents = {sample: tuple(sorted(contents)) for sample, contents in self._contents.items()}
        return Side(
            self.name,
            rows,
            fingerprint,
            summary,
            {"evidence": digest(sorted(self._ids))},
            self._runs,
            {name: frozenset(names) for name, names in self._versions.items()},
            repeats,
            contents,
            {
                name: frozenset(one for one in digests_of_sample if one is not None)
                for name, digests_of_sample in self._samples.items()
                if None not in digests_of_sample
            },
            self._imported,
        )


def merged(attempts: Mapping[int | None, Row]) -> Row:
    """Repeats of one sample as one: mean scores, and every failure of any of them."""
    rows = [row for _, row in sorted(attempts.items())]
    first = rows[0]
    if len(rows) == 1:
        return first
    if any(row.stratum != first.stratum for row in rows):
        raise InputError(
            "REL-004",
            f"the repeats of the sample {first.sample!r} were scored by different criteria or"
            " weights.",
        )
    return first._replace(
        score=_mean([row.score for row in rows]),
        passed=all(row.passed for row in rows),
        # a repeat does not vouch for a gate that another one lacks
        gates=frozenset.intersection(*(row.gates for row in rows)).union(
            *(row.failed for row in rows)
        ),
        failed=frozenset().union(*(row.failed for row in rows)),
        undetermined=frozenset()
        .union(*(row.undetermined for row in rows))
        .difference(*(row.failed - row.undetermined for row in rows)),
        missed=frozenset().union(*(row.missed for row in rows)),
        norms=tuple(_mean(column) for column in zip(*(row.norms for row in rows), strict=True)),
        tags=frozenset().union(*(row.tags for row in rows)),
        runs=tuple(sorted(run for row in rows for run in row.runs)),
        floors={
            name: max(row.floors.get(name, 0) for row in rows)
            for name in sorted({name for row in rows for name in row.floors})
        },
        roles={name: role for row in rows for name, role in row.roles.items()},
        threshold=min(row.threshold for row in rows),
        declared=reduce(weakest, (row.declared for row in rows)),
        lowest=tuple(min(column) for column in zip(*(row.lowest for row in rows), strict=True)),
        judges={
            name: " and ".join(sorted({row.judges[name] for row in rows if name in row.judges}))
            for name in sorted({name for row in rows for name in row.judges})
        },
    )


LOST = "a repeat was lost"
"""A failed gate of a candidate's sample that lost a repeat, even if it has no gates."""


def without(row: Row, kept: int, lost: int, *, candidate: bool) -> Row:
    """A sample of which repeats were lost: on the candidate's side each counts as score 0 with
    every gate failed, on the baseline's as 100 with all passed.
    """
    total = kept + lost
    worth = 0 if candidate else 1
    changed = row._replace(
        score=Fraction(row.score * kept + worth * 10_000 * lost) / total,
        norms=tuple(Fraction(norm * kept + worth * NORM_ONE * lost) / total for norm in row.norms),
        unknown=Fraction(lost, total),
    )
    if not candidate:
        return changed
    return changed._replace(
        passed=False, failed=row.gates | row.failed | {LOST}, missed=row.missed | row.floors.keys()
    )


def _mean(values: Sequence[int | Fraction]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0)) / len(values)
