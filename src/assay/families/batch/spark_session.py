"""A Spark session for a batch: one from the caller, one over Spark Connect, or a new one.

Letters depend on `SETTINGS`. A session that is made here gets them; one from the caller must have
them, because changing them would change what the caller's other queries mean.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from assay.errors import AssayError, InputError, UsageError, printable
from assay.families.batch import java
from assay.installing import install_hint

SETTINGS = {
    # A number that overflows must stop the batch. Otherwise it wraps around to a wrong score.
    "spark.sql.ansi.enabled": "true",
    # A file that can't be read must stop the batch. Otherwise its rows are missing in silence.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # How Spark reads the literals in the SQL: doubles with an exponent, and escapes in texts.
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
}
"""What every session of a batch must have set."""

_TEXT_PARTITIONS = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
"""A partition `run=007` is a text, as on DuckDB; set where the session is ours."""

_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""A session on this machine accepts no connections from other machines."""

_LOG_TAIL = 2000


class SparkSource(NamedTuple):
    """Which session to use: given, or how to make one."""

    session: Any = None
    master: str | None = None
    remote: str | None = None
    memory_mib: int | None = None
    """Of the driver; with a local master that is all the memory there is."""


def open_session(source: SparkSource) -> tuple[Any, bool, bool]:
    """The caller's session, else the active one of this process, else a new one: over Spark Connect
    if `remote` or SPARK_REMOTE names a server, else on `master` (`local[*]`). Also returns whether
    the batch made it and so must stop it, and whether it is remote.
    """
    pyspark = import_spark("pyspark.sql")
    logging.getLogger().addFilter(_other_than_interrupt)  # once, however often it is added
    if source.master and source.remote:
        raise UsageError(
            "CLI-001",
            "--master and --remote are two ways to reach Spark.",
            fix="Give one of them.",
        )
    remote = source.remote or ("" if source.master else os.environ.get("SPARK_REMOTE", ""))
    active = source.session
    if active is None and not source.master and not source.remote:
        active = pyspark.SparkSession.getActiveSession()
    if active is not None:
        _quieten()
        _check(active)
        return active, False, "connect" in type(active).__module__
    session = _connect(remote) if remote else _start(source)
    _quieten()
    with spark_faults("start"):
        for name, value in {**_wrong(session), **_TEXT_PARTITIONS}.items():
            session.conf.set(name, value)
    return session, True, bool(remote)


def _wrong(session: Any) -> dict[str, str]:
    """The settings in which a session differs, with the values they must have."""
    # unset values are Spark's defaults, and that of ANSI mode differs by version
    current = {name: str(session.conf.get(name)).lower() for name in SETTINGS}
    return {name: value for name, value in SETTINGS.items() if current[name] != value}


def _check(session: Any) -> None:
    with spark_faults("start"):
        wrong = _wrong(session)
    if wrong:
        lines = "; ".join(f'spark.conf.set("{name}", "{value}")' for name, value in wrong.items())
        raise UsageError(
            "BAT-031",
            f"this Spark session has settings that change letters: {', '.join(wrong)}.",
            fix=f"Set them: {lines}",
        )


def _connect(remote: str) -> Any:
    if not remote.startswith("sc://"):
        raise UsageError(
            "CLI-001",
            f"'{remote}' is not the address of a Spark Connect server.",
            fix="Write sc://HOST:PORT.",
        )
    connect = import_spark("pyspark.sql.connect.session")
    with spark_faults("start", where=remote):
        return connect.SparkSession.builder.remote(remote).create()


def _start(source: SparkSource) -> Any:
    """A new session, in a Java process that ends with this one. Java's output goes to a temporary
    file, and from there into the error if Spark doesn't start.
    """
    pyspark, gateways = import_spark("pyspark"), import_spark("pyspark.java_gateway")
    sql = import_spark("pyspark.sql")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    fault = "" if submitted else java.java_fault()
    if fault:
        raise UsageError("BAT-030", f"Spark can't start: {fault}.", fix=java.INSTALL)
    conf = pyspark.SparkConf()
    conf.set("spark.app.name", "assay batch").set("spark.ui.showConsoleProgress", "false")
    master = source.master or ("" if submitted else "local[*]")
    if master:
        conf.set("spark.master", master)
    if source.memory_mib is not None:
        conf.set("spark.driver.memory", f"{source.memory_mib}m")
    if master.startswith("local"):
        for name, value in _LOCAL.items():
            conf.set(name, value)
    with tempfile.TemporaryFile() as log:
        try:
            gateway = pyspark.SparkContext._gateway  # of an earlier session of this process
            if gateway is None:
                gateway = gateways.launch_gateway(conf, {"stdout": log, "stderr": log})
            return sql.SparkSession(pyspark.SparkContext(conf=conf, gateway=gateway))
        except Exception as error:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _LOG_TAIL))
            text = log.read().decode("utf-8", "replace").strip()
            lines = [line for line in text.splitlines() if not line.startswith("\tat ")]
            reason = _reason(error)
            raise UsageError(
                "BAT-030",
                f"Spark can't start on {master or 'the master it was submitted to'}: {reason}",
                fix=f"The last lines it printed: {' | '.join(lines[-3:])}" if lines else "",
            ) from None


def import_spark(name: str) -> ModuleType:
    """A module of pyspark. It warns about versions of pandas, which a batch doesn't use."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = import_module(name)
            if name == "pyspark.sql":
                import_module("pyspark.testing.utils")  # which it would load at the first session
            return module
    except ImportError as error:
        raise UsageError(
            "BAT-030",
            f"Spark can't start: {error.name or error} is not installed.",
            fix=f"Run: {install_hint('spark')}",
        ) from None


def _quieten() -> None:
    """Pyspark logs each failed query as JSON to stderr, with its Java stack; the error has it."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True


def _other_than_interrupt(record: logging.LogRecord) -> bool:
    """Whether a line of the root logger is about anything but Ctrl-C, which the bridge to Java logs
    with its stack.
    """
    return record.msg != "KeyboardInterrupt while sending command."


@contextmanager
def spark_faults(doing: str, *, where: str = "") -> Iterator[None]:
    """Turn what Spark raises into an `AssayError`."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        if not _of_spark(error):
            raise
        raise _fault(doing, where, error) from None


def _of_spark(error: Exception) -> bool:
    """Whether Spark, the bridge to Java or the connection to a server raised it."""
    names = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(names & {"pyspark", "py4j", "grpc"}) or isinstance(error, ConnectionError)


def _fault(doing: str, where: str, error: Exception) -> AssayError:
    reason, condition = _reason(error), condition_of(error)
    if doing == "start":
        return UsageError("BAT-030", f"Spark can't be reached: {reason}", where=where)
    if doing == "read" or condition in _BAD_INPUT:
        return InputError(
            "BAT-032",
            f"Spark can't read it: {reason}",
            where="" if doing == "run" else where,
            fix=_FIXES.get(condition, ""),
        )
    return AssayError(  # neither the input nor the command is wrong
        "BAT-033",
        f"Spark did not finish: {reason}",
        where=where,
        fix="Nothing was written under that name. Run the batch again.",
    )


_FIXES = {
    "DATA_SOURCE_NOT_FOUND": "Start Spark with the connector of that format and pass the session,"
    " or export the table to Parquet and grade that.",
    "CANNOT_MERGE_SCHEMAS": "Give each column the same type in all files of the folder, or use"
    " --engine duckdb.",
}
_BAD_INPUT = ("FAILED_READ_FILE", "MALFORMED_RECORD_IN_PARSING")
_ENDED = "its Java process ended."
_LIMIT = 400


def condition_of(error: Exception) -> str:
    """Spark's name for what went wrong, without its subclass, such as PATH_NOT_FOUND; empty if it
    has none.
    """
    named: Any = getattr(error, "java_exception", error)
    try:
        return str(named.getCondition() or "").partition(".")[0]
    except Exception:  # not an error of Spark, or Java is gone
        return ""


def _reason(error: Exception) -> str:
    """The message of Spark, in one line and without Java's stack traces."""
    if isinstance(error, ConnectionError) or type(error).__name__ in _LOST:
        return _ENDED
    text = str(error)
    java_error = getattr(error, "java_exception", None)
    if java_error is not None:
        try:
            text = str(java_error.toString())
        except Exception:  # Java is gone
            return _ENDED
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()] or [_ENDED]
    first = re.sub(r"(^org\.apache\.spark\.\S+: )|( *\bSQLSTATE: \w+)|;$", "", lines[0])
    first = printable(first.strip())[:_LIMIT]
    return first if first.endswith(".") else f"{first}."


_LOST = {"Py4JNetworkError", "Py4JError", "Py4JErrorCapturedException"}
"""What pyspark raises where Java no longer answers."""
