"""Names: taken once, in order, with the near miss; and plain ASCII, so that none can pose as
another.
"""

from __future__ import annotations

import threading
import time
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.library.families import FAMILIES
from assay.registry import IDENTIFIER, Registry, home_value, identifier_fault, near_miss
from assay.scoring import metrics

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@given(st.dictionaries(st.text(alphabet=PLAIN, min_size=1), st.integers(), max_size=10))
def test_a_registry_keeps_the_order_in_which_entries_came(entries: dict[str, int]) -> None:
    registry = Registry[int]("thing")
    for name, entry in entries.items():
        registry.add(name, entry)
    assert list(registry) == list(entries)
    assert len(registry) == len(entries)
    assert all(registry[name] == registry.get(name) == entry for name, entry in entries.items())


def test_a_name_is_taken_once_and_keeps_its_first_entry() -> None:
    registry = Registry[int]("gate")
    registry.add("clean", 1)
    with pytest.raises(ValueError, match="a gate is already named 'clean'"):
        registry.add("clean", 2)
    assert registry["clean"] == 1
    assert len(registry) == 1


def test_an_absent_name_is_absent_in_every_way_of_asking() -> None:
    registry = Registry[int]("gate")
    assert registry.get("clean") is None
    assert "clean" not in registry
    with pytest.raises(KeyError):
        registry["clean"]


def test_a_registry_names_the_near_miss() -> None:
    registry = Registry[int]("gate")
    registry.add("no_pii_leak", 1)
    registry.add("outputs_parseable", 2)
    assert registry.near("no_pii_leek") == " Did you mean 'no_pii_leak'?"
    assert registry.near("zzz") == ""


@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("corectness", ["efficiency", "correctness"], " Did you mean 'correctness'?"),
        ("correctness", ["correctness"], " Did you mean 'correctness'?"),
        ("likert", ["binary", "ratio"], ""),
        ("", ["binary"], ""),
        ("binary", [], ""),
    ],
)
def test_the_near_miss_is_the_closest_name_or_nothing(
    name: str, names: list[str], expected: str
) -> None:
    assert near_miss(name, names) == expected


def test_the_near_miss_of_a_very_long_name_is_quick_and_none() -> None:
    assert near_miss("x" * 1_000_000, ["binary", "y" * 200]) == ""


def test_the_names_to_choose_from_are_not_remembered_from_an_earlier_question() -> None:
    assert near_miss("gama", ["gamma"]) == " Did you mean 'gamma'?"
    assert near_miss("gama", ["delta"]) == ""


@given(
    st.text(alphabet=PLAIN + "_.-/ ", min_size=1, max_size=200).filter(
        lambda name: name[0] in PLAIN and not name.endswith(" ")
    )
)
def test_letters_digits_and_a_few_signs_make_an_identifier(name: str) -> None:
    assert identifier_fault(name) is None


@given(st.text(min_size=1, max_size=30))
@example("schem\u0430_valid")
@example("gate\n")
@example("gate ")
@example(" gate")
@example("-gate")
@example("ga\x00te")
@example("gate\u200b")
@example("ｇate")
@example("é")
def test_a_name_is_accepted_only_if_no_other_text_looks_like_it(name: str) -> None:
    plain = (
        all(sign in PLAIN + "_.-/ " for sign in name)
        and name[0] in PLAIN
        and not name.endswith(" ")
    )
    problem = identifier_fault(name)
    assert (problem is None) == plain
    if problem is not None:
        assert problem.isprintable()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "is empty"),
        ("a" * 201, "201 characters"),
        ("a|b", "letters, digits, spaces"),
        ("a\nb", "letters, digits, spaces"),
        ("_a", "starts with a letter or digit"),
        ("schem\u0430", "U+0430 CYRILLIC SMALL LETTER A"),
        ("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        (3, "is a int"),
        (None, "is a NoneType"),
        (True, "is a bool"),
    ],
)
def test_a_refused_name_says_what_is_wrong_with_it(name: object, words: str) -> None:
    problem = identifier_fault(name)
    assert problem is not None
    assert words in problem


def test_the_longest_identifier_has_200_characters() -> None:
    assert identifier_fault("a" * 200) is None
    assert IDENTIFIER.fullmatch("a" * 201) is None


def test_every_family_is_in_the_one_table_and_describes_itself() -> None:
    assert list(FAMILIES) == ["workflow", "exam", "flowmcp", "release"]
    for name in FAMILIES:
        family = FAMILIES[name]
        assert (family.id, bool(family.meant_for), bool(family.systems)) == (name, True, True)
        assert all(callable(home_value(system.behaviour)) for system in family.systems)


HOMES = {
    f"assay.scoring.metrics.{home.replace('.', ':')}": names
    for home, names in metrics.FAMILIES.items()
}


def test_measures_are_loaded_once_and_found_by_all_however_many_threads_ask_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = import_module

    def slowly(name: str) -> Any:
        time.sleep(0.002)
        return load(name)

    monkeypatch.setattr("assay.registry.import_module", slowly)
    names = [name for family in metrics.FAMILIES.values() for name in family]
    measures: Registry[Any] = Registry("measure", homes=HOMES)
    start, missed = threading.Barrier(8), []

    def look() -> None:
        start.wait()
        missed.extend(name for name in names if measures.get(name) is None)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []
    assert sorted(measures) == sorted(names)
