"""Whether two sides can be compared: the fields in which their fingerprints differ, and whether
both have the same evidence; what each was asked, and whether the workflow itself is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, count, few
from assay.records.decision import MIXED_VERSIONS as MIXED_VERSIONS
from assay.records.decision import SAME_EVIDENCE as SAME_EVIDENCE
from assay.records.decision import SampleOverlap
from assay.records.evidence import Run
from assay.records.run_contract import EMPTY, RunContract, contract_of, under
from assay.records.scorecard import Scorecard
from assay.registry import is_relative
from assay.release.policy import ReleaseRules
from assay.release.sides import Sample, SampleContent, Side


class Mismatch(NamedTuple):
    """A field of the fingerprint in which two sides differ."""

    field: str
    candidate: list[str]
    baseline: list[str]

    def sentence(self) -> str:
        """In words."""
        return (
            f"{self.field}: {_listed(self.candidate)} here, {_listed(self.baseline)} in the"
            " baseline"
        )


def _listed(values: list[str]) -> str:
    return few([value or "none" for value in values], 3) or "none"


def mismatches(candidate: Side, baseline: Side) -> list[Mismatch]:
    """The fields in which the fingerprints differ. A digest is listed only where the name is the
    same on both sides.
    """
    fields = list(dict.fromkeys([*candidate.fingerprint, *baseline.fingerprint]))
    differences = []
    for field in fields:
        ours, theirs = (
            list(candidate.fingerprint.get(field, [])),
            list(baseline.fingerprint.get(field, [])),
        )
        if ours != theirs:
            differences.append(Mismatch(field, ours, theirs))
    named = {mismatch.field for mismatch in differences}
    return [
        mismatch
        for mismatch in differences
        if not (
            mismatch.field.endswith("_digest") and mismatch.field.removesuffix("_digest") in named
        )
    ]


def same_evidence(candidate: Side, baseline: Side) -> list[str]:
    """The samples with exactly the same evidence on both sides."""
    return sorted(
        name
        for name, sample in candidate.samples.items()
        if name in baseline.samples
        and sorted(baseline.samples[name].behaviours) == sorted(sample.behaviours)
    )


def same_sides(candidate: Side, baseline: Side) -> str | None:
    """A warning if both sides have the same evidence: a comparison with itself shows nothing."""
    same = same_evidence(candidate, baseline)
    shared = candidate.samples.keys() & baseline.samples.keys()
    if not same or len(same) < len(shared):
        return None
    return same_note(len(shared), _same_what(candidate, baseline))


def partly_same(candidate: Side, baseline: Side) -> str | None:
    """A warning if both sides have the same evidence of some samples."""
    same = same_evidence(candidate, baseline)
    shared = candidate.samples.keys() & baseline.samples.keys()
    # two scorecards may well be equal by chance; two runs are not
    bare = all(sample.family is None for sample in candidate.samples.values())
    if bare or not same or len(same) == len(shared):
        return None
    have = "has" if len(same) == 1 else "have"
    return (
        f"{len(same)} of {len(shared)} shared samples {have} {_same_what(candidate, baseline)} on"
        f" both sides, for example {_called(same[0], candidate, baseline)}"
    )


def _called(name: str, *sides: Side) -> str:
    """The title of a sample, or its name."""
    return next((title for side in sides if (title := side.samples[name].title)), name)


def _same_what(candidate: Side, baseline: Side) -> str:
    imported = candidate.imported or baseline.imported  # the tool's file may lack differences
    return "the same answers, scores and verdicts" if imported else "exactly the same evidence"


def refuse_itself(name: str, candidate: Side, baseline: Side) -> None:
    """Refuse a candidate that was named by its place, as `latest`, and is the baseline: the run
    that should have come after it may have been killed.
    """
    ours, theirs = (
        {name: (sample.runs, sample.behaviours) for name, sample in side.samples.items()}
        for side in (candidate, baseline)
    )
    if is_relative(name) and ours == theirs:
        raise NotEnoughEvidence(
            "REL-003",
            f"{name} has the runs of the baseline: nothing was evaluated since.",
            where="candidate",
            fix="Run the candidate, or name its evaluation; `assay evals` lists them.",
        )


def refuse_disagreeing(side: Side) -> None:
    """Refuse a policy that takes the system for deterministic if a stored sample disagrees with
    itself.
    """
    for sample in side.samples.values():
        failed = {run.failed for run in sample.attempts}
        if len(failed) > 1:
            checks = sorted(str(check) for check in frozenset.union(*failed))
            raise InputError(
                "REL-001",
                f"the policy says that the system is deterministic, and {sample.sample} of the"
                f" {side.name} fails {few(checks, 3)} in some of its {len(sample.attempts)} runs"
                " only.",
                fix="Use a policy without `deterministic: true`.",
            )


def mixed_versions(candidate: Side) -> str | None:
    """A warning if the candidate's runs are of several versions: older runs may fill in for those
    that the new version failed.
    """
    for workflow, versions in sorted(candidate.versions.items()):
        if len(versions) > 1:
            listed = ", ".join(sorted(versions))
            return (
                f"{MIXED_VERSIONS}: the candidate has runs of {len(versions)} versions of"
                f" {workflow}: {listed}. Which one would be released?"
            )
    return None


def undeclared(baseline: Side) -> str | None:
    """A warning if the baseline comes as grades of runs: what those were asked is unknown."""
    if not any(None in sample.contracts for sample in baseline.samples.values()):
        return None
    return (
        "the baseline comes as grades, which don't carry what its runs were asked, so expected"
        " values, forbidden tools and the like were not compared; give its runs"
    )


def same_note(n: int, what: str) -> str:
    """The note that all `n` samples which both sides have are the same."""
    all_have = "the one shared sample has" if n == 1 else f"all {n:,} shared samples have"
    return (
        f"{SAME_EVIDENCE}: {all_have} {what} on both sides. Is this the candidate, or the baseline"
        " again?"
    )


def mismatch_error(differences: Sequence[Mismatch]) -> InputError:
    """The error for two sides that were made differently, with every field in which they differ."""
    return InputError(
        "REL-002",
        "the two sides cannot be compared: "
        + "; ".join(mismatch.sentence() for mismatch in differences)
        + ".",
        fix="Evaluate both sides with the same dataset, profile, rubric, judge and policy.",
    )


RULES = ("profile", "rubric", "policy")
"""The fields that set the bar; a fingerprint has the name and the digest of each."""


class ChangedRules(NamedTuple):
    """The rules that a baseline was stored under and those it is graded by now, in words."""

    before: str
    now: str


def check_kept_rules(
    record: Mapping[str, Any],
    side: Side,
    *,
    name: str,
    given: Collection[str] = (),
    fix: str = "Store a new baseline, or compare two evaluations.",
) -> ChangedRules | None:
    """Refuse a stored baseline that would be graded by other rules than it was stored under: the
    candidate, which may bring them, never sets the bar. `given` has the rules that the user chose
    for this comparison; what they change is returned instead of refused.
    """
    fingerprint = record.get("fingerprint")
    fields = fingerprint.get("fields") if isinstance(fingerprint, dict) else None
    kept = fields if isinstance(fields, dict) else {}
    changed = {kind: _changed_rule(kind, kept, side.fingerprint) for kind in RULES}
    refused = [
        change for kind, change in changed.items() if change is not None and kind not in given
    ]
    if refused:
        raise InputError(
            "REL-002",
            f"the baseline {name} was stored under {', '.join(old.before for old in refused)}, and"
            f" this comparison would grade it by {', '.join(new.now for new in refused)}.",
            fix=fix,
        )
    chosen = [change for change in changed.values() if change is not None]
    if not chosen:
        return None
    return ChangedRules(
        ", ".join(change.before for change in chosen), ", ".join(change.now for change in chosen)
    )


def _texts(values: Any) -> list[str]:
    """The values of a field; none if a record from outside has anything but a list there."""
    return [str(value) for value in values] if isinstance(values, list) else []


def _changed_rule(
    kind: str, kept: Mapping[str, Any], graded: Mapping[str, Any]
) -> ChangedRules | None:
    names, digests = (
        [_texts(fields.get(field)) for fields in (kept, graded)]
        for field in (kind, f"{kind}_digest")
    )
    if names[0] == names[1] and digests[0] == digests[1]:
        # the same file may use plugins, which are in the version of the system
        systems = [_texts(fields.get("scoringSystem")) for fields in (kept, graded)]
        if kind != "profile" or not systems[0] or systems[0] == systems[1]:
            return None
        return ChangedRules(*(f"profile {_listed(names[0])} ({_listed(each)})" for each in systems))
    if names[0] != names[1]:
        return ChangedRules(*(f"{kind} {_listed(each)}" for each in names))
    short = [[digest.removeprefix("sha256:")[:12] for digest in each] for each in digests]
    before, now = (f"{kind} {_listed(names[0])} ({_listed(each)})" for each in short)
    return ChangedRules(before, f"a changed {now}")


class Aligned(NamedTuple):
    """Both sides with the samples that are compared."""

    candidate: Side
    baseline: Side
    overlap: SampleOverlap | None
    """What the two datasets share; None if both sides have the same samples of one version."""
    corrected: frozenset[str] = frozenset()
    """Samples whose row has another expected value now."""


def content_of(run: Run) -> SampleContent | None:
    """What the sample of a run was: what went in, what was expected and asserted; and the row it
    came from, where our own runner recorded that. None if the run does not say.
    """
    row, expected, asserted = run.dataset.row, run.expected, run.assertions
    if run.inputs is None and expected is None and asserted is None:
        return None
    return SampleContent(
        None
        if run.inputs is None
        else tuple(sorted((name, digest(value)) for name, value in run.inputs.items())),
        None if expected is None else digest(expected),
        None if asserted is None else digest(asserted),
        row,
    )


def is_other_version(candidate: Side, baseline: Side) -> bool:
    """Whether the two sides ran on different versions of the same datasets, and both say what each
    sample was.
    """
    ours, theirs = (list(side.fingerprint.get("dataset", [])) for side in (candidate, baseline))
    return (
        ours != theirs
        and {_dataset(name) for name in ours} == {_dataset(name) for name in theirs}
        and all(
            None not in sample.contents
            for side in (candidate, baseline)
            for sample in side.samples.values()
        )
    )


def _dataset(value: str) -> str:
    return value.rpartition(" version ")[0]


def align(candidate: Side, baseline: Side, rules: ReleaseRules) -> Aligned:
    """The sides as they are compared. On one version of a dataset, a sample of our own runner that
    is another one now was changed too: the name of a version proves nothing.
    """
    ours, theirs = candidate.samples, baseline.samples
    shared = ours.keys() & theirs.keys()
    other = is_other_version(candidate, baseline)
    checked = shared if other else {name for name in shared if _has_row(theirs[name])}
    changed = {name for name in checked if not _is_same(ours[name], theirs[name])}
    # on one version of a dataset, the rows are those of the baseline
    corrected = frozenset(
        name for name in checked - changed if other and _is_corrected(ours[name], theirs[name])
    )
    if not changed and not corrected and not other:
        return Aligned(candidate, baseline, None)
    new = ours.keys() - shared
    equal = len(shared) - len(changed)
    share = Fraction(equal, len(theirs))
    set_aside = bool(changed) and rules.min_overlap < 1 and share >= rules.min_overlap
    overlap = SampleOverlap(
        candidate_dataset=list(candidate.fingerprint["dataset"]),
        baseline_dataset=list(baseline.fingerprint["dataset"]),
        equal=equal,
        changed=sorted(changed),
        corrected=sorted(corrected),
        new=sorted(new),
        dropped=sorted(theirs.keys() - shared),
        new_failing=sorted(name for name in new if ours[name].failed("gate")),
        share=float(share),
        required=float(rules.min_overlap),
        changed_set_aside=set_aside,
    )
    return Aligned(
        _without(candidate, changed),
        _without(baseline, changed) if set_aside else baseline,
        overlap,
        corrected,
    )


def overlap_advice(overlap: SampleOverlap, quarantined: Collection[str]) -> list[str]:
    """What to do about samples that are not the same any more, unless they take no part."""
    changed = [] if overlap.changed_set_aside else overlap.changed
    counted = {
        words: n
        for words, names in (("changed", changed), ("dropped", overlap.dropped))
        if (n := len(set(names) - set(quarantined)))
    }
    if not counted:
        return []
    where, n = ", ".join(overlap.candidate_dataset), sum(counted.values())
    listed = " and ".join(f"{n} {words}" for words, n in counted.items())
    lost = f"{listed} sample{'s' * (n != 1)} now count{'s' * (n == 1)}"
    return [f"Re-run the baseline on {where}: {lost} against the candidate."]


def corrected_note(aligned: Aligned) -> str | None:
    """A note that the dataset has other expected values now, which set the bar."""
    if not aligned.corrected:
        return None
    n, first = len(aligned.corrected), min(aligned.corrected)
    return (
        f"OTHER EXPECTED VALUES: the candidate's version of the dataset has another expected value"
        f" in {count(n, 'sample')}, such as {first}; both sides are scored with the new ones"
    )


def other_inputs(aligned: Aligned) -> str | None:
    """A warning if pairs were given different inputs on the two sides. Nothing is refused: a
    rendered prompt or a session's id is another one in each version.
    """
    ours, theirs = aligned.candidate.samples, aligned.baseline.samples
    shared = ours.keys() & theirs.keys()
    other = [
        name
        for name in sorted(shared)
        if ours[name].contents != theirs[name].contents
        and not all(
            mine is None or before is None or _is_row_of(mine, before)
            for mine in ours[name].contents
            for before in theirs[name].contents
        )
    ]
    if not other:
        return None
    return (
        f"{len(other)} of {len(shared)} pairs have different inputs on the two sides, for example"
        f" {ours[other[0]].title or other[0]}: are they the same samples?"
    )


def with_equal_inputs(candidate: Side, baseline: Side) -> int:
    """How many samples of the candidate have the inputs of one of the baseline's, under whichever
    id.
    """
    known = {
        content.inputs
        for sample in baseline.samples.values()
        for content in sample.contents
        if content is not None
    }
    return sum(
        any(content and content.inputs and content.inputs in known for content in sample.contents)
        for sample in candidate.samples.values()
    )


def _is_same(ours: Sample, theirs: Sample) -> bool:
    """Whether a sample has the same inputs on both sides, in all of its repeats."""
    if ours.contents == theirs.contents and len(ours.contents) == 1:
        return True
    return all(_has_same_inputs(mine, other) for mine in ours.contents for other in theirs.contents)


def _has_same_inputs(ours: SampleContent | None, theirs: SampleContent | None) -> bool:
    if ours is None or theirs is None:
        return False
    if ours.row is not None and ours.row == theirs.row:
        return _is_row_of(ours, theirs)
    return ours.inputs == theirs.inputs


def _is_corrected(ours: Sample, theirs: Sample) -> bool:
    """Whether both say of which row they are, and the row has another expected value now."""
    rows = [{None if one is None else one.row for one in side.contents} for side in (ours, theirs)]
    expected = [
        {None if one is None else one.expected for one in side.contents} for side in (ours, theirs)
    ]
    return None not in rows[0] | rows[1] and rows[0] != rows[1] and expected[0] != expected[1]


def _is_row_of(one: SampleContent, other: SampleContent) -> bool:
    """Whether two contents can be of the row that both state. Versions of a workflow may take other
    columns of it, or under other names; what both carry is equal.
    """
    for mine, before in zip(one[1:3], other[1:3], strict=True):
        if None not in (mine, before) and mine != before:
            return False
    if one.inputs is None or other.inputs is None:
        return True
    ours, theirs = dict(one.inputs), dict(other.inputs)
    if shared := ours.keys() & theirs.keys():
        return all(ours[name] == theirs[name] for name in shared)
    return sorted(ours.values()) == sorted(theirs.values())


def _has_row(sample: Sample) -> bool:
    """Whether our own runner recorded the row of a sample, in all of its repeats."""
    return all(content is not None and content.row is not None for content in sample.contents)


def _without(side: Side, names: Collection[str]) -> Side:
    kept = {name: sample for name, sample in side.samples.items() if name not in names}
    return side._replace(samples=kept)


class CardContract(NamedTuple):
    """What a scorecard asks of itself: its passing score, and the role and floor of each
    criterion.
    """

    threshold: Any
    criteria: tuple[tuple[str, Any, Any, Any], ...]

    def digest(self) -> bytes:
        """A digest of all of it."""
        return digest(list(self)).encode()

    def words(self, other: CardContract) -> list[str]:
        """In which parts it differs from another one."""
        found = ["passing score"] if self.threshold != other.threshold else []
        return found + (["floors and roles"] if self.criteria != other.criteria else [])


Contract = RunContract | CardContract
EMPTIES = frozenset((EMPTY, CardContract(None, ()).digest()))
"""The digests of contracts that ask nothing."""


def contract_of_evidence(evidence: Run | Scorecard) -> Contract:
    """The contract of a run or a scorecard."""
    if isinstance(evidence, Run):
        return contract_of(evidence)
    return CardContract(
        evidence.pass_threshold,
        tuple(
            (item.name, item.role, item.critical_floor, item.floor_override)
            for item in sorted(evidence.criteria, key=lambda item: item.name)
            if (item.role, item.critical_floor, item.floor_override) != (None, None, None)
        ),
    )


def asked(evidence: Run | Scorecard, contract: Contract) -> Run | Scorecard:
    """The same evidence under another contract of its kind."""
    if isinstance(evidence, Run):
        assert isinstance(contract, RunContract)
        return under(evidence, contract)
    assert isinstance(contract, CardContract)
    terms = {name: rest for name, *rest in contract.criteria}
    return replace(
        evidence,
        pass_threshold=contract.threshold,
        criteria=[
            replace(item, role=role, critical_floor=floor, floor_override=override)
            for item in evidence.criteria
            for role, floor, override in [terms.get(item.name, (None, None, None))]
        ],
    )


def are_comparable(ours: Contract, theirs: Contract) -> bool:
    """Whether one can be put in place of the other: both are of one kind, and nothing that can't be
    asked again differs.
    """
    if isinstance(ours, RunContract) and isinstance(theirs, RunContract):
        return ours.fixed == theirs.fixed
    return type(ours) is type(theirs)


def with_expected(contract: Contract, other: Contract) -> Contract:
    """A contract with the expected value of another one."""
    if isinstance(contract, RunContract) and isinstance(other, RunContract):
        return contract._replace(expected=other.expected)
    return contract


def words_of(ours: Contract, theirs: Contract) -> list[str]:
    """In which parts two contracts of one kind differ, in words."""
    if isinstance(ours, RunContract) and isinstance(theirs, RunContract):
        return ours.words(theirs)
    if isinstance(ours, CardContract) and isinstance(theirs, CardContract):
        return ours.words(theirs)
    return []
