"""The checks of the tests of a tool: how many there are, and whether a call could be made of
each.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from assay.families.tools.rules.main_block import MIN_TESTS, placeholders
from assay.families.tools.rules.rule import SchemaFindings, shown
from assay.families.tools.rules.tools import Parameter, parameters_of

_BOUND = re.compile(r"(min|max|length)\((-?\d+(?:\.\d+)?)\)\Z")


def count(tool: object) -> int:
    """How many tests a tool has. What is not an object is not a test."""
    tests = tool.get("tests") if isinstance(tool, dict) else None
    return sum(isinstance(test, dict) for test in tests) if isinstance(tests, list) else 0


def check(tool: dict[str, Any], path: str, findings: SchemaFindings) -> None:
    """Check the tests of one tool."""
    number = count(tool)
    if number < MIN_TESTS:
        findings.add(
            "tests-few", f"{path}.tests", f"there {'is 1' if number == 1 else f'are {number}'}."
        )
    listed = tool.get("tests")
    known = parameters_of(tool, path)
    given = {parameter.key: parameter for parameter in known if parameter.given}
    # A value such as {{CITY}} is a separate error; the tests that give CITY are not wrong as
    # well.
    others = {name for parameter in known for name in placeholders(parameter.value)}
    seen: list[dict[str, Any]] = []
    for index, test in enumerate(listed if isinstance(listed, list) else []):
        where = f"{path}.tests[{index}]"
        if not isinstance(test, dict):
            findings.add("test-type", where, "is not an object.")
            continue
        if not isinstance(test.get("_description"), str) or not test["_description"].strip():
            findings.add("test-description-missing", f"{where}._description", "is missing.")
        values = {key: value for key, value in test.items() if key != "_description"}
        for key, value in values.items():
            if key not in given:
                if key not in others:
                    findings.add(
                        "test-key-unknown",
                        f"{where}.{key}",
                        "is not a parameter of this tool.",
                    )
            elif (why := refusal(given[key], value)) is not None:
                findings.add("test-value-refused", f"{where}.{key}", why)
        for key, parameter in given.items():
            if parameter.required and key not in test:
                findings.add("test-value-missing", where, f"{key!r} is required.")
        if values and values in seen:
            findings.add("test-repeated", where, "gives the values of an earlier test.")
        seen.append(values)


def refusal(parameter: Parameter, value: object) -> str | None:
    """Why a parameter refuses a value; None if it takes it. A shared list is not at hand: its
    values are taken.
    """
    kind = parameter.primitive.partition("(")[0]
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind == "number" and not number:
        return f"is {shown(value)}, not a number."
    if kind == "string" and not isinstance(value, str):
        return f"is {shown(value)}, not a string."
    if kind == "boolean" and not isinstance(value, bool):
        return f"is {shown(value)}, not true or false."
    if kind == "array" and not isinstance(value, list):
        return f"is {shown(value)}, not a list."
    if kind == "object" and not isinstance(value, dict):
        return f"is {shown(value)}, not an object."
    if kind == "enum":
        allowed = parameter.values
        return (
            None
            if not allowed or str(value) in allowed
            else (
                f"is {shown(value)}, not one of"
                f" {', '.join(allowed[:8])}{' …' if len(allowed) > 8 else ''}."
            )
        )
    for option in parameter.options:
        bound = _BOUND.match(option)
        if (
            bound is None
            or not isinstance(value, int | float | Decimal | str | list)
            or (number and bound[1] == "length")
        ):
            continue
        size, limit = (
            (value if isinstance(value, int | float | Decimal) else len(value)),
            float(bound[2]),
        )
        if (
            (bound[1] == "min" and size < limit)
            or (bound[1] == "max" and size > limit)
            or (bound[1] == "length" and size != limit)
        ):
            return f"is {'' if number else 'of length '}{size}, beyond {option}."
    return None
