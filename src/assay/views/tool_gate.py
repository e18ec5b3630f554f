"""The view of the production gate of tool schemas: its outcome, why, and every rule."""

from __future__ import annotations

from assay.errors import few
from assay.records.tool_gate import ToolGate
from assay.views.blocks import Column, Decided, Paragraph, Part, Table, section
from assay.views.grade_line import outcome
from assay.views.pieces import Piece, code, shown, verdict

MAX_RESULTS = 200
_VERDICTS = {True: "holds", False: "violated", None: "undetermined"}


def gate_title(gate: ToolGate) -> str:
    """What was asked about, in a title."""
    names = [result.subject for result in gate.results] or ["nothing"]
    return f"Production gate of {few(names, 1)}"


def gate_outcome(gate: ToolGate) -> Piece:
    """Passed, failed, or undetermined."""
    if gate.passed:
        return verdict("passed")
    return verdict("failed" if gate.violated or not gate.results else "undetermined")


def first_reason(gate: ToolGate) -> str:
    """The first rule that does not hold, in words."""
    closed = [
        (rule.holds is None, f"{result.subject}: {rule.id}: {rule.reason}")
        for result in gate.results
        for rule in result.rules
        if rule.holds is not True
    ]
    if not closed:
        return "every rule holds" if gate.results else "nothing was asked about"
    more = f" (and {len(closed) - 1} more)" if len(closed) > 1 else ""
    return min(closed, key=lambda pair: pair[0])[1] + more


def gate_view(gate: ToolGate) -> list[Part]:
    """The decision, and each subject with its rules."""
    columns = ("Rule", "Verdict", Column("Why", "wide"))
    return [
        Decided(gate_outcome(gate), shown(gate.policy, "no policy"), first_reason(gate)),
        *(
            section(
                result.subject,
                Paragraph(outcome(result.passed)),
                Table(
                    f"Rules for {result.subject}",
                    columns,
                    [
                        [code(rule.id), verdict(_VERDICTS[rule.holds]), shown(rule.reason)]
                        for rule in result.rules
                    ],
                    kind="stack rules",
                ),
            )
            for result in gate.results[:MAX_RESULTS]
        ),
    ]
