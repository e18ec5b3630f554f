"""Rows of human labels and a judge's verdicts, and the scale they are on.

A row is `{"id", "human", "judge"}` and optionally `group`. If `human` is null, nobody labelled the
item; if `judge` is null, the verdict could not be read: it is counted, and never left out of a
denominator.
One file is on one scale: truth values, numbers, or words. Words have no order and no value until
the positive one is named, except `a`, `b` and `tie`, the verdicts of a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.canon import number_text
from assay.errors import Fault, InputError, few
from assay.exact import is_number
from assay.files.json_files import Document, Unread, stream_documents
from assay.judging.items import refuse, take_all
from assay.registry import near_miss
from assay.stats.calibration import Kind

MOST_CLASSES = 20
"""Numbers with more distinct values than this are a continuous scale: exact agreement means nothing
there.
"""
LARGEST = 1e50
"""A larger score is invalid: its powers would overflow in the statistics."""
ABSENT = {"human": "an unlabelled item", "judge": "a verdict that could not be read"}
"""What null means for each value."""
COMPARISON = {"a": 1.0, "tie": 0.5, "b": 0.0}
UNREAD = "(unparsable)"
"""The text of a verdict that could not be read."""


class Label(NamedTuple):
    """One item with its human label, if it has one, and the judge's verdict, if it could be
    read.
    """

    id: str
    human: Any
    judge: Any
    group: str | int | None = None
    draw: str | None = None
    """How a set of a ledger was drawn, if not at random: its labels describe no other items."""
    raters: Sequence[str] | None = None
    """Who labelled the items of a set of a ledger."""


class Scale(NamedTuple):
    """The numbers that the values of a file mean."""

    name: str
    """binary, comparison, categories, ordinal or continuous."""
    kind: Kind | None
    """How means are estimated; None if values have no worth."""
    positive: str | None
    worth: dict[str, float]
    """Of each value by its text."""

    def score(self, value: Any) -> float | None:
        """A value as a number; None for an absent one, or where values have no worth."""
        return None if value is None else self.worth.get(value_text(value))


def drawn_sentence(how: str) -> str:
    """What follows from labels of a set that was not drawn at random."""
    return (
        f"The set was drawn '{how}', not at random: these numbers describe its items, not the"
        " evaluation. The calibration names no judge, so a card made from it doesn't let a judge"
        " gate. For that, draw a set at random."
    )


def own_labels(raters: Iterable[str], judgements: Mapping[str, Any]) -> str:
    """What follows from labels by a rater who has the name of the judge; empty if nobody has."""
    judge = judgements.get("judge") or {}
    known = [judgements["scorer"].get("name"), judge.get("judge"), judge.get("model")]
    names = {name.casefold() for name in known if isinstance(name, str)}
    own = next((rater for rater in raters if rater.casefold() in names), None)
    if own is None:
        return ""
    return (
        f"The rater {own} has the name of the judge, so these labels may be the judge's own. The"
        " calibration names no judge, so a card made from it doesn't let a judge gate."
    )


def read_labels(path: str, verdicts: Mapping[str, Any] | None = None) -> list[Label]:
    """The rows of a .jsonl file of labels, or every fault of it with its line. `verdicts` has those
    of the judge by id, for rows that don't repeat them.
    """
    where = "<stdin>" if path == "-" else path
    return _labels(stream_documents(path), where=where, verdicts=verdicts or {})


def labels_of(rows: Sequence[Mapping[str, Any] | Label]) -> list[Label]:
    """Rows from Python, checked like those of a file."""
    trees = [row._asdict() if isinstance(row, Label) else row for row in rows]
    return _labels(
        (Document(tree, "", at=f"rows[{place}]") for place, tree in enumerate(trees)), where="rows"
    )


def _labels(
    documents: Iterable[Document | Unread], *, where: str, verdicts: Mapping[str, Any] = {}
) -> list[Label]:
    seen: dict[str, int | None] = {}
    kinds: list[str] = []

    def take(document: Document) -> Label:
        tree = document.tree
        if isinstance(tree, dict) and "judge" not in tree and str(tree.get("id")) in verdicts:
            tree = {**tree, "judge": verdicts[str(tree.get("id"))]}
        faults = list(_problems(tree, seen, verdicts))
        if not faults:
            row = Label(*(tree.get(key) for key in Label._fields))
            row = row._replace(id=str(row.id), raters=_names(row.raters))
            seen[row.id] = document.line
            faults = list(_mixed(row, kinds))
        if faults:
            raise InputError("JDG-008", faults[0].message, faults=faults)
        return row

    rows = take_all(documents, take, where=where)
    refuse(_slips(rows, where), where=where)
    return rows


def _names(raters: Any) -> list[str] | None:
    """The names of raters; None for anything else, such as how many there were."""
    listed = [raters] if isinstance(raters, str) else raters if isinstance(raters, list) else []
    return [name for name in listed if isinstance(name, str)] or None


def _fault(path: str, message: str, fix: str = "", code: str = "JDG-008") -> Fault:
    return Fault(message, code=code, path=path, fix=fix)


def _mixed(row: Label, kinds: list[str]) -> Iterator[Fault]:
    """The fault of values on another scale than those before; `kinds` starts with the first kind in
    the file.
    """
    for key, value in (("human", row.human), ("judge", row.judge)):
        kind = kind_of(value)
        if kind:
            kinds.append(kind)
        if kind and kind != kinds[0]:
            quoted = {kind, kinds[0]} == {"number", "text"}
            hint = " A number in quotation marks is a text." if quoted else ""
            message = f"`{key}` is a {kind} where the file began with a {kinds[0]}: one file is"
            yield _fault(key, f"{message} on one scale.{hint}")


def _problems(
    tree: Any, seen: Mapping[str, int | None], verdicts: Mapping[str, Any]
) -> Iterator[Fault]:
    if not isinstance(tree, dict):
        yield _fault("", 'must be an object {"id", "human", "judge"}.')
        return
    name, group = tree.get("id"), tree.get("group")
    if not (isinstance(name, str) and name) and type(name) is not int:
        yield _fault("id", "`id` must be a string or a whole number.")
    elif str(name) in seen:
        line = seen[str(name)]
        first = f", first in line {line}" if line else ""
        message = f"the id '{name}' appears twice{first}."
        yield _fault("id", message, "One row for each item.", "FIL-007")
    for key, absent in ABSENT.items():
        if key == "judge" and key not in tree and verdicts:
            known = f"Its ids are like '{next(iter(verdicts))}'."
            yield _fault("id", "the judge was not asked about this item.", known)
        elif key not in tree:
            near = near_miss(key, [other for other in tree if other not in Label._fields])
            fix = f"Write null for {absent}."
            if key == "judge":
                fix += " `assay judge calibrate --judgements FILE` takes verdicts from there; if"
                fix += " they are on several criteria, name one with --criterion."
            yield _fault(key, f"`{key}` is missing.{near}", fix)
        elif not kind_of(tree[key]) and tree[key] is not None:
            message = "must be a number of sensible size, a text, true, false or null."
            yield _fault(key, f"`{key}` {message}")
    if group is not None and not isinstance(group, str) and type(group) is not int:
        yield _fault("group", "`group` must be a string or a whole number.")


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


def check_one_verdict(judgements: Mapping[str, Any], *, where: str) -> None:
    """Refuse judgements with two verdicts on one item: the labels could choose between them."""
    seen: dict[tuple[str | None, str], tuple[int, str]] = {}
    faults = []
    for place, judgement in enumerate(judgements["items"]):
        name, text = str(judgement.get("id")), _verdict_text(_verdict_of(judgement))
        first, before = seen.setdefault((judgement.get("criterion"), name), (place, text))
        if text != before:
            faults.append(
                Fault(
                    f"is a second verdict on '{name}': {text}, while items[{first}] is {before}.",
                    code="JDG-008",
                    file=where,
                    path=f"items[{place}]",
                )
            )
    refuse(faults, where=where, fix="Keep one verdict on each item.")


def match_verdicts(
    rows: Sequence[Label], judgements: Mapping[str, Any]
) -> tuple[dict[str, list[str]], list[Label]]:
    """The criterion that the verdicts of the rows are on, as on a card (empty if the judgements
    name none, as with pairs), and the other items that the judge was asked about on it.

    Refuses a verdict that the judgements don't have, and verdicts on different criteria: one judge
    is not calibrated by the verdicts of another, and one criterion not by those on another.
    """
    given: dict[str | None, dict[str, dict[str, Any]]] = {}
    for judgement in judgements["items"]:
        verdict = _verdict_of(judgement)
        of_item = given.setdefault(judgement.get("criterion"), {}).setdefault(
            str(judgement.get("id")), {}
        )
        of_item[_verdict_text(verdict)] = verdict
    matching = [
        name
        for name, verdicts in given.items()
        # an item with two verdicts would let the labels choose the one that agrees
        if all(set(verdicts.get(row.id, ())) == {_verdict_text(row.judge)} for row in rows)
    ]
    if len(matching) == 1:  # where several match, people labelled only one of them
        name, ids = matching[0], {row.id for row in rows}
        unlabelled = [
            Label(item, None, verdict)
            for item, verdicts in given[name].items()
            if item not in ids
            for verdict in verdicts.values()
        ]
        return {} if name is None else {"criteria": [name]}, unlabelled
    faults = []
    for row in rows:
        on_each = [set(of.get(row.id, ())) for of in given.values()]
        verdicts = set().union(*on_each)
        if (text := _verdict_text(row.judge)) not in verdicts or any(len(of) > 1 for of in on_each):
            known = (
                f"the judge gave {' and '.join(sorted(verdicts))}"
                if verdicts
                else "the judgements do not have this item"
            )
            faults.append(
                Fault(
                    f"the verdict on '{row.id}' is {text}; {known}.", code="JDG-008", path="judge"
                )
            )
    if rows and not faults:
        names = ", ".join(sorted(map(str, given)))
        faults.append(
            Fault(
                f"the verdicts match several of the criteria {names}; a calibration is about one.",
                code="JDG-008",
                path="judge",
                fix="Pass --criterion with the one that people labelled.",
            )
        )
    fix = (
        "Give the judgements that these verdicts come from, as `assay judge rubric` or `assay judge"
        " pairwise` wrote them with -o."
    )
    refuse(faults, fix=fix)
    return {}, []


def distinct_labels(
    rows: Sequence[Label],
    judgements: Mapping[str, Any] | None,
    criteria: Mapping[str, list[str]],
) -> list[Label]:
    """Each judged text once, as the labelled row with the first id. The questions about copies have
    the same keys; counting copies would make one answer look like many.
    """
    [name] = criteria.get("criteria", [None])
    questions = {
        str(judgement.get("id")): frozenset(_question_keys(judgement))
        for judgement in (judgements["items"] if judgements else ())
        if judgement.get("criterion") == name
    }
    kept: dict[Any, str] = {}
    for row in sorted(rows, key=lambda row: (row.human is None, row.id)):
        kept.setdefault(questions.get(row.id) or row.id, row.id)
    names = set(kept.values())
    return [row for row in rows if row.id in names]


def _question_keys(judgement: Mapping[str, Any]) -> Iterator[str]:
    """The keys of the questions behind a judgement of an item or of a pair."""
    answers = judgement.get("samples") or judgement.get("looks")
    for answer in answers if isinstance(answers, list) else ():
        if isinstance(answer, dict) and isinstance(answer.get("key"), str):
            yield answer["key"]


def _verdict_of(judgement: Mapping[str, Any]) -> Any:
    return judgement.get("raw", judgement.get("winner"))


def _verdict_text(verdict: Any) -> str:
    return "null" if verdict is None else value_text(verdict)


def kind_of(value: Any) -> str:
    """The kind of a value; empty for null and for anything that can't be a label."""
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


def read_text(verdict: Any) -> str:
    """A verdict as people write it, also one that could not be read."""
    return UNREAD if verdict is None else value_text(verdict)


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
                fix=f"The values are {few(list(map(repr, sorted(values))), 10)}.",
            )
        if len(values) > 2 and any(map(is_number, values.values())):
            # as two classes, a judge that gives a 4 where people give a 1 would agree with them
            raise InputError(
                "JDG-008",
                f"--positive {positive} would reduce a scale of {len(values)} numbers to two"
                " classes, and agreement is measured on the whole scale.",
                fix="Omit --positive: it is for words.",
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
