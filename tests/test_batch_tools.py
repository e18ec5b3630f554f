"""Answers about tools in SQL get the letters of `tools.aggregate`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import assay
from assay.batch.engine import SourceColumn
from assay.batch.quoting import in_dialect
from assay.batch.tool_query import GRADE_COLUMNS, ToolAnswersQuery, folded_question
from assay.errors import AssayError, InputError, ShelfError
from assay.library.shelf import Shelf
from assay.pipeline.batch_tools import make_tool_plan
from assay.records.tool_entry import CategoricalVeto, GradedAnswer, GraderIdentity
from assay.tools.aggregate import Aggregate, aggregate_answers
from assay.tools.answers import folded
from assay.tools.policy import MeanBand, SchemaRules

GRADER = GraderIdentity(kind="script", name="x", version="1")
QUESTIONS = (
    "Q-api-availability",
    "Q-securityScore",
    "Q-single-test-04",
    "Q-persona-use-case-fit",
    "Q-completeness",
    "S1-Coverage",
    "tosMatch",
    "Q-PARAMETERS",
)
NO_NUMBERS = (float("nan"), float("inf"))
UNBOUND = ("Q-api-availability", "tosMatch", "Q-PARAMETERS")


@pytest.fixture(scope="module")
def rules() -> SchemaRules:
    return SchemaRules(Shelf().policy_of("flowmcp", "flowmcp@1"))


class Answers(NamedTuple):
    """The answers about one subject."""

    given: Sequence[tuple[str, Any, Any, str | None, str]]
    tier: str
    veto: str | None = None
    cap: str | None = None

    def rows(self, subject: str) -> list[dict[str, Any]]:
        known = {"subject": subject, "tier": self.tier, "veto": self.veto, "cap": self.cap}
        return [known] + [
            {
                "subject": subject,
                "question": question,
                "score": str(score),
                "weight": float(weight),
                "timestamp": moment,
                "determinism": determinism,
                "na_reason": "requires-private-data",
            }
            for question, score, weight, moment, determinism in self.given
        ]

    def aggregated(self, rules: SchemaRules) -> Aggregate:
        veto = None
        if self.veto is not None:
            veto = CategoricalVeto(
                triggered_by=self.veto, grader_identity=GRADER, evidence="e", timestamp=""
            )
        answers = [
            GradedAnswer(
                question_id=question,
                score=score,
                weight=weight,
                determinism=determinism,
                grader_identity=GRADER,
                timestamp=moment or "",
            )
            for question, score, weight, moment, determinism in self.given
        ]
        return aggregate_answers(answers, self.tier, rules, veto=veto, cap=self.cap)


def ask(query: str, table: pa.Table) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        connection.register("answers", table)
        found = connection.execute(in_dialect(query, "duckdb"))
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


ALL = ("subject", "question", "score", "weight", "tier", "veto", "cap", "timestamp")
TEXTS = (*ALL, "determinism", "na_reason")


def query(
    rows: list[dict[str, Any]], rules: SchemaRules, *, keep: tuple[str, ...] = ()
) -> tuple[ToolAnswersQuery, pa.Table]:
    names = list(dict.fromkeys([*TEXTS, *keep]))
    kinds = {name: pa.float64() if name == "weight" else pa.string() for name in names}
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))
    columns = [SourceColumn(name, "DOUBLE" if name == "weight" else "VARCHAR") for name in names]
    return ToolAnswersQuery(make_tool_plan(rules), "answers", columns, names={}, keep=keep), table


def grade(
    rows: list[dict[str, Any]], rules: SchemaRules, *, keep: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    made, table = query(rows, rules, keep=keep)
    return {row["subject"]: row for row in ask(made.grades(), table)}


def some_answers(rng: random.Random) -> Answers:
    """Answers of a subject, often on an edge, often of one kind, sometimes given again."""
    kind = rng.random()
    questions = rng.sample(UNBOUND if kind < 0.3 else QUESTIONS, rng.randrange(0, 4))
    high = rng.random() < 0.5
    given = {}
    for question in questions:
        for again in range(rng.choice([1, 1, 1, 3])):
            score: Any = rng.choice([4, 5, 4.5, 4.499999, Decimal("4.500001"), 3.5])
            if not high:
                score = rng.choice([rng.randrange(1, 6), round(rng.uniform(1, 5), 6), 2.5, 1.5])
            if rng.random() < 0.2:
                score = rng.choice(["pass", "fail", "stale", "n/a"])
            day = f"2026-01-{rng.randrange(1, 28):02d}T"
            moment = rng.choice(
                [f"{day}10:00:00Z", f"{day}09:59:59.5+00:00", f"{day}11:00:00+05:30"]
            )
            who = rng.choice(["deterministic", "non-deterministic"])
            weight = rng.choice([1, 1, 2, 0, 0.5, 0.333333, Decimal("0.000001"), 1000])
            stamp = None if again == 0 and rng.random() < 0.1 else moment
            given[question, stamp] = (question, score, weight, stamp, who)
    return Answers(
        list(given.values()),
        rng.choice(["autonomous", "group-bound"]),
        rng.choice(["malicious-module", "illegal-content"]) if rng.random() < 0.05 else None,
        rng.choice("ABCDF") if rng.random() < 0.1 else None,
    )


def test_every_letter_and_mean_is_that_of_the_python_aggregate(rules: SchemaRules) -> None:
    rng = random.Random(22)
    subjects = {f"s{index}": some_answers(rng) for index in range(4000)}
    rows = [row for name, answers in subjects.items() for row in answers.rows(name)]
    rng.shuffle(rows)
    found = grade(rows, rules)
    assert len(found) == len(subjects)
    letters = {row["grade"] for row in found.values()}
    assert letters == {"A", "B", "C", "D", "F", "REJECTED", None}
    seen = set()
    for name, answers in subjects.items():
        row, expected = found[name], answers.aggregated(rules)
        notes, warnings = " ".join(expected.notes), " ".join(expected.warnings)
        caps = ("the tier" in notes, "bound to the group" in notes, "too small" in notes)
        seen.add(caps)
        mean = expected.mean
        assert (row["grade"], row["raw_grade"], row["max_attainable"]) == (
            expected.grade,
            expected.raw_grade,
            expected.max_attainable,
        ), (name, answers)
        assert row["mean"] == (None if mean is None else int((mean * 10**12 * 2 + 1) // 2) / 1e12)
        flags = (row["tier_capped"], row["group_capped"], row["size_capped"])
        assert tuple(map(bool, flags)) == caps, (name, answers)
        assert bool(row["unjudged"]) is ("judged" in warnings)
        if expected.status != "rejected":
            stale = re.match(r"\d+", warnings) if "stale" in warnings else None
            assert row["stale"] == (int(stale[0]) if stale else 0)
        status = {"veto": "rejected", "no_scorable_answers": "pending"}
        assert status.get(row["reason"], "graded") == expected.status
        assert row["passed"] is (expected.grade in ("A", "B"))
        assert row["faults"] == 0
    assert {(True, False, False), (False, True, False), (False, False, True)} < seen


def test_a_mean_on_the_edge_belongs_to_the_band_and_one_below_it_does_not(
    rules: SchemaRules,
) -> None:
    """The two means differ by less than a double can show at nine decimals."""
    when, judged = "2026-01-01T00:00:00Z", "non-deterministic"
    weights = (999, 0.000001)
    for low, grade_of in (("4.5", "A"), ("4.499999", "B")):
        given = [("Q-1", Decimal("4.5"), weights[0], when, judged)]
        given.append(("Q-2", Decimal(low), weights[1], when, judged))
        answers = Answers(given, "group-bound")
        assert answers.aggregated(rules).grade == grade_of
        row = grade(answers.rows("s"), rules)["s"]
        assert (row["grade"], row["passed"]) == (grade_of, True)


def test_rows_that_do_not_count_are_rejected_and_leave_no_grade(rules: SchemaRules) -> None:
    when = "2026-01-01T00:00:00Z"
    fine = Answers([("Q-1", 5, 1, when, "non-deterministic")], "group-bound").rows("x")
    cases: dict[str, list[dict[str, Any]]] = {"SCO-001": [], "SCO-003": [], "SCO-004": []}
    cases["SCO-001"] = [{"score": text} for text in ("6", "0.999999", "-3", "0")]
    cases["SCO-003"] = [
        {"score": text} for text in ("Pass", "4,5", "nan", " 4", "4\n", "", None, "+4", "inf", ".5")
    ]
    cases["SCO-004"] = [{"weight": weight} for weight in (-1.0, None, *NO_NUMBERS)]
    cases["BAT-010"] = [{"score": text} for text in ("4.0000001", "4e0", "4.00000000000000000001")]
    cases["BAT-071"] = [{"weight": weight} for weight in (1001.0, 0.1234567)]
    cases["NA-001"] = [{"score": "n/a", "na_reason": reason} for reason in (None, "too hard")]
    cases["GRD-011"] = [{"determinism": text} for text in (None, "Deterministic")]
    cases["BAT-072"] = [{"timestamp": text} for text in ("2026-01-01T00:00:00", "yesterday")]
    cases["VET-001"] = [{"veto": "malicious-modul"}]
    cases["GRD-003"] = [{"tier": "autonomus"}]
    cases["BAT-070"] = [{"cap": "E"}]
    cases["BAT-014"] = [{"question": None}]
    cases["BAT-073"] = [{"question": "Q-1", "timestamp": when, "score": "1"}]
    cases["BAT-074"] = [{"tier": "autonomous"}]
    rows, expected = [*fine], {}
    for code, changes in cases.items():
        for place, change in enumerate(changes):
            name = f"{code}-{place}"
            expected[name] = code
            rows += [{**row, "subject": name} for row in fine]
            rows.append({**fine[1], "question": "Q-2", "subject": name, **change})
    rows += [{**fine[1], "subject": "no tier"}, {**fine[1], "subject": None}]
    heavy = [{**fine[1], "question": f"Q-{n}", "weight": 1000.0} for n in range(1001)]
    rows += [{**row, "subject": "heavy"} for row in [fine[0], *heavy]]
    expected |= {"no tier": "GRD-003", "heavy": "BAT-071"}
    found = grade(rows, rules)
    made, table = query(rows, rules)
    refused = ask(made.rejects(), table)
    assert (found["x"]["grade"], found["x"]["faults"]) == ("A", 0)
    for name, code in expected.items():
        row = found[name]
        assert [one["code"] for one in refused if one["subject"] == name] == [code], name
        assert (row["passed"], row["grade"], row["raw_grade"], row["mean"]) == (
            False,
            None,
            None,
            None,
        ), name
        assert (row["reason"], row["faults"]) == ("invalid_evidence", 1), name
    assert sum(row["faults"] for row in found.values()) == len(refused)
    assert all(one["reason"] for one in refused)


def test_the_same_answer_twice_counts_once(rules: SchemaRules) -> None:
    rows = Answers([("Q-1", 5, 1, None, "non-deterministic")], "group-bound").rows("s")
    assert grade(rows + rows[1:], rules)["s"]["answers"] == 1


def test_kept_columns_have_one_value(rules: SchemaRules) -> None:
    rows = Answers([("Q-1", 5, 1, None, "non-deterministic")], "group-bound").rows("s")
    rows = [{**row, "team": "a"} for row in rows]
    other = [{**row, "subject": "t", "team": team} for row, team in zip(rows, "ab", strict=True)]
    found = grade(rows + other, rules, keep=("team",))
    assert (found["s"]["team"], found["s"]["grade"]) == ("a", "A")
    assert (found["t"]["team"], found["t"]["reason"]) == (None, "invalid_evidence")
    assert set(found["s"]) == {"team", *GRADE_COLUMNS}
    with pytest.raises(InputError, match="'mean' can't be kept: the grades have a column of"):
        grade([{**row, "mean": "5"} for row in rows], rules, keep=("mean",))


def test_nan_in_parquet_is_rejected_with_a_reason(tmp_path: Path) -> None:
    """DuckDB took it for a number by the statistics of the file, and then failed to convert it."""
    path, rows = str(tmp_path / "answers.parquet"), []
    for subject, change in (("s", {}), ("score", {"score": NO_NUMBERS[0]}), ("weight", {})):
        known, answer = Answers([("Q-1", 5, 1, None, "non-deterministic")], "group-bound").rows(
            subject
        )
        rows += [known, {**answer, "score": 5.0, **change}]
    rows[-1]["weight"] = NO_NUMBERS[0]
    pq.write_table(pa.Table.from_pylist([dict.fromkeys(ALL) | row for row in rows]), path)
    found = assay.grade_table(path, policy="flowmcp@1").select("subject", "grade").fetchall()
    assert dict(found) == {"s": "A", "score": None, "weight": None}
    refused = assay.grade_table(path, policy="flowmcp@1", rejects=True)
    assert dict(refused.select("subject", "code").fetchall()) == {
        "score": "SCO-003",
        "weight": "SCO-004",
    }


def test_numbers_and_json_are_read_as_what_they_are(rules: SchemaRules) -> None:
    plan = make_tool_plan(rules)
    shared = "'s' AS subject, 'Q-1' AS question, 1 AS weight, 'group-bound' AS tier"
    scores = {
        "CAST(4.5 AS DECIMAL(38, 30))": ("DECIMAL(38,30)", "A"),
        "CAST('4.500000000000000000000000000001' AS DECIMAL(38, 30))": ("DECIMAL(38,30)", None),
        "CAST(4.5 AS FLOAT)": ("FLOAT", "A"),
        "CAST(4 AS UTINYINT)": ("UTINYINT", "B"),
        "CAST('\"pass\"' AS JSON)": ("JSON", "A"),
        "CAST('\"4.5\"' AS JSON)": ("JSON", None),
        "CAST('4.5' AS JSON)": ("JSON", "A"),
    }
    with duckdb.connect() as connection:
        for score, (kind, letter) in scores.items():
            connection.execute(
                f"CREATE OR REPLACE VIEW answers AS SELECT {shared}, {score} AS score"
            )
            types = {"subject": "VARCHAR", "question": "VARCHAR", "weight": "INTEGER"}
            columns = [SourceColumn(*pair) for pair in (types | {"tier": "VARCHAR"}).items()]
            made = ToolAnswersQuery(
                plan, "answers", [*columns, SourceColumn("score", kind)], names={}
            )
            found = connection.execute(in_dialect(made.grades(), "duckdb")).fetchone()
            assert found is not None
            assert found[1] == letter, score


def test_engines_fold_a_question_as_python_does() -> None:
    every = [chr(code) for code in range(1, 0x11000) if not 0xD800 <= code < 0xE000]
    questions = [*every, "Q-Q-a", "q-A", "Q-\u212aey_\u0130d"]
    with duckdb.connect() as connection:
        connection.register("questions", pa.table({"question": questions}))
        sql = f"SELECT question, {folded_question('question')} FROM questions"
        for question, made in connection.execute(in_dialect(sql, "duckdb")).fetchall():
            assert made == folded(question.removeprefix("Q-")), question


def test_edges_that_no_engine_compares_exactly_are_refused_by_name(rules: SchemaRules) -> None:
    bands = [MeanBand(grade="A", min=Decimal("4.1234567")), *rules.policy.bands[1:]]
    with pytest.raises(ShelfError, match=r"the band A at 4\.1234567"):
        make_tool_plan(SchemaRules(msgspec.structs.replace(rules.policy, bands=bands)))


def test_columns_that_are_missing_are_named(rules: SchemaRules) -> None:
    plan = make_tool_plan(rules)
    columns = [SourceColumn(name, "VARCHAR") for name in ALL if name != "tier"]
    with pytest.raises(InputError, match="'tier' is missing"):
        ToolAnswersQuery(plan, "answers", columns, names={})
    with pytest.raises(InputError, match="Did you mean 'tier'"):
        ToolAnswersQuery(plan, "answers", columns, names={"tiers": "x"})


def test_the_family_of_the_policy_decides_what_a_row_is(tmp_path: Path) -> None:
    rows = Answers([("Q-1", "pass", 1, None, "non-deterministic")], "group-bound").rows("s")
    path = tmp_path / "answers.parquet"
    every = [dict.fromkeys(TEXTS) | row | {"who": row["subject"]} for row in rows]
    pq.write_table(pa.Table.from_pylist(every), path)
    found = assay.grade_table(str(path), policy="flowmcp@1", columns={"subject": "who"})
    assert found.select("subject", "grade", "passed", "policy").fetchall() == [
        ("s", "A", True, "flowmcp@1")
    ]
    refused = assay.grade_table(str(path), policy="flowmcp@1", rejects=True)
    assert refused.fetchall() == []
    for policy, options, match in (
        ("flowmcp@1", {"profile": "rag@2"}, "doesn.t use --profile"),
        ("flowmcp@1", {"exams": ["e.yaml"]}, "doesn.t use --exam"),
        ("workflow@1", {}, "which need a profile"),
        ("exam@2", {}, "needs the capstone exam"),
    ):
        with pytest.raises(AssayError, match=match):
            assay.grade_table(str(path), policy=policy, **options)
