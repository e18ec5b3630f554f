"""Where Spark writes: a folder of files, which get their names when all of them are complete."""

from __future__ import annotations

import os

from assay.batch.sources import is_uri
from assay.errors import AssayError

FILE_ENDS = (".parquet", ".csv", ".jsonl")
"""An output whose name ends so is one file; any other is a folder."""


def spark_path(path: str) -> str:
    """A path as Spark writes to it. Without a scheme it is a file of this machine, even if Spark's
    default file system is another.

    >>> spark_path("/data/scores"), spark_path("s3a://lake/scores")
    ('file:/data/scores', 's3a://lake/scores')
    """
    return path if is_uri(path) else f"file:{os.path.abspath(path)}"


def escaped(path: str) -> str:
    r"""A path as Spark reads it, where some characters are a pattern.

    >>> print(escaped("file:/data/a[1].csv"))
    file:/data/a\[1].csv
    """
    return "".join(f"\\{character}" if character in "*?[{\\" else character for character in path)


def keep_output(folder: str, path: str) -> None:
    """Give what Spark wrote its name: the one file in a folder, or all files of data."""
    if not os.path.isdir(folder):
        raise AssayError(
            "BAT-033",
            "Spark wrote it on another machine, where this path is not the same folder.",
            where=path,
            fix="Give -o a folder that Spark and this machine share.",
        )
    names = sorted(name for name in os.listdir(folder) if name.startswith("part-"))
    if not path.lower().endswith(FILE_ENDS):
        os.mkdir(path)
        for place, name in enumerate(names):
            end = "jsonl" if name.endswith(".json") else name.rpartition(".")[2]
            os.rename(os.path.join(folder, name), os.path.join(path, f"part-{place}.{end}"))
    elif len(names) == 1:
        os.rename(os.path.join(folder, names[0]), path)
    else:
        raise AssayError("BAT-033", f"Spark wrote {len(names)} files.", where=path)
