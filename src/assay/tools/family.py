"""The family of tool schemas."""

from __future__ import annotations

from assay.library.families import Family, RuleSystem
from assay.tools.policy import CURRENT, load_schema_policy

FAMILY = Family(
    "flowmcp",
    "tool schemas",
    (
        RuleSystem(
            "scoring",
            CURRENT.scoring,
            "assay.tools.behaviour:scoring",
            needs="publicsuffixlist",
            extra="flowmcp",
        ),
        RuleSystem("grading", CURRENT.grading, "assay.tools.behaviour:grading"),
    ),
    load_schema_policy,
)
