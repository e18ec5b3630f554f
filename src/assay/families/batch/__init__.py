"""Batch: millions of rows graded where they lie."""

from __future__ import annotations

from assay.family import Family, Inputs, Verb

FAMILY = Family(
    "batch",
    "Millions of rows, graded where they lie",
    verbs={
        "everyday": {
            "batch": Verb(
                "assay.families.batch.verbs",
                "grade millions of rows in files or tables, on DuckDB or Spark",
            ),
        }
    },
    documents="assay.families.batch.records:DOCUMENTS",
    doctor="assay.families.batch.jobs:JOBS",
    functions={"grade_table": "assay.families.batch.tables:grade_table"},
    inputs={
        "gate": Inputs(
            "assay.files.own_files:has_batch_output",
            "assay.families.batch.verbs:decide_on_batches",
        ),
        "report summary": Inputs(
            "assay.files.own_files:has_batch_output",
            "assay.families.batch.verbs:summarise_batch_output",
            options="assay.families.batch.verbs:ENGINE",
            refuse="assay.families.batch.verbs:refuse_batch_options",
        ),
    },
)
