"""The family of tool schemas."""

from __future__ import annotations

from assay.families.tools.policy import load_schema_policy
from assay.families.tools.versions import CURRENT
from assay.library.families import Family, RuleSystem

FAMILY = Family(
    "flowmcp",
    "tool schemas",
    (
        RuleSystem(
            "scoring",
            CURRENT.scoring,
            "assay.families.tools.behaviour:scoring",
            needs="publicsuffixlist",
            extra="flowmcp",
        ),
        RuleSystem("grading", CURRENT.grading, "assay.families.tools.behaviour:grading"),
    ),
    load_schema_policy,
)
