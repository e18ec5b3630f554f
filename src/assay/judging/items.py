"""What is put before a judge: the items of a file, as runs or as plain tasks with their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from assay.errors import Fault, InputError
from assay.files.json_files import Document, Unread, stream_documents
from assay.judging.questions import Example
from assay.records.evidence import RUN_SCHEMA, Run
from assay.records.reading import read_run
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assay.scoring.rubric import RubricCriterion

T = TypeVar("T")
MAX_FAULTS = 20
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Item(NamedTuple):
    """One text to judge. `run` is there where it came out of a run."""

    id: str
    task: str
    candidate: str
    reference: str | None = None
    group: str | None = None
    run: Run | None = None
    missing: str | None = None
    """Why there is nothing to judge, where there is not: an output that nobody has is no empty
    answer.
    """


class Pair(NamedTuple):
    """Two texts to compare. Where a person has compared them, `label` says how."""

    id: str
    task: str
    a: str
    b: str
    reference: str | None = None
    label: str | None = None
    group: str | None = None
    families: tuple[str | None, str | None] = (None, None)
    """Which family of models wrote each, where it is known."""


def read_items(
    paths: Iterable[str], *, output: str | None = None, with_reference: bool = False
) -> list[Item]:
    """The items of .jsonl files: `assay.run/1`, or `{"id", "input", "output", "reference",
    "group"}`.
    """

    def one(document: Document) -> Item:
        tree = document.tree
        if isinstance(tree, dict) and tree.get("schema") == RUN_SCHEMA:
            run = read_run(document)
            reference = shown(run.expected) if with_reference and run.expected is not None else None
            nothing = (
                f"the run has no outputs; it ended with the status {run.status}"
                if not run.outputs
                else None
            )
            candidate = "" if nothing else _output_of(run, output)
            return Item(
                run.run_id, shown(run.inputs or {}), candidate, reference, run.group, run, nothing
            )
        fields = _fields(tree, required=("id", "output"), optional=("input", "reference", "group"))
        nothing = "the output is null" if fields["output"] is None else None
        reference = _optional(fields, "reference")
        return Item(
            fields["id"],
            shown(fields.get("input", "")),
            shown(fields["output"]),
            reference,
            fields.get("group"),
            missing=nothing,
        )

    return _unique(_read(paths, one), lambda item: item.id)


def read_pairs(paths: Iterable[str]) -> list[Pair]:
    """The pairs of .jsonl files: `{"id", "input", "a", "b", "reference", "label", "group",
    "a_family", "b_family"}`.
    """

    def one(document: Document) -> Pair:
        optional = ("input", "reference", "label", "group", "a_family", "b_family")
        fields = _fields(document.tree, required=("id", "a", "b"), optional=optional)
        label = fields.get("label")
        if label not in (None, "a", "b", "tie"):
            raise _fault(f"the label is {label!r}; it is a, b, tie or null.", path="label")
        return Pair(
            fields["id"],
            shown(fields.get("input", "")),
            shown(fields["a"]),
            shown(fields["b"]),
            _optional(fields, "reference"),
            label,
            fields.get("group"),
            (fields.get("a_family"), fields.get("b_family")),
        )

    return _unique(_read(paths, one), lambda pair: pair.id)


def pair_up(first: list[Item], second: list[Item]) -> list[Pair]:
    """Pairs from two sets of runs on the same samples. A sample that only one side has is an error:
    dropping it could turn the comparison.
    """
    left = {_sample(item): item for item in first}
    right = {_sample(item): item for item in second}
    for side, items, found in (("first", first, left), ("second", second, right)):
        if len(found) != len(items):
            raise InputError(
                "JDG-005",
                f"a sample stands twice in the {side} file.",
                fix="Compare one attempt for each sample.",
            )
    lonely = sorted(left.keys() ^ right.keys())
    if lonely:
        raise InputError(
            "JDG-005",
            f"{len(lonely)} samples are on one side only, for example {lonely[0]!r}.",
            fix="Give both sides the same samples.",
        )
    empty = [sample for sample in left if left[sample].missing or right[sample].missing]
    if empty:
        message = f"{len(empty)} samples have no output on one side, for example {empty[0]!r}."
        raise InputError(
            "JDG-005",
            message,
            fix=(
                "A run without outputs cannot be compared; a missing answer is a failed gate, not a"
                " lost comparison."
            ),
        )
    return [
        Pair(
            sample,
            item.task,
            item.candidate,
            right[sample].candidate,
            item.reference,
            None,
            item.group,
        )
        for sample, item in left.items()
    ]


def read_examples(path: str, criterion: RubricCriterion) -> tuple[Example, ...]:
    """Judged cases for one criterion: `{"input", "output", "score", "reason"}`, optionally with
    `criterion`.
    """
    low, high = criterion.scale

    def one(document: Document) -> Example | None:
        fields = _fields(
            document.tree, required=("output", "score", "reason"), optional=("input", "criterion")
        )
        score = fields["score"]
        if fields.get("criterion") not in (None, criterion.name):
            return None
        if not isinstance(score, int) or isinstance(score, bool) or not low <= score <= high:
            raise _fault(
                f"the score is {score!r}; it is a whole number from {low} to {high}.", path="score"
            )
        return Example(
            shown(fields.get("input", "")), shown(fields["output"]), shown(fields["reason"]), score
        )

    return tuple(example for example in _read([path], one) if example is not None)


def shown(value: Any) -> str:
    """A value as a judge reads it: text as it is, a single text of an object alone, anything else
    as JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and len(value) == 1:
        only = next(iter(value.values()))
        if isinstance(only, str):
            return only
    if value is None or value == {}:
        return ""
    return msgspec.json.format(_encode(value), indent=2).decode()


def _sample(item: Item) -> str:
    return item.run.dataset.sample_id if item.run is not None else item.id


def _output_of(run: Run, name: str | None) -> str:
    outputs = run.outputs or {}
    if name is None:
        return shown(outputs)
    if name not in outputs:
        raise _fault(f"the run has no output '{name}'.{near_miss(name, outputs)}", path="outputs")
    return shown(outputs[name])


def _optional(fields: dict[str, Any], name: str) -> str | None:
    return shown(fields[name]) if fields.get(name) is not None else None


def _fault(message: str, *, path: str = "", fix: str = "") -> InputError:
    return InputError(
        "JDG-005", message, fix=fix, faults=[Fault(message, code="JDG-005", path=path, fix=fix)]
    )


def _fields(tree: Any, *, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise _fault("the line is no JSON object.")
    known = (*required, *optional)
    others = [key for key in tree if key not in known]
    faults = [
        Fault(f"'{name}' is missing.{near_miss(name, others)}", code="JDG-005")
        for name in required
        if name not in tree
    ]
    faults += [
        Fault(f"there is no key '{key}' here.{near_miss(key, known)}", code="JDG-005", path=key)
        for key in tree
        if key not in known
    ]
    if "id" in tree and (not isinstance(tree["id"], str) or not tree["id"]):
        faults.append(Fault("an id is a text that is not empty.", code="JDG-005", path="id"))
    if tree.get("group") is not None and not isinstance(tree["group"], str):
        faults.append(Fault("a group is a text.", code="JDG-005", path="group"))
    if faults:
        raise InputError("JDG-005", faults[0].message, faults=faults)
    return tree


def _read(paths: Iterable[str], one: Callable[[Document], T]) -> list[T]:
    found: list[T] = []
    faults: list[Fault] = []
    for path in paths:
        for document in stream_documents(path):
            if isinstance(document, Unread):
                faults.append(document.fault)
                continue
            try:
                found.append(one(document))
            except InputError as error:
                for fault in error.faults:
                    fault.file, fault.line = (
                        fault.file or document.file,
                        fault.line or document.line,
                    )
                faults += error.faults
            if len(faults) >= MAX_FAULTS:
                break
    if faults:
        raise InputError(
            faults[0].code, faults[0].message, where=faults[0].file, faults=faults[:MAX_FAULTS]
        )
    if not found:
        raise InputError("FIL-005", "there is nothing to judge.", where=", ".join(paths))
    return found


def _unique(found: list[T], name: Callable[[T], str]) -> list[T]:
    seen: set[str] = set()
    for item in found:
        if name(item) in seen:
            raise InputError(
                "FIL-007",
                f"the id {name(item)!r} stands twice.",
                fix="Give each item an id of its own.",
            )
        seen.add(name(item))
    return found
