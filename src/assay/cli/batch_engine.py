"""The engine of a batch as the options name it, for every verb that reads or writes batches."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assay.cli.frame import Bounds, Options, arg
from assay.errors import UsageError
from assay.registry import near_miss
from assay.release.pairs import SLICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.batch.engine import BatchEngine

_SIZE = re.compile(r"(\d{1,9}) ?([MGT])(i?)B?", re.IGNORECASE | re.ASCII)
ENGINES = ("duckdb", "spark")
ENGINE = (
    arg(
        "--engine",
        heading="engine",
        choices=ENGINES,
        default="duckdb",
        help="for batches: duckdb on this machine, or spark (default: duckdb)",
    ),
    arg(
        "--threads",
        heading="engine",
        within=Bounds(least=1),
        type=int,
        metavar="N",
        help="threads of DuckDB (default: all cores)",
    ),
    arg(
        "--memory",
        heading="engine",
        kind="text",
        trust="freely",
        metavar="SIZE",
        help="memory of the engine, such as 8GB; DuckDB spills beyond it to disk",
    ),
    arg(
        "--master",
        heading="engine",
        kind="text",
        trust="trusted",
        metavar="URL",
        help="Spark's master, such as local[4]",
    ),
    arg(
        "--remote",
        heading="engine",
        kind="text",
        trust="trusted",
        metavar="URL",
        help="a Spark Connect server, such as sc://host:15002",
    ),
)
"""The options that choose an engine."""


def memory_of(size: str) -> int:
    """A size of memory in MiB, the same for each engine.

    >>> memory_of("8GB"), memory_of("512 MiB"), memory_of("4g")
    (7629, 512, 3814)
    """
    found = _SIZE.fullmatch(size)
    unit = (
        0 if found is None else (1024 if found[3] else 1000) ** ("MGT".index(found[2].upper()) + 2)
    )
    mib = 0 if found is None else int(found[1]) * unit // 2**20
    if not mib:
        raise UsageError(
            "CLI-001", f"--memory {size!r} is not a size.", fix="Write it like 8GB or 512MiB."
        )
    return mib


def engine_of(options: Options, *, scratch: str | None = None) -> BatchEngine:
    """The engine of the options; DuckDB spills into `scratch`."""
    memory = None if options.memory is None else memory_of(options.memory)
    if options.engine == "spark":
        if options.threads is not None:
            raise UsageError(
                "CLI-001",
                "--threads belongs to DuckDB.",
                fix=f"Write --master 'local[{options.threads}]' for Spark on this machine.",
            )
        if options.remote and memory is not None:
            raise UsageError(
                "CLI-001",
                "--memory is of a Spark that starts here, not of a server.",
                fix="Omit it; the server has its own settings.",
            )
        from assay.batch.spark_engine import SparkEngine
        from assay.batch.spark_session import SparkSource

        return SparkEngine(
            SparkSource(master=options.master, remote=options.remote, memory_mib=memory)
        )
    if options.master or options.remote:
        raise UsageError(
            "CLI-001", "--master and --remote belong to Spark.", fix="Add --engine spark."
        )
    from assay.batch.duckdb_engine import DuckDBEngine

    return DuckDBEngine(threads=options.threads, memory_mib=memory, scratch=scratch)


@contextmanager
def reading_engine(options: Options) -> Iterator[BatchEngine]:
    """The engine of the options, for queries that write nothing."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as scratch:
        engine = engine_of(options, scratch=scratch)
        try:
            yield engine
        finally:
            engine.close()


def refuse_batch_options(options: Options) -> None:
    """Refuse what only an output of `assay batch` has, where none was given."""
    given = ["--engine"] if options.engine != "duckdb" else []
    given += [
        f"--{name}" for name in ("threads", "memory", "master", "remote") if vars(options)[name]
    ]
    if given:
        raise UsageError(
            "CLI-001",
            f"{given[0]} is for outputs of `assay batch`, and none was given.",
            fix="Omit it, or grade with `assay batch` first.",
        )
    if other := [kind for kind in options.slice if kind not in SLICES]:
        raise UsageError(
            "CLI-001",
            f"--slice {other[0]} is not a kind of slice.{near_miss(other[0], SLICES)}",
            fix=f"Runs have {', '.join(SLICES)}; a batch has the columns that it kept. To compare"
            " by a column of a table of results, map it:"
            f" --map {shlex.quote(f'group={other[0]}')}.",
        )
