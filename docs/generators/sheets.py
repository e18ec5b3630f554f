"""Formulas, gates, measures and the rules for tool schemas, with a worked example of each whose
result is computed here.
"""

from __future__ import annotations

from typing import Any

from assay.families.tools.legibility import ALL_RULES
from assay.families.tools.legibility_score import rule_cost
from assay.formulas import FORMULAS
from assay.records.evidence import Run
from assay.records.typed import convert
from assay.scoring.gates import GATES, evaluate
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.examples import EXAMPLES as MEASURE_EXAMPLES
from assay.scoring.metrics.measure import fields_text
from generators.markdown import code, compact, page, table


def pages() -> dict[str, str]:
    """Formulas, gates and measures; and the rules for tool schemas."""
    return {"sheets.md": _sheets(), "tool-rules.md": _tool_rules()}


def _run(evidence: dict[str, Any]) -> Run:
    """A run with this evidence and nothing else."""
    head = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "status": "success",
        "workflow": {"id": "w", "version": "1"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
    }
    return convert({**head, **evidence}, Run)


def _verdict(name: str, evidence: dict[str, Any]) -> str:
    gate, run = GATES[name], _run(evidence)
    result = evaluate(gate, run, gate.params, run.gates.get(name))
    word = {True: "pass", False: "**fail**", None: "**undetermined**, which fails"}[result.passed]
    return f"{word}: {result.reason}"


def _sheets() -> str:
    formulas, gates, measures = (
        [registry[name] for name in registry] for registry in (FORMULAS, GATES, MEASURES)
    )
    parts = [
        (
            "What scores are made of. `assay library show formula ID`, `show gate ID` and `show measure"
            " ID` print the same sheets. Every result on this page was computed when the page was"
            " made."
        ),
        "## Formulas",
        (
            "A formula brings a raw score onto 0..1, the norm. One that clamps cuts values outside its"
            " range; the others refuse them."
        ),
    ]
    for formula in formulas:
        sheet = formula.sheet()
        example = sheet["example"]
        with_params = f" with `{compact(example['params'])}`" if "params" in example else ""
        parts += [
            f"### {formula.id}",
            f"{formula.title}. `{formula.text}`",
            f"- Takes {formula.raw}; {formula.direction};"
            f" {'clamps' if formula.clamps else 'refuses what is outside its range'}.\n"
            + (f"- Parameters: {', '.join(map(code, formula.params))}\n" if formula.params else "")
            + f"- Source: {formula.source}\n"
            f"- Example: raw `{compact(example['raw'])}`{with_params} has the norm"
            f" `{compact(example['norm'])}`",
        ]
    parts += [
        "## Gates",
        (
            "A gate is a hard condition on evidence. It passes, fails, or is undetermined where"
            " evidence is missing, which fails. No score can open a failed gate. A *computed* gate"
            " looks at evidence, and a verdict that comes with the run can only worsen it; a *verdict*"
            " gate takes the verdict that comes with the run. *Required* gates apply to every run,"
            " *profile* gates where a profile lists them, *optional* gates where a profile or a run"
            " names them."
        ),
    ]
    for gate in gates:
        sheet = gate.sheet()
        rows = [
            (code(compact(evidence)), _verdict(gate.id, evidence))
            for evidence in (*sheet["example"].values(), {})
            if evidence or gate.needs
        ]
        parts += [
            f"### {gate.id}",
            f"{gate.title}. {gate.group.capitalize()}, {sheet['kind']}."
            + (f" Parameters: `{compact(dict(gate.params))}`." if gate.params else ""),
            table(("evidence", "verdict"), rows),
        ]
    parts += [
        "## Measures",
        (
            "A measure reads a raw score off the evidence of a run; its formula brings that onto 0..1."
            " Where the evidence is missing, the criterion has no score and counts as 0."
        ),
    ]
    for measure in measures:
        example = MEASURE_EXAMPLES[measure.id]
        params = f" with `{compact(example.params)}`" if example.params else ""
        value = measure.take(_run(example.evidence), {**measure.params, **example.params})
        about = [
            ("Unit", f"{measure.unit}, {measure.range}; {measure.direction}"),
            ("Formula", f"[{code(measure.formula)}](#{measure.formula})"),
            ("Reads", fields_text(measure.evidence)),
            ("Without it", measure.absence),
            ("Parameters", code(compact(dict(measure.params))) if measure.params else ""),
            ("Does not see", measure.limits),
            ("Source", measure.citation),
        ]
        listed = "\n".join(f"- {name}: {text}" for name, text in about if text)
        parts += [
            f"### {measure.id}",
            f"{measure.title}.",
            (
                f"{listed}\n- Example: `{compact(example.evidence)}`{params} has the raw score"
                f" `{compact(value)}`"
            ),
        ]
    return page("Formulas, gates and measures", *parts)


def _tool_rules() -> str:
    intro = (
        "What `assay tools check` and the reports of `assay tools grade` check in a schema. Only an"
        " error fails a validation. Points are what one finding takes off the [legibility"
        " score](../how-to/grade-tool-schemas.md#the-legibility-score). A rule with an id in the"
        " last column has the meaning of that rule in the public FlowMCP specification; the others"
        " are ours."
    )
    rows = [
        (code(rule.id), rule.level, rule_cost(rule.id), rule.holds, rule.fix, rule.spec or "")
        for rule in ALL_RULES.values()
    ]
    head = ("rule", "level", "points", "what must hold", "fix", "FlowMCP")
    return page("Rules for tool schemas", intro, table(head, rows))
