"""Rubrics, which define what a judge looks for, in the YAML format of the scoring guide, section 7.

Every criterion has a definition, the evidence it requires, and an anchor text for each point of its
scale; a rubric that lacks any is refused with all its faults. A bare floor is on the criterion's
scale.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, ValidationError

from assay.errors import FormulaError
from assay.files.json_files import Document
from assay.formulas import SCALES, floor_norm
from assay.records.evidence import Number
from assay.records.scorecard import Floor, FloorOverride
from assay.records.shape import Faults, ShelfPart, Text, read_shelf_record
from assay.records.typed import convert
from assay.scoring.gates import GATES


class RubricCriterion(ShelfPart, frozen=True, kw_only=True):
    """One criterion of a rubric, with an anchor for each point of its scale."""

    name: str
    """The criterion's name."""
    definition: Text
    """What to look for."""
    evidence_required: Annotated[list[Text], Meta(min_length=1)]
    """What the judge must quote."""
    scale: tuple[int, int]
    """The lowest and the highest score."""
    anchors: dict[str, str]
    """What each score means."""
    weight: Number
    """Its share of the weighted score, relative to the other weights."""
    critical_floor: Floor = None
    """The score below which the run fails."""
    floor_override: FloorOverride | None = None
    """A floor below the one that the role demands, with its reason."""
    role: str | None = None
    """What it measures, such as `correctness`."""
    label: str | None = None
    """The name that people see."""

    @property
    def formula_id(self) -> str:
        """The formula that reads this criterion's scale."""
        return SCALES[self.scale]

    def floor(self) -> dict[str, Any] | None:
        """The floor with its unit; a bare number is on the criterion's scale."""
        if self.critical_floor is None or isinstance(self.critical_floor, dict):
            return self.critical_floor
        return {"raw": self.critical_floor}

    def override(self) -> FloorOverride | None:
        """The override with its unit; a bare number is on the criterion's scale."""
        if self.floor_override is None or isinstance(self.floor_override.value, dict):
            return self.floor_override
        return FloorOverride(
            value={"raw": self.floor_override.value}, reason=self.floor_override.reason
        )


class Rubric(ShelfPart, frozen=True, kw_only=True):
    """A versioned set of criteria."""

    rubric_id: Text
    """The rubric's name."""
    version: int | str
    """Its version. A published version never changes."""
    criteria: Annotated[list[RubricCriterion], Meta(min_length=1)]
    """Its criteria."""
    title: str | None = None
    """The name that people see."""
    description: str | None = None
    """What it is for."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.rubric_id}@{self.version}"


def load_rubric(document: Document) -> Rubric:
    """A rubric from its file. Raises an error that lists every fault with its line."""
    faults = Faults(document)
    if isinstance(document.tree, dict):
        _check_meaning(document.tree.get("criteria"), faults)
    rubric = read_shelf_record(document, Rubric, faults)
    faults.check_names(
        ("criteria",), ((index, item.name) for index, item in enumerate(rubric.criteria))
    )
    faults.check_weights(("criteria",), [item.weight for item in rubric.criteria])
    faults.raise_if_any()
    return rubric


def _check_meaning(criteria: Any, faults: Faults) -> None:
    """Add the faults that the shape doesn't show, for each well-formed criterion; a malformed one
    must not hide the faults of the others.
    """
    for index, tree in enumerate(criteria if isinstance(criteria, list) else ()):
        try:
            item = convert(tree, RubricCriterion)
        except ValidationError:
            continue
        at = ("criteria", index)
        low, high = item.scale
        faults.check_role(at, item.role)
        if item.name in GATES:
            faults.add(
                (*at, "name"),
                f"'{item.name}' is a gate; a gate carries no weight.",
                "Give the criterion its own name.",
            )
        if item.scale not in SCALES:
            known = ", ".join(f"[{lo}, {hi}]" for lo, hi in SCALES)
            faults.add(
                (*at, "scale"),
                f"no formula reads the scale [{low}, {high}].",
                f"The scales are {known}.",
            )
            continue
        points = [str(point) for point in range(low, high + 1)]
        for point in points:
            if not item.anchors.get(point, "").strip():
                faults.add(
                    (*at, "anchors"),
                    f"no text for score {point} of the scale {low}..{high}.",
                    f'Add an anchor "{point}".',
                )
        for point in item.anchors:
            if point not in points:
                faults.add(
                    (*at, "anchors", point),
                    f'the anchor "{point}" is not a point of the scale {low}..{high}.',
                    "Remove it, or fix the scale.",
                )
        if item.floor_override is not None and item.floor_override.value is None:
            faults.add(
                (*at, "floor_override"), "the override names no floor.", "Give it a `value`."
            )
        for key, floor in (
            ("critical_floor", item.floor()),
            ("floor_override", item.floor_override and item.floor_override.value),
        ):
            if floor is None:
                continue
            try:
                floor_norm(
                    floor if isinstance(floor, dict) else {"raw": floor}, item.formula_id, {}
                )
            except FormulaError as error:
                faults.add((*at, key), str(error))
