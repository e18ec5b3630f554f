"""The production gate of tool schemas: grade B or better, stable, no veto, a clean validation, and
no failing primitive left in it.

A rule holds, does not hold, or is undetermined (None). A gate opens only if every rule holds. No
file is opened here, so that a gate can be decided again from a ledger. `cli` gathers the evidence
from a tree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from assay.errors import InputError, printable
from assay.families.tools.checks import ModuleLists, VetoCheck, run_checks
from assay.families.tools.ecma import hash8
from assay.families.tools.index import ENTRIES
from assay.families.tools.legibility import assess
from assay.families.tools.manifest import tools_of
from assay.families.tools.policy import SchemaRules, at_least
from assay.families.tools.reading import schema_of
from assay.families.tools.records import (
    GateRule,
    IndexNode,
    NamespaceIndex,
    SchemaFinding,
    SchemaNode,
    ToolGate,
    ToolGateResult,
)
from assay.families.tools.status import NODE_REJECTED, STABLE
from assay.families.tools.validation import MIN_TESTS, count_tests
from assay.families.tools.veto import CLEAN, NOT_APPLICABLE, TRIGGERS, VETO
from assay.registry import near_miss


class SchemaSource(NamedTuple):
    """The snapshot of one schema: its file in the tree, and its bytes or why they cannot be had."""

    file: str
    data: bytes | None
    unread: str = ""


class GateEvidence(NamedTuple):
    """Everything that the gate's decision depends on, besides its policy."""

    indexes: Mapping[str, NamespaceIndex]
    """By namespace, as they are read again: keys in their one order."""
    sources: Mapping[str, SchemaSource]
    """By `namespace.schema`; without those that the tree has no snapshot of."""
    modules: ModuleLists
    aliases: Mapping[str, list[str]]
    stale: Mapping[str, Mapping[str, Sequence[str]]]
    """By namespace and node, the answers that were stale when the gate was decided."""


class Inspection(NamedTuple):
    """What the source of a schema shows, or why it cannot be read."""

    findings: Sequence[SchemaFinding] = ()
    checks: Sequence[VetoCheck] = ()
    tools: Collection[str] | None = None
    """The tools in the source."""
    tested: bool = True
    """Whether tools of this kind carry tests; those of a server don't."""
    unread: str | None = None


def schemas_named(name: str, index: NamespaceIndex, *, where: str = "") -> list[str]:
    """The schemas that a name means: all of a namespace, or the one it names."""
    namespace, _, schema = name.partition(".")
    if schema and schema not in index.schemas:
        raise InputError(
            "IDX-006",
            f"'{namespace}' has no schema '{schema}'.{near_miss(schema, index.schemas)}",
            where=where,
        )
    return [schema] if schema else list(index.schemas)


def decide(names: Sequence[str], evidence: GateEvidence, rules: SchemaRules) -> ToolGate:
    """The gate of everything that was asked for: each schema, and a namespace that was asked for as
    a whole.
    """
    results = []
    for name in names:
        namespace, _, tool_name = name.partition(".")
        index = evidence.indexes[namespace]
        for schema in schemas_named(name, index):
            subject, node = f"{namespace}.{schema}", index.schemas.get(schema)
            inspection, untested = _inspect(subject, node, evidence)
            context = rejected_context(index, schema) if inspection.unread is None else ()
            results.append(
                schema_gate(
                    subject,
                    node,
                    rules,
                    inspection,
                    rejected=context,
                    stale=_stale_below(f"schemas.{schema}.", evidence.stale.get(namespace, {})),
                    removed=_removed(index, schema, inspection.tools),
                    untested=untested,
                )
            )
        if not tool_name:
            stale = _stale_below("namespaceAggregate", evidence.stale.get(namespace, {}))
            results.append(namespace_gate(namespace, index, rules, stale=stale))
            if not index.schemas:  # without members nothing shows what its grading was about
                empty = GateRule("primitives", None, "the namespace has no schemas")
                results.append(_result(namespace, (empty,)))
    return ToolGate(
        bool(results) and all(result.passed for result in results),
        tuple(results),
        rules.id,
        *rules.systems,
    )


def _stale_below(prefix: str, nodes: Mapping[str, Sequence[str]]) -> list[str]:
    """The stale answers of the nodes that a prefix covers, each with its node."""
    return [
        f"{path.rpartition('.')[2]} {answer}"
        for path, answers in sorted(nodes.items())
        if path.startswith(prefix)
        for answer in answers
    ]


def _removed(index: NamespaceIndex, schema: str, tools: Collection[str] | None) -> list[str]:
    """The graded tools in the index that the schema no longer has: one of them may have another
    name now. A vetoed one is marked.
    """
    removed: dict[str, str] = {}
    entries = index.summary.get(ENTRIES) or {}
    for key, entry in sorted(entries.items()):
        parts = key.split("/")
        if tools is not None and parts[:2] == [schema, "tools"] and parts[2] not in tools:
            veto = f" (veto {entry['veto']})" if entry.get("veto") else ""
            removed[parts[2]] = removed.get(parts[2]) or veto
    return [printable(f"{name}{veto}") for name, veto in removed.items()]


def _result(subject: str, rules: tuple[GateRule, ...]) -> ToolGateResult:
    return ToolGateResult(subject, all(rule.holds is True for rule in rules), rules)


def unread_reason(file: str, error: InputError) -> str:
    """Why a snapshot cannot be read; the same wherever the tree lies."""
    return printable(f"{file}: {error.message} {error.fix}".rstrip())


def _inspect(
    subject: str, node: SchemaNode | None, evidence: GateEvidence
) -> tuple[Inspection, list[str]]:
    """What the source of a schema shows, and its tools with too few tests: a manifest that is gone
    or was edited does not hide them.
    """
    source = evidence.sources.get(subject)
    if node is None or source is None:
        return Inspection(unread="the tree has no source for it"), []
    if source.data is None:
        return Inspection(unread=source.unread), []
    try:
        path = f"providers/{subject.replace('.', '/', 1)}/{source.file}"
        schema = schema_of(path, source.data)
    except InputError as error:
        return Inspection(unread=unread_reason(source.file, error)), []
    own = hash8(schema.main)
    if node.snapshot is None or own != node.snapshot.hash:
        return Inspection(unread=f"{source.file} was changed: its hash is {own}"), []
    tools, tested = tools_of(schema.main), schema.kind != "mcp"
    inspection = Inspection(
        assess(schema),
        run_checks(schema, lists=evidence.modules, aliases=evidence.aliases),
        list(tools),
        tested,
    )
    return inspection, [name for name in tools if tested and count_tests(tools[name]) < MIN_TESTS]


def schema_gate(
    name: str,
    node: SchemaNode | None,
    rules: SchemaRules,
    source: Inspection,
    *,
    stale: Sequence[str],
    removed: Sequence[str],
    untested: Sequence[str],
    rejected: Sequence[str] = (),
) -> ToolGateResult:
    """The gate of one schema, from its node in the index and what its source shows. `rejected`
    names vetoed nodes that describe it; `removed`, the graded tools that it no longer has;
    `untested`, those with too few tests.
    """
    if node is None:
        return _result(name, (GateRule("graded", None, "the tree does not contain it"),))
    primitives = _primitives(node.tools, source, removed, untested)
    if source.unread is not None:
        validation = GateRule("validation", None, source.unread)
        veto = GateRule("no_veto", False if node.status == NODE_REJECTED else None, source.unread)
    else:
        errors = [finding.text() for finding in source.findings if finding.level == "error"]
        validation = GateRule("validation", not errors, errors[0] if errors else "no errors")
        veto = _schema_veto(node, source.checks, rejected)
    return _result(name, (*_standing(node, rules, stale), primitives, validation, veto))


def _standing(
    node: SchemaNode | IndexNode,
    rules: SchemaRules,
    stale: Sequence[str],
    what: str = "",
) -> tuple[GateRule, GateRule]:
    """Whether a node has the grade and the status that production needs. Its status is undetermined
    once an answer that it rests on is stale.
    """
    wanted = rules.policy.production_from
    good = at_least(node.grade, wanted) if node.grade is not None else None
    why = f": {node.reason}" if node.reason else ""
    why += "".join(f"; {answer}" for answer in (*_other_versions(node, rules), *stale)[:10])
    if stale:
        why += "; answer again: `assay tools record FILE --trigger scheduled`"
    return (
        GateRule(
            "grade", good, f"{what or 'grade'} {node.grade or 'none'}, needs {wanted} or better"
        ),
        GateRule(
            "stable",
            None if node.status == STABLE and stale else node.status == STABLE,
            f"{what or 'status'} {node.status}{why}",
        ),
    )


def _other_versions(node: SchemaNode | IndexNode, rules: SchemaRules) -> list[str]:
    """The nodes that were scored under another version than the gate shows."""
    parts = {"": node} if isinstance(node, IndexNode) else {"": node.tools_aggregate, **node.tools}
    return [
        f"{name} scored under {part.scoring_system}".lstrip()
        for name, part in parts.items()
        if part.scoring_system not in (None, rules.systems.scoring)
    ]


def _schema_veto(
    node: SchemaNode, checks: Sequence[VetoCheck], rejected: Sequence[str]
) -> GateRule:
    vetoes = [check.reason for check in checks if check.outcome == VETO]
    vetoes += [f"{name} is rejected" for name in rejected]
    if vetoes or node.status == NODE_REJECTED:
        return GateRule("no_veto", False, vetoes[0] if vetoes else node.reason or "rejected")
    trigger_checks = [check for check in checks if check.id in TRIGGERS]
    unclear = [check for check in trigger_checks if check.outcome not in (CLEAN, NOT_APPLICABLE)]
    return GateRule(
        "no_veto",
        None if unclear else True,
        "; ".join(f"{check.id}: {_answer(check)}" for check in unclear or trigger_checks),
    )


def _answer(check: VetoCheck) -> str:
    named = f"{NOT_APPLICABLE} " if check.outcome == NOT_APPLICABLE else ""
    return f"{named}{check.reason}"


def _primitives(
    graded: Mapping[str, IndexNode],
    source: Inspection,
    removed: Sequence[str],
    untested: Sequence[str],
) -> GateRule:
    """Whether every tool of the source is stable and tested; with the graded ones that are not in
    it.
    """
    tools = source.tools
    if not tools:
        why = "its tools could not be read" if tools is None else "it has no tools"
        return GateRule("primitives", None, why)
    statuses = {tool: graded[tool].status if tool in graded else "not graded" for tool in tools}
    failing = [f"{tool} is {status}" for tool, status in statuses.items() if status != STABLE]
    failing += [
        f"{tool} has fewer than {MIN_TESTS} tests" for tool in untested if statuses[tool] == STABLE
    ]
    return GateRule(
        "primitives",
        not failing,
        (
            "; ".join(failing[:10])
            or f"every tool is stable ({len(tools)})"
            + ("" if source.tested else f"; tests: {NOT_APPLICABLE}, a server has none")
        )
        + (f"; graded earlier, and gone: {', '.join(removed[:10])}" if removed else ""),
    )


def rejected_context(index: NamespaceIndex, schema: str | None) -> list[str]:
    """The vetoed nodes of a namespace that describe a schema, or the whole: its About page,
    description, skills and aggregate; and the same schema under another name.
    """
    context = {
        "about": index.about,
        "description": index.description,
        "namespaceAggregate": index.namespace_aggregate,
        **{
            f"skill {name}": node
            for name, node in index.skills.items()
            if schema is None or name.startswith(f"{schema}.")
        },
    }
    vetoed = [name for name, node in context.items() if node.status == NODE_REJECTED]
    return vetoed if schema is None else vetoed + _vetoed_twins(index, schema)


def _vetoed_twins(index: NamespaceIndex, schema: str) -> list[str]:
    """The rejected schemas with the same content, also those that only the index remembers: neither
    another name nor the repair of the first one lifts a veto.
    """
    snapshot = index.schemas[schema].snapshot
    hashed = snapshot.hash if snapshot else "none"
    entries = index.summary.get(ENTRIES) or {}
    twins = {}
    for key, entry in sorted(entries.items()):
        name, (node, _, own) = key.partition("/")[0], key.rpartition("/")
        if name == schema or not own.startswith(hashed) or not entry.get("veto"):
            continue
        here = index.schemas.get(name)
        if here is None or here.status == NODE_REJECTED:
            twins[name] = f"{name}, the same schema,"
        elif not any(
            later > key and later.startswith(f"{node}/{hashed}") and not entry.get("veto")
            for later, entry in entries.items()
        ):  # no later grading of this content: what lifted the veto was another version
            twins.setdefault(name, f"an earlier version of {name}, the same schema,")
    return [twins[name] for name in sorted(twins)]


def namespace_gate(
    name: str, index: NamespaceIndex, rules: SchemaRules, *, stale: Sequence[str]
) -> ToolGateResult:
    """The gate of a whole namespace: the grading that sums up its tools is good enough and
    still valid.
    """
    rejected = rejected_context(index, None)
    spoiled = [f"{blocker.node}: {blocker.reason}" for blocker in index.blockers if blocker.broken]
    if rejected:
        veto = GateRule("no_veto", False, f"{rejected[0]} is rejected")
    elif spoiled:
        veto = GateRule("no_veto", None, spoiled[0])
    else:
        veto = GateRule("no_veto", True, "nothing in it is rejected")
    standing = _standing(index.namespace_aggregate, rules, stale, "namespaceAggregate")
    return _result(f"{name} (namespaceAggregate)", (*standing, veto))
