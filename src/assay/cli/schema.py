"""`assay schema`: grading tool schemas. Finds the action and loads its file."""

from __future__ import annotations

import sys
from importlib import import_module

from assay.errors import EXIT_CODES_TEXT, ExitCode, UsageError
from assay.registry import near_miss

ACTIONS: dict[str, tuple[str, str]] = {
    "grade": ("schema_grade", "the two deterministic stages: --emit-prompts, then --consume-scores FILE"),
    "score": ("schema_grade", "the grader between them: one isolated request for each prompt"),
    "validate": ("schema_grade", "findings of a schema, a server or grading files, each with a fix; SARIF with -o"),
    "import": ("schema_tree", "put schemas and selections into a grading tree, version beside version"),
    "record": ("schema_tree", "write a grading entry from an evaluator's answers"),
    "index": ("schema_tree", "make the indexes of a tree anew; --lock freezes a selection's members"),
    "status": ("schema_tree", "the tree of a namespace or selection: statuses, grades, blockers"),
    "regrade": ("schema_tree", "grade again after a trigger, as far as it goes without a grader"),
    "gate": ("schema_tree", "the production gate: B or better, stable, no veto, clean validation"),
    "export": ("schema_tree", "a namespace or selection in its strict published form, into a fresh folder"),
}


def _help() -> str:
    width = max(map(len, ACTIONS))
    actions = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in ACTIONS.items())
    return (
        "Grade tool schemas: FlowMCP schemas, and the tools of any MCP server.\n\n"
        f"usage: assay schema ACTION [options]\n\n{actions}\n\n"
        "  assay schema ACTION --help   what an action takes, with an example\n\n"
        "example: assay schema grade schemas/prices.mjs --emit-prompts\n"
        f"{EXIT_CODES_TEXT}\n"
    )


def run(verb: str, argv: list[str]) -> int:
    """Run one action."""
    action = argv[0] if argv else ""
    if action in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return ExitCode.PASSED
    if action not in ACTIONS:
        if not action or action == "--json":
            sys.stderr.write(_help())
            return ExitCode.MISUSE
        raise UsageError("CLI-001", f"there is no action '{action}'.{near_miss(action, ACTIONS)}", fix="`assay schema --help` lists them.")
    code: int = import_module(f"assay.cli.{ACTIONS[action][0]}").run(action, argv[1:])
    return code
