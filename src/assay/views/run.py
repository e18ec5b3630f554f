"""What a report shows of one graded run besides its grade: steps, agents, and what made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.views.blocks import Column, Table
from assay.views.grade import MAX_ROWS, Result
from assay.views.pieces import absent, code, line, listed, phrase, shown, small, verdict

SYSTEMS = {"scoringSystem": "Scoring system", "gradingSystem": "Grading system", "policy": "Policy"}
SPENT = {"retries": "Retries", "tokens": "Tokens", "cost_usd": "Cost, USD"}
TIMED = {"duration_ms": "Duration, ms", **SPENT}
STEPS = {
    "name": "Step",
    "agent": "Agent",
    "status": "Status",
    "critical": "Critical",
    "model": "Model",
    "tier": "Tier",
    **TIMED,
    "scores": "Scores",
}
AGENTS = {
    "agent": "Agent",
    "steps": "Steps",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "skipped": "Skipped",
    "success_rate": "Success rate",
    **TIMED,
    "scores": "Scores",
}


def workflow_of(result: Result) -> str:
    """The workflow, its version and its family."""
    workflow = result.get("workflow")
    if not workflow:
        return absent("none, a bare scorecard")
    return phrase(
        shown(workflow.get("id")),
        small(" version ", shown(workflow.get("version"))),
        line(small(shown(workflow.get("family"), "no family"))),
    )


def part_tables(result: Result) -> list[Table]:
    """Steps and agents as tables."""
    return [
        _part_table("Steps", STEPS, result.get("step_scores") or ()),
        agent_table(result.get("agent_scores") or ()),
    ]


def agent_table(agents: Sequence[Result]) -> Table:
    """What each agent did, as a table."""
    return _part_table("Agents", AGENTS, agents)


def _part_table(title: str, columns: Mapping[str, str], parts: Sequence[Result]) -> Table:
    numeric = {*TIMED, "steps", "succeeded", "failed", "skipped", "success_rate"}
    return Table(
        title,
        [Column(name, "n" if key in numeric else "") for key, name in columns.items()],
        [[_cell(part, key) for key in columns] for part in parts[:MAX_ROWS]],
        absent="none reported",
    )


def _cell(part: Result, key: str) -> str:
    value, unreported = part.get(key), part.get("unreported") or {}
    if key == "status":
        return verdict(value)
    if key == "scores":
        lines = [line(f"{name}: ", shown(score)) for name, score in (value or {}).items()]
        return phrase(*lines) if lines else absent("none")
    missing = f"not reported by {shown(unreported[key])} of its steps" if key in unreported else ""
    return shown(value, missing or "not reported")


def about_facts(result: Result) -> list[tuple[str, str]]:
    """What was graded, and with what."""
    dataset, spent = result.get("dataset") or {}, result.get("operations") or {}
    version = small(" version ", shown(dataset.get("version"))) if dataset else ""
    names = {"sample_id": "Sample", "group": "Group", "tags": "Tags", "status": "Status"}
    facts = [
        ("Workflow", workflow_of(result)),
        ("Dataset", phrase(shown(dataset.get("id")), version)),
        *((label, shown(result.get(key), "none")) for key, label in names.items()),
        ("Judge", shown(result.get("judge"), "none")),
    ]
    for kind in ("profile", "rubric"):
        why = ((result.get("selection") or {}).get(kind) or {}).get("why")
        chosen = [shown(result.get(kind), "none"), *([why] if why else [])]
        facts.append((kind.capitalize(), listed(chosen)))
    labels = {"latency_ms": "Latency, ms", **SPENT}
    facts += [(label, shown(spent.get(key), "not reported")) for key, label in labels.items()]
    return [*facts, *((label, shown(result.get(key))) for key, label in SYSTEMS.items())]


def digest_facts(result: Result) -> list[tuple[str, str]]:
    """The digests of everything that made a grade."""
    digests: Mapping[str, str] = result.get("digests") or {}
    return [(f"Digest of the {name}", code(value)) for name, value in digests.items()]
