"""Rows of human labels and a judge's verdicts, and the scale they are on.

A row is `{"id", "human", "judge"}` and perhaps `group`. A human null says that nobody looked; a
judge null that the verdict could not be read: it is counted, and never left out of a denominator.
One file is on one scale: truth values, numbers, or words. Words have no order and no worth until
somebody says which one is the positive one; only `a`, `b` and `tie` do, as the verdicts of a
comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import number_text
from assay.errors import Fault, InputError
from assay.exact import is_number
from assay.files.json_files import Document, Unread, stream_documents
from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assay.stats.calibration import Kind

MAX_FAULTS = 100
MOST_CLASSES = 20
"""Numbers with more distinct values than this are a continuous scale: exact agreement means nothing
there.
"""
LARGEST = 1e50
"""A score beyond this is none: the powers that statistics take of it would not fit."""
COMPARISON = {"a": 1.0, "tie": 0.5, "b": 0.0}


class Label(NamedTuple):
    """One item: what people said of it, if anybody looked, and what the judge said, if that could
    be read.
    """

    id: str
    human: Any
    judge: Any
    group: str | int | None = None


class Scale(NamedTuple):
    """What the values of a file are worth."""

    name: str
    """binary, comparison, categories, ordinal or continuous."""
    kind: Kind | None
    """How means are estimated; None where values have no worth."""
    positive: str | None
    worth: dict[str, float]
    """Of each value by its text."""

    def score(self, value: Any) -> float | None:
        """A value as a number; None for an absent one, or where values have no worth."""
        return None if value is None else self.worth.get(value_text(value))


def read_labels(path: str) -> list[Label]:
    """The rows of a .jsonl file of labels, or every fault of it with its line."""
    return _labels(stream_documents(path), where="<stdin>" if path == "-" else path)


def labels_of(rows: Sequence[Mapping[str, Any] | Label]) -> list[Label]:
    """Rows from Python, held to the same rules as those of a file."""
    trees = [row._asdict() if isinstance(row, Label) else row for row in rows]
    return _labels(
        (Document(tree, "", at=f"rows[{place}]") for place, tree in enumerate(trees)), where="rows"
    )


def _labels(documents: Iterable[Document | Unread], *, where: str) -> list[Label]:
    rows: list[Label] = []
    faults: list[Fault] = []
    seen: dict[str, int | None] = {}
    kind = ""
    for document in documents:
        if isinstance(document, Unread):
            faults.append(document.fault)
            continue
        tree = document.tree
        found = _problems(tree, seen)
        if not found:
            row = Label(str(tree["id"]), tree["human"], tree["judge"], tree.get("group"))
            seen[row.id] = document.line
            for key, value in (("human", row.human), ("judge", row.judge)):
                this = kind_of(value)
                kind = kind or this
                if this and this != kind:
                    hint = (
                        " A number in quotation marks is a text."
                        if {this, kind} == {"number", "text"}
                        else ""
                    )
                    found.append(
                        Fault(
                            f"`{key}` is a {this} where the file began with a {kind}: one file is"
                            f" on one scale.{hint}",
                            code="JDG-008",
                            path=key,
                        )
                    )
            rows.append(row)
        for fault in found:
            fault.file, fault.line = document.file, document.line
            fault.path = f"{document.at}.{fault.path}".strip(".")
        faults += found
    if not faults:
        faults = _slips(rows, where)
    if faults:
        error = InputError(
            faults[0].code,
            faults[0].message,
            where=where or faults[0].file,
            fix=faults[0].fix,
            faults=faults[:MAX_FAULTS],
        )
        error.fault_count = len(faults)
        raise error
    return rows


def _problems(tree: Any, seen: Mapping[str, int | None]) -> list[Fault]:
    if not isinstance(tree, dict):
        return [Fault('must be an object {"id", "human", "judge"}.', code="JDG-008")]
    found = []
    name = tree.get("id")
    if not (isinstance(name, str) and name) and type(name) is not int:
        found.append(Fault("`id` must be a text or a whole number.", code="JDG-008", path="id"))
    elif str(name) in seen:
        first = seen[str(name)]
        found.append(
            Fault(
                f"the id '{name}' stands twice{f', first in line {first}' if first else ''}.",
                code="FIL-007",
                path="id",
                fix="One row for each item.",
            )
        )
    for key in ("human", "judge"):
        if key not in tree:
            near = near_miss(
                key, [other for other in tree if other not in ("id", "human", "judge", "group")]
            )
            absent = "an unlabelled item" if key == "human" else "a verdict that could not be read"
            found.append(
                Fault(
                    f"`{key}` is missing.{near}",
                    code="JDG-008",
                    path=key,
                    fix=f"Write null for {absent}.",
                )
            )
        elif not kind_of(tree[key]) and tree[key] is not None:
            found.append(
                Fault(
                    f"`{key}` must be a number of sensible size, a text, true, false or null.",
                    code="JDG-008",
                    path=key,
                )
            )
    group = tree.get("group")
    if group is not None and not isinstance(group, str) and type(group) is not int:
        found.append(
            Fault("`group` must be a text or a whole number.", code="JDG-008", path="group")
        )
    return found


def _slips(rows: Sequence[Label], where: str) -> list[Fault]:
    """Verdicts that differ from a label only in case or in blanks: they would count as
    disagreement.
    """
    people = {row.human for row in rows if isinstance(row.human, str)}
    folded = {value.strip().casefold(): value for value in people}
    odd = {row.judge for row in rows if isinstance(row.judge, str)} - people
    return [
        Fault(
            f"the judge says {value!r} where people say {folded[value.strip().casefold()]!r}.",
            code="JDG-008",
            file=where,
            path="judge",
            fix="Spell them alike.",
        )
        for value in sorted(odd)
        if value.strip().casefold() in folded
    ]


def kind_of(value: Any) -> str:
    """What a value is; nothing for null and for what is no value of a scale."""
    if value is True or value is False:
        return "truth value"
    if isinstance(value, str):
        return "text" if value.strip() else ""
    return "number" if is_number(value) and abs(float(value)) <= LARGEST else ""


def value_text(value: Any) -> str:
    """A value as people write it.

    >>> [value_text(value) for value in (True, 4.0, "tie")]
    ['true', '4', 'tie']
    """
    if value is True or value is False:
        return "true" if value else "false"
    return value if isinstance(value, str) else number_text(value)


def scale_of(rows: Iterable[Label], *, positive: str | None = None) -> Scale:
    """The scale of some rows; with `positive`, that value against all others."""
    values = {
        value_text(value): value
        for row in rows
        for value in (row.human, row.judge)
        if value is not None
    }
    if positive is not None:
        if positive not in values:
            raise InputError(
                "JDG-008",
                f"no label and no verdict is '{positive}'.{near_miss(positive, values)}",
                fix=f"There are {_listed(values)}.",
            )
        return Scale("binary", "rate", positive, {text: float(text == positive) for text in values})
    if all(isinstance(value, bool) for value in values.values()):
        return Scale("binary", "rate", "true", {"true": 1.0, "false": 0.0})
    if all(isinstance(value, str) for value in values.values()):
        if set(values) <= set(COMPARISON):
            return Scale("comparison", "rate", "a", COMPARISON)
        return Scale("categories", None, None, {})
    if set(values) <= {"0", "1"}:
        return Scale("binary", "rate", "1", {"1": 1.0, "0": 0.0})
    whole = (
        all(float(value) == int(value) for value in values.values()) and len(values) <= MOST_CLASSES
    )
    return Scale(
        "ordinal" if whole else "continuous",
        "number",
        None,
        {text: float(value) for text, value in values.items()},
    )


def _listed(values: Iterable[str]) -> str:
    known = sorted(values)
    return ", ".join(repr(value) for value in known[:10]) + (
        f" and {len(known) - 10} more" if len(known) > 10 else ""
    )
