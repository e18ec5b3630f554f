"""The exam rubric: binary axes with their weights and rules, the steps of normalization, the
patterns to look for, and cases that test the rubric itself.

Every number that makes a mark is here, for any subject. Weights are billionths and sum to one
exactly. A published rubric is pinned by the shelf: other weights are another version, and results
under two versions are not compared (see `recalibration`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from assay import exact
from assay.canon import digest
from assay.families.exams.pattern_rules import PatternRule, TagGroup, read_patterns
from assay.families.exams.rules import (
    MarkingRule,
    MarkingSetting,
    expectations_of,
    item_faults,
    read_rule,
)
from assay.files.json_files import Document, Path
from assay.records.evidence import Number
from assay.records.shape import Faults, ShelfPart, Text, read_shelf_record
from assay.records.systems import FIRST, Version
from assay.registry import identifier_fault
from assay.scoring.checks import (
    STEPS,
    Match,
    Normaliser,
    contract,
    schema_problem,
    step_name,
    unknown_step,
)

if TYPE_CHECKING:
    from assay.records.contract import Contract

FAMILY = "exam"
MAX_AXES = 12
_STEPS = ("nfc", "strip", "case-fold", "trailing-period")


class Axis(ShelfPart, frozen=True):
    """What one axis measures, its weight, and the rule that marks it."""

    weight: Number
    """The axis's share of the item's score."""
    definition: Text
    """What it asks."""
    rule: dict[str, Any]
    """The rule that marks it."""


class SelfTest(ShelfPart, frozen=True, kw_only=True):
    """An answer whose marks are known: it tests the rubric, not a tutor."""

    name: Text
    """What the test shows."""
    expected_contains: Annotated[list[str], Meta(min_length=1)] | UnsetType = UNSET
    """What the correction must contain."""
    gloss_contains: Annotated[list[str], Meta(min_length=1)] | UnsetType = UNSET
    """What the gloss must contain."""
    expect: dict[str, Any] | UnsetType = UNSET
    """What the answer is compared with, by axis."""
    options: dict[str, Any] | list[Any] | UnsetType = UNSET
    """The options of a multiple-choice question."""
    response: Any
    """The answer."""
    latency_ms: Number | UnsetType = UNSET
    """How long the answer took, in milliseconds."""
    breakdown: dict[str, int]
    """The marks that the rubric must give it."""
    match: Match | None = None
    """How texts are compared."""
    id: ClassVar[str] = "self-test"

    @property
    def expectations(self) -> dict[str, Any]:
        """What is expected, by axis."""
        return expectations_of(self.expect, self.expected_contains, self.gloss_contains)


class ExamRubric(ShelfPart, frozen=True, kw_only=True):
    """How an answer is marked."""

    rubric_id: Text
    """The rubric's name."""
    version: int | str
    """Its version. A published version never changes."""
    family: Text
    """What it marks."""
    title: Text
    """The name that people see."""
    axes: Annotated[dict[str, Axis], Meta(min_length=1, max_length=MAX_AXES)]
    """The axes, each with its weight and rule."""
    normalisation: list[str] | UnsetType = UNSET
    """The steps that texts go through before they are compared."""
    match: Match | UnsetType = UNSET
    """How texts are compared."""
    answer_schema: dict[str, Any] | UnsetType = UNSET
    """The JSON Schema of an answer."""
    self_test: list[SelfTest] = []
    """Answers whose marks are known: each axis needs a 0 and a 1."""
    scoring_system: Version = FIRST
    """The version of the scoring system that it needs."""
    description: str | None = None
    """What it is for."""
    patterns: list[PatternRule] | UnsetType = UNSET
    """The patterns that it looks for across items."""
    groups: list[TagGroup] | UnsetType = UNSET
    """The tags by which a diagnosis groups items."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.rubric_id}@{self.version}"

    @property
    def digest(self) -> str:
        """The digest of the whole rubric."""
        return digest(self)

    @property
    def steps(self) -> list[str]:
        """The steps of normalization; those of the seed's order where the rubric names none."""
        return list(_STEPS) if self.normalisation is UNSET else self.normalisation

    @property
    def matching(self) -> Match:
        """How an expected text is looked for."""
        return "substring" if self.match is UNSET else self.match

    @property
    def schema(self) -> dict[str, Any] | None:
        """The answer schema, if there is one."""
        return None if self.answer_schema is UNSET else self.answer_schema

    @property
    def pattern_rules(self) -> tuple[PatternRule, ...]:
        """The patterns to look for. A rubric that names none looks for an axis without marks and
        for a single outlier.
        """
        return _ANYWHERE if self.patterns is UNSET else tuple(self.patterns)

    @property
    def tag_groups(self) -> tuple[TagGroup, ...] | None:
        """The tags that a diagnosis groups by; None for all that the items have."""
        return None if self.groups is UNSET else tuple(self.groups)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that an item should have, so that patterns and groups can name it."""
        named = [rule.tag for rule in self.pattern_rules if rule.tag]
        return tuple(dict.fromkeys([*named, *(group.tag for group in self.tag_groups or ())]))

    @property
    def marks_digest(self) -> str:
        """The digest of what makes the marks, weights left out: rubrics that share it mark every
        answer alike.
        """
        rules = [[axis, rule.kind, rule] for axis, rule in rules_of(self).items()]
        return digest([rules, self.steps, self.matching, self.schema])


_ANYWHERE = (PatternRule(kind="axis_zero"), PatternRule(kind="outlier"))


def rules_of(
    rubric: ExamRubric, add: Callable[[Path, str, str], None] | None = None
) -> dict[str, MarkingRule]:
    """The rule of each axis. Faults go to `add`; a rubric that was loaded has none."""
    rules: dict[str, MarkingRule] = {}
    for name, axis in rubric.axes.items():
        rule = read_rule(axis.rule, ("axes", name, "rule"), add or _no_fault)
        if rule is not None:
            rules[name] = rule
    return rules


def _no_fault(path: Path, message: str, fix: str) -> None:
    raise ValueError(f"{path}: {message} {fix}")


def compile_schema(schema: Any) -> Contract:
    """The contract of a schema, which every answer is held against. Raises ValueError where this is
    not a usable JSON Schema.
    """
    if problem := schema_problem(schema):
        raise ValueError(problem)
    return contract(schema)


def load_exam_rubric(document: Document) -> ExamRubric:
    """An exam rubric from its file, or an error with every fault and its line."""
    faults = Faults(document)
    rubric = read_shelf_record(document, ExamRubric, faults)
    if rubric.family != FAMILY:
        faults.add(("family",), f"a rubric of this shape belongs to the family '{FAMILY}'.")
    _check_axes(rubric, faults)
    _check_weights(rubric, faults)
    for index, name in enumerate(rubric.steps):
        if name not in STEPS:
            known = step_name(name)
            faults.add(
                ("normalisation", index),
                f"the step is named '{known}', not '{name}'." if known else unknown_step(name),
            )
    if len(set(rubric.steps)) != len(rubric.steps):
        faults.add(("normalisation",), "a step appears twice.", "Keep one.")
    if rubric.schema is not None:
        try:
            compile_schema(rubric.schema)
        except ValueError as error:
            faults.add(("answer_schema",), f"is not a usable JSON Schema: {error}.")
    _check_cases(rubric, faults)
    faults.raise_if_any()
    return rubric


def _check_axes(rubric: ExamRubric, faults: Faults) -> None:
    axes = tuple(rubric.axes)
    for name in axes:
        problem = identifier_fault(name)
        if problem is not None:
            faults.add(("axes", name), f"the name {problem}.")
    rules = rules_of(rubric, faults.add)
    needy = [
        name
        for name, rule in rules.items()
        if rule.kind == "schema" and getattr(rule, "schema", None) is None
    ]
    if needy and rubric.schema is None:
        faults.add(("axes", needy[0]), "there is no `answer_schema` to check answers against.")
    read_patterns(list(rubric.pattern_rules), axes, faults.add)


def _check_cases(rubric: ExamRubric, faults: Faults) -> None:
    axes = tuple(rubric.axes)
    rules: dict[str, MarkingRule] = {} if faults.found else rules_of(rubric)
    for index, case in enumerate(rubric.self_test):
        if rules:
            normal = Normaliser(rubric.steps)
            setting = MarkingSetting(normal, normal, rubric.matching, None)
            for path, message, fix in item_faults(case, rules, setting):
                faults.add(("self_test", index, *path), message, fix)
        if set(case.breakdown) != set(axes) or not set(case.breakdown.values()) <= {0, 1}:
            faults.add(
                ("self_test", index, "breakdown"), f"needs 0 or 1 for each of {', '.join(axes)}."
            )
    for mark in (0, 1):
        # a self-test that never expects a 0 would not notice a rubric that accepts everything
        marked = [case.breakdown for case in rubric.self_test]
        lacking = [axis for axis in axes if all(marks.get(axis) != mark for marks in marked)]
        if lacking:
            faults.add(
                ("self_test",),
                f"needs an answer with the mark {mark} for {', '.join(lacking)}.",
                "Add {name: NAME, expect: {...}, response: ANSWER, breakdown:"
                f" {{{', '.join(f'{axis}: {mark}' for axis in axes)}}}}}.",
            )


def _check_weights(rubric: ExamRubric, faults: Faults) -> None:
    total = 0
    for name, axis in rubric.axes.items():
        at = ("axes", name, "weight")
        try:
            weight = exact.ratio(axis.weight)
        except ValueError as error:
            faults.add(at, f"the weight must be a number; {error}.")
            return
        if weight.num < 0 or (exact.NORM_ONE * weight.num) % weight.den:
            faults.add(
                at,
                f"the weight is {axis.weight}; it has at most {exact.NORM_DIGITS} decimals and is"
                " not below zero.",
            )
            return
        total += exact.norm_of(weight)
    if total != exact.NORM_ONE:
        faults.add(("axes",), f"the weights sum to {exact.norm_text(total)}, not to 1.")
