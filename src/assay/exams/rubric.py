"""The exam rubric: four binary axes with their weights, the word budget, the steps of
normalisation, and cases that test the rubric itself.

Every number that makes a mark stands here. Weights are billionths and sum to one exactly. A
published rubric is pinned by the shelf: other weights are another version, and results under two
versions are not compared (see `recalibration`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from assay import exact
from assay.canon import digest
from assay.exams.normal import STEPS, step_name, unknown_step
from assay.records.contract import Contract, contract_of, encode
from assay.records.evidence import Number
from assay.records.exam import AXES
from assay.records.shape import Faults, read_shelf_record
from assay.records.systems import FIRST, Version

if TYPE_CHECKING:
    from assay.files.json_files import Document

FAMILY = "exam"
BIT = {axis: 8 >> index for index, axis in enumerate(AXES)}
"""The four marks of an answer as one number from 0 to 15."""
Text = Annotated[str, Meta(pattern=r"\S", description="a text that says something")]
Match = Literal["substring", "word", "exact"]


class _ExamRubricPart(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class Axis(_ExamRubricPart, frozen=True):
    """What one axis measures, and its weight."""

    weight: Number
    definition: Text


class SelfTest(_ExamRubricPart, frozen=True):
    """An answer whose marks are known: it tests the rubric, not a tutor."""

    name: Text
    expected_contains: Annotated[list[str], Meta(min_length=1)]
    gloss_contains: Annotated[list[str], Meta(min_length=1)]
    response: Any
    breakdown: dict[str, int]
    match: Match | None = None


class ExamRubric(_ExamRubricPart, frozen=True):
    """How an answer is marked."""

    rubric_id: Text
    version: int | str
    family: Text
    title: Text
    axes: dict[str, Axis]
    word_budget: Annotated[int, Meta(ge=1)]
    normalisation: list[str]
    match: Match
    answer_schema: dict[str, Any]
    self_test: Annotated[list[SelfTest], Meta(min_length=1)]
    scoring_system: Version = FIRST
    description: str | None = None

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.rubric_id}@{self.version}"

    @property
    def digest(self) -> str:
        """The digest of the whole rubric."""
        return digest(self)

    @property
    def marks_digest(self) -> str:
        """The digest of what makes the marks, weights left out: rubrics that share it mark every
        answer alike.
        """
        return digest([self.word_budget, self.normalisation, self.match, self.answer_schema])


def compile_schema(schema: Any) -> Contract:
    """The contract of a schema, which every answer is held against. Raises ValueError where this is
    not a usable JSON Schema.
    """
    contract = contract_of(encode(schema))
    if contract.problem:
        raise ValueError(contract.problem)
    return contract


def load_exam_rubric(document: Document) -> ExamRubric:
    """An exam rubric from its file, or an error with every fault and its line."""
    faults = Faults(document)
    rubric = read_shelf_record(document, ExamRubric, faults)
    if rubric.family != FAMILY:
        faults.add(("family",), f"a rubric of this shape belongs to the family '{FAMILY}'.")
    if tuple(rubric.axes) != AXES:
        faults.add(
            ("axes",),
            f"the axes are {', '.join(AXES)}, in this order, not {', '.join(rubric.axes)}.",
        )
    _check_weights(rubric, faults)
    for index, name in enumerate(rubric.normalisation):
        if name not in STEPS:
            known = step_name(name)
            faults.add(
                ("normalisation", index),
                f"the step is named '{known}', not '{name}'." if known else unknown_step(name),
            )
    if len(set(rubric.normalisation)) != len(rubric.normalisation):
        faults.add(("normalisation",), "a step appears twice.", "Keep one.")
    try:
        compile_schema(rubric.answer_schema)
    except ValueError as error:
        faults.add(("answer_schema",), f"is not a usable JSON Schema: {error}.")
    for index, case in enumerate(rubric.self_test):
        if set(case.breakdown) != set(AXES) or not set(case.breakdown.values()) <= {0, 1}:
            faults.add(
                ("self_test", index, "breakdown"), f"has 0 or 1 for each of {', '.join(AXES)}."
            )
    for axis in AXES:
        # a self-test that never expects a 0 would not notice a rubric that accepts everything
        if {case.breakdown.get(axis) for case in rubric.self_test} < {0, 1}:
            faults.add(
                ("self_test",),
                f"has no case with the mark 0, or none with the mark 1, for {axis}.",
                "Add one.",
            )
    faults.raise_if_any()
    return rubric


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
