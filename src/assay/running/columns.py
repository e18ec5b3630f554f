"""What the columns of a dataset mean when no dataset file defines them, and how they are listed.

`expected`, `expected_answer`, `expected.answer`, `gold_answer` and, for a workflow with an output
`answer` and no input of that name, `answer` are all the expected answer. None of them ever becomes
an input.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from assay.errors import InputError
from assay.files.json_files import parse_json
from assay.registry import nearest
from assay.running.assertions import FIELD
from assay.running.dataset import ID_FIELDS, LoadedDataset
from assay.running.workflow import LoadedWorkflow
from assay.scoring.gates import is_absent

_EXPECTED = re.compile(r"(?i)(?:expected|gold)[_.-](.+)")
_LISTS = ("relevant_ids", "tool_calls", "tools", "handoffs")
"""What measures read under `expected` as a list."""

MAX_SHOWN = 40


def expected_outputs(workflow: LoadedWorkflow, dataset: LoadedDataset) -> list[str]:
    """The outputs of a workflow whose own names, as columns, mean what is expected."""
    if dataset.spec.expected is not None:
        return []
    taken = {*workflow.inputs, *dataset.spec.inputs.values()}
    taken |= {source.source for source in workflow.inputs.values() if source.source is not None}
    return [name for name in workflow.outputs if name not in taken]


def expected_of(
    row: Mapping[str, Any],
    dataset: LoadedDataset,
    outputs: list[str],
    *,
    known: list[str],
    required: list[str],
    place: str,
) -> Any:
    """What is expected for a row: as the dataset file says, else by the names of the columns. A
    column with the name of one of `outputs` is what is expected of it; `known` are all outputs of
    the workflow. A value that is not an object is for the only output in `required`. Raises
    `InputError` if two columns contradict each other, or if such a value could be for several
    outputs.
    """
    expected = dataset.expected(row)
    if not isinstance(expected, dict) and not is_absent(expected) and (due := required or known):
        if len(due) > 1:
            raise InputError(
                "RUN-002",
                f"{place}: `expected` is a single value, and the workflow has {len(due)} outputs:"
                f" {', '.join(due[:20])}.",
                where=dataset.where,
                fix=f'Say which output it is for: "expected": {{"{due[0]}": ...}}.',
            )
        expected = {due[0]: expected}  # measures compare by the names of outputs
    if dataset.spec.expected is not None:
        return expected
    named: dict[str, Any] = {}
    for column, value in row.items():
        match = _EXPECTED.fullmatch(column)
        name = match[1] if match is not None else column if column in outputs else None
        if name == "output" and len(known) == 1:
            name = known[0]  # `expected_output`, as other tools write it
        if name is None or is_absent(value):
            continue
        if name not in known and not is_absent(expected):
            continue  # next to an `expected` that says it all
        if name in named and named[name] != value:
            raise _twice(dataset, place, name)
        named[name] = value
    if not named or is_absent(expected):
        return named or expected
    for name, value in named.items():
        if name in expected and expected[name] != value:
            raise _twice(dataset, place, name)
    return {**named, **expected}


def with_lists(expected: Any, *, known: Collection[str], where: str, place: str) -> Any:
    """What is expected, with text where measures read a list as that list: JSON, or one entry. A
    cell of a table can't be anything else. `known` are the outputs of the workflow.
    """
    if not isinstance(expected, dict):
        return expected
    lists: dict[str, Any] = {}
    for name in _LISTS:
        value = expected.get(name)
        if name in known or not isinstance(value, str) or is_absent(value):
            continue
        try:
            lists[name] = parse_json(value.encode()) if value.lstrip().startswith("[") else [value]
        except ValueError as error:
            raise InputError(
                "RUN-002",
                f"{place}: `expected.{name}` is not JSON: {error}.",
                where=where,
                fix='Write a list, such as ["a", "b"], or one entry.',
            ) from None
    return {**expected, **lists}


def _twice(dataset: LoadedDataset, place: str, name: str) -> InputError:
    return InputError(
        "RUN-002",
        f"{place}: two columns give the expected {name!r}, and they differ.",
        where=dataset.where,
        fix="Keep one, or name the right one with `expected:` in a dataset file.",
    )


def is_misspelt_assert(column: str, value: Any) -> bool:
    """Whether a column is a misspelt `assert`: the name is close, and the value is an object, a
    list of them, or text that looks like JSON of either.
    """
    name = column.lower()
    if isinstance(value, str):
        is_alike = value.lstrip().startswith(("[{", "{"))
    else:
        listed = value if isinstance(value, list) else [value]
        is_alike = any(isinstance(item, dict) for item in listed)
    return (
        is_alike
        and column != FIELD
        and (
            name in ("assertion", "assertions")
            or sorted(name) == sorted(FIELD)
            or nearest(name, [FIELD], cutoff=0.84) is not None
        )
    )


def unread_expected(
    workflow: LoadedWorkflow, expected: Iterable[Any], *, read: Iterable[str], scored: bool
) -> list[str]:
    """What samples expect that is neither an output nor in `read`, the fields that measures use;
    one sentence each. With `scored`, scorers may read anything, so only near misses are reported.
    """
    counts: dict[str, int] = {}
    total = 0
    for item in expected:
        total += 1
        for name in item if isinstance(item, dict) else ():
            counts[name] = counts.get(name, 0) + 1
    repository = workflow.spec.repository
    tests = [] if repository is None else repository.test_fields
    tests = [field.removeprefix("expected.") for field in tests if field.startswith("expected.")]
    known = [*workflow.outputs, *workflow.required_outputs, *read, *tests]
    sentences = []
    for name, count in counts.items() if workflow.outputs else ():
        close = nearest(name, known)
        if name not in known and (close is not None or not scored):
            more = "" if close is None else f" Did you mean {close!r}?"
            sentences.append(
                f"expected.{name} ({count:,} of {total:,} sample{'s' * (total != 1)}) isn't an"
                f" output of {workflow.id}, and no measure reads it.{more}"
            )
    return sentences[:20]


def columns_text(uses: Iterable[tuple[str, str]]) -> str:
    """Columns with what they are taken for, in a line: the first ones, and every near miss."""
    return ", ".join(
        f"{name} ({use})"
        for place, (name, use) in enumerate(uses)
        if place < MAX_SHOWN or "did you mean" in use
    )


def column_uses(workflow: LoadedWorkflow, dataset: LoadedDataset) -> list[tuple[str, str]]:
    """Every column of the dataset with what it is taken for, in the order of the file."""
    spec = dataset.spec
    columns: dict[str, Mapping[str, Any]] = {}
    for sample in dataset.samples:
        for name in sample.row:
            columns.setdefault(name, sample.row)
    inputs = {
        spec.inputs.get(name) or field.source or name: name
        for name, field in workflow.inputs.items()
    }
    outputs = expected_outputs(workflow, dataset)
    groups = {spec.group or "group": "group"}
    tags = [spec.tags] if isinstance(spec.tags, str) else spec.tags or ["tags"]
    ids = ID_FIELDS if spec.sample_id is None else (spec.sample_id,)
    repository = workflow.spec.repository
    tests = [] if repository is None else repository.test_fields
    trees = [] if repository is None else [repository.path_from, repository.base_from]
    names = [
        *inputs,
        *workflow.outputs,
        "expected",
        *(f"expected_{output}" for output in workflow.outputs),
    ]
    names = [name for name in (*names, *groups, *tags, FIELD) if name not in columns]
    uses = [("id", "made from the content of each row")] if dataset.made_ids else []
    for column, row in columns.items():
        match = _EXPECTED.fullmatch(column)
        gold = {path.partition(".")[0] if path not in row else path for path in dataset.gold(row)}
        if column in ids:
            use = "id"
        elif column in gold or column in outputs:
            use = f"expected {match[1] if match else column if column in outputs else ''}".rstrip()
        elif column == FIELD:
            use = "assertions"
        elif column in tests:
            use = "tests"
        elif column in inputs:
            use = f"input {inputs[column]}" if inputs[column] != column else "input"
        elif column == "inputs" and isinstance(row[column], dict):
            use = "inputs"
        elif column in groups:
            use = "group"
        elif column in tags:
            use = "tag"
        elif spec.split is not None and column == spec.split_field:
            use = "split"
        elif column in trees:
            use = "repository"
        else:
            close = nearest(column, names)
            use = "ignored" if close is None else f"ignored; did you mean {close}?"
        uses.append((column, use))
    return uses
