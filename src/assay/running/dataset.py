"""A dataset: samples with an id each, read from JSON lines, JSON, CSV, Parquet or a table of a
database.

A dataset file (YAML) names the data and maps its fields; a data file alone will do when its fields
bear the usual names. What is expected of a workflow stands apart from what it is given: `gold`
holds every path that leads to an expected value, and no input may come from one. A sample without
an id, or with another's, is refused: nobody could say afterwards which one failed.
"""

from __future__ import annotations

import csv
import io
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from assay.canon import digest
from assay.errors import Fault, InputError
from assay.files.json_files import Unread, open_input, read_json, stream_documents
from assay.files.yaml_files import read_yaml
from assay.records.reading import read_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ID_FIELDS = ("sample_id", "id")
_GOLD_NAME = re.compile(r"(?i)(expected|gold)([_.-].*)?")
"""Fields that hold what is expected, unless a dataset file says which they are."""
MAX_SAMPLES = 1_000_000


class Table(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a database: its URL as SQLAlchemy writes it, and its name."""

    url: str
    name: str


class DatasetFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dataset, as its YAML file holds it. Fields are named by their paths in a sample, with dots
    for what is nested.
    """

    dataset: Annotated[str, Meta(min_length=1, max_length=200)]
    version: str | int
    file: str | None = None
    table: Table | None = None
    split: str | None = None
    split_field: str = "split"
    sample_id: str | None = None
    inputs: dict[str, str] = {}
    expected: str | list[str] | dict[str, str] | None = None
    group: str | None = None
    tags: str | list[str] = []


class Sample(NamedTuple):
    """One row, as it was read."""

    id: str
    row: Mapping[str, Any]
    where: str
    """The line or row, for errors."""


class Dataset:
    """Samples, and how their fields are to be understood."""

    def __init__(
        self,
        spec: DatasetFile | None,
        *,
        id: str,
        version: str | None,
        samples: list[Sample],
        where: str,
    ) -> None:
        self.spec = spec
        self.id = id
        self.samples = samples
        self.where = where
        self.digest = digest(sorted(digest(sample.row) for sample in samples))
        """Of the samples alone, in no order: the same data is the same wherever it lies."""
        self.version = version if version is not None else self.digest.removeprefix("sha256:")[:12]
        self.declared = spec is not None and spec.expected is not None
        self._gold = _declared_gold(spec)

    def gold(self, row: Mapping[str, Any]) -> list[str]:
        """The paths of a sample that lead to an expected value."""
        if self.declared:
            return list(self._gold.values())
        given = row.get("inputs")
        nested = (
            [f"inputs.{name}" for name in given if _GOLD_NAME.fullmatch(name)]
            if isinstance(given, dict)
            else []
        )
        return [name for name in row if _GOLD_NAME.fullmatch(name)] + nested

    def expected(self, row: Mapping[str, Any]) -> Any:
        """What is expected of a workflow for this sample; None where the sample does not say."""
        if not self.declared:
            return row.get("expected")
        if self.spec is not None and isinstance(self.spec.expected, str):
            return lookup(row, self.spec.expected)[1]
        return {name: lookup(row, path)[1] for name, path in self._gold.items()}

    def field(self, name: str) -> str | None:
        """The path that the dataset gives for an input of this name."""
        return None if self.spec is None else self.spec.inputs.get(name)

    def group(self, row: Mapping[str, Any]) -> str | None:
        """The group of a sample, of those that are not independent of each other."""
        value = lookup(
            row,
            self.spec.group if self.spec is not None and self.spec.group is not None else "group",
        )[1]
        return None if value is None else str(value)

    def tags(self, row: Mapping[str, Any]) -> list[str]:
        """The tags of a sample."""
        asked = self.spec.tags if self.spec is not None and self.spec.tags else "tags"
        if isinstance(asked, list):
            return [
                str(found)
                for found in (lookup(row, path)[1] for path in asked)
                if found is not None
            ]
        value = lookup(row, asked)[1]
        return (
            [str(one) for one in value]
            if isinstance(value, list)
            else []
            if value is None
            else [str(value)]
        )


def lookup(row: Mapping[str, Any], path: str) -> tuple[bool, Any]:
    """Whether a path leads to something, and what. A field whose own name has dots comes before
    what is nested.
    """
    if path in row:
        return True, row[path]
    found: Any = row
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return False, None
        found = found[part]
    return True, found


def _declared_gold(spec: DatasetFile | None) -> dict[str, str]:
    if spec is None or spec.expected is None:
        return {}
    if isinstance(spec.expected, str):
        return {spec.expected: spec.expected}
    return (
        dict(spec.expected)
        if isinstance(spec.expected, dict)
        else {name: name for name in spec.expected}
    )


# --- reading


def read_dataset(path: str) -> Dataset:
    """A dataset from its YAML file, or from a data file alone. Raises `InputError` with every
    fault, at most twenty of them shown.
    """
    if path.endswith((".yaml", ".yml")):
        document = read_yaml(path)
        spec = read_record(document, DatasetFile, "RUN-002")
        return _described(spec, path)
    name = os.path.splitext(os.path.basename(path))[0] or "data"
    return Dataset(
        None, id=name, version=None, samples=_samples(_rows(path), path, None), where=path
    )


def from_rows(rows: list[Any], *, id: str, version: str | None, where: str) -> Dataset:
    """A dataset of samples that are already here, as an API gets them."""
    return Dataset(
        None,
        id=id,
        version=version,
        samples=_samples(
            ((row, f"samples[{index}]") for index, row in enumerate(rows)), where, None
        ),
        where=where,
    )


def _described(spec: DatasetFile, path: str) -> Dataset:
    if (spec.file is None) == (spec.table is None):
        raise InputError("RUN-002", "a dataset has either a file or a table.", where=path)
    rows = (
        _table_rows(spec.table, path)
        if spec.table is not None
        else _rows(os.path.join(os.path.dirname(path), str(spec.file)))
    )
    return Dataset(
        spec,
        id=spec.dataset,
        version=str(spec.version),
        samples=_samples(rows, path, spec),
        where=path,
    )


def _samples(rows: Iterator[tuple[Any, str]], where: str, spec: DatasetFile | None) -> list[Sample]:
    found: list[Sample] = []
    faults: list[Fault] = []
    seen: dict[str, str] = {}
    for row, place in rows:
        if len(found) >= MAX_SAMPLES:
            raise InputError(
                "FIL-004",
                f"has more than {MAX_SAMPLES:,} samples.",
                where=where,
                fix="Split the dataset.",
            )
        if not isinstance(row, dict):
            faults.append(
                Fault(
                    f"{place}: invalid_dataset_sample: a sample is an object, not"
                    f" {type(row).__name__}.",
                    code="RUN-002",
                    file=where,
                )
            )
            continue
        if (
            spec is not None
            and spec.split is not None
            and lookup(row, spec.split_field)[1] != spec.split
        ):
            continue
        name = _id(row, spec)
        if name is None:
            fields = (
                spec.sample_id
                if spec is not None and spec.sample_id is not None
                else " or ".join(ID_FIELDS)
            )
            faults.append(
                Fault(
                    f"{place}: the sample has no id.",
                    code="RUN-002",
                    file=where,
                    fix=f"Give each sample a text or whole number in {fields}.",
                )
            )
        elif name in seen:
            faults.append(
                Fault(
                    f"{place}: the id {name[:80]!r} was used before, at {seen[name]}.",
                    code="RUN-002",
                    file=where,
                    fix="Ids are unique.",
                )
            )
        else:
            seen[name] = place
            found.append(Sample(name, row, place))
    if faults:
        error = InputError(
            "RUN-002", faults[0].message, where=where, fix=faults[0].fix, faults=faults[:20]
        )
        error.fault_count = len(faults)
        raise error
    if not found:
        split = (
            f" of the split {spec.split!r}" if spec is not None and spec.split is not None else ""
        )
        raise InputError("FIL-005", f"there are no samples{split}.", where=where)
    return found


def _id(row: Mapping[str, Any], spec: DatasetFile | None) -> str | None:
    for path in (spec.sample_id,) if spec is not None and spec.sample_id is not None else ID_FIELDS:
        value = lookup(row, path)[1]
        if isinstance(value, str) and value.strip() and len(value) <= 400:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return None


def _rows(path: str) -> Iterator[tuple[Any, str]]:
    extension = os.path.splitext(path)[1].lower()
    if extension == ".csv":
        return _csv_rows(path)
    if extension == ".parquet":
        return _parquet_rows(path)
    if extension == ".json":
        return _json_rows(path)
    if extension == ".jsonl":
        return _line_rows(path)
    raise InputError(
        "RUN-002",
        f"a dataset is no {extension or 'file without an extension'}.",
        where=path,
        fix="It is .jsonl, .json, .csv, .parquet or .yaml.",
    )


def _line_rows(path: str) -> Iterator[tuple[Any, str]]:
    for document in stream_documents(path):
        if isinstance(document, Unread):
            fault = document.fault
            raise InputError(fault.code, fault.message, where=path, fix=fault.fix, faults=[fault])
        yield document.tree, f"line {document.line}"


def _json_rows(path: str) -> Iterator[tuple[Any, str]]:
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


def _csv_rows(path: str) -> Iterator[tuple[Any, str]]:
    with open_input(path) as stream:
        try:
            text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
            reader = csv.DictReader(text, strict=True)
            names = reader.fieldnames or []
            if len(set(names)) != len(names):
                raise InputError("RUN-002", "two columns have one name.", where=path)
            for row in reader:
                if None in row or None in row.values():
                    raise InputError(
                        "RUN-002",
                        f"line {reader.line_num} has another number of columns than the first.",
                        where=path,
                    )
                yield dict(row), f"line {reader.line_num}"
            text.detach()
        except UnicodeDecodeError:
            raise InputError("FIL-002", "is not UTF-8 text.", where=path) from None
        except csv.Error as error:
            raise InputError("FIL-002", f"is no CSV: {error}.", where=path) from None


def _parquet_rows(path: str) -> Iterator[tuple[Any, str]]:
    try:
        import duckdb
    except ImportError:
        raise InputError(
            "RUN-004",
            "reading Parquet needs duckdb.",
            where=path,
            fix="pip install 'assay[parquet]'",
        ) from None
    with open_input(path):  # the same words for a file that is not there
        pass
    connection = duckdb.connect(
        config={"enable_external_access": "true", "autoinstall_known_extensions": "false"}
    )
    try:
        found = connection.execute("select * from read_parquet(?)", [path])
        names = [column[0] for column in found.description or ()]
        number = 0
        while rows := found.fetchmany(1000):
            for row in rows:
                number += 1
                yield (
                    {name: _plain(value) for name, value in zip(names, row, strict=True)},
                    f"row {number}",
                )
    except duckdb.Error as error:
        raise InputError(
            "FIL-002", f"is no Parquet that can be read: {str(error).splitlines()[0]}.", where=path
        ) from None
    finally:
        connection.close()


def _table_rows(table: Table, where: str) -> Iterator[tuple[Any, str]]:
    try:
        import sqlalchemy
    except ImportError:
        raise InputError(
            "RUN-004",
            "reading a table needs SQLAlchemy.",
            where=where,
            fix="pip install 'assay[store]'",
        ) from None
    try:
        engine = sqlalchemy.create_engine(table.url)
        with engine.connect() as connection:
            found = sqlalchemy.Table(table.name, sqlalchemy.MetaData(), autoload_with=connection)
            order = list(found.primary_key.columns) or [next(iter(found.columns))]
            for number, row in enumerate(
                connection.execute(sqlalchemy.select(found).order_by(*order)).mappings(), 1
            ):
                yield {name: _plain(value) for name, value in row.items()}, f"row {number}"
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        words = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise InputError(
            "RUN-002",
            f"the table {table.name!r} cannot be read: {type(error).__name__}: {words[:200]}.",
            where=where,
        ) from None


def _plain(value: Any) -> Any:
    """A value of a database as JSON has it: dates as text, bytes refused."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    from decimal import Decimal

    return (
        value
        if isinstance(value, Decimal)
        else value.isoformat()
        if hasattr(value, "isoformat")
        else str(value)
    )
