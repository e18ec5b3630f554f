"""The family of tool schemas."""

from __future__ import annotations

from assay.library.families import Family, RuleSystem
from assay.tools.policy import load_schema_policy
from assay.tools.versions import CURRENT

_GRADING = (
    "aggregate policy status gate index index_file selection_index preconditions node entry forms"
    " names selection veto regrade"
)
FAMILY = Family(
    "flowmcp",
    "tool schemas",
    (
        RuleSystem(
            "scoring",
            CURRENT.scoring,
            ("assay.tools",),
            "assay.tools.behaviour:scoring",
            data="tools/data",
            needs="publicsuffixlist",
            extra="flowmcp",
        ),
        RuleSystem(
            "grading",
            CURRENT.grading,
            (
                "assay.records.tool_entry",
                *(f"assay.tools.{name}" for name in _GRADING.split()),
            ),
            "assay.tools.behaviour:grading",
        ),
    ),
    load_schema_policy,
)
