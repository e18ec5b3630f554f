"""`assay completion`: the script that completes commands in a shell, and what it asks for.

The script is short: at each press of Tab it gives the words so far to `assay completion SHELL
--words`, one on each line, so that verbs, options and names are those of the installed version.
See `completing` for what is offered.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from assay.cli.completing import Offer, offer
from assay.cli.frame import Command, arg, flag
from assay.errors import ExitCode

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


def _completion(options: argparse.Namespace) -> int:
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
    found = offer(joined)
    skip = len(joined[-1]) - len(last)
    return _lines(found, [one.word[skip:] for one in found.candidates])


def _zsh(words: list[str]) -> str:
    """`word:what it is`."""
    found = offer(words)
    listed = [
        f"{one.word.replace(':', chr(92) + ':')}:{one.help}" if one.help else one.word
        for one in found.candidates
    ]
    return _lines(found, listed)


def _fish(words: list[str]) -> str:
    """The word, a tab, what it is."""
    found = offer(words)
    return _lines(found, [f"{one.word}\t{one.help}" for one in found.candidates])


def _lines(found: Offer, words: list[str]) -> str:
    head = ":files" if found.files else ":words"
    return "".join(f"{line}\n" for line in [head, *words])


_ANSWERS: dict[str, Callable[[list[str]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

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
