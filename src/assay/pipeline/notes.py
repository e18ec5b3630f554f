"""The notes of a decision on what its rules can't show."""

from __future__ import annotations

from assay.library.shelf import Shelf
from assay.records.systems import is_published
from assay.release.comparability import same_evidence, same_note
from assay.release.pairs import group_note
from assay.release.policy import DEFAULT, FAMILY, ReleaseRules, eased, make_release_rules
from assay.release.promotion import Promotion
from assay.release.sides import Side


def policy_note(rules: ReleaseRules) -> str:
    """A note if the release policy is not a published one and allows more than the default: it may
    come with the candidate.
    """
    if is_published(rules.digest):
        return ""
    return eased(rules, make_release_rules(Shelf().policy_of(FAMILY, DEFAULT)))


def shared_groups(promotion: Promotion) -> str | None:
    """A note if the samples share too few groups."""
    if promotion.tally is None:
        return None
    scores = promotion.tally.compared.scores
    return group_note(scores.shares_groups, scores.clusters)


def same_sides(candidate: Side, baseline: Side) -> str | None:
    """A warning if both sides have the same evidence: a comparison with itself shows nothing."""
    same, shared = same_evidence(candidate, baseline), candidate.rows.keys() & baseline.rows.keys()
    if not same:
        return None
    if len(same) < len(shared) and all(row.declared is None for row in candidate.rows.values()):
        return None  # two scorecards may well be equal by chance; two runs are not
    imported = candidate.imported or baseline.imported  # the tool's file may lack differences
    what = "the same answers, scores and verdicts" if imported else "exactly the same evidence"
    if len(same) == len(shared):
        return same_note(len(shared), what)
    have = "has" if len(same) == 1 else "have"
    return (
        f"{len(same)} of {len(shared)} shared samples {have} {what} on both sides, for example"
        f" {same[0]}"
    )


def unnoticed(candidate: Side, baseline: Side) -> str:
    """A note on what an unpaired comparison can't notice."""
    note = "The sets are not paired, so a sample that the candidate left out cannot be noticed."
    shared, gone = (
        candidate.rows.keys() & baseline.rows.keys(),
        sorted(baseline.rows.keys() - candidate.rows.keys()),
    )
    if not shared or not gone:
        return note
    return (
        f"{note} {len(shared)} names of samples are on both sides, and {len(gone)} of the"
        f" baseline's are missing here, for example {gone[0]}."
    )
