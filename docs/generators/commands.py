"""The commands: an index, and one page for each group of verbs."""

from __future__ import annotations

import argparse
import re
import shlex

from assay.cli import parsing
from assay.cli.frame import Command, load_command
from assay.cli.options import ENVIRONMENT
from assay.cli.verbs import GROUPS, Verb
from assay.errors import ExitCode
from generators.markdown import block, cell, code, page, table

EVERYWHERE = (*parsing.EVERYWHERE, *parsing.CONFIGURATION)
"""Options that every verb has: described once, on the index."""
_MORE = {
    "--json": "; progress and notes go to standard error",
    "--config": "; see [assay.yaml](config.md)",
}
"""What the index says of them besides their help."""
EXIT_MEANINGS = {
    ExitCode.PASSED: "It passed; a candidate may be promoted. Only this code opens a gate.",
    ExitCode.FAILED: "It failed: a gate, a floor, a threshold, or the decision is hold or reject.",
    ExitCode.MISUSE: "The command line was misused, or an output could not be written.",
    ExitCode.MALFORMED: "A file is malformed: evidence, a policy, a profile, a rubric.",
    ExitCode.NOT_ENOUGH: "There is not enough evidence to decide.",
    ExitCode.FAULT: "An internal error. `--debug` shows the traceback; please report it.",
}


def command_names() -> list[str]:
    """Every command, as `grade` or `judge rubric`."""
    return [
        name
        for verbs in GROUPS.values()
        for verb, spec in verbs.items()
        for name in ([f"{verb} {action}" for action in spec.actions] or [verb])
    ]


def slug(group: str) -> str:
    """The file name of a group of verbs."""
    return f"commands/{group.replace(' ', '-')}.md"


def pages() -> dict[str, str]:
    """The index and the page of each group."""
    return {
        "commands.md": _index(),
        **{slug(group): _group(group, verbs) for group, verbs in GROUPS.items()},
    }


def _index() -> str:
    parts = [
        (
            "`assay VERB --help` prints the same as these pages. An option that takes one"
            " value is refused if it is given twice. Every command has these options:"
        ),
        table(
            ("option", "what it does"),
            [
                ("`-h`, `--help`", "print what the command takes, with an example"),
                *(
                    (
                        code(" ".join([one.long, *filter(None, [one.settings.get("metavar")])])),
                        one.settings["help"].replace("assay.yaml", "`assay.yaml`", 1)
                        + _MORE.get(one.long, ""),
                    )
                    for one in EVERYWHERE
                ),
                ("`--debug`", "show the traceback of an internal error"),
            ],
        ),
    ]
    for group, verbs in GROUPS.items():
        rows = []
        for name, verb in verbs.items():
            rows.append((_link(group, name), verb.summary))
            rows += [
                (_link(group, f"{name} {action}"), text)
                for action, (_, text) in verb.actions.items()
            ]
        parts += [f"## {group.capitalize()}", table(("command", "what it does"), rows)]
    parts += [
        "## Exit codes",
        table(("code", "meaning"), [(int(one), text) for one, text in EXIT_MEANINGS.items()]),
        "## Environment variables",
        table(("variable", "effect"), [(code(name), what) for name, what in ENVIRONMENT.items()]),
    ]
    return page("Commands", *parts)


def _link(group: str, name: str) -> str:
    return f"[`assay {name}`]({slug(group)}#assay-{name.replace(' ', '-')})"


def _group(group: str, verbs: dict[str, Verb]) -> str:
    parts = [
        (
            "Options that every command has, exit codes and environment variables are on the"
            " [index](../commands.md)."
        )
    ]
    for name, verb in verbs.items():
        parts.append(f"## assay {name}")
        if not verb.actions:
            parts += _command(name, load_command(name))
            continue
        rows = [
            (f"[`assay {name} {action}`](#assay-{name}-{action})", text)
            for action, (_, text) in verb.actions.items()
        ]
        parts += [cell(verb.description), table(("command", "what it does"), rows)]
        for action in verb.actions:
            parts.append(f"### assay {name} {action}")
            parts += _command(f"{name} {action}", load_command(f"{name} {action}"))
    return page(f"Commands: {group}", *parts)


def _command(name: str, command: Command) -> list[str]:
    shared = ("help", *(argument.dest for argument in EVERYWHERE))
    actions = [one for one in command.parser(name)._actions if one.dest not in shared]
    positional = [one for one in actions if not one.option_strings]
    options = [one for one in actions if one.option_strings]
    needed = [one for one in options if one.required]
    words = [f"assay {name}", *(_usage(one) for one in (*needed, *positional))]
    if len(options) > len(needed):
        words.append("[options]")
    return [
        cell(command.description),
        block(" ".join(words)),
        "Example:",
        block(_wrapped(command.example)),
        table(("argument", "meaning"), [(_name(one), _help(one)) for one in positional]),
        table(("option", "meaning"), [(_name(one), _help(one)) for one in options]),
    ]


def _wrapped(example: str, width: int = 90) -> str:
    """A long command over several lines that a shell reads as one."""
    if len(example) <= width or re.search(r"[|;&>#]", example):
        return example
    lines, line = [], ""
    for word in _words(example):
        if line and len(line) + 1 + len(word) > width - 2:
            lines.append(line)
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    return " \\\n".join([*lines, line])


def _words(text: str) -> list[str]:
    try:
        return [shlex.quote(word) for word in shlex.split(text)]
    except ValueError:
        return text.split(" ")


def _value(action: argparse.Action) -> str:
    """The placeholder of an argument's value; empty for a flag."""
    if action.nargs == 0:
        return ""
    named = action.metavar if isinstance(action.metavar, str) else ""
    if not named and action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return named or action.dest.upper()


def _usage(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        many = action.nargs in ("+", "*")
        shown = f"{value} ..." if many else value
        return f"[{shown}]" if action.nargs in ("?", "*") else shown
    return f"{action.option_strings[0]} {value}".rstrip()


def _name(action: argparse.Action) -> str:
    value = _value(action)
    value = f"[{value}]" if action.option_strings and action.nargs == "?" else value
    if not action.option_strings:
        return code(value)
    return ", ".join(code(f"{option} {value}".rstrip()) for option in action.option_strings)


def _help(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%")
    return f"**required**; {text}" if action.required and action.option_strings else text
