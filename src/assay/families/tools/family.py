"""The family of tool schemas."""

from __future__ import annotations

from assay.families.tools.policy import CURRENT, load_schema_policy
from assay.library.families import RuleFamily, RuleSystem
from assay.services.documents import DocumentKind

FAMILY = RuleFamily(
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


def _document(name: str, title: str, used: str, *, is_input: bool = False) -> DocumentKind:
    return DocumentKind(f"assay.families.tools.entry:all_schemas[{name}]", title, used, is_input)


DOCUMENTS = {
    "tool-declaration": DocumentKind(
        "assay.families.tools.declaration:Declaration",
        "What the maker of an MCP server declares about it.",
        "`assay tools grade --declare` reads it.",
    ),
    "prompts": _document(
        "prompts",
        "The questions about a tool schema that a model answers.",
        "`assay tools grade --emit-prompts` writes it.",
    ),
    "scores": _document(
        "scores",
        "The answers to those questions.",
        "`assay tools score` writes it; `assay tools grade --consume-scores` reads it.",
        is_input=True,
    ),
    "grade-report": _document(
        "grade-report", "The graded tool schema.", "`assay tools grade --consume-scores` writes it."
    ),
    "grading-entry": _document(
        "grading-entry",
        "One grading of a node, as the public FlowMCP specification defines it.",
        "`assay tools record` writes it into the tree.",
    ),
    "grading-entry-extended": _document(
        "grading-entry-extended",
        "A grading entry with fields that the published form lacks.",
        "`assay tools record` writes it where the published form doesn't fit.",
    ),
    "index": _document(
        "index",
        "The index of graded tools, as the public FlowMCP specification defines it.",
        "`assay tools export` writes it.",
    ),
    "index-extended": _document(
        "index-extended",
        "The index with the scoring and the grading system at the top.",
        "`assay tools index` writes it into the tree.",
    ),
}
"""The documents of this family, by the name that `assay schema-of` takes."""
