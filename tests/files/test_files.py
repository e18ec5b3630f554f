"""Reading what others wrote, and writing so that nothing is ever half there."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.errors import Fault, InputError, UsageError
from assay.errors.codes import CODES as CODES
from assay.families.tools.reading import source_of
from assay.files.atomic import atomic_write
from assay.files.inputs import file_digest
from assay.files.json_files import (
    MAX_LINE,
    Document,
    LineSplitter,
    OutOfRange,
    Unread,
    parse_json,
    parse_line,
    parse_wide_json,
    read_documents,
    read_json,
    show_path,
    stream_documents,
)
from assay.files.json_stream import stream_json, stream_lines
from assay.files.yaml_files import locate, parse_yaml, read_yaml
from assay.records.reading import read_run
from commands import run_code

ONE = '{"a": 1}'


def refused(path: Path) -> InputError:
    """The error with which a whole file is refused."""
    with pytest.raises(InputError) as caught:
        list(stream_documents(str(path)))
    assert caught.value.code in CODES
    assert caught.value.where == str(path)
    return caught.value


def yaml_refused(text: str | bytes) -> InputError:
    """The error with which a YAML text is refused."""
    with pytest.raises(InputError) as caught:
        parse_yaml(text.encode() if isinstance(text, str) else text, "shelf.yaml")
    assert caught.value.code in CODES
    assert "shelf.yaml" in str(caught.value)
    return caught.value


def yaml(text: str) -> Any:
    return parse_yaml(text.encode(), "shelf.yaml").tree


def yaml_or_refusal(data: bytes) -> Any:
    """The tree of a YAML text or the error it is refused with; any other error is a fault of
    ours.
    """
    try:
        return parse_yaml(data, "shelf.yaml").tree
    except InputError as error:
        return error


def fault_of(line: bytes) -> Fault:
    """The fault of one line of a stream."""
    found = parse_line(line, "runs.jsonl", 7)
    assert isinstance(found, Unread)
    assert (found.fault.file, found.fault.line) == ("runs.jsonl", 7)
    assert found.fault.code in CODES
    return found.fault


def stream(path: Path) -> list[Document | Unread]:
    return list(stream_documents(str(path)))


# --- JSON

json_numbers = st.one_of(
    st.integers(-(10**40), 10**40), st.decimals(allow_nan=False, allow_infinity=False)
)
json_trees = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(), json_numbers),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=15,
)


def write_json(tree: Any) -> str:
    """JSON by hand, so that a decimal is written with all its digits."""
    if isinstance(tree, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)}: {write_json(value)}" for key, value in tree.items())
            + "}"
        )
    if isinstance(tree, list):
        return "[" + ", ".join(map(write_json, tree)) + "]"
    return str(tree) if isinstance(tree, Decimal) else json.dumps(tree)


@given(json_trees)
def test_json_comes_in_as_it_was_written_with_every_number_exact(tree: Any) -> None:
    found = parse_json(write_json(tree).encode())
    assert found == tree
    assert repr(found) == repr(_as_read(tree))


def _as_read(tree: Any) -> Any:
    """A decimal that was written without point and exponent is a whole number."""
    if isinstance(tree, dict):
        return {key: _as_read(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_as_read(value) for value in tree]
    return int(tree) if isinstance(tree, Decimal) and not set(str(tree)) & set(".E") else tree


@pytest.mark.parametrize(
    "text", ["0.10", "1.50", "-0.0", "1E+2", "0.1234567890123456789012345678901234567890", "1E+300"]
)
def test_a_json_number_keeps_its_decimal_text(text: str) -> None:
    found = parse_json(text.encode())
    assert isinstance(found, Decimal)
    assert str(found) == text


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b'{"a": 1, "a": 2}', "FIL-003", 'the key "a" appears twice'),
        (b'{"x": [{"deep": {"k": 1, "k": 1}}]}', "FIL-003", 'the key "k" appears twice'),
        (b'{"a": 1, "\\u0061": 2}', "FIL-003", 'the key "a" appears twice'),
        (b"\xef\xbb\xbf{}", "FIL-002", "byte-order mark"),
        ('{"a": 1}'.encode("utf-16"), "FIL-002", "not UTF-8"),
        ('{"a": 1}'.encode("utf-16-le"), "FIL-002", "not UTF-8"),
        ('{"a": 1}'.encode("utf-16-be"), "FIL-002", "not UTF-8"),
        ('{"a": 1}'.encode("utf-32"), "FIL-002", "not UTF-8"),
        (b'{"a": "\xff"}', "FIL-002", "not JSON"),
        (b'{"a": "\xed\xa0\x80"}', "FIL-002", "not JSON"),
        (b'{"a": "\\ud800"}', "FIL-002", "not JSON"),
        (b'{"a": 1', "FIL-002", "ends in the middle"),
        (b'{"a": "tex', "FIL-002", "ends in the middle"),
        (b"[1, 2,", "FIL-002", "ends in the middle"),
        (b'{"a": NaN}', "FIL-002", "NaN is not a JSON number"),
        (b'{"a": Infinity}', "FIL-002", "Infinity is not a JSON number"),
        (b'{"a": -Infinity}', "FIL-002", "-Infinity is not a JSON number"),
        (b'{"a": 01}', "FIL-002", "not JSON"),
        (b'{"a": +1}', "FIL-002", "not JSON"),
        (b'{"a": .5}', "FIL-002", "not JSON"),
        (b'{"a": 1.}', "FIL-002", "not JSON"),
        (b'{"a": 0x1}', "FIL-002", "not JSON"),
        (b"{'a': 1}", "FIL-002", "not JSON"),
        (b'{"a": 1,}', "FIL-002", "not JSON"),
        (b'{"a": 1} {"b": 2}', "FIL-002", "not JSON"),
        (b'{"a": 1}}', "FIL-002", "not JSON"),
        (b'{"a": 1} // one', "FIL-002", "not JSON"),
        (b'{"a": "tab\there"}', "FIL-002", "not JSON"),
        (b"\x00", "FIL-002", "not UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "FIL-002", "not JSON"),
        (b'{"a": 1e99999999999999999999}', "FIL-002", "out of range"),
        (b"[" * 250 + b"]" * 250, "FIL-004", "nests more than 200 deep"),
        (b'{"a":' * 250 + b"1" + b"}" * 250, "FIL-004", "nests more than 200 deep"),
        (b"[" * 1_000_000, "FIL-004", "nests more than 200 deep"),
    ],
)
def test_a_line_that_is_no_json_is_a_fault_that_says_why(
    line: bytes, code: str, words: str
) -> None:
    fault = fault_of(line)
    assert fault.code == code
    assert words in fault.message
    assert len(fault.text()) < 300


def test_json_may_nest_200_deep() -> None:
    assert parse_json(b"[" * 200 + b"]" * 200)


@given(json_trees.filter(lambda tree: isinstance(tree, dict) and bool(tree)), st.data())
def test_no_beginning_of_an_object_is_taken_for_the_whole(tree: Any, data: st.DataObject) -> None:
    text = write_json(tree).encode()
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    assert isinstance(parse_line(cut, "runs.jsonl", 1), Unread)


@given(st.binary(max_size=60))
@example(b"\xff\xfe")
@example(b'{"a":"\xc3"}')
@example(b"\xef\xbb\xbf")
def test_no_line_of_bytes_is_anything_but_a_document_or_a_fault(line: bytes) -> None:
    found = parse_line(line, "f", 1)
    assert isinstance(found, Document | Unread)
    if isinstance(found, Unread):
        assert found.fault.text().startswith("line 1 ")


@given(st.lists(st.sampled_from([b"\n", b" ", b"\r\n", b"{}", b"[1", b"2]"])), st.data())
def test_lines_are_split_alike_however_they_arrive(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    expected = [(place, line) for place, line in enumerate(whole.split(b"\n"), 1) if line.strip()]
    splitter, found, left = LineSplitter(), [], whole
    while left:
        size = data.draw(st.integers(1, len(left)))
        found += splitter.feed(left[:size])
        left = left[size:]
    assert found + splitter.last() == expected


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("1e309", ()),
        ('{"a": [0, {"b": -1e400}]}', ("a", 1, "b")),
        ("[1e-400]", (0,)),
        ("[0e999999999]", (0,)),
        ("1.7976931348623159e308", ()),
        ("9" * 309, ()),
    ],
)
def test_a_number_that_no_double_holds_is_refused_by_every_reader_of_json(
    tmp_path: Path, text: str, path: tuple[Any, ...]
) -> None:
    data = text.encode()
    for read in (parse_json, parse_wide_json):
        with pytest.raises(OutOfRange, match="out of range") as caught:
            read(data)
        assert caught.value.path == path
    fault = fault_of(data)
    assert (fault.code, fault.path) == ("FIL-002", show_path(path))
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(InputError, match="out of range"):
        list(stream_json(str(tmp_path / "a.json"), [()]))
    for read_lines in (stream_lines, read_documents):
        (tmp_path / "a.jsonl").write_bytes(b"{}\n" + data)
        with pytest.raises(InputError, match="out of range"):
            list(read_lines(str(tmp_path / "a.jsonl")))


@pytest.mark.parametrize(
    "text", ["1.7976931348623157e308", "-1e308", "5e-324", "9" * 308, "0", "-0.0", "0.00"]
)
def test_a_number_that_a_double_holds_is_read(text: str) -> None:
    assert Decimal(parse_json(text.encode())) == Decimal(text)


def test_a_line_that_is_cut_off_names_the_column_where_it_ends_also_before_a_line_end() -> None:
    assert "(column 7)" in fault_of(b'{"a": 1').message
    assert "(column 7)" in fault_of(b'{"a": 1\n').message


# --- files of JSON


def test_a_json_file_holds_one_document_or_a_list_of_them(tmp_path: Path) -> None:
    one, many = tmp_path / "one.json", tmp_path / "many.json"
    one.write_text('{\n  "a": 1\n}\n')
    many.write_text('[\n {"a": 1},\n {"a": 2}\n]')
    assert [document.tree for document in stream(one) if isinstance(document, Document)] == [
        {"a": 1}
    ]
    assert [
        (document.tree, document.file, document.at)
        for document in stream(many)
        if isinstance(document, Document)
    ] == [
        ({"a": 1}, str(many), "[0]"),
        ({"a": 2}, str(many), "[1]"),
    ]
    assert read_json(str(one)).tree == {"a": 1}


def test_the_lines_of_a_stream_are_numbered_as_an_editor_numbers_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b'{"a": 1}\n\n  \t\n{"a": 4}\r\n\r\n{broken\n{"a": 7}\n\n{"a": 9}')
    found = stream(path)
    assert [
        document.line if isinstance(document, Document) else -document.fault.line
        for document in found
    ] == [1, 4, -6, 7, 9]
    assert [document.tree["a"] for document in found if isinstance(document, Document)] == [
        1,
        4,
        7,
        9,
    ]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.ndjson", "runs.txt", "runs"])
def test_lines_are_read_from_any_name_that_is_not_a_json_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text('{"a": 1}\n{"a": 2}\n')
    assert [
        (document.tree["a"], document.line)
        for document in stream(path)
        if isinstance(document, Document)
    ] == [(1, 1), (2, 2)]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.json", "runs.txt"])
@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n \t\r\n"], ids=repr)
def test_an_empty_file_and_blank_lines_hold_no_document(
    tmp_path: Path, name: str, data: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert stream(path) == []


def test_one_document_that_must_be_there_is_missed_in_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_bytes(b" \n")
    with pytest.raises(InputError, match=r"the file is empty") as caught:
        read_json(str(path))
    assert caught.value.code == "FIL-005"


def test_a_fault_deep_in_a_json_file_is_reported_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text('{\n  "a": 1,\n  "b": {\n    "c": 2,\n    "c": 3\n  }\n}\n')
    error = refused(path)
    assert error.code == "FIL-003"
    assert [fault.line for fault in error.faults] == [5]
    path.write_text('{\n  "a": 1,\n  "b": [1, 2\n')
    assert "ends in the middle" in str(refused(path))


def test_two_documents_in_one_json_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    path.write_text(f"{ONE}\n{ONE}\n")
    error = refused(path)
    assert [fault.line for fault in error.faults] == [2]


def test_a_missing_file_is_named_with_its_near_miss(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(ONE)
    error = refused(tmp_path / "rnus.jsonl")
    assert error.code == "FIL-001"
    assert f"Did you mean '{tmp_path / 'runs.jsonl'}'?" in error.message
    (tmp_path / "runs.json").write_text(ONE)
    assert "runs.jsonl'?" in refused(tmp_path / "rnus.jsonl").message
    assert "runs.json'?" in refused(tmp_path / "Runs.json").message


@pytest.mark.parametrize(
    "name", ["zzz", "ruling.jsonl", "v1.jsonl", "no/such/folder/runs.jsonl", "nul\x00.json"]
)
def test_a_missing_file_unlike_any_other_is_named_without_a_guess(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "runs.jsonl").write_text(ONE)
    error = refused(tmp_path / name)
    assert error.code == "FIL-001"
    assert "Did you mean" not in error.message


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert error.code == "FIL-001"
    assert "is a directory" in error.message


def bytes_read() -> int:
    """How many bytes this process has read so far."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.skipif(
    not os.path.exists("/proc/self/io"), reason="counts bytes read, which only Linux tells"
)
def test_an_endless_line_is_refused_without_reading_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{ONE}\n")
    os.truncate(path, 4 * 1024**3)  # a hole in the file: four GiB of zeros that take no room
    before = bytes_read()
    good, bad = stream(path)
    assert bytes_read() - before < MAX_LINE + 8 * 1024**2
    assert isinstance(good, Document)
    assert isinstance(bad, Unread)
    assert (bad.fault.code, bad.fault.line) == ("FIL-004", 2)
    assert "longer than 64 MiB" in bad.fault.message


@pytest.mark.parametrize("name", ["card.json", "card.txt"])
@pytest.mark.skipif(
    not os.path.exists("/proc/self/io"), reason="counts bytes read, which only Linux tells"
)
def test_a_json_file_beyond_the_limit_is_refused_without_reading_it_all(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text("{\n")
    os.truncate(path, 4 * 1024**3)
    before = bytes_read()
    assert refused(path).code == "FIL-004"
    assert bytes_read() - before < MAX_LINE + 8 * 1024**2


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full", "/dev/null"])
def test_a_device_is_refused_and_not_read_without_end(tmp_path: Path, device: str) -> None:
    path = tmp_path / f"{Path(device).name}.jsonl"
    path.symlink_to(device)
    assert "is a device" in refused(path).message
    with pytest.raises(InputError, match="is a device"):
        file_digest(str(path))


@pytest.mark.skipif(
    not os.path.exists("/proc/self/mem"), reason="needs a file that opens and cannot be read"
)
def test_a_file_that_opens_and_cannot_be_read_is_an_error_of_the_input(tmp_path: Path) -> None:
    for name in ("runs.jsonl", "card.json", "shelf.yaml", "schema.mjs"):
        path = tmp_path / name
        path.symlink_to("/proc/self/mem")
        reader = {".yaml": read_yaml, ".mjs": source_of}.get(path.suffix, read_json)
        with pytest.raises(InputError, match=f"{name}: cannot be read: Input/output error."):
            reader(str(path))
    assert "cannot be read" in refused(tmp_path / "runs.jsonl").message


@given(st.integers(1, 300_000), st.sampled_from(["x", "a word ", "\x00", "\U0001f600"]))
def test_a_message_does_not_grow_with_what_it_quotes(length: int, text: str) -> None:
    quoted = text * (length // len(text))
    tree = {"schema": "assay.run/1", quoted: 1, "run_id": {quoted: quoted}, "status": quoted}
    with pytest.raises(InputError) as caught:
        read_run(Document(tree, "runs.jsonl", 3))
    assert len(caught.value.faults) > 3
    for fault in caught.value.faults:
        assert len(fault.message) + len(fault.path) + len(fault.fix) < 3_000
    assert "the key 'workflow' is missing" in str(caught.value)


def test_a_line_of_the_longest_length_is_read() -> None:
    longest = b'"' + b"x" * (MAX_LINE - 2) + b'"'
    assert isinstance(parse_line(longest, "f", 1), Document)
    assert isinstance(parse_line(longest + b" ", "f", 1), Unread)


STDIN = """
from assay.files.json_files import Document, stream_documents
for found in stream_documents("-"):
    print(found.tree, found.file, found.line) if isinstance(found, Document) else print(found.fault.text(), found.fault.file)
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{\n "a": 1\n}\n', "{'a': 1} <stdin> None\n"),
        ('{"a": 1}\n{"a": 2}\n', "{'a': 1} <stdin> 1\n{'a': 2} <stdin> 2\n"),
        ('{"a": 1}\n\n{"a"\n{"a": 4}', "{'a': 1} <stdin> 1\nline 3 not JSON"),
        ('[{"a": 1},\n{"a": 2}]', "{'a': 1} <stdin> None\n{'a': 2} <stdin> None\n"),
        ("", ""),
    ],
)
def test_standard_input_is_read_as_one_document_or_as_lines(text: str, shown: str) -> None:
    done = run_code(STDIN, cwd=Path.cwd(), stdin=text.encode())
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(shown)
    assert bool(done.out) == bool(shown)


# --- YAML


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "no",
        "on",
        "off",
        "Yes",
        "NO",
        "y",
        "n",
        "012",
        "0o14",
        "0x1F",
        "0b1",
        "1:30",
        "1:30:45",
        "1_000",
        "1.",
        "5.",
        ".",
        "..",
        "1e",
        "e5",
        "E10",
        "-e5",
        ".e5",
        "+",
        ".inf",
        "-.inf",
        ".nan",
        "NaN",
        "2026-02-08",
        "2026-02-08T10:00:00Z",
        "=",
        "<<",
        "1.2.3",
        "1-2",
        "00",
        "-01",
        "٣",
        "1٣",
        "0.5x",
        "TRUE",
        "nULL",
    ],
)
def test_a_word_stays_a_word(word: str) -> None:
    assert yaml(f"a: {word}") == {"a": word}
    assert yaml(f"- {word}") == [word]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("false", False),
        ("True", True),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("12345678901234567890", 12345678901234567890),
    ],
)
def test_null_the_two_truths_and_whole_numbers_are_what_they_say(text: str, value: Any) -> None:
    found = yaml(f"a: {text}")["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["'true'", '"null"', "'12'", '"0.5"', "''", "'~'", '"1e5"'])
def test_what_is_quoted_is_text(text: str) -> None:
    assert yaml(f"a: {text}") == {"a": text[1:-1]}


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
@example(Decimal("0.35"))
@example(Decimal("0.1234567890123456789012345678901234567890"))
@example(Decimal("1E+30"))
@example(Decimal("1E-7"))
@example(Decimal("89.995"))
def test_a_yaml_number_is_worth_exactly_what_was_written(value: Decimal) -> None:
    text = str(value)
    found = yaml(f"a: {text}")["a"]
    assert isinstance(found, int | Decimal)
    assert found == value


@pytest.mark.parametrize(
    "text",
    ["1e400", "-1e400", "1e30", "1e99999999999999999999", "9" * 99, "0." + "9" * 99, "1e-400"],
)
def test_no_number_of_any_size_is_a_fault_of_ours(text: str) -> None:
    found = yaml_or_refusal(f"a: {text}".encode())
    assert (
        isinstance(found, InputError) or isinstance(found["a"], str) or found["a"] == Decimal(text)
    )


plain_words = st.text(
    alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "S")) | st.just(" "),
    max_size=12,
)


@given(
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            plain_words,
            st.integers(-(10**20), 10**20),
            st.decimals(-1000, 1000, places=4),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(plain_words, inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_json_is_yaml_and_means_the_same(tree: Any) -> None:
    text = json.dumps(tree, ensure_ascii=False, default=lambda number: float(number))
    assert yaml(text) == json.loads(text, parse_float=Decimal)


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "a"),
        ("top:\n  a: 1\n  a: 1\n", 3, "a"),
        ("list:\n  - x: 1\n  - x: 1\n    y: 2\n    x: 3\n", 5, "x"),
        ("a: {b: 1,\n  b: 2}\n", 2, "b"),
        ("1: one\n'1': other\n", 2, "1"),
        ("a: {deep: [1, {c: 1, c: 2}]}\n", 1, "c"),
    ],
)
def test_a_yaml_key_that_stands_twice_is_refused_at_its_line(
    text: str, line: int, key: str
) -> None:
    error = yaml_refused(text)
    assert error.code == "FIL-003"
    assert [(fault.line, fault.file) for fault in error.faults] == [(line, "shelf.yaml")]
    assert f"the key '{key}' appears twice" in error.faults[0].message


def test_all_keys_that_stand_twice_are_told_at_once() -> None:
    assert [fault.line for fault in yaml_refused("a: 1\na: 2\nb:\n  c: 1\n  c: 2\n").faults] == [
        2,
        5,
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "alias"),
        ("a: *x\n", "alias"),
        ("a: &x [1]\n", "anchors are not allowed"),
        ("a: &x {b: 1}\n", "anchors are not allowed"),
        ("a: &x 5\n", "anchors are not allowed"),
        ("&x a: 5\n", "anchors are not allowed"),
        ("a: !!str 5\n", "is not allowed"),
        ("a: !!python/object/apply:os.system ['id']\n", "not allowed"),
        ("a: !secret x\n", "not allowed"),
        ("a: !!binary aGk=\n", "not allowed"),
        ("a: !!float 1\n", "not allowed"),
        ("!!map {a: 1}\n", "not allowed"),
        ("a: 1\n---\nb: 2\n", "second document"),
        ("--- {}\n--- {}\n", "second document"),
        ("? [x, y]\n: 1\n", "a key must be a plain word"),
        ("? {x: 1}\n: 1\n", "a key must be a plain word"),
        ("a: [1\n", "not YAML"),
        ("a: 'x\n", "not YAML"),
        ("a: 'x\r\r", "not YAML"),
        ("a: [\x85", "not YAML"),
        ("a:\n\t- 1\n", "Indent with spaces instead of the tab."),
        ("a: b: c\n", "not YAML"),
        ("a: \x07\n", "not YAML"),
        ("%YAML 9.9\n---\na: 1\n", "not YAML"),
    ],
)
def test_yaml_beyond_plain_values_is_refused(text: str, words: str) -> None:
    assert words in str(yaml_refused(text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\n\nb: *x\n", 3),
        ("a: 1\nb: 2\nc: d: e\n", 3),
        ("a: 1\nb: 2\n---\nc: 3\n", 3),
        ("a: 1\nb:\n  c: !t x\n", 3),
        ("a: 1\nb: &x [1]\n", 2),
    ],
)
def test_what_yaml_is_refused_for_is_told_with_its_line(text: str, line: int) -> None:
    assert f"line {line}" in str(yaml_refused(text))


@pytest.mark.parametrize(
    "data", ["a: é".encode("latin-1"), "a: 1".encode("utf-16"), b"\xff\xfe", b"a: \x80"]
)
def test_yaml_that_is_not_utf_8_is_refused(data: bytes) -> None:
    assert "UTF-8" in str(yaml_refused(data))


def test_a_byte_order_mark_never_becomes_part_of_a_yaml_key() -> None:
    assert yaml("\ufeffa: 1") == {"a": 1}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a remark\n", "%YAML 1.2\n"])
def test_yaml_without_a_document_is_refused(text: str) -> None:
    assert yaml_refused(text).code in ("FIL-005", "FIL-002")


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a: ", "}")])
def test_yaml_may_nest_40_deep_and_no_deeper(opening: str, closing: str) -> None:
    assert yaml(opening * 40 + closing * 40)
    error = yaml_refused(opening * 41 + closing * 41)
    assert error.code == "FIL-004"
    assert "nests more than 40 deep at line 1" in error.message
    assert yaml_refused(opening * 200_000).code == "FIL-004"


def test_yaml_beyond_a_mebibyte_is_refused() -> None:
    assert yaml_refused("a: " + "x" * 1024 * 1024).code == "FIL-004"


def test_every_part_of_a_yaml_document_knows_its_line() -> None:
    document = parse_yaml(
        b"# remark\na: 1\nlist:\n  - x: 1\n\n  - x: 2\n    y: {z: 3}\n", "shelf.yaml"
    )
    assert document.file == "shelf.yaml"
    assert document.lines is not None
    expected = {
        ("a",): 2,
        ("list",): 3,
        ("list", 0): 4,
        ("list", 0, "x"): 4,
        ("list", 1): 6,
        ("list", 1, "x"): 6,
        ("list", 1, "y"): 7,
        ("list", 1, "y", "z"): 7,
    }
    assert {path: line for path, line in document.lines.items() if path} == expected


@given(st.text(max_size=40))
@example("a: e5")
@example("? ")
@example("a: |\n  x\n")
@example("- - -")
@example("{,}")
def test_no_yaml_text_is_anything_but_a_document_or_refused(text: str) -> None:
    found = yaml_or_refusal(text.encode("utf-8", "surrogatepass"))
    if isinstance(found, InputError):
        assert found.code in CODES
    else:
        json.dumps(found, default=str)


def test_every_part_of_a_json_text_is_found_at_its_line() -> None:
    text = '{\n  "a": 1e30,\n  "list": [\n    {"x": 0.5},\n    {"y": "e5"}\n  ]\n}\n'
    assert locate(text.encode()) == {
        "": 1,
        "a": 2,
        "list": 3,
        "list[0]": 4,
        "list[0].x": 4,
        "list[1]": 5,
        "list[1].y": 5,
    }


def test_a_path_is_shown_as_people_write_it() -> None:
    assert show_path(("criteria", 1, "anchors", "4")) == "criteria[1].anchors.4"
    assert show_path(()) == ""


# --- writing


def test_a_file_takes_its_name_only_when_the_block_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with atomic_write(str(path)) as out:
        out.write(b"new")
        out.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.json"]


def test_an_old_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(b"old and longer")
    with atomic_write(str(path)) as out:
        out.write(b"new")
        out.flush()
        assert path.read_bytes() == b"old and longer"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.json"]


def write_and_fail(path: Path, error: BaseException) -> None:
    with atomic_write(str(path)) as out:
        out.write(b"x" * 3_000_000)
        out.flush()
        raise error


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("old", [b"old", None])
def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: BaseException, old: bytes | None
) -> None:
    path = tmp_path / "out.json"
    if old is not None:
        path.write_bytes(old)
    with pytest.raises(type(error)):
        write_and_fail(path, error)
    assert os.listdir(tmp_path) == ([] if old is None else ["out.json"])
    if old is not None:
        assert path.read_bytes() == old


KILLED = """
import sys
from assay.files.atomic import atomic_write
with atomic_write(sys.argv[1]) as out:
    out.write(b"x" * 3_000_000)
    out.flush()
    print("half", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("old", [b"old", None])
def test_a_process_killed_in_the_middle_of_writing_leaves_the_old_file(
    tmp_path: Path, old: bytes | None
) -> None:
    path = tmp_path / "out.json"
    if old is not None:
        path.write_bytes(old)
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert (path.read_bytes() if path.exists() else None) == old
    # Nobody can tidy up after SIGKILL; what is left must not pass for a result.
    left = [name for name in os.listdir(tmp_path) if name != "out.json"]
    assert all(name.startswith(".") and name.endswith(".part") for name in left)
    assert [found.name for found in tmp_path.glob("*.json")] == (
        [] if old is None else ["out.json"]
    )
    with atomic_write(str(path)) as out:
        out.write(b"new")
    assert path.read_bytes() == b"new"


def test_a_new_file_has_the_rights_that_the_umask_leaves(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    before = os.umask(0o027)
    try:
        with atomic_write(str(path)) as out:
            out.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    with atomic_write(str(tmp_path / "a" / "b" / "out.json")) as out:
        out.write(b"x")
    assert (tmp_path / "a" / "b" / "out.json").read_bytes() == b"x"


@pytest.mark.parametrize("name", ["file/out.json", "x" * 300 + ".json"])
def test_a_place_that_cannot_be_written_is_a_misuse_that_names_it(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(UsageError, match="cannot be written") as caught,
        atomic_write(str(tmp_path / name)),
    ):
        pass
    assert caught.value.code == "FIL-008"
    assert caught.value.where == str(tmp_path / name)
    assert os.listdir(tmp_path) == ["file"]
