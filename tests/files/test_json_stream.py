"""JSON read piece by piece gives what reading it whole gives, and the same refusals."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import InputError
from assay.files import json_stream
from assay.files.json_stream import loads, stream_json, stream_lines

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


class Dripping(io.BytesIO):
    """Gives a few bytes at a time, whatever is asked for."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(3)


def streamed(data: bytes, *each: tuple[str, ...]) -> list:
    return list(stream_json("x.json", each, opened=Dripping(data)))


@given(TREES)
def test_a_document_in_small_pieces_is_the_same_document(tree) -> None:
    data = json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    assert streamed(data) == [((), tree)]
    if isinstance(tree, list):
        assert [value for _, value in streamed(data, ())] == tree
    if isinstance(tree, dict):
        assert {place[0]: value for place, value in streamed(data, ("*",))} == tree


@pytest.mark.parametrize("text", [b"0.25", b"1E+2", b"-1e-05", b"10.0", b"12345678"])
def test_a_number_that_two_reads_share_is_one_number(text: bytes) -> None:
    for blanks in range(4):
        data = b"[" + b" " * blanks + text + b"]"
        assert streamed(data, ()) == [((0,), json.loads(text, parse_float=Decimal))]


def test_lists_at_their_places_come_one_by_one() -> None:
    data = b'{"v": 3, "results": {"stats": {"n": 2}, "results": [{"a": 0.10}, 12345]}, "end": NaN}'
    assert streamed(data, ("results", "results"), ("results",)) == [
        (("v",), 3),
        (("results", "stats"), {"n": 2}),
        (("results", "results", 0), {"a": Decimal("0.10")}),
        (("results", "results", 1), 12345),
        (("end",), None),
    ]


BAD = {
    b"": "empty",
    b'{"results": [1, 2': "cut off",
    b'{"results": [1 2]}': "comma",
    b'{"results": [1], "results": [2]}': "twice",
    b'{"results": [{"a": 1, "a": 2}]}': "twice",
    b'{"results": [1]} x': "more after the end",
    b"{results: [1]}": "not JSON",
    b'{"results": ["\xe9"]}': "UTF-8",
    b'{"results": [' + b"[" * 100_000: "",
}


@pytest.mark.parametrize(("data", "words"), list(BAD.items()))
def test_what_is_wrong_is_refused_with_its_place(data: Any, words: Any) -> None:
    with pytest.raises(InputError) as caught:
        streamed(data, ("results",))
    assert words in str(caught.value), data
    assert "x.json" in caught.value.where, data


def test_a_fault_is_named_where_it_is_and_not_taken_for_a_cut_off_file() -> None:
    data = b'[{"a": 1},\n {"a": 2},\n {"a" 3},\n {"a": 4}\n\n]'
    with pytest.raises(InputError, match="expecting ':' delimiter") as caught:
        list(stream_json("x.json", [()], opened=io.BytesIO(data)))
    assert (caught.value.where, caught.value.fix) == ("x.json:3", "")
    whole = b'[{"a": 1},\n {"a": [-1.5e3, null, "\\u00e9"]}]'
    for end in range(1, len(whole)):
        with pytest.raises(InputError, match="cut off"):
            list(stream_json("x.json", [()], opened=io.BytesIO(whole[:end])))


def test_a_line_with_a_key_twice_is_refused_however_it_is_spelled() -> None:
    for text in (b'{"a": 1, "a": 2}', b'{"a": "\\u0022", "b": {"c": 1, "\\u0063": "\\u0022"}}'):
        with pytest.raises(InputError, match="twice"):
            loads(text, "x.jsonl", 1)
    assert loads(b'{"a": "\\u0022", "\\u0062": "\\""}', "x.jsonl") == {"a": '"', "b": '"'}


def test_a_value_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_LINE", 1000)
    with pytest.raises(InputError, match="larger"):
        streamed(b'["' + b"x" * 5000, ())


def test_lines_and_half_pairs() -> None:
    lines = list(stream_lines("x", opened=io.BytesIO(b'\xef\xbb\xbf{"a": "\\ud800"}\n\n[1]\n')))
    assert lines == [(1, {"a": "\ufffd"}), (3, [1])]
    with pytest.raises(InputError, match="not JSON") as caught:
        loads(b'{"a": }', "x.jsonl", 7)
    assert caught.value.where == "x.jsonl:7"


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InputError, match="too many digits"):
        loads(b'{"a": ' + b"9" * 5000 + b"}", "x")


DIGITS = st.text("0123456789", min_size=1, max_size=40)
SPELLINGS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.sampled_from(["0", "1", "10", "9" * 30]) | DIGITS.map(lambda text: "1" + text),
    st.just("") | DIGITS.map(lambda text: "." + text),
    st.just("")
    | st.builds("{}{}".format, st.sampled_from(["e", "E", "e+", "E-", "e-00"]), DIGITS)
    | st.sampled_from(["e999999999999999999999", "E+2", "e-99999", "e0002"]),
)


@settings(max_examples=60)
@given(SPELLINGS)
def test_a_number_is_read_as_it_is_written_or_refused_with_its_place(text) -> None:
    data = b'{"a": 1,\n "b": ' + text.encode() + b"}"
    try:
        exponent = Decimal(text).adjusted()
    except ArithmeticError:
        exponent = 10**18
    if exponent > 308 or exponent < -324:
        for read in (lambda: loads(data, "x.json"), lambda: streamed(data, ("*",))):
            with pytest.raises(InputError, match="out of range") as caught:
                read()
            assert caught.value.where.startswith("x.json:")
    elif exponent < 308:
        read = loads(data, "x.json")["b"]
        assert Decimal(read) == Decimal(text)
        assert streamed(data, ("*",)) == [(("a",), 1), (("b",), read)]
