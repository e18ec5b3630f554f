"""The tools of `assay mcp` that store something. They are offered only with `--write`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from assay.cli.baseline import set_baseline as store_baseline
from assay.cli.imported_inputs import left_out
from assay.cli.importing import import_files
from assay.cli.mcp_answers import ToolAnswer
from assay.cli.mcp_project import ServedProject
from assay.cli.mcp_releases import decided, decision_answer
from assay.errors import count, printable
from assay.views.evaluations import evaluation_line


def store_decision(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """Decide as `decide_release` does, and keep the decision with its evidence in the ledger."""
    return decision_answer(decided(project, given, store=True))


def import_results(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """Import another tool's results and store them as evaluations."""
    words = [project.file(given["file"])]
    words += [
        f"--{option}={given[name]}"
        for name, option in (("name", "name"), ("format", "from"))
        if name in given
    ]
    with tempfile.TemporaryDirectory() as folder:
        options = project.options("import", *words, store=True)
        options.store = project.ledger(options)
        outcome = import_files(options, folder)
        if outcome.problem is not None:
            raise outcome.problem
        document = outcome.document([], with_runs=False)
    del document["runs"], document["written"]
    lines = [evaluation_line(one.evaluation) for one in outcome.made]
    lines += [
        f"not graded: {count:,}, {reason}"
        for one in outcome.made
        for reason, count in sorted(one.ungraded.items())
    ]
    lines += left_out(outcome.imported.tally)
    return ToolAnswer(document, "\n".join(map(printable, lines)))


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
        f"The baseline {stored.name} is set: {count(stored.record['runs'], 'run')} of"
        f" {count(stored.record['samples'], 'sample')}. An older one of that name stays."
    )
    return ToolAnswer(document, text)
