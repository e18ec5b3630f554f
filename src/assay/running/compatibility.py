"""Whether a dataset fits a workflow, checked for every sample before anything runs.

Each required input must come from somewhere, by explicit mapping or by its name, and must not be
empty. An expected value never becomes an input: an input whose field is, contains or is part of an
expected value is refused, so a workflow never sees its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from assay.errors import EvidenceError, Fault, InputError, raise_faults
from assay.running.assertions import FIELD, Assertion, read_assertions
from assay.running.columns import (
    column_uses,
    expected_of,
    expected_outputs,
    is_misspelt_assert,
    with_lists,
)
from assay.running.dataset import LoadedDataset, lookup
from assay.running.workflow import LoadedWorkflow
from assay.scoring.gates import is_absent

SHOWN = 20


class PreparedSample(NamedTuple):
    """A sample that is ready to run: its inputs, and what must not reach the workflow."""

    sample_id: str
    inputs: dict[str, Any]
    expected: Any
    group: str | None
    tags: list[str]
    row: Mapping[str, Any]
    assertions: tuple[Assertion, ...] | None = None
    """What the row asserts about the outputs; None if no row of the dataset asserts anything."""


class Misfit(InputError):
    """A dataset does not fit a workflow; `reasons` lists everything that is missing."""

    def __init__(
        self, reasons: Sequence[str], examples: Mapping[str, str], fields: list[str], *, where: str
    ) -> None:
        self.reasons = list(reasons)
        shown = "; ".join(f"{reason} ({examples[reason]})" for reason in self.reasons[:SHOWN])
        more = f"; and {len(self.reasons) - SHOWN} more" if len(self.reasons) > SHOWN else ""
        super().__init__(
            "RUN-003",
            f"the dataset does not fit the workflow: {shown}{more}.",
            where=where,
            fix=(
                "Name the field of each input: `inputs: {NAME: FIELD}` in the dataset, or `inputs:"
                " {NAME: {from: FIELD}}` in the workflow. The samples have"
                f" {', '.join(map(repr, fields[:SHOWN]))}."
            ),
        )


def prepare(workflow: LoadedWorkflow, dataset: LoadedDataset) -> list[PreparedSample]:
    """Every sample with its inputs. Raises `Misfit` with all the reasons, sorted, each once."""
    ready: list[PreparedSample] = []
    lacking: dict[str, list[str]] = {}
    repository = workflow.spec.repository
    tests = [] if repository is None else repository.test_fields
    by_name = expected_outputs(workflow, dataset)
    asserted: list[tuple[Assertion, ...]] = []
    faults: list[Fault] = []
    ignored = {name for name, use in column_uses(workflow, dataset) if use.startswith("ignored")}
    for sample in dataset.samples:
        row = sample.row
        faults += [
            Fault(
                f"{sample.where}: the column {column!r} would be ignored, and its assertions with"
                f" it. Did you mean {FIELD!r}?",
                code="RUN-002",
                file=dataset.where,
                fix=f"Rename the column: to {FIELD!r}, or to a name that can't be mistaken for it.",
            )
            for column in sorted(ignored & row.keys())
            if is_misspelt_assert(column, row[column])
        ]
        gold = [*dataset.gold(row), *tests, *by_name, FIELD]
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
        try:
            asserted.append(
                read_assertions(
                    row,
                    outputs=list(workflow.outputs),
                    where=dataset.where,
                    place=sample.where,
                )
            )
        except EvidenceError as error:
            faults += error.faults
        ready.append(
            PreparedSample(
                sample.id,
                inputs,
                with_lists(
                    expected_of(
                        row,
                        dataset,
                        by_name,
                        known=list(workflow.outputs),
                        required=workflow.required_outputs,
                        place=sample.where,
                    ),
                    known=workflow.outputs,
                    where=dataset.where,
                    place=sample.where,
                ),
                dataset.group(row),
                dataset.tags(row),
                row,
            )
        )
    if lacking:
        total = len(dataset.samples)
        examples = {
            reason: f"{len(places)} of {total} sample{'s' * (total != 1)}, first: {places[0]}"
            for reason, places in lacking.items()
        }
        fields = list(dict.fromkeys(field for sample in dataset.samples for field in sample.row))
        raise Misfit(sorted(lacking), examples, fields, where=dataset.where)
    raise_faults(faults[:SHOWN], where=dataset.where)
    if any(asserted):
        if workflow.spec.assertions != "gate" and not all(asserted):
            without = [
                sample.sample_id
                for sample, sample_assertions in zip(ready, asserted, strict=True)
                if not sample_assertions
            ]
            raise InputError(
                "RUN-002",
                f"assertions are a criterion here, and {len(without)} of {len(ready)} samples have"
                f" none, for example {without[0]!r}: a share of nothing is not a score.",
                where=dataset.where,
                fix="Give every sample an `assert`, or make them a gate with `assertions: gate`.",
            )
        return [
            sample._replace(assertions=sample_assertions)
            for sample, sample_assertions in zip(ready, asserted, strict=True)
        ]
    return ready


def _find(name: str, mapped: str | None, row: Mapping[str, Any]) -> tuple[bool, Any, str]:
    """Whether an input is there, its value and its path: where it is mapped to, else under its name
    among the sample's `inputs`, else among its fields.
    """
    if mapped is not None:
        return (*lookup(row, mapped), mapped)
    inputs = row.get("inputs")
    if isinstance(inputs, dict) and name in inputs:
        return True, inputs[name], f"inputs.{name}"
    return name in row, row.get(name), name


def touches(path: str, gold: Iterable[str]) -> bool:
    """Whether a path equals, contains or is inside a path to an expected value."""
    return any(
        path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.")
        for other in gold
    )
