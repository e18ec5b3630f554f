"""The results of a label set: each rater's progress, how well raters agree, where they don't, and
one value for each item.

Several raters are combined in one way: for scores the median (the lower of two in the middle), for
pairs the choice with the most votes, and none if votes are tied. A rater's correction counts for
ten minutes, unless somebody else labels the item first. All names that were typed are one rater
here, because one person may have typed them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median_low

from assay.archive.labels import counted, current, raters_of
from assay.grouping import grouped
from assay.records.label import HumanLabel, Rater
from assay.records.summary import ValueInterval, value_interval
from assay.stats.agreement import Level, agreement, krippendorff_alpha
from assay.stats.kappa import cohen_kappa, count_pairs, weighted_kappa
from assay.stats.pairwise import half_wilson
from assay.views.labels import (
    Disagreed,
    LabelResults,
    RaterAgreement,
    RaterProgress,
    StoredLabel,
    StoredSet,
)

CHOICE = "choice"
"""The name of the one criterion of pairs."""
HOW = {
    "rubric": "median of the raters' scores, the lower of two in the middle",
    "pairs": "the choice of most raters; level votes count as unlabelled",
}
Value = int | str


def criteria_of(stored: StoredSet) -> list[str]:
    """What raters of a set give values for."""
    rubric = stored.set.rubric
    return [CHOICE] if rubric is None else [criterion.name for criterion in rubric.criteria]


def value_of(label: HumanLabel, criterion: str) -> Value | None:
    """A label's value for a criterion; None if it has none."""
    if label.pair is not None:
        return label.pair.choice
    return (label.scores or {}).get(criterion)


def results_of(stored: StoredSet, labels: Sequence[StoredLabel]) -> LabelResults:
    """The results of all labels of a set."""
    wanted = {item.run for item in stored.set.items}
    of_items = [stored for stored in labels if stored.label.run in wanted]
    kept = counted(of_items)
    raters = raters_of(kept)
    people = list(dict.fromkeys(map(_person, raters)))
    given = {
        rater: [stored.at for stored in kept if stored.label.rater == rater] for rater in raters
    }
    changed, late = _changed(kept, of_items)
    return LabelResults(
        stored,
        tuple(kept),
        len(labels) - len(kept),
        tuple(RaterProgress(rater, len(times), max(times)) for rater, times in given.items()),
        tuple(_agreement(stored, kept, people, name) for name in criteria_of(stored))
        if len(people) > 1
        else (),
        tuple(_disagreed(stored, kept)),
        tuple(current(of_items)),
        changed,
        late,
        *_preferred(kept),
    )


def _preferred(kept: Sequence[StoredLabel]) -> tuple[ValueInterval | None, int]:
    """How often the first version of a pair is preferred, one vote for each pair."""
    if not any(stored.label.pair for stored in kept):
        return None, 0
    votes = [_one_value(list(given.values())) for given in _by_person(kept, CHOICE).values()]
    chosen = Counter(votes)
    halves = chosen["tie"] + chosen[None]
    return value_interval(half_wilson(chosen["a"], halves, len(votes))), len(votes)


def _person(rater: Rater) -> Rater | None:
    """The rater, if a token identifies them; None for anybody who only typed a name."""
    return rater if rater.by == "token" else None


def _changed(kept: Sequence[StoredLabel], labels: Sequence[StoredLabel]) -> tuple[int, int]:
    """How many labels were changed later, and how many of them after another rater had labelled
    the item.
    """
    first = {(stored.label.rater, stored.label.item): stored for stored in kept}
    of_item = grouped((one.label.item, one) for one in labels)
    changed, late = set(), set()
    for stored in labels:
        key = (stored.label.rater, stored.label.item)
        if stored.label.value == first[key].label.value:
            continue
        changed.add(key)
        if any(
            other.label.rater != stored.label.rater and other.seq < stored.seq
            for other in of_item[stored.label.item]
        ):
            late.add(key)
    return len(changed), len(late)


def _agreement(
    stored: StoredSet, kept: Sequence[StoredLabel], people: Sequence[Rater | None], criterion: str
) -> RaterAgreement:
    values = _by_person(kept, criterion)
    rows = [
        [values.get(item.run, {}).get(person) for person in people] for item in stored.set.items
    ]
    twice = [row for row in rows if sum(value is not None for value in row) > 1]
    ordered = stored.set.task == "rubric"
    same = agreement([[value for value in row if value is not None] for row in twice])
    if len(people) > 2:
        level: Level = "ordinal" if ordered else "nominal"
        name, statistic = f"Krippendorff's alpha, {level}", krippendorff_alpha(twice, level=level)
    else:
        pairs = count_pairs([row[0] for row in twice], [row[1] for row in twice])
        if ordered:
            name = "Cohen's kappa, quadratic weights"
            statistic = weighted_kappa(pairs, "quadratic", by_value=True)
        else:
            name, statistic = "Cohen's kappa", cohen_kappa(pairs)
    return RaterAgreement(
        criterion, len(twice), value_interval(same), name, value_interval(statistic)
    )


def _disagreed(stored: StoredSet, kept: Sequence[StoredLabel]) -> list[Disagreed]:
    """The items with different labels, those furthest apart first."""
    disagreed: list[tuple[float, Disagreed]] = []
    by_run = grouped((one.label.run, one.label) for one in kept)
    for item in stored.set.items:
        of_item = by_run.get(item.run, [])
        if len(of_item) < 2:
            continue
        for criterion in criteria_of(stored):
            values = [
                (label.rater, value)
                for label in of_item
                if (value := value_of(label, criterion)) is not None
            ]
            if len({value for _, value in values}) > 1:
                numbers = [value for _, value in values if isinstance(value, int)]
                wide = float(max(numbers) - min(numbers)) if numbers else 1.0
                disagreed.append((wide, Disagreed(item, criterion, tuple(values))))
    disagreed.sort(key=lambda pair: -pair[0])
    return [item for _, item in disagreed]


def people_say(results: LabelResults, criterion: str) -> dict[str, Value | None]:
    """One value for each labelled item of the set, by the digest of its run; None if votes are
    tied.
    """
    values = _by_person(results.labels, criterion)
    return {run: _one_value(list(given.values())) for run, given in values.items()}


def _by_person(
    labels: Sequence[StoredLabel], criterion: str
) -> dict[str, dict[Rater | None, Value | None]]:
    """Each person's value for each run; all typed names together are one person."""
    by_run: dict[str, dict[Rater | None, list[Value | None]]] = {}
    for stored in labels:
        value = value_of(stored.label, criterion)
        if value is not None:
            of_run = by_run.setdefault(stored.label.run, {})
            of_run.setdefault(_person(stored.label.rater), []).append(value)
    return {
        run: {who: _one_value(values) for who, values in of_run.items()}
        for run, of_run in by_run.items()
    }


def _one_value(given: Sequence[Value | None]) -> Value | None:
    values = [value for value in given if value is not None]
    if not values:
        return None
    numbers = [value for value in values if isinstance(value, int)]
    if numbers:
        return median_low(numbers)
    (first, most), *others = Counter(values).most_common()
    return None if others and others[0][1] == most else first
