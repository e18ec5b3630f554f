"""May two sides be compared? The fields in which their fingerprints differ, and whether both saw
the same evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import InputError
from assay.records.decision import SAME_EVIDENCE as SAME_EVIDENCE

if TYPE_CHECKING:
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
    named = [value or "none" for value in values]
    return (
        ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
        if named
        else "none"
    )


def mismatches(candidate: Side, baseline: Side) -> list[Mismatch]:
    """The fields in which the fingerprints differ. Where the digest of a thing differs and its name
    does not, the digest is named.
    """
    fields = list(dict.fromkeys([*candidate.fingerprint, *baseline.fingerprint]))
    found = []
    for field in fields:
        ours, theirs = (
            list(candidate.fingerprint.get(field, [])),
            list(baseline.fingerprint.get(field, [])),
        )
        if ours != theirs:
            found.append(Mismatch(field, ours, theirs))
    named = {mismatch.field for mismatch in found}
    return [
        mismatch
        for mismatch in found
        if not (
            mismatch.field.endswith("_digest") and mismatch.field.removesuffix("_digest") in named
        )
    ]


def same_evidence(candidate: Side, baseline: Side) -> list[str]:
    """The samples of which both sides saw exactly the same."""
    return sorted(
        sample
        for sample, found in candidate.contents.items()
        if baseline.contents.get(sample) == found
    )


def mismatch_error(found: Sequence[Mismatch]) -> InputError:
    """The refusal of two sides that were made differently, with every field in which they
    differ.
    """
    return InputError(
        "REL-002",
        "the two sides cannot be compared: "
        + "; ".join(mismatch.sentence() for mismatch in found)
        + ".",
        fix="Evaluate both sides with the same dataset, profile, rubric, judge and policy.",
    )
