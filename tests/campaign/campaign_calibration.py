"""How often the intervals of `stats.calibration` and `stats.misclassification` hold the truth, by
simulation on a grid.

`main()` runs all of it and prints a table; `python tests/campaign/campaign_calibration.py 400` does the
same.

A case is a population with a known truth; a draw is a few labelled rows and many others. An
interval that was refused is no interval: it is counted apart.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from itertools import product
from math import exp
from typing import Any, NamedTuple

from assay.stats.calibration import mean_difference, misclassification, naive, ppi
from assay.stats.intervals import Interval

WANTED = 0.93

# sensitivity and specificity
JUDGES = {
    "good": (0.95, 0.92),
    "fair": (0.8, 0.75),
    "poor": (0.6, 0.5),
    "chance": (0.5, 0.5),
    "constant": (1.0, 0.0),
    "lenient": (0.98, 0.5),
    "contrary": (0.3, 0.4),
}
# what the judge says (a, tie, b) where people say a, tie, b
COMPARING = {
    "good": ((0.9, 0.07, 0.03), (0.1, 0.8, 0.1), (0.03, 0.07, 0.9)),
    "fair": ((0.7, 0.15, 0.15), (0.25, 0.5, 0.25), (0.15, 0.15, 0.7)),
    "poor": ((0.5, 0.2, 0.3), (0.4, 0.25, 0.35), (0.3, 0.2, 0.5)),
    "constant": ((1, 0, 0),) * 3,
    "never ties": ((0.8, 0, 0.2), (0.5, 0, 0.5), (0.2, 0, 0.8)),
    "leaning": ((0.95, 0.03, 0.02), (0.6, 0.3, 0.1), (0.4, 0.1, 0.5)),
}
OUTCOMES = {
    "even": (0.4, 0.2, 0.4),
    "few ties": (0.55, 0.05, 0.4),
    "many ties": (0.3, 0.5, 0.2),
    "wins": (0.9, 0.05, 0.05),
}
LIKERT = {
    "likert": (0.1, 0.2, 0.3, 0.25, 0.15),
    "likert, high": (0.02, 0.03, 0.05, 0.2, 0.7),
    "likert, at the top": (0.02, 0.0, 0.0, 0.08, 0.9),
}
SHAPES = ("normal", "beta", "skewed", *LIKERT)
SCORING = ("nearly exact", "good", "poor", "noise", "constant", "lenient")
TIES = (1.0, 0.5, 0.0)


class Tally(NamedTuple):
    """How often an interval was given, how often it held the truth, and how wide it was."""

    draws: int
    given: int
    held: int
    width: float

    @property
    def coverage(self) -> float | None:
        return self.held / self.given if self.given else None


Results = dict[tuple[Any, ...], dict[str, Tally]]
Draw = Callable[[random.Random], list[tuple[str, Interval, float]]]


def _tally(draw: Draw, repeats: int, seed: str) -> dict[str, Tally]:
    rng = random.Random(seed)
    found: dict[str, Tally] = {}
    for _ in range(repeats):
        for name, interval, truth in draw(rng):
            draws, given, held, width = found.get(name, Tally(0, 0, 0, 0.0))
            if interval.low is not None and interval.high is not None:
                given, held, width = (
                    given + 1,
                    held + (interval.low - 1e-12 <= truth <= interval.high + 1e-12),
                    width + interval.high - interval.low,
                )
            found[name] = Tally(draws + 1, given, held, width)
    return found


def _hidden(labels: list[float], n: int) -> list[float | None]:
    return [label if place < n else None for place, label in enumerate(labels)]


def rates(
    repeats: int,
    *,
    labelled: Iterable[int] = (10, 20, 30, 50, 100, 200),
    others: Iterable[int] = (100, 500, 2000),
    bases: Iterable[float] = (0.05, 0.2, 0.5, 0.8, 0.95),
    judges: Iterable[str] = JUDGES,
    unread: float = 0.0,
) -> Results:
    """Passes and fails. With `unread`, that share of verdicts is lost where people say 1, and a
    third of it where they say 0.
    """
    found: Results = {}
    for n, more, base, name in product(labelled, others, bases, judges):
        hit, correct = JUDGES[name]
        own = base * hit + (1 - base) * (1 - correct)

        def draw(
            rng: random.Random,
            n: int = n,
            more: int = more,
            base: float = base,
            hit: float = hit,
            correct: float = correct,
            own: float = own,
        ) -> Any:
            labels = [float(rng.random() < base) for _ in range(n + more)]
            verdicts: list[float | None] = [
                float(rng.random() < (hit if label else 1 - correct)) for label in labels
            ]
            if unread:
                verdicts = [
                    None if rng.random() < (unread if label else unread / 3) else said
                    for label, said in zip(labels, verdicts, strict=True)
                ]
            human = _hidden(labels, n)
            made = [
                ("ppi", ppi(human, verdicts, kind="rate"), base),
                ("misclassification", misclassification(human, verdicts), base),
            ]
            if not unread:
                made += [
                    ("naive", naive(verdicts, kind="rate"), own),
                    ("mean_difference", mean_difference(human, verdicts, kind="rate"), own - base),
                ]
            return made

        found[n, more, base, name] = _tally(draw, repeats, f"rate {n} {more} {base} {name}")
    return found


def comparisons(
    repeats: int,
    *,
    labelled: Iterable[int] = (10, 30, 50, 100, 200),
    others: Iterable[int] = (100, 1000),
) -> Results:
    """Wins, ties and losses."""
    found: Results = {}
    for n, more, outcome, name in product(labelled, others, OUTCOMES, COMPARING):
        shares, confusion = OUTCOMES[outcome], COMPARING[name]
        truth = shares[0] + shares[1] / 2
        own = sum(
            share * (line[0] + line[1] / 2) for share, line in zip(shares, confusion, strict=True)
        )

        def draw(
            rng: random.Random,
            n: int = n,
            more: int = more,
            shares: Any = shares,
            confusion: Any = confusion,
            truth: float = truth,
            own: float = own,
        ) -> Any:
            classes = rng.choices((0, 1, 2), shares, k=n + more)
            verdicts = [rng.choices(TIES, confusion[one])[0] for one in classes]
            human = _hidden([TIES[one] for one in classes], n)
            return [
                ("ppi", ppi(human, verdicts, kind="rate"), truth),
                ("misclassification", misclassification(human, verdicts), truth),
                ("naive", naive(verdicts, kind="rate"), own),
                ("mean_difference", mean_difference(human, verdicts, kind="rate"), own - truth),
            ]

        found[n, more, outcome, name] = _tally(
            draw, repeats, f"comparison {n} {more} {outcome} {name}"
        )
    return found


def _scores(rng: random.Random, shape: str, count: int) -> list[float]:
    if shape == "normal":
        return [rng.gauss(0, 1) for _ in range(count)]
    if shape == "beta":
        return [rng.betavariate(5, 1) for _ in range(count)]
    if shape == "skewed":
        return [rng.lognormvariate(0, 0.7) for _ in range(count)]
    return [float(score) for score in rng.choices((1, 2, 3, 4, 5), LIKERT[shape], k=count)]


def _mean(shape: str) -> float:
    if shape in LIKERT:
        return sum(
            score * share for score, share in zip((1, 2, 3, 4, 5), LIKERT[shape], strict=True)
        )
    return {"normal": 0.0, "beta": 5 / 6, "skewed": exp(0.245)}[shape]


def _judged(rng: random.Random, how: str, scores: list[float], spread: float) -> list[float]:
    if how == "constant":
        return [3.0] * len(scores)
    if how == "noise":
        return [rng.gauss(0, 1) for _ in scores]
    if how == "lenient":
        return [score * 0.5 + spread + rng.gauss(0, 0.5 * spread) for score in scores]
    noise = {"nearly exact": 0.1, "good": 0.5, "poor": 2.0}[how] * spread
    return [score + rng.gauss(0, noise) for score in scores]


def numbers(
    repeats: int,
    *,
    labelled: Iterable[int] = (10, 20, 30, 50, 100, 200),
    others: Iterable[int] = (100, 1000),
) -> Results:
    """Scores on scales of numbers, also skewed ones and ones that pile up at an end."""
    found: Results = {}
    for n, more, shape, how in product(labelled, others, SHAPES, SCORING):
        spread = {"beta": 0.14, "likert, at the top": 0.6}.get(shape, 1.0)
        truth = _mean(shape)
        own = {"constant": 3.0, "noise": 0.0, "lenient": truth * 0.5 + spread}.get(how, truth)

        def draw(
            rng: random.Random,
            n: int = n,
            more: int = more,
            shape: str = shape,
            how: str = how,
            spread: float = spread,
            truth: float = truth,
            own: float = own,
        ) -> Any:
            labels = _scores(rng, shape, n + more)
            verdicts = _judged(rng, how, labels, spread)
            human = _hidden(labels, n)
            return [
                ("ppi", ppi(human, verdicts, kind="number"), truth),
                ("naive", naive(verdicts, kind="number"), own),
                ("mean_difference", mean_difference(human, verdicts, kind="number"), own - truth),
            ]

        found[n, more, shape, how] = _tally(draw, repeats, f"number {n} {more} {shape} {how}")
    return found


def grouped(
    repeats: int,
    *,
    groups: Iterable[int] = (10, 15, 30, 60),
    sizes: Iterable[int] = (2, 5),
    ignored: bool = False,
) -> Results:
    """Passes and fails that come in groups which are much alike; a fifth of the groups is labelled.
    With `ignored`, as if nobody knew.
    """
    found: Results = {}
    for count, size, base in product(groups, sizes, (0.1, 0.5, 0.8)):

        def draw(
            rng: random.Random, count: int = count, size: int = size, base: float = base
        ) -> Any:
            labels: list[float] = []
            verdicts: list[float] = []
            names: list[int] = []
            for name in range(5 * count):
                share, errs = rng.betavariate(base, 1 - base), rng.betavariate(0.2, 0.8)
                for _ in range(size):
                    label = float(rng.random() < share)
                    labels.append(label)
                    verdicts.append(1 - label if rng.random() < errs else label)
                    names.append(name)
            human = _hidden(labels, count * size)
            own = base * 0.8 + (1 - base) * 0.2
            known = None if ignored else names
            return [
                ("ppi", ppi(human, verdicts, kind="rate", groups=known), base),
                ("misclassification", misclassification(human, verdicts, groups=known), base),
                ("naive", naive(verdicts, kind="rate", groups=known), own),
                (
                    "mean_difference",
                    mean_difference(human, verdicts, kind="rate", groups=known),
                    own - base,
                ),
            ]

        found[count, size, base] = _tally(draw, repeats, f"group {count} {size} {base}")
    return found


def pooled(results: Results) -> dict[str, Tally]:
    """Over the whole grid."""
    found: dict[str, Tally] = {}
    for cell in results.values():
        for name, tally in cell.items():
            before = found.get(name, Tally(0, 0, 0, 0.0))
            found[name] = Tally(*(one + other for one, other in zip(before, tally, strict=True)))
    return found


def by_first(results: Results) -> dict[str, dict[Any, Tally]]:
    """By the first axis of the grid, which is the number of labels or of groups."""
    found: dict[str, dict[Any, Tally]] = {}
    for key in dict.fromkeys(key[0] for key in results):
        for name, tally in pooled(
            {one: cell for one, cell in results.items() if one[0] == key}
        ).items():
            found.setdefault(name, {})[key] = tally
    return found


def _say(title: str, results: Results) -> bool:
    held = True
    sys.stdout.write(f"\n{title}: {len(results)} cases\n")
    for name, tally in pooled(results).items():
        coverage = tally.coverage or 0.0
        held = held and coverage >= WANTED
        axis = "  ".join(
            f"{key}: {one.coverage:.3f}" if one.coverage is not None else f"{key}: refused"
            for key, one in by_first(results)[name].items()
        )
        worst = min(
            (cell[name].coverage, key)
            for key, cell in results.items()
            if cell[name].given >= cell[name].draws / 2
        )
        sys.stdout.write(
            f"  {name:<18} coverage {coverage:.4f}  given {tally.given / tally.draws:.3f}  mean"
            f" width {tally.width / max(1, tally.given):.3f}\n  {'':<18} {axis}\n  {'':<18} worst"
            f" case {worst[0]:.3f} {worst[1]}\n"
        )
    sys.stdout.flush()
    return held


def main(repeats: int = 400) -> int:
    """Run the whole grid; 0 where every method holds 93% at nominal 95%."""
    held = [
        _say("rates", rates(repeats)),
        _say("rates with unread verdicts", rates(repeats, others=(500,), unread=0.15)),
        _say("comparisons with ties", comparisons(repeats)),
        _say("numbers", numbers(repeats)),
        _say("groups", grouped(repeats)),
    ]
    sys.stdout.write(
        f"\n{'every method holds' if all(held) else 'NOT every method holds'} {WANTED:.0%} at"
        " nominal 95%\n"
    )
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
