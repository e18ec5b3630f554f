"""What a judge is audited with: balanced, so that no habit of a judge is rewarded by how the items
were made.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from assay.families.judges.audit import (
    PADDINGS,
    PAIRS,
    audit_pairs,
    audit_rubric,
    digest_of,
    paddings,
)
from assay.judging.items import AnswerPair, read_pairs

DATA = Path(str(files("assay.families.judges"))) / "data"
DIGEST = "sha256:6027a9a048ad1efc07b1c1e028db515b343effed8edbc589804bb0d322aa722b"
LABELLED = [pair for pair in audit_pairs() if pair.label != "tie"]
TIES = [pair for pair in audit_pairs() if pair.label == "tie"]


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def words(text: str) -> int:
    return len(text.split())


def better_and_worse(pair: AnswerPair) -> tuple[str, str]:
    return (pair.a, pair.b) if pair.label == "a" else (pair.b, pair.a)


def better_is_shorter(pair: AnswerPair) -> bool:
    better, worse = better_and_worse(pair)
    return words(better) < words(worse)


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def named(pairs: list[AnswerPair]) -> Any:
    return pytest.mark.parametrize("pair", pairs, ids=[pair.id for pair in pairs])


def test_the_audit_has_forty_pairs_of_which_eight_are_ties() -> None:
    assert Counter(pair.label for pair in audit_pairs()) == {"a": 16, "b": 16, "tie": 8}


def test_the_file_of_pairs_has_just_these_keys_and_anyone_can_read_it_as_pairs() -> None:
    assert all(list(tree) == ["id", "input", "a", "b", "label", "group"] for tree in lines(PAIRS))
    assert tuple(read_pairs([str(DATA / PAIRS)])) == audit_pairs()


def test_a_judge_that_goes_by_place_or_by_length_is_right_half_of_the_time() -> None:
    # All four cells are equal: otherwise place and length would be mixed up, and one bias would be
    # measured as the other.
    assert Counter((pair.label, better_is_shorter(pair)) for pair in LABELLED) == {
        (label, shorter): 8 for label in "ab" for shorter in (True, False)
    }


@named(LABELLED)
def test_which_answer_is_longer_does_not_depend_on_how_length_is_counted(pair: AnswerPair) -> None:
    better, worse = better_and_worse(pair)
    assert abs(words(better) - words(worse)) >= 3
    assert (words(better) < words(worse)) == (len(better) < len(worse))
    assert min(words(better), words(worse)) / max(words(better), words(worse)) > 0.55


@named(TIES)
def test_the_answers_of_a_tie_are_about_as_long_as_each_other(pair: AnswerPair) -> None:
    assert min(words(pair.a), words(pair.b)) / max(words(pair.a), words(pair.b)) > 0.85


def test_better_answers_are_no_longer_than_worse_ones_on_the_whole() -> None:
    ratios = [
        math.log(words(better) / words(worse)) for better, worse in map(better_and_worse, LABELLED)
    ]
    assert abs(sum(ratios) / len(ratios)) < 0.02
    better, worse = (
        sum(words(pair[side]) for pair in map(better_and_worse, LABELLED)) for side in (0, 1)
    )
    assert 0.95 < better / worse < 1.05


def test_the_first_place_holds_the_longer_answer_as_often_as_the_second() -> None:
    assert Counter(words(pair.a) > words(pair.b) for pair in LABELLED) == {True: 16, False: 16}


@named(list(audit_pairs()))
def test_a_task_is_short_and_an_answer_has_15_to_80_words(pair: AnswerPair) -> None:
    assert 5 <= words(pair.task) <= 45
    assert 15 <= words(pair.a) <= 80
    assert 15 <= words(pair.b) <= 80
    assert pair.task == pair.task.strip()
    assert pair.a == pair.a.strip()
    assert pair.b == pair.b.strip()


def test_the_pairs_come_from_many_domains_and_each_domain_has_labels_on_both_sides() -> None:
    groups = Counter(pair.group for pair in audit_pairs())
    assert len(groups) >= 8
    assert all(3 <= count <= 4 for count in groups.values())
    assert all(pair.id.startswith(f"{pair.group}-") for pair in audit_pairs())
    assert {
        group
        for group in groups
        if {pair.label for pair in LABELLED if pair.group == group} == {"a", "b"}
    } == set(groups)


def test_no_text_stands_twice() -> None:
    pairs = audit_pairs()
    assert len({pair.id for pair in pairs}) == len(pairs)
    assert len({normal(pair.task) for pair in pairs}) == len(pairs)
    assert len({normal(text) for pair in pairs for text in (pair.a, pair.b)}) == 2 * len(pairs)


def test_no_answer_and_no_padding_speaks_to_the_judge() -> None:
    texts = [text for pair in audit_pairs() for text in (pair.a, pair.b)] + list(paddings())
    hints = re.compile(
        r"\b(?:judge|rubric|verdict|score[sd]?|grade[sd]?|rating|better answer|other answer|answer"
        r" [ab])\b",
        re.IGNORECASE,
    )
    assert [text for text in texts if hints.search(text)] == []


def test_the_bundled_pairs_change_only_on_purpose() -> None:
    assert digest_of(audit_pairs()) == DIGEST


def test_a_digest_moves_with_every_field_and_not_with_the_order() -> None:
    pairs = list(audit_pairs())
    first = pairs[0]
    assert digest_of(reversed(pairs)) == DIGEST
    changes: list[dict[str, Any]] = [
        {"id": "other"},
        {"task": "?"},
        {"a": "?"},
        {"b": "?"},
        {"label": None},
        {"group": None},
        {"reference": "?"},
        {"families": ("x", None)},
        {"runs": ("sha256:" + "0" * 64, None)},
    ]
    assert {name for change in changes for name in change} == set(AnswerPair._fields)
    digests = [digest_of([first._replace(**change), *pairs[1:]]) for change in changes]
    assert len({DIGEST, *digests}) == 1 + len(changes)


def test_there_are_twelve_paddings_of_60_to_90_words_in_five_styles() -> None:
    trees = lines(PADDINGS)
    assert all(list(tree) == ["id", "text"] for tree in trees)
    assert tuple(tree["text"] for tree in trees) == paddings()
    assert len(paddings()) == 12
    assert all(60 <= words(text) <= 90 for text in paddings())
    assert len({tree["id"] for tree in trees}) == len({normal(text) for text in paddings()}) == 12
    assert {tree["id"].partition("-")[0] for tree in trees} == {
        "praise",
        "hedge",
        "restate",
        "closing",
        "filler",
    }


def test_padding_names_nothing_that_could_be_true_or_false() -> None:
    for text in paddings():
        assert not re.search(r"\d|https?:|[`{}\[\]<>|]|\n", text), text
        assert not re.search(r"(?<![.:?!] )(?<!^)\b(?!I\b)[A-Z]", text), (
            "a name in the middle of a sentence"
        )


def test_the_rubric_of_the_audit_asks_one_question_on_an_anchored_scale() -> None:
    rubric = audit_rubric()
    (criterion,) = rubric.criteria
    assert rubric.id == "judge-audit@1"
    assert (criterion.name, criterion.scale, criterion.weight) == ("does_the_task", (1, 5), 1)
    assert sorted(criterion.anchors) == ["1", "2", "3", "4", "5"]
    assert len(set(criterion.anchors.values())) == 5
    assert criterion.evidence_required
    assert criterion.floor() is None


def test_the_items_are_read_once() -> None:
    assert audit_pairs() is audit_pairs()
    assert paddings() is paddings()
    assert audit_rubric() is audit_rubric()
