"""The output of an earlier batch as an input: its files, each checked against the record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from assay.errors import InputError, UsageError
from assay.families.batch.digests import digest_files
from assay.families.batch.records import BatchFile, BatchRecord
from assay.families.batch.sources import BatchSource, Partition
from assay.families.batch.targets import BatchTarget
from assay.grouping import grouped


class Earlier(NamedTuple):
    """The output of an earlier batch."""

    target: BatchTarget
    record: BatchRecord


def earlier_grades(earlier: Earlier) -> tuple[list[BatchSource], list[Partition]]:
    """The grades of an earlier batch as a source. Raises `InputError` if a file isn't the one that
    was written: its norms could be forged.
    """
    if any(not file.name.endswith(".parquet") for file in earlier.record.outputs):
        raise UsageError(
            "BAT-020",
            "isn't Parquet, so its norms can't be used again.",
            where=earlier.target.grades,
            fix="Grade the evidence again, into Parquet.",
        )
    files = earlier_files(earlier, earlier.record.outputs)
    source = BatchSource(earlier.target.path, "parquet", tuple(files))
    by_name = grouped(
        (file.partition, path)
        for file, path in zip(earlier.record.outputs, files, strict=True)
        if file.partition is not None
    )
    return [source], [
        Partition(name, source._replace(files=tuple(paths)))
        for name, paths in sorted(by_name.items())
    ]


def earlier_files(
    earlier: Earlier, files: Sequence[BatchFile], partition: str | None = None
) -> list[str]:
    """Where files of an earlier batch are, each checked against its digest."""
    chosen = [file for file in files if partition is None or file.partition == partition]
    folder = os.path.dirname(earlier.target.record)
    paths = [os.path.join(folder, file.name) for file in chosen]
    for file, there in zip(chosen, digest_files(paths), strict=True):
        if file.digest != there.digest:
            raise InputError(
                "BAT-026",
                "isn't the file that the record of the batch names: it was changed.",
                where=there.path,
                fix="Grade the evidence again.",
            )
    return paths
