"""The results of one exam over time, and the distribution that is stored for it: the baseline of
the system in production.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.server.pages.paging import mapped, rows_of

if TYPE_CHECKING:
    from assay.server.state import Services
    from assay.store.drafts import Item

LOOKED_AT = 200
"""Results that are looked through for others of the same exam."""
BASELINES = 50


class Same(NamedTuple):
    """What results must share to stand in one history: the questions with their expectations, by
    their digest, and what the exam is for.
    """

    exam: Any
    set: Any


class Brief(msgspec.Struct):
    """What a list says of a graded exam."""

    exams: Any = None
    set: Any = None
    rubric: Any = None
    policy: Any = None
    score: Any = None
    n: Any = None
    missing: Any = None
    distribution: Any = None
    digests: Any = None

    @property
    def same(self) -> Same:
        """What makes two results of one exam."""
        return Same(mapped(self.digests).get("exam"), self.set)


class _Kept(msgspec.Struct):
    name: Any = None
    kind: Any = None
    evidence_digests: Any = None


brief = msgspec.json.Decoder(Brief).decode
_kept = msgspec.json.Decoder(_Kept).decode


class Stored(NamedTuple):
    """The baseline of an exam: its name, and the result."""

    name: str
    item: Item


class History(NamedTuple):
    """The results of one exam, the oldest first, and the stored distribution, if there is one."""

    points: list[dict[str, Any]]
    distribution: list[dict[str, Any]] | None
    name: str
    said: str


def baseline_of(services: Services, project: str, exam: Same) -> Stored | None:
    """The newest baseline that is a result of this exam."""
    for item in services.ledger.find(
        "baseline", project=project, limit=BASELINES, newest_first=True
    ).items:
        kept = _kept(item.body) if item.body is not None else None
        if kept is None or kept.kind != "exam" or not isinstance(kept.evidence_digests, list):
            continue
        for digest in kept.evidence_digests[:1]:
            found = services.ledger.get(str(digest), project=project)
            if found is not None and found.body is not None and brief(found.body).same == exam:
                return Stored(str(kept.name), found)
    return None


def history_of(services: Services, project: str, exam: Same, stored: Stored | None) -> History:
    """Every stored result of an exam among the newest."""
    found = services.ledger.find("exam", project=project, limit=LOOKED_AT, newest_first=True)
    points = []
    for item in reversed(found.items):
        one = brief(item.body) if item.body is not None else None
        if one is not None and one.same == exam:
            points.append(
                {
                    "at": item.created_at,
                    "score": one.score,
                    "n": one.n,
                    "rubric": one.rubric,
                    "digest": item.digest,
                }
            )
    said = "" if found.next_cursor is None else f"Of the last {LOOKED_AT} results of all exams. "
    spread = (
        rows_of(brief(stored.item.body).distribution)
        if stored is not None and stored.item.body is not None
        else None
    )
    return History(
        points,
        spread,
        stored.name if stored is not None else "",
        f"{said}A result that is the same to the byte is stored once.",
    )
