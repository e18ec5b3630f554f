"""`assay doctor`: what is installed, and what is missing for what."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from assay import __version__
from assay.cli import options as opt
from assay.cli.frame import Command
from assay.errors import AssayError, ExitCode
from assay.installing import install_hint

if TYPE_CHECKING:
    import argparse

_OPTIONAL = {
    "reading schema modules": (
        ("quickjs", "tree-sitter", "tree-sitter-javascript", "publicsuffixlist"),
        "flowmcp",
    ),
    "live MCP servers": (("mcp",), "mcp"),
    "asking judges": (("aiohttp",), "judge"),
    "bootstrap intervals": (("numpy",), "stats"),
    "signed attestations": (("cryptography",), "sign"),
    "the server": (("fastapi", "uvicorn"), "server"),
}
_NEEDED = {
    "jiter": "reading JSON",
    "jsonschema-rs": "checking JSON Schemas",
    "msgspec": "records",
    "PyYAML": "the shelf",
    "SQLAlchemy": "the ledger",
    "alembic": "making the ledger",
}


def run(options: argparse.Namespace) -> int:
    """Check the installation; exit 1 when something does not work."""
    checks = [
        _python(),
        *(_package(name, use) for name, use in _NEEDED.items()),
        _yaml(),
        *(_extra(use) for use in _OPTIONAL),
        _shelf(),
        _behaviour(),
        _library(),
        _temporary(),
    ]
    if options.json:
        opt.print_json(
            {"version": __version__, "ok": all(check["ok"] for check in checks), "checks": checks}
        )
    else:
        on = opt.colour()
        for check in checks:
            sign = (
                opt.paint("ok  ", "green", on=on)
                if check["ok"]
                else opt.paint("FAIL", "red", on=on)
            )
            sys.stdout.write(f"[{sign}] {check['what']}: {check['found']}\n")
            if not check["ok"]:
                sys.stdout.write(f"       {check['fix']}\n")
    return ExitCode.PASSED if all(check["ok"] for check in checks) else ExitCode.FAILED


def _found(what: str, ok: bool, found: str, fix: str = "") -> dict[str, object]:
    return {"what": what, "ok": ok, "found": found, "fix": fix}


def _python() -> dict[str, object]:
    return _found(
        "Python",
        sys.version_info >= (3, 11),
        f"{platform.python_version()} on {platform.system()}",
        "Assay needs Python 3.11 or newer.",
    )


def _package(name: str, use: str) -> dict[str, object]:
    try:
        return _found(f"{name} ({use})", True, metadata.version(name))
    except metadata.PackageNotFoundError:
        return _found(f"{name} ({use})", False, "not installed", install_hint())


def _extra(use: str) -> dict[str, object]:
    """An extra that is not there is no fault: what needs it says so, and how to get it."""
    packages, extra = _OPTIONAL[use]
    try:
        return _found(
            f"{use} (optional)",
            True,
            ", ".join(f"{name} {metadata.version(name)}" for name in packages),
        )
    except metadata.PackageNotFoundError:
        return _found(f"{use} (optional)", True, f"not installed: {install_hint(extra)}")


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
        count = sum(
            1 for kind in KINDS for entry in shelf.entries(kind) if shelf.load(kind, entry.id)
        )
    except AssayError as error:
        return _found("shelf", False, str(error), "Reinstall Assay.")
    wrong = changed(shelf)
    if wrong:
        return _found(
            "shelf",
            False,
            f"published and changed: {', '.join(wrong)}",
            "Reinstall Assay, or restore the files.",
        )
    return _found(
        "shelf", True, f"{count} items, {len(lock_of().published)} published and unchanged"
    )


def _behaviour() -> dict[str, object]:
    from assay.library import fingerprint

    now = fingerprint.current()
    wrong = fingerprint.check(now)
    versions = ", ".join(dict.fromkeys(system.version for system in now))
    return _found(
        "behaviour",
        not wrong,
        versions if not wrong else "; ".join(wrong),
        "Reinstall Assay, or give the changed system a new version.",
    )


def _library() -> dict[str, object]:
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


COMMANDS = {
    "doctor": Command(
        run,
        "Check this installation: Python, packages, the shelf and both systems' behaviour.",
        "assay doctor",
        (),
        configured=False,
    ),
}
