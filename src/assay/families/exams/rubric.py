"""The exam rubric: binary axes with their weights and rules, the steps of normalization, the
patterns to look for, and cases that test the rubric itself.

Every number that makes a mark is here, for any subject. Weights are billionths and sum to one
exactly. A published rubric is pinned by the shelf: other weights are another version, and results
under two versions are not compared (see `recalibration`).

A pattern is a condition over axes and items, and its meaning. `axis_zero`: an axis without marks on
almost all items. `tag_zero`: an axis without marks on the items that share a tag. `trend`: one axis
alone falls from the first half of the items to the second. `outlier`: one item alone without its
mark. Limits that a pattern doesn't state are the policy's. `results` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from assay import exact
from assay.canon import digest
from assay.families.exams.rules import (
    ExamItem,
    MarkingRule,
    MarkingSetting,
    item_faults,
    read_rule,
)
from assay.files.json_files import Document, Path
from assay.records.evidence import Number, OptionalNumber
from assay.records.shape import Faults, ShelfPart, Text, read_shelf_record
from assay.records.systems import FIRST, Systems, Version
from assay.registry import identifier_fault, near_miss
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


Kind = Literal["axis_zero", "tag_zero", "trend", "outlier"]
_LIMITS: dict[str, tuple[str, ...]] = {
    "axis_zero": ("min_items", "min_share"),
    "tag_zero": ("min_items", "min_share"),
    "trend": ("min_items", "min_drop", "max_other_drop", "min_chi_square"),
    "outlier": ("min_items",),
}
_MEANINGS = {
    "axis_zero": "an axis without marks across the items",
    "tag_zero": "every item with a tag is wrong",
    "trend": "one axis alone falls over the exam",
    "outlier": "one item alone without its mark",
}


class PatternRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One pattern. `{axis}`, `{tag}` and `{value}` in a hint stand for what was found."""

    kind: Kind
    """The detector."""
    name: str | None = None
    """The name of the pattern; without one, its kind."""
    axis: str | None = None
    """The axis that it looks at."""
    axes: list[str] | None = None
    """The axes that it looks at."""
    tag: str | None = None
    """The tag that it groups by."""
    meaning: str | None = None
    """What the pattern means."""
    hint: str | None = None
    """Where to look."""
    hints: dict[str, str] | None = None
    """Where to look, by axis."""
    cause: str | None = None
    """The likely cause."""
    min_items: Annotated[int, Meta(ge=1)] | None = None
    """The minimum number of items."""
    min_share: OptionalNumber = None
    """The minimum share of items."""
    min_drop: OptionalNumber = None
    """How far the axis must fall."""
    max_other_drop: OptionalNumber = None
    """How far the other axes may fall."""
    min_chi_square: OptionalNumber = None
    """The minimum chi-square of the fall."""

    @property
    def id(self) -> str:
        """The name that a result carries."""
        return self.name or self.kind

    @property
    def means(self) -> str:
        """What the pattern is, in words."""
        return self.meaning or _MEANINGS[self.kind]

    def advice(self, default: str, **evidence: str) -> str:
        """The hint with what was found in its places."""
        text = (self.hints or {}).get(evidence.get("axis", "")) or self.hint or default
        for key, value in evidence.items():
            text = text.replace(f"{{{key}}}", value)
        return text

    def faults(self, axes: Collection[str]) -> Iterator[tuple[Path, str]]:
        """What is wrong with it in a rubric with these axes."""
        named = [*([self.axis] if self.axis else []), *(self.axes or []), *(self.hints or {})]
        yield from (
            (("axis",), f"no axis is named '{axis}'.{near_miss(axis, axes)}")
            for axis in named
            if axis not in axes
        )
        problem = identifier_fault(self.id)
        if problem is not None:
            yield ("name",), f"the name {problem}."
        if self.kind in ("tag_zero", "trend") and self.axis is None:
            yield ("axis",), f"'{self.kind}' needs the axis it looks at."
        if (self.kind == "tag_zero") != (self.tag is not None):
            yield ("tag",), "`tag` belongs to 'tag_zero', which needs one."
        allowed = _LIMITS[self.kind]
        for limit in ("min_items", "min_share", "min_drop", "max_other_drop", "min_chi_square"):
            value: Any = getattr(self, limit)
            if value is None:
                continue
            if limit not in allowed:
                yield (limit,), f"'{self.kind}' has no limit of this name."
            elif not exact.is_amount(value) or (limit == "min_share" and not 0 < value <= 1):
                yield (limit,), f"is {str(value)[:40]}, which can't be a limit."


class TagGroup(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tag by which a diagnosis groups the items that lost, and how it is read."""

    tag: str
    """The tag."""
    label: str = "with {tag} '{value}'"
    """How a group is named in sentences."""

    def says(self, value: str) -> str:
        """The label of one value."""
        return self.label.replace("{tag}", self.tag).replace("{value}", value)


def read_patterns(
    patterns: list[PatternRule], axes: Collection[str], add: Callable[[Path, str], None]
) -> None:
    """Report every fault of a rubric's patterns; a name appears once."""
    seen: set[str] = set()
    for index, pattern in enumerate(patterns):
        for path, message in pattern.faults(axes):
            add(("patterns", index, *path), message)
        if pattern.id in seen:
            add(("patterns", index, "name"), f"the pattern '{pattern.id}' appears twice.")
        seen.add(pattern.id)


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

    @property
    def item(self) -> ExamItem:
        """The case as an item of an exam."""
        return ExamItem(
            id="self-test",
            prompt=self.name,
            expected_contains=None if self.expected_contains is UNSET else self.expected_contains,
            gloss_contains=None if self.gloss_contains is UNSET else self.gloss_contains,
            expect=self.expect,
            options=self.options,
            match=self.match,
        )


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
            for path, message, fix in item_faults(case.item, rules, setting):
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


SCORING_SYSTEM = "scoringSystem/1.0.0"
GRADING_SYSTEM = "gradingSystem/1.0.0"
CURRENT = Systems(SCORING_SYSTEM, GRADING_SYSTEM)
"""What this code implements; a result is made under what its rubric and policy state."""
