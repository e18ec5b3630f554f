"""What the release rules, and the checks and gates of tool schemas, make of their golden inputs.
Words are not behaviour and are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.files.json_files import Document
from assay.grading.grade import grade
from assay.records.reading import read_scorecard
from assay.release.pairs import pair_up
from assay.release.promotion import promote
from assay.release.sides import Side, SideBuilder
from assay.tools import gate as gates
from assay.tools.checks import Check, ModuleLists, run_checks
from assay.tools.source import Module, SchemaFinding, ToolSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.grading.policy import Rules
    from assay.release.policy import ReleaseRules
    from assay.release.promotion import Promotion
    from assay.tools.policy import SchemaRules


def release_behaviour(
    probe: dict[str, Any], grading: Rules, policies: Sequence[ReleaseRules]
) -> list[Any]:
    """The promotion of one golden comparison under each policy."""
    ours, theirs = (
        _side(name, probe[name], probe["n"], grading) for name in ("candidate", "baseline")
    )
    return [
        _promoted(promote(pair_up(ours, theirs), rules, shrinkage=grading.shrinkage))
        for rules in policies
    ]


def _side(name: str, said: dict[str, Any], n: int, rules: Rules) -> Side:
    """A side of `n` samples: `score` for all of them; `scores`, `gates` and `missing` for single
    ones by their number; `criterion` for what else it has.
    """
    builder = SideBuilder(name)
    for index in range(n):
        key = str(index)
        if index in said.get("missing", ()):
            continue
        criterion = {
            "name": "quality",
            "raw_score": said.get("scores", {}).get(key, said["score"]),
            "formula_id": "zero_one",
            "weight": 1,
        }
        card = {
            "schema": "assay.scorecard/1",
            "run_id": f"{name}-{index}",
            "sample_id": key,
            "hard_gates": {
                "no_policy_violation": True,
                "looks_right": True,
                **said.get("gates", {}).get(key, {}),
            },
            "criteria": [{**criterion, **said.get("criterion", {})}],
        }
        builder.add(
            grade(read_scorecard(Document(card, name)), rules),
            attempt=None,
            digest=key,
            content=f"{name} {key}",
        )
    return builder.side({})


def _promoted(found: Promotion) -> dict[str, Any]:
    comparison = found.comparison
    ends = (comparison.difference.value, comparison.difference.low, comparison.difference.high)
    return {
        "outcome": found.outcome,
        "rules": [[rule.id, rule.holds] for rule in found.rules],
        "difference": [None if end is None else f"{end:.6f}" for end in ends],
        "claims": list(comparison.claims),
        "missing": found.missing,
    }


def tool_checks(probe: dict[str, Any]) -> list[Any]:
    """The outcomes of the veto checks on a golden schema."""
    modules = tuple(Module(name, None, "import", 1, True) for name in probe.get("modules", ()))
    schema = ToolSchema(
        "flowmcp", "golden.mjs", "golden", "golden", probe["main"], "{}", b"", modules
    )
    lists = ModuleLists(probe.get("bad"), frozenset(probe.get("telemetry", ())))
    return [
        [check.id, check.outcome]
        for check in run_checks(schema, lists=lists, aliases=probe.get("aliases", {}))
    ]


def tool_gates(probe: dict[str, Any], rules: SchemaRules) -> list[Any]:
    """The rules of the production gate on a golden node, as a schema and as a namespace."""
    findings = (
        None
        if probe["findings"] is None
        else [SchemaFinding("golden", level, "", "", "", None) for level in probe["findings"]]
    )
    checks = (
        None
        if findings is None
        else [Check(name, outcome, "", {}) for name, outcome in probe["checks"]]
    )
    schema = gates.schema_gate(
        "golden",
        probe["node"],
        rules,
        findings=findings,
        checks=checks,
        tools=probe["tools"],
        rejected=probe.get("rejected", ()),
    )
    whole = gates.namespace_gate(
        "golden",
        {"namespaceAggregate": probe["node"] or {"status": "pending"}, **probe.get("index", {})},
        rules,
    )
    return [[[rule.id, rule.holds] for rule in result.rules] for result in (schema, whole)]
