"""A batch is what its record says, or the difference is named."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from assay.batch.duckdb_engine import DuckDBEngine
from assay.batch.plan import make_batch_plan
from assay.batch.relational import batch_queries
from assay.batch.verification import changed_files, row_differences
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.records.batch import BatchFile
from assay.scoring.profile import make_plan

SHELF = Shelf()
PLAN = make_plan(SHELF.profile("rag@1"), why="a test")
RULES = make_rules(SHELF.policy("workflow"))


def test_a_file_that_changed_or_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"run,")
    whole = BatchFile(name="a.csv", size=4, digest=f"sha256:{sha256(b'run,').hexdigest()}")
    gone = BatchFile(name="b.csv", size=4, digest=whole.digest)
    table = BatchFile(name="a.csv", undigested="a table")
    assert changed_files([whole, gone, table], str(tmp_path)) == ["b.csv", "a.csv"]
    (tmp_path / "a.csv").write_bytes(b"run!")
    assert changed_files([whole], str(tmp_path)) == ["a.csv"]


def test_a_stored_row_is_made_again_and_a_changed_one_is_found() -> None:
    engine = DuckDBEngine(threads=1)
    names = ", ".join(f"('{planned.spec.id}')" for planned in PLAN.criteria)
    engine.connection.execute(
        "CREATE TABLE given AS SELECT 'r' || i AS run, criterion, 0.7::DOUBLE AS raw"
        f" FROM range(3) AS t(i), (VALUES {names}) AS c(criterion)"
    )
    plan = make_batch_plan(PLAN, RULES)
    queries = batch_queries(plan, "given", engine.columns("given"), "duckdb")
    engine.connection.execute(f"CREATE TABLE grades AS {queries.grades}")
    runs = ["r0", "r1", "r2"]
    assert row_differences(engine, "given", "grades", runs, PLAN, RULES) == []
    engine.connection.execute("UPDATE grades SET passed = true WHERE run = 'r0'")
    engine.connection.execute("DELETE FROM grades WHERE run = 'r1'")
    engine.connection.execute("UPDATE given SET raw = 0.71 WHERE run = 'r2'")
    found = row_differences(engine, "given", "grades", [*runs, "no'ne"], PLAN, RULES)
    assert [(one.run, one.column) for one in found[:2]] == [("r0", "passed"), ("r1", "run")]
    assert [one.run for one in found] == ["r0", "r1", "r2", "no'ne"]
    engine.close()
