"""Marks of exams in SQL decide as `exams.gate` does in Python."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
import pytest

from assay.batch.engine import SourceColumn
from assay.batch.exam_query import ExamQuery
from assay.batch.quoting import in_dialect
from assay.errors import InputError
from assay.exams.document import CheckedExam, exam_result
from assay.exams.exam import Exam, read_exam
from assay.exams.gate import decide
from assay.exams.marking import Marking, grade_exam
from assay.exams.policy import AxisLimits, ExamRules
from assay.library.shelf import Shelf
from assay.pipeline.batch_exams import make_exam_plan, plan_exams
from assay.records.exam import ExamResult
from examples import repeats

AXES = ("correctness", "spanish_gloss", "schema", "conciseness")


def write_exam(folder: Path, which: str, n: int) -> str:
    items = "\n".join(
        f"  - {{id: {which[0]}-{i}, prompt: p{i}, expected_contains: [ate], gloss_contains: [comió],"
        f" verb: eat, tense: past}}"
        for i in range(n)
    )
    path = folder / f"{which}.yaml"
    path.write_text(f"exam: {which}\nversion: 1\nrubric: tutor@1\nset: {which}\nitems:\n{items}\n")
    return str(path)


class Setting(NamedTuple):
    """Exams, how they are marked, and results of nobody that only carry what they are of."""

    paths: dict[str, str]
    exams: dict[str, Exam]
    results: dict[str, ExamResult]
    marking: Marking
    rules: ExamRules

    def checked(self, which: str, bits: dict[str, int]) -> CheckedExam:
        every = {item.id: bits.get(item.id, 0) for item in self.exams[which].items}
        return CheckedExam(which, self.results[which], self.marking, every)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    folder = tmp_path_factory.mktemp("exams")
    shelf = Shelf()
    rules = ExamRules(shelf.policy_of("exam", "exam@2"))
    marking = Marking(shelf.rubric_of("exam", "tutor@1"))
    paths = {"capstone": write_exam(folder, "capstone", 25)}
    paths["regression"] = write_exam(folder, "regression", 40)
    exams = {which: read_exam([path]) for which, path in paths.items()}
    results = {
        which: exam_result(grade_exam(exam, {}, marking)._replace(missing={}), rules)
        for which, exam in exams.items()
    }
    return Setting(paths, exams, results, marking, rules)


def ask(query: str, **tables: pa.Table) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.execute(in_dialect(query, "duckdb"))
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def query_of(plan: Any, table: pa.Table, keep: tuple[str, ...] = ()) -> ExamQuery:
    types = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN"}
    columns = [
        SourceColumn(field.name, types.get(str(field.type), "VARCHAR")) for field in table.schema
    ]
    return ExamQuery(plan, "marks", columns, names={}, keep=keep)


def grade(plan: Any, rows: list[dict[str, Any]], keep: tuple[str, ...] = ()) -> dict[str, Any]:
    table = pa.Table.from_pylist(rows)
    return {row["run"]: row for row in ask(query_of(plan, table, keep).grades(), marks=table)}


def rejects(plan: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist(rows)
    return ask(query_of(plan, table).rejects(), marks=table)


def long_rows(run: str, which: str, bits: dict[str, int], marking: Marking) -> list[dict[str, Any]]:
    return [
        {"run": run, "set": which, "item": item, "axis": axis, "mark": mark}
        for item, own in bits.items()
        for axis, mark in marking.marks(own).items()
    ]


def sitting(rng: random.Random, items: list[str], near: dict[str, int] | None) -> dict[str, int]:
    """Marks near a limit: most are there, some items are left out."""
    spoil = rng.choice([0, 0.02, 0.05, 0.1])
    found = {}
    for item in items:
        if rng.random() < 0.01:
            continue
        bits = 15 if near is None else near[item]
        for place in range(4):
            if rng.random() < spoil:
                bits ^= 1 << place
        found[item] = bits
    return found


def test_every_verdict_and_number_is_that_of_the_python_gate(setting: Setting) -> None:
    rng, marking = random.Random(22), setting.marking
    names = {which: [item.id for item in exam.items] for which, exam in setting.exams.items()}
    for policy in (setting.rules, _stricter(setting.rules)):
        before = {item: rng.choice([15, 15, 15, 13, 11, 8]) for item in names["regression"]}
        baseline = setting.checked("regression", before)
        plan = make_exam_plan(setting.exams["capstone"], marking, policy, baseline=baseline)
        rows, expected = [], {}
        for index in range(repeats(80, 400)):
            run = f"r{index}"
            first = sitting(rng, names["capstone"], None) or {names["capstone"][0]: 0}
            second = sitting(rng, names["regression"], before)
            rows += long_rows(run, "capstone", first, marking)
            rows += long_rows(run, "regression", second, marking)
            expected[run] = decide(
                setting.checked("capstone", first),
                policy,
                regression=setting.checked("regression", second),
                baseline=baseline,
            )
        rng.shuffle(rows)
        found = grade(plan, rows)
        assert len(found) == len(expected)
        assert {row["passed"] for row in found.values()} == {True, False}
        assert len({row["reason"] for row in found.values()}) > 2
        for run, gate in expected.items():
            row = found[run]
            drop = gate.regression
            assert drop is not None
            assert row["passed"] is gate.passed, run
            assert (row["score"], row["hard_gate"], row["target"]) == (
                gate.capstone.score,
                gate.capstone.holds,
                gate.target.holds,
            )
            assert (row["regression_drop"], row["regression_holds"], row["regression_score"]) == (
                drop.drop,
                drop.holds,
                drop.candidate,
            )
            assert (row["schema_failures"], row["schema_low"], row["regression_low"]) == (
                gate.soft[1].value,
                gate.soft[1].warn,
                gate.soft[2].warn,
            )
            assert row["verify_rubric"] is (gate.verify_rubric is not None)
            for axis, one in drop.by_axis.items():
                assert (row[f"drop_{axis}"], row[f"lost_{axis}"], row[f"gained_{axis}"]) == (
                    one.drop,
                    one.lost,
                    one.gained,
                )


def _stricter(rules: ExamRules) -> ExamRules:
    """A policy whose limits are met exactly, and that looks at marks which move."""
    policy = rules.policy
    limits = AxisLimits(max_drop=0.1, max_lost=0.075, axes={"schema": 0.0})
    return ExamRules(
        msgspec.structs.replace(
            policy,
            hard_gate=0.952,
            production_target=0.98,
            max_drop=0.0125,
            regression_axes=limits,
        )
    )


@pytest.mark.parametrize("limits", [(0.952, 0.9), (0.92, 0.952)])
def test_a_limit_that_is_met_exactly_opens_the_gate(
    setting: Setting, limits: tuple[float, float]
) -> None:
    hard_gate, pass_score = limits  # the higher one counts
    rules = ExamRules(msgspec.structs.replace(setting.rules.policy, hard_gate=hard_gate))
    exam = setting.exams["capstone"]
    files = [msgspec.structs.replace(file, pass_score=pass_score) for file in exam.files]
    plan = make_exam_plan(exam._replace(files=tuple(files)), setting.marking, rules)
    items = [item.id for item in exam.items]
    full = setting.marking.full
    # two wrong answers of 25 lose 0.6 each: 23.8 / 25 is 0.952; one more mark lost is below
    exact = dict.fromkeys(items, full) | dict.fromkeys(items[:2], full - 8)
    short = exact | {items[2]: full - 1}
    assert setting.checked("capstone", exact).score == Fraction(952, 1000)
    rows = long_rows("exact", "capstone", exact, setting.marking)
    found = grade(plan, rows + long_rows("short", "capstone", short, setting.marking))
    assert (found["exact"]["passed"], found["exact"]["score"]) == (True, 0.952)
    assert (found["short"]["passed"], found["short"]["reason"]) == (False, "below_hard_gate")


def test_a_sitting_below_the_pass_score_of_the_regression_set_fails(setting: Setting) -> None:
    exam, full = setting.exams["regression"], setting.marking.full
    files = tuple(msgspec.structs.replace(file, pass_score=0.9) for file in exam.files)
    names = [item.id for item in exam.items]
    low = dict.fromkeys(names, full) | dict.fromkeys(names[::4], 0)
    plan = make_exam_plan(
        setting.exams["capstone"],
        setting.marking,
        setting.rules,
        baseline=setting.checked("regression", low),
        regression=exam._replace(files=files),
    )
    whole = {item.id: full for item in setting.exams["capstone"].items}
    rows = [
        row
        for run, bits in (("low", low), ("high", dict.fromkeys(names, full)))
        for row in (
            *long_rows(run, "capstone", whole, setting.marking),
            *long_rows(run, "regression", bits, setting.marking),
        )
    ]
    found = grade(plan, rows)
    assert (found["high"]["passed"], found["low"]["passed"]) == (True, False)
    assert found["low"]["reason"] == "regression_drop"


def test_leaving_out_items_or_marks_never_raises_a_score(setting: Setting) -> None:
    plan = make_exam_plan(setting.exams["capstone"], setting.marking, setting.rules)
    items = [item.id for item in setting.exams["capstone"].items]
    full = dict.fromkeys(items, setting.marking.full)
    rows = long_rows("all", "capstone", full, setting.marking)
    rows += long_rows("half", "capstone", dict.fromkeys(items[:12], 15), setting.marking)
    empty = [{**row, "run": "empty", "mark": None} for row in rows if row["run"] == "all"]
    found = grade(plan, rows + empty)
    assert (found["all"]["passed"], found["all"]["missing"]) == (True, 0)
    assert (found["half"]["passed"], found["half"]["score"]) == (False, 0.48)
    assert found["half"]["missing"] == 13
    assert (found["empty"]["passed"], found["empty"]["missing"]) == (False, 25)


def test_wide_rows_count_as_long_ones(setting: Setting) -> None:
    plan = make_exam_plan(setting.exams["capstone"], setting.marking, setting.rules)
    rng = random.Random(3)
    items = [item.id for item in setting.exams["capstone"].items]
    bits = sitting(rng, items, None)
    wide = [{"run": "r", "item": item, **setting.marking.marks(own)} for item, own in bits.items()]
    assert grade(plan, wide) == grade(plan, long_rows("r", "capstone", bits, setting.marking))
    booleans = [{key: bool(v) if key in AXES else v for key, v in row.items()} for row in wide]
    assert grade(plan, booleans) == grade(plan, wide)
    broken = [*wide, {**wide[0], "schema": 2}]
    assert grade(plan, broken)["r"]["reason"] == "invalid_evidence"
    (bad,) = rejects(plan, [row if row is not wide[0] else broken[-1] for row in wide])
    assert (bad["axis"], bad["mark"], bad["code"]) == ("schema", "2", "EXM-009")


def test_rows_that_do_not_count_are_rejected_with_a_reason(setting: Setting) -> None:
    plan = make_exam_plan(setting.exams["capstone"], setting.marking, setting.rules)
    full = dict.fromkeys([item.id for item in setting.exams["capstone"].items], 15)
    marking = setting.marking
    good = {"set": "capstone", "item": "c-0", "axis": "schema", "mark": 1.0}
    extras = {
        "EXM-008": {**good, "item": "c-99"},
        "EXM-010": {**good, "axis": "tone"},
        "EXM-013": {**good, "set": "Capstone"},
        "EXM-002": good,
        "EXM-009": {**good, "mark": 0.5},
        "BAT-014": {**good, "item": None},
    }
    rows = long_rows("clean", "capstone", full, marking)
    for code, extra in extras.items():
        rows += [*long_rows(code, "capstone", full, marking), {"run": code, **extra}]
    rows += [{"run": None, **good}, {**rows[0], "run": "nan", "mark": float("nan")}]
    found, refused = grade(plan, rows), rejects(plan, rows)
    assert (found["clean"]["passed"], found["clean"]["faults"]) == (True, 0)
    for code in extras:
        is_harmless = code in ("EXM-008", "EXM-010", "EXM-013")
        assert found[code]["passed"] is is_harmless, code
        assert found[code]["reason"] == ("passed" if is_harmless else "invalid_evidence")
        assert found[code]["faults"] == 1
        assert (found[code]["score"] is None) is not is_harmless
        assert [row["code"] for row in refused if row["run"] == code] == [code]
    codes = {row["run"]: row["code"] for row in refused}
    assert (codes[None], codes["nan"]) == ("BAT-013", "EXM-009")
    assert (found[None]["passed"], found["nan"]["passed"]) == (False, False)
    assert sum(row["faults"] for row in found.values()) == len(refused)


def test_kept_columns_have_one_value(setting: Setting) -> None:
    plan = make_exam_plan(setting.exams["capstone"], setting.marking, setting.rules)
    full = dict.fromkeys([item.id for item in setting.exams["capstone"].items], 15)
    rows = [{**row, "team": "a"} for row in long_rows("one", "capstone", full, setting.marking)]
    rows += [{**row, "run": "two"} for row in rows]
    rows[-1]["team"] = "b"
    found = grade(plan, rows, keep=("team",))
    assert (found["one"]["team"], found["one"]["passed"]) == ("a", True)
    assert (found["two"]["team"], found["two"]["reason"]) == (None, "invalid_evidence")
    for name in ("score", "Passed", "mean_schema", "faults"):
        with pytest.raises(InputError, match=f"'{name}' can't be kept: the grades have a column"):
            grade(plan, [{**row, name: 1.0} for row in rows], keep=(name,))


def test_a_plan_needs_the_exam_and_both_halves_of_a_regression(setting: Setting) -> None:
    shelf = Shelf()
    with pytest.raises(InputError, match="needs the capstone exam"):
        plan_exams(shelf, setting.rules, [])
    with pytest.raises(InputError, match="only one of the two"):
        plan_exams(shelf, setting.rules, list(setting.paths.values()))
    with pytest.raises(InputError, match="only one of the two"):
        plan_exams(shelf, setting.rules, [setting.paths["capstone"]], baseline="b.json")


def test_columns_that_are_missing_are_named(setting: Setting) -> None:
    plan = make_exam_plan(setting.exams["capstone"], setting.marking, setting.rules)
    given = {"run": "VARCHAR", "item": "VARCHAR", "axis": "VARCHAR", "mark": "BIGINT"}
    for lost, match in (("run", "'run' is missing"), ("mark", "'axis' and 'mark'")):
        columns = [SourceColumn(name, kind) for name, kind in given.items() if name != lost]
        with pytest.raises(InputError, match=match):
            ExamQuery(plan, "marks", columns, names={})
    columns = [SourceColumn(name, kind) for name, kind in (given | {"mark": "BLOB"}).items()]
    with pytest.raises(InputError, match="has the type BLOB"):
        ExamQuery(plan, "marks", columns, names={}).grades()
