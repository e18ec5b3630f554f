"""May this candidate replace that baseline? The one place where a release is decided.

A door finds the two sides and the rules, and shows the result. What grades them, their age, whether
they are comparable, what each was asked, and the decision are here: so no door can be easier to
pass than another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from assay.errors import InputError, UsageError, count, few
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.decision import ContractChange, Decision
from assay.records.evidence import Run
from assay.records.scorecard import Scorecard
from assay.records.systems import is_published
from assay.registry import near_miss
from assay.release.baseline import StoredBaseline, check_age, moment_of, refuse_exam
from assay.release.comparability import (
    EMPTIES,
    Aligned,
    Contract,
    align,
    are_comparable,
    asked,
    check_kept_rules,
    contract_of_evidence,
    corrected_note,
    mismatch_error,
    mismatches,
    mixed_versions,
    other_inputs,
    partly_same,
    refuse_disagreeing,
    refuse_itself,
    same_sides,
    undeclared,
    with_equal_inputs,
    with_expected,
    words_of,
)
from assay.release.confirmation import Fresh, Turn, suspects_of
from assay.release.decision import Notes, Paired, Terms, decide
from assay.release.observations import Attempt, Check
from assay.release.plan import changes
from assay.release.policy import DEFAULT, FAMILY, ReleaseRules, eased, make_release_rules
from assay.release.sides import SLICES, Attempts, Side, group_note, pair_up
from assay.services.evaluation_choice import ToolProfile, refuse_other_scale
from assay.services.given_grades import grades_of
from assay.services.grading import Grader
from assay.services.regraded import regraded_in, regraded_note
from assay.services.sides import Documents, severe_of

AS_GRADES = "the candidate comes without its runs, so what they were asked is not known"
"""Why a sample can't be compared if the baseline's run was asked something."""
CHECKED = "the two sides were checked for different things by another tool or test"
"""Why a sample can't be compared if other checks made its verdicts."""
EXAMPLES = 5


class ReadSide(Protocol):
    """One side of a comparison, read and graded."""

    @property
    def side(self) -> Side:
        """Its samples."""

    @property
    def documents(self) -> Documents:
        """Its documents, once more."""


class FreshRuns(NamedTuple):
    """Runs that were made again to confirm what seems to fail newly."""

    candidate: ReadSide | None = None
    baseline: ReadSide | None = None


class Acceptance(NamedTuple):
    """New failures that a person accepts for this decision."""

    samples: tuple[str, ...] = ()
    because: str = ""
    by: str = ""
    recorded: Mapping[tuple[str, str], str] = MappingProxyType({})
    """Why, by sample and check, in a stored decision: that was checked when it was made."""


class Origin(NamedTuple):
    """Where a side comes from, as far as it is refused or noted for that. The default is a file."""

    name: str = ""
    """As messages call it."""
    named: str = ""
    """What the caller wrote, such as `latest`."""
    made_at: str | None = None
    """When a stored evaluation was made; a stored baseline says so itself."""
    digest: str = ""
    """The digest of the runs of an evaluation, or of the record of a baseline in a ledger."""
    graded: Mapping[str, Any] | None = None
    """The first grade that an evaluation was stored with."""
    kept: Mapping[str, Any] | None = None
    """The record of a stored baseline."""
    where: str = ""
    """The place of that record."""


class Asked(NamedTuple):
    """What a decision is asked besides its sides and its policy."""

    quarantine: tuple[str, ...] = ()
    """Samples to exclude; a name without its dataset is enough if it is unique."""
    slices: tuple[str, ...] = ()
    plan: Mapping[str, Any] | None = None
    """A plan that was declared before."""
    candidate: Origin = Origin()
    baseline: Origin = Origin()
    given: frozenset[str] = frozenset()
    """Which of profile, rubric and policy the user named for this decision."""
    made: ToolProfile | None = None
    """The profile that was made from the baseline's metrics, if both sides are graded by one."""
    now: datetime | None = None
    """When the age of the baseline is measured; by default the present."""
    other_rules: str = "Store a new baseline, or compare two evaluations."
    """How the user can compare with a baseline that was stored under other rules."""
    regraded: tuple[str, ...] = ()
    """Notes of a stored decision on sides that were graded by something else when stored."""
    fresh: FreshRuns = FreshRuns()
    accepted: Acceptance = Acceptance()
    notes: tuple[str, ...] = ()
    """What a reader should know of how the sides were read."""


def compare(
    candidate: ReadSide,
    baseline: ReadSide,
    rules: ReleaseRules,
    grader: Grader,
    asked_for: Asked = Asked(),  # noqa: B008
) -> Decision:
    """The decision on two sides."""
    ours, theirs = candidate.side, baseline.side
    refuse_itself(asked_for.candidate.named, ours, theirs)
    check_origins(asked_for.candidate, asked_for.baseline, rules, now=asked_for.now)
    if asked_for.made is not None:
        name = asked_for.candidate.name or "the candidate"
        refuse_other_scale(name, candidate.documents(), asked_for.made)
    regraded = [*asked_for.regraded, *_regraded(candidate, baseline, grader, asked_for)]
    if rules.limits.deterministic:
        for side in (ours, theirs):
            refuse_disagreeing(side)
    for kind in asked_for.slices:
        if kind not in SLICES:
            raise UsageError(
                "CLI-001",
                f"there are no slices by '{kind}'.{near_miss(kind, SLICES)}",
                fix=f"Slice by {', '.join(SLICES)}.",
            )
    aligned = align(ours, theirs, rules)
    _refuse_mismatched(aligned, ours, theirs)
    check_fresh(asked_for.fresh, ours, theirs)
    plan, samples = _declared(asked_for, rules)
    left_out = full_names(asked_for.quarantine, ours.samples.keys() | theirs.samples.keys())
    paired, fresh = _paired(
        (candidate, baseline),
        aligned,
        asked_for.fresh,
        _AskedAgain(Attempts(severe_of(rules)), grader, aligned.corrected),
        planned=samples,
        left_out=left_out,
    )
    terms = Terms(
        left_out=left_out,
        slices=asked_for.slices,
        plan=plan,
        samples=samples,
        fresh=fresh,
        accepted=_accepted(asked_for.accepted, paired, fresh or {}, rules),
        shrinkage=grader.rules.shrinkage,
    )
    loud = (
        _policy_note(rules),
        mixed_versions(ours),
        same_sides(ours, theirs),
        corrected_note(aligned),
    )
    notes = (
        *loud,
        partly_same(ours, theirs),
        other_inputs(aligned),
        undeclared(theirs),
        group_note(theirs.samples),
        _unshared(ours, theirs),
        _unchecked_note(ours, theirs),
        *asked_for.notes,
    )
    return decide(
        paired,
        aligned.candidate,
        aligned.baseline,
        rules,
        terms,
        notes=Notes(
            [note for note in notes if note],
            [note for note in loud if note],
            regraded,
        ),
    )


# --- where the sides come from


def check_origins(
    candidate: Origin, baseline: Origin, rules: ReleaseRules, *, now: datetime | None = None
) -> None:
    """Refuse a comparison of one record with itself, a graded exam, and a baseline that is too old
    for the policy, from the future or without a date. A file has the date that its runs state.
    """
    if candidate.digest and candidate.digest == baseline.digest:
        raise InputError(
            "REL-002",
            f"{candidate.name} would be compared with itself, which shows nothing.",
            fix="Choose another evaluation as the baseline.",
        )
    record = baseline.kept
    if record is not None:
        refuse_exam(str(record.get("kind", "runs")), baseline.name, where=baseline.where)
        check_age(_dated(baseline, record), rules, now=now)
    elif baseline.made_at is not None:
        check_age(_dated(baseline, {"made_at": baseline.made_at}), rules, now=now)


def _dated(baseline: Origin, record: Mapping[str, Any]) -> StoredBaseline:
    where = baseline.where or baseline.name
    made_at = moment_of(str(record.get("made_at")), where)
    return StoredBaseline(baseline.name, where, "runs", made_at, dict(record))


def kept_baseline(record: Mapping[str, Any], where: str) -> StoredBaseline:
    """A baseline in a ledger, like one in a folder."""
    return _dated(Origin(str(record.get("name")), where=where), record)


def _regraded(
    candidate: ReadSide, baseline: ReadSide, grader: Grader, asked_for: Asked
) -> Iterator[str]:
    """A note for each side that was stored with grades by other rules."""
    for read, origin in ((candidate, asked_for.candidate), (baseline, asked_for.baseline)):
        if origin.graded is not None and (
            note := regraded_in(origin.name, origin.graded, read.documents(), grader)
        ):
            yield note
    yield from regraded_baseline(baseline, grader, asked_for)


def regraded_baseline(baseline: ReadSide, grader: Grader, asked_for: Asked) -> Iterator[str]:
    """A note if a stored baseline is graded by other rules that the user named than those it was
    stored under. If the user named none, it is refused.
    """
    origin, given = asked_for.baseline, asked_for.given
    if origin.kept is not None:
        # a profile brings its rubric, unless assay.yaml sets another
        named = given | {"rubric"} if "profile" in given and grader.rubric is None else given
        changed = check_kept_rules(
            origin.kept, baseline.side, name=origin.name, given=named, fix=asked_for.other_rules
        )
        if changed is not None:
            yield regraded_note(origin.name, *changed, kind="baseline")


def check_fresh(fresh: FreshRuns, ours: Side, theirs: Side) -> None:
    """Refuse fresh runs of another version, another dataset or other samples, and runs that are not
    fresh: those of the first round once more.
    """
    for made, side in ((fresh.candidate, ours), (fresh.baseline, theirs)):
        if made is None:
            continue
        again = made.side
        if other := {
            name: versions
            for name, versions in again.versions.items()
            if versions - side.versions.get(name, frozenset())
        }:
            name, versions = next(iter(sorted(other.items())))
            known = ", ".join(sorted(side.versions.get(name, ()))) or "none"
            raise InputError(
                "REL-002",
                f"the fresh runs are of {name} {', '.join(sorted(versions))}, and the {side.name}"
                f" is {known}.",
                where=again.name,
                fix="Make fresh runs of the version that is decided on.",
            )
        if different := [
            item for item in mismatches(again, side) if set(item.candidate) - set(item.baseline)
        ]:
            first = different[0]
            raise InputError(
                "REL-002",
                f"the fresh runs are of another {first.field} than those of the {side.name}:"
                f" {few(first.candidate, 3)} here, {few(first.baseline, 3)} there.",
                where=again.name,
                fix="Make fresh runs with the same dataset, profile, rubric, judge and policy.",
            )
        if strangers := sorted(again.samples.keys() - side.samples.keys() - theirs.samples.keys()):
            raise InputError(
                "REL-002",
                f"the fresh runs are of samples that the {side.name} doesn't have:"
                f" {few(strangers, 3)}.",
                where=again.name,
                fix="Run the samples again that the decision names.",
            )
        known_runs = {run for sample in side.samples.values() for run in sample.runs}
        if stale := sorted(
            name for name, sample in again.samples.items() if known_runs.intersection(sample.runs)
        ):
            raise InputError(
                "REL-002",
                f"the fresh runs of {few(stale, 3)} are those of the {side.name}, so they are not"
                " fresh.",
                where=again.name,
                fix="Run the samples again.",
            )
    if fresh.candidate is not None:
        _refuse_gaps(fresh.candidate.side)
    if fresh.candidate is not None and fresh.baseline is not None:
        mine, before = (
            {run for sample in read.side.samples.values() for run in sample.runs}
            for read in (fresh.candidate, fresh.baseline)
        )
        if shared := sorted(mine & before):
            raise InputError(
                "REL-002",
                f"the fresh runs of both sides are the same: {few(shared, 3)}.",
                where=fresh.baseline.side.name,
                fix="Give the fresh runs of the baseline with --fresh-baseline.",
            )


def _refuse_gaps(again: Side) -> None:
    """Refuse fresh runs of which some were left out: those that are there may be the lucky ones."""
    for name, sample in again.samples.items():
        absent = sorted(set(range(1, max(sample.numbers) + 1)) - set(sample.numbers))
        if absent:
            raise InputError(
                "REL-002",
                f"the fresh runs lack attempt {few(list(map(str, absent)), 3)} of {name}.",
                where=again.name,
                fix="Give every fresh run that was made; one that was lost is run again.",
            )


def _accepted(
    acceptance: Acceptance, paired: Paired, fresh: Fresh, rules: ReleaseRules
) -> dict[tuple[str, Check], str]:
    """The failures that a person accepted, each with who and why. Refused for a sample that isn't
    suspect, for a severe failure, without a reason, and from somebody the policy doesn't list.
    """
    if recorded := acceptance.recorded:
        return {
            (suspect.sample, suspect.check): recorded[suspect.sample, str(suspect.check)]
            for suspect in suspects_of(paired.pairs)
            if (suspect.sample, str(suspect.check)) in recorded
        }
    if not acceptance.samples:
        return {}
    if not acceptance.because.strip():
        raise UsageError(
            "CLI-001",
            "--accept needs a reason.",
            fix='Add --because "why it may ship all the same".',
        )
    if acceptance.by not in rules.approvers:
        listed = ", ".join(sorted(rules.approvers)) or "nobody"
        raise UsageError(
            "CLI-001",
            f"{acceptance.by or 'nobody'} may not accept a new failure under {rules.policy}; its"
            f" `approvers` list {listed}.",
            fix="Ask one of them, or list the approver in the release policy of the baseline.",
        )
    suspects = suspects_of(paired.pairs)
    names = full_names(acceptance.samples, {suspect.sample for suspect in suspects})
    severe = {
        pair.sample for pair in paired.pairs if any(run.severe for run in pair.candidate.attempts)
    }
    severe |= {
        name
        for name, turns in fresh.items()
        if any(turn.candidate is not None and turn.candidate.severe for turn in turns)
    }
    if refused := sorted(severe.intersection(names)):
        raise UsageError(
            "CLI-001",
            f"{few(refused, 3)} failed severely; a severe failure can't be accepted.",
            fix="Fix it.",
        )
    why = f"{acceptance.because.strip()} ({acceptance.by})"
    return {(suspect.sample, suspect.check): why for suspect in suspects if suspect.sample in names}


def _refuse_mismatched(aligned: Aligned, ours: Side, theirs: Side) -> None:
    different = [
        item
        for item in mismatches(ours, theirs)
        if item.field != "dataset" or aligned.overlap is None
    ]
    if not ours.samples.keys() & theirs.samples.keys():
        different = [item for item in different if item.field != "dataset"]
    if different:
        raise mismatch_error(different)


def _unshared(ours: Side, theirs: Side) -> str | None:
    if ours.samples.keys() & theirs.samples.keys():
        return None
    if n := with_equal_inputs(ours, theirs):
        return (
            f"{n:,} of {len(ours.samples):,} samples of the candidate have the inputs of the"
            " baseline's under other ids; evaluate both with the same ids"
        )
    return "the two sides share no sample; evaluate both on the same samples"


def unchecked_samples(ours: Side, theirs: Side) -> list[str]:
    """The samples that another tool passed on both sides without checking anything: they show
    nothing, and enter no rule.
    """
    return [
        name
        for name, sample in theirs.samples.items()
        if sample.unchecked and name in ours.samples and ours.samples[name].unchecked
    ]


def _unchecked_note(ours: Side, theirs: Side) -> str | None:
    n = len(theirs.samples)
    checked = n - len(unchecked_samples(ours, theirs))
    if checked == n:
        return None
    return f"{checked:,} of {count(n, 'sample')} were checked; the others enter no rule"


def _policy_note(rules: ReleaseRules) -> str:
    """A note if the release policy is not a published one and allows more than the default: it may
    come with the candidate.
    """
    if is_published(rules.digest):
        return ""
    return eased(rules, make_release_rules(Shelf().policy_of(FAMILY, DEFAULT)))


# --- the plan, and what was left out


class Declared(NamedTuple):
    """The plan as a decision records it, and the samples that it declares."""

    plan: dict[str, Any]
    samples: tuple[str, ...] | None


def _declared(asked_for: Asked, rules: ReleaseRules) -> Declared:
    """The plan of a decision, with every field that differs from what was declared."""
    plan = asked_for.plan
    now = {**rules.declared(), "slices": sorted(asked_for.slices)}
    if plan is None:
        return Declared({"declared": False, "changed": [], **now}, None)
    samples = plan.get("samples")
    return Declared(
        {"declared": True, "changed": changes(plan, now), "digest": plan["digest"], **now},
        None if samples is None else tuple(samples),
    )


def full_names(names: Iterable[str], known: Collection[str]) -> list[str]:
    """The full names, `DATASET/SAMPLE`, of samples; `SAMPLE` alone is enough if only one dataset
    has it.
    """
    resolved = []
    for name in names:
        matches = [name] if name in known else [full for full in known if full.endswith(f"/{name}")]
        if len(matches) > 1:
            raise UsageError(
                "CLI-001",
                f"'{name}' matches several samples: {', '.join(sorted(matches)[:5])}.",
                fix="Give the full name of the one you mean.",
            )
        if not matches:
            short = [full.partition("/")[2] for full in known if "/" in full]
            raise UsageError(
                "CLI-001", f"there is no sample '{name}'.{near_miss(name, [*known, *short])}"
            )
        resolved += matches
    return resolved


# --- what each side was asked


def _paired(
    read: tuple[ReadSide, ReadSide],
    aligned: Aligned,
    fresh: FreshRuns,
    again: _AskedAgain,
    *,
    planned: tuple[str, ...] | None,
    left_out: Collection[str],
) -> tuple[Paired, Fresh | None]:
    """The pairs and the fresh runs, scored under the baseline's contract; and where the candidate's
    differs, the pairs under that too.
    """
    ours, theirs = aligned.candidate, aligned.baseline
    left_out = {*left_out, *unchecked_samples(ours, theirs)}
    made = [None if one is None else one.side for one in fresh]
    incomparable: dict[str, str] = {}
    for name, before in theirs.samples.items():
        asked_of = [
            side.samples[name].contracts
            for side in (ours, *made)
            if side is not None and name in side.samples
        ]
        differing = [now for now in asked_of if now != before.contracts]
        if not differing or None in before.contracts:  # grades don't say what was asked
            continue
        if any(None in now for now in differing):
            if not before.contracts <= EMPTIES:
                incomparable[name] = AS_GRADES
        elif not before.contracts.union(*differing) <= EMPTIES:
            again.names.add(name)
    own = None
    if again.names:
        again.read(read[1].documents, read[0].documents)
        incomparable |= again.incomparable
        gone = {*left_out, *incomparable}
        if again.changed:
            own = pair_up(
                ours,
                _with(theirs, again.scored(read[1].documents, again.ours)),
                planned=planned,
                left_out=gone,
            )
        ours = _with(ours, again.scored(read[0].documents, again.theirs))
        theirs = _with(theirs, again.scored(read[1].documents, again.theirs))
        made = [
            None if one is None else _with(one.side, again.scored(one.documents, again.theirs))
            for one in fresh
        ]
    pairs = pair_up(ours, theirs, planned=planned, left_out={*left_out, *incomparable})
    paired = Paired(
        pairs,
        own,
        {name: why for name, why in incomparable.items() if name not in left_out},
        again.change(),
        aligned.overlap,
    )
    return paired, None if fresh == FreshRuns() else turns_of(*made)


def turns_of(candidate: Side | None, baseline: Side | None) -> dict[str, list[Turn]]:
    """The fresh runs of each sample, by the numbers of their attempts. One that ended in an error
    shows nothing.
    """
    turns: dict[str, list[Turn]] = {}
    names = {name for side in (candidate, baseline) if side is not None for name in side.samples}
    for name in sorted(names):
        sides = [
            {
                number: run
                for number, run in zip(sample.numbers, sample.attempts, strict=True)
                if not run.errored
            }
            if side is not None and (sample := side.samples.get(name)) is not None
            else {}
            for side in (candidate, baseline)
        ]
        last = max(
            number
            for side in (candidate, baseline)
            if side is not None and name in side.samples
            for number in side.samples[name].numbers
        )
        turns[name] = [Turn(*(runs.get(number) for runs in sides)) for number in range(1, last + 1)]
    return turns


def _with(side: Side, attempts: Mapping[str, Mapping[int, Attempt]]) -> Side:
    """The side with other results of these attempts."""
    if not attempts:
        return side
    samples = dict(side.samples)
    for name, made in attempts.items():
        sample = samples.get(name)
        if sample is not None:
            samples[name] = sample._replace(
                attempts=tuple(
                    made.get(number, attempt)
                    for number, attempt in zip(sample.numbers, sample.attempts, strict=True)
                )
            )
    return side._replace(samples=samples)


_Attempts = dict[str, dict[int, Attempt]]


class _AskedAgain:
    """Scores the runs of some samples once more, under what the other side was asked."""

    def __init__(self, attempts: Attempts, grader: Grader, corrected: Collection[str]) -> None:
        self.names: set[str] = set()
        self.incomparable: dict[str, str] = {}
        self.theirs: dict[str, Contract] = {}
        """What the baseline was asked."""
        self.ours: dict[str, Contract] = {}
        """What the candidate was asked, where that is something else."""
        self.changed: set[str] = set()
        self._attempts, self._grader, self._corrected = attempts, grader, corrected
        self._parts: Counter[str] = Counter()

    def read(self, baseline: Documents, candidate: Documents) -> None:
        """Read again what both sides were asked."""
        self.theirs, self.ours = self._contracts(baseline), self._contracts(candidate)
        for name in sorted(self.names & self.ours.keys() & self.theirs.keys()):
            mine, bar = self.ours[name], self.theirs[name]
            if type(mine) is not type(bar):  # scorecards on one side, and runs on the other
                if bar.digest() not in EMPTIES:
                    self.incomparable[name] = AS_GRADES
                del self.theirs[name], self.ours[name]
                continue
            if not are_comparable(mine, bar):
                self.incomparable[name] = CHECKED
                continue
            if name in self._corrected:  # the dataset has another expected value now
                self.theirs[name] = bar = with_expected(bar, mine)
            if words := words_of(mine, bar):
                self.changed.add(name)
                self._parts.update(words)

    def change(self) -> ContractChange | None:
        """What differs, for the decision; None if nothing does."""
        if not self.changed:
            return None
        return ContractChange(
            samples=len(self.changed),
            parts=dict(sorted(self._parts.items())),
            examples=sorted(self.changed)[:EXAMPLES],
        )

    def scored(self, documents: Documents, contracts: Mapping[str, Contract]) -> _Attempts:
        """The attempts of a side under these contracts."""
        found: _Attempts = {}
        for number, name, evidence in self._evidence(documents):
            contract = contracts.get(name)
            if contract is None or name in self.incomparable:
                continue
            if not are_comparable(contract_of_evidence(evidence), contract):
                self.incomparable[name] = CHECKED
                continue
            again, grader = asked(evidence, contract), self._grader
            grade = (
                grader.grade_card(grader.scorecard(again), scored=True)
                if isinstance(again, Run)
                else grader.grade_card(grader.required(again))
            )
            found.setdefault(name, {})[number] = self._attempts.of(grade)
        return found

    def _contracts(self, documents: Documents) -> dict[str, Contract]:
        """What each sample was asked, by its first attempt."""
        found: dict[str, tuple[int, Contract]] = {}
        for number, name, evidence in self._evidence(documents):
            if name not in found or number < found[name][0]:
                found[name] = (number, contract_of_evidence(evidence))
        return {name: contract for name, (_, contract) in found.items()}

    def _evidence(self, documents: Documents) -> Iterator[tuple[int, str, Run | Scorecard]]:
        for document in documents():
            if not isinstance(document, Document):
                continue
            for graded in grades_of(document, self._grader):
                if graded.grade.sample in self.names and graded.evidence is not None:
                    number = graded.grade.scorecard.attempt or 1
                    yield number, graded.grade.sample, graded.evidence
