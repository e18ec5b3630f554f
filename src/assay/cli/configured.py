"""What an `assay.yaml` says for a verb: its keys as defaults of options.

An option declares its key in the file, and `commands` sets any other by its name. The command line
wins over the file, an environment variable over the file where an option has one, and the file over
the defaults. Paths in the file are relative to its folder. An option also declares whether the user
must trust the file for it; `project.trust` has the rules.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from assay.cli.parsing import CONFIGURATION, EVERYWHERE, Argument
from assay.cli.verbs import all_verbs
from assay.errors import Fault, UsageError, raise_faults
from assay.files.json_files import Path, member, show_path
from assay.project.config import KINDS, Config, Kind, read_config
from assay.project.settings import ledger_faults, ledger_url, placed_url
from assay.project.trust import (
    needs_trust,
    part_faults,
    reason,
    refuse_untrusted,
    scorer_faults,
)
from assay.registry import is_path, near_miss

COMMAND_LINE, DEFAULT = "command line", "default"
_TYPED = ("help", *(argument.long.lstrip("-") for argument in (*EVERYWHERE, *CONFIGURATION)))
"""What every verb has, and only the command line can give."""
KEYS_WITHOUT_OPTION = (
    *("workflows", "datasets", "judges"),
    *("scorers", "gates", "outputs", "map", "commands"),
)
"""Keys that are not the value of one option: `_keys_of` or the verb itself reads them."""


Declared = Mapping[str, Argument]
"""The arguments of a verb by their attributes."""


class Setting(NamedTuple):
    """The value of an option, where it comes from, and why the file must be trusted for it."""

    value: Any
    source: str
    faults: tuple[Fault, ...] = ()


def parse(
    declared: Declared, parser: argparse.ArgumentParser, verb: str, argv: list[str], path: str
) -> dict[str, Any]:
    """The values of a verb's options: from the command line, else from the configuration, else the
    defaults. `config` is the configuration, `sources` says where each option comes from.
    """
    config = read_config(path)
    configured = settings_of(declared, parser, verb, config)
    standard = {
        action.dest: [] if action.nargs == "*" and action.default is None else action.default
        for action in parser._actions
    }
    standard.update(parser._defaults)
    standard.pop("help", None)
    for action in parser._actions:
        action.default = argparse.SUPPRESS  # so that only what is given is there
        action.required = action.required and action.dest not in configured
    parser._defaults.clear()
    for action in [
        action for action in parser._actions if isinstance(action, argparse._StoreTrueAction)
    ]:
        if action.dest in declared and declared[action.dest].trust != "never":
            _add_opposite(parser, action)
    given = vars(parser.parse_args(argv))
    config = config._replace(trust=given.get("trust", False))
    for option in given:
        configured.pop(option, None)
    if given.get("resume"):  # a run goes on with what it was begun with
        for option, argument in declared.items():
            if argument.resumed in ("named", "new"):
                configured.pop(option, None)
    values = {**standard, **{name: setting.value for name, setting in configured.items()}, **given}
    _resolve_names(declared, values, given, config)
    if verb == "run" and not given.get("resume"):
        _refuse_to_guess(values, config)
    refuse_untrusted(config, _untrusted(declared, verb, configured, values, given, config))
    if _stores_by_file(values, config):
        values["store"] = ledger_url(config)
    sources = dict.fromkeys(standard, DEFAULT)
    sources.update({name: setting.source for name, setting in configured.items()})
    sources.update(dict.fromkeys(given, COMMAND_LINE))
    return {**values, "config": config, "sources": sources}


def _untrusted(
    declared: Declared,
    verb: str,
    configured: Mapping[str, Setting],
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    config: Config,
) -> list[Fault]:
    """What this command line takes from the file and needs trust for."""
    faults = [fault for setting in configured.values() for fault in setting.faults]
    for option, kind in _parts_of(declared):
        named = config.named(kind).values()
        for reference in _listed(values.get(option)):
            # a path that somebody typed needs no trust, a name does
            is_typed = option in given and not (
                reference in named or reference.startswith(f"{config.path}#")
            )
            faults += () if is_typed else part_faults(config, kind, reference)
    if verb == "run":
        faults += scorer_faults(config)
    unasked = "no_store" in values and not values["no_store"] and values.get("store") is None
    if (unasked and not values.get("db")) or _stores_by_file(values, config):
        faults += ledger_faults(config)
    return faults


def _parts_of(declared: Declared) -> Iterator[tuple[str, Kind]]:
    """The options that take a workflow, a dataset or a judge by its name in the file."""
    for option, argument in declared.items():
        if argument.key in KINDS:
            yield option, argument.key


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _stores_by_file(values: Mapping[str, Any], config: Config) -> bool:
    """Whether `--store` without a URL means the ledger of the file."""
    is_set = config.spec.ledger.url and not os.environ.get("ASSAY_DB")
    return values.get("store") == "" and bool(is_set)


def _add_opposite(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
    """Let the command line take back a flag that the file sets: --no-NAME."""
    opposite = "--no-" + action.option_strings[-1].lstrip("-")
    if opposite not in parser._option_string_actions and not opposite.startswith("--no-no-"):
        parser.add_argument(
            opposite,
            dest=action.dest,
            action="store_false",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )


def settings_of(
    declared: Declared, parser: argparse.ArgumentParser, verb: str, config: Config
) -> dict[str, Setting]:
    """The options that a configuration sets for a verb."""
    actions = {action.dest: action for action in parser._actions}
    settings: dict[str, Setting] = {}
    faults = list(_command_faults(declared, verb, config))
    for option, key, value in _keys_of(declared, verb, config):
        argument = declared.get(option)
        if value is None or (argument is not None and in_environment(argument)):
            continue
        if argument is None or (argument.trust == "never" and key[0] == "commands"):
            if key[0] == "outputs":  # what a team asks for is never dropped in silence
                faults.append(_fault(config, key, f"`assay {verb}` has no option --{option}."))
            continue
        try:
            made = _value(actions[option], argument, value, config, key)
        except ValueError as error:
            faults.append(_fault(config, key, str(error)))
            continue
        why = () if argument.key in KINDS and key[0] != "commands" else _why(argument, made, config)
        asked = tuple(needs_trust(config, key, reason) for reason in why)
        settings[option] = Setting(made, config.place(*key), asked)
    raise_faults(faults, where=config.path)
    return settings


def in_environment(argument: Argument) -> bool:
    """Whether the environment sets it."""
    return argument.environment is not None and bool(os.environ.get(argument.environment))


def _why(argument: Argument, value: Any, config: Config) -> Iterator[str]:
    """Why a value of an option needs trust. Of a value that may be a secret, only the option is
    named.
    """
    if argument.trust == "trusted" and value is not False:
        yield f"only a trusted file sets {argument.long}"
    else:
        values = (str(each) for each in _listed(value) if each != "")  # the default ledger
        yield from filter(None, (reason(config, argument.kind, text) for text in values))


def _keys_of(declared: Declared, verb: str, config: Config) -> Iterator[tuple[str, Path, Any]]:
    """Each option that the file sets for a verb: its name, the key, the value."""
    for option, argument in declared.items():
        if argument.key in KINDS:
            kind: Kind = argument.key
            key = kind if config.tree.get(kind) is not None else f"{kind}s"
            yield option, (key,), config.chosen(kind)
        elif argument.key is not None:
            key_path = tuple(argument.key.split("."))
            yield option, key_path, member(config.tree, *key_path)
    outputs = config.tree.get("outputs")
    if isinstance(outputs, dict):
        yield "output", ("outputs", verb), outputs.get(verb)
    elif verb == "run":
        yield "output", ("outputs",), outputs
    ledger = config.spec.ledger
    if ledger.store and "store" in declared:
        yield "store", ("ledger", "store"), ledger.url or ""
    for option, value in config.spec.commands.get(verb, {}).items():
        yield option.replace("-", "_"), ("commands", verb, option), value


def _fault(config: Config, key: Path, message: str, fix: str = "") -> Fault:
    line = config.line(*key)
    return Fault(message, code="CFG-001", file=config.path, line=line, path=show_path(key), fix=fix)


def _command_faults(declared: Declared, verb: str, config: Config) -> Iterator[Fault]:
    """What `commands` names that does not exist, for every verb; options for this one."""
    known = verb_names()
    for name in config.spec.commands:
        if name not in known:
            near = near_miss(name, known)
            yield _fault(config, ("commands", name), f"there is no verb '{name}'.{near}")
    options = config.spec.commands.get(verb, {})
    named = {
        dest.replace("_", "-"): argument
        for dest, argument in declared.items()
        if argument.names[0].startswith("-")
    }
    names = [name for name, argument in named.items() if argument.trust != "never"]
    for option in options:
        wanted, key = option.replace("_", "-"), ("commands", verb, option)
        if wanted in names:
            continue
        if wanted in named or wanted in _TYPED:
            message = f"--{wanted} can only be given on the command line."
            yield _fault(config, key, message, "Remove it.")
        else:
            message = f"`assay {verb}` has no option '{wanted}'.{near_miss(wanted, names)}"
            yield _fault(config, key, message, f"`assay {verb} --help` lists them.")


def verb_names() -> list[str]:
    """Every verb, and every action of those that have some."""
    return [
        f"{name} {action}".strip()
        for name, verb in all_verbs().items()
        for action in (verb.actions or ("",))
    ]


# --- values


def _value(
    action: argparse.Action, argument: Argument, value: Any, config: Config, key: Path
) -> Any:
    """A value of the file as the option holds it; a ValueError says why it can't be."""
    if isinstance(action, argparse._StoreTrueAction):
        if not isinstance(value, bool):
            raise ValueError(f"must be true or false, not {value!r}.")
        return value
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        values = value if isinstance(value, list) else [value]
        return [_one(action, argument, each, config, key) for each in values]
    if isinstance(value, list):
        raise ValueError("takes one value, not a list.")
    if value is True and action.const is not None:
        return action.const
    return _one(action, argument, value, config, key)


def _one(action: argparse.Action, argument: Argument, value: Any, config: Config, key: Path) -> Any:
    if isinstance(value, dict) and len(key) == 1:
        return f"{config.path}#{key[0]}"
    if isinstance(value, bool | dict):
        raise ValueError(f"must be {'a number' if action.type else 'a string'}, not {value!r}.")
    if action.type in (int, float):
        if isinstance(value, str) or (action.type is int and value != int(value)):
            kind = "a whole number" if action.type is int else "a number"
            raise ValueError(f"must be {kind}, not {value!r}.")
        return action.type(value)
    text = str(value)
    if action.choices is not None and text not in action.choices:
        choices = [str(choice) for choice in action.choices]
        near = near_miss(text, choices)
        raise ValueError(f"{text!r} is not one of {', '.join(choices)}.{near}")
    if argument.key in KINDS and key[0] != "commands":
        return text  # resolved already
    if argument.kind == "ledger":
        return placed_url(text, config)
    if text != "-" and (argument.kind == "path" or (argument.kind == "name" and is_path(text))):
        return config.resolve(text)
    return text


def _refuse_to_guess(values: Mapping[str, Any], config: Config) -> None:
    """Refuse to guess which of several workflows or datasets is meant."""
    kinds: tuple[Kind, ...] = ("workflow", "dataset")
    for kind in kinds:
        named = config.named(kind)
        if values.get(kind) is None and named:
            option = "" if kind == "workflow" else "--dataset "
            raise UsageError(
                "CLI-001",
                f"{config.path} describes several {kind}s: {', '.join(named)}.",
                fix=f"Name one: assay run {option}{next(iter(named))}; or write `{kind}: NAME`.",
            )


def _resolve_names(
    declared: Declared, values: dict[str, Any], given: Mapping[str, Any], config: Config
) -> None:
    """Replace a name on the command line by what the file describes."""
    for option, kind in _parts_of(declared):
        if (value := given.get(option)) is not None:
            resolved = [config.find(kind, name) for name in _listed(value)]
            values[option] = resolved if isinstance(value, list) else resolved[0]
