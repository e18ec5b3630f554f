"""Whether a dataset fits a workflow, checked for every sample before anything runs.

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
    from collections.abc import Iterable, Mapping, Sequence

    from assay.running.dataset import LoadedDataset
    from assay.running.workflow import LoadedWorkflow

SHOWN = 20


class PreparedSample(NamedTuple):
    """A sample that is ready to run: its inputs, and what must not reach the workflow."""

    sample_id: str
    inputs: dict[str, Any]
    expected: Any
    group: str | None
    tags: list[str]
    row: Mapping[str, Any]


class Misfit(InputError):
    """A dataset does not fit a workflow; `reasons` lists everything that is missing."""

    def __init__(self, reasons: Sequence[str], examples: Mapping[str, str], *, where: str) -> None:
        self.reasons = list(reasons)
        shown = "; ".join(f"{reason} ({examples[reason]})" for reason in self.reasons[:SHOWN])
        more = f"; and {len(self.reasons) - SHOWN} more" if len(self.reasons) > SHOWN else ""
        super().__init__(
            "RUN-003",
            f"the dataset does not fit the workflow: {shown}{more}.",
            where=where,
            fix=(
                "Map the input with `inputs: {NAME: {from: FIELD}}` in the workflow or `inputs:"
                " {NAME: FIELD}` in the dataset, or fix the samples."
            ),
        )


def prepare(workflow: LoadedWorkflow, dataset: LoadedDataset) -> list[PreparedSample]:
    """Every sample with its inputs. Raises `Misfit` with all the reasons, sorted, each once, and
    nothing has run.
    """
    ready: list[PreparedSample] = []
    lacking: dict[str, list[str]] = {}
    repository = workflow.spec.repository
    tests = [] if repository is None else repository.test_fields
    for sample in dataset.samples:
        row = sample.row
        gold = dataset.gold(row) + tests
        inputs: dict[str, Any] = {}
        for name, source in workflow.inputs.items():
            mapped = dataset.spec.inputs.get(name) or source.source
            present, value, path = _find(name, mapped, row)
            if present and touches(path, gold):
                lacking.setdefault(f"expected value as input: {name}", []).append(
                    f"field {path!r} of {sample.where}"
                )
            elif present and not is_absent(value):
                inputs[name] = value
            elif source.default is not UNSET:
                inputs[name] = source.default
            elif source.required:
                lacking.setdefault(f"missing: {name}", []).append(sample.where)
            elif present:
                inputs[name] = value
        ready.append(
            PreparedSample(
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


def _find(name: str, mapped: str | None, row: Mapping[str, Any]) -> tuple[bool, Any, str]:
    """Whether an input is there, its value and its path: where it is mapped to, else under its name
    among the sample's `inputs`, else among its fields.
    """
    if mapped is not None:
        return (*lookup(row, mapped), mapped)
    given = row.get("inputs")
    if isinstance(given, dict) and name in given:
        return True, given[name], f"inputs.{name}"
    return name in row, row.get(name), name


def touches(path: str, gold: Iterable[str]) -> bool:
    """Whether a path is, holds or lies within one that leads to an expected value."""
    return any(
        path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")
        for other in gold
    )
