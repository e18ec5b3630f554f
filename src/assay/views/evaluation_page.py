"""The page of an evaluation: its results, why samples failed, and a row for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.errors import count, few
from assay.records.evaluation import Evaluation, EvaluationTotals
from assay.records.samples import MAX_TEXT, Baseline, SampleCounts, SamplePage, SampleQuery
from assay.views.blocks import (
    Chip,
    Chips,
    Details,
    Facts,
    Note,
    Paragraph,
    Part,
    Region,
    Sentences,
    parts_of,
    section,
    stated,
)
from assay.views.evaluation import on_dataset, versioned
from assay.views.pieces import (
    clip,
    coded,
    line,
    link,
    listed,
    meter,
    moment,
    number,
    phrase,
    sentence,
    small,
    verdict,
)
from assay.views.sample_table import (
    MAX_CRITERIA,
    CriterionColumn,
    SampleLinks,
    Search,
    numbered_pager,
    sample_table,
)

REASONS = 6
"""Reasons that are shown at once; the others are folded."""
MAX_REASONS = 100
GATES = 12
CHIPS = {
    "failed": "Failed",
    "passed": "Passed",
    "floor": "Below a floor",
    "flaky": "Flaky",
    "ungraded": "Not graded",
    "differs": "Changed",
    "worse": "Worse",
    "better": "Better",
}


class Reference(NamedTuple):
    """What an evaluation is compared with, in words and addresses."""

    text: str
    href: str = ""
    compare: str = ""
    """The address of the side-by-side page."""
    by_change: str = ""
    """The samples that got worse most come first."""
    missing: str = ""
    """The samples that only it has, side by side."""
    incomparable: str = ""


def evaluation_lead(evaluation: Evaluation, policies: Sequence[str]) -> str:
    """What was evaluated, on what, when, and by which policy it was graded."""
    made = "imported" if evaluation.source == "import" else "started"
    return phrase(
        f"{versioned(evaluation.workflow)} on {on_dataset(evaluation)}, {made} ",
        moment(evaluation.started),
        f", graded by {' and '.join(policies)}" if policies else "",
        *(f" · {clip(label, 60)}" for label in evaluation.labels[:10]),
    )


def evaluation_figures(
    totals: EvaluationTotals,
    counts: SampleCounts,
    reference: Reference | None,
    decision: str,
    people: str = "",
    *,
    unchecked: str = "",
    noted: Sequence[str] = (),
) -> list[Part]:
    """The verdict and the totals, each with its interval, and what is missing; with what was
    passed `unchecked` and what else the import noted.
    """
    failed = counts.show.get("failed", 0)
    lost = f", {counts.missing:,} missing" if counts.missing else ""
    # What was left out or not checked can't fail, so that all others passed is not good news.
    passed = "undetermined" if lost or unchecked else "passed"
    graded = totals.ungraded < totals.n
    outcome = (
        verdict("undetermined", "Not graded")
        if not graded
        else verdict("failed", f"{failed:,} of {count(counts.n, 'sample')} failed{lost}")
        if failed
        else verdict(passed, f"All {count(counts.n, 'sample')} passed{lost}")
        if counts.n > 1
        else verdict(passed, f"The one sample passed{lost}")
    )
    if unchecked:
        outcome = phrase(outcome, line(small(unchecked)))
    runs = f" of {count(totals.n, 'run')}" if totals.n != counts.n else ""
    rate, score = totals.pass_rate, totals.score
    facts = stated(
        ("Verdict", outcome),
        (f"Pass rate{runs}", number(rate.value, interval=rate, percent=True) if graded else ""),
        (f"Mean score{runs}", number(score.value, interval=score) if graded else ""),
        ("Decision", decision),
    )
    missing = [f"{name} in {count(n, 'run')}" for name, n in totals.missing.items() if n]
    return parts_of(
        Facts(facts, "figures"),
        _gone(reference, counts.missing),
        Paragraph(phrase("Compared with ", _reference(reference, counts)), "hint"),
        Note(
            f"{counts.forgotten:,} {'grade was' if counts.forgotten == 1 else 'grades were'}"
            " forgotten. Each counts as failed; the pass rate and the mean score were computed"
            " before."
        )
        if counts.forgotten
        else None,
        Paragraph(people, "hint") if people else None,
        Sentences([*map(sentence, noted)], "Import notes") if noted else None,
        Note(
            f"{count(totals.ungraded, 'run')} could not be graded. Each counts as failed, with"
            " a score of 0."
        )
        if totals.ungraded
        else None,
        Note(f"Missing scores, each counted as 0: {few(missing)}.") if missing else None,
    )


def _gone(reference: Reference | None, missing: int) -> Note | None:
    if reference is None or not missing:
        return None
    gone = link(count(missing, "sample"), reference.missing)
    are = "is" if missing == 1 else "are"
    return Note(phrase(gone, f" of the baseline {are} missing here."), "bad")


def _reference(reference: Reference | None, counts: SampleCounts) -> str:
    """What the samples are compared with, and how they differ."""
    if reference is None:
        return "nothing: no baseline is stored, and there is no earlier evaluation on this dataset."
    name = link(reference.text, reference.href) if reference.href else reference.text
    if reference.incomparable:
        return phrase(name, f". Not compared: {reference.incomparable}.")
    ways = [link("biggest drops first", reference.by_change)]
    if reference.compare:
        ways.append(link("compare side by side", reference.compare))
    worse, better = (counts.show.get(kind, 0) for kind in ("worse", "better"))
    lost = f", {counts.missing:,} missing here" if counts.missing else ""
    changed = f": {worse:,} worse, {better:,} better{lost}" if counts.compared else ""
    return phrase(name, f"{changed} (", listed(ways), ")")


# --- the samples


def samples_region(
    page: SamplePage,
    query: SampleQuery,
    counts: SampleCounts,
    links: SampleLinks,
    criteria: Sequence[CriterionColumn],
    baseline: Baseline | None,
    *,
    can_compare: bool,
) -> Region:
    """Why samples failed, the filters, and the samples that a query shows."""
    shown, ways = _shown_criteria(criteria, query, links)
    kept = [
        (name, text)
        for name, value in query.but(q="").pairs().items()
        for text in ([value] if isinstance(value, str) else value)
    ]
    nothing = "No sample matches these filters." if query.filters else "No sample is stored."
    if query.q:
        nothing += f" Search looks at the first {MAX_TEXT:,} characters of each text."
    parts: list[Part] = [
        *_reasons(counts, query, links),
        section(
            "Samples",
            Chips("Filter samples", _chips(query, counts, links, can_compare=can_compare)),
            Search(
                links.to(SampleQuery()),
                "Search questions and answers",
                query.q,
                kept,
                links.to(query.but(q="")),
            ),
            *ways,
            sample_table(page, query, links, shown, baseline, absent_as=nothing),
            numbered_pager(page, lambda number: links.to(query.but(page=number))),
        ),
    ]
    return Region("samples", parts)


def _shown_criteria(
    criteria: Sequence[CriterionColumn], query: SampleQuery, links: SampleLinks
) -> tuple[Sequence[CriterionColumn], list[Part]]:
    """Some criteria at a time, and the ways to the others."""
    if len(criteria) <= MAX_CRITERIA:
        return criteria, []
    pages = -(-len(criteria) // MAX_CRITERIA)
    number_ = min(max(1, links.criteria), pages)
    start = (number_ - 1) * MAX_CRITERIA
    shown = criteria[start : start + MAX_CRITERIA]
    ways = [
        link(text, links.to(query, criteria=other))
        for text, other in (("previous", number_ - 1), ("next", number_ + 1))
        if 1 <= other <= pages
    ]
    shown_now = (
        f"Criteria {start + 1} to {start + len(shown)} of {len(criteria)}, by weight, the lowest"
        " scores first: "
    )
    return shown, [Paragraph(phrase(shown_now, listed(ways, " · ")), "hint")]


def _reasons(counts: SampleCounts, query: SampleQuery, links: SampleLinks) -> list[Part]:
    """Failures grouped by reason, the most frequent first; a sample may have several."""
    if not counts.reasons:
        return []
    lines = [
        phrase(
            meter(100 * n / counts.n, whole=100, digits=1, unit="%"),
            " ",
            link(
                coded(reason),
                links.to(query.but(why="" if query.why == reason else reason)),
                **({"aria-current": "true"} if query.why == reason else {}),
            ),
            " ",
            small(count(n, "sample")),
        )
        for reason, n in list(counts.reasons.items())[:MAX_REASONS]
    ]
    parts: list[Part] = [Sentences(lines[:REASONS])]
    if lines[REASONS:]:
        parts.append(
            Details(
                count(len(counts.reasons) - REASONS, "more reason"),
                [Sentences(lines[REASONS:])],
                opened=query.why in list(counts.reasons)[REASONS:],
            )
        )
    return [section("Why samples failed", *parts, id="reasons", kind="reasons")]


def _chips(
    query: SampleQuery, counts: SampleCounts, links: SampleLinks, *, can_compare: bool
) -> list[Chip]:
    unknown = {"differs"} if can_compare and not counts.compared else set()
    shown = {name: None if name in unknown else counts.show.get(name, 0) for name in CHIPS}
    gates = dict.fromkeys([*list(counts.gates)[:GATES], *query.gate])
    return [
        Chip("All", links.to(SampleQuery(sort=query.sort)), counts.n, not query.filters, "all"),
        *(
            Chip(CHIPS[name], links.to(query.toggled(name)), n, name in query.show, name)
            for name, n in shown.items()
            if n != 0 or name in query.show
        ),
        *(
            Chip(
                f"Gate {clip(gate, 60)}",
                links.to(query.toggled_gate(gate)),
                counts.gates.get(gate, 0),
                gate in query.gate,
            )
            for gate in gates
        ),
        *(
            Chip(
                f"Reason: {clip(why, 80)}",
                links.to(query.but(why="")),
                counts.reasons.get(why, 0),
                True,
            )
            for why in [query.why]
            if why
        ),
    ]
