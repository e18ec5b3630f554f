"""The rules, patterns and groups of the tutor, for rubrics of the first version that don't state
them.

`tutor@1` was published before rules were data and never changes. A rubric that states a rule for
each axis needs nothing from here.
"""

from __future__ import annotations

from assay.exams.pattern_rules import PatternRule, TagGroup
from assay.exams.rule import MarkingRule
from assay.exams.text_rules import Contains, Length
from assay.exams.value_rules import KeepsSchema

AXES = ("correctness", "spanish_gloss", "schema", "conciseness")
TAGS = ("verb", "tense")
_CAUSE = "the prompt template may have changed"


def tutor_rules(word_budget: int) -> dict[str, MarkingRule]:
    """The rules of the four axes."""
    return {
        "correctness": Contains(reads="correction"),
        "spanish_gloss": Contains(reads="gloss"),
        "schema": KeepsSchema(),
        "conciseness": Length(reads="explanation", max_words=word_budget),
    }


PATTERNS = (
    PatternRule(
        kind="axis_zero",
        meaning="an axis without marks across the items",
        hints={
            "correctness": "the tutor, or what it is compared with, is wrong throughout",
            "spanish_gloss": "no Spanish comes back, or it is in another field",
            "schema": "the JSON formatter is broken, or the answer schema has changed",
            "conciseness": "the explanations are missing or too long throughout",
        },
    ),
    PatternRule(
        kind="tag_zero",
        name="verb_zero",
        axis="correctness",
        tag="verb",
        meaning="every item of a verb is wrong",
        hint="every item of '{value}' is wrong: look for the verb in the training corpus",
    ),
    PatternRule(
        kind="trend",
        name="conciseness_trend",
        axis="conciseness",
        meaning="conciseness alone falls over the exam",
        hint=f"only the explanations grow: {_CAUSE}",
        cause=_CAUSE,
    ),
    PatternRule(
        kind="outlier",
        name="outlier_item",
        axes=["correctness", "spanish_gloss"],
        meaning="one item alone without its mark",
    ),
)
GROUPS = (
    TagGroup(tag="tense", label="{value}"),
    TagGroup(tag="verb", label="of the verb '{value}'"),
)
