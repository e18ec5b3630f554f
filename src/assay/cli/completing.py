"""What can follow on a command line: verbs, actions, options, choices, names and files.

Everything comes from the table of verbs and from the parser that runs the verb. Nothing is
executed: no `assay.yaml` is read, and of a ledger only the names of its evaluations, where it is a
file.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import NamedTuple

from assay.cli.frame import Command, load_command
from assay.cli.ledger import open_for, url_of
from assay.cli.verbs import VERBS
from assay.importers.known import KNOWN
from assay.registry import is_path

_SHELVES = {"profile": "profiles", "policy": "policies", "rubric": "rubrics"}
_NO_FILES = frozenset(
    (
        *("BYTES", "COMMAND", "DAY", "DAYS", "F", "H", "ID", "ID@VERSION", "KIND", "NAME"),
        *("SAMPLE", "SCOPE", "STEP", "TEXT", "TIME", "URL", "V", "VALUE"),
    )
)
"""Placeholders in option help for values that are not files."""
_OPEN_ENDED = ("+", "*", argparse.REMAINDER)


class Candidate(NamedTuple):
    """One word that can follow."""

    word: str
    help: str = ""


class Offer(NamedTuple):
    """What can follow: some words, and perhaps a file."""

    candidates: list[Candidate]
    files: bool = False

    def narrowed(self, word: str) -> Offer:
        """The candidates that begin with a word, without names that would disturb a terminal."""
        fitting = [one for one in self.candidates if one.word.startswith(word)]
        return Offer([one for one in fitting if one.word.isprintable()], self.files)


def offer(words: list[str]) -> Offer:
    """What the last word can become; `words` are those after `assay`.

    >>> [one.word for one in offer(["gr"]).candidates]
    ['grade']
    >>> [one.word for one in offer(["report", "s"]).candidates]
    ['summary']
    >>> [one.word for one in offer(["completion", "z"]).candidates]
    ['zsh']
    """
    *before, word = words
    if not before:
        verbs = [Candidate(name, verb.summary) for name, verb in VERBS.items()]
        return Offer([*verbs, Candidate("--help"), Candidate("--version")]).narrowed(word)
    name, *rest = before
    verb = VERBS.get(name)
    if verb is None:
        return Offer([])
    if verb.actions:
        if not rest:
            actions = [Candidate(action, text) for action, (_, text) in verb.actions.items()]
            return Offer([*actions, Candidate("--help")]).narrowed(word)
        action, *rest = rest
        if action not in verb.actions:
            return Offer([])
        name = f"{name} {action}"
    return _CommandLine(load_command(name), name, rest).offer(word)


class _CommandLine:
    """The words of a command so far, as its parser would take them."""

    def __init__(self, command: Command, name: str, words: list[str]) -> None:
        self._command = command
        actions = command.parser(name)._actions
        self._options = {text: one for one in actions for text in one.option_strings}
        self._positionals = [one for one in actions if not one.option_strings]
        self._given: dict[str, str] = {}
        """The value of each option that was given."""
        self._open: argparse.Action | None = None
        """The option that waits for a value."""
        self._taken = 0
        self._no_more_options = False
        for word in words:
            self._take(word)

    def _take(self, word: str) -> None:
        if not self._no_more_options and word.startswith("-") and len(word) > 1:
            self._no_more_options = word == "--"
            text, has_value, value = word.partition("=")
            option = self._options.get(text)
            if option is not None:
                self._given[option.dest] = value
            self._open = option if option is not None and not has_value else None
            if self._open is not None and self._open.nargs == 0:
                self._open = None
        elif self._open is not None:
            self._given[self._open.dest] = word
            if self._open.nargs not in _OPEN_ENDED:
                self._open = None
        else:
            self._taken += 1

    def offer(self, word: str) -> Offer:
        """What a word can become here."""
        text, has_value, value = word.partition("=")
        if has_value and (option := self._options.get(text)) and not self._no_more_options:
            found = self._values(option).narrowed(value)
            listed = [one._replace(word=f"{text}={one.word}") for one in found.candidates]
            return Offer(listed, found.files)
        if self._open is not None and (self._open.nargs is None or not word.startswith("-")):
            return self._values(self._open).narrowed(word)
        if word.startswith("-") and not self._no_more_options:
            return self._unused().narrowed(word)
        positional = self._positional()
        if positional is not None:
            return self._values(positional).narrowed(word)
        return Offer([]) if self._no_more_options else self._unused().narrowed(word)

    def _positional(self) -> argparse.Action | None:
        """The argument that the next plain word is for."""
        for index, one in enumerate(self._positionals):
            if index == self._taken or one.nargs in _OPEN_ENDED:
                return one
        return None

    def _unused(self) -> Offer:
        """The options that can still be given, each by its long name."""
        return Offer(
            [
                Candidate(max(one.option_strings, key=len), _brief(one.help))
                for one in dict.fromkeys(self._options.values())
                if one.dest not in self._given or isinstance(one, argparse._AppendAction)
            ]
        )

    def _values(self, action: argparse.Action) -> Offer:
        """What an argument takes."""
        if action.choices is not None:
            return Offer([Candidate(str(one)) for one in action.choices])
        if action.dest in self._command.runs:
            return Offer([*map(Candidate, _evaluations(self._given))], files=True)
        kind = _SHELVES.get(action.dest.rpartition("_")[2])  # a release_policy is a policy
        if kind is not None:
            return Offer([*map(Candidate, _shelf(kind))], files=True)
        if "--from" in action.option_strings:
            return Offer([*map(Candidate, sorted(KNOWN))])
        metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if metavar.startswith("VERB"):
            return Offer([*map(Candidate, VERBS)])
        return Offer([], files=action.type not in (int, float) and metavar not in _NO_FILES)


def _brief(help: str | None) -> str:
    """The first part of a help text, for a line in a menu."""
    text = " ".join((help or "").replace("%%", "%").split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _shelf(kind: str) -> list[str]:
    from assay.library.shelf import Shelf

    shelf = Shelf()
    return list(dict.fromkeys(entry.id.partition("@")[0] for entry in shelf.entries(kind)))


def _evaluations(given: Mapping[str, str]) -> list[str]:
    """The names of the evaluations in a ledger that is a file. Errors are ignored here: completion
    never reports them.
    """
    url = url_of(given.get("db", "") or given.get("store", ""))
    path = url.removeprefix("sqlite:///")
    if url == path or not os.path.isfile(path):
        return []
    try:
        with open_for(url, read_only=True) as ledger:
            from assay.store.listing import tags_with

            names = tags_with(
                ledger.database, given.get("project") or "default", "evaluation", "name:"
            )
    except Exception:  # a ledger of another version, a locked one, a broken one
        return []
    return ["latest", *(name for name in names if not is_path(name))]
