"""`assay config`: the settings of a verb, and where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from assay.cli import options as opt
from assay.cli.configured import COMMAND_LINE, DEFAULT, in_environment, verb_names
from assay.cli.frame import Argument, Command, Options, arg, load_command
from assay.cli.parsing import CONFIGURATION, config_path
from assay.errors import UsageError
from assay.files.upwards import CONFIG_FILE
from assay.project.config import KINDS, Config
from assay.registry import near_miss


def run(options: Options) -> int:
    """Run the verb."""
    words = list(options.verb)
    if "--json" in words:
        words.remove("--json")
        options = options.with_values(json=True)
    if words and options.no_config:
        words.append("--no-config")
    elif words and options.config_file:
        words += ["--config", options.config_file]
    document = _verb(words) if words else _file(options.config)
    return opt.give(options, document, _lines(document))


def _verb(words: list[str]) -> dict[str, Any]:
    """Every option of a verb with its value and source."""
    verb = next((name for name in (" ".join(words[:2]), words[0]) if name in verb_names()), None)
    if verb is None:
        known = [name for name in verb_names() if name.split()[0] == words[0]] or verb_names()
        raise UsageError(
            "CLI-001",
            f"there is no verb '{' '.join(words[:2])}'.{near_miss(words[0], known)}",
            fix=f"Verbs: {', '.join(known)}." if len(known) < 15 else "`assay --help` lists them.",
        )
    command, argv = load_command(verb), words[len(verb.split()) :]
    parser = command.parser(verb)
    named = {action.dest: action for action in parser._actions}
    required = {
        action.dest for action in parser._actions if action.required and not action.option_strings
    }
    # its files may be left out here: the question is about the options, and nothing is done with
    # them, which would need trust
    is_trusted = "--trust" in argv or not command.configured
    parsed = command.parse(verb, argv if is_trusted else [*argv, "--trust"], optional=required)
    shown = [
        {
            "option": ", ".join(named[name].option_strings) or str(named[name].metavar or name),
            "value": value,
            "source": _source(parsed, argument, value),
        }
        for name, argument in _shown(command, trusted="--trust" in argv)
        for value in [getattr(parsed, name)]
    ]
    return {
        "schema": "assay.configuration/1",
        "file": config_path(argv),
        "verb": verb,
        "options": shown,
    }


def _shown(command: Command, *, trusted: bool) -> Iterator[tuple[str, Argument]]:
    """The options that are settings, and `--trust` where it is given."""
    for argument in (*CONFIGURATION, *command.declared.values()):
        if argument not in CONFIGURATION or (trusted and argument.dest == "trust"):
            yield argument.dest, argument


def _source(parsed: Options, argument: Argument, value: Any) -> str:
    source = parsed.sources.get(argument.dest, DEFAULT)
    if in_environment(argument) and source != COMMAND_LINE and not value:
        return f"environment: {argument.environment}"
    return source


def _file(config: Config | None) -> dict[str, Any]:
    """Everything that a configuration sets, and for which verbs."""
    if config is None:
        raise UsageError(
            "CLI-001",
            f"there is no {CONFIG_FILE} in this folder or above it.",
            fix="`assay init` writes one; `assay config run` shows the settings without it.",
        )
    setting = _verbs_by_key()
    keys = [
        {"key": name, "value": value, "line": config.line(name), "verbs": setting.get(name, [])}
        for name, value in config.tree.items()
    ]
    return {
        "schema": "assay.configuration/1",
        "file": config.path,
        "keys": keys,
        **{f"{kind}s": config.named(kind) for kind in KINDS},
        "environment": [
            {"judge": name, "variable": judge.key_env, "set": bool(os.environ.get(judge.key_env))}
            for name, judge in config.spec.judges.items()
            if not isinstance(judge, str) and judge.key_env
        ],
    }


def _verbs_by_key() -> dict[str, list[str]]:
    """The verbs with an option that a key sets, for each such key."""
    found: dict[str, list[str]] = {}
    for verb in verb_names():
        command = load_command(verb)
        keys = {one.key.partition(".")[0] for one in command.declared.values() if one.key}
        for key in keys if command.configured else ():
            found.setdefault(key, []).append(verb)
    return found


def _lines(document: dict[str, Any]) -> list[str]:
    if "options" in document:
        rows = [
            (option["option"], _text(option["value"]), option["source"])
            for option in document["options"]
        ]
        head = f"assay {document['verb']}, with {document['file'] or f'no {CONFIG_FILE}'}"
    else:
        rows = [
            (key["key"], _text(key["value"]), f"{document['file']}:{key['line']}")
            for key in document["keys"]
        ]
        head = f"{document['file']}; `assay config VERB` shows the options of a verb"
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows), default=0)
    return [
        head,
        *(f"  {first_cell:<{first}}  {two:<{second}}  {three}" for first_cell, two, three in rows),
        *(
            f"  judge {row['judge']}: ${row['variable']} is {'set' if row['set'] else 'NOT SET'}"
            for row in document.get("environment", ())
        ),
    ]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(map(str, value))}}}"
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value) or "-"
    text = "-" if value in (None, "") else str(value)
    text = text.lower() if isinstance(value, bool) else text
    return text if len(text) <= 60 else f"{text[:57]}..."


COMMANDS = {
    "config": Command(
        run,
        "Show the settings of a verb and where each value comes from: the command line, a line of"
        " assay.yaml, the environment, or the default. Without a verb: what assay.yaml sets.",
        "assay config run --repeat 3",
        (
            arg(
                "verb",
                nargs="...",
                metavar="VERB [OPTIONS]",
                kind="text",
                offers="verbs",
                help="the verb, and options as they would be given to it",
            ),
        ),
    ),
}
