"""The view of a comparison: the evaluations, the samples side by side, and the decision on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from assay.errors import count
from assay.records.decision import Decision
from assay.records.evaluation import Evaluation, EvaluationTotals
from assay.records.samples import MAX_TEXT, NO_TEXTS, SamplePage, SampleRow, Texts
from assay.views.blocks import (
    Chip,
    Chips,
    Column,
    Control,
    Details,
    Facts,
    Note,
    Paragraph,
    Part,
    Sentences,
    Table,
    parts_of,
)
from assay.views.compare_rows import ComparedSample, CompareQuery
from assay.views.decision import (
    could_not_see,
    criteria_table,
    decision_facts,
    decision_head,
    doubled,
    next_steps,
    operations_table,
    quiet_notes,
    rules_table,
)
from assay.views.decision_samples import (
    NO_LINKS,
    confirmation_section,
    failures_section,
    is_confirming,
)
from assay.views.evaluations import versioned
from assay.views.pieces import (
    absent,
    address,
    code,
    line,
    link,
    listed,
    moment,
    number,
    phrase,
    points,
    sentence,
    signed,
    small,
    strong,
    verdict,
)
from assay.views.sample_table import NumberedPager, Search, numbered_pager
from assay.views.word_diff import TextSpan, marked, word_diff

MAX_SHOWN = 600
"""Characters of a text in a cell; the sample's page has all of it."""
MAX_GATES = 3
CONTEXT = 15
"""Unchanged words that are shown around a difference."""
MOVED = {
    "worse": ("bad", "worse"),
    "missing": ("missing", "missing"),
    "better": ("pass", "better"),
    "same": ("none", "same"),
    "new": ("none", "new"),
    "neither": ("none", "in neither"),
}
CHIPS = {
    "worse": "Worse",
    "missing": "Missing in the candidate",
    "gates": "Newly fails a gate",
    "better": "Better",
    "same": "Same",
    "answer": "Answer changed",
    "new": "New in the candidate",
    "neither": "In neither of the two",
}


class Version(NamedTuple):
    """One column of a comparison: an evaluation, or a stored baseline."""

    reference: str
    """What the address calls it."""
    name: str
    evaluation: Evaluation | None = None
    """None for a stored baseline."""
    made_at: str = ""
    runs: int = 0

    @property
    def href(self) -> str:
        """Its page; empty for a stored baseline."""
        return "" if self.evaluation is None else address("evaluations", self.reference)

    @property
    def linked(self) -> str:
        """Its name, as a link where it has a page."""
        return link(self.name, self.href) if self.href else self.name

    def run_href(self, row: SampleRow) -> str:
        """The page of a sample's worst run."""
        within = None if self.evaluation is None else self.reference
        return address("runs", row.worst.digest or row.worst.run_id, in_=within)


# --- what is compared


class CompareForm(Control, frozen=True):
    """Evaluations to choose from, each a value and a text; the first chosen one is the baseline."""

    evaluations: list[tuple[str, str]]
    baselines: list[tuple[str, str]]
    """Stored baselines, which can only come first."""
    chosen: Sequence[str]
    policies: Sequence[str]
    policy: str = ""
    opened: bool = False
    usual: str = "release"
    """The rules where no policy is chosen."""


def search_box(query: CompareQuery) -> Search:
    """Search in the questions and answers that are compared."""
    kept = [
        (name, text)
        for name, value in query.but(q="").items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    clear = address("compare", **query.but(q=""))
    return Search("/compare", "Search in questions and answers", query.q, kept, clear)


def versions_table(versions: Sequence[Version], judged: int, query: CompareQuery) -> Table:
    """What is compared: the baseline first, and which one is decided on."""
    rows = []
    for place, version in enumerate(versions):
        of = version.evaluation
        role = "Baseline" if place == 0 else "Candidate" if place == judged else ""
        rows.append(
            [
                version.linked,
                strong(role)
                if role
                else link(
                    "Decide on this one",
                    address("compare", **query.but(candidate=version.reference)),
                ),
                versioned(of.workflow) if of else absent("a stored baseline"),
                versioned(of.dataset) if of else absent("that of its runs"),
                f"{version.runs:,}",
                *_totals(of.totals if of else None),
                moment(version.made_at),
            ]
        )
    columns = (
        "Evaluation",
        "Role",
        "Workflow",
        "Dataset",
        Column("Runs", "n"),
        "Pass rate",
        "Mean score",
        "Started",
    )
    return Table("What is compared", columns, rows, kind="stack")


def _totals(totals: EvaluationTotals | None) -> list[str]:
    if totals is None or totals.ungraded == totals.n:
        return [absent("not stated" if totals is None else "not graded"), absent("none")]
    return [
        number(totals.pass_rate.value, interval=totals.pass_rate, percent=True),
        number(totals.score.value, interval=totals.score),
    ]


# --- the samples


def movement_chips(counts: Mapping[str, int], n: int, query: CompareQuery) -> Chips:
    """How many samples got worse, better and so on, each a filter."""
    # answers are read only where somebody asks for them: there may be thousands
    known = {name: counts.get(name, None if name == "answer" else 0) for name in CHIPS}
    always = ("worse", "better", "same", "answer", query.show)
    return Chips(
        "Filter samples",
        [
            Chip("All", address("compare", **query.but(show="")), n, not query.show, "all"),
            *(
                Chip(
                    text,
                    address("compare", **query.but(show="" if query.show == name else name)),
                    known[name],
                    query.show == name,
                    name,
                )
                for name, text in CHIPS.items()
                if counts.get(name) or name in always
            ),
        ],
    )


def samples_table(
    page: SamplePage,
    samples: Sequence[ComparedSample],
    versions: Sequence[Version],
    query: CompareQuery,
) -> Table:
    """The samples of a page; `samples` have their texts."""
    judged = samples[0].judged if samples else len(versions) - 1
    moves = not query.unmoved
    expected = any(row.expected for sample in samples for row in sample.rows if row is not None)
    columns = [
        _sorted("Sample", "sample", query, kind="text"),
        *([Column("Expected", "text")] if expected else ()),
        # a difference is shown in full: what was added comes after what was removed
        *(
            Column(_head(version, place, judged), "wide" if place else "text")
            for place, version in enumerate(versions)
        ),
    ]
    if moves:
        kind = "wide" if len(versions) < 3 else ""
        columns.append(_sorted("Change", "difference", query, kind=kind))
    rows = [
        [
            _question(sample, versions),
            *([_expected(sample)] if expected else ()),
            *(_cell(sample, place, version, moves) for place, version in enumerate(versions)),
            *([_change(sample)] if moves else []),
        ]
        for sample in samples
    ]
    absent_as = "No sample matches this filter." if query.show or query.q else "No samples."
    first = f"{page.first:,} to {page.first + len(rows) - 1:,}" if rows else "none"
    caption = (
        f"Samples {first} of {page.total:,}, {_ORDERED.get(query.sort, 'what got worse first')}"
    )
    return Table(caption, columns, rows, absent=absent_as, kind="stack sheet compared")


def order_hint(n: int, query: CompareQuery) -> Paragraph:
    """How many samples there are, and in which order they come."""
    usual = (
        "what got worse comes first, newly failed gates before lost points; then what stayed the"
        " same, then what got better"
    )
    order = _ORDERED.get(query.sort, "by name" if query.unmoved else usual)
    return Paragraph(f"{count(n, 'sample')}: {order}.", "hint")


def page_links(page: SamplePage, query: CompareQuery) -> NumberedPager:
    """Links through the samples."""
    return numbered_pager(page, lambda number: address("compare", **query.but(page=number)))


_ORDERED = {
    "sample": "by name",
    "-sample": "by name, backwards",
    "difference": "largest losses first",
    "-difference": "largest gains first",
}


def _sorted(title: str, name: str, query: CompareQuery, *, kind: str = "") -> Column:
    order = {name: "ascending", f"-{name}": "descending"}.get(query.sort, "")
    following = f"-{name}" if query.sort == name else name
    return Column(title, kind, address("compare", **query.but(sort=following)), order)


def _head(version: Version, place: int, judged: int) -> str:
    return (
        f"{version.name} (baseline)"
        if place == 0
        else (f"{version.name} (candidate)" if place == judged else version.name)
    )


def _question(sample: ComparedSample, versions: Sequence[Version]) -> str:
    place = next(place for place, row in enumerate(sample.rows) if row is sample.any)
    title = sample.any.title
    name = link(strong(title or sample.sample), versions[place].run_href(sample.any))
    if title:
        name = phrase(name, line(small(sample.sample)))
    if sample.pair is not None and sample.pair[0].question != sample.pair[1].question:
        changed = _difference(*(row.question for row in sample.pair))
        return phrase(name, line(small("asked differently:"), " ", changed))
    question = sample.any.question
    return phrase(name, line(_cut(question)) if question else line(absent("no question")))


def _expected(sample: ComparedSample) -> str:
    if sample.pair is not None and sample.pair[0].expected != sample.pair[1].expected:
        changed = _difference(*(row.expected for row in sample.pair))
        return phrase(small("differs:"), " ", changed)
    return _cut(sample.any.expected) or absent("none")


def _cell(sample: ComparedSample, place: int, version: Version, moves: bool) -> str:
    """One evaluation's result for a sample: the score, and the answer with differences marked."""
    row = sample.rows[place]
    if row is None:
        lost = moves and place == sample.judged
        return absent("missing: counts as lost" if lost else "not in it")
    score = link(
        verdict("pass" if row.passed else "fail", points(row.score)), version.run_href(row)
    )
    repeats = small(f" mean of {len(row.runs)} repeats") if len(row.runs) > 1 else ""
    if any(run.grade is None for run in row.runs):
        score = link(verdict("fail", "not graded"), version.run_href(row))
    between = moves and place not in (0, sample.judged)
    difference = sample.difference_of(place) if between else None
    moved = small(f" {signed(difference)}") if difference is not None else ""
    if row.forgotten:
        answer: str = absent("the run was forgotten")
    elif place == 0 or sample.base is None or sample.base.forgotten:
        answer = _cut(row.answer) or absent("no answer")
    else:
        answer = _difference(sample.base.answer, row.answer)
    return phrase(score, moved, repeats, line(answer))


def _change(sample: ComparedSample) -> str:
    word, text = MOVED[sample.movement]
    parts: list[str] = [verdict(word, text)]
    if sample.difference is not None:
        parts.insert(0, line(strong(signed(sample.difference))))
    base, ours = sample.base, sample.ours
    if base is not None and ours is not None and sample.movement in ("worse", "better"):
        if base.passed != ours.passed:
            parts.append(line("passes now" if ours.passed else "no longer passes"))
        elif base.letter != ours.letter and round(base.score, 2) == round(ours.score, 2):
            parts.append(line(f"grade {base.letter or 'none'} to {ours.letter or 'none'}"))
    if sample.newly_failed:
        gates = listed(map(code, sample.newly_failed[:MAX_GATES]), ", ")
        rest = len(sample.newly_failed) - MAX_GATES
        more = f" and {rest} more" if rest > 0 else ""
        parts.append(line("now fails " if base is not None else "fails ", gates, more))
    return phrase(*parts)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} …"


def _difference(before: str, after: str) -> str:
    """What differs between two texts, as much of it as a cell shows."""
    diff = word_diff(before, after, context=CONTEXT)
    if not before and not after:
        return absent("no answer")
    if diff.identical:
        whole = len(before) < MAX_TEXT
        return small("same answer" if whole else f"the first {MAX_TEXT:,} characters are the same")
    spans: list[TextSpan] = []
    left = 2 * MAX_SHOWN
    for span in diff.spans:
        if left <= 0:
            spans.append(TextSpan("skipped", " … more on the sample's page"))
            break
        spans.append(TextSpan(span.kind, span.text[:left]))
        left -= len(span.text)
    return marked(diff._replace(spans=tuple(spans)))


# --- the decision


def decision_parts(decision: Decision, *, under: str = "", texts: Texts = NO_TEXTS) -> list[Part]:
    """The outcome and how sure it is, what newly fails, every rule with its reason, the
    confirmation, what to do next, and what the decision rests on. `under` has the release rules in
    words.
    """
    head = decision_head(decision)
    facts = [fact for fact in decision_facts(decision) if fact[0] != "note"]
    failing = failures_section(decision, texts, NO_LINKS, level=3)
    confirming = confirmation_section(decision, NO_LINKS, level=3)
    criteria, used = criteria_table(decision), operations_table(decision)
    return parts_of(
        *(Note(sentence(note), "bad") for note in decision.loud or ()),
        structs.replace(head, policy=under or head.policy),
        *map(Note, doubled(decision)),
        failing,
        rules_table(decision),
        confirming if confirming is not None and is_confirming(decision) else None,
        *(Note(sentence(text)) for text in quiet_notes(decision)),
        *next_steps(decision),
        None
        if criteria is None and used is None
        else Details("Criteria, cost, latency and tokens", parts_of(criteria, used)),
        Details("What it could not see", [Sentences(could_not_see(decision))]),
        Details("The numbers behind it", [Facts(facts, "small")]),
    )
