"""Two versions of one dataset: which samples both sides have with equal inputs.

Datasets grow. Samples that only the candidate has are new: they are shown, and enter no rule. A
sample of the baseline that the candidate lacks was dropped, and one whose inputs are different was
changed: both count as lost by the candidate, because otherwise a sample that fails could be dropped
or eased. A policy's `min_overlap` may set changed samples aside as long as enough others are equal;
a dropped one is left out only by name, with a quarantine. Where only the expected value of a row
changed, both sides are scored with the new one: see `contracts`.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import NamedTuple

from assay.canon import digest
from assay.errors import count
from assay.records.decision import SampleOverlap
from assay.records.evidence import Run
from assay.release.policy import ReleaseRules
from assay.release.sides import Sample, SampleContent, Side


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
