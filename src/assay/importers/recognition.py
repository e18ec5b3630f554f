"""Which importer reads a file: recognised by its content, or named by the user. A file that no
importer reads is refused; the error names what it looks like and what is supported.
"""

from __future__ import annotations

import os
import re
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from itertools import islice

from assay.errors import AssayError, InputError, NotEnoughEvidence, UsageError, printable
from assay.files.tables import table_columns, table_rows
from assay.importers.column_map import KEYS, SCORE, check_foreign, suggested
from assay.importers.head import HEAD, Head
from assay.importers.importer import Importer
from assay.importers.known import KNOWN, fitting
from assay.importers.samples import head_of
from assay.registry import near_miss

SHOWN = 8
"""Keys, columns or entries that an error names."""
_OWN_KEYS = frozenset({"schema", "run_id", "hard_gates", "criteria", "workflow", "scoringSystem"})
"""What only a run or a scorecard has, or a document that says what it is."""
MIN_COLUMNS = 2
_PEEKED = 1000
"""Rows that are read to find the column of ids."""
_COLUMNS = re.compile(r"[,;\t|]")


def importer_named(kind: str) -> Importer:
    """The importer that `--from` names."""
    importer = KNOWN.get(kind)
    if importer is None:
        raise UsageError(
            "CLI-001",
            f"nothing is imported from '{kind}'.{KNOWN.near(kind)}",
            fix=f"Supported: {', '.join(sorted(KNOWN))}.",
        )
    return importer


def importer_of(path: str, mapping: Mapping[str, str] | None = None) -> Importer:
    """The one importer that takes a file for its own."""
    head = head_of(path)
    _check_encoding(head)
    fits = fitting(head, mapping)
    if not fits:
        raise unrecognised(head)
    if len(fits) > 1:
        named = " and ".join(f"{importer.name} ({importer.title})" for importer in fits)
        raise UsageError(
            "CLI-001",
            f"the file looks like one of {named}.",
            where=path,
            fix=f"Choose with --from {fits[0].name} or --from {fits[1].name}.",
        )
    return fits[0]


def importer_of_all(
    paths: Sequence[str], kind: str | None, mapping: Mapping[str, str] | None = None
) -> Importer:
    """The one importer of several files that belong together."""
    if kind is not None:
        importer = importer_named(kind)
        for path in paths:
            _check_kind(head_of(path), importer)
        return importer
    importers = {path: importer_of(path, mapping) for path in paths}
    names = {importer.name: path for path, importer in reversed(importers.items())}
    if len(names) > 1:
        listed = ", ".join(f"{path} from {name}" for name, path in sorted(names.items()))
        raise UsageError(
            "CLI-001",
            f"the files come from several tools: {listed}.",
            fix="Import the files of one tool at a time.",
        )
    return importers[paths[0]]


def _check_kind(head: Head, importer: Importer) -> None:
    """Refuse a file that another importer takes for its own and the named one doesn't. Anything may
    be read as a table.
    """
    _check_encoding(head)
    if _emptiness(head):
        raise unrecognised(head)
    if importer.name == "table" or importer.fits(head):
        return
    others = [importer for importer in fitting(head) if importer.name != "table"]
    if others:
        raise UsageError(
            "CLI-001",
            f"the file looks like {others[0].title}, not {importer.title}.",
            where=head.path,
            fix=f"Omit --from, or give --from {others[0].name}.",
        )


def _check_encoding(head: Head) -> None:
    """Refuse packed files and UTF-16. XML may be UTF-16: its parser reads that."""
    if head.data[:2] == b"\x1f\x8b":
        raise InputError("FIL-002", "is a gzip file.", where=head.path, fix="Unpack it first.")
    if head.is_utf16 and not head.text.startswith("<"):
        raise InputError("FIL-002", "is UTF-16 text.", where=head.path, fix="Save it as UTF-8.")


def _emptiness(head: Head) -> str:
    """How a file is empty, in words; empty if it is not."""
    words = head.data.split()
    if words in ([b"[]"], [b"[", b"]"]):
        return "an empty list"
    return "" if words else "empty"


def unrecognised(head: Head) -> AssayError:
    """The refusal of a file that no importer takes, with what it looks like."""
    _check_encoding(head)
    if empty := _emptiness(head):
        return NotEnoughEvidence("FIL-005", f"the file is {empty}.", where=head.path)
    return InputError(
        "FIL-006",
        f"Assay doesn't recognise this file: {described(head)}.",
        where=head.path,
        fix=_suggestion(head)
        or (
            f"Supported: {', '.join(sorted(KNOWN))}. Name the kind with --from KIND, or the columns"
            " of a CSV or JSONL file with --map."
        ),
    )


def is_foreign(head: Head) -> bool:
    """Whether the first JSON document, seen whole, has keys, and none that a run or a scorecard
    has, so it was meant as neither.
    """
    whole = len(head.data) < HEAD or head.first_line.endswith(("}", "]"))
    top = {key for key in head.columns if key}
    return whole and bool(top) and not top & _OWN_KEYS and not near_miss("schema", sorted(top))


def _suggestion(head: Head) -> str:
    """The `--map` to begin with, for a table of CSV or flat JSON; empty for anything else."""
    if len(head.columns) < MIN_COLUMNS or not os.path.isfile(head.path):
        return ""
    try:
        peeked = islice(table_rows(head.path), _PEEKED)
        rows = [row for row, _ in peeked if isinstance(row, dict)]
    except (AssayError, OSError):
        return ""
    if not rows or any(isinstance(value, (dict, list)) for value in rows[0].values()):
        return ""
    check_foreign(rows[0], head.path)
    parts = suggested(rows)
    if not any(part.startswith((SCORE, "passed=")) for part in parts):
        parts.append("score:quality=COLUMN:0..10")
    taken = {part.partition("=")[0] for part in parts}
    scaled = " Check the scale." if any(part.startswith(SCORE) for part in parts) else ""
    return (
        f"Say what its columns are, for example --map {shlex.quote(','.join(parts))}.{scaled}"
        f" You can add {', '.join(key for key in KEYS if key not in taken)} and score:NAME."
        " If a tool wrote the file, name it with --from (`assay import --help`)."
    )


def described(head: Head) -> str:
    r"""What a file looks like, in words.

    >>> described(Head("x.json", b'{"verdicts": [1], "model": "m"}'))
    'JSON with the keys model, verdicts'
    >>> described(Head("x.csv", b"id;answer\n1;yes\n"))
    'text with the columns id, answer'
    """
    if head.is_zip:
        entries = _entries(head.path) if os.path.isfile(head.path) else ""
        return f"a ZIP archive with the entries {entries}" if entries else "a ZIP archive"
    if head.data.startswith(b"PAR1"):
        listed = table_columns(head.data, head.path) if os.path.isfile(head.path) else []
        return "a Parquet file" + (f" with the columns {_listed(listed)}" if listed else "")
    if not head.text:
        return "a binary file"
    if head.text.startswith("<"):
        tag = re.search(r"<([A-Za-z_][\w:.-]*)", head.text)
        return f"XML with the root element <{tag[1]}>" if tag else "XML"
    if head.keys:
        top = sorted(key for key in head.keys if "." not in key.removeprefix("[]."))
        what = "a JSON list of objects" if top and top[0].startswith("[]") else "JSON"
        is_cut = len(head.data) < HEAD and not head.text.rstrip().endswith(("}", "]"))
        end = "; it is cut off" if is_cut else ""
        return f"{what} with the keys {_listed([key.removeprefix('[].') for key in top])}{end}"
    if head.text.startswith(("{", "[")):
        return "JSON without keys"
    columns = [name.strip().strip('"') for name in _COLUMNS.split(head.first_line)]
    if len(columns) > 1:
        return f"text with the columns {_listed(columns)}"
    return f"text that begins with {printable(head.first_line[:60])!r}"


def _entries(path: str) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            return _listed([os.path.normpath(name) for name in archive.namelist()[: SHOWN + 1]])
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return "unreadable: it is damaged or cut off"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name[:60]) for name in names[:SHOWN])
    return shown + (", ..." if len(names) > SHOWN else "")
