"""What a judge is audited with: pairs whose better answer is clear, padding that says nothing, and
one plain rubric.

All of it is original text in `data/`. In half of the labelled pairs the better answer is the
shorter one, and the better answer comes first as often as second, so that a judge that goes by
length or by place is right half of the time. Changes must keep both balances. They give the set a
new digest: cards with different digests were not measured on the same pairs. `audit` asks the
judge.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from assay.canon import digest, sort_canonically
from assay.files.json_files import parse_json
from assay.files.yaml_files import parse_yaml
from assay.judging.items import AnswerPair
from assay.scoring.rubric import Rubric, load_rubric

PAIRS = "audit_pairs.jsonl"
PADDINGS = "padding.jsonl"
RUBRIC = "audit_rubric.yaml"


@cache
def audit_pairs() -> tuple[AnswerPair, ...]:
    """The labelled pairs, in the order of their file; `group` is the domain.

    >>> from collections import Counter
    >>> sorted(Counter(pair.label for pair in audit_pairs()).items())
    [('a', 16), ('b', 16), ('tie', 8)]
    """
    return tuple(
        AnswerPair(
            tree["id"],
            tree["input"],
            tree["a"],
            tree["b"],
            label=tree["label"],
            group=tree["group"],
        )
        for tree in _lines(PAIRS)
    )


@cache
def paddings() -> tuple[str, ...]:
    """Paragraphs that can be appended to any answer and add nothing to it.

    >>> len(paddings())
    12
    """
    return tuple(tree["text"] for tree in _lines(PADDINGS))


@cache
def audit_rubric() -> Rubric:
    """The rubric by which answers are scored in an audit.

    >>> audit_rubric().id
    'judge-audit@1'
    """
    return load_rubric(parse_yaml(_bytes(RUBRIC), RUBRIC))


def distinct_pairs(pairs: Iterable[AnswerPair]) -> list[AnswerPair]:
    """Each pair of two different texts once, in either order. The judge is asked about a copy only
    once, so counting copies would make one answer look like many.

    >>> pair = AnswerPair("1", "Add 2 and 2.", "4", "5")
    >>> flipped, same = pair._replace(id="2", a="5", b="4"), pair._replace(id="3", b="4")
    >>> [one.id for one in distinct_pairs([pair, flipped, same])]
    ['1']
    """
    found: dict[tuple[str, frozenset[str]], AnswerPair] = {}
    for pair in pairs:
        if pair.a != pair.b:
            found.setdefault((pair.task, frozenset((pair.a, pair.b))), pair)
    return list(found.values())


def digest_of(pairs: Iterable[AnswerPair]) -> str:
    """The digest of a set of pairs: of their texts and labels, whatever their order. A field at its
    default counts as absent.

    >>> first, second = (
    ...     AnswerPair("1", "Add 2 and 2.", "4", "5", label="a"),
    ...     AnswerPair("2", "Say hello.", "Hello.", "Hi.", label="tie"),
    ... )
    >>> digest_of([first, second]) == digest_of([second, first])
    True
    >>> digest_of([first]) == digest_of([first._replace(label="b")])
    False
    """
    return digest(sort_canonically([_without_defaults(pair) for pair in pairs]))


def _without_defaults(pair: AnswerPair) -> dict[str, Any]:
    defaults = AnswerPair._field_defaults
    return {
        name: value
        for name, value in pair._asdict().items()
        if name not in defaults or value != defaults[name]
    }


def _bytes(name: str) -> bytes:
    return files("assay.judging").joinpath("data", name).read_bytes()


def _lines(name: str) -> list[Any]:
    return [parse_json(line) for line in _bytes(name).splitlines()]
