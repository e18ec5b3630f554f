"""Canonical JSON: one text for each document, whatever its keys' order and its numbers'
spelling.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.canon import canonical, digest, in_order, number_text, sort_canonically
from assay.files.json_files import parse_json


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record with a default that is left out, a renamed key and a nested value."""

    zeta: Any
    alpha: Any = None
    source: str = msgspec.field(name="from", default="here")


# Texts that a careless rewriting of numbers, or a careless order of keys, would break.
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            '"',
            "\\",
            '\\"',
            '"1.0"',
            "1.0",
            "4e0",
            "1E5,",
            "-0",
            ":1.50",
            '{"a":2.0}',
            "\n",
            "\x00",
            "\x1f",
            "\x7f",
            "\u2028",
        ]
    ),
    st.sampled_from(["é", "\ue000", "\uffff", "😀", "\U00010000", "\U0010ffff", "😀1.0"]),
)
numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [
            0,
            -0.0,
            Decimal("-0"),
            Decimal("0E+5"),
            Decimal("-0.00"),
            Decimal("1E+2"),
            Decimal("100"),
            1e21,
            1e20,
            1e-6,
            1e-7,
            5e-324,
            1e308,
        ]
    ),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(texts, inner, max_size=4),
        st.builds(Point, inner, inner, texts),
        st.tuples(inner, inner),
    ),
    max_leaves=12,
)


@given(trees)
@example({"😀": 1, "\uffff": 2})
@example({"a": "1.0", "b": 1.0, "c": '\\"2.0', "d": 2.50})
@example([1e16, 1e17, 123456789012345680.0, 2**53 + 1, Decimal("0.0000010"), 1e-5, 0.00001234])
@example(
    {
        "a": ":5.0,",
        "b": 5.0,
        "": 6.0,
        ",": 7.0,
        "c:": 8.0,
        "[": 9.0,
        "d": "{:1.0}",
        "e": "x:2.0,",
        "f": ["", ":3.0,", 4.0, {"g": 10.0}],
        "h": ",:5.0}",
    }
)
@example(
    {
        "a": 100.0,
        "b": 1000.0,
        "c": -5.0,
        "d": -0.0,
        "e": 0.0,
        "f": 12.0,
        "g": Decimal("7.0"),
        "h": Decimal("7.00"),
        "i": ["7.0,", 7.0],
    }
)
def test_the_canonical_text_is_what_its_definition_says(tree: Any) -> None:
    assert canonical(tree) == _defined(tree).encode("utf-8", "surrogatepass")


def _defined(value: Any) -> str:
    """The canonical text, value by value."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_defined, value)) + "]"
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_defined(key)}:{_defined(value[key])}" for key in keys) + "}"
    return _defined(msgspec.to_builtins(value, builtin_types=(Decimal,)))


@given(trees)
@example({"\uffff": 1, "😀": {"b": Decimal("4.0"), "a": [Decimal("0.10"), Decimal("1E+30")]}})
def test_what_is_put_in_order_is_what_the_canonical_text_reads_as(tree: Any) -> None:
    read = parse_json(json.dumps(_exact_text(tree)).encode())
    assert str(in_order(read)) == str(parse_json(canonical(read)))


def _exact_text(tree: Any) -> Any:
    """The tree as JSON can carry it: its numbers as floats or whole numbers below 10**21."""
    if isinstance(tree, Point):
        tree = msgspec.to_builtins(tree, builtin_types=(Decimal,))
    if isinstance(tree, dict):
        return {key: _exact_text(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_exact_text(value) for value in tree]
    if isinstance(tree, Decimal):
        return float(tree)
    return tree if not isinstance(tree, int) or abs(tree) < 10**21 else str(tree)


@given(trees)
def test_the_canonical_text_is_json_that_means_the_same_document(tree: Any) -> None:
    text = canonical(tree)
    plain = msgspec.to_builtins(tree, builtin_types=(Decimal,))
    assert _exact(json.loads(text, parse_float=Decimal, parse_int=Decimal)) == _exact(plain)
    assert canonical(parse_json(text)) == text, (
        "what was written must come back as the same document"
    )


def _exact(tree: Any) -> Any:
    """The tree with every number exact and marked, so that 1 and true differ and 1 and 1.0 do
    not.
    """
    if isinstance(tree, bool) or tree is None or isinstance(tree, str):
        return tree
    if isinstance(tree, dict):
        return {key: _exact(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_exact(value) for value in tree]
    number = Decimal(repr(tree)) if isinstance(tree, float) else Decimal(tree)
    sign, digits, exponent = number.as_tuple()
    while digits and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    return ("number", digits and sign, digits, digits and exponent)


@given(st.dictionaries(texts, leaves, max_size=6), st.randoms())
def test_the_order_in_which_keys_were_written_does_not_count(
    tree: dict[str, Any], random: Any
) -> None:
    keys = list(tree)
    random.shuffle(keys)
    assert canonical({key: tree[key] for key in keys}) == canonical(tree)


@given(st.lists(texts, unique=True, max_size=8))
@example(["\uffff", "😀", "\ue000", "é", "z", ""])
def test_keys_stand_in_the_order_of_their_utf_16_units(keys: list[str]) -> None:
    written = json.loads(
        canonical(dict.fromkeys(keys)), object_pairs_hook=lambda pairs: [key for key, _ in pairs]
    )
    assert (written or []) == sorted(keys, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def test_there_is_no_space_between_the_parts() -> None:
    assert canonical({"b": [1, 2, {"c": None}], "a": True}) == b'{"a":true,"b":[1,2,{"c":null}]}'


@pytest.mark.parametrize(
    "spellings",
    [
        ["4", "4.0", "4e0", "4.000", "40e-1", "0.4E1", "0.4e+1"],
        ["0", "-0", "0.0", "-0.0", "0e10", "0E-10"],
        ["100", "1e2", "1E+2", "100.00"],
        ["0.1", "0.10", "1e-1", "1E-1"],
        ["1e300", "10e299", "1.0E+300"],
        ["123456789012345678901234567890", "1.2345678901234567890123456789e29"],
        ["0.00000012345", "1.2345e-7", "1.23450E-7"],
    ],
)
def test_a_number_has_one_digest_however_it_was_spelled(spellings: list[str]) -> None:
    assert len({digest(parse_json(f'{{"a": [{text}]}}'.encode())) for text in spellings}) == 1


def test_two_numbers_that_one_double_would_hold_have_two_digests() -> None:
    assert float("0.1234567890123456789") == float("0.12345678901234568")
    assert digest(Decimal("0.1234567890123456789")) != digest(Decimal("0.12345678901234568"))
    assert digest(2**53) != digest(2**53 + 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (0, None),
        ("1", 1),
        ("", None),
        ([], {}),
        ([1, 2], [2, 1]),
        ({"a": 1}, {"a": None}),
        ("é", "e\u0301"),
    ],
)
def test_documents_that_differ_have_different_digests(one: Any, other: Any) -> None:
    assert digest({"x": one}) != digest({"x": other})


# What ECMAScript's Number.prototype.toString gives, from its specification.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.0, "4"),
        (-4, "-4"),
        (0.5, "0.5"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (1.5e300, "1.5e+300"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (Decimal("1E+2"), "100"),
        (Decimal("0.00"), "0"),
        (10**22, "1e+22"),
        (10**21 - 1, "999999999999999999999"),
        (Decimal("-12.340"), "-12.34"),
    ],
)
def test_a_number_is_spelled_as_ecmascript_spells_it(value: Any, text: str) -> None:
    assert number_text(value) == text
    assert canonical([value]) == f"[{text}]".encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_spelling_of_a_float_is_read_back_as_that_float(value: float) -> None:
    assert float(number_text(value)) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_the_spelling_of_a_decimal_loses_no_digit(value: Decimal) -> None:
    assert Decimal(number_text(value)) == value


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")]
)
def test_what_is_no_finite_number_has_no_spelling(value: Any) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        number_text(value)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("Infinity")]
)
def test_what_is_no_finite_number_has_no_canonical_text(value: Any) -> None:
    # Written as null it would have the digest of a document that says nothing.
    with pytest.raises(ValueError, match="not a finite number"):
        canonical({"a": value})


def test_a_digest_is_the_sha_256_of_the_canonical_text() -> None:
    assert (
        digest({"b": 4.0, "a": "é"}) == "sha256:" + sha256('{"a":"é","b":4}'.encode()).hexdigest()
    )


def test_a_record_and_the_tree_of_its_json_have_one_digest() -> None:
    record = Point(zeta=Decimal("0.10"), alpha=[Point(zeta=4.0, source="there")])
    assert digest(record) == digest({"zeta": 0.1, "alpha": [{"zeta": 4, "from": "there"}]})
    assert digest(Point(zeta=1, source="here")) == digest({"zeta": 1}), (
        "a default that is written out is the default"
    )


@given(st.lists(st.dictionaries(texts, leaves, max_size=3), max_size=6), st.randoms())
def test_a_list_whose_order_means_nothing_sorts_the_same_from_any_order(
    values: list[Any], random: Any
) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    assert canonical(sort_canonically(shuffled)) == canonical(sort_canonically(values))
    assert sorted(map(canonical, values)) == [
        canonical(value) for value in sort_canonically(values)
    ]
