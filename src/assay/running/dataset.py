"""A dataset: samples with an id each.

A dataset file (YAML) names the data and maps its fields; a data file alone is enough when its
fields have the usual names. What is expected of a workflow is kept apart from what it is given:
`gold` lists every path that leads to an expected value, and no input may come from one. Where no
sample has an id, each gets one made from its content. Otherwise a missing or duplicate id is
refused, because a failure could not be traced to its sample.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from assay.canon import digest
from assay.errors import FaultList, InputError
from assay.files.inputs import open_input
from assay.files.json_files import read_documents, read_json
from assay.files.tables import Rows, csv_rows, parquet_rows, plain_cell
from assay.files.yaml_files import is_yaml_name, read_entry
from assay.installing import import_extra
from assay.records.reading import read_record
from assay.registry import near_miss


class TableSource(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a database: its URL as SQLAlchemy writes it, and its name."""

    url: str
    """The database, as SQLAlchemy writes it."""
    name: str
    """The table's name."""


def file_rows(path: str, *, sheet: str | None = None) -> Rows:
    """The rows of a data file; `sheet` names the one of a workbook."""
    extension = os.path.splitext(path)[1].lower()
    if extension == ".xlsx":
        return excel_rows(path, sheet)
    if sheet is not None:
        raise InputError("RUN-002", "only an .xlsx workbook has a `sheet`.", where=path)
    if extension not in READERS:
        raise InputError(
            "RUN-002",
            f"Can't read {extension or 'a file without an extension'} as a dataset.",
            where=path,
            fix="Save it as .jsonl, .json, .csv, .xlsx or .parquet, or describe it in a .yaml.",
        )
    return READERS[extension](path)


def _line_rows(path: str) -> Rows:
    for document in read_documents(path):
        yield document.tree, f"line {document.line}"


def _json_rows(path: str) -> Rows:
    tree = read_json(path).tree
    rows = tree.get("samples") if isinstance(tree, dict) else tree
    if not isinstance(rows, list):
        raise InputError(
            "RUN-002",
            "is neither a list of samples nor an object with a list `samples`.",
            where=path,
        )
    for index, row in enumerate(rows):
        yield row, f"[{index}]"


def table_rows(table: TableSource, where: str) -> Rows:
    """The rows of a database table, in the order of its key."""
    sqlalchemy = import_extra(
        "sqlalchemy", "store", "reading a table needs SQLAlchemy.", where=where, kind=InputError
    )
    try:
        engine = sqlalchemy.create_engine(table.url)
        with engine.connect() as connection:
            source = sqlalchemy.Table(table.name, sqlalchemy.MetaData(), autoload_with=connection)
            order = list(source.primary_key.columns) or [next(iter(source.columns))]
            rows = connection.execute(sqlalchemy.select(source).order_by(*order)).mappings()
            for number, row in enumerate(rows, 1):
                yield plain_cell(dict(row)), f"row {number}"
    except (sqlalchemy.exc.SQLAlchemyError, ImportError, ValueError) as error:
        words = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise InputError(
            "RUN-002",
            f"the table {table.name!r} cannot be read: {type(error).__name__}: {words[:200]}.",
            where=where,
        ) from None


READERS = {
    ".jsonl": _line_rows,
    ".json": _json_rows,
    ".csv": csv_rows,
    ".parquet": parquet_rows,
}
"""The data files that can be read."""


ID_FIELDS = ("sample_id", "id")
_GOLD_NAME = re.compile(r"(?i)(expected|gold)([_.-].*)?")
"""Fields with expected values, unless a dataset file names them."""
MAX_SAMPLES = 1_000_000


class DatasetFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dataset, as written in its YAML file. Fields are named by their paths in a sample, with
    dots for what is nested.
    """

    dataset: Annotated[str, Meta(min_length=1, max_length=200)]
    """The dataset's name."""
    version: str | int | None = None
    """Without one, the digest of the data is the version."""
    file: str | None = None
    """The file with the samples, from this file's folder."""
    table: TableSource | None = None
    """A database table with the samples, instead of a file."""
    sheet: str | None = None
    """The sheet of a workbook; without one, the first."""
    split: str | None = None
    """Only samples of this split."""
    split_field: str = "split"
    """The field that names a sample's split."""
    sample_id: str | None = None
    """The field with the sample's id; without one, `sample_id` or `id`."""
    inputs: dict[str, str] = {}
    """Which field each input comes from."""
    expected: str | list[str] | dict[str, str] | None = None
    """The field, or fields, with what is expected."""
    group: str | None = None
    """The field with the sample's group."""
    tags: str | list[str] = []
    """The field with the sample's tags, or a list of fields."""


class Sample(NamedTuple):
    """One row, as it was read."""

    id: str
    row: Mapping[str, Any]
    where: str
    """The line or row, for errors."""


class LoadedDataset:
    """Samples, and the meaning of their fields. Without a version, the digest of the data is
    used.
    """

    def __init__(
        self,
        spec: DatasetFile,
        samples: list[Sample],
        *,
        version: str | None,
        where: str,
        made_ids: bool = False,
    ) -> None:
        self.spec = spec
        self.made_ids = made_ids
        """Whether the samples had no ids, and got ids made from their content."""
        self.id = spec.dataset
        self.samples = samples
        self.where = where
        self.digest = digest(sorted(digest(sample.row) for sample in samples))
        """The digest of the samples alone, whatever their order: the same data has the same digest
        wherever it is stored.
        """
        self.version = version if version is not None else self.digest.removeprefix("sha256:")[:12]
        named = spec.expected
        if isinstance(named, str):
            named = [named]
        self._gold: dict[str, str] | None = (
            {name: name for name in named} if isinstance(named, list) else named
        )

    def gold(self, row: Mapping[str, Any]) -> list[str]:
        """The paths of a sample that lead to an expected value."""
        if self._gold is not None:
            return list(self._gold.values())
        given = row.get("inputs")
        nested = given if isinstance(given, dict) else {}
        return [name for name in row if _GOLD_NAME.fullmatch(name)] + [
            f"inputs.{name}" for name in nested if _GOLD_NAME.fullmatch(name)
        ]

    def expected(self, row: Mapping[str, Any]) -> Any:
        """What is expected of a workflow for this sample; None if the sample does not say."""
        if self._gold is None:
            names = ["expected", *(name for name in row if name.lower() in ("expected", "gold"))]
            return next((row[name] for name in names if row.get(name) is not None), None)
        if isinstance(self.spec.expected, str):
            return lookup(row, self.spec.expected)[1]
        return {name: lookup(row, path)[1] for name, path in self._gold.items()}

    def group(self, row: Mapping[str, Any]) -> str | None:
        """The group of a sample; samples of a group are not independent of each other."""
        value = lookup(row, "group" if self.spec.group is None else self.spec.group)[1]
        # Rows with an empty cell have no group: together they don't form one.
        return None if value is None or not str(value).strip() else str(value)

    def tags(self, row: Mapping[str, Any]) -> list[str]:
        """The tags of a sample."""
        paths = self.spec.tags or "tags"
        value = lookup(row, paths)[1] if isinstance(paths, str) else None
        if not isinstance(value, list):
            value = [value] if isinstance(paths, str) else [lookup(row, path)[1] for path in paths]
        return [str(tag) for tag in value if tag is not None and str(tag).strip()]


def lookup(row: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a path leads to something, and what. A field whose own name has dots comes before
    what is nested.
    """
    if path in row:
        return True, row[path]
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value


def read_dataset(path: str) -> LoadedDataset:
    """A dataset from its YAML file, or from a data file alone. Raises `InputError` with every
    fault.
    """
    if not is_yaml_name(path):
        name = os.path.splitext(os.path.basename(path))[0] or "data"
        return _dataset(_unnamed(name), file_rows(path), version=None, where=path)
    spec = read_record(read_entry(path, "dataset"), DatasetFile, "RUN-002")
    if (spec.file is None) == (spec.table is None):
        raise InputError("RUN-002", "a dataset has either a file or a table.", where=path)
    rows = (
        table_rows(spec.table, path)
        if spec.table is not None
        else file_rows(os.path.join(os.path.dirname(path), str(spec.file)), sheet=spec.sheet)
    )
    version = None if spec.version is None else str(spec.version)
    return _dataset(spec, rows, version=version, where=path)


def from_rows(rows: list[Any], *, id: str, version: str | None, where: str) -> LoadedDataset:
    """A dataset of samples in memory, as sent to the API."""
    placed = ((row, f"samples[{index}]") for index, row in enumerate(rows))
    return _dataset(_unnamed(id), placed, version=version, where=where)


def _unnamed(name: str) -> DatasetFile:
    """A dataset whose fields have the usual names."""
    return DatasetFile(dataset=name, version="")


def _dataset(spec: DatasetFile, rows: Rows, *, version: str | None, where: str) -> LoadedDataset:
    samples: list[Sample] = []
    faults = FaultList(where, code="RUN-002")
    unnamed: list[Sample] = []
    seen: dict[str, str] = {}
    fields = ID_FIELDS if spec.sample_id is None else (spec.sample_id,)
    absent = _named_fields(spec)

    for row, place in rows:
        if len(samples) + len(unnamed) >= MAX_SAMPLES:
            raise InputError(
                "FIL-004",
                f"has more than {MAX_SAMPLES:,} samples.",
                where=where,
                fix="Split the dataset.",
            )
        if not isinstance(row, dict):
            faults.add(
                f"{place}: invalid_dataset_sample: a sample is an object, not {type(row).__name__}."
            )
            continue
        absent = {path: key for path, key in absent.items() if not lookup(row, path)[0]}
        if spec.split is not None and lookup(row, spec.split_field)[1] != spec.split:
            continue
        name = next((name for name in (_id(row, field) for field in fields) if name), None)
        if name is None:
            unnamed.append(Sample("", row, place))
        elif name in seen:
            faults.add(
                f"{place}: the id {name[:80]!r} was used before, at {seen[name]}.",
                fix="Give each sample its own id.",
            )
        else:
            seen[name] = place
            samples.append(Sample(name, row, place))
    if samples or unnamed:
        _refuse_fields(absent, [*samples, *unnamed], where)
    has_id_field = any(field in sample.row for sample in unnamed for field in fields)
    made_ids = bool(unnamed) and not (samples or faults.count or spec.sample_id or has_id_field)
    if made_ids:
        samples = _with_ids(unnamed, faults)
    for sample in () if made_ids else unnamed:
        faults.add(
            f"{sample.where}: the sample has no id.",
            fix=f"Give each sample a string or whole number in {' or '.join(fields)}.",
        )
    faults.raise_if_any()
    if not samples:
        split = "" if spec.split is None else f" of the split {spec.split!r}"
        raise InputError("FIL-005", f"there are no samples{split}.", where=where)
    return LoadedDataset(spec, samples, version=version, where=where, made_ids=made_ids)


def _named_fields(spec: DatasetFile) -> dict[str, str]:
    """The fields that a dataset file names, each with the key that names it."""
    fields: dict[str, str] = {}
    for key in ("sample_id", "inputs", "expected", "group", "tags"):
        named = getattr(spec, key)
        paths = [named] if isinstance(named, str) else named or ()
        for path in paths.values() if isinstance(paths, dict) else paths:
            fields.setdefault(path, key)
    return fields


def _refuse_fields(absent: Mapping[str, str], samples: list[Sample], where: str) -> None:
    """Raise `InputError` for every field that the dataset file names and no row of the data has: a
    misspelt group would make samples that depend on each other look independent.
    """
    faults = FaultList(where, code="RUN-002")
    fields = list(dict.fromkeys(field for sample in samples for field in sample.row))
    for path, key in absent.items():
        faults.add(
            f"no sample has the field {path!r}.{near_miss(path, fields)}",
            path=key,
            fix=f"The samples have {', '.join(map(repr, fields[:20]))}.",
        )
    faults.raise_if_any()


def _with_ids(samples: list[Sample], faults: FaultList) -> list[Sample]:
    """Samples with ids made from their content; of two equal ones the second is refused."""
    by_digest: dict[str, Sample] = {}
    for sample in samples:
        content = digest(sample.row).removeprefix("sha256:")
        if content in by_digest:
            faults.add(
                f"{sample.where}: the sample has no id and is equal to {by_digest[content].where}.",
                fix="Remove one of them, or give each sample an `id`.",
            )
        else:
            by_digest[content] = sample
    size = 10 if len({name[:10] for name in by_digest}) == len(by_digest) else 40
    return [sample._replace(id=f"sha-{name[:size]}") for name, sample in by_digest.items()]


def _id(row: Mapping[str, Any], path: str) -> str | None:
    value = lookup(row, path)[1]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    is_name = isinstance(value, str) and value.strip() and len(value) <= 400
    return value if is_name else None


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
