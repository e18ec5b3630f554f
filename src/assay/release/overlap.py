"""Two versions of one dataset: which samples both sides have with equal content.

Datasets grow. Samples that only the candidate has are new: they are shown, and not compared. A
sample of the baseline that the candidate lacks was dropped, and one whose content is different was
changed: both count against the candidate as if it had lost them, because otherwise a sample that
fails could be dropped or eased. A policy's `min_overlap` may set changed samples aside as long as
enough others are equal; a dropped one is left out only by name, with a quarantine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from assay.canon import digest
from assay.records.decision import SampleOverlap
from assay.records.evidence import Run
from assay.release.policy import ReleaseRules
from assay.release.sides import SampleContent, Side


class Aligned(NamedTuple):
    """Both sides with the samples that are compared."""

    candidate: Side
    baseline: Side
    overlap: SampleOverlap | None
    """What the two datasets share; None if both sides have the same samples of one version."""


def content_of(run: Run) -> SampleContent | None:
    """What the sample of a run was: what went in, what was expected and asserted; and the row it
    came from, where our own runner recorded that. None if the run does not say.
    """
    row = run.metadata.get("sample_digest")
    expected, asserted = run.expected, run.metadata.get("assertions")
    if run.inputs is None and expected is None and asserted is None:
        return None
    return SampleContent(
        None
        if run.inputs is None
        else tuple(sorted((name, digest(value)) for name, value in run.inputs.items())),
        None if expected is None else digest(expected),
        None if asserted is None else digest(asserted),
        row if isinstance(row, str) else None,
    )


def is_other_version(candidate: Side, baseline: Side) -> bool:
    """Whether the two sides ran on different versions of the same datasets, and both say what each
    sample was.
    """
    ours, theirs = (list(side.fingerprint.get("dataset", [])) for side in (candidate, baseline))
    return (
        ours != theirs
        and {_dataset(name) for name in ours} == {_dataset(name) for name in theirs}
        and all(side.samples.keys() == side.rows.keys() for side in (candidate, baseline))
    )


def _dataset(value: str) -> str:
    return value.rpartition(" version ")[0]


def align(candidate: Side, baseline: Side, rules: ReleaseRules) -> Aligned:
    """The sides as they are compared: on different versions of a dataset, by the samples whose
    content is equal. On one version, a sample of our own runner that is another one now was changed
    too: the name of a version proves nothing. The baseline determines what the sample was: a
    candidate without the row is compared by inputs and expected value.
    """
    shared = candidate.rows.keys() & baseline.rows.keys()
    if is_other_version(candidate, baseline):
        new = candidate.rows.keys() - shared
        changed = {
            name
            for name in shared
            if not _is_equal(candidate.samples[name], baseline.samples[name])
        }
    else:
        new = set()
        changed = {
            name
            for name in shared
            if _has_row(baseline, name)
            and not _is_kept(candidate.samples.get(name), baseline.samples[name])
        }
    if not changed and not is_other_version(candidate, baseline):
        return Aligned(candidate, baseline, None)
    equal = len(shared) - len(changed)
    share = Fraction(equal, len(baseline.rows))
    set_aside = bool(changed) and rules.min_overlap < 1 and share >= rules.min_overlap
    overlap = SampleOverlap(
        candidate_dataset=list(candidate.fingerprint["dataset"]),
        baseline_dataset=list(baseline.fingerprint["dataset"]),
        equal=equal,
        changed=sorted(changed),
        new=sorted(new),
        dropped=sorted(baseline.rows.keys() - shared),
        new_failing=sorted(name for name in new if candidate.rows[name].failed),
        share=float(share),
        required=float(rules.min_overlap),
        changed_set_aside=set_aside,
    )
    return Aligned(
        _without(candidate, new | changed),
        _without(baseline, changed) if set_aside else baseline,
        overlap,
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


def other_inputs(aligned: Aligned) -> str | None:
    """A warning if pairs were given different inputs on the two sides. Nothing is refused: a
    rendered prompt or a session's id is another one in each version.
    """
    sides = aligned.candidate, aligned.baseline
    shared = sides[0].rows.keys() & sides[1].rows.keys()
    other = [
        name
        for name in sorted(shared)
        if not all(
            _is_row_of(content, before)
            for content in sides[0].samples.get(name, ())
            for before in sides[1].samples.get(name, ())
        )
    ]
    if not other:
        return None
    return (
        f"{len(other)} of {len(shared)} pairs have different inputs on the two sides, for example"
        f" {other[0]}: are they the same samples?"
    )


def with_equal_inputs(candidate: Side, baseline: Side) -> int:
    """How many samples of the candidate have the inputs of one of the baseline's, under whichever
    id.
    """
    known = {content.inputs for contents in baseline.samples.values() for content in contents}
    return sum(
        any(content.inputs and content.inputs in known for content in contents)
        for contents in candidate.samples.values()
    )


def _is_equal(ours: frozenset[SampleContent], theirs: frozenset[SampleContent]) -> bool:
    """Whether a sample is the same on both sides, in all of its repeats: the same row, with nothing
    in it that contradicts that, or the same inputs, expected value and assertions.
    """
    rows = [{content.row for content in side} for side in (ours, theirs)]
    if None not in rows[0] and rows[0] == rows[1] and len(rows[0]) == 1:
        return all(_is_row_of(mine, other) for mine in ours for other in theirs)
    contents = [{content[:3] for content in side} for side in (ours, theirs)]
    return contents[0] == contents[1] and len(contents[0]) == 1


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


def _is_kept(ours: frozenset[SampleContent] | None, theirs: frozenset[SampleContent]) -> bool:
    """Whether the candidate ran the sample that the baseline's row is, on one version of a dataset:
    without a row it has the same inputs and expected value, as far as the baseline states them.
    """
    if ours is None:
        return False
    if all(content.row is not None for content in ours):
        return _is_equal(ours, theirs)
    return all(
        (other.inputs is None or mine.inputs == other.inputs)
        and (other.expected is None or mine.expected == other.expected)
        and (mine.assertions is None or other.assertions in (None, mine.assertions))
        for mine in ours
        for other in theirs
    )


def _has_row(side: Side, name: str) -> bool:
    """Whether our own runner recorded the row of a sample, in all of its repeats."""
    return name in side.samples and all(sample.row is not None for sample in side.samples[name])


def _without(side: Side, names: Collection[str]) -> Side:
    def kept(mapping: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in mapping.items() if name not in names}

    return side._replace(
        rows=kept(side.rows), repeats=kept(side.repeats), contents=kept(side.contents)
    )
