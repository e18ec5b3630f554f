"""The tools of `assay mcp` that compare two evaluations and decide between them, and those that
store something, which are offered only with `--write`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from assay.cli.baseline import set_baseline as store_baseline
from assay.cli.baseline_diff import by_difference, change_line, compare_sides, diff_lines
from assay.cli.gate import decided as decided_by
from assay.cli.gate import rules_of
from assay.cli.gate_sides import checked, read_baseline, read_side
from assay.cli.grade import choice_of
from assay.cli.imported_inputs import left_out
from assay.cli.importing import import_files
from assay.cli.mcp_project import ServedProject, ToolAnswer, more_text, page_of
from assay.errors import UsageError, count, printable
from assay.records.decision import SIDES, Decision
from assay.release.decision import exit_code
from assay.views.decision import decision_summary
from assay.views.evaluation import evaluation_line
from assay.views.text import text_view

_LONG = (*SIDES, "fingerprint", "digests", "plan")

"""What a decision records for a replay and an agent doesn't need."""


def compare_evaluations(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """What is different between two sides, sample by sample."""
    with project.working("gate", *_sides(project, given)) as options:
        _need_baseline(options.baseline)
        rules, grader = rules_of(options), choice_of(options).grader()
        after = read_side(options.files, grader, name=", ".join(options.files)).side
        baseline = read_baseline(
            options.baseline, grader, folder=options.baselines, rules=rules, now=None
        )
        before = checked(baseline, grader, rules, options)
        found = compare_sides(before, after, rules)
    if found["baseline"] == "baseline":  # files, or an evaluation
        found["baseline"] = ", ".join(options.baseline)
    worse_first = sorted(
        found["changed"], key=lambda sample: (not _newly(sample), by_difference(sample))
    )
    wanted = given.get("show", "worse")
    rows = [
        sample
        for sample in worse_first
        if wanted == "all" or _is_worse(sample) == (wanted == "worse")
    ]
    rows = rows[::-1] if wanted == "better" else rows
    page = page_of(given)
    shown = rows[page.start : page.end]
    document = {
        "candidate": found["other"],
        "baseline": found["baseline"],
        "comparison": found["comparison"],
        "changed": len(worse_first),
        "worse": sum(map(_is_worse, worse_first)),
        "samples": [
            {
                "sample": sample["sample"],
                "difference": sample["difference"],
                "candidate": sample["other"],
                "baseline": sample["baseline"],
                "newly_failed_gates": sample["newly_failed_gates"],
                "fixed_gates": sample["mended_gates"],
                "newly_missed_floors": sample["newly_missed_floors"],
            }
            for sample in shown
        ],
        "next_offset": page.next_offset(len(rows)),
        "missing": {
            "candidate": found["missing"]["other"],
            "baseline": found["missing"]["baseline"],
        },
        "overlap": found.get("overlap"),
        "policy": found["policy"],
        "scoringSystem": found["scoringSystem"],
        "gradingSystem": found["gradingSystem"],
    }
    *head, gap, systems = diff_lines({**found, "changed": [], "missing": document["missing"]})
    lines = [*head, *map(change_line, shown), gap, systems]
    return ToolAnswer(
        document, "\n".join(map(printable, lines)) + more_text(document["next_offset"])
    )


def _is_worse(change: Mapping[str, Any]) -> bool:
    """Whether a sample is worse in any way: score, gates or floors."""
    return change["difference"] < 0 or _newly(change)


def _newly(change: Mapping[str, Any]) -> bool:
    return bool(change["newly_failed_gates"] or change["newly_missed_floors"])


def _sides(project: ServedProject, given: Mapping[str, Any]) -> list[str]:
    words = [project.reference(given.get("candidate", "latest"))]
    if "baseline" in given:
        words.append(f"--baseline={project.reference(given['baseline'])}")
    return words


def _need_baseline(named: list[str]) -> None:
    if not named:
        raise UsageError(
            "MCP-001",
            "there is no baseline to compare with.",
            where="baseline",
            fix="Name one, such as latest~1, or set `baseline` in assay.yaml.",
        )


def decide_release(project: ServedProject, given: Mapping[str, Any]) -> ToolAnswer:
    """Whether the candidate may replace the baseline, as `assay gate` decides it; not stored."""
    return decision_answer(decided(project, given, store=False))


def decided(project: ServedProject, given: Mapping[str, Any], *, store: bool) -> Decision:
    """The decision of `assay gate` between two sides. A baseline that assay.yaml sets is the bar: a
    client can compare with others, and not decide by them.
    """
    bar = project.options("gate", "latest").baseline
    if bar and "baseline" in given and bar != [project.reference(given["baseline"])]:
        raise UsageError(
            "MCP-001",
            f"assay.yaml sets the baseline of decisions, {', '.join(bar)}.",
            where="baseline",
            fix="Omit it. `compare_evaluations` compares with any other.",
        )
    with project.working("gate", *_sides(project, given), store=store) as options:
        _need_baseline(options.baseline)
        if store:
            options.store = project.ledger(options)
        return decided_by(options).decision


def decision_answer(decision: Decision) -> ToolAnswer:
    """A decision as a tool answers it."""
    tree = decision.tree()
    document = {
        "promote": decision.outcome == "promote",
        "exit_code_of_assay_gate": int(exit_code(decision)),
        **{key: value for key, value in tree.items() if key not in _LONG},
        **{side: _side(tree[side]) for side in SIDES},
        "fingerprint": tree["fingerprint"]["digest"],
    }
    return ToolAnswer(document, text_view(decision_summary(decision)))


def _side(block: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("n", "coverage", "pass_rate", "grades", "top_failure_reasons")
    return {**{key: block.get(key) for key in kept}, "score": block["weighted_score"]["mean"]}


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
    lines = [evaluation_line(evaluation.evaluation) for evaluation in outcome.made]
    lines += [
        f"not graded: {count:,}, {reason}"
        for evaluation in outcome.made
        for reason, count in sorted(evaluation.ungraded.items())
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
        f" {count(stored.record['samples'], 'sample')}. Older versions stay."
    )
    return ToolAnswer(document, text)
