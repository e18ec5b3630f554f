"""Whether two sides can be compared: the fields in which their fingerprints differ, and whether
both have the same evidence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import InputError, NotEnoughEvidence, few
from assay.records.decision import MIXED_VERSIONS as MIXED_VERSIONS
from assay.records.decision import SAME_EVIDENCE as SAME_EVIDENCE
from assay.registry import is_relative
from assay.release.sides import Side


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
