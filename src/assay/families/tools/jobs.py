"""What `assay doctor` checks for tool schemas."""

from __future__ import annotations

from assay.family import JobNeeds

JOBS = {
    "flowmcp": JobNeeds(
        "read FlowMCP schema modules",
        "flowmcp",
        (
            ("tree_sitter", "tree-sitter"),
            ("tree_sitter_javascript", "tree-sitter-javascript"),
            ("publicsuffixlist", "publicsuffixlist"),
        ),
    ),
}
