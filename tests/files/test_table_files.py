"""Tables that other programs wrote: the same rows from every layout, and clear words for the rest."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError
from assay.files.tables import table_columns, table_rows
from assay.importers.head import Head

RECORDS = '[{"q": "a", "f": 0.50}, {"q": "b", "f": null}]'
LAYOUTS = {
    "records.json": RECORDS,
    "lines.jsonl": '{"q": "a", "f": 0.50}\n\n{"q": "b", "f": NaN}\n',
    "lines.txt": '{"q": "a", "f": 0.50}\n{"q": "b", "f": null}\n',
    "split.json": '{"columns": ["q", "f"], "index": [0, 1], "data": [["a", 0.50], ["b", null]]}',
    "columns.json": '{"q": {"0": "a", "1": "b"}, "f": {"0": 0.50, "1": null}}',
}


def _rows(path: Path) -> list[Any]:
    return [row for row, _ in table_rows(str(path))]


@pytest.mark.parametrize(("name", "text"), list(LAYOUTS.items()))
def test_every_json_layout_has_the_same_rows_and_columns(
    tmp_path: Path, name: Any, text: Any
) -> None:
    wanted = [{"q": "a", "f": Decimal("0.50")}, {"q": "b", "f": None}]
    path = tmp_path / name
    path.write_text(text)
    assert _rows(path) == wanted, name
    assert Head(name, text.encode()).columns == {"q", "f"}, name


def test_csv_may_use_commas_tabs_or_semicolons_and_quote_newlines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for sign in ",\t;":
        path.write_bytes(f'\ufeffq{sign}f\r\n"a\nb"{sign}1\r\n\r\n'.encode())
        assert _rows(path) == [{"q": "a\nb", "f": "1"}]
        assert table_columns(path.read_bytes(), str(path)) == ["q", "f"]


def test_parquet_is_read_without_opening_any_other_file(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "day=1").mkdir()
    path = tmp_path / "day=1" / "t.parquet"
    query = "select 'a' as q, ['x'] as c, 0.5::double as f, date '2026-01-02' as d union all select 'b', null, 'nan'::double, null"
    duckdb.execute(f"copy ({query}) to '{tmp_path / 'made'}' (format parquet)")
    (tmp_path / "made").rename(path)
    assert _rows(path) == [
        {"q": "a", "c": ["x"], "f": 0.5, "d": "2026-01-02"},
        {"q": "b", "c": None, "f": None, "d": None},
    ]
    assert Head(str(path), path.read_bytes()).columns == {"q", "c", "f", "d"}
    pattern = tmp_path / "day=1" / "[t]*.parquet"
    pattern.write_bytes(path.read_bytes())
    with pytest.raises(AssayError, match="Cannot access file"):  # it would be all that match
        _rows(pattern)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(AssayError, match="Parquet"):
        _rows(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"q,f\na\n", "line 2 has 1 instead of 2 columns"),
        (b"q,q\na,b\n", "same name, 'q'"),
        (b"q,,\na,,\n", "two columns have no name. Rename one, or remove it."),
        (b'q,f\n"a,b\n', "not CSV"),
        ("q,f\na,ü\n".encode() + "b,ü\n".encode("latin-1"), "line 3 is not UTF-8 text (byte 0xfc)"),
        ("q,f\na,b\n".encode("utf-16"), "UTF-16"),
        (b'{"columns": ["q"], "data": [["a"], ["b", "c"]]}', "data[1] has other columns"),
        (b'{"columns": ["q"], "data": 1}', "not a list of rows"),
        (b'{"columns": 1, "data": []}', "not a list of names"),
        (b'{"q": {"0": 1}, "f": {"1": 1}}', "other rows"),
        (b'[{"q": 1}, {"q": ', "cut off"),
        (b'[{"q": 1, "q": 2}]', "twice"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, data: Any, words: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(AssayError) as caught:
        _rows(path)
    assert words in str(caught.value), data
