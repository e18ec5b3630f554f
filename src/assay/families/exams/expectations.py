"""What an item expects on each axis, and whether that is something the axis's rule can mark.

The verb exam writes `expected_contains` and `gloss_contains`; every other exam writes `expect`,
with one entry for each axis that compares. Both are read here as one mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import UNSET

from assay.families.exams.rule import ExpectingItem, ExpectingRule, MarkingRule, MarkingSetting
from assay.files.json_files import Path
from assay.registry import near_miss

SHORT = {"correctness": "expected_contains", "spanish_gloss": "gloss_contains"}
"""The keys in which items of the verb exam say what they expect, by axis."""


def expectations_of(expect: Any, wanted: Any, gloss: Any) -> dict[str, Any]:
    """An item's expectations by axis, however they are written."""
    if isinstance(expect, dict):
        return expect
    expected = {"correctness": wanted, "spanish_gloss": gloss}
    if wanted and gloss:
        return expected
    return {
        axis: value for axis, value in expected.items() if value is not None and value is not UNSET
    }


def wanted_by(axis: str, rule: MarkingRule, expectations: Mapping[str, Any]) -> Any:
    """What an item expects on an axis; UNSET where it says nothing."""
    if not isinstance(rule, ExpectingRule):
        return None
    return rule.value if rule.fixed else expectations.get(rule.expects or axis, UNSET)


def item_faults(
    item: ExpectingItem, rules: Mapping[str, MarkingRule], setting: MarkingSetting
) -> Iterator[tuple[Path, str, str]]:
    """What is wrong with an item's expectations under these rules: where in it, what, and what to
    do.
    """
    given = item.expectations
    used = set()
    for axis, rule in rules.items():
        if not isinstance(rule, ExpectingRule):
            continue
        key = rule.expects or axis
        used.add(key)
        want = wanted_by(axis, rule, given)
        if want is UNSET:
            message = f"expects nothing on the axis '{axis}' ({rule.kind})."
            fix = (
                f"Every item is marked on every axis: add {key!r}, or move items of another kind to"
                " a separate exam with a rubric for them."
            )
            yield _path(item, key, given), message, fix
            continue
        for message in rule.faults(want, item, setting):
            yield _path(item, key, given), message, ""
    for key in given:
        if key not in used:
            yield (
                _path(item, key, given),
                f"no axis of the rubric expects '{key}'.{near_miss(key, used)}",
                f"The rubric expects {', '.join(sorted(used)) or 'nothing'}.",
            )


def _path(item: ExpectingItem, key: str, given: Mapping[str, Any]) -> Path:
    if item.expect is UNSET and key in SHORT:
        return (SHORT[key],)
    return ("expect", key) if key in given else ("expect",)
