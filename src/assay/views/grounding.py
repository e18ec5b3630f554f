"""What an answer rests on: each claim with the passages it cites, each passage with the claims that
rest on it. A claim that nothing supports, or that cites nothing, stands out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from assay.errors import count
from assay.grouping import grouped
from assay.records.evidence import Claim, Retrieved, Run
from assay.views.blocks import Entries, Group, Heading, ListEntry, Paragraph, Part, Section, section
from assay.views.pieces import absent, code, link, listed, phrase, strong, verdict
from assay.views.values import Room, ValueView

CLAIMS = 30
PASSAGES = 20
CLAIM = 400
PASSAGE = 800
"""Characters of a claim, and of a passage."""
ROOM = 12_000
"""Bytes of all claims, and of all passages."""
SUPPORT = {
    True: ("pass", "supported"),
    False: ("fail", "not supported"),
    None: ("undetermined", "support not judged"),
}
RELEVANCE = {True: "relevant", False: "not relevant", None: "relevance not judged"}


def grounding(run: Run, digest: str) -> list[Section]:
    """The section on claims and passages; none if the run reports neither."""
    claims, passages = run.claims, run.retrieval
    if claims is None and passages is None:
        return []
    places = _places(passages or ())
    cited = grouped(
        (name, number)
        for number, claim in enumerate(claims or (), 1)
        for name in dict.fromkeys(claim.citations)
    )
    room = Room(ROOM)
    chosen = _worst(claims or (), places)[:CLAIMS]
    shown_claims = [
        _claim(number, claim, places, room, checked=passages is not None)
        for number, claim in chosen
        if room.left > 0
    ]
    numbers = {number for number, _ in chosen[: len(shown_claims)]}
    view = ValueView(digest, Room(ROOM), most=PASSAGE)
    shown_passages = [
        _passage(number, passage, cited, numbers, view, claimed=claims is not None)
        for number, passage in enumerate((passages or ())[:PASSAGES], 1)
    ]
    sides: list[Part] = [
        Group(
            [
                Heading("Claims"),
                *_listed(shown_claims, claims, "claim", "No claims were extracted."),
            ]
        ),
        Group(
            [
                Heading("Passages"),
                *_listed(shown_passages, passages, "passage", "No retrieval was recorded."),
            ]
        ),
    ]
    return [
        section(
            "Claims and passages",
            Group(sides, "split"),
            *_expected(run),
            id="grounding",
            hint=_hint(claims),
        )
    ]


def _places(passages: Sequence[Retrieved]) -> dict[str, int]:
    """The number of each passage by its id; the first of an id counts."""
    numbers: dict[str, int] = {}
    for number, passage in enumerate(passages, 1):
        numbers.setdefault(passage.id, number)
    return numbers


def _trouble(claim: Claim, places: Mapping[str, int]) -> str:
    """How a claim stands out: `bad` for one without support or citations, or one that cites what
    was not retrieved; `open` for one that nobody judged.
    """
    if claim.supported is False or not claim.citations:
        return "bad"
    if places and any(name not in places for name in claim.citations):
        return "bad"
    return "" if claim.supported else "open"


def _worst(claims: Sequence[Claim], places: Mapping[str, int]) -> list[tuple[int, Claim]]:
    """The claims with their numbers. Where there are too many, those that stand out come first."""
    numbered = list(enumerate(claims, 1))
    if len(numbered) > CLAIMS:
        numbered.sort(key=lambda pair: ("bad", "open", "").index(_trouble(pair[1], places)))
    return numbered


def _claim(
    number: int, claim: Claim, places: Mapping[str, int], room: Room, *, checked: bool
) -> ListEntry:
    citations = list(dict.fromkeys(claim.citations))
    marks: list[str] = [verdict(*SUPPORT[claim.supported])]
    if claim.severity not in (None, "none"):
        marks.append(f"{claim.severity} severity")
    if not citations:
        marks.append(verdict("fail", "cites nothing"))
    foot: list[str] = []
    for name in citations[:PASSAGES]:
        named = code(room.clip(name, 80))
        place = places.get(name)
        if place is None:
            missing = verdict("fail", "not retrieved") if checked else absent("no passages known")
            foot.append(phrase(named, " ", missing))
        elif place <= PASSAGES:
            foot.append(link(named, f"#passage-{place}"))
        else:
            foot.append(named)
    return ListEntry(
        phrase(strong(f"{number}"), " ", listed(marks, " · ")),
        [Paragraph(room.clip(claim.text, CLAIM), "words")],
        phrase("Cites ", listed(foot)) if foot else "",
        f"claim-{number}",
        _trouble(claim, places),
    )


def _passage(
    number: int,
    passage: Retrieved,
    cited: Mapping[str, Sequence[int]],
    linked: Collection[int],
    view: ValueView,
    *,
    claimed: bool,
) -> ListEntry:
    marks = [RELEVANCE[passage.relevant]]
    if passage.rank is not None:
        marks.insert(0, f"rank {passage.rank}")
    claims = cited.get(passage.id, ())
    rests = [
        link(f"{claim}", f"#claim-{claim}") if claim in linked else f"{claim}" for claim in claims
    ]
    if len(rests) > PASSAGES:
        rests[PASSAGES:] = [f"and {len(rests) - PASSAGES:,} more"]
    foot = (
        phrase("Cited by ", "claim " if len(claims) == 1 else "claims ", listed(rests))
        if rests
        else absent("No claim cites it.")
        if claimed
        else ""
    )
    return ListEntry(
        phrase(code(view.room.clip(passage.id, 120)), " ", listed(marks, " · ")),
        view.parts(passage.text, at=f"/retrieval/{number - 1}/text")
        if passage.text
        else [Paragraph(absent("The passage has no text."))],
        foot,
        f"passage-{number}",
    )


def _listed(
    entries: Sequence[ListEntry],
    values: Sequence[Claim] | Sequence[Retrieved] | None,
    noun: str,
    unknown: str,
) -> list[Part]:
    if not values:
        return [Paragraph(unknown if values is None else f"No {noun}s.", "absent")]
    more = len(values) - len(entries)
    return [
        Entries(entries, f"{noun.capitalize()}s", noun),
        *([Paragraph(f"… and {count(more, noun)} more.", "hint")] if more else []),
    ]


def _hint(claims: Sequence[Claim] | None) -> str:
    if not claims:
        return ""
    good = sum(claim.supported is True for claim in claims)
    unjudged = sum(claim.supported is None for claim in claims)
    uncited = sum(not claim.citations for claim in claims)
    parts = [f"{good:,} of {count(len(claims), 'claim')} supported"]
    parts += [f"{unjudged:,} not judged"] if unjudged else []
    parts += [f"{uncited:,} without a citation"] if uncited else []
    return f"{', '.join(parts)}."


def _expected(run: Run) -> list[Part]:
    """The claims that the answer should have made."""
    if not run.expected_claims:
        return []
    room = Room(ROOM // 2)
    entries = [
        ListEntry(
            verdict(*SUPPORT[claim.supported]),
            [Paragraph(room.clip(claim.text, CLAIM), "words")],
        )
        for claim in run.expected_claims[:PASSAGES]
    ]
    return [
        Heading("Claims of the expected answer"),
        *_listed(entries, run.expected_claims, "expected claim", ""),
    ]
