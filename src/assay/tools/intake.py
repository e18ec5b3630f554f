"""What comes into a grading tree from a file: a schema, a folder of one namespace, and the scores
of the file protocol as an entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.tools.checks import CLEAN, GRADER, VETO
from assay.tools.entry import Subject, build_entry, regrading_trigger
from assay.tools.hashing import hash8
from assay.tools.manifest import flowmcp_version
from assay.tools.names import DETERMINISTIC, NEUTRAL, NON_DETERMINISTIC, iso
from assay.tools.tree import OWN_HARNESS, Tree, Written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from assay.tools.checks import Check
    from assay.tools.source import SchemaFinding, ToolSchema

AREA = "tools-aggregate-schema"
VALIDATION_GRADER = {"kind": "script", "name": "assay-schema-validation", "version": "1.0.0"}


def import_one(
    tree: Tree, schema: ToolSchema, findings: Sequence[SchemaFinding], *, now: datetime
) -> Written:
    """Put one schema into the tree and make the index of its namespace anew."""
    tree.check_import(schema)
    with tree.locked("providers", schema.namespace):
        written = tree.import_schema(schema, findings, now=now)
        tree.rebuild("providers", schema.namespace)
    return written


def check_open(tree: Tree, schema: ToolSchema, checks: Sequence[Check]) -> None:
    """Refuse to grade a rejected schema, unless every check that rejected it is determined now. A
    veto of a person or a model is lifted only by `record`.
    """
    tree.check_import(schema)
    node = tree.node(AREA, {"namespace": schema.namespace, "schema": schema.base})
    for entry in node.vetoes:
        veto = entry["categoricalVeto"]
        by_us = veto["graderIdentity"] == GRADER
        if not by_us or not any(
            check.id == veto["triggeredBy"] and check.outcome in (CLEAN, VETO) for check in checks
        ):
            raise InputError(
                "FMC-015",
                f"{schema.schema_id} is rejected ({veto['triggeredBy']}).",
                fix=(
                    "Only a whole new evaluation lifts a veto: `assay tools record --mode full"
                    " --trigger ...`."
                ),
            )


def record_scores(
    tree: Tree,
    schema: ToolSchema,
    findings: Sequence[SchemaFinding],
    scores: dict[str, Any],
    *,
    veto: dict[str, Any] | None,
    now: datetime,
) -> str:
    """The scores of the file protocol as an entry: the two judged answers, and the validation as
    the deterministic one.

    The validation has the weight 0: a failed one blocks or vetoes, a passed one earns nothing, so
    that the entry's grade is the report's.
    """
    base = schema.base
    names = {"namespace": schema.namespace, "schema": base}
    if veto is None and any(finding.level == "error" for finding in findings):
        with tree.locked("providers", schema.namespace):
            return tree.stored(AREA, names)[
                -1
                # the import has just blocked it: a schema that fails its validation is not graded
            ].path
    model = scores["harness"].get("model")
    creator = scores["creator"]
    grader = {
        "kind": "llm",
        "name": str(creator.get("skill") or scores["harness"].get("name") or "not stated"),
        "version": str(creator.get("skillVersion") or "not stated"),
    }
    answers: list[dict[str, Any]] = [
        {
            "questionId": "Q-schemaStructure",
            "score": "pass" if veto is None else "fail",
            "weight": 0,
            "determinism": DETERMINISTIC,
            "graderIdentity": VALIDATION_GRADER,
            "timestamp": iso(now),
            "evidence": (
                "the deterministic validation has no errors"
                if veto is None
                else "see categoricalVeto"
            ),
        }
    ]
    for item in scores["scores"]:
        answer = {
            "questionId": f"Q-{item['dimension']}",
            "score": item["score"],
            "weight": 1,
            "determinism": NON_DETERMINISTIC,
            "graderIdentity": grader,
            "llmModel": str(model or "not stated"),
            "selectionContext": {"groupId": AREA, "personaIds": [NEUTRAL]},
            "timestamp": scores["timestamp"],
        }
        answers.append(
            answer | {key: item[key] for key in ("naReason", "reasoning") if item.get(key)}
        )
    subject = Subject(
        f"{schema.namespace}.{base}",
        AREA,
        hash8(schema.main),
        flowmcp_version(schema.main) if schema.kind == "flowmcp" else "unknown",
    )
    with tree.locked("providers", schema.namespace):
        node = tree.node(AREA, names)
        trigger = None
        if node.vetoes and veto is None:
            trigger = regrading_trigger(
                "scheduled", previous=node.vetoes[-1]["gradingId"], now=now
            )  # a whole new evaluation, which names what it lifts
        harness = str(scores["harness"].get("name") or OWN_HARNESS)
        built = build_entry(
            subject,
            answers,
            tree.rules,
            now=now,
            harness=harness,
            veto=veto,
            trigger=trigger,
            systems=tree.systems,
        )
        path = tree.write_entry(built.entry, names, now=now)
        tree.rebuild("providers", schema.namespace)
    return path
