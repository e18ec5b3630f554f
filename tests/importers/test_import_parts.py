"""Parts of foreign documents: a wrong type is an error that says what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from assay.errors import InputError
from assay.importers.samples import is_number, name_of, optional, shaped


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        ({}, list, "must be a list; here it is an object"),
        (True, int, "must be a whole number; here it is true"),
        (None, str, "must be a string; here it is null"),
        (1, bool, "must be true or false; here it is 1"),
    ],
)
def test_a_wrong_type_is_named(value: Any, kind: Any, words: Any) -> None:
    assert shaped(True, bool, "`passed`", "x") is True
    assert optional(None, list, "`results`", "x") is None
    with pytest.raises(InputError, match=words):
        shaped(value, kind, "`part`", "log.json:3")


def test_names_are_texts_or_whole_numbers() -> None:
    assert (name_of(0, "x", "y"), name_of("a", "x", "y")) == ("0", "a")
    for value in (True, None, " ", 10**50):
        with pytest.raises(InputError):
            name_of(value, "`id`", "x")
    assert is_number(1)
    assert not is_number("1")
