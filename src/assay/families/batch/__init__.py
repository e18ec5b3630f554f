"""Batch: millions of rows graded where they lie."""

from __future__ import annotations

from assay.family import Family, Verb

FAMILY = Family(
    "batch",
    verbs={
        "everyday": {
            "batch": Verb(
                "assay.families.batch.verbs",
                "grade millions of rows in files or tables, on DuckDB or Spark",
            ),
        }
    },
    documents="assay.families.batch.records:DOCUMENTS",
    doctor="assay.families.batch.java:checks",
    functions={"grade_table": "assay.families.batch.tables:grade_table"},
    inputs="assay.families.batch.verbs:INPUTS",
)
