"""The functions of tool-schema grading on plain data: tests state records as JSON shows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from assay.families.tools import aggregate, aging, entry, gate, veto
from assay.families.tools.policy import CURRENT
from assay.families.tools.records import (
    CategoricalVeto,
    GradedAnswer,
    GradingEntry,
    NamespaceIndex,
    Persona,
    RegradingTrigger,
    SchemaNode,
    ToolGateResult,
    document,
)

_ANSWER = {
    "questionId": "Q-x",
    "weight": 1,
    "determinism": "deterministic",
    "graderIdentity": {"kind": "script", "name": "probe", "version": "1"},
    "timestamp": "2026-05-01T12:00:00Z",
}


def _record(tree: Any, kind: type) -> Any:
    return msgspec.convert(tree, kind) if isinstance(tree, dict) else tree


def answers(listed: Any) -> list[GradedAnswer]:
    return [_record({**_ANSWER, **item}, GradedAnswer) for item in listed]


def aggregate_answers(listed: Any, tier: str, rules: Any, **options: Any) -> aggregate.Aggregate:
    options["veto"] = _record(options.get("veto"), CategoricalVeto)
    return aggregate.aggregate_answers(answers(listed), tier, rules, **options)


def latest_answers(listed: Any) -> Any:
    return document(aggregate.latest_answers(answers(listed)))


def age_answers(listed: Any, now: Any, **options: Any) -> tuple[Any, list[str]]:
    aged, notes = aging.age_answers(answers(listed), now, **options)
    return document(aged), notes


def _subject(subject: entry.EntrySubject) -> entry.EntrySubject:
    return subject._replace(persona=_record(subject.persona, Persona))


def build_entry(subject: Any, listed: Any, rules: Any, **options: Any) -> Any:
    rules = rules.under(options.pop("systems", rules.systems))
    for key, kind in (
        ("veto", CategoricalVeto),
        ("trigger", RegradingTrigger),
        ("last_full", GradingEntry),
    ):
        options[key] = _record(options.get(key), kind)
    made, result = entry.build_entry(_subject(subject), listed, rules, **options)
    return SimpleNamespace(entry=document(made), result=result)


def blocked_entry(subject: Any, reason: str, **options: Any) -> Any:
    return document(entry.blocked_entry(_subject(subject), reason, **options))


def regrading_trigger(
    kind: Any, issue: Any = None, requested_by: Any = None, **options: Any
) -> Any:
    trigger = entry.Trigger(kind, issue, requested_by)
    return document(entry.regrading_trigger(trigger, **options))


def make_veto(triggered_by: Any, **options: Any) -> Any:
    return document(veto.make_veto(triggered_by, **options))


def as_veto(tree: Any) -> Any:
    return _record(tree, CategoricalVeto)


def semantic_faults(tree: Any) -> list[str]:
    return entry.semantic_faults(_record(tree, GradingEntry))


def recomputed(tree: Any, rules: Any, systems: Any = CURRENT) -> Any:
    return entry.recomputed(_record(tree, GradingEntry), rules.under(systems))


def consistency_faults(tree: Any, rules: Any, again: Any, systems: Any = CURRENT) -> list[str]:
    return entry.consistency_faults(_record(tree, GradingEntry), rules.under(systems), again)


def schema_gate(
    name: str,
    node: Any,
    rules: Any,
    *,
    findings: Any,
    checks: Any,
    tools: Any = None,
    rejected: Any = (),
    unread: str | None = None,
) -> ToolGateResult:
    source = (
        gate.Inspection(tools=tools, unread=unread or "the tree has no source for it")
        if findings is None or checks is None
        else gate.Inspection(findings, checks, tools)
    )
    whole = node and {"toolsAggregate": {"status": "pending"}, "tools": {}, **node}
    return gate.schema_gate(
        name,
        _record(whole, SchemaNode),
        rules,
        source,
        stale=(),
        removed=(),
        untested=(),
        rejected=rejected,
    )


def namespace_gate(name: str, index: Any, rules: Any) -> ToolGateResult:
    return gate.namespace_gate(name, _record(index, NamespaceIndex), rules, stale=())
