"""The rows of an Excel workbook (.xlsx): the first visible sheet or a named one, with a header row.

A workbook is a zip of XML from an unknown source: its unpacked size is checked before anything is
unpacked, and a document type, which could define entities, is refused. A formula counts as the
value that was saved with it, and is refused if there is none; dates become ISO text.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from assay.errors import InputError
from assay.files.inputs import open_input
from assay.installing import import_extra
from assay.registry import near_miss

MAX_UNPACKED = 256 * 1024 * 1024
MAX_PARTS = 2_000
MAX_COLUMNS = 500
_PROLOG = 2_048


def excel_rows(path: str, sheet: str | None = None) -> Iterator[tuple[Any, str]]:
    """Each row below the header, as a mapping of the header's names."""
    openpyxl = import_extra(
        "openpyxl", "excel", "reading Excel needs openpyxl.", where=path, kind=InputError
    )
    with open_input(path) as stream:
        _check_archive(stream, path)
        stream.seek(0)
        try:  # the values of formulas, and the formulas: the library reads one or the other
            books = [
                openpyxl.load_workbook(stream, read_only=True, data_only=is_value, keep_links=False)
                for is_value in (True, False)
            ]
        except Exception as error:  # whatever a broken workbook makes the library raise
            raise _unreadable(path, error) from None
        try:
            values, formulas = (_chosen(book, sheet, path) for book in books)
            yield from _rows(values, formulas, path)
        except InputError:
            raise
        except Exception as error:
            raise _unreadable(path, error) from None
        finally:
            for book in books:
                book.close()


def _unreadable(path: str, error: Exception) -> InputError:
    words = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    return InputError(
        "FIL-002", f"can't be read as an Excel workbook: {words}.", where=path, fix="Save it again."
    )


def _check_archive(stream: Any, path: str) -> None:
    """Refuse what is not a zip, what would unpack to too much, and parts with a document type."""
    try:
        with zipfile.ZipFile(stream) as archive:
            parts = archive.infolist()
            size = sum(part.file_size for part in parts)
            if len(parts) > MAX_PARTS or size > MAX_UNPACKED:
                raise InputError(
                    "FIL-004",
                    f"unpacks to {size:,} bytes in {len(parts):,} parts; the limits are"
                    f" {MAX_UNPACKED:,} and {MAX_PARTS:,}.",
                    where=path,
                    fix="Save it as CSV.",
                )
            for part in parts:
                with archive.open(part) as unpacked:
                    prolog = unpacked.read(_PROLOG)
                if b"<!DOCTYPE" in prolog.replace(b"\x00", b""):
                    raise InputError("FIL-002", f"{part.filename} has a document type.", where=path)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError):
        raise InputError(
            "FIL-002",
            "is not an .xlsx workbook.",
            where=path,
            fix="Save it as .xlsx (not .xls, and without a password), or as CSV.",
        ) from None


def _chosen(book: Any, sheet: str | None, path: str) -> Any:
    names = [worksheet.title for worksheet in book.worksheets]
    if not names:
        raise InputError("FIL-005", "the workbook has no sheet with cells.", where=path)
    if sheet is None:
        visible = (worksheet for worksheet in book.worksheets if worksheet.sheet_state == "visible")
        return next(visible, book.worksheets[0])
    if sheet not in names:
        raise InputError(
            "RUN-002",
            f"there is no sheet {sheet!r}.{near_miss(sheet, names)}",
            where=path,
            fix=f"The sheets are {', '.join(names[:10])}.",
        )
    return book[sheet]


def _rows(sheet: Any, formulas: Any, path: str) -> Iterator[tuple[Any, str]]:
    for worksheet in (sheet, formulas):
        worksheet.reset_dimensions()  # the size that a file states may be wrong
    header = next(sheet.iter_rows(max_row=1, values_only=True), ())
    names = [None if name is None else str(name).strip() for name in header]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise InputError("RUN-002", "the first row has no column names.", where=path)
    if len(names) > MAX_COLUMNS:
        raise InputError("FIL-004", f"has more than {MAX_COLUMNS} columns.", where=path)
    for number, name in enumerate(names, 1):
        if not name:
            raise InputError("RUN-002", f"column {number} has no name in row 1.", where=path)
    if len(set(names)) != len(names):
        raise InputError("RUN-002", "two columns have the same name.", where=path)
    body, written = (worksheet.iter_rows(min_row=2) for worksheet in (sheet, formulas))
    for number, (cells, sources) in enumerate(zip(body, written, strict=True), 2):
        for name, cell, source in zip(names, cells, sources, strict=False):
            # a text that a formula leaves empty was saved as text
            unsaved = cell.value is None and getattr(cell, "data_type", None) == "n"
            if unsaved and getattr(source, "data_type", None) == "f":
                raise InputError(
                    "RUN-002",
                    f"row {number}: {name} is a formula without a saved value.",
                    where=path,
                    fix="Open the workbook in Excel and save it, or save it as CSV.",
                )
            if getattr(cell, "data_type", None) == "e":
                raise InputError(
                    "RUN-002",
                    f"row {number}: {name} is the error {cell.value}.",
                    where=path,
                    fix="Correct the formula, or clear the cell.",
                )
        for cell in cells[len(names) :]:
            if cell.value is not None and str(cell.value).strip():
                raise InputError(
                    "RUN-002",
                    f"the cell {cell.coordinate} has a value, and its column has no name in row 1.",
                    where=path,
                    fix="Name the column, or clear the cell.",
                )
        values = [_plain(cell.value) for cell in cells[: len(names)]]
        if any(value is not None for value in values):
            row = dict.fromkeys(names) | dict(zip(names, values, strict=False))
            yield row, f"row {number}"


def _plain(value: Any) -> Any:
    """A cell as JSON has it."""
    if isinstance(value, datetime):
        return (value.date() if value.time() == time() else value).isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else value
