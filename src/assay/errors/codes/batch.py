"""Error codes of batches."""

from __future__ import annotations

from assay.errors.codes.code import ErrorCode

CODES: dict[str, ErrorCode] = {
    "BAT-001": ErrorCode(
        "A formula has no translation to SQL, so a batch cannot use it.",
        "Choose another formula, or grade with `assay grade`.",
    ),
    "BAT-002": ErrorCode(
        "Weights have too many decimals for a batch.",
        "Write weights with fewer decimals.",
    ),
    "BAT-003": ErrorCode(
        "A batch lacks a column, or a column that you named does not exist.",
        "Map the column with `--map`, or correct the name.",
    ),
    "BAT-004": ErrorCode(
        "A column of a batch has the wrong type.",
        "Convert the column before grading.",
    ),
    "BAT-005": ErrorCode(
        "The bounds of a criterion, or a shrinkage, are too precise for a batch.",
        "Use rounder numbers, or grade with `assay grade`.",
    ),
    "BAT-008": ErrorCode(
        "The engine of a batch refused.",
        "Read the engine's own message.",
    ),
    "BAT-009": ErrorCode(
        "No batch engine has this name.",
        "Use `duckdb` or `spark`.",
    ),
    "BAT-010": ErrorCode(
        "A number has more digits than a batch computes exactly.",
        "Round it before grading.",
    ),
    "BAT-011": ErrorCode(
        "The n of a row is not a sample size.",
        "Write a whole number of 0 or more.",
    ),
    "BAT-012": ErrorCode(
        "A row has a criterion that the profile lacks.",
        "Correct the name, or choose the profile that has it.",
    ),
    "BAT-013": ErrorCode(
        "A row has no run id.",
        "Give every row the id of its run.",
    ),
    "BAT-014": ErrorCode(
        "A row has a score without a criterion, or a verdict without a gate.",
        "Name the criterion or the gate.",
    ),
    "BAT-015": ErrorCode(
        "A run has several values in a column to keep.",
        "Keep only columns that have one value per run.",
    ),
    "BAT-016": ErrorCode(
        "Two columns of a batch's output would have the same name.",
        "Rename the kept column.",
    ),
    "BAT-017": ErrorCode(
        "A column of a batch could mean two things.",
        "Say what it means with `--map`, or rename it where the rows are made.",
    ),
    "BAT-020": ErrorCode(
        "A batch cannot read this file or folder.",
        "Give Parquet, CSV or JSON Lines, or a Delta or Iceberg table that the engine can read.",
    ),
    "BAT-021": ErrorCode(
        "The output of a batch exists, or was not written by a batch.",
        "Choose another output, or pass `--overwrite` for the output of an earlier batch.",
    ),
    "BAT-022": ErrorCode(
        "An engine cannot read an input of a batch.",
        "Read the engine's own message; check the file.",
    ),
    "BAT-023": ErrorCode(
        "An input of a batch changed while it was being read.",
        "Run again when nothing writes to it.",
    ),
    "BAT-024": ErrorCode(
        "A run has rows in several partitions.",
        "Partition by a column that has one value per run.",
    ),
    "BAT-025": ErrorCode(
        "A text is not a verdict.",
        "Write true, false or null.",
    ),
    "BAT-026": ErrorCode(
        "A file of an earlier batch is not the one that its record names.",
        "Give the output together with its own record.",
    ),
    "BAT-027": ErrorCode(
        "Norms were made by another profile, or by another version of scoring.",
        "Grade from the raw scores.",
    ),
    "BAT-030": ErrorCode(
        "Spark cannot start or cannot be reached.",
        "Check Java and `SPARK_REMOTE`; `assay doctor` shows both.",
    ),
    "BAT-031": ErrorCode(
        "A Spark session has settings that change letters.",
        "Set them as the message says.",
    ),
    "BAT-032": ErrorCode(
        "Spark cannot read an input.",
        "Check the path and that every worker can reach it.",
    ),
    "BAT-033": ErrorCode(
        "Spark did not finish, or did not write every row.",
        "Read Spark's log and run again; nothing partial is kept.",
    ),
    "BAT-050": ErrorCode(
        "The record of a batch is malformed.",
        "Grade the batch again; don't edit the record.",
    ),
    "BAT-060": ErrorCode(
        "A batch cannot take part in a decision.",
        "Give an output of `assay batch`, with its record.",
    ),
    "BAT-061": ErrorCode(
        "A decision over batches does not support what was requested.",
        "Give one batch on each side, without the options that the message names.",
    ),
}
