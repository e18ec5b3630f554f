"""`assay completion`: the script that completes commands in a shell, and what it asks for.

The script is short: at each press of Tab it gives the words so far to `assay completion SHELL
--words`, one on each line, so that verbs, options and names are those of the installed version.
Everything comes from the table of verbs and from the parser that runs the verb. Nothing is
executed: no `assay.yaml` is read, and of a ledger only the names of its evaluations, where it is a
file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from assay.cli.frame import Command, Options, arg, flag, load_command
from assay.cli.parsing import CONFIGURATION
from assay.cli.verbs import all_verbs, find_verb
from assay.errors import ExitCode
from assay.importers.known import KNOWN
from assay.project.ledger import open_for, url_of
from assay.registry import is_path

_BASH = """\
# Completion of `assay` for bash. Put this line into ~/.bashrc:
#   eval "$(assay completion bash)"
_assay() {
    local answer line
    answer=$(printf '%s\\n' "${COMP_WORDS[@]:1:COMP_CWORD}" \\
        | "$1" completion bash --words 2>/dev/null) || return
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o default -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done \\
                    < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}") ;;
            :words) ;;
            *=) compopt -o nospace 2>/dev/null; COMPREPLY+=("$line") ;;
            ?*) COMPREPLY+=("$line") ;;
        esac
    done <<<"$answer"
}
complete -F _assay assay
"""

_ZSH = """\
#compdef assay
# Completion of `assay` for zsh. Put this line into ~/.zshrc, below `compinit`:
#   eval "$(assay completion zsh)"
_assay() {
    local -a answer
    answer=("${(@f)$(print -rl -- "${(@)words[2,CURRENT]}" \\
        | ${(Q)words[1]} completion zsh --words 2>/dev/null)}")
    [[ -n $answer[1] ]] || return 1
    local kind=$answer[1]
    shift answer
    (( $#answer )) && _describe -V 'assay' answer
    [[ $kind == :files ]] && { compset -P '--*='; _files }
    return 0
}
compdef _assay assay
"""

_FISH = """\
# Completion of `assay` for fish. Put this line into ~/.config/fish/config.fish:
#   assay completion fish | source
function __assay_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (printf '%s\\n' $words[2..-1] | $words[1] completion fish --words 2>/dev/null)
    test (count $answer) -gt 0; or return
    test (count $answer) -gt 1; and printf '%s\\n' $answer[2..-1]
    test $answer[1] = ':files'; and __fish_complete_path (commandline -ct)
end
complete -c assay -f -a '(__assay_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

MAX_INPUT = 1 << 20

BREAKS = "=:@"

"""Where bash splits a word, and then completes the last part alone."""


def _completion(options: Options) -> int:
    if not options.words:
        sys.stdout.write(SCRIPTS[options.shell])
        return ExitCode.PASSED
    words = sys.stdin.read(MAX_INPUT).removesuffix("\n").split("\n")
    sys.stdout.write(_ANSWERS[options.shell](words))
    return ExitCode.PASSED


def _bash(words: list[str]) -> str:
    """One word on each line, without the part that bash has split off."""
    joined = [""]
    last = ""
    for index, word in enumerate(words):
        last = word
        is_break = word.strip(BREAKS) == "" and word != ""
        if index and (is_break or (joined[-1] and joined[-1][-1] in BREAKS and word)):
            joined[-1] += word
        elif index:
            joined.append(word)
        else:
            joined = [word]
    if last.strip(BREAKS) == "":
        last = ""
    offered = offer(joined)
    skip = len(joined[-1]) - len(last)
    return _lines(offered, [candidate.word[skip:] for candidate in offered.candidates])


def _zsh(words: list[str]) -> str:
    """`word:what it is`."""
    offered = offer(words)
    listed = [
        f"{candidate.word.replace(':', chr(92) + ':')}:{candidate.help}"
        if candidate.help
        else candidate.word
        for candidate in offered.candidates
    ]
    return _lines(offered, listed)


def _fish(words: list[str]) -> str:
    """The word, a tab, what it is."""
    offered = offer(words)
    return _lines(
        offered, [f"{candidate.word}\t{candidate.help}" for candidate in offered.candidates]
    )


def _lines(offered: Offer, words: list[str]) -> str:
    head = ":files" if offered.files else ":words"
    return "".join(f"{line}\n" for line in [head, *words])


_ANSWERS: dict[str, Callable[[list[str]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

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
        fitting = [candidate for candidate in self.candidates if candidate.word.startswith(word)]
        return Offer(
            [candidate for candidate in fitting if candidate.word.isprintable()], self.files
        )


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
        verbs = [Candidate(name, verb.summary) for name, verb in all_verbs().items()]
        return Offer([*verbs, Candidate("--help"), Candidate("--version")]).narrowed(word)
    name, *rest = before
    verb = find_verb(name)
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
        always = {argument.dest: argument for argument in CONFIGURATION}
        self._declared = {**always, **command.declared}
        actions = command.parser(name)._actions
        self._options = {text: action for action in actions for text in action.option_strings}
        self._positionals = [action for action in actions if not action.option_strings]
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
            offered = self._values(option).narrowed(value)
            listed = [
                candidate._replace(word=f"{text}={candidate.word}")
                for candidate in offered.candidates
            ]
            return Offer(listed, offered.files)
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
        for index, positional in enumerate(self._positionals):
            if index == self._taken or positional.nargs in _OPEN_ENDED:
                return positional
        return None

    def _unused(self) -> Offer:
        """The options that can still be given, each by its long name."""
        return Offer(
            [
                Candidate(max(action.option_strings, key=len), _brief(action.help))
                for action in dict.fromkeys(self._options.values())
                if action.dest not in self._given or isinstance(action, argparse._AppendAction)
            ]
        )

    def _values(self, action: argparse.Action) -> Offer:
        """What an argument takes."""
        if action.choices is not None:
            return Offer([Candidate(str(choice)) for choice in action.choices])
        argument = self._declared.get(action.dest)
        if argument is None:
            return Offer([])
        if argument.runs:
            return Offer([*map(Candidate, _evaluations(self._given))], files=True)
        offers = argument.offers or "files"
        offered = _OFFERED.get(offers, _shelf)(offers)
        return Offer([*map(Candidate, offered)], files=argument.takes_files)


def _brief(help: str | None) -> str:
    """The first part of a help text, for a line in a menu."""
    text = " ".join((help or "").replace("%%", "%").split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _shelf(kind: str) -> list[str]:
    """The names of the shelf's entries of a kind."""
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
            from assay.services.evaluations import evaluation_names

            names = evaluation_names(ledger, project=given.get("project") or "default")
    except Exception:  # a ledger of another version, a locked one, a broken one
        return []
    return ["latest", *(name for name in names if not is_path(name))]


_OFFERED: dict[str, Callable[[str], Iterable[str]]] = {
    "files": lambda _: (),
    "importers": lambda _: sorted(KNOWN),
    "verbs": lambda _: all_verbs(),
}
"""What completion offers where an argument says so; anything else is a kind of entry on the
shelf.
"""

COMMANDS = {
    "completion": Command(
        _completion,
        "Print the script that completes verbs, options, choices, files and names of evaluations"
        " in your shell.",
        "assay completion bash >> ~/.bash_completion",
        (
            arg("shell", choices=list(SCRIPTS), metavar="SHELL", help="bash, zsh or fish"),
            flag(
                "--words",
                "read words from standard input, one on each line, and print completions of"
                " the last; the script calls this",
            ),
        ),
        configured=False,
    ),
}
