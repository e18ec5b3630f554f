"""Word differences of two texts."""

from __future__ import annotations

import random

import pytest

from assay.views.word_diff import MAX_CHARACTERS, TextSpan, marked, plain, word_diff


def sides(before: str, after: str) -> tuple[str, str]:
    """The two texts, made of the spans of their difference."""
    spans = word_diff(before, after).spans
    old = "".join(text for kind, text in spans if kind != "added")
    new = "".join(text for kind, text in spans if kind != "removed")
    return old, new


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("It leaves at nine.", "It leaves at ten.", "It leaves at [-nine-]{+ten+}."),
        ("", "new", "{+new+}"),
        ("old", "", "[-old-]"),
        ("a b c d e f", "a b x d e f", "a b [-c -]{+x +}d e f"),
        ("one two three four", "one two three four five", "one two three four{+ five+}"),
        ("It leaves at nine.", "It leaves.", "It leaves[- at nine-]."),
        ("a b", "a, b", "a{+, +}b"),
        ("列車は九時に出発します", "列車は十時に出発します", "列車は[-九-]{+十+}時に出発します"),
    ],
)
def test_a_difference_marks_the_words_that_changed(before: str, after: str, expected: str) -> None:
    assert plain(word_diff(before, after)) == expected
    old, new = sides(before, after)
    assert (old.replace(" ", ""), new) == (before.replace(" ", ""), after)


def test_texts_with_little_in_common_replace_each_other() -> None:
    found = word_diff("alpha beta gamma delta the", "one two three four the five six seven")
    assert [span.kind for span in found.spans] == ["removed", "added"]


@pytest.mark.parametrize(
    ("before", "after"), [("cafe\u0301 ole", "cafe ole"), ("नमस्ते जी", "नमस्कार जी")]
)
def test_a_combining_mark_is_never_torn_from_its_letter(before: str, after: str) -> None:
    for span in word_diff(before, after).spans:
        assert span.text[:1] not in "\u0301\u094d\u0947"


def test_equal_texts_and_spaces_say_so() -> None:
    assert word_diff("a b", "a b").identical
    assert word_diff("", "").identical
    found = word_diff("a  b", "a b")
    assert not found.identical
    assert found.note == "the same but for spaces"


def test_long_texts_fall_back_to_lines_and_very_long_ones_say_so() -> None:
    lines = [f"line {n} of the text" for n in range(2_000)]
    found = word_diff("\n".join(lines), "\n".join([*lines[:500], "changed", *lines[501:]]))
    assert found.note == "long texts, compared line by line"
    assert [span.text for span in found.spans if span.kind != "same"] == [
        "line 500 of the text\n",
        "changed\n",
    ]
    huge = word_diff("x" * (MAX_CHARACTERS + 1), "y")
    assert huge.spans == ()
    assert huge.note == "too long to compare: 400,001 characters"
    many = word_diff("a\n" * 9_000, "b\n" * 9_000)
    assert many.spans == ()
    assert "lines" in many.note
    assert word_diff("x" * 5_000_000, "x" * 5_000_000).identical


def test_context_leaves_out_what_is_far_from_a_change() -> None:
    words = [f"w{n}" for n in range(100)]
    before, after = " ".join(words), " ".join([*words[:50], "new", *words[51:]])
    found = word_diff(before, after, context=2)
    text = "… 48 words unchanged … w48 w49 [-w50 -]{+new +}w51 w52 … 47 words unchanged …"
    assert plain(found).strip() == text
    assert (
        TextSpan("skipped", "… 98 words unchanged … ") in word_diff(before, before, context=2).spans
    )


def test_every_difference_holds_both_texts() -> None:
    random.seed(7)
    for _ in range(300):
        before, after = (
            "".join(random.choices("ab, .\n\u0301é漢", k=random.randrange(12))) for _ in range(2)
        )
        old, new = sides(before, after)
        assert ("".join(old.split()), "".join(new.split())) == (
            "".join(before.split()),
            "".join(after.split()),
        )


def test_a_page_escapes_what_changed() -> None:
    found = marked(word_diff("a <b>x</b>", "a <script>alert(1)</script> b"))
    assert "<script" not in found.__html__()
    assert "<ins>" in found.__html__()
    assert "{+script>alert(1)+}" in found  # plain text stays as it is


def test_a_time_a_date_and_a_number_are_one_word_each() -> None:
    found = word_diff(
        "It leaves at 15:30 on 2026-11-16 for 1,250.50.",
        "It leaves at 11:15 on 2026-11-16 for 1,205.50.",
    )
    assert [(span.kind, span.text.strip()) for span in found.spans if span.kind != "same"] == [
        ("removed", "15:30"),
        ("added", "11:15"),
        ("removed", "1,250.50"),
        ("added", "1,205.50"),
    ]
