"""The family of releases: a candidate against a baseline."""

from __future__ import annotations

from assay.library.families import Family, RuleSystem
from assay.records.grade import GRADING_SYSTEM
from assay.release.policy import load_release_policy

FAMILY = Family(
    "release",
    "releases",
    (
        RuleSystem(
            "grading",
            GRADING_SYSTEM,
            ("assay.release", "assay.stats"),
            "assay.library.behaviour:release_grading",
        ),
    ),
    load_release_policy,
)
