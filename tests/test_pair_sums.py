"""The tally that an engine counts over two batches is the one that lists of pairs come to, and so
is every rule, number and sentence of the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.batch.pair_query import PairQuery, extra_gates
from assay.batch.pair_sums import count_pairs_of, stratum_of
from assay.batch.plan import BatchCriterion, BatchPlan
from assay.batch.run_query import BatchView
from assay.exact import NORM_ONE
from assay.release.pairs import pair_up
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.release.promotion import promote, promote_tally
from assay.release.sides import Repeat, Row, Side, Stratum, merged
from examples import CAMPAIGN, share
from sides import SHRINKAGE, Shelf

duckdb = pytest.importorskip("duckdb")

FLOOR = 600_000_000
PLAN = BatchPlan(
    profile="p@1",
    policy="workflow@1",
    criteria=(
        BatchCriterion("c 'quoted'", "zero_one", {}, 3, None, False),
        BatchCriterion("safe", "zero_one", {}, 1, FLOOR, False),
    ),
    gates=("no_policy_violation", 'looks "right"'),
    bands=(),
    threshold=7000,
    lowest_passing="C",
    cap="C",
    shrinkage=SHRINKAGE,
    scoring_system="scoringSystem/1.0.0",
    grading_system="gradingSystem/1.0.0",
    digests={},
)
ROLES = {"safe": "safety"}
STRATUM = Stratum("p@1", ("c 'quoted'", "safe"), (3, 1), ("zero_one", "zero_one"))
RULES = [
    make_release_rules(Shelf().policy_of("release", name), bars)
    for name in ("release@1", "release-strict@1")
    for bars in (Bars(), Bars(margin=20, min_pass_rate=0.3))
]


class Connection:
    """DuckDB, as a decision asks it."""

    dialect = "duckdb"

    def __init__(self) -> None:
        self.connection = duckdb.connect()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def materialise(self, sql: str) -> str:
        self.connection.execute(f"CREATE OR REPLACE TABLE once AS {sql}")
        return "once"

    def table(self, name: str, runs: list[dict[str, Any]]) -> BatchView:
        columns = {
            "run": "VARCHAR",
            "sample": "VARCHAR",
            "attempt": "BIGINT",
            "group": "VARCHAR",
            "passed": "BOOLEAN",
            "score": "DOUBLE",
            "failed_gates": "VARCHAR[]",
            "undetermined_gates": "VARCHAR[]",
            "extra_gates": "VARCHAR[]",
            "failed_floors": "VARCHAR[]",
            "norm_c 'quoted'": "DOUBLE",
            "norm_safe": "DOUBLE",
        }
        listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
        self.connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({listed})')
        if runs:
            row = f"({', '.join('?' for _ in columns)})"
            self.connection.execute(
                f'INSERT INTO "{name}" VALUES {", ".join([row] * len(runs))}',
                [run[column] for run in runs for column in columns],
            )
        return BatchView(name, columns)


norms = st.sampled_from([0, 1, 333_333_333, 599_999_999, FLOOR, 871_000_000, NORM_ONE])
EXTRA = ("polite", "in 'time'")
one_run = st.tuples(
    norms,
    norms,
    st.sets(st.sampled_from([*PLAN.gates, *EXTRA])),
    st.booleans(),
    st.sets(st.sampled_from(EXTRA)),
    st.sets(st.sampled_from([*PLAN.gates, *EXTRA])),
)
samples = st.lists(
    st.tuples(
        st.sampled_from([None, None, "g1", "g2", "g3", "g4", "g5", "g 'six'"]),
        st.lists(st.tuples(st.integers(1, 3), one_run), max_size=3, unique_by=lambda item: item[0]),
        st.lists(st.tuples(st.integers(1, 3), one_run), max_size=3, unique_by=lambda item: item[0]),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=24,
)


def a_run(
    sample: str, group: str | None, attempt: int | None, drawn: Any, plan: BatchPlan = PLAN
) -> dict[str, Any]:
    one, safe, failed, clean, extra, undetermined = drawn
    failed = sorted(failed & {*plan.gates, *extra} if not clean else set())
    score = (2 * (3 * one + safe) * 10_000 + 4 * NORM_ONE) // (8 * NORM_ONE)
    floors = ["safe"] if safe < FLOOR else []
    return {
        "run": f"{sample}-{attempt}",
        "sample": sample,
        "attempt": attempt,
        "group": group,
        "passed": score >= 7000 and not failed and not floors,
        "score": f"{score // 100}.{score % 100:02}",
        "failed_gates": failed,
        "undetermined_gates": sorted(undetermined & set(failed)),
        "extra_gates": sorted(extra),
        "failed_floors": floors,
        "norm_c 'quoted'": f"{one // NORM_ONE}.{one % NORM_ONE:09}",
        "norm_safe": f"{safe // NORM_ONE}.{safe % NORM_ONE:09}",
    }


def a_side(name: str, runs: list[dict[str, Any]], plan: BatchPlan) -> Side:
    rows: dict[str, dict[int | None, Row]] = {}
    for run in runs:
        units = tuple(int(run[f"norm_{one}"].replace(".", "")) for one in STRATUM.criteria)
        rows.setdefault(run["sample"], {})[run["attempt"]] = Row(
            run["sample"],
            int(run["score"].replace(".", "")),
            run["passed"],
            frozenset([*plan.gates, *run["extra_gates"]]),
            frozenset(run["failed_gates"]),
            frozenset(run["undetermined_gates"]),
            frozenset(run["failed_floors"]),
            units,
            STRATUM,
            run["group"],
            frozenset(),
            None,
            (run["run"],),
            {"safe": FLOOR},
            ROLES,
            units,
            7000,
            {},
        )
    repeats = {
        sample: tuple(
            Repeat(number, row.passed, row.score)
            for number, row in sorted(attempts.items())
            if number is not None
        )
        for sample, attempts in rows.items()
        if None not in attempts
    }
    made = {sample: merged(attempts) for sample, attempts in rows.items()}
    return Side(name, made, {}, {}, {"evidence": ""}, len(runs), {}, repeats)


def both_ways(
    engine: Any,
    ours: list[Any],
    theirs: list[Any],
    left_out: list[str],
    plan: BatchPlan = PLAN,
    policies: Sequence[ReleaseRules] = RULES,
) -> None:
    pairs = pair_up(a_side("candidate", ours, plan), a_side("baseline", theirs, plan))
    views = [engine.table("ours", ours), engine.table("theirs", theirs)]
    extra = extra_gates(engine, plan, *views)
    query = PairQuery(plan, *views, extra_gates=extra, left_out=left_out)
    query.materialise(engine)
    for rules in policies:
        expected = promote(pairs, rules, shrinkage=SHRINKAGE, quarantined=left_out)
        tally = count_pairs_of(engine, query, rules, stratum=stratum_of(query), roles=ROLES)
        counted = promote_tally(
            tally,
            rules,
            shrinkage=SHRINKAGE,
            quarantined=expected.missing.quarantined,
        )
        assert expected.tally is not None
        assert tally.worse == expected.tally.worse
        assert tally.passes == expected.tally.passes
        assert tally.gates.certain == expected.tally.gates.certain
        assert tally.severe.certain == expected.tally.severe.certain
        assert counted._replace(tally=None) == expected._replace(tally=None, pairs=())


@settings(max_examples=share(50))
@given(
    samples,
    st.booleans(),
    st.sampled_from([PLAN, PLAN, PLAN._replace(gates=())]),
    st.just(RULES) if CAMPAIGN else st.sampled_from(RULES).map(lambda rules: [rules]),
)
def test_an_engine_counts_what_lists_of_pairs_come_to(
    drawn: Any, leave_out: bool, plan: BatchPlan, policies: Sequence[ReleaseRules]
) -> None:
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for place, (group, mine, before, same, unnumbered) in enumerate(drawn):
        name = f"s{place:02}"
        for runs, given_runs in ((ours, before if same else mine), (theirs, before)):
            if unnumbered and len(given_runs) == 1:
                given_runs = [(None, given_runs[0][1])]
            runs.extend(a_run(name, group, attempt, one, plan) for attempt, one in given_runs)
    both_ways(Connection(), ours, theirs, ["s00"] if leave_out else [], plan, policies)


def test_a_large_candidate_that_lost_a_few_runs_is_judged_by_what_they_could_have_held() -> None:
    good = (871_000_000, NORM_ONE, set(), True, {"polite"}, set())
    better = (875_000_000, NORM_ONE, set(), True, {"polite"}, set())
    for groups in (0, 40):
        theirs = [
            a_run(f"s{n:03}", f"g{n % groups}" if groups else None, None, good) for n in range(160)
        ]
        ours = [
            a_run(f"s{n:03}", None, None, better if n % 3 else good) for n in range(160) if n != 7
        ]
        for place, given_runs in enumerate(
            (ours, [*ours, a_run("z", None, None, good)], ours[30:]), bool(groups)
        ):
            if CAMPAIGN or place != 1:
                policies = RULES if CAMPAIGN else RULES[place % 4 :: 4]
                both_ways(Connection(), given_runs, theirs, [], policies=policies)


def test_a_decimal_of_a_mean_is_that_of_python() -> None:
    for repeats in range(1, 8):
        for units in range(0, 10_000 * repeats, 97):
            points = (20_000_000 * units + repeats) // (2 * repeats)
            assert points / 10**9 == round(float(Fraction(units, repeats)) / 100, 9)
