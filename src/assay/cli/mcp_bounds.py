"""What a client may be shown of a document, and how much of it.

Texts in a ledger come from the workflow that was evaluated, so they are untrusted: each is
neutralised, cut to a length and shown without what looks like a key. Lists are cut, and every cut
is reported with its place and the full count, so that a reader can see that something is missing.
"""

from __future__ import annotations

import re
from typing import Any

from assay.canon import encode
from assay.judging.questions import Salt, block, neutralise
from assay.secrets import secret_in

TEXT = 2_000
"""Characters of one text."""
ITEMS = 50
"""Members of one list or object."""
TOTAL = 60_000
"""Characters of one answer: more would crowd out everything else in a client's context."""
DEPTH = 12
CUTS = 50
HIDDEN = "{{secret}}"
_SLACK = 500
"""Characters read beyond a cut, so that a key on the edge is still recognised."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://\S+")
_MANY = 50


def shown_text(text: str, *, most: int = TEXT, name: str = "") -> str:
    """An untrusted text for display: no invisible characters, nothing that looks like a key, cut to
    a length. `name` is that of its field.

    >>> shown_text("see https://me:s3cr3t-pw@host/x", name="note")
    'see https://me:{{secret}}@host/x'
    >>> shown_text("abcdef", most=3)
    'abc…'
    """
    clean = neutralise(_without_secrets(text[: most + _SLACK], name))
    return clean if len(text) <= most and len(clean) <= most + _SLACK else f"{clean[:most]}…"


def _without_secrets(text: str, name: str) -> str:
    text = _ADDRESS.sub(lambda match: _masked(match[0], ""), text)
    return _masked(text, name)


def _masked(text: str, name: str) -> str:
    for _ in range(_MANY):
        secret = secret_in(text, name=name)
        if secret is None:
            return text
        text = text[: secret.start] + HIDDEN + text[secret.end :]
    return HIDDEN  # that many keys: nothing of it is shown


def fenced(title: str, value: Any, *, most: int = TEXT) -> str:
    """A block of data with a boundary that its author cannot know: a text, or the members of an
    object one below the other.
    """
    shown = BoundedAnswer(text=most, total=most).tree(value)
    members = shown.items() if isinstance(shown, dict) else [("", shown)]
    lines = [
        f"{name}: {_as_text(member)}" if name else _as_text(member) for name, member in members
    ]
    body = shown_text("\n".join(lines), most=most)
    return block(Salt.fresh().boundary(body)[:12], title, body)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else encode(value).decode()


class BoundedAnswer:
    """Cuts one answer down to size. `cuts` says what is missing from it, `more_cuts` how many
    places are not listed.
    """

    def __init__(self, *, text: int = TEXT, items: int = ITEMS, total: int = TOTAL) -> None:
        self._text, self._items = text, items
        self._left = max(total, text)
        self.cuts: list[dict[str, Any]] = []
        self.more_cuts = 0

    def tree(self, value: Any, path: str = "", name: str = "", depth: int = 0) -> Any:
        """A plain tree with its texts and lists cut."""
        if isinstance(value, str):
            return self._string(value, path, name)
        if isinstance(value, dict):
            if self._is_deep(value, path, depth):
                return {}
            kept = self._kept(list(value.items()), path)
            return {
                (key := shown_text(str(each), most=200)): self.tree(
                    inner, f"{path}.{key}" if path else key, str(each), depth + 1
                )
                for each, inner in kept
            }
        if isinstance(value, list):
            if self._is_deep(value, path, depth):
                return []
            kept = self._kept(value, path)
            return [
                self.tree(inner, f"{path}[{index}]", name, depth + 1)
                for index, inner in enumerate(kept)
            ]
        self._left -= 8
        return value

    def _string(self, value: str, path: str, name: str) -> str:
        most = max(0, min(self._text, self._left))
        shown = shown_text(value, most=most, name=name)
        self._left -= len(shown)
        if len(value) > most:
            self._note(path, most, len(value), "characters")
        return shown

    def _kept(self, members: list[Any], path: str) -> list[Any]:
        most = self._items if self._left > 0 else 0
        if len(members) > most:
            self._note(path, most, len(members), "items")
        return members[:most]

    def _is_deep(self, members: Any, path: str, depth: int) -> bool:
        if depth > DEPTH and members:
            self._note(path, 0, len(members), "items")
        return depth > DEPTH

    def _note(self, path: str, shown: int, full: int, unit: str) -> None:
        if len(self.cuts) < CUTS:
            self.cuts.append({"path": path[:200], "shown": shown, "full": full, "unit": unit})
        else:
            self.more_cuts += 1
