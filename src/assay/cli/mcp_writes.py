"""The tools of `assay mcp` that store something. They are offered only with `--write`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.cli.baseline import set_baseline as store_baseline
from assay.cli.mcp_answers import ToolAnswer
from assay.cli.mcp_releases import decided, decision_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.cli.mcp_project import ServedProject


def store_decision(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """Decide as `decide_release` does, and keep the decision with its evidence in the ledger."""
    return decision_answer(decided(project, given, store=True))


def set_baseline(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """Store the runs of an evaluation under a name that decisions can be held against."""
    name, runs = given["name"], project.reference(given["evaluation"])
    with project.working("baseline set", name, runs, store=True) as options:
        stored = store_baseline(options)
    kept = ("name", "made_at", "runs", "samples", "summary")
    document = {
        **{key: stored.record.get(key) for key in kept},
        "stored_as": stored.name,
        "file": stored.path,
    }
    text = (
        f"The baseline {stored.name} is set: {stored.record['runs']:,} runs of"
        f" {stored.record['samples']:,} samples. An older one of that name stays."
    )
    return ToolAnswer(document, text)
