"""What a decision says, part by part: the outcome and its reason first, then the rules with their
evidence, the difference, and both sides.

Used for a stored decision and for one that is only worked out in a page, which has no address and
so carries its pictures itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.server.pages.layout import (
    Column,
    address,
    chart,
    facts,
    letter,
    link,
    number,
    section,
    short,
    table,
    verdict,
)
from assay.server.pages.paging import mapped, rows_of, signed, texts, words
from assay.views.charts import decisions as charts
from assay.views.markup import Html, join, points, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.server.pages.decision_pairs import Pairs

Decision = dict[str, Any]
MAX_ROWS = 200
OUTCOMES = {
    "promote": "promote",
    "hold": "hold",
    "reject": "reject",
    "not_enough_evidence": "not enough evidence",
}
_MEANING = {
    "promote": "The candidate may replace the baseline.",
    "hold": "Nothing is shown to be worse, but it is not shown to be as good either.",
    "reject": "A rule is shown to be violated.",
    "not_enough_evidence": "There is too little to decide on, and that never promotes.",
}
_CLAIMS = {
    "superior": "better",
    "non_inferior": "not worse by the margin or more",
    "equivalent": "equivalent",
}
_QUANTILES = ("p5", "p25", "p50", "p75", "p95")
_COVERED = ("scored", "failed", "inconclusive", "errored", "not_applicable")


def head(decision: Decision) -> Html:
    """The outcome and its reason."""
    outcome = str(decision.get("outcome"))
    said = tag(
        "p",
        verdict(outcome, OUTCOMES.get(outcome, outcome).capitalize()),
        " ",
        tag("small", "under ", say(decision.get("policy"), "no policy")),
        class_="outcome",
    )
    why = tag("p", say(decision.get("reason"), "No reason is stated."), class_="verdict")
    return tag(
        "div",
        said,
        why,
        tag("p", _MEANING.get(outcome, "This is no outcome that is known here."), class_="hint"),
        class_="decided",
    )


def figures(decision: Decision) -> Html:
    """The numbers that the outcome rests on."""
    found = mapped(decision.get("comparison"))
    difference, n = mapped(found.get("difference")), found.get("n_paired")
    pairs = n if isinstance(n, int) else None
    claims = [text for key, text in _CLAIMS.items() if found.get(key) is True]
    counts = [
        f"{found[key]:,} {key}"
        for key in ("wins", "losses", "ties")
        if isinstance(found.get(key), int)
    ]
    return facts(
        [
            (
                "Difference, points of 100",
                number(
                    difference.get("estimate"), interval=difference, n=pairs, absent="not known"
                ),
            ),
            ("May fall by", points(found.get("margin"), "no margin is stated")),
            (
                "Paired samples",
                (
                    say(n)
                    if decision.get("paired") is not False
                    else "none: the sets share no samples"
                ),
            ),
            ("Sample by sample", ", ".join(counts) or tag("span", "not counted", class_="absent")),
            (
                "The candidate is shown to be",
                ", ".join(claims)
                or tag("span", "none of better, equivalent, as good", class_="absent"),
            ),
            (
                "Smallest difference it could see",
                points(found.get("minimum_detectable_effect"), "not known"),
            ),
        ],
        kind="figures",
    )


# --- rules


def rule_verdict(rule: Mapping[str, Any]) -> Html:
    """Whether a rule holds, is violated, or could not be judged."""
    holds = rule.get("holds")
    if holds is True:
        return verdict("holds")
    if holds is None:
        return verdict("undetermined", "could not be judged")
    return (
        verdict("violated")
        if rule.get("violated") is not False
        else verdict("undetermined", "not shown to hold")
    )


def rules(decision: Decision) -> Html:
    """Each promotion rule with its evidence; what does not hold comes first."""
    found = sorted(
        rows_of(decision.get("rules")),
        key=lambda rule: (rule.get("holds") is True, rule.get("violated") is not True),
    )
    rows = [
        [
            tag("code", say(rule.get("id"))),
            rule_verdict(rule),
            join([say(rule.get("reason"), "no reason is stated"), _evidence(rule)]),
        ]
        for rule in found
    ]
    held = sum(rule.get("holds") is True for rule in found)
    said = (
        f"{held} of {len(found)} hold. Only where all hold is the candidate promoted."
        if found
        else ""
    )
    columns = ("Rule", "Verdict", Column("Why", "wide"))
    return section(
        "Promotion rules",
        table(
            "Promotion rules",
            columns,
            rows,
            absent="No rule is named, so none holds.",
            kind="stack rules",
        ),
        id="rules",
        hint=said,
    )


def _evidence(rule: Mapping[str, Any]) -> Html:
    found = mapped(rule.get("evidence"))
    if not found:
        return tag("p", "No evidence is stated.", class_="absent")
    pairs = [(words(key), value_text(value)) for key, value in found.items()]
    return tag("details", tag("summary", "Evidence"), facts(pairs, kind="small"))


def value_text(value: Any) -> str:
    """A value of the evidence; one with an interval is shown with it, a list of things one below
    the other.
    """
    if isinstance(value, dict) and {"low", "high"} <= value.keys():
        return number(
            value.get("value", value.get("estimate")), interval=value, digits=4, absent="not known"
        )
    if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        return join(
            tag("span", f"{key}: ", say(one), class_="line")
            for key, one in list(value.items())[:MAX_ROWS]
        )
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return join(tag("span", say(one), class_="line") for one in value[:MAX_ROWS])
    if isinstance(value, str) and value.startswith("sha256:"):
        return short(value)
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return join(
            part
            for place, one in enumerate(value[:MAX_ROWS])
            for part in (", " if place else "", value_text(one))
        )
    return say(value, "none")


# --- pictures and items


def difference(decision: Decision, url: str) -> Html:
    """The difference with its interval and the margin; the slices below it."""
    found = charts.difference(decision)
    return section(
        "Difference", chart(found, f"{url}/{found.name}" if url else ""), id="difference"
    )


def scatter(decision: Decision, pairs: Pairs, url: str) -> Html:
    """Sample by sample, the candidate against the baseline."""
    found = charts.paired_scatter(
        pairs.pairs, n_paired=mapped(decision.get("comparison")).get("n_paired")
    )
    if decision.get("paired") is False:
        return section(
            "Pairs",
            tag("p", "The two sides share no samples, so nothing can be paired.", class_="absent"),
            id="pairs",
        )
    return section("Pairs", chart(found, f"{url}/{found.name}" if url else ""), id="pairs")


def worse(decision: Decision, runs: Mapping[str, str]) -> Html:
    """The samples that lost most, and those that a side does not have at all."""
    found = rows_of(decision.get("worse"))
    rows = [
        [
            _sample(str(one.get("sample")), runs),
            points(one.get("candidate"), "missing"),
            points(one.get("baseline"), "missing"),
            tag("b", signed(one.get("difference"))),
            join(
                part
                for name in texts(one.get("newly_failed_gates"))
                for part in (tag("code", name), " ")
            )
            or tag("span", "none", class_="absent"),
        ]
        for one in found[:MAX_ROWS]
    ]
    columns = (
        Column("Sample"),
        Column("Candidate", "n"),
        Column("Baseline", "n"),
        Column("Difference", "n"),
        "Gates that newly fail",
    )
    lost = mapped(decision.get("comparison")).get("losses")
    listed = table(
        "Samples that got worse, the worst first",
        columns,
        rows,
        absent="No sample got worse.",
        kind="stack",
    )
    more = (
        f"The {len(found)} that fell most of {lost:,} that got worse."
        if isinstance(lost, int) and lost > len(found)
        else ""
    )
    return section("Got worse", listed, *_missing(decision, runs), id="worse", hint=more)


def _sample(name: str, runs: Mapping[str, str]) -> str:
    return link(name, address("runs", runs[name])) if name in runs else name


def _missing(decision: Decision, runs: Mapping[str, str]) -> list[Html]:
    told = {
        "candidate": (
            "The candidate lacks these samples; each counts as 0 points with every gate failed"
        ),
        "baseline": (
            "The baseline lacks these samples; each counts as 100 points with every gate passed"
        ),
        "quarantined": "Left out by name",
    }
    found = mapped(decision.get("missing"))
    made = []
    for side, said in told.items():
        names = texts(found.get(side))
        if names:
            shown = [part for name in names[:MAX_ROWS] for part in (_sample(name, runs), ", ")][:-1]
            more = f" and {len(names) - MAX_ROWS:,} more" if len(names) > MAX_ROWS else ""
            made += [tag("h3", f"{said} ({len(names):,})"), tag("p", *shown, more)]
    return made


def change(decision: Decision) -> Html:
    """What would move the outcome, and what else is to be known."""
    moves = texts(decision.get("would_change"))
    notes = [*texts(decision.get("notes")), *texts(decision.get("mismatches"))]
    listed = (
        tag("ul", *(tag("li", one) for one in moves))
        if moves
        else tag("p", "The decision names nothing that would change it.", class_="absent")
    )
    more = (
        [tag("h3", "To be known"), tag("ul", *(tag("li", one) for one in notes))] if notes else []
    )
    return section("What would change it", listed, *more, *_flaky(decision), id="change")


def _flaky(decision: Decision) -> list[Html]:
    found = rows_of(decision.get("flaky"))
    if not found:
        return []
    rows = [
        [
            say(one.get("sample")),
            say(one.get("side")),
            number(mapped(one.get("rate")).get("value"), interval=one.get("rate"), percent=True),
            join([say(one.get("passed")), " of ", say(one.get("repeats"))]),
            tag("code", say(one.get("leave_out"))),
        ]
        for one in found[:MAX_ROWS]
    ]
    columns = ("Sample", "Side", "Passes in", Column("Repeats", "n"), "Leave it out with")
    return [
        tag("h3", "Samples whose repeats disagree"),
        table("Samples whose repeats disagree", columns, rows),
    ]


# --- both sides


def summaries(decision: Decision) -> Html:
    """The two sides beside each other."""
    sides = [mapped(decision.get(name)) for name in ("candidate", "baseline")]
    rows = [[name, *(write(side) for side in sides)] for name, write in _MEASURES]
    rows += [["Letters", *(_letters(side) for side in sides)]]
    for group, form in (("gates", _gate), ("criteria", _criterion)):
        for name in dict.fromkeys(key for side in sides for key in mapped(side.get(group))):
            rows.append(
                [
                    join([f"{'Gate' if group == 'gates' else 'Criterion'} ", tag("code", name)]),
                    *(form(mapped(side.get(group)).get(name)) for side in sides),
                ]
            )
    listed = table(
        "Both sides", ("Measure", "Candidate", "Baseline"), rows[:MAX_ROWS], kind="sides"
    )
    return section("Both sides", listed, *_reasons(sides), id="sides")


def _coverage(side: Mapping[str, Any]) -> str:
    found = mapped(side.get("coverage"))
    return ", ".join(
        f"{found[name]} {name.replace('_', ' ')}" for name in _COVERED if found.get(name)
    ) or say(None)


def _mean(side: Mapping[str, Any]) -> Html:
    found = mapped(mapped(side.get("weighted_score")).get("mean"))
    return number(found.get("value"), interval=found, absent="no score")


def _quantiles(side: Mapping[str, Any]) -> str:
    found = mapped(mapped(side.get("weighted_score")).get("quantiles"))
    return (
        join(
            part
            for name in _QUANTILES
            if name in found
            for part in (tag("small", f"{name} "), points(found[name]), " ")
        )
        if found
        else say(None)
    )


def _rate(side: Mapping[str, Any]) -> Html:
    found = mapped(side.get("pass_rate"))
    n = side.get("n")
    return number(
        found.get("value"),
        interval=found,
        n=n if isinstance(n, int) else None,
        percent=True,
        absent="not known",
    )


_MEASURES = (
    ("Runs", lambda side: say(side.get("n"))),
    ("Pass rate", _rate),
    ("Mean score, points of 100", _mean),
    (
        "Spread of the scores (standard deviation)",
        lambda side: points(mapped(side.get("weighted_score")).get("sd"), "not known"),
    ),
    ("Scores at", _quantiles),
    ("Coverage", _coverage),
)


def _letters(side: Mapping[str, Any]) -> str:
    """The letters with their policies; where there are two policies no count of letters is shown,
    because they are of two kinds.
    """
    policies = texts(side.get("policies"))
    found = {name: n for name, n in mapped(side.get("grades")).items() if n}
    if not found:
        return say(None, "no letters")
    if len(policies) > 1:
        return f"of {len(policies)} policies, and so not counted together: {', '.join(policies)}"
    policy = policies[0] if policies else None
    return join(
        [
            *(
                part
                for name, n in found.items()
                for part in (tag("span", f"{n:,} × ", letter(name, policy), class_="line"),)
            )
        ]
    )


def _gate(found: Any) -> str:
    if not isinstance(found, dict):
        return tag("span", "not asked", class_="absent")
    n = found.get("n")
    open_ = f" · {found['undetermined']} undetermined" if found.get("undetermined") else ""
    rate = mapped(found.get("rate"))
    return join(
        [
            say(found.get("failed")),
            " failed ",
            number(
                rate.get("value"), interval=rate, n=n if isinstance(n, int) else None, percent=True
            ),
            open_,
        ]
    )


def _criterion(found: Any) -> str:
    if not isinstance(found, dict):
        return tag("span", "not scored", class_="absent")
    mean, n = mapped(found.get("mean")), found.get("n")
    below = f" · {found['floor_failures']} below its floor" if found.get("floor_failures") else ""
    missing = f" · {found['missing']} without a score" if found.get("missing") else ""
    return join(
        [
            number(mean.get("value"), interval=mean, n=n if isinstance(n, int) else None, digits=3),
            below,
            missing,
        ]
    )


def _reasons(sides: Sequence[Mapping[str, Any]]) -> list[Html]:
    counted = [
        {str(one.get("reason")): one for one in rows_of(side.get("top_failure_reasons"))}
        for side in sides
    ]
    names = list(dict.fromkeys(name for found in counted for name in found))
    rows = [
        [
            name,
            *(say(found[name].get("count")) if name in found else "0" for found in counted),
            say((counted[0].get(name) or counted[1][name]).get("example")),
        ]
        for name in names
    ]
    if not rows:
        return []
    columns = (
        Column("Reason", "wide"),
        Column("Candidate", "n"),
        Column("Baseline", "n"),
        "For example run",
    )
    return [
        tag("h3", "Why runs do not pass"),
        table("Why runs do not pass", columns, rows[:MAX_ROWS]),
    ]


def origin(decision: Decision) -> Html:
    """What the decision was made with: fingerprint, plan, versions and digests."""
    fingerprint, plan = mapped(decision.get("fingerprint")), mapped(decision.get("plan"))
    fields = [
        (
            words(key),
            value_text([one or "none" for one in value] if isinstance(value, list) else value),
        )
        for key, value in mapped(fingerprint.get("fields")).items()
    ]
    declared = "declared before" if plan.get("declared") is True else "nothing was declared before"
    changed = texts(plan.get("changed"))
    planned = [
        (words(key), value_text(value))
        for key, value in plan.items()
        if key not in ("declared", "changed")
    ]
    systems = [
        ("Scoring system", say(decision.get("scoringSystem"))),
        ("Grading system", say(decision.get("gradingSystem"))),
        ("Looks", say(decision.get("looks"))),
    ]
    digests = [(words(key), short(value)) for key, value in mapped(decision.get("digests")).items()]
    warned = (
        tag("p", verdict("not as declared", f"Not as it was declared: {'; '.join(changed)}."))
        if changed
        else Html("")
    )
    return section(
        "What it rests on",
        tag("h3", "Both sides were made with"),
        facts([("Fingerprint", short(fingerprint.get("digest"))), *fields], kind="small"),
        tag("h3", f"Plan: {declared}"),
        warned,
        facts(planned, kind="small"),
        tag("h3", "Versions and digests"),
        facts([*systems, *digests], kind="small"),
        id="origin",
        hint="Two sides are compared only where all of this is the same.",
    )


def contents(parts: Sequence[tuple[str, str]]) -> Html:
    """The way to the parts of a long page."""
    return tag(
        "nav",
        tag("ul", *(tag("li", link(name, f"#{id}")) for id, name in parts)),
        aria_label="On this page",
        class_="toc",
    )


SECTIONS = (
    ("rules", "Rules"),
    ("difference", "Difference"),
    ("worse", "Got worse"),
    ("pairs", "Pairs"),
    ("change", "What would change it"),
    ("sides", "Both sides"),
    ("origin", "What it rests on"),
)


def body(decision: Decision, pairs: Pairs, url: str) -> list[Html]:
    """The whole of a release decision, the outcome first."""
    return [
        head(decision),
        figures(decision),
        contents(SECTIONS),
        rules(decision),
        difference(decision, url),
        worse(decision, pairs.runs),
        scatter(decision, pairs, url),
        change(decision),
        summaries(decision),
        origin(decision),
    ]
