"""The view of a comparison: the evaluations, the samples side by side, and the decision on them.

The first evaluation is the baseline. Rows in, rows out: nothing is read here, and nothing decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct, structs

from assay.errors import count
from assay.records.decision import Decision
from assay.records.evaluation import Evaluation, EvaluationTotals
from assay.records.samples import (
    MAX_TEXT,
    NO_TEXTS,
    SamplePage,
    SampleQuery,
    SampleRow,
    Texts,
    change_of,
    select_samples,
    without_doubles,
)
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
from assay.views.decision import (
    NO_LINKS,
    confirmation_section,
    could_not_see,
    criteria_table,
    decision_facts,
    decision_head,
    doubled,
    failures_section,
    is_confirming,
    next_steps,
    operations_table,
    quiet_notes,
    rules_table,
)
from assay.views.evaluation import versioned
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

ON_A_PAGE = 25
Movement = Literal["worse", "missing", "same", "better", "new", "neither"]


class ComparedSample(Struct, frozen=True):
    """One sample of every evaluation, in their order; None if one lacks it."""

    sample: str
    rows: tuple[SampleRow | None, ...]
    judged: int
    """The place of the candidate."""

    @property
    def base(self) -> SampleRow | None:
        """The baseline's."""
        return self.rows[0]

    @property
    def ours(self) -> SampleRow | None:
        """The candidate's."""
        return self.rows[self.judged]

    @property
    def any(self) -> SampleRow:
        """Of the candidate, else of the baseline, else of whichever has it."""
        all_rows = (self.ours, self.base, *self.rows)
        return next(row for row in all_rows if row is not None)

    @property
    def movement(self) -> Movement:
        """What changed: by the verdict, else by the score. `missing` is a sample that the candidate
        lost, `neither` one that only another evaluation has.
        """
        if self.ours is None:
            return "neither" if self.base is None else "missing"
        return change_of(self.ours, self.base)

    @property
    def difference(self) -> float | None:
        """The candidate's score less the baseline's; None if one of them is missing."""
        return self.difference_of(self.judged)

    def difference_of(self, place: int) -> float | None:
        """The score of one evaluation less the baseline's; None if that was forgotten."""
        row, base = self.rows[place], self.base
        return (
            None if row is None or base is None or base.grade_forgotten else row.score - base.score
        )

    @property
    def pair(self) -> tuple[SampleRow, SampleRow] | None:
        """The baseline's and the candidate's, where both have their texts."""
        base, ours = self.base, self.ours
        if base is None or ours is None or base.forgotten or ours.forgotten:
            return None
        return base, ours

    @property
    def answer_changed(self) -> bool:
        """Whether the candidate's answer differs from the baseline's; known only for rows with
        texts.
        """
        return self.pair is not None and self.pair[0].answer != self.pair[1].answer

    @property
    def newly_failed(self) -> list[str]:
        """The gates that the candidate fails and the baseline did not; every gate it fails where
        the sample is new.
        """
        before = set() if self.base is None else set(self.base.gates)
        return [] if self.ours is None else [gate for gate in self.ours.gates if gate not in before]


SHOWN = ("worse", "missing", "gates", "better", "same", "answer", "new", "neither")
"""What `show` can be: a movement, `gates` for samples that newly fail one, or `answer` for those
that are answered otherwise.
"""
UNMOVED = {
    "refused": "There is no decision on these two, so no sample is counted as better or worse. The"
    " scores are those stored with each evaluation.",
    "regraded": "These evaluations were not stored with the grades that the decision uses, so"
    " no sample is counted as better or worse. The scores are those stored with each evaluation.",
}
"""Why stored scores are not compared."""
_ORDER = {"worse": 0, "missing": 0, "same": 1, "better": 2, "new": 3, "neither": 4}


class CompareQuery(Struct, frozen=True, kw_only=True):
    """What the address of a comparison asks for."""

    of: tuple[str, ...] = ()
    """The evaluations, the baseline first."""
    candidate: str = ""
    """The one of them that is decided on; the last where it is empty."""
    policy: str = ""
    """The release policy."""
    show: str = ""
    """A name of SHOWN; all samples where it is empty."""
    q: str = ""
    sort: str = ""
    """`sample` or `difference`, with a leading `-` to turn it round; what got worse first where it
    is empty.
    """
    page: int = 1
    unmoved: str = ""
    """A name of UNMOVED, where stored scores say nothing about what moved. A part of the page takes
    it over from the whole, which finds it out.
    """

    @property
    def needs_texts(self) -> bool:
        """Whether the texts of every row are needed, not only of those on the page."""
        return bool(self.q) or self.show == "answer"

    def but(self, **changed: Any) -> dict[str, str | Sequence[str]]:
        """The query of an address with other values, on the first page unless one is given."""
        made = structs.asdict(structs.replace(self, **{"page": 1, **changed}))
        made["page"] = str(made["page"]) if made["page"] > 1 else ""
        return {name: value for name, value in made.items() if value}


def compare_samples(
    evaluations: Sequence[Sequence[SampleRow]], judged: int
) -> list[ComparedSample]:
    """Every sample of any of them, in the order of the baseline, then of the others. A run that
    nobody can name any more is not shown next to the sample that it may be of.
    """
    once = [
        without_doubles(evaluation, evaluations[0 if place else judged])
        for place, evaluation in enumerate(evaluations)
    ]
    known: list[Mapping[str, SampleRow]] = [
        {row.sample: row for row in evaluation_rows} for evaluation_rows in once
    ]
    names = dict.fromkeys(name for by_sample in known for name in by_sample)
    return [
        ComparedSample(name, tuple(by_sample.get(name) for by_sample in known), judged)
        for name in names
    ]


def count_movements(samples: Iterable[ComparedSample]) -> Counter[str]:
    """How many samples each filter would show."""
    counts: Counter[str] = Counter()
    for sample in samples:
        counts[sample.movement] += 1
        counts["gates"] += bool(sample.newly_failed)
        counts["answer"] += sample.answer_changed
    return counts


def select_compared(samples: Sequence[ComparedSample], query: CompareQuery) -> list[ComparedSample]:
    """The samples that a query shows, in its order."""
    chosen = [sample for sample in samples if query.show not in SHOWN or _fits(sample, query.show)]
    if query.q:
        every = [row for sample in chosen for row in sample.rows if row is not None]
        matched = {row.sample for row in select_samples(every, SampleQuery(q=query.q))}
        chosen = [sample for sample in chosen if sample.sample in matched]
    name = query.sort.removeprefix("-")
    if name == "sample":
        by_name = {sample.sample: sample for sample in chosen}
        ordered = select_samples([sample.any for sample in chosen], SampleQuery(sort=query.sort))
        return [by_name[row.sample] for row in ordered]
    chosen.sort(key=_lost if name == "difference" else _worst, reverse=query.sort == "-difference")
    return chosen


def _fits(sample: ComparedSample, show: str) -> bool:
    if show == "gates":
        return bool(sample.newly_failed)
    return sample.answer_changed if show == "answer" else sample.movement == show


def _lost(sample: ComparedSample) -> float:
    """The difference; a sample that the candidate lost falls from its score to 0."""
    if sample.difference is not None:
        return sample.difference
    return 0.0 if sample.base is None else -sample.base.score


def _worst(sample: ComparedSample) -> tuple[int, bool, float]:
    return _ORDER[sample.movement], not sample.newly_failed, _lost(sample)


# --- the page


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
