"""How often release gates decide rightly: Assay, the small statistical gates that are on PyPI, a
paired t interval and McNemar's test, on real repeats and on simulated systems.

    python bench/decision.py [--quick] [--replications N] [--kinds KIND...] [--with FOLDER]

Every gate sees the same first runs: one of each sample on both sides. Assay also gets the fresh
runs that its confirmation asks for, from the simulator or from the further repeats of a real
sample; where those are used up, from the sample's own. "Assay, banked" has five runs of the
baseline from before, and runs the candidate five times where these disagree. The others have no
way to ask for a run. `--with` is a folder of installed packages that has them; a gate that is
missing is named. Where a gate has a margin, it is 3 points; all else is its default.

A wrong outcome counts 1 and a hold 0.5: a version against itself should be promoted, and one that
is broken, worse by more than the margin or severely failing should be rejected. Worse by no more
than the margin has no right answer here, and is shown only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from assay.library.shelf import Shelf
from assay.release.confirmation import Fresh, Turn, turns_for
from assay.release.observations import PASS, Attempt, Check, Observed, Pair
from assay.release.policy import make_release_rules
from assay.release.rules import judge, outcome_of
from assay.services.rehearse import confirmed_by

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared"
RULES = make_release_rules(Shelf().policy_of("release", "release"))
MARGIN = 3.0
BANKED = 5
GATE, SEVERE = Check("gate", "schema"), Check("gate", "sandbox")
CHECKS = frozenset((GATE, SEVERE, PASS))
KINDS = ("det", "mild", "llm", "agent")
EFFECTS = ("aa", "u1", "u3", "u5", "b2", "b5", "sev")
RIGHT = {"aa": "promote", "u5": "reject", "b2": "reject", "b5": "reject", "sev": "reject"}
OUTCOMES = ("promote", "hold", "reject")


class Release(NamedTuple):
    """Two versions, each with a run of every sample, and how to run a sample again."""

    baseline: list[Attempt]
    candidate: list[Attempt]
    again: Callable[[str, int, int], list[Attempt]]
    """Fresh runs: of a side, of a sample, so many."""


class Verdict(NamedTuple):
    """What a gate says, and how many runs it took besides the first."""

    outcome: str
    runs: int = 0


Gate = Callable[[Release, int], Verdict]


# --- Assay


class Fresher(Mapping[str, Sequence[Turn]]):
    """Fresh turns of each sample, made when a rule asks for them."""

    def __init__(self, release: Release, pairs: Sequence[Pair]) -> None:
        self._release = release
        needed = turns_for(pairs, false_alarm=RULES.limits.errors.confirmed)
        self._turns = {
            pair.sample: max(needed, RULES.limits.severe_turns)
            if any(run.severe for run in pair.candidate.attempts)
            else needed
            for pair in pairs
        }
        self._known: dict[str, list[Turn]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._turns)

    def __len__(self) -> int:
        return len(self._turns)

    def __getitem__(self, sample: str) -> list[Turn]:
        if sample not in self._known:
            sides = [
                self._release.again(side, int(sample), self._turns[sample])
                for side in ("candidate", "baseline")
            ]
            self._known[sample] = [Turn(*runs) for runs in zip(*sides, strict=True)]
        return self._known[sample]


def assay(release: Release, seed: int) -> Verdict:
    """One run a side, and confirmation."""
    sides = zip(release.candidate, release.baseline, strict=True)
    return _decided(release, [((ours,), (theirs,)) for ours, theirs in sides], 0)


def assay_banked(release: Release, seed: int) -> Verdict:
    """Five runs of the baseline from before; the candidate is repeated where these disagree."""
    runs, more = [], 0
    for place, (ours, theirs) in enumerate(zip(release.candidate, release.baseline, strict=True)):
        bank = (theirs, *release.again("baseline", place, BANKED - 1))
        mine = [ours]
        if len({run.failed for run in bank}) > 1:
            mine += release.again("candidate", place, BANKED - 1)
            more += BANKED - 1
        runs.append((tuple(mine), bank))
    return _decided(release, runs, more)


def _decided(
    release: Release, runs: Sequence[tuple[tuple[Attempt, ...], tuple[Attempt, ...]]], more: int
) -> Verdict:
    pairs = [
        Pair(f"{place:05}", Observed(ours), Observed(theirs))
        for place, (ours, theirs) in enumerate(runs)
    ]
    fresh: Fresh = Fresher(release, pairs)
    judged = judge(pairs, RULES.limits, floors={}, fresh=fresh)
    outcome, _ = outcome_of(judged.rules, pairs=len(pairs), limits=RULES.limits)
    used = sum(one.runs for one in confirmed_by(judged, RULES.limits).values())
    return Verdict("hold" if outcome == "not_enough_evidence" else outcome, more + used)


# --- plain tests


def _points(runs: Sequence[Attempt]) -> Any:
    return np.array([run.score / 100 for run in runs])


def _passed(runs: Sequence[Attempt]) -> list[bool]:
    return [not run.failed for run in runs]


def paired_t(release: Release, seed: int) -> Verdict:
    """Student's paired interval: not worse by the margin, worse, or neither."""
    change = _points(release.candidate) - _points(release.baseline)
    n = len(change)
    half = stats.t.ppf(0.975, n - 1) * change.std(ddof=1) / np.sqrt(n)
    if change.mean() - half > -MARGIN:
        return Verdict("promote")
    return Verdict("reject" if change.mean() + half < 0 else "hold")


def mcnemar(release: Release, seed: int) -> Verdict:
    """McNemar's exact test on passing: rejected if it is significant at 5%, else promoted."""
    sides = list(zip(_passed(release.candidate), _passed(release.baseline), strict=True))
    lost, gained = sides.count((False, True)), sides.count((True, False))
    p = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    return Verdict("reject" if p < 0.05 and lost > gained else "promote")


# --- other gates


def statgate(package: ModuleType) -> Gate:
    def gate(release: Release, seed: int) -> Verdict:
        sides = [
            [
                package.EvalRecord(case_id=str(place), score=run.score / 10_000)
                for place, run in enumerate(runs)
            ]
            for runs in (release.baseline, release.candidate)
        ]
        made = package.evaluate_gate(*sides, package.GateSettings(margin=MARGIN / 100, seed=seed))
        words = {"SHIP": "promote", "BLOCK": "reject", "INCONCLUSIVE": "hold"}
        return Verdict(words[str(made.verdict)])

    return gate


def evalproof(package: ModuleType) -> Gate:
    compare, config, decide, models = (
        importlib.import_module(f"evalproof.{name}")
        for name in ("compare", "config", "gate", "models")
    )
    info = models.RunInfo(
        suite="s",
        system="v",
        dataset_path="d",
        dataset_hash="d",
        started_at="",
        finished_at="",
        wall_time_s=0,
        evalproof_version="",
        seed=0,
    )

    def run_of(runs: Sequence[Attempt]) -> Any:
        results = [
            models.CaseResult(
                case_id=str(place),
                output=models.SystemOutput(output=""),
                scores={"score": models.Score(value=run.score / 10_000)},
            )
            for place, run in enumerate(runs)
        ]
        return models.Run(info=info, results=results)

    def gate(release: Release, seed: int) -> Verdict:
        made = compare.compare_runs(run_of(release.baseline), run_of(release.candidate), seed=seed)
        settings = config.GateConfig(metric="score", max_drop=MARGIN / 100)
        code = decide.decide(made, settings).exit_code
        return Verdict({0: "promote", 1: "reject"}.get(code, "hold"))

    return gate


def evalsig(package: ModuleType) -> Gate:
    types, gates = (
        importlib.import_module(f"evalsig.{name}") for name in ("types", "compare.gate")
    )

    def frame(runs: Sequence[Attempt]) -> Any:
        items = [types.ItemResult(str(place), run.score / 10_000) for place, run in enumerate(runs)]
        return types.RunFrame("r", "m", "t", "score", items)

    def gate(release: Release, seed: int) -> Verdict:
        made = gates.gate(
            frame(release.baseline), frame(release.candidate), min_delta=MARGIN / 100, rng=seed
        )
        words = {"ALLOW": "promote", "REJECT": "reject"}
        return Verdict(words.get(made.verdict.name, "hold"))

    return gate


def evalci(package: ModuleType) -> Gate:
    def gate(release: Release, seed: int) -> Verdict:
        sides = _points(release.candidate), _points(release.baseline)
        made = package.compare(*sides, random_state=seed)
        return Verdict("reject" if made.p_value < 0.05 and made.delta < 0 else "promote")

    return gate


def deltagate(package: ModuleType) -> Gate:
    def gate(release: Release, seed: int) -> Verdict:
        sides = [list(map(float, _points(runs))) for runs in (release.candidate, release.baseline)]
        made = package.evaluate_comparison(*sides, seed=seed)
        if made.significant:
            return Verdict("reject" if made.delta < 0 else "promote")
        return Verdict("hold" if made.underpowered else "promote")

    return gate


def evalgate(package: ModuleType) -> Gate:
    gates = importlib.import_module("evalgate.gate")

    def gate(release: Release, seed: int) -> Verdict:
        made = gates.evaluate_gate(
            _passed(release.candidate), 0.0, baseline_passes=_passed(release.baseline)
        )
        return Verdict("promote" if made.passed else "reject")

    return gate


OTHERS: dict[str, tuple[str, Callable[[ModuleType], Gate]]] = {
    "statgate": ("statgate", statgate),
    "evalproof": ("evalproof", evalproof),
    "evalsig": ("evalsig", evalsig),
    "evalci": ("evalci", evalci),
    "deltagate": ("deltagate", deltagate),
    "evalgate-ci": ("evalgate", evalgate),
}
"""The gates on PyPI: the package that is imported, and how it decides."""


def gates_here() -> tuple[dict[str, Gate], list[str]]:
    """The gates that are installed, and the names of the others."""
    found: dict[str, Gate] = {
        "Assay": assay,
        "Assay, banked": assay_banked,
        "paired t": paired_t,
        "McNemar": mcnemar,
    }
    absent = []
    for name, (package, build) in OTHERS.items():
        try:
            found[name] = build(importlib.import_module(package))
        except ImportError:
            absent.append(name)
    return found, absent


# --- simulated systems


def attempts_of(made: Mapping[str, Any]) -> list[list[Attempt]]:
    """The runs of each sample, of the arrays of a simulator."""
    found = []
    columns = zip(*(made[name] for name in ("c", "j", "g", "s", "score")), strict=True)
    for correct, judged, gates, severe, score in columns:
        found.append(
            [
                _attempt(bool(right), float(norm), bool(gate), bool(bad), float(points))
                for right, norm, gate, bad, points in zip(
                    correct, judged, gates, severe, score, strict=True
                )
            ]
        )
    return found


def _attempt(right: bool, judged: float, gate: bool, severe: bool, points: float) -> Attempt:
    failed = {GATE} if gate else set()
    if severe:
        failed |= {SEVERE}
    if failed or not right:
        failed |= {PASS}
    return Attempt(
        CHECKS,
        frozenset(failed),
        frozenset((SEVERE,)) if severe else frozenset(),
        round(100 * points),
        ("correct", "quality"),
        (10**9 * right, round(10**9 * judged)),
    )


def simulated(systems: ModuleType, kind: str, effect: str, n: int, seed: int) -> Release:
    """A release of a simulated system."""
    drawn = np.random.default_rng([seed, n, KINDS.index(kind), EFFECTS.index(effect)])
    versions = {"baseline": systems.system(kind, n, drawn)}
    versions["candidate"] = systems.changed(versions["baseline"], effect, drawn)
    while effect == "sev" and not (versions["candidate"]["s"] == 1).any():  # one at least
        versions["candidate"] = systems.changed(versions["baseline"], effect, drawn)

    def again(side: str, place: int, many: int) -> list[Attempt]:
        return attempts_of(systems.run(versions[side], many, drawn, np.array([place])))[0]

    first = {
        side: [runs[0] for runs in attempts_of(systems.run(version, 1, drawn))]
        for side, version in versions.items()
    }
    return Release(first["baseline"], first["candidate"], again)


# --- real repeats


def real_attempt(value: float, highest: float) -> Attempt:
    """A run with one score; it passes from 70% on."""
    share = (value - (highest > 1)) / (highest - (highest > 1))
    failed = frozenset[Check]() if share >= 0.7 else frozenset((PASS,))
    score = round(10_000 * share)
    return Attempt(
        frozenset((PASS,)), failed, frozenset(), score, ("score",), (round(10**9 * share),)
    )


def real(path: Path) -> Iterator[tuple[str, Release]]:
    """Every pair of runs of one system, from the file of repeats."""
    for source, samples in json.loads(path.read_text()).items():
        highest = max(value for runs in samples.values() for value in runs)
        runs = [[real_attempt(value, highest) for value in each] for each in samples.values()]
        repeats = min(map(len, runs))
        for first in range(repeats):
            for second in range(repeats):
                if first != second:
                    yield source.split("/")[0], _real_release(runs, first, second, repeats)


def _real_release(
    runs: Sequence[Sequence[Attempt]], first: int, second: int, repeats: int
) -> Release:
    drawn = random.Random(f"{first} {second}")
    rest = [place for place in range(repeats) if place not in (first, second)]

    def again(side: str, place: int, many: int) -> list[Attempt]:
        shared = rest[0::2] if side == "candidate" else rest[1::2]
        made = [runs[place][other] for other in shared][:many]
        return made + [drawn.choice(runs[place]) for _ in range(many - len(made))]

    return Release([each[first] for each in runs], [each[second] for each in runs], again)


# --- the table


class Cell:
    """The outcomes of each gate in one cell."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = {}
        self.runs: Counter[str] = Counter()

    def add(self, gates: Mapping[str, Gate], release: Release, seed: int) -> None:
        for name, gate in gates.items():
            verdict = gate(release, seed)
            self.outcomes.setdefault(name, Counter())[verdict.outcome] += 1
            self.runs[name] += verdict.runs

    def row(self, gate: str) -> str:
        """Promoted, held and rejected in %, and the runs besides the first."""
        counts = self.outcomes[gate]
        n = counts.total()
        shares = "/".join(f"{100 * counts[outcome] / n:.0f}" for outcome in OUTCOMES)
        runs = self.runs[gate] / n
        return f"{shares} +{runs:.0f}" if runs else shares

    def wrong(self, gate: str, right: str) -> float:
        """The share of wrong outcomes; a hold is half of one."""
        counts = self.outcomes[gate]
        n = counts.total()
        return 1 - (counts[right] + 0.5 * counts["hold"]) / n


def table(title: str, cells: Mapping[str, Cell], gates: Sequence[str]) -> None:
    """Print a table: a row for each gate, promote/hold/reject in % in each cell."""
    print(f"\n{title}: promoted/held/rejected in %, +further runs\n")
    width = max(map(len, gates))
    columns = [
        max(len(name), *(len(cell.row(gate)) for gate in gates)) for name, cell in cells.items()
    ]
    heads = [f"{name:>{size}}" for name, size in zip(cells, columns, strict=True)]
    print("  ".join([" " * width, *heads]))
    for gate in gates:
        rows = [
            f"{cell.row(gate):>{size}}" for cell, size in zip(cells.values(), columns, strict=True)
        ]
        print("  ".join([f"{gate:<{width}}", *rows]), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables, and the sum of wrong outcomes of each gate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few releases of a few cells")
    parser.add_argument("--replications", type=int, default=200, metavar="N")
    parser.add_argument("--samples", type=int, nargs="+", default=[50, 200], metavar="N")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--with", dest="packages", metavar="FOLDER", help="where other gates are")
    parser.add_argument("--only", nargs="+", metavar="GATE", help="only these gates")
    parser.add_argument("--data", type=Path, default=SHARED, metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.packages:
        sys.path.append(options.packages)
    places = options.data / "bench" / "decision", options.data / "data" / "decision"
    if not all(place.is_dir() for place in places):
        print(f"no simulators or repeats in {options.data}: nothing to measure")
        return 0
    sys.path.insert(0, str(places[0]))
    systems = importlib.import_module("systems")
    gates, absent = gates_here()
    if options.only:
        gates = {name: gates[name] for name in options.only}
    if absent and not options.only:
        print(f"not installed, so not measured: {', '.join(absent)}")
    sizes, times = ([40], 3) if options.quick else (options.samples, options.replications)
    kinds, effects = (("llm",), ("aa", "b5")) if options.quick else (options.kinds, EFFECTS)
    wrong: dict[str, float] = dict.fromkeys(gates, 0.0)
    for n in sizes:
        for kind in kinds:
            cells: dict[str, Cell] = {}
            for effect in effects:
                cell = cells[effect] = Cell()
                for seed in range(times):
                    cell.add(gates, simulated(systems, kind, effect, n, seed), seed)
                if effect in RIGHT:
                    for gate in gates:
                        wrong[gate] += cell.wrong(gate, RIGHT[effect])
            table(f"{kind}, {n} samples, {times} releases", cells, list(gates))
    print_wrong("simulated systems", wrong)
    gates.pop("Assay, banked", None)  # the sources have too few repeats for a bank
    found: dict[str, Cell] = {}
    for seed, (source, release) in enumerate(real(places[1] / "repeats.json")):
        if not options.quick or seed % 7 == 0:
            found.setdefault(source, Cell()).add(gates, release, seed)
    if gates:
        table("real repeats of one system", found, list(gates))
        wrong = {
            gate: sum(cell.wrong(gate, "promote") for cell in found.values()) for gate in gates
        }
        print_wrong("real repeats", wrong)
    return 0


def print_wrong(title: str, wrong: Mapping[str, float]) -> None:
    """The gates by what they get wrong."""
    print(f"\n{title}: wrong outcomes, summed over the cells (a hold counts half)\n")
    for gate, total in sorted(wrong.items(), key=lambda item: item[1]):
        print(f"  {gate:<14} {total:6.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
