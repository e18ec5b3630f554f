"""The system strings that every result carries: `scoringSystem/1.0.0`, `gradingSystem/1.0.0`.

A policy states the version of its grading system, a profile that of its scoring system. An
unpublished one has the first twelve digits of its digest after the version, so that two results
under different rules never share a string. The shelf reads the lock and marks published records
here, by digest, because the code that makes the strings can't import the shelf. Any other record
counts as unpublished.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from msgspec import Meta

FIRST = "1.0.0"
Version = Annotated[
    str, Meta(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$", description="a version such as 1.0.0")
]
SCORING_PATTERN = r"^scoringSystem/[0-9]+\.[0-9]+\.[0-9]+(\+[0-9a-f]{12}){0,2}$"
GRADING_PATTERN = r"^gradingSystem/[0-9]+\.[0-9]+\.[0-9]+(\+[0-9a-f]{12}){0,2}$"
"""A decision has two digests if its grading policy and its release policy are both unpublished."""

_vouched: set[str] = set()


class Systems(NamedTuple):
    """The two versions that a result of one family is made under."""

    scoring: str
    grading: str

    def document(self) -> dict[str, str]:
        """As every result carries them."""
        return {"scoringSystem": self.scoring, "gradingSystem": self.grading}


def vouch(digest: str) -> None:
    """Mark the record with this digest as published. Only the shelf calls this, after checking the
    file against the lock.
    """
    _vouched.add(digest)


def is_published(digest: str) -> bool:
    """Whether the record with this digest is published."""
    return digest in _vouched


def marked(system: str, digest: str) -> str:
    """A system's string with the digest of the record that makes it a separate system.

    >>> marked("gradingSystem/1.0.0", "sha256:0123456789abcdef0123")
    'gradingSystem/1.0.0+0123456789ab'
    """
    return f"{system}+{digest.removeprefix('sha256:')[:12]}"


def system_of(engine: str, stated: str, digest: str, *, published: bool) -> str:
    """The string of a policy or profile that states this version; `engine` is the string of the
    code that applies it.

    Code newer than the stated version gives the record another meaning, so the record is then a
    separate system too.
    """
    name, _, current = engine.partition("/")
    if version_key(stated) < version_key(current):
        return marked(engine, digest)
    return f"{name}/{stated}" if published else marked(f"{name}/{stated}", digest)


def scored_under(card: str, plan: str) -> str:
    """The string of a scorecard graded under a plan: the newer version, with the plan's digest if
    it has one.

    >>> (
    ...     scored_under("scoringSystem/1.0.0", "scoringSystem/1.1.0+0123456789ab"),
    ...     scored_under("scoringSystem/2.0.0", "scoringSystem/1.0.0"),
    ... )
    ('scoringSystem/1.1.0+0123456789ab', 'scoringSystem/2.0.0')
    """
    base, plus, mark = plan.partition("+")
    return max(card.partition("+")[0], base, key=version_key) + plus + mark


def version_key(version: str) -> tuple[tuple[int, str], ...]:
    """The sort key of a version or a system's string.

    >>> version_key("1.10.0") > version_key("gradingSystem/1.9.0+0123456789ab")
    True
    """
    numbers = version.rpartition("/")[2].partition("+")[0].split(".")
    # by length and digits: `int` refuses a number of thousands of digits
    return tuple((len(digits), digits) for digits in (number.lstrip("0") for number in numbers))
