"""The production gate on what was asked for, from all that it is decided on: the indexes, the
sources of the schemas and the lists of the checks.

Nothing is opened here, so that a gate can be decided again from what a ledger keeps. Whoever
gathers what it is decided on: `cli.schema_gate`, from a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError, printable
from assay.registry import near_miss
from assay.tools import gate as gates
from assay.tools.assess import assess
from assay.tools.checks import ModuleLists, run_checks
from assay.tools.hashing import hash8
from assay.tools.manifest import tools_of
from assay.tools.reading.files import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.tools.policy import SchemaRules


class Source(NamedTuple):
    """The snapshot of one schema: its file in the tree, and its bytes or why they cannot be had."""

    file: str
    data: bytes | None
    unread: str = ""


class Held(NamedTuple):
    """All that the gate is decided on, beside its policy."""

    indexes: Mapping[str, dict[str, Any]]
    """By namespace, as they are read again: keys in their one order."""
    sources: Mapping[str, Source]
    """By `namespace.schema`; without those that the tree holds no snapshot of."""
    modules: ModuleLists
    aliases: Mapping[str, list[str]]


def asked_of(name: str, index: Mapping[str, Any], *, where: str = "") -> list[str]:
    """The schemas that a name means: all of a namespace, or the one it names."""
    namespace, _, schema = name.partition(".")
    if schema and schema not in index["schemas"]:
        raise InputError(
            "IDX-006",
            f"'{namespace}' has no schema '{schema}'.{near_miss(schema, index['schemas'])}",
            where=where,
        )
    return [schema] if schema else list(index["schemas"])


def decide(asked: Sequence[str], held: Held, rules: SchemaRules) -> list[gates.GateResult]:
    """The gate of everything that was asked for: each schema, and a namespace that was asked for as
    a whole.
    """
    results = []
    for name in asked:
        namespace, _, schema = name.partition(".")
        index = held.indexes[namespace]
        results += [_schema(namespace, one, index, held, rules) for one in asked_of(name, index)]
        if not schema:
            results.append(gates.namespace_gate(namespace, index, rules))
    return results


def gate_document(results: Sequence[gates.GateResult], rules: SchemaRules) -> dict[str, Any]:
    """The verdict as JSON."""
    return {
        "passed": bool(results) and all(result.passed for result in results),
        "results": [result.document() for result in results],
        "policy": rules.id,
        **rules.systems.document(),
    }


def unread_reason(file: str, error: InputError) -> str:
    """Why a snapshot cannot be read; the same wherever the tree lies."""
    return printable(f"{file}: {error.message} {error.fix}".rstrip())


def _schema(
    namespace: str, name: str, index: dict[str, Any], held: Held, rules: SchemaRules
) -> gates.GateResult:
    subject, node = f"{namespace}.{name}", index["schemas"].get(name)
    source = held.sources.get(subject)
    if node is None or source is None:
        return gates.schema_gate(subject, node, rules, findings=None, checks=None)
    if source.data is None:
        return gates.schema_gate(
            subject, node, rules, findings=None, checks=None, unread=source.unread
        )
    try:
        schema = schema_of(f"providers/{namespace}/{name}/{source.file}", source.data)
    except InputError as error:
        return gates.schema_gate(
            subject,
            node,
            rules,
            findings=None,
            checks=None,
            unread=unread_reason(source.file, error),
        )
    if hash8(schema.main) != node["snapshot"]["hash"]:
        return gates.schema_gate(
            subject,
            node,
            rules,
            findings=None,
            checks=None,
            unread=f"{source.file} was changed: its hash is {hash8(schema.main)}",
        )
    return gates.schema_gate(
        subject,
        node,
        rules,
        findings=assess(schema),
        checks=run_checks(schema, lists=held.modules, aliases=held.aliases),
        tools=list(tools_of(schema.main)),
        rejected=gates.rejected_beside(index, name),
    )
