"""What the newest grades of a project say together: the mix of letters and the pass rate over time.

Only the last `WINDOW` grades are read, however many there are, and the pages say so. A run that was
graded more than once counts once, by its newest grade. Letters of two policies are never put
together: each chart is of one policy.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.stats.intervals import wilson
from assay.store.listing import evidence_of
from assay.store.recent import Brief, newest
from assay.views.charts import summaries, trends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.server.state import Services
    from assay.views.charts import Chart

WINDOW = 1000
UNITS = (("month", 7), ("day", 10), ("hour", 13), ("minute", 16), ("second", 19))
"""How long the text of a moment is to the month, to the day, and so on."""
FEW, MANY = 3, 40
"""How many points a line has, if that can be."""
_FILLED = "0000-01-01T00:00:00Z"


class Window(NamedTuple):
    """The newest grades, one for each run, the newest first; and whether these are all there
    are.
    """

    grades: tuple[Brief, ...]
    whole: bool

    @property
    def policies(self) -> list[str]:
        """The policies of these grades, the one that most have first."""
        return [
            policy
            for policy, _ in Counter(one.policy for one in self.grades if one.policy).most_common()
        ]

    def of(self, policy: str) -> list[Brief]:
        """The grades of one policy."""
        return [one for one in self.grades if one.policy == policy]


def window(services: Services, project: str) -> Window:
    """The newest grades of a project."""
    database = services.ledger.database
    found = newest(database, project, "grade", limit=WINDOW)
    behind = evidence_of(database, project, [one.digest for one in found])
    kept: dict[str, Brief] = {}
    for one in found:
        if one.grade is not None:  # what was forgotten says nothing any more
            kept.setdefault(behind.get(one.digest, one.digest), one)
    return Window(tuple(kept.values()), len(found) < WINDOW)


def mix(found: Window, policy: str, letters: Sequence[str]) -> Chart:
    """How many of the newest runs have each letter."""
    counts = Counter(str(one.grade) for one in found.of(policy))
    named = dict.fromkeys([*letters, *sorted(counts)])
    return summaries.grade_mix({letter: counts[letter] for letter in named}, policy)


def rates(found: Window, policy: str) -> Chart:
    """The share of the newest runs that passed, over the time in which they were graded."""
    points = []
    for at, part in _binned(found.of(policy)):
        rate = wilson(sum(one.passed is True for one in part), len(part))
        points.append({"at": at, "n": len(part), **rate.shown()})
    made = trends.pass_rate_over_time(points)
    days = {str(point["at"])[:10] for point in points}
    return (
        made
        if len(days) > 2
        else made._replace(
            spec=_by_clock(made.spec, "%-d %b %H:%M" if len(days) == 2 else "%H:%M:%S")
        )
    )


def _by_clock(part: Any, form: str) -> Any:
    """The same specification with the time of the day on its axis, where all of it is within a day
    or two.
    """
    if isinstance(part, dict):
        return {
            key: (
                form
                if key == "format" and value == trends.time_axis()["axis"]["format"]
                else _by_clock(value, form)
            )
            for key, value in part.items()
        }
    return [_by_clock(one, form) for one in part] if isinstance(part, list) else part


def _binned(grades: Sequence[Brief]) -> list[tuple[str, list[Brief]]]:
    """Grades in their order in time, by the largest unit that gives a line; in blocks of equal size
    where that would be too many points.
    """
    listed = sorted(grades, key=lambda one: one.seq)
    for _, length in UNITS:
        bins: dict[str, list[Brief]] = {}
        for one in listed:
            bins.setdefault(one.created_at[:length], []).append(one)
        if len(bins) >= FEW or length == UNITS[-1][1]:
            break
    if len(bins) > MANY:
        size = -(-len(listed) // MANY)
        return [
            (part[-1].created_at, part)
            for part in (listed[start : start + size] for start in range(0, len(listed), size))
        ]
    return [(at + _FILLED[len(at) :], part) for at, part in sorted(bins.items())]


def overview_chart(services: Services, project: str, name: str, policy: str) -> Chart | None:
    """A chart of the overview by its name; None where there is none of that name."""
    found = window(services, project)
    if name == "pass-rate":
        return rates(found, policy)
    return mix(found, policy, letters_of(services, policy)) if name == "grade-mix" else None


def letters_of(services: Services, policy: str) -> list[str]:
    """The letters that a policy gives, where it is on the shelf still."""
    known = {entry.id for entry in services.shelf.entries("policies")}
    bands = getattr(services.shelf.load("policies", policy), "bands", ()) if policy in known else ()
    return [band.grade for band in bands]
