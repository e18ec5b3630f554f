"""Random profiles, policies and rows for batches: edges, ties and whatever a lake may contain.

A profile and a policy are drawn by hypothesis; the runs under them by a seeded generator, because
one query over thousands of runs costs as much as one over ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from assay.canon import number_text
from assay.families.batch.engine import ask
from assay.families.batch.layout import COUNTS, find_layout
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.quoting import in_dialect
from assay.families.batch.relational import batch_queries
from assay.families.batch.replay import RowReject, RowScore, RowVerdict, replay_rows
from assay.files.json_files import Document
from assay.grading.policy import Rules, load_policy, make_rules
from assay.records.grade import LETTERS
from assay.scoring.profile import ScoringPlan, load_profile, make_plan

LIKERT = {"likert_1_5": (1, 4), "likert_neg2_2": (-2, 4), "likert_0_5": (0, 5)}
FORMULAS = ("binary", *LIKERT, "zero_one", "pairwise", "lower_is_better", "ratio")
NAMES = ("correctness", "safety", "a b", "x.y/z", "select", "9lives", "latency-p95", "Tone", "c")
GATES = ("no_pii_leak", "order by", "g.1", "from-where")
SLOS = ((8, 30), (0, 1), ("0.01", "0.1"), ("0.5", "12.3"), (8000, 30000), (-3, 4), (0, "0.003"))
ABSURD = (
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    1e301,
    9.999999999999999e300,
    5e-324,
    1e-300,
    9.99e-301,
    2.2250738585072014e-308,
    -1e308,
    -5e-324,
    -1.0,
    1.0000000000000002,
    -1e-17,
    6.0,
    -0.0,
)
"""Numbers that a formula refuses, clamps, or has to look at closely."""


class Graded(NamedTuple):
    """What a batch is graded by."""

    plan: ScoringPlan
    rules: Rules


class GivenRun(NamedTuple):
    """The rows of one run."""

    run: str
    scores: list[RowScore]
    verdicts: list[RowVerdict]


def decimals(low: int, high: int, digits: int) -> st.SearchStrategy[Decimal]:
    return st.integers(low * 10**digits, high * 10**digits).map(
        lambda units: Decimal(units).scaleb(-digits)
    )


@st.composite
def profiles(draw: st.DrawFn) -> ScoringPlan:
    """A profile of up to five criteria. The names are legal, and hostile to SQL."""
    criteria = []
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    weights = draw(
        st.lists(
            st.one_of(st.integers(0, 40), decimals(0, 1, 2), decimals(0, 1, 3)),
            min_size=len(names),
            max_size=len(names),
        ).filter(any)
    )
    for name, weight in zip(names, weights, strict=True):
        formula = draw(st.sampled_from(FORMULAS))
        criterion: dict[str, Any] = {
            "id": name,
            "label": name,
            "weight": weight,
            "layer": 2,
            "formula": formula,
            "role": draw(st.sampled_from((None, None, "correctness", "safety", "style"))),
        }
        if formula == "lower_is_better":
            good, bad = draw(st.sampled_from(SLOS))
            criterion["params"] = {"slo_good": Decimal(good), "slo_bad": Decimal(bad)}
        floor = st.one_of(st.just(None), decimals(0, 1, 2), decimals(0, 1, 9))
        value = draw(floor)
        if value is not None:
            criterion["critical_floor"] = {"norm": value}
        lowered = draw(st.one_of(st.just(None), st.just(None), floor))
        if lowered is not None:
            criterion["floor_override"] = {"value": {"norm": lowered}, "reason": "a test"}
        criteria.append(criterion)
    calibration = draw(st.sampled_from((None, None, None, "by_policy", "required")))
    judge = calibration and {
        "calibration": calibration,
        "order": draw(st.sampled_from((None, "both"))),
    }
    gates = draw(st.lists(st.sampled_from(GATES), max_size=3, unique=True))
    tree = {
        "profile": "drawn",
        "version": 1,
        "title": "Drawn",
        "family": "drawn",
        "gates": [{"id": name, "verdict": True} for name in gates],
        "criteria": criteria,
        **({} if judge is None else {"judge": judge}),
    }
    return make_plan(load_profile(Document(tree, "drawn.yaml")), why="drawn")


@st.composite
def policies(draw: st.DrawFn) -> Rules:
    """A policy with any bands, floors and shrinkage."""
    letters = draw(st.sets(st.sampled_from(LETTERS[:-1]), min_size=1))
    edges = draw(
        st.sets(decimals(1, 99, 3), min_size=len(letters), max_size=len(letters)).map(
            lambda found: sorted(found, reverse=True)
        )
    )
    listed = [letter for letter in LETTERS if letter in letters]
    bands = [
        *({"grade": letter, "min": edge} for letter, edge in zip(listed, edges, strict=True)),
        {"grade": "F", "min": 0},
    ]
    tree = {
        "policy": "drawn",
        "version": 1,
        "title": "Drawn",
        "family": "workflow",
        "pass_threshold": draw(st.one_of(decimals(1, 100, 3), st.sampled_from(edges))),
        "bands": bands,
        "role_floors": draw(
            st.dictionaries(
                st.sampled_from(("correctness", "safety", "style")), decimals(0, 1, 3), max_size=2
            )
        ),
        "floor_cap": draw(st.sampled_from([*listed, "F"])),
        "shrinkage": {"prior": draw(decimals(0, 1, 2)), "k": draw(decimals(1, 40, 1))},
        "placement": {"comfortable_margin": Decimal("0.05")},
        "ranking": {"tie_window": 1},
        "judge": {
            "inconsistency_warning": Decimal("0.2"),
            **({"gate": TERMS} if draw(st.integers(0, 9)) == 0 else {}),
        },
    }
    return make_rules(load_policy(Document(tree, "drawn.yaml")))


TERMS = {
    "max_age_days": 30,
    "min_labels": 50,
    "min_kappa": Decimal("0.6"),
    "min_items": 50,
    "max_lost": Decimal("0.1"),
    "max_inconsistency": Decimal("0.2"),
    "max_position_bias": Decimal("0.1"),
    "max_padding_bias": Decimal("0.1"),
    "max_injection_rate": 0,
}


def graded() -> st.SearchStrategy[Graded]:
    return st.builds(Graded, profiles(), policies())


def runs(by: Graded, seed: int, count: int, *, hostile: bool = True) -> list[GivenRun]:
    """Runs under a profile. Of hostile ones, about one in four is refused."""
    random = Random(seed)
    return [_run(by, random, f"r-{number}", hostile) for number in range(count)]


def _run(by: Graded, random: Random, run: str, hostile: bool) -> GivenRun:
    scores = []
    bad = hostile and random.random() < 0.3
    good = random.random() < 0.4  # most scores near the top, so that letters differ
    for planned in by.plan.criteria:
        spec = planned.spec
        if random.random() < 0.06:
            continue  # no row at all
        raw = raw_score(spec.formula, spec.params, random, bad=bad, good=good)
        n = random.choice((None, None, 0, 1, 2, 5, 30, 1000, 99_999))
        if bad and random.random() < 0.05:
            n = random.choice((-1, 10**10))
        scores.append(RowScore(spec.id, None if random.random() < 0.05 else raw, n))
    verdicts = []
    passes = random.random() < 0.75
    for planned_gate in by.plan.gates:
        if passes:
            verdicts.append(RowVerdict(planned_gate.id, True))
        elif random.random() < 0.8:
            verdicts.append(RowVerdict(planned_gate.id, random.choice((True, True, False, None))))
    if random.random() < 0.1:
        extra = random.choice(("zeta", "alpha", "No_PII_leak", "éclair", "no_pii_leak "))
        verdicts.append(RowVerdict(extra, random.choice((True, False, None))))
    if hostile and random.random() < 0.03:
        scores.append(RowScore(random.choice(("unknown", "Safety", "safety ", "")), 1.0))
    if bad and random.random() < 0.1 and scores:
        scores.append(random.choice(scores))
    if bad and random.random() < 0.1 and verdicts:
        again = random.choice(verdicts)
        verdicts.append(random.choice((again, again._replace(verdict=not again.verdict))))
    random.shuffle(scores)
    random.shuffle(verdicts)
    return GivenRun(run, scores, verdicts)


def raw_score(
    formula: str, params: Any, random: Random, *, bad: bool = False, good: bool = False
) -> Any:
    """A raw score: usual ones, ties at half a billionth, their neighbours, and absurd ones."""
    if formula in COUNTS:
        return _counts(formula, random, bad)
    if bad and random.random() < 0.3:
        return random.choice(ABSURD)
    if formula == "binary":
        return random.choice((0.0, 1.0, 1.0, -0.0))
    share = random.random() ** (0.2 if good else 1)
    kind = random.random()
    if kind < 0.35:  # few decimals: scores that end in exactly half a cent
        norm = Decimal(round(share * 10**4)).scaleb(-4)
    elif kind < 0.75:  # exactly half a billionth
        norm = Decimal(2 * int(share * 10**9) + 1) * Decimal("5e-10")
    else:
        norm = Decimal(share)
    norm = min(norm, Decimal(1))
    if formula in LIKERT:
        low, span = LIKERT[formula]
        value = float(low + span * norm)
        ends = (float(low), float(low + span))
    elif formula == "lower_is_better":
        slo_good, slo_bad = Decimal(params["slo_good"]), Decimal(params["slo_bad"])
        value = float(slo_bad - (slo_bad - slo_good) * norm)
        ends = (-math.inf, math.inf)
    else:
        value = float(norm)
        ends = (-math.inf, math.inf)
    if kind > 0.55:
        value = math.nextafter(value, random.choice((-math.inf, math.inf)))
    return min(max(value, ends[0]), ends[1])


def _counts(formula: str, random: Random, bad: bool) -> Any:
    top = random.choice((1, 3, 7, 64, 1000, 10**6, 10**9 // 3))
    counts: dict[str, Any] = {key: random.randint(0, top) for key in COUNTS[formula]}
    if formula == "ratio":
        counts["total"] = max(counts["total"], counts["passed"], 1)
    elif not any(counts.values()):
        counts["ties"] = 1
    if bad and random.random() < 0.3:
        key = random.choice(COUNTS[formula])
        counts[key] = random.choice((None, -1, 10**12, 0))
    return counts


LAYOUTS = ("long", "long in two", "wide", "wide scores", "wide gates", "joined gates")


def tables(by: Graded, given: list[GivenRun], layout: str) -> list[pa.Table]:
    """The runs as tables, to be united by column name."""
    scores = [] if layout in ("wide", "wide scores") else _long_scores(given)
    verdicts = [
        {"run": run.run, "gate": one.gate, "verdict": one.verdict}
        for run in given
        for one in run.verdicts
    ]
    if layout == "long":
        return [pa.Table.from_pylist(scores + verdicts, _LONG)]
    if layout == "long in two":
        gates = pa.schema([_LONG.field(name) for name in ("run", "gate", "verdict")])
        names = [name for name in _LONG.names if name not in ("gate", "verdict")]
        return [
            pa.Table.from_pylist(scores, pa.schema([_LONG.field(name) for name in names])),
            pa.Table.from_pylist(verdicts, gates),
        ]
    wide_gates = pa.schema(
        [("run", pa.string()), *((planned.id, pa.bool_()) for planned in by.plan.gates)]
    )
    wide = _wide_schema(by)
    if layout == "wide gates":
        return [
            pa.Table.from_pylist(scores, _LONG),
            pa.Table.from_pylist(_spread(given, scores=False), wide_gates),
        ]
    if layout == "joined gates":
        both = pa.schema([*_LONG, *list(wide_gates)[1:]])
        return [pa.Table.from_pylist(_joined(given, scores), both)]
    if layout == "wide scores":
        gates = pa.schema([_LONG.field(name) for name in ("run", "gate", "verdict")])
        return [
            pa.Table.from_pylist(_spread(given, gates=False), wide),
            pa.Table.from_pylist(verdicts, gates),
        ]
    both = pa.schema([*wide, *list(wide_gates)[1:]])
    return [pa.Table.from_pylist(_spread(given), both)]


_LONG = pa.schema(
    [
        ("run", pa.string()),
        ("criterion", pa.string()),
        ("raw", pa.float64()),
        ("n", pa.int64()),
        *((key, pa.int64()) for keys in COUNTS.values() for key in keys),
        ("gate", pa.string()),
        ("verdict", pa.bool_()),
    ]
)


def _long_scores(given: list[GivenRun]) -> list[dict[str, Any]]:
    return [
        {
            "run": run.run,
            "criterion": one.criterion,
            "n": one.n,
            **(one.raw if isinstance(one.raw, dict) else {"raw": one.raw}),
        }
        for run in given
        for one in run.scores
    ]


def _wide_schema(by: Graded) -> pa.Schema:
    fields: list[Any] = [("run", pa.string())]
    for planned in by.plan.criteria:
        name, formula = planned.spec.id, planned.spec.formula
        keys = COUNTS.get(formula, ())
        fields += [(f"{name}_{key}", pa.int64()) for key in keys] or [(name, pa.float64())]
        fields.append((f"{name}_n", pa.int64()))
    return pa.schema(fields)


def _spread(
    given: list[GivenRun], *, scores: bool = True, gates: bool = True
) -> list[dict[str, Any]]:
    """One row for each run; what stands twice goes to a second row, and so on."""
    rows: list[dict[str, Any]] = []
    for run in given:
        cells: list[dict[str, Any]] = []
        if scores:
            for one in run.scores:
                raw = one.raw
                named = (
                    {f"{one.criterion}_{key}": count for key, count in raw.items()}
                    if isinstance(raw, dict)
                    else {one.criterion: raw}
                )
                cells.append({**named, f"{one.criterion}_n": one.n})
        if gates:
            cells += [{one.gate: one.verdict} for one in run.verdicts]
        made: list[dict[str, Any]] = [{"run": run.run}]
        for cell in cells:
            place = next((row for row in made if not row.keys() & cell.keys()), None)
            if place is None:
                made.append(place := {"run": run.run})
            place.update(cell)
        rows += made
    return rows


def _joined(given: list[GivenRun], scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Long scores with the verdicts of the run on every row; where a run has several rows of
    verdicts, they take turns, so that some contradict and some fill the gaps of others.
    """
    by_run: dict[str, list[dict[str, Any]]] = {}
    for row in _spread(given, scores=False):
        by_run.setdefault(row["run"], []).append(row)
    return [
        {**by_run[row["run"]][place % len(by_run[row["run"]])], **row}
        for place, row in enumerate(scores)
    ]


class Difference(NamedTuple):
    """A run whose row an engine makes otherwise than Python."""

    run: Any
    column: str
    engine: Any
    python: Any
    rows: list[dict[str, Any]]


class Compared(NamedTuple):
    """The rows of an engine by run, and where they differ from those of the Python engine."""

    made: dict[Any, dict[str, Any]]
    differences: list[Difference]


def compared(
    engine: Any,
    view: str,
    source: list[dict[str, Any]],
    by: Graded,
    *,
    names: dict[str, str] | None = None,
    keep: tuple[str, ...] = (),
) -> Compared:
    """Grade a view by an engine and its rows by Python: every column, every reject."""
    plan = make_batch_plan(by.plan, by.rules)
    layout = find_layout(plan, engine.columns(view), names=names, keep=keep)
    queries = batch_queries(plan, view, engine.columns(view), names=names, keep=keep)
    grades = in_dialect(queries.grades, engine.dialect)
    columns = list(engine.relation(grades).columns)
    made = {row[0]: dict(zip(columns, row, strict=True)) for row in engine.rows(grades)}
    refused: dict[Any, list[RowReject]] = {}
    for run, criterion, gate, _raw, code, _reason in ask(engine, queries.rejects):
        refused.setdefault(run, []).append(
            RowReject(gate if criterion is None else criterion, code)
        )
    runs: dict[Any, list[dict[str, Any]]] = {}
    for row in source:
        runs.setdefault(row[layout.run.name], []).append(row)
    assert made.keys() == runs.keys()
    found = []
    for run, rows in runs.items():
        row, rejects = replay_rows(run, rows, layout, by.plan, by.rules)
        assert list(row) == columns
        pairs = [(column, plain(made[run][column]), plain(row[column])) for column in columns]
        pairs.append(("rejects", _sorted(refused.get(run, ())), _sorted(rejects)))
        found += [
            Difference(run, column, one, other, rows)
            for column, one, other in pairs
            if one != other
        ]
    return Compared(made, found)


def _sorted(rejects: Iterable[RowReject]) -> list[RowReject]:
    return sorted(rejects, key=lambda one: (one.subject or "", one.code))


def plain(value: Any) -> Any:
    """A value of any engine, to compare: one text for each number."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    return [plain(one) for one in value]


def differences(
    engine: Any, folder: Path, given: list[pa.Table], by: Graded, names: dict[str, str]
) -> list[Difference]:
    """Where an engine and Python differ over tables that are written to a folder, with columns
    called by a map as far as it fits. The first few are enough.
    """
    used = mapped(given, names)
    paths = []
    for index, table in enumerate(renamed(given, used)):
        paths.append(str(folder / f"{index}.parquet"))
        pq.write_table(table, paths[-1])
    source = united(renamed(given, used)).to_pylist()
    return compared(engine, engine.attach(paths), source, by, names=used).differences[:2]


MAPS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"run": "the id", "raw": "value"},
    {"criterion": "gate", "gate": "criterion", "verdict": "n", "n": "verdict"},
    {"raw": "correctness", "run": "safety", "n": "Tone"},
    {"run": 'a "quoted" `name`', "gate": "order by", "passed": "from", "wins": "select"},
)
"""What a source calls its columns: words of SQL, swapped roles, names of criteria."""


def renamed(given: list[pa.Table], names: dict[str, str]) -> list[pa.Table]:
    """Tables with the columns of roles under other names."""
    return [
        table.rename_columns([names.get(name, name) for name in table.column_names])
        for table in given
    ]


def mapped(given: list[pa.Table], names: dict[str, str]) -> dict[str, str]:
    """The part of a map that tables can have: the columns that they have, under names that are
    free.
    """
    there = {name for table in given for name in table.column_names}
    usable = {role: name for role, name in names.items() if role in there}
    taken = {name.lower() for name in there - usable.keys()}
    return {} if any(name.lower() in taken for name in usable.values()) else usable


def united(given: list[pa.Table]) -> pa.Table:
    """Tables as one, columns matched by name."""
    return pa.concat_tables(given, promote_options="default")
