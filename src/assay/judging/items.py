"""What a judge is shown: the items of a file, as runs or as plain tasks with their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from assay.canon import digest
from assay.errors import Fault, InputError, count
from assay.files.inputs import Source
from assay.files.json_files import Document, Unread, stream_documents
from assay.judging.questions import Example
from assay.records.evidence import RUN_SCHEMA, Run
from assay.records.grade import is_graded
from assay.records.reading import read_record, read_run
from assay.registry import near_miss
from assay.scoring.rubric import RubricCriterion

T = TypeVar("T")
MAX_FAULTS = 20


def read_lines(
    paths: Iterable[str | Source], take: Callable[[Document], T], *, absent: str
) -> list[T]:
    """What `take` makes of each line of files; `absent` is the error if they have no lines."""
    made = take_all((line for path in paths for line in _ungraded(path)), take)
    if not made:
        raise InputError("FIL-005", absent, where=", ".join(map(str, paths)))
    return made


def _ungraded(path: str | Source) -> Iterator[Document | Unread]:
    """The documents of a file. Grades are refused at once: no judge reads them."""
    for document in stream_documents(path):
        if isinstance(document, Document) and is_graded(document.tree):
            raise InputError(
                "JDG-005",
                "contains grades, which don't include the texts to judge.",
                where=str(path),
                fix="Pass the runs that were graded; `assay run` leaves them in runs.jsonl of its"
                " work folder.",
            )
        yield document


def take_all(
    documents: Iterable[Document | Unread], take: Callable[[Document], T], *, where: str = ""
) -> list[T]:
    """What `take` makes of each document. It raises an InputError for one that is at fault; all of
    them become one error, each fault with its file and line.
    """
    taken: list[T] = []
    faults: list[Fault] = []
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        try:
            taken.append(take(document))
        except InputError as error:
            line_faults = error.faults or [Fault(error.message, code=error.code, fix=error.fix)]
            for fault in line_faults:
                fault.file = fault.file or document.file
                fault.line = fault.line or document.line
                fault.path = f"{document.at}.{fault.path}".strip(".")
            faults += line_faults
    refuse(faults, where=where)
    return taken


def refuse(faults: list[Fault], *, where: str = "", fix: str = "") -> None:
    """Raise one error with the first faults and the count of all, if there are any."""
    if faults:
        first = faults[0]
        error = InputError(
            first.code,
            first.message,
            where=where or first.file,
            fix=fix or first.fix,
            faults=faults[:MAX_FAULTS],
        )
        error.fault_count = len(faults)
        error.advice = fix
        raise error


def check_unique(ids: Iterable[str]) -> None:
    """Refuse an id that appears twice."""
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise InputError(
                "FIL-007", f"the id {name!r} appears twice.", fix="Give each item its own id."
            )
        seen.add(name)


Id = Annotated[str, Meta(min_length=1)]
Label = Literal["a", "b", "tie"]
_encode = msgspec.json.Encoder(decimal_format="number").encode


class JudgedItem(NamedTuple):
    """One text to judge, with the run that it came from, if any."""

    id: str
    task: str
    candidate: str
    reference: str | None = None
    group: str | None = None
    run: Run | None = None
    missing: str | None = None
    """Why there is nothing to judge, or None: a missing output is not an empty answer."""

    @property
    def run_digest(self) -> str | None:
        """The digest of the run, as a ledger has it; None if the item came without one."""
        return None if self.run is None else digest(self.run)


class AnswerPair(NamedTuple):
    """Two texts to compare; `label` is the verdict of a person, if there is one."""

    id: str
    task: str
    a: str
    b: str
    reference: str | None = None
    label: str | None = None
    group: str | None = None
    families: tuple[str | None, str | None] = (None, None)
    """Which family of models wrote each, where it is known."""
    runs: tuple[str | None, str | None] = (None, None)
    """The digests of the runs that gave the two answers, where they are known."""


class _Line(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    input: Any = ""


class ItemLine(_Line, frozen=True, kw_only=True):
    """A text to judge, as a file has it."""

    id: Id
    output: Any
    reference: Any = None
    group: str | None = None


class PairLine(_Line, frozen=True, kw_only=True):
    """Two texts to compare, as a file has them."""

    id: Id
    a: Any
    b: Any
    reference: Any = None
    label: Label | None = None
    group: str | None = None
    a_family: str | None = None
    b_family: str | None = None
    a_run: str | None = None
    b_run: str | None = None


class ExampleLine(_Line, frozen=True, kw_only=True):
    """A judged case, as a file has it."""

    output: Any
    score: int
    reason: Any
    criterion: str | None = None


def read_items(
    paths: Iterable[str | Source], *, output: str | None = None, with_reference: bool = False
) -> list[JudgedItem]:
    """The items of .jsonl files: `assay.run/1`, or `{"id", "input", "output", "reference",
    "group"}`.
    """

    def take(document: Document) -> JudgedItem:
        if isinstance(document.tree, dict) and document.tree.get("schema") == RUN_SCHEMA:
            return item_of(read_run(document), output=output, with_reference=with_reference)
        line = read_record(document, ItemLine, "JDG-005")
        return JudgedItem(
            line.id,
            shown(line.input),
            shown(line.output),
            _reference(line.reference),
            line.group,
            missing="the output is null" if line.output is None else None,
        )

    items = read_lines(paths, take, absent="there is nothing to judge.")
    check_unique(item.id for item in items)
    return items


def item_of(run: Run, *, output: str | None = None, with_reference: bool = False) -> JudgedItem:
    """A run as a text to judge: all its outputs, or the one that `output` names."""
    missing = f"the run has no outputs; it ended with the status {run.status}"
    return JudgedItem(
        run.run_id,
        shown(run.inputs or {}),
        _output_of(run, output) if run.outputs else "",
        _reference(run.expected if with_reference else None),
        run.group,
        run,
        None if run.outputs else missing,
    )


def read_pairs(paths: Iterable[str]) -> list[AnswerPair]:
    """The pairs of .jsonl files: `{"id", "input", "a", "b", "reference", "label", "group",
    "a_family", "b_family", "a_run", "b_run"}`.
    """

    def take(document: Document) -> AnswerPair:
        line = read_record(document, PairLine, "JDG-005")
        return AnswerPair(
            line.id,
            shown(line.input),
            shown(line.a),
            shown(line.b),
            _reference(line.reference),
            line.label,
            line.group,
            (line.a_family, line.b_family),
            (line.a_run, line.b_run),
        )

    pairs = read_lines(paths, take, absent="there is nothing to judge.")
    check_unique(pair.id for pair in pairs)
    return pairs


def pair_up(first: list[JudgedItem], second: list[JudgedItem]) -> list[AnswerPair]:
    """Pairs from two sets of runs on the same samples. A sample that only one side has is an error:
    dropping it could reverse the comparison.
    """
    left = {_sample(item): item for item in first}
    right = {_sample(item): item for item in second}
    for side, items, ids_left in (("first", first, left), ("second", second, right)):
        if len(ids_left) != len(items):
            raise InputError(
                "JDG-005",
                f"a sample appears twice in the {side} file.",
                fix="Compare one attempt for each sample.",
            )
    lonely = sorted(left.keys() ^ right.keys())
    if lonely:
        raise InputError(
            "JDG-005",
            f"{count(len(lonely), 'sample')} on one side only, for example {lonely[0]!r}.",
            fix="Give both sides the same samples.",
        )
    empty = [sample for sample in left if left[sample].missing or right[sample].missing]
    if empty:
        n = count(len(empty), "sample")
        message = f"{n} without an output on one side, for example {empty[0]!r}."
        raise InputError(
            "JDG-005",
            message,
            fix=(
                "A run without outputs cannot be compared; a missing answer is a failed gate, not a"
                " lost comparison."
            ),
        )
    return [
        AnswerPair(
            sample,
            item.task,
            item.candidate,
            right[sample].candidate,
            item.reference,
            None,
            item.group,
            runs=(item.run_digest, right[sample].run_digest),
        )
        for sample, item in left.items()
    ]


def read_examples(path: str, criterion: RubricCriterion) -> tuple[Example, ...]:
    """Judged cases for one criterion: `{"input", "output", "score", "reason"}`, optionally with
    `criterion`.
    """
    low, high = criterion.scale

    def take(document: Document) -> Example | None:
        line = read_record(document, ExampleLine, "JDG-005")
        if line.criterion not in (None, criterion.name):
            return None
        if not low <= line.score <= high:
            message = f"the score is {line.score}; it is a whole number from {low} to {high}."
            raise _fault(message, path="score")
        return Example(shown(line.input), shown(line.output), shown(line.reason), line.score)

    read = read_lines([path], take, absent="there is nothing to judge.")
    return tuple(example for example in read if example is not None)


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


def _sample(item: JudgedItem) -> str:
    return item.run.dataset.sample_id if item.run is not None else item.id


def _output_of(run: Run, name: str | None) -> str:
    outputs = run.outputs or {}
    if name is None:
        return shown(outputs)
    if name not in outputs:
        raise _fault(f"the run has no output '{name}'.{near_miss(name, outputs)}", path="outputs")
    return shown(outputs[name])


def _reference(value: Any) -> str | None:
    return None if value is None else shown(value)


def _fault(message: str, *, path: str) -> InputError:
    return InputError("JDG-005", message, faults=[Fault(message, code="JDG-005", path=path)])
