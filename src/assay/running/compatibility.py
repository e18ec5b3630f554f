"""Whether a dataset fits a workflow, asked of every sample before anything runs.

Each required input must come from somewhere, by explicit mapping or by its name, and must not be
empty. An expected value never becomes an input: an input whose field is one, holds one or lies
within one is refused, so a workflow cannot be shown its answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from assay.errors import InputError
from assay.running.dataset import lookup
from assay.scoring.gate_rules import is_absent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.running.dataset import Dataset
    from assay.running.workflow import Input, Workflow

SHOWN = 20


class Prepared(NamedTuple):
    """A sample that is ready to run: its inputs, and what must not reach the workflow."""

    sample_id: str
    inputs: dict[str, Any]
    expected: Any
    group: str | None
    tags: list[str]
    row: Mapping[str, Any]


class Misfit(InputError):
    """A dataset does not fit a workflow; `reasons` says all that is missing."""

    def __init__(self, reasons: Sequence[str], examples: Mapping[str, str], *, where: str) -> None:
        self.reasons = list(reasons)
        shown = "; ".join(f"{reason} ({examples[reason]})" for reason in self.reasons[:SHOWN])
        more = f"; and {len(self.reasons) - SHOWN} more" if len(self.reasons) > SHOWN else ""
        fix = (
            "Map the input with `inputs: {NAME: {from: FIELD}}` in the workflow or `inputs: {NAME:"
            " FIELD}` in the dataset, or mend the samples."
        )
        super().__init__(
            "RUN-003",
            f"the dataset does not fit the workflow: {shown}{more}.",
            where=where,
            fix=fix,
        )


def prepare(workflow: Workflow, dataset: Dataset) -> list[Prepared]:
    """Every sample with its inputs. Raises `Misfit` with all the reasons, sorted, each once, and
    nothing has run.
    """
    ready: list[Prepared] = []
    lacking: dict[str, list[str]] = {}
    tests = _tests(workflow)
    for sample in dataset.samples:
        row = sample.row
        gold = dataset.gold(row) + tests
        inputs: dict[str, Any] = {}
        for name, one in workflow.inputs.items():
            found, value, path = _source(name, one, dataset, row, gold)
            if found and path is not None and _touches(path, gold):
                lacking.setdefault(f"expected value as input: {name}", []).append(
                    f"field {path!r} of {sample.where}"
                )
                continue
            if not found or is_absent(value):
                if one.default is not UNSET:
                    inputs[name] = one.default
                elif one.required:
                    lacking.setdefault(f"missing: {name}", []).append(sample.where)
                elif found:
                    inputs[name] = value
                continue
            inputs[name] = value
        ready.append(
            Prepared(
                sample.id, inputs, dataset.expected(row), dataset.group(row), dataset.tags(row), row
            )
        )
    if lacking:
        total = len(dataset.samples)
        examples = {
            reason: f"{len(places)} of {total} samples, first: {places[0]}"
            for reason, places in lacking.items()
        }
        raise Misfit(sorted(lacking), examples, where=dataset.where)
    return ready


def _tests(workflow: Workflow) -> list[str]:
    """The fields of a sample that hold the tests by which a patch is judged: as much an answer as
    an expected value.
    """
    repository = workflow.spec.repository
    named = (
        ()
        if repository is None
        else (repository.fail_to_pass, repository.pass_to_pass, repository.test_patch)
    )
    return [field for field in named if isinstance(field, str)]


def _source(
    name: str, one: Input, dataset: Dataset, row: Mapping[str, Any], gold: list[str]
) -> tuple[bool, Any, str | None]:
    """Where an input comes from: the dataset's mapping, the workflow's, then its name among the
    sample's `inputs` and fields.
    """
    explicit = dataset.field(name) or one.source
    if explicit is not None:
        return (*lookup(row, explicit), explicit)
    given = row.get("inputs")
    if isinstance(given, dict) and name in given:
        return True, given[name], f"inputs.{name}"
    if name in row:
        return True, row[name], name
    return False, None, None


def _touches(path: str, gold: list[str]) -> bool:
    """Whether a path is, holds or lies within one that leads to an expected value."""
    return any(
        path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")
        for other in gold
    )
