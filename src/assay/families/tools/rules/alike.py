"""Names that are easily taken for one another: they differ only in case and underscores, or by one
character.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MIN_LENGTH = 5
"""Shorter names differ by one character for good reasons: lat and lot."""
MAX_LENGTH = 64
"""Model interfaces refuse longer names, and comparing them costs the square of their length."""


def fold(name: str) -> str:
    """A name without case and separators.

    >>> fold("get_User-Name") == fold("getUserName")
    True
    """
    return re.sub(r"[_\-. ]", "", name).casefold()


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """The alike pairs among some names, in their order; each name is compared only with names that
    differ by one character, so the cost grows linearly.

    >>> pairs(["listItem", "list_item", "listItems", "getPage1", "getPage2"])
    [('listItem', 'list_item'), ('listItem', 'listItems')]
    """
    first: dict[str, str] = {}
    alike = []
    for name in names:
        folded = fold(name)
        if folded in first:
            if first[folded] != name:
                alike.append((first[folded], name))
        else:
            first[folded] = name
    for folded, name in first.items():
        if not MIN_LENGTH < len(folded) <= MAX_LENGTH:
            continue
        for index in range(len(folded)):
            shorter = folded[:index] + folded[index + 1 :]
            # A digit more is a number, not a slip: getPage1 and getPage10 are meant to differ.
            if shorter in first and not folded[index].isdigit():
                alike.append((first[shorter], name))
                break
    return alike
