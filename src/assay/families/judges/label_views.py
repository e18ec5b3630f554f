"""Views of label sets and their results: each rater's progress, how well raters agree, where they
differ, what they wrote.

Which labels a reader may see is decided by who asks; see `results_view`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from assay.families.judges.records import (
    HumanLabel,
    LabelItem,
    LabelResults,
    LabelSet,
    Rater,
    changed_sentence,
    compare_commands,
    rater_names,
    typed_sentence,
)
from assay.records.samples import ANSWERS, MAX_TEXT, QUESTIONS, main_text
from assay.records.summary import ValueInterval
from assay.views.blocks import (
    Column,
    Facts,
    Paragraph,
    Part,
    Section,
    Table,
    Verbatim,
    parts_of,
    section,
    stated,
)
from assay.views.pieces import absent, clip, link, listed, moment, number, phrase
from assay.views.values import read_media


def pairs_won(
    made: LabelSet, chosen: Counter[str], won: ValueInterval | None, n: int
) -> list[Part]:
    """How often each version was preferred, over all labels that count; and by pair, with an
    interval: the labels of one pair are not independent.
    """
    rows = []
    other = made.other.name if made.other else ""
    for key, text in (("a", made.evaluation.name), ("tie", "tie"), ("b", other)):
        share = f"{chosen[key] / chosen.total():.1%}"
        rows.append([text, f"{chosen[key]:,}", share])
    columns = ("Preferred", Column("Labels", "n"), Column("Share", "n"))
    known = won is not None and won.value is not None
    return parts_of(
        Paragraph(_preferred(made, won, n)) if won and known else None,
        Table("Preferred answers", columns, rows),
    )


def _preferred(made: LabelSet, share: ValueInterval, n: int) -> str:
    """Which version people prefer, as far as the pairs show."""
    low, high = share.low or 0.0, 1.0 if share.high is None else share.high
    other = made.other.name if made.other else ""
    clear = made.evaluation.name if low > 0.5 else other if high < 0.5 else ""
    preference = (
        f"People prefer {clear}." if clear else "The labels don't show which one people prefer."
    )
    return phrase(
        f"{preference} {made.evaluation.name} wins ",
        number(share.value, interval=share, n=n, percent=True),
        " of the pairs; a tie counts half.",
    )


DRAWN = {
    "random": "at random",
    "disagree": "where judge and rules disagree most",
    "near-floor": "nearest to a floor or the passing score",
}
LISTED = 100
"""Items of a list; a page must not grow with the set."""
HIDDEN = (
    "on items that you have not labelled. You see other raters' labels of an item once yours is"
    " stored."
)
"""Why a disagreement is not shown to a rater."""
Link = Callable[[LabelItem], str]


def drawn_from(made: LabelSet) -> str:
    """The evaluations of a set, in a few words."""
    return f"{made.evaluation.name} vs {made.other.name}" if made.other else made.evaluation.name


def sets_table(results: Sequence[LabelResults], href: Callable[[LabelSet], str]) -> Table:
    """Sets with their progress."""
    rows = []
    for result in results:
        made, names = result.stored.set, _names(result)
        rows.append(
            [
                link(made.name, href(made)),
                f"{'pairs' if made.other else 'scores'} of {drawn_from(made)}",
                f"{len(made.items):,} {DRAWN[made.draw.how]}",
                listed(f"{names[who.rater]} {who.done:,}" for who in result.progress)
                if result.progress
                else absent("nobody yet"),
                f"{result.labelled:,} of {len(made.items):,}",
                f"{len({each.item.run for each in result.disagreed}):,}",
                moment(result.stored.stored_at),
            ]
        )
    columns = (
        "Set",
        Column("Task", "wide"),
        Column("Items", "wide"),
        Column("Labels by rater", "wide"),
        Column("Labelled", "n"),
        Column("Disagreements", "n"),
        "Made",
    )
    return Table("Label sets", columns, rows, absent="No label sets yet.", kind="stack")


def set_facts(results: LabelResults) -> Facts:
    """What a set is."""
    made = results.stored.set
    left_out = [f"{reason}: {n:,}" for reason, n in made.draw.left_out.items() if n]
    return Facts(
        [
            ("Evaluation" if made.other is None else "Evaluations", drawn_from(made)),
            ("Task", made.question if made.rubric is None else f"score by {made.rubric.id}"),
            ("Drawn", f"{len(made.items):,} of {made.draw.pool:,}, {DRAWN[made.draw.how]}"),
            ("Labelled", f"{results.labelled:,} of {len(made.items):,}"),
            *stated(
                ("Left out", ", ".join(left_out)),
                ("Changed", changed_sentence(results)),
            ),
        ]
    )


def results_view(
    results: LabelResults,
    *,
    seen: Collection[str] | None = None,
    href: Link | None = None,
    why_hidden: str = HIDDEN,
) -> list[Part]:
    """What the labels of a set come to. `seen` are the runs that the reader has labelled: of others
    no label is shown, so that nobody is influenced by another rater. None shows all.
    """
    return parts_of(
        set_facts(results),
        section("Who won", *_won(results), id="won")
        if results.stored.set.other and results.labels
        else None,
        section("Raters", *_progress(results), id="raters"),
        section("Agreement", *_agreement(results), id="agreement"),
        section("Disagreements", *_disagreed(results, seen, href, why_hidden), id="disagreements"),
        *_opinions(results, seen, href),
    )


def _won(results: LabelResults) -> list[Part]:
    chosen = Counter(
        str(stored.label.pair.choice) for stored in results.labels if stored.label.pair
    )
    return pairs_won(results.stored.set, chosen, results.preferred, results.preferred_n)


def _progress(results: LabelResults) -> list[Part]:
    if not results.progress:
        return [Paragraph("Nobody has labelled anything yet.", "absent")]
    whole = len(results.stored.set.items)
    names = _names(results)
    rows = [
        [names[who.rater], f"{who.done:,} of {whole:,}", moment(who.newest)]
        for who in results.progress
    ]
    columns = ("Rater", Column("Labelled", "n"), "Last label")
    text = typed_sentence(results)
    return [Table("Raters", columns, rows), *([Paragraph(text, "hint")] if text else [])]


def _agreement(results: LabelResults) -> list[Part]:
    if not results.agreement:
        text = "Agreement needs labels by at least two raters."
        more = " Typed names count as one rater; give each rater a token to tell them apart."
        return [Paragraph(text + (more if results.typed > 1 else ""), "absent")]
    rows = [
        [
            agreement.criterion,
            f"{agreement.items:,}",
            number(agreement.same.value, interval=agreement.same, percent=True),
            agreement.statistic,
            number(agreement.beyond_chance.value, interval=agreement.beyond_chance, digits=3)
            if agreement.beyond_chance.value is not None
            else absent(agreement.beyond_chance.reason or "not known"),
        ]
        for agreement in results.agreement
    ]
    columns = (
        "Criterion",
        Column("Items by 2+ raters", "n"),
        Column("Same label", "n"),
        "Statistic",
        Column("Value", "n"),
    )
    return [Table("Agreement between raters", columns, rows, kind="stack")]


def _names(results: LabelResults) -> dict[Rater, str]:
    return rater_names(progress.rater for progress in results.progress)


def _named(item: LabelItem, href: Link | None) -> str:
    return link(item.sample, href(item)) if href is not None else item.sample


def _disagreed(
    results: LabelResults, seen: Collection[str] | None, href: Link | None, why_hidden: str
) -> list[Part]:
    names = _names(results)
    shown = [case for case in results.disagreed if seen is None or case.item.run in seen]
    hidden = len(results.disagreed) - len(shown)
    rows = [
        [
            _named(case.item, href),
            case.criterion,
            listed(f"{names[rater]}: {value}" for rater, value in case.values),
        ]
        for case in shown[:LISTED]
    ]
    columns = ("Sample", "Criterion", Column("Labels", "wide"))
    made, other = results.stored.set, results.stored.set.other
    what = "disagreement is" if hidden == 1 else "disagreements are"
    return parts_of(
        Table("Disagreements", columns, rows, kind="stack") if rows else None,
        None if rows or hidden else Paragraph("None so far.", "absent"),
        Paragraph(f"a is {made.evaluation.name}, b is {other.name}.", "hint")
        if rows and other
        else None,
        Paragraph(f"The first {LISTED:,} of {len(shown):,} are shown.", "hint")
        if len(shown) > LISTED
        else None,
        Paragraph(f"{hidden:,} {'more ' if rows else ''}{what} {why_hidden}", "hint")
        if hidden
        else None,
    )


def _opinions(
    results: LabelResults, seen: Collection[str] | None, href: Link | None
) -> Iterator[Section]:
    """The labels that a rater changed, and those with a comment."""
    made, names = results.stored.set, _names(results)
    items = {item.run: item for item in made.items}
    first = {(stored.label.rater, stored.label.item): stored.label for stored in results.labels}
    changed: list[list[str]] = []
    comments: list[list[str]] = []
    for at, label in [(stored.at, stored.label) for stored in results.newest]:
        if seen is not None and label.run not in seen:
            continue
        who = [_named(items[label.run], href), names[label.rater]]
        before = first[label.rater, label.item]
        if before.value != label.value:
            changed.append([*who, says(before, made), says(label, made), moment(at)])
        if label.comment:
            comments.append([*who, says(label, made), clip(label.comment, 1000)])
    for title, columns, rows in (
        ("Changed minds", ("Label that counts", "Later label", "Changed"), changed),
        ("Comments", ("Label", Column("Comment", "wide")), comments),
    ):
        if rows:
            table = Table(title, ("Sample", "Rater", *columns), rows[:LISTED], kind="stack")
            yield section(title, table, id=title.split()[0].lower())


def says(label: HumanLabel, made: LabelSet | None = None) -> str:
    """What a label says, in a few words; with the names of the set's versions.

    >>> from assay.families.judges.records import Override
    >>> of = {"run_id": "r", "run": "sha256:" + "0" * 64, "sample_id": "s"}
    >>> who = Rater(name="anna", by="token")
    >>> override = Override(verdict="fail", reason="wrong year")
    >>> says(
    ...     HumanLabel(schema="assay.label/1", kind="override", rater=who, override=override, **of)
    ... )
    'fail: wrong year'
    """
    if label.override is not None:
        return f"{label.override.verdict}: {clip(label.override.reason, 1000)}"
    if label.pair is not None:
        first = made.evaluation.name if made else "first evaluation"
        second = made.other.name if made and made.other else "second evaluation"
        return {"a": f"{first} better", "b": f"{second} better", "tie": "tie"}[label.pair.choice]
    return phrase(", ".join(f"{name} {score}" for name, score in (label.scores or {}).items()))


PASSAGES = 20
MAX_PICTURE = 2_000_000


class ShownText(Struct, frozen=True):
    """A text, or a picture, and what is left out of it."""

    text: str = ""
    picture: str = ""
    note: str = ""
    whole: str = ""
    """All inputs or outputs as JSON, where `text` is one of several."""


class ShownRun(Struct, frozen=True):
    """A run as a rater sees it."""

    question: ShownText
    answer: ShownText
    expected: ShownText
    passages: Sequence[tuple[str, str]] = ()
    """Ids and texts."""
    more_passages: int = 0


class _RatedPassage(Struct):
    id: str = ""
    text: Any = None


class _RatedRun(Struct):
    inputs: Any = None
    outputs: Any = None
    expected: Any = None
    retrieval: list[_RatedPassage] | None = None


_read = msgspec.json.Decoder(_RatedRun).decode


def shown_run(body: bytes) -> ShownRun:
    """A stored run as a rater sees it."""
    run = _read(body)
    passages = [passage for passage in run.retrieval or () if passage.text]
    return ShownRun(
        shown_text(run.inputs, QUESTIONS),
        shown_text(run.outputs, ANSWERS),
        shown_text(run.expected, ANSWERS),
        [(passage.id, cut(str(passage.text), 3000)) for passage in passages[:PASSAGES]],
        max(0, len(passages) - PASSAGES),
    )


def shown_text(values: Any, names: Sequence[str]) -> ShownText:
    """The value that a person looks for, and all of them where there are several."""
    only = next(iter(values.values())) if isinstance(values, Mapping) and len(values) == 1 else None
    data = only if isinstance(only, str) and only.startswith("data:") else ""
    if data and (media := read_media(data)) is not None:
        if len(data) <= MAX_PICTURE and media.is_picture:
            return ShownText(picture=f"data:{media.media_type};base64,{media.encoded}")
        return ShownText(
            note=f"{media.media_type}, {len(data):,} characters; it can't be shown here."
        )
    text = main_text(values, names)
    note = f"The first {MAX_TEXT:,} characters are shown." if len(text) >= MAX_TEXT else ""
    whole = ""
    if isinstance(values, Mapping) and len(values) > 1:
        whole = main_text(values, ())
        whole = "" if whole == text else cut(whole, MAX_TEXT)
    return ShownText(text=text, note=note, whole=whole)


def cut(text: str, most: int) -> str:
    """A text cut to a maximum length.

    >>> cut("abcdef", 3), cut("abc", 3)
    ('abc …', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]} …"


def use_section(made: LabelSet) -> Section:
    """The commands that make use of the labels of a set."""
    lines = compare_commands(made)
    text = "Compare a judge with these labels:"
    return section("Use the labels", Paragraph(text), Verbatim("\n".join(lines)), id="use")
