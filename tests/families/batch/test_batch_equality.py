"""One arithmetic: an engine gives every letter, every cent and every reject that Python gives."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import batches
from assay.errors import InputError
from assay.families.batch.batching import grading_task
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.task import graded_view
from assay.files.json_files import Document
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile, make_plan
from examples import repeats, share

settings_here = settings(
    # a failure names the run and its rows, which shrinking a whole batch would not make clearer
    max_examples=share(20),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
RUNS = repeats(120, 1000)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(threads=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("batches")


@settings_here
@given(
    batches.graded(),
    st.integers(0, 2**32),
    st.sampled_from(batches.LAYOUTS),
    st.sampled_from(batches.MAPS),
)
def test_duckdb_gives_the_letters_cents_and_rejects_of_python(
    engine: DuckDBEngine,
    folder: Path,
    by: batches.Graded,
    seed: int,
    layout: str,
    names: dict[str, str],
) -> None:
    tables = batches.tables(by, batches.runs(by, seed, RUNS), layout)
    assert batches.differences(engine, folder, tables, by, names) == []


TEXTS = ("abc", "nan", "inf", "0.12345678901234567", "1e999", " 1", "5.", "+1", "1_0", "yes", "")
"""What others write where a number or a verdict belongs."""


@settings_here
@given(batches.graded(), st.integers(0, 2**32), st.sampled_from(batches.LAYOUTS))
def test_texts_are_read_or_rejected_alike(
    engine: DuckDBEngine, folder: Path, by: batches.Graded, seed: int, layout: str
) -> None:
    """The rows as CSV, some of their cells with other texts."""
    random = Random(seed)
    paths = []
    for index, table in enumerate(batches.tables(by, batches.runs(by, seed, RUNS // 2), layout)):
        words = {"run", "criterion", "gate"}
        paths.append(str(folder / f"{index}.csv"))
        with open(paths[-1], "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.column_names)
            for row in table.to_pylist():
                writer.writerow(
                    random.choice(TEXTS) if name not in words and random.random() < 0.02 else cell
                    for name, cell in row.items()
                )
    task = grading_task(make_batch_plan(by.plan, by.rules), {}, ())
    view = graded_view(task, engine, engine.attach(paths))
    names = [column.name for column in engine.columns(view)]
    source = [dict(zip(names, row, strict=True)) for row in engine.rows(f"SELECT * FROM {view}")]
    assert batches.compared(engine, view, source, by).differences[:2] == []


FORMULAS = ("binary", "likert_1_5", "zero_one", "lower_is_better", "ratio")
PLAN_TREE: dict[str, Any] = {
    "profile": "all",
    "version": 1,
    "title": "Some formulas",
    "family": "all",
    "gates": [],
    "criteria": [
        {
            "id": formula,
            "label": formula,
            "weight": 1,
            "layer": 2,
            "formula": formula,
            **({"params": {"slo_good": 8, "slo_bad": 30}} if formula == "lower_is_better" else {}),
        }
        for formula in FORMULAS
    ],
}
PLAN = make_plan(load_profile(Document(PLAN_TREE, "all.yaml")), why="a test")
ALL = batches.Graded(PLAN, make_rules(Shelf().policy("workflow")))
VERDICTS = ", ".join(f"('{planned.id}')" for planned in PLAN.gates)


def graded(engine: DuckDBEngine, *parts: str, keep: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    """Grade the union of queries, hold it to Python, and give run, passed and reason."""
    engine.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE given AS {' UNION ALL BY NAME '.join(parts)}"
    )
    view = engine.attach_relation("given")
    table = engine.connection.table("given")
    source = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    found = batches.compared(engine, view, source, ALL, keep=keep)
    assert found.differences == []
    runs = sorted(found.made, key=str)
    return [(run, found.made[run]["passed"], found.made[run]["reason"]) for run in runs]


def verdicts(run: str = "'r'", verdict: str = "true") -> str:
    return f"SELECT {run} AS run, gate, {verdict} AS verdict FROM (VALUES {VERDICTS}) AS t(gate)"


SCORES = """
    SELECT 'r' AS run, criterion, raw::DOUBLE AS raw, passed, passed AS total
        FROM (VALUES ('binary', 1, NULL), ('likert_1_5', 5, NULL), ('zero_one', 1, NULL),
        ('lower_is_better', 2, NULL), ('ratio', NULL, 3)) AS t(criterion, raw, passed)"""


def test_evidence_that_is_whole_passes(engine: DuckDBEngine) -> None:
    assert graded(engine, SCORES, verdicts()) == [("r", True, "passed")]


MORE = (
    "'schema_contract_valid' AS gate, true AS verdict",
    "true AS schema_contract_valid",
    "'binary' AS criterion, 1::DOUBLE AS raw",
    "1::DOUBLE AS zero_one",
    "0.5::DOUBLE AS raw",
    "true AS verdict",
    "'' AS gate, true AS verdict",
    "'schema_contract_valid ' AS gate, true AS verdict",
    "'schem\u0430_contract_valid' AS gate, true AS verdict",
    "'safe' || chr(10) AS gate, true AS verdict",
    "'other' AS gate, NULL::BOOLEAN AS verdict",
    "'other' AS gate, false AS verdict",
)


def test_one_row_too_many_fails_the_run(engine: DuckDBEngine) -> None:
    parts = [SCORES, verdicts()]
    for place, more in enumerate(MORE):
        run = f"'r{place:02}'"
        parts += [SCORES.replace("'r' AS run", f"{run} AS run"), verdicts(run)]
        parts.append(f"SELECT {run} AS run, {more}")
    whole, *others = graded(engine, *parts)
    assert whole == ("r", True, "passed")
    assert len(others) == len(MORE)
    assert [row for row in others if row[1]] == []


def test_verdicts_that_every_row_repeats_count_once_while_they_agree(engine: DuckDBEngine) -> None:
    gates = [planned.id for planned in PLAN.gates]
    columns = ", ".join(f"true AS {gate}" for gate in gates)
    joined = SCORES.replace("'r' AS run,", f"'r' AS run, {columns},")
    assert graded(engine, joined) == [("r", True, "passed")]
    more = f"SELECT 'r' AS run, NULL::BOOLEAN AS {gates[0]}"
    assert graded(engine, joined, more) == [("r", True, "passed")]
    assert graded(engine, joined, more.replace("NULL", "false"))[0][2] == "invalid_evidence"
    long = f"SELECT 'r' AS run, '{gates[0]}' AS gate, true AS verdict"
    assert graded(engine, joined, long)[0][2] == "invalid_evidence"


def test_more_gates_than_one_word_holds_are_all_asked(engine: DuckDBEngine) -> None:
    gates = [f"gate_{number}" for number in range(60)]
    tree = {**PLAN_TREE, "gates": [{"id": gate, "verdict": True} for gate in gates]}
    by = ALL._replace(plan=make_plan(load_profile(Document(tree, "all.yaml")), why="a test"))
    required = [planned.id for planned in by.plan.gates]
    scores = SCORES.replace("'r' AS run,", "run,").replace("FROM (", "FROM runs, (", 1)
    columns = ", ".join(
        f"CASE WHEN run = 'not {gate}' THEN false ELSE true END AS {gate}" for gate in required
    )
    runs = ", ".join(f"('{run}')" for run in ("r", *(f"not {gate}" for gate in required)))
    sql = f"WITH runs AS (SELECT * FROM (VALUES {runs}) AS t(run)), scores AS ({scores})"
    engine.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE given AS {sql} SELECT *, {columns} FROM scores"
    )
    table = engine.connection.table("given")
    source = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    found = batches.compared(engine, engine.attach_relation("given"), source, by)
    assert found.differences == []
    assert [run for run, row in found.made.items() if row["passed"]] == ["r"]
    assert found.made["not gate_59"]["failed_gates"] == ["gate_59"]


def test_a_run_without_an_id_fails(engine: DuckDBEngine) -> None:
    runs = ("''", "NULL::VARCHAR", "repeat('x', 501)")
    scores = [SCORES.replace("'r' AS run", f"{run} AS run", 1) for run in runs]
    found = graded(engine, *scores, *map(verdicts, runs))
    assert [row[2] for row in found] == ["invalid_evidence"] * 3


def test_a_run_that_looks_like_another_is_another(engine: DuckDBEngine) -> None:
    runs = ("'r '", "'R'", "'r' || chr(0)", "'\u0072\u200b'")
    found = graded(engine, SCORES, *map(verdicts, runs))
    assert [row[1] for row in found] == [False] * 5


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("BIGINT", "1, 9007199254740992, 9007199254740993, -9223372036854775807"),
        ("FLOAT", "0.7, 1e38, 1e-40, 'nan', '-inf', 16777217"),
        ("DOUBLE", "-0.0, 1e308, 5e-324, 1e-300, 9.99e-301, 1e300, 1e301, 'nan', 'inf'"),
        ("DECIMAL(38,20)", "0.5, 0.12345678901234567890, 0.123456789012345, 4.99999999999999"),
        ("HUGEINT", "1, 170141183460469231731687303715884105727"),
        ("DECIMAL(18,9)", "0.5000000005, 123456789.123456789, 1.000000001"),
        ("TINYINT", "0, 1, 2, 5, 127, -3"),
        ("UBIGINT", "1, 18446744073709551615"),
        ("DECIMAL(5,2)", "0.5, 999.99, -2"),
        ("DECIMAL(38,0)", "3, 1000000000000000, 99999999999999999999"),
        ("DECIMAL(20,5)", "999999999999999.5, 12.5, -0.00001"),
    ][: repeats(4, 11)],
)
def test_every_type_of_number_means_what_it_means_to_python(
    engine: DuckDBEngine, kind: str, values: str
) -> None:
    names = ", ".join(f"('{one}')" for one in FORMULAS)
    rows = ", ".join(f"({i}, {one}::{kind})" for i, one in enumerate(values.split(", ")))
    graded(
        engine,
        f"SELECT criterion || i AS run, criterion, raw FROM (VALUES {names}) AS c(criterion),"
        f" (VALUES {rows}) AS v(i, raw)",
        verdicts(),
    )


@pytest.mark.parametrize(
    ("part", "rows"),
    [
        ("VARCHAR", (SCORES, verdicts(verdict="'true'"))),
        ("INTEGER", (SCORES, verdicts(verdict="1"))),
        ("VARCHAR", (SCORES.replace("raw::DOUBLE", "raw::VARCHAR"), verdicts())),
        ("BOOLEAN", (SCORES.replace("passed AS total", "true AS total"), verdicts())),
        ("DOUBLE", (SCORES.replace("'r' AS run", "0.1::DOUBLE AS run"), verdicts("0.1::DOUBLE"))),
        (
            "'run' is missing",
            (SCORES.replace("AS run", 'AS "Run"'), verdicts().replace("AS run", 'AS "Run"')),
        ),
    ],
)
def test_a_column_of_another_type_or_name_is_never_guessed(
    engine: DuckDBEngine, part: str, rows: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match=part):
        graded(engine, *rows)


@pytest.mark.parametrize(
    ("ids", "columns", "refused"),
    [
        (("n", "b"), "1 AS n", "'n' could mean the n of a row or a score of the criterion 'n'"),
        (("run", "b"), "1 AS b", "add --map run=run"),
        (("gate", "b"), "1 AS gate", "'gate' could mean"),
        (("faults", "b"), "1 AS faults", "the faults of a grade"),
        (("a", "a_n"), "1 AS a, 1 AS a_n", "the sample size of 'a' or a score of"),
        (("score", "b"), "1 AS score", "would be named 'adjusted_score'"),
    ],
)
def test_a_column_that_could_mean_two_things_is_refused(
    engine: DuckDBEngine, ids: tuple[str, ...], columns: str, refused: str
) -> None:
    criteria = [{**PLAN_TREE["criteria"][2], "id": name} for name in ids]
    tree = {**PLAN_TREE, "criteria": criteria}
    by = ALL._replace(plan=make_plan(load_profile(Document(tree, "all.yaml")), why="a test"))
    view = engine.define(f"SELECT 'r' AS run, {columns}")
    with pytest.raises(InputError, match=re.escape(refused)):
        batches.compared(engine, view, [], by)


def test_a_map_says_that_a_column_is_not_the_criterion(engine: DuckDBEngine) -> None:
    tree = {**PLAN_TREE, "criteria": [{**PLAN_TREE["criteria"][2], "id": "n"}]}
    by = ALL._replace(plan=make_plan(load_profile(Document(tree, "all.yaml")), why="a test"))
    row = {"run": "r", "criterion": "n", "raw": 0.5, "n": 3}
    view = engine.define("SELECT 'r' AS run, 'n' AS criterion, 0.5::DOUBLE AS raw, 3 AS n")
    found = batches.compared(engine, view, [row], by, names={"n": "n"})
    assert found.differences == []
    assert (found.made["r"]["norm_n"], found.made["r"]["n_n"]) == (0.5, 3)


def test_a_kept_column_never_replaces_one_of_the_grade(engine: DuckDBEngine) -> None:
    for name in ("grade", "Reason", "norm_ratio", "run"):
        scores = SCORES.replace("'r' AS run,", f"'r' AS run, 'A' AS {name},")
        rows = (scores, verdicts()) if name != "run" else (SCORES, verdicts())
        with pytest.raises(InputError, match="can't be kept"):
            graded(engine, *rows, keep=(name,))
    two = SCORES.replace("'r' AS run,", "'r' AS run, criterion AS sample,")
    assert graded(engine, two, verdicts(), keep=("sample",)) != []
