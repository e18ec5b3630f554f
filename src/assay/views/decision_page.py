"""A decision -> one page that stands alone: the outcome first with its reason, each rule, the
difference drawn, what got worse, and what would change it.

The page decides nothing and shows nothing that the decision does not hold. The scores of every pair
are not in a decision; who has them hands them in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.views.charts import Chart, decisions, summaries
from assay.views.charts.chart import mapped, number, signed
from assay.views.figures import Pictures
from assay.views.markup import Html, facts, fields, join, page, points, rate, say, table, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OUTCOMES = {
    "promote": ("Promote.", "The candidate may replace the baseline."),
    "hold": ("Hold.", "The candidate may not replace the baseline yet."),
    "reject": ("Reject.", "The candidate may not replace the baseline."),
    "not_enough_evidence": (
        "Not enough evidence.",
        "Nothing is decided, and the gate stays closed.",
    ),
}
SYSTEMS = {
    "policy": "Release policy",
    "scoringSystem": "Scoring system",
    "gradingSystem": "Grading system",
}
MOST = 50
"""Rows of a table at the most; beyond them the decision itself has the rest."""


def decision_charts(
    document: Mapping[str, Any], *, pairs: Sequence[Mapping[str, Any]] | None = None
) -> list[Chart]:
    """Every chart of the page. `pairs` are the scores of every sample, as `{sample, candidate,
    baseline}`; without them the worst of them are drawn.
    """
    comparison = mapped(document.get("comparison"))
    known = list(
        pairs
        if pairs is not None
        else [pair for pair in document.get("worse") or () if isinstance(pair, dict)]
    )
    found = [decisions.rules(document), decisions.difference(document)]
    if document.get("paired") is not False:
        found.append(decisions.paired_scatter(known, n_paired=comparison.get("n_paired")))
    for side in ("candidate", "baseline"):
        block = mapped(document.get(side))
        mix = summaries.grade_mix(
            mapped(block.get("grades")), ", ".join(map(str, block.get("policies") or ()))
        )
        found.append(mix._replace(name=f"{mix.name}-{side}", title=f"Grades of the {side}"))
    return found


def decision_page(
    document: Mapping[str, Any],
    *,
    pairs: Sequence[Mapping[str, Any]] | None = None,
    draw: bool = True,
) -> str:
    """The decision as a page."""
    outcome = str(document.get("outcome"))
    word, meaning = OUTCOMES.get(
        outcome, (f"{outcome}.", "This outcome is none that exists; the gate stays closed.")
    )
    pictures = Pictures(draw=draw)
    rules, difference, *others = [
        pictures.figure(chart, opened=chart.name == "rules")
        for chart in decision_charts(document, pairs=pairs)
    ]
    reason = say(document.get("reason"), "no reason is stated")
    body = [
        tag(
            "header",
            tag("h1", "Assay decision"),
            _verdict(word, meaning, reason, opens=outcome == "promote"),
            facts(fields(document, SYSTEMS)),
        ),
        tag(
            "section",
            tag("h2", "Rules"),
            rules,
            *_listed("What would change it", document.get("would_change")),
            id="rules",
        ),
        tag(
            "section",
            tag("h2", "Difference"),
            difference,
            _samples(document),
            *_slices(document),
            id="difference",
        ),
        tag(
            "section",
            tag("h2", "Sample by sample"),
            *others[:-2],
            _worse(document),
            *_flaky(document),
            id="samples",
        ),
        tag("section", tag("h2", "Both sides"), _sides(document), *others[-2:], id="sides"),
        tag("section", tag("h2", "What this decision is about"), *_about(document), id="about"),
    ]
    return page(f"Assay: {word.rstrip('.').lower()}", join(body), styles=pictures.styles)


def _verdict(word: str, meaning: str, reason: str, *, opens: bool) -> Html:
    return tag(
        "p",
        tag("strong", word, class_="good" if opens else "bad"),
        f" {meaning} ",
        reason,
        class_="verdict",
    )


def _listed(title: str, sentences: object) -> Iterator[Html]:
    found = (
        [sentences]
        if isinstance(sentences, str)
        else list(sentences)
        if isinstance(sentences, list | tuple)
        else []
    )
    if found:
        yield tag("h3", title)
        yield tag("ul", *(tag("li", say(one)) for one in found[:MOST]), class_="sentences")


def _samples(document: Mapping[str, Any]) -> Html:
    comparison, lost = mapped(document.get("comparison")), mapped(document.get("missing"))
    pairs = [
        (
            "Pairs",
            (
                say(comparison.get("n_paired"))
                if document.get("paired") is not False
                else "unpaired, as asked for"
            ),
        )
    ]
    pairs += fields(
        comparison,
        {
            "n_candidate": "Samples of the candidate",
            "n_baseline": "Samples of the baseline",
            "margin": "Margin, points",
        },
    )
    seen = number(comparison.get("minimum_detectable_effect"))
    pairs.append(
        (
            "Sees differences from",
            f"{seen:.2f} points on" if seen is not None else say(None, "not known"),
        )
    )
    for side, worth in (
        ("candidate", "score 0 with every gate failed"),
        ("baseline", "score 100 with every gate passed"),
    ):
        names = lost.get(side) or []
        pairs.append(
            (
                f"Missing in the {side}",
                (
                    join([f"{len(names):,}, counted as {worth}: ", say(names[:10])])
                    if names
                    else say(None, "none")
                ),
            )
        )
    left = lost.get("quarantined") or []
    return facts([*pairs, ("Left out by name", say(left[:10], "none"))])


def _slices(document: Mapping[str, Any]) -> Iterator[Html]:
    changed = mapped(document.get("plan")).get("changed")
    yield from _listed("The plan changed since it was declared", changed)
    yield from _listed("Notes", document.get("notes"))


def _worse(document: Mapping[str, Any]) -> Html:
    worse = [one for one in document.get("worse") or () if isinstance(one, dict)]
    if not worse:
        return tag("p", "No sample got worse.")
    columns = {
        "sample": "Sample",
        "n": "Difference",
        "candidate": "Candidate",
        "baseline": "Baseline",
        "gates": "Gates that fail now",
    }
    rows = [
        [
            say(one.get("sample")),
            signed(one.get("difference")),
            points(one.get("candidate"), "missing"),
            points(one.get("baseline"), "missing"),
            say(one.get("newly_failed_gates"), "none"),
        ]
        for one in worse[:MOST]
    ]
    return join(
        [
            tag("h3", "Samples that fell most"),
            table("The one that lost most comes first.", columns, rows, kind="stack"),
        ]
    )


def _flaky(document: Mapping[str, Any]) -> Iterator[Html]:
    found = [
        one
        for one in document.get("flaky") or ()
        if isinstance(one, dict) and not one.get("quarantined")
    ]
    if not found:
        return
    yield tag("h3", "Flaky samples")
    lines = [
        join(
            [
                "",
                say(one.get("sample")),
                f" passed in {say(one.get('passed'))} of {say(one.get('repeats'))} repeats of the ",
                say(one.get("side")),
            ]
        )
        for one in found[:MOST]
    ]
    yield tag("ul", *(tag("li", line) for line in lines), class_="sentences")


def _sides(document: Mapping[str, Any]) -> Html:
    columns = {"what": "", "one": "Candidate", "other": "Baseline"}
    sides = [mapped(document.get(side)) for side in ("candidate", "baseline")]
    rows = [
        ["Name", *(say(side.get("name")) for side in sides)],
        ["Runs", *(say(side.get("n")) for side in sides)],
        ["Pass rate", *(rate(mapped(side.get("pass_rate"))) for side in sides)],
        ["Mean score", *(_mean(side) for side in sides)],
        ["Policy of the grades", *(say(side.get("policies")) for side in sides)],
    ]
    return table("The reporting bundle of each side.", columns, rows, kind="stack")


def _mean(side: Mapping[str, Any]) -> str:
    mean = mapped(mapped(side.get("weighted_score")).get("mean"))
    if number(mean.get("value")) is None:
        return "not known"
    ends = (
        f"{points(mean['low'])} to {points(mean['high'])}"
        if number(mean.get("low")) is not None
        else "no interval"
    )
    return f"{points(mean['value'])}, {ends}"


def _about(document: Mapping[str, Any]) -> list[Html]:
    digests = [
        (f"Digest of the {name}", tag("code", say(value)))
        for name, value in mapped(document.get("digests")).items()
    ]
    digests += [
        ("Fingerprint", tag("code", say(mapped(document.get("fingerprint")).get("digest"))))
    ]
    return [facts(digests, kind="facts small")]
