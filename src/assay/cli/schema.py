"""`assay schema`: grading tool schemas. Finds the action and loads its file."""

from __future__ import annotations

from importlib import import_module

from assay.cli import options as opt
from assay.errors import ExitCode

ACTIONS: dict[str, tuple[str, str]] = {
    "grade": (
        "schema_grade",
        "the two deterministic stages: --emit-prompts, then --consume-scores FILE",
    ),
    "score": ("schema_score", "the grader between them: one isolated request for each prompt"),
    "validate": (
        "schema_validate",
        "findings of a schema, a server or grading files, each with a fix; SARIF with -o",
    ),
    "import": (
        "schema_tree",
        "put schemas and selections into a grading tree, version beside version",
    ),
    "record": ("schema_tree", "write a grading entry from an evaluator's answers"),
    "index": (
        "schema_tree",
        "make the indexes of a tree anew; --lock freezes a selection's members",
    ),
    "status": ("schema_tree", "the tree of a namespace or selection: statuses, grades, blockers"),
    "regrade": ("schema_tree", "grade again after a trigger, as far as it goes without a grader"),
    "gate": ("schema_gate", "the production gate: B or better, stable, no veto, clean validation"),
    "export": (
        "schema_gate",
        "a namespace or selection in its strict published form, into a fresh folder",
    ),
}


def run(verb: str, argv: list[str]) -> int:
    """Run one action."""
    action = opt.choose(
        "schema",
        argv,
        {name: text for name, (_, text) in ACTIONS.items()},
        what="Grade tool schemas: FlowMCP schemas, and the tools of any MCP server.",
        example="assay schema grade schemas/prices.mjs --emit-prompts",
    )
    if isinstance(action, ExitCode):
        return action
    code: int = import_module(f"assay.cli.{ACTIONS[action][0]}").run(action, argv[1:])
    return code
