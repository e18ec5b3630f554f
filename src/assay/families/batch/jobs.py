"""What `assay doctor` checks for batches."""

from __future__ import annotations

from assay.families.batch.java import INSTALL, java_fault
from assay.family import JobNeeds

JOBS = {
    "batch": JobNeeds(
        "grade millions of rows on DuckDB",
        "batch",
        (("duckdb", "duckdb"), ("sqlglot", "sqlglot")),
    ),
    "spark": JobNeeds(
        "grade millions of rows on Apache Spark",
        "spark",
        (("sqlglot", "sqlglot"), ("pyspark.sql.connect.session", "pyspark")),
        more=java_fault,
        fix=INSTALL,
    ),
}
