"""The family of releases: a candidate against a baseline."""

from __future__ import annotations

from assay.files.json_files import Document
from assay.library.families import RuleFamily, RuleSystem
from assay.records.grade import GRADING_SYSTEM
from assay.records.scorecard import ROLES
from assay.records.shape import Faults
from assay.registry import near_miss
from assay.release.policy import ReleasePolicy, load_release_policy


def _load_policy(document: Document) -> ReleasePolicy:
    """A release policy. A misspelt gate or role in `severe` is refused: it would never count. A
    gate of a run or a profile may have any other name.
    """
    from assay.scoring.gates import GATES  # only a decision needs them

    policy, faults = load_release_policy(document), Faults(document)
    for kind, names, known in (
        ("gate", policy.severe.gates, list(GATES)),
        ("role", policy.severe.roles, list(ROLES)),
    ):
        for index, name in enumerate(names):
            if name not in known and (hint := near_miss(name, known)):
                faults.add(("severe", f"{kind}s", index), f"no {kind} is named '{name}'.{hint}")
    faults.raise_if_any()
    return policy


FAMILY = RuleFamily(
    "release",
    "releases",
    (RuleSystem("grading", GRADING_SYSTEM, "assay.library.behaviour:release_grading", slow=True),),
    _load_policy,
)
