"""Tool schemas: FlowMCP schemas, and the tools of any MCP server."""

from __future__ import annotations

from assay.family import Family, Verb

_VERBS = "assay.families.tools.verbs"
_TOOLS = {
    "check": (
        _VERBS,
        "list what is wrong with a schema, a server or grading files, each with a fix",
    ),
    "validate": (_VERBS, "the older name of `assay tools check`"),
    "grade": (
        _VERBS,
        "run the two deterministic stages: --emit-prompts, then --consume-scores FILE",
    ),
    "score": (_VERBS, "have a judge score the prompts, each in an isolated request"),
    "import": (
        _VERBS,
        "add schemas and selections to a grading tree; older versions stay",
    ),
    "record": (_VERBS, "write a grading entry from an evaluator's answers"),
    "index": (_VERBS, "rebuild the indexes of a tree; --lock freezes a selection's members"),
    "status": (
        _VERBS,
        "show the tree of a namespace or selection: statuses, grades, blockers",
    ),
    "regrade": (_VERBS, "grade again after a trigger, as far as stored answers allow"),
    "gate": (
        _VERBS,
        "run the production gate: B or better, stable, no veto, clean validation",
    ),
    "export": (
        _VERBS,
        "write a namespace or selection in its strict published form, into a new folder",
    ),
}

FAMILY = Family(
    "tools",
    "Tool schemas of FlowMCP, and the tools of any MCP server",
    verbs={
        "tools": {
            "tools": Verb(
                _VERBS,
                "grade tool schemas: FlowMCP schemas and the tools of any MCP server",
                actions=_TOOLS,
                description="Grade tool schemas: FlowMCP schemas, and the tools of any MCP server.",
                example="assay tools grade schemas/prices.mjs --emit-prompts",
                left="every file that was written is complete, the rest was not started",
            ),
        }
    },
    systems={"flowmcp": "assay.families.tools.family:FAMILY"},
    served="assay.families.tools.pages:SERVED",
    results={"assay.schema-gate/1": "assay.families.tools.stored:GATE"},
    documents="assay.families.tools.family:DOCUMENTS",
    conform="assay.families.tools.conform:OPS",
    demo="assay.families.tools.demo:part",
    doctor="assay.families.tools.jobs:JOBS",
    agents="assay.families.tools.agents:TOOLS",
)
