"""The results of the rules for tool schemas on their golden inputs, and their closed lists. Wording
is not behaviour and is left out.
"""

from __future__ import annotations

from typing import Any

from assay.families.tools import aging, answers, gate, names, status, veto
from assay.families.tools.aggregate import aggregate
from assay.families.tools.answers import http_score
from assay.families.tools.checks import ModuleLists, VetoCheck, run_checks
from assay.families.tools.policy import SchemaRules
from assay.families.tools.protocol import build_prompts
from assay.families.tools.records import NamespaceIndex, SchemaFinding, SchemaNode
from assay.families.tools.report import grade_scores
from assay.families.tools.source import Module, ToolSchema
from assay.families.tools.validation import validate
from assay.library.golden_inputs import outcomes
from assay.library.shelf import Shelf
from assay.records.typed import convert


def scoring() -> list[Any]:
    """Golden answers, ages, prompts, checks and validations."""
    return [*outcomes("tool_scores.jsonl", _score), answers.NA_REASONS, aging.LIMITS]


def _score(probe: dict[str, Any]) -> Any:
    if probe["kind"] == "http":
        return http_score(probe["status"])
    if probe["kind"] == "age":
        return list(aging.age_score(probe["dimension"], probe["days"], probe["score"]))
    if probe["kind"] == "prompts":
        return build_prompts(
            probe["description"], probe["tools"], when_to_use=probe.get("when_to_use")
        )
    modules = tuple(Module(name, None, "import", 1, True) for name in probe.get("modules", ()))
    schema = ToolSchema(
        "flowmcp", "golden.mjs", "golden", "golden", probe["main"], "{}", b"", modules
    )
    if probe["kind"] == "checks":
        lists = ModuleLists(probe.get("bad"), frozenset(probe.get("telemetry", ())))
        checked = run_checks(schema, lists=lists, aliases=probe.get("aliases", {}))
        return [[check.id, check.outcome] for check in checked]
    # Only an error moves a grade; warnings may be reworded under the same version.
    return [
        [finding.rule, finding.path] for finding in validate(schema) if finding.level == "error"
    ]


def grading() -> list[Any]:
    """Golden letters, statuses, rollups and gates."""
    rules = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp@1"))
    areas = [(area.name, area.tier, area.persona, area.skill) for area in names.AREAS.values()]
    graded = outcomes("tool_grades.jsonl", lambda probe: _grade(probe, rules))
    return [*graded, veto.TRIGGERS, areas]


def _grade(probe: dict[str, Any], rules: SchemaRules) -> Any:
    if probe["kind"] == "rollup":
        return [status.rollup_status(probe["statuses"]), status.rollup_grade(probe["grades"])]
    if probe["kind"] == "gate":
        return _gates(probe, rules)
    if probe["kind"] == "report":
        verdict = grade_scores(probe["scores"], rules, validation_passed=probe["validation"])
        return [verdict.grade, verdict.raw_grade, answers.shown(verdict.score)]
    graded = aggregate(
        list(zip(probe["scores"], probe["weights"], strict=True)),
        probe["tier"],
        rules,
        veto=probe["veto"] and probe["veto"]["triggeredBy"],
        group_bound=probe["group_bound"],
        cap=probe["cap"],
    )
    return [
        graded.grade,
        graded.raw_grade,
        answers.shown(graded.mean),
        graded.status,
        graded.max_attainable,
        status.letter_status(graded.grade) if graded.grade else None,
    ]


def _gates(probe: dict[str, Any], rules: SchemaRules) -> list[Any]:
    """The production gate on a golden node, as a schema and as a namespace."""
    source = gate.Inspection(unread="")
    if probe["findings"] is not None:
        source = gate.Inspection(
            [SchemaFinding("golden", level, "", "", "", None) for level in probe["findings"]],
            [VetoCheck(name, outcome, "", {}) for name, outcome in probe["checks"]],
        )
    pending = {"status": "pending"}
    whole = {"toolsAggregate": pending, "tools": {}, **(probe["node"] or {})}
    index = {
        "indexVersion": 2,
        "namespace": "golden",
        "updatedAt": "never",
        "status": "pending",
        "summary": {},
        "about": pending,
        "description": pending,
        "skills": {},
        "schemas": {},
        "blockers": [],
        "namespaceAggregate": probe["node"] or pending,
        **probe.get("index", {}),
    }
    schema = gate.schema_gate(
        "golden",
        convert(whole, SchemaNode) if probe["node"] else None,
        rules,
        source._replace(tools=probe["tools"]),
        stale=(),
        removed=(),
        untested=(),
        rejected=probe.get("rejected", ()),
    )
    namespace = gate.namespace_gate("golden", convert(index, NamespaceIndex), rules, stale=())
    return [[[rule.id, rule.holds] for rule in result.rules] for result in (schema, namespace)]
