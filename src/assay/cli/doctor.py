"""`assay doctor`: whether this installation works, and which jobs it can do.

Listing the jobs looks only whether their packages are installed: to import them all would take
seconds. A job that `--for` names is tried: its modules are imported, and must have what it needs.
"""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import NamedTuple

from assay import __version__
from assay.cli import options as opt
from assay.cli.frame import Command, Options, repeated
from assay.errors import AssayError, ExitCode
from assay.family import JobNeeds, merged
from assay.installing import install_hint

_NEEDED = (
    ("jiter", "jiter", "reading JSON"),
    ("jsonschema_rs", "jsonschema-rs", "checking JSON Schemas"),
    ("msgspec", "msgspec", "records"),
    ("yaml", "PyYAML", "the bundled library"),
    ("jinja2", "Jinja2", "pages and reports"),
    ("sqlalchemy", "SQLAlchemy", "the ledger"),
    ("alembic", "alembic", "making the ledger"),
)
"""Every package of the core: its module, its name and its use."""


def run(options: Options) -> int:
    """Check the installation; exit 1 when something it needs, or a job that `--for` names, does
    not work.
    """
    checks = [
        _found(
            "Python",
            sys.version_info >= (3, 11),
            f"{platform.python_version()} on {platform.system()}",
            "Assay needs Python 3.11 or newer.",
        ),
        *(_package(*needed) for needed in _NEEDED),
        _yaml(),
        _shelf(),
        _behaviour(),
        check_library(),
        _temporary(),
    ]
    wanted = dict.fromkeys(options.jobs)
    jobs = [check_job(name, tried=bool(wanted)) for name in wanted or JOBS]
    ok = all(check["ok"] for check in checks)
    if wanted:
        ok = ok and all(job.ok for job in jobs)
    document = {
        "version": __version__,
        "ok": ok,
        "checks": checks,
        "jobs": [job._asdict() for job in jobs],
    }
    lines = _lines(checks, jobs, required=bool(wanted))
    return opt.give(options, document, lines, ExitCode.of(ok))


def _lines(
    checks: list[dict[str, object]], jobs: list[JobCheck], *, required: bool
) -> Iterator[str]:
    good, bad = opt.paint("ok  ", "green"), opt.paint("FAIL", "red")
    for check in checks:
        yield f"[{good if check['ok'] else bad}] {check['what']}: {check['found']}"
        if not check["ok"]:
            yield f"       {check['fix']}"
    yield f"\nJobs that need more than the core{':' if required else ', installed or not:'}"
    width = max(len(job.job) for job in jobs)
    lacking = bad if required else opt.paint("--  ", "yellow")
    for job in jobs:
        yield f"[{good if job.ok else lacking}] {job.job:<{width}}  {job.what}: {job.found}"
        if not job.ok:
            is_other = job.installs_extra and job.extra != job.job
            note = f"  # {job.extra} is the extra for {job.job}" if is_other else ""
            yield f"       {job.fix}{note}"
    if not required and not all(job.ok for job in jobs):
        yield (
            "\nJobs marked [--] are optional. `assay doctor --for JOB` tries a job, and exits 1"
            " while it can't run."
        )


def _found(what: str, ok: bool, state: str, fix: str = "") -> dict[str, object]:
    return {"what": what, "ok": ok, "found": state, "fix": fix}


def _package(module: str, name: str, use: str) -> dict[str, object]:
    fault = import_fault(module, name)
    state = fault or package_version(name)
    return _found(f"{name} ({use})", not fault, state, install_hint() if fault else "")


def _yaml() -> dict[str, object]:
    import yaml

    fast = hasattr(yaml, "CSafeLoader")
    return _found(
        "YAML parser",
        True,
        "libyaml" if fast else "pure Python (slower; install a PyYAML built with libyaml)",
    )


def _shelf() -> dict[str, object]:
    from assay.library.lock import lock_of
    from assay.library.shelf import KINDS, Shelf, changed

    shelf = Shelf()
    try:
        count = sum(1 for kind in KINDS for entry in shelf.entries(kind) if shelf.load(kind, entry))
    except AssayError as error:
        return _found("bundled library", False, str(error), "Reinstall Assay.")
    wrong = changed(shelf)
    if wrong:
        return _found(
            "bundled library",
            False,
            f"published and changed: {', '.join(wrong)}",
            "Reinstall Assay, or restore the files.",
        )
    return _found(
        "bundled library",
        True,
        f"{count} items, {len(lock_of().published)} published and unchanged",
    )


def _behaviour() -> dict[str, object]:
    from assay.library import fingerprint

    now = fingerprint.current(slow=False)
    wrong = fingerprint.check(now)
    versions = ", ".join(dict.fromkeys(system.version for system in now))
    left = "; ".join(fingerprint.unchecked(now))
    versions += f" (not checked: {left})" if left else ""
    return _found(
        "behaviour",
        not wrong,
        "; ".join(wrong) or f"{versions}; `assay versions` lists those of profiles and policies",
        "Reinstall Assay, or give the changed system a new version.",
    )


def check_library() -> dict[str, object]:
    """Whether the folder that ASSAY_LIBRARY names is there."""
    folder = os.environ.get("ASSAY_LIBRARY")
    if not folder:
        return _found("your own library", True, "none (ASSAY_LIBRARY is not set)")
    return _found(
        "your own library",
        os.path.isdir(folder),
        folder,
        "ASSAY_LIBRARY names a folder that is not there.",
    )


def _temporary() -> dict[str, object]:
    import tempfile

    try:
        with tempfile.TemporaryFile() as stream:
            stream.write(b"assay")
    except OSError as error:
        return _found(
            "temporary files", False, str(error), "Set TMPDIR to a folder that can be written."
        )
    return _found("temporary files", True, tempfile.gettempdir())


# --- jobs


class JobCheck(NamedTuple):
    """What was found for a job."""

    job: str
    what: str
    ok: bool
    found: str
    fix: str
    extra: str
    installs_extra: bool = False
    """Whether the fix installs the extra."""


_LEDGER = (("sqlalchemy", "SQLAlchemy"), ("alembic", "alembic"))
_CORE: dict[str, JobNeeds] = {
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
    "arrow": JobNeeds("grade rows in Arrow files", "arrow", (("pyarrow", "pyarrow"),)),
    "excel": JobNeeds("read Excel workbooks", "excel", (("openpyxl", "openpyxl"),)),
    "inspect": JobNeeds(
        "read inspect_ai logs packed with Zstandard", "inspect", (("zstandard", "zstandard"),)
    ),
    "otel": JobNeeds(
        "read OpenTelemetry's binary form, and send grades as events",
        "otel",
        (
            (
                "opentelemetry.exporter.otlp.proto.http._log_exporter",
                "opentelemetry-exporter-otlp-proto-http",
            ),
        ),
    ),
    "mcp": JobNeeds("talk to MCP servers and clients", "mcp", (("mcp:Client", "mcp"),)),
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
    "sign": JobNeeds(
        "sign attestations",
        "sign",
        (("cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography"),),
    ),
}
JOBS = merged("doctor", _CORE)
"""The jobs by name. Every extra that a user can install is the extra of one of them."""


def check_job(name: str, *, tried: bool = True) -> JobCheck:
    """Try what a job needs; if it is not to be `tried`, look whether it is installed."""
    needs = JOBS[name]
    if not needs.modules:
        return _check_sandbox(name, needs)
    present, faults = [], []
    for module, package in needs.modules:
        fault = import_fault(module, package) if tried else _absence(module, package)
        if fault:
            faults.append(fault)
        else:
            present.append(f"{package} {package_version(package)}")
    fix = install_hint(needs.extra) if faults else ""
    installs_extra = bool(faults and needs.extra)
    if needs.more is not None and not faults and (fault := needs.more()):
        faults, fix = [fault], needs.fix
    state = "; ".join(faults) or ", ".join(present)
    return JobCheck(name, needs.what, not faults, state, fix, needs.extra, installs_extra)


def _check_sandbox(name: str, needs: JobNeeds) -> JobCheck:
    from assay.sandbox.isolation import INSTALL, available

    why_not = available()["bubblewrap"]
    fix = INSTALL if why_not else ""
    return JobCheck(name, needs.what, not why_not, why_not or "bubblewrap works", fix, "")


def _absence(module: str, package: str) -> str:
    """Whether a package is not installed; empty if it is."""
    spec = find_spec(module.partition(":")[0].partition(".")[0])
    if spec is not None and spec.origin is None:  # several packages may share a namespace
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            spec = None
    return f"{package} is not installed" if spec is None else ""


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
        if isinstance(error, ModuleNotFoundError) and f"{path}.".startswith(f"{missing}."):
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


COMMANDS = {
    "doctor": Command(
        run,
        "Check this installation: Python, packages, the bundled library, both systems' behaviour,"
        " and for each job whether it is installed; --for tries it.",
        "assay doctor --for judge",
        (
            repeated(
                "--for",
                "JOB",
                f"require this job, and exit 1 if it can't run: {', '.join(JOBS)}; may be repeated",
                dest="jobs",
                choices=list(JOBS),
            ),
        ),
        configured=False,
    ),
}
