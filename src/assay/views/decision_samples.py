"""The samples of a release decision: what newly fails, with the answers before and after, and
what fresh runs say of it; what got worse, what a side lacks, and every pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from assay.errors import count, few
from assay.records.decision import Counted, Decision, SidesCounted, SuspectRecord
from assay.records.samples import NO_TEXTS, SampleAnswer, SampleTexts, Texts
from assay.views.blocks import (
    Column,
    Details,
    Entries,
    Facts,
    Heading,
    ListEntry,
    Paragraph,
    Part,
    Section,
    Table,
    section,
    stated,
)
from assay.views.pieces import (
    Piece,
    absent,
    clip,
    code,
    link,
    listed,
    phrase,
    points,
    signed,
    small,
    strong,
    verdict,
)
from assay.views.word_diff import marked, word_diff

MAX_ROWS = 200
NAMED = 50
"""Samples of which a page shows question and answers."""
OPENED = 5
"""Samples of which a page shows them unfolded."""
LISTED = 3
"""Samples of which a terminal and a comment show them."""
TEXT = 400
"""Characters of a question or an answer in a comment or on a page."""
SHORT = 160
"""The same on a terminal."""
CONTEXT = 15
"""Unchanged words that are shown around a difference."""
LOST = {
    "candidate": "failed",
    "baseline": "passed",
}
"""What a sample counts as on the side that lacks it."""
_HASH = re.compile(r"(sha256:)?[0-9a-f]{12,}")


# --- the texts of both sides


# --- names


def title_in(decision: Decision, sample: str) -> str:
    """The title of a sample; empty if it has none."""
    return "" if decision.titles is UNSET else decision.titles.get(sample, "")


def sample_label(decision: Decision, sample: str) -> str:
    """What people call a sample: its title, with its id unless that is a hash."""
    title = title_in(decision, sample)
    if not title:
        return sample
    return title if _HASH.fullmatch(sample.rpartition("/")[2]) else f"{title} ({sample})"


def check_text(check: str) -> str:
    """What a suspect fails, in words."""
    kind, _, name = check.partition(" ")
    return {"gate": f"gate {name}", "floor": f"floor of {name}"}.get(kind, "passing as a whole")


# --- what newly fails


class NewFailure(NamedTuple):
    """A sample that newly fails, or seems to."""

    sample: str
    suspects: tuple[SuspectRecord, ...]
    """The checks that it newly fails; none where it only fails severely more often."""
    severe: bool
    shown: bool
    """Whether the failure is shown, and not only suspected."""

    @property
    def accepted(self) -> str:
        """Why it was accepted; empty if it was not."""
        reasons = [suspect.accepted for suspect in self.suspects]
        return "" if None in reasons or self.severe else next(filter(None, reasons), "")

    @property
    def verdict(self) -> Piece:
        """What is known of it, in a word or a few."""
        if self.accepted:
            return verdict("open", "accepted")
        if self.shown:
            return verdict("fail", "fails severely" if self.severe else "newly fails")
        return verdict("open", "failed severely, may be chance" if self.severe else "may be noise")

    @property
    def checks(self) -> str:
        """What it fails, in words."""
        return _checks_text(self.suspects) or "a severe gate or floor"

    @property
    def counts(self) -> str:
        """How many runs passed, before and now."""
        if not self.suspects:
            return ""
        one = max(
            self.suspects, key=lambda item: (item.verdict == "confirmed", item.check == "pass")
        )
        fresh = "" if one.fresh is None else f"; of fresh runs {_sides_text(one.fresh)}"
        return f"passed {_sides_text(one.first)}{fresh}"


def _sides_text(counted: SidesCounted) -> str:
    return f"{_of(counted.baseline)} before and {_of(counted.candidate)} now"


def _of(counted: Counted) -> str:
    return f"{counted.passed} of {counted.runs}"


def new_failures(decision: Decision) -> list[NewFailure]:
    """What newly fails, what is shown first: severe failures, failures that fresh runs confirmed,
    and those that may be noise. Failures that fresh runs cleared are not among them.
    """
    rules = {rule.id: rule for rule in decision.rules}
    severe_rule, fails_rule = rules.get("severe_failures"), rules.get("new_failures")
    severe: list[str] = []
    if severe_rule is not None and severe_rule.holds is not True:
        named = severe_rule.evidence.get("samples")
        severe = [str(name) for name in named] if isinstance(named, list) else []
    together = fails_rule is not None and fails_rule.violated
    by_sample: dict[str, list[SuspectRecord]] = {}
    for suspect in decision.confirmation.suspects:
        if suspect.verdict in ("confirmed", "open"):
            by_sample.setdefault(suspect.sample, []).append(suspect)
    confirmed = {
        suspect.sample
        for suspect in decision.confirmation.suspects
        if suspect.verdict == "confirmed"
    }
    # where some are confirmed, the others are still open
    alike = together and not confirmed
    found = [
        NewFailure(
            sample,
            tuple(by_sample.get(sample, ())),
            sample in severe,
            (sample in severe and severe_rule is not None and severe_rule.violated)
            or sample in confirmed
            or (alike and sample in by_sample),
        )
        for sample in dict.fromkeys((*severe, *by_sample))
    ]
    fell = {item.sample: place for place, item in enumerate(decision.worse)}
    return sorted(
        found,
        key=lambda item: (
            bool(item.accepted),
            not item.shown,
            not item.severe,
            fell.get(item.sample, len(fell)),
        ),
    )


def cleared(decision: Decision) -> list[SuspectRecord]:
    """The suspects that fresh runs cleared."""
    return [
        suspect
        for suspect in decision.confirmation.suspects
        if suspect.verdict in ("flaky", "baseline_fails_too")
    ]


def samples_to_show(decision: Decision) -> list[str]:
    """The samples whose question and answers are shown: what newly fails, then what got worse."""
    named = [item.sample for item in new_failures(decision)[:NAMED]]
    return list(dict.fromkeys((*named, *(item.sample for item in decision.worse))))


def failure_facts(
    item: NewFailure | None, texts: SampleTexts | None, *, most: int = SHORT, diff: bool = False
) -> Facts:
    """Question, expected value and both answers of a sample, and what it fails. With `diff` the
    answer now is marked against the one before.
    """
    facts: list[tuple[str, str]] = []
    if item is not None:
        facts += stated(("fails", item.checks), ("runs", item.counts), ("accepted", item.accepted))
    if texts is not None:
        facts += stated(
            ("question", clip(texts.question, most) if texts.question else ""),
            ("expected", clip(texts.expected, most) if texts.expected else ""),
        )
        before, now = texts.baseline, texts.candidate
        if before is not None:
            facts.append(("before", clip(before.text, most, absent_as="no answer")))
        if now is not None:
            facts.append(("now", _now(before, now, most, diff=diff)))
            # what it newly fails is said above
            why = ": ".join(filter(None, (now.why, now.reason))) if item is None else now.reason
            facts += stated(("why", clip(why, most) if why else ""))
    return Facts(facts, "small")


def _now(before: SampleAnswer | None, now: SampleAnswer, most: int, *, diff: bool) -> str:
    if before is not None and before.text == now.text:
        return phrase(small("the same answer"))
    if diff and before is not None:
        return marked(word_diff(before.text[:most], now.text[:most], context=CONTEXT))
    return clip(now.text, most, absent_as="no answer")


def failure_entries(
    decision: Decision,
    texts: Texts,
    failures: Sequence[NewFailure],
    *,
    most: int = SHORT,
    diff: bool = False,
    links: RunLinks | None = None,
) -> Entries:
    """Samples that newly fail, with what they were asked and answered."""
    return Entries(
        [
            ListEntry(
                phrase(item.verdict, " ", _titled(decision, item.sample, links)),
                [failure_facts(item, texts.get(item.sample), most=most, diff=diff)],
                kind="bad" if item.shown and not item.accepted else "open",
            )
            for item in failures
        ],
        "Samples that newly fail",
    )


def _titled(decision: Decision, sample: str, links: RunLinks | None) -> str:
    name = strong(sample_label(decision, sample))
    return name if links is None else links.to(sample, "candidate", name)


def failure_title(failures: Sequence[NewFailure]) -> str:
    """How many samples newly fail, and how many may."""
    accepted = sum(bool(item.accepted) for item in failures)
    shown = sum(item.shown and not item.accepted for item in failures)
    parts = [
        text
        for n, text in (
            (shown, f"{count(shown, 'sample')} newly {'fails' if shown == 1 else 'fail'}"),
            (len(failures) - shown - accepted, ""),
            (accepted, f"{count(accepted, 'failure')} accepted"),
        )
        if n and text
    ]
    unsure = len(failures) - shown - accepted
    if unsure:
        more = " more" if shown else ""
        noun = "sample" if unsure == 1 else "samples"
        parts.insert(bool(shown), f"{unsure:,}{more} {noun} may newly fail, or this may be noise")
    return "; ".join(parts)


def short_failures(decision: Decision, texts: Texts, *, most: int = SHORT) -> list[Part]:
    """What newly fails, for a terminal or a comment."""
    failures = new_failures(decision)
    if not failures:
        return []
    rest = [sample_label(decision, item.sample) for item in failures[LISTED:]]
    more = f"and {few(rest, 5)}" if rest else ""
    return [
        Heading(failure_title(failures)),
        failure_entries(decision, texts, failures[:LISTED], most=most),
        Paragraph(more) if rest else Paragraph(""),
    ]


def failures_section(
    decision: Decision, texts: Texts, links: RunLinks, *, level: int = 2
) -> Section | None:
    """What newly fails, for a page: the first samples open, the others folded."""
    failures = new_failures(decision)
    if not failures:
        return None

    def entries(some: Sequence[NewFailure]) -> Part:
        return failure_entries(decision, texts, some, most=TEXT, diff=True, links=links)

    rest = failures[OPENED:NAMED]
    left = len(failures) - NAMED
    return section(
        "What newly fails",
        entries(failures[:OPENED]),
        Details(f"{len(rest):,} more", [entries(rest)]) if rest else None,
        Paragraph(f"and {count(left, 'more sample')}; the record lists them", "absent")
        if left > 0
        else None,
        id="newly-failing",
        hint=f"{failure_title(failures)}.",
        level=level,
    )


# --- confirmation

_VERDICTS = {
    "confirmed": ("fail", "confirmed"),
    "flaky": ("pass", "flaky: it passes again"),
    "baseline_fails_too": ("pass", "the baseline fails too"),
    "open": ("open", "open"),
}


def suspect_verdict(suspect: SuspectRecord) -> Piece:
    """What fresh runs say of a suspect."""
    if suspect.accepted is not None and suspect.verdict == "confirmed":
        return verdict("open", "confirmed, accepted")
    return verdict(*_VERDICTS[suspect.verdict])


class _Line(NamedTuple):
    """Checks of one sample of which the same runs passed, with the same verdict."""

    sample: str
    first: SidesCounted
    fresh: SidesCounted | None
    verdict: str
    accepted: str | None


def confirmation_lines(suspects: Sequence[SuspectRecord]) -> list[list[SuspectRecord]]:
    """Suspects by sample; checks of a sample that fared alike are together."""
    lines: dict[_Line, list[SuspectRecord]] = {}
    for one in suspects:
        key = _Line(one.sample, one.first, one.fresh, one.verdict, one.accepted)
        lines.setdefault(key, []).append(one)
    return list(lines.values())


def _checks_text(suspects: Sequence[SuspectRecord]) -> str:
    names = [suspect.check for suspect in suspects]
    parts = [name for name in names if name != "pass"] or names
    return few([check_text(name) for name in parts], 4)


def confirmation_table(
    decision: Decision, lines: Sequence[Sequence[SuspectRecord]], links: RunLinks | None = None
) -> Table:
    """What seems to fail newly, with its first and its fresh runs."""
    rows = []
    for suspects in lines:
        one = suspects[0]
        name = sample_label(decision, one.sample)
        rows.append(
            [
                name if links is None else links.to(one.sample, "candidate", name),
                _checks_text(suspects),
                _passes(one.first),
                absent("none yet") if one.fresh is None else _passes(one.fresh),
                suspect_verdict(one),
            ]
        )
    columns = ("Sample", "Check", "First runs", "Fresh runs", "Verdict")
    return Table("Runs that passed, before → now", columns, rows, kind="stack")


def _passes(counted: SidesCounted) -> str:
    return f"{_of(counted.baseline)} → {_of(counted.candidate)}"


def cleared_line(decision: Decision) -> str:
    """The suspects that fresh runs cleared, in a line; empty if there are none."""
    failing = {item.sample for item in new_failures(decision)}
    gone = dict.fromkeys(suspect.sample for suspect in cleared(decision))
    samples = [sample for sample in gone if sample not in failing]
    if not samples:
        return ""
    names = few([sample_label(decision, sample) for sample in samples], 3)
    return f"{count(len(samples), 'sample')} cleared by fresh runs: {names}"


def confirmation_hint(decision: Decision) -> str:
    """How many fresh runs confirm a failure, and how often chance would."""
    made = decision.confirmation
    if not made.repeats:
        return "The policy calls the system deterministic: one new failure is a regression."
    ours, theirs = made.runs.get("candidate", 0), made.runs.get("baseline", 0)
    fresh = (
        f" Made: {count(ours, 'fresh run')} of the candidate and {theirs:,} of the baseline."
        if ours or theirs
        else ""
    )
    return (
        f"A failure is confirmed once the candidate fails {made.repeats} fresh runs that the"
        " baseline passes. A run that the candidate passes, or that the baseline fails, clears it."
        f" Noise alone would confirm something in at most {_share(made.false_alarm_at_most)} of"
        f" cases.{fresh}"
    )


def _share(share: float) -> str:
    return f"{100 * share:.2g}%"


def confirmation_section(decision: Decision, links: RunLinks, *, level: int = 2) -> Section | None:
    """The confirmation, for a page: what is cleared is folded."""
    if not decision.confirmation.suspects:
        return None
    kept, gone = split_suspects(decision)
    table = confirmation_table(decision, kept[:MAX_ROWS], links)
    more = (
        Paragraph(f"and {len(kept) - MAX_ROWS:,} more", "absent") if len(kept) > MAX_ROWS else None
    )
    folded = confirmation_table(decision, gone[:MAX_ROWS], links)
    has_runs = is_confirming(decision)
    return section(
        "Confirmation",
        *(() if not kept else (table, more) if has_runs else (Details("Suspects", [table]),)),
        Details(cleared_line(decision) or "Cleared by fresh runs", [folded]) if gone else None,
        id="confirmation",
        hint=confirmation_hint(decision) if has_runs else "Not needed: the runs at hand decide.",
    )


def is_confirming(decision: Decision) -> bool:
    """Whether fresh runs are needed, or were made."""
    made = decision.confirmation
    return (made.needed and decision.outcome != "reject") or any(made.runs.values())


def split_suspects(
    decision: Decision,
) -> tuple[list[list[SuspectRecord]], list[list[SuspectRecord]]]:
    """The suspects that are confirmed or open, and those that fresh runs cleared."""
    gone = cleared(decision)
    kept = [suspect for suspect in decision.confirmation.suspects if suspect not in gone]
    return confirmation_lines(kept), confirmation_lines(gone)


# --- pairs


class RunLinks(NamedTuple):
    """The address of each sample's run on either side."""

    candidate: Mapping[str, str]
    baseline: Mapping[str, str]

    def to(self, name: str, side: str, text: str = "") -> str:
        """A link to the run of a sample; plain text where its address is not known."""
        known: Mapping[str, str] = getattr(self, side)
        return link(text or name, known[name]) if name in known else text or name


NO_LINKS = RunLinks({}, {})


def pair_parts(pairs: Sequence[Any], links: RunLinks) -> list[Part]:
    """Every pair, the largest loss first, each leading to both runs."""

    def fall(pair: Any) -> float:
        # what the candidate lost counts as 0, what the baseline lacks as 100
        ours, theirs = pair.candidate, pair.baseline
        return float((0 if ours is None else ours) - (100 if theirs is None else theirs))

    rows = [
        [
            links.to(pair.sample, "candidate", pair.title or pair.sample),
            *(
                links.to(pair.sample, side, points(getattr(pair, side), "missing"))
                for side in ("baseline", "candidate")
            ),
            signed(pair.candidate - pair.baseline)
            if None not in (pair.candidate, pair.baseline)
            else absent("not paired"),
        ]
        for pair in sorted(pairs, key=fall)[:MAX_ROWS]
    ]
    if not rows or not (links.candidate or links.baseline):
        return []  # the table of the chart has the same numbers
    numbers = (Column(name, "n") for name in ("Baseline", "Candidate", "Difference"))
    table = Table("Pairs, the largest loss first", ("Sample", *numbers), rows, kind="stack")
    shown = f"{len(rows):,} of {len(pairs):,} pairs" if len(pairs) > len(rows) else "Every pair"
    return [Details(f"{shown}, with links to both runs", [table])]


def worse_section(decision: Decision, links: RunLinks, texts: Texts = NO_TEXTS) -> Section:
    """The samples that lost most, and those that a side does not have at all. Question and answers
    are shown of those that don't newly fail: the others have theirs above.
    """
    above = {item.sample for item in new_failures(decision)[:NAMED]}
    rows = [
        [
            links.to(item.sample, "candidate", sample_label(decision, item.sample)),
            links.to(item.sample, "baseline", points(item.baseline, "missing")),
            links.to(item.sample, "candidate", points(item.candidate, "missing")),
            strong(signed(item.difference)),
            listed(map(code, item.newly_failed_gates), " ") or absent("none"),
        ]
        for item in decision.worse
    ]
    columns = (
        "Sample",
        Column("Baseline", "n"),
        Column("Candidate", "n"),
        Column("Difference", "n"),
        "Gates that newly fail",
    )
    others = [
        item.sample for item in decision.worse if item.sample in texts and item.sample not in above
    ]
    lost = decision.comparison.losses or 0
    return section(
        "Samples that got worse",
        Table(
            "Samples that got worse, the worst first",
            columns,
            rows,
            absent="No sample got worse.",
            kind="stack",
        ),
        Details("Their questions and answers", [sample_entries(decision, others, texts, links)])
        if others
        else None,
        *_gone(decision, links),
        id="worse",
        hint=(
            f"The {len(rows)} that fell most of {lost:,} that got worse."
            if lost > len(rows)
            else ""
        ),
    )


def sample_entries(
    decision: Decision, samples: Iterable[str], texts: Texts, links: RunLinks | None
) -> Entries:
    """Samples with what they were asked and answered on both sides."""
    return Entries(
        [
            ListEntry(
                _titled(decision, name, links),
                [failure_facts(None, texts.get(name), most=TEXT, diff=True)],
            )
            for name in samples
        ],
        "Questions and answers",
    )


def _gone(decision: Decision, links: RunLinks) -> list[Section]:
    """The samples that a side lacks, and those that were left out."""
    titles = {
        "candidate": f"Missing in the candidate, each counted as {LOST['candidate']}",
        "baseline": f"Missing in the baseline, each counted as {LOST['baseline']}",
        "quarantined": "Left out by name",
        "only_candidate": "Only in the candidate, so not compared",
    }
    gone = []
    for side, title in titles.items():
        names = getattr(decision.missing, side)
        if names:
            n = decision.missing.total(side) if side in LOST else len(names)
            listed_here = min(len(names), MAX_ROWS)
            more = f" and {n - listed_here:,} more" if n > listed_here else ""
            side_of_run = "baseline" if side == "candidate" else "candidate"
            linked = (
                links.to(name, side_of_run, sample_label(decision, name))
                for name in names[:MAX_ROWS]
            )
            text = phrase(listed(linked), more)
            gone.append(section(f"{title} ({n:,})", Paragraph(text), level=3))
    return gone
