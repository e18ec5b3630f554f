"""The journal of judge work: every request that was paid for and its reply, under the digest of the
question.

It is a `LineLog`: a killed job loses at most the line it was writing, a changed line is refused,
and one job writes at a time. API keys are never written: a request is stored without its headers.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.files.line_log import LineLog, LogErrors, LogPlace
from assay.judging.fence import SALT_BYTES, Salt

FORMAT = "assay.judge-journal/1"
_ERRORS = LogErrors(
    "JDG-004",
    regular="Name a file, or pass --no-journal to keep nothing.",
    busy="Wait for it, or give this job its own journal with --journal.",
    damaged="Restore the file, or remove it and pay for its answers again.",
    full="Every reply before this one is kept: make room and run again.",
)


class Entry(NamedTuple):
    """One stored exchange."""

    key: str
    request: dict[str, Any]
    reply: dict[str, Any]
    at: str | None = None
    """When the reply came; None if the journal doesn't say."""


class Journal:
    """Stored exchanges by key. Use it as a context; without a path it keeps nothing on disk."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.salt = Salt.fresh()
        self._log = None if path is None else LineLog(path, _ERRORS)
        self._places: dict[str, LogPlace] = {}
        self._kept: dict[str, Entry] = {}

    def __enter__(self) -> Journal:
        if self._log is not None:
            self._log.open(self._take)
            if self._log.empty:
                self._log.append({"journal": FORMAT, "salt": self.salt.value.hex()})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._log is not None:
            self._log.close(failing=error is not None)

    def __len__(self) -> int:
        return len(self._places) + len(self._kept)

    @property
    def cut(self) -> int:
        """Bytes of a torn line that were cut off on opening."""
        return 0 if self._log is None else self._log.cut

    def get(self, key: str) -> Entry | None:
        """What was stored under a key."""
        if key in self._kept:
            return self._kept[key]
        place = self._places.get(key)
        if place is None or self._log is None:
            return None
        tree = self._log.read(place)
        at = tree.get("at")
        return Entry(key, tree["request"], tree["reply"], at if isinstance(at, str) else None)

    def put(self, entry: Entry) -> None:
        """Store an exchange. When this returns, a killed process has not lost it."""
        if self._log is None:
            self._kept[entry.key] = entry
            return
        self._places[entry.key] = self._log.append(
            {"key": entry.key, "at": entry.at, "request": entry.request, "reply": entry.reply}
        )

    def _take(self, tree: dict[str, Any], place: LogPlace, number: int) -> None:
        path = self.path or ""
        if number == 1:
            if tree.get("journal") != FORMAT:
                raise InputError(
                    "JDG-004",
                    f"is not a journal of judge work: its first line does not name {FORMAT}.",
                    where=path,
                )
            self.salt = _salt(tree.get("salt"), path)
        elif (
            isinstance(tree.get("key"), str)
            and isinstance(tree.get("reply"), dict)
            and isinstance(tree.get("request"), dict)
        ):
            self._places[tree["key"]] = place
        else:
            raise InputError("JDG-004", f"line {number} contains no exchange.", where=path)


def _salt(text: Any, path: str) -> Salt:
    try:
        value = bytes.fromhex(text)
    except (ValueError, TypeError):
        value = b""
    if len(value) != SALT_BYTES:
        raise InputError("JDG-004", "the first line has no salt.", where=path)
    return Salt(value)
