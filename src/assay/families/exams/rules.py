"""The closed table of marking rules, and how a rubric's text becomes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.errors import EvidenceError
from assay.families.exams.code_rule import PassesTests
from assay.families.exams.rule import MarkingRule
from assay.families.exams.text_rules import Contains, Exact, Length, Regex, Word
from assay.families.exams.value_rules import KeepsSchema, Latency, OptionChoice, Quantity
from assay.files.json_files import Document, Path
from assay.records.reading import read_record
from assay.registry import near_miss

RULES: dict[str, type[MarkingRule]] = {
    rule.kind: rule
    for rule in (
        Contains,
        Word,
        Exact,
        Regex,
        Quantity,
        OptionChoice,
        KeepsSchema,
        PassesTests,
        Latency,
        Length,
    )
}


def read_rule(
    tree: dict[str, Any], at: Path, add: Callable[[Path, str, str], None]
) -> MarkingRule | None:
    """The rule of an axis; None if it has faults, which go to `add` with their place."""
    kind = tree.get("kind")
    if not isinstance(kind, str) or kind not in RULES:
        known = f"Rules are {', '.join(RULES)}."
        missing = "the rule needs a `kind`."
        message = missing if kind is None else f"there is no rule '{str(kind)[:60]}'."
        near = near_miss(kind, RULES) if isinstance(kind, str) else ""
        add((*at, "kind"), f"{message}{near}", known)
        return None
    parameters = {key: value for key, value in tree.items() if key != "kind"}
    try:
        rule = read_record(Document(parameters, ""), RULES[kind], "LIB-002")
    except EvidenceError as error:
        for fault in error.faults:
            path = f"{fault.path}: " if fault.path else ""
            add(at, f"{kind}: {path}{fault.message}", fault.fix)
        return None
    problem = rule.problem()
    if problem:
        add(at, f"{kind}: {problem}", "")
        return None
    return rule
