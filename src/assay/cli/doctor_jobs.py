"""The jobs that need more than the core, and whether each can be done here.

A job is `ok` only after a trial: its modules are imported, and the sandbox is started once. A
package that is installed but can't be imported is not `ok`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import NamedTuple

from assay.installing import install_hint


class JobNeeds(NamedTuple):
    """What a job needs beyond the core."""

    what: str
    extra: str = ""
    modules: tuple[tuple[str, str], ...] = ()
    """Each module that must be importable, with the package that brings it."""
    java: bool = False
    """Whether it needs Java."""


class JobCheck(NamedTuple):
    """What was found for a job."""

    job: str
    what: str
    ok: bool
    found: str
    fix: str
    extra: str


_LEDGER = (("sqlalchemy", "SQLAlchemy"), ("alembic", "alembic"))
JOBS: dict[str, JobNeeds] = {
    "run": JobNeeds("run Python and command-line workflows, store results", "store", _LEDGER),
    "http": JobNeeds("run workflows behind HTTP endpoints", "run", (("aiohttp", "aiohttp"),)),
    "langgraph": JobNeeds(
        "run LangGraph graphs",
        "langgraph",
        (("langgraph.graph", "langgraph"), ("langchain_core.callbacks", "langchain-core")),
    ),
    "agent-framework": JobNeeds(
        "run Microsoft Agent Framework workflows",
        "agent-framework",
        (
            ("agent_framework", "agent-framework-core"),
            ("opentelemetry.sdk.trace", "opentelemetry-sdk"),
        ),
    ),
    "sandbox": JobNeeds("run untrusted code: code repair, solutions, patches"),
    "judge": JobNeeds("ask models to judge", "judge", (("aiohttp", "aiohttp"),)),
    "litellm": JobNeeds(
        "ask judges through litellm", "litellm", (("aiohttp", "aiohttp"), ("litellm", "litellm"))
    ),
    "parquet": JobNeeds("read and write Parquet", "parquet", (("duckdb", "duckdb"),)),
    "batch": JobNeeds(
        "grade millions of rows on DuckDB",
        "batch",
        (("duckdb", "duckdb"), ("sqlglot", "sqlglot")),
    ),
    "arrow": JobNeeds("grade rows in Arrow files", "arrow", (("pyarrow", "pyarrow"),)),
    "spark": JobNeeds(
        "grade millions of rows on Apache Spark",
        "spark",
        (("sqlglot", "sqlglot"), ("pyspark.sql.connect.session", "pyspark")),
        java=True,
    ),
    "excel": JobNeeds("read Excel workbooks", "excel", (("openpyxl", "openpyxl"),)),
    "inspect": JobNeeds(
        "read inspect_ai logs packed with Zstandard", "inspect", (("zstandard", "zstandard"),)
    ),
    "otel": JobNeeds(
        "read OpenTelemetry's binary form",
        "otel",
        (
            (
                "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
                "opentelemetry-proto",
            ),
        ),
    ),
    "mcp": JobNeeds("talk to MCP servers and clients", "mcp", (("mcp:Client", "mcp"),)),
    "flowmcp": JobNeeds(
        "read FlowMCP schema modules",
        "flowmcp",
        (
            ("quickjs", "quickjs-ng"),
            ("tree_sitter", "tree-sitter"),
            ("tree_sitter_javascript", "tree-sitter-javascript"),
            ("publicsuffixlist", "publicsuffixlist"),
        ),
    ),
    "serve": JobNeeds(
        "serve the API and the pages",
        "server",
        (
            *_LEDGER,
            ("fastapi", "fastapi"),
            ("uvicorn", "uvicorn"),
            ("prometheus_client", "prometheus-client"),
        ),
    ),
    "postgres": JobNeeds(
        "keep the ledger on PostgreSQL", "postgres", (*_LEDGER, ("psycopg", "psycopg"))
    ),
    "charts": JobNeeds(
        "draw charts in pages and reports", "charts", (("vl_convert", "vl-convert-python"),)
    ),
    "terminal": JobNeeds("show tables on a terminal", "terminal", (("rich.console", "rich"),)),
    "stats": JobNeeds("compute bootstrap intervals", "stats", (("numpy", "numpy"),)),
    "sign": JobNeeds(
        "sign attestations",
        "sign",
        (("cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography"),),
    ),
}
"""The jobs by name. Every extra that a user can install is the extra of one of them."""


def check_job(name: str) -> JobCheck:
    """Try what a job needs."""
    needs = JOBS[name]
    if not needs.modules:
        return _check_sandbox(name, needs)
    found, faults = [], []
    for module, package in needs.modules:
        fault = import_fault(module, package)
        if fault:
            faults.append(fault)
        else:
            found.append(f"{package} {package_version(package)}")
    fix = install_hint(needs.extra) if faults else ""
    if needs.java and not faults:
        from assay.batch import java

        fault = java.java_fault()
        if fault:
            faults, fix = [fault], java.INSTALL
    return JobCheck(
        name, needs.what, not faults, "; ".join(faults) or ", ".join(found), fix, needs.extra
    )


def _check_sandbox(name: str, needs: JobNeeds) -> JobCheck:
    from assay.sandbox.isolation import INSTALL, available

    why_not = dict(available())["bubblewrap"]
    fix = INSTALL if why_not else ""
    return JobCheck(name, needs.what, not why_not, why_not or "bubblewrap works", fix, "")


def import_fault(module: str, package: str) -> str:
    """Why a module can't be used; empty if it can. `module:name` also needs that name in it."""
    path, _, name = module.partition(":")
    try:
        with _quiet():
            if find_spec(path.partition(".")[0]) is None:
                return f"{package} is not installed"
            loaded = import_module(path)
    except (Exception, SystemExit) as error:  # whatever a broken package does on import
        missing = getattr(error, "name", None) if isinstance(error, ImportError) else None
        if isinstance(error, ModuleNotFoundError) and missing in (path, path.rpartition(".")[0]):
            return f"{package} is not installed"
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return f"{package} {package_version(package)} can't be imported ({reason})"
    if name and not hasattr(loaded, name):
        return f"{package} {package_version(package)} is too old"
    return ""


def package_version(package: str) -> str:
    """The version that is installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of an unknown version"


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what a package prints or warns about on import."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield
