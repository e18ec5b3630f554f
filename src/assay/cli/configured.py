"""What an `assay.yaml` says for a verb: its keys as defaults of options.

`PLACES` says which option of which verbs a key sets; `commands` sets any other option by its name.
The command line wins over the file, an environment variable over the file where an option has one,
and the file over the defaults. Paths in the file are relative to its folder.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from assay.cli.parsing import Options
from assay.cli.verbs import VERBS
from assay.errors import Fault, UsageError, raise_faults
from assay.files.json_files import Path, member, show_path
from assay.registry import is_path, near_miss
from assay.running.config import Config, Kind, read_config
from assay.running.config_code import refuse_outside_code

COMMAND_LINE, DEFAULT = "command line", "default"
ENVIRONMENT = {"db": "ASSAY_DB", "store": "ASSAY_DB", "library": "ASSAY_LIBRARY"}
"""Options that an environment variable sets before the file does."""
NEVER = (
    *("trust", "unsigned", "config_file", "no_config", "json", "help"),
    *("now", "plan", "resume"),
)
"""Options that only a person at the command line can give. With one of the last three in a file,
judge cards and baselines would never grow old, a gate would not decide, or an old run would count
as a new one.
"""
_GRADING = (
    *("run", "grade", "explain", "batch", "view"),
    *("report rank", "report summary", "report export"),
)
_BARRED = ("run", "grade", "batch", "gate")
_COMPARING = ("gate", "baseline set", "baseline diff")
_JUDGING = tuple(
    f"judge {action}" for action in ("rubric", "panel", "pairwise", "claims", "passages", "audit")
)


class OptionPlace(NamedTuple):
    """The option that a key sets, in the verbs that have it; in all of them where none is named."""

    key: tuple[str, ...]
    option: str
    verbs: tuple[str, ...] = ()


PLACES: tuple[OptionPlace, ...] = (
    OptionPlace(("project",), "project"),
    OptionPlace(("library",), "library"),
    OptionPlace(("profile",), "profile", (*_GRADING, *_COMPARING)),
    OptionPlace(("rubric",), "rubric", (*_GRADING, *_COMPARING, "judge rubric", "judge panel")),
    OptionPlace(("policy",), "policy", (*_GRADING, "serve")),
    OptionPlace(("policy",), "grading_policy", _COMPARING),
    OptionPlace(("judge_cards",), "judge_card"),
    OptionPlace(("repeats",), "repeat", ("run",)),
    OptionPlace(("limits", "timeout_s"), "timeout", ("run",)),
    OptionPlace(("limits", "retries"), "retries", ("run",)),
    OptionPlace(("limits", "concurrency"), "concurrency", ("run",)),
    OptionPlace(("limits", "samples"), "limit", ("run",)),
    OptionPlace(("limits", "judge_calls"), "max_calls", ("run",)),
    OptionPlace(("limits", "judge_usd"), "max_usd", ("run", *_JUDGING)),
    OptionPlace(("baseline",), "baseline", ("gate",)),
    OptionPlace(("release", "policy"), "release_policy", ("gate", "baseline diff")),
    OptionPlace(("release", "margin"), "margin", ("gate",)),
    OptionPlace(("release", "min_pass_rate"), "min_pass_rate", _BARRED),
    OptionPlace(("release", "confidence"), "confidence", _BARRED),
    OptionPlace(("release", "min_overlap"), "min_overlap", ("gate",)),
    OptionPlace(("ledger", "url"), "db"),
)
_KINDS: dict[str, dict[str, Kind]] = {
    "workflow": {"run": "workflow"},
    "dataset": {"run": "dataset"},
    "judge": dict.fromkeys(("run", *_JUDGING), "judge"),
}
"""Options that take something which the file describes, by its name."""
KEYS_WITHOUT_OPTION = (
    *("workflow", "workflows", "dataset", "datasets", "judge", "judges"),
    *("scorers", "gates", "outputs", "map", "commands"),
)
"""Keys that are not the value of one option: `_keys_of` or the verb itself reads them."""
_PATHS = ("FILE", "DIR", "KEY")
_NAMES_OR_PATHS = ("P", "Q", "R", "D", "BASELINE", "WORKFLOW")


class Setting(NamedTuple):
    """The value of an option and where it comes from."""

    value: Any
    source: str


def parse(parser: argparse.ArgumentParser, verb: str, argv: list[str], path: str) -> Options:
    """The options of a verb: from the command line, else from the configuration, else the
    defaults. `config` is the configuration, `sources` says where each option comes from.
    """
    config = read_config(path)
    configured = _configured(parser, verb, config)
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
        _add_opposite(parser, action)
    given = vars(parser.parse_args(argv))
    for option in given:
        configured.pop(option, None)
    if given.get("resume"):  # a run goes on with what it was begun with
        for option in ("workflow", "dataset", "name", "work"):
            configured.pop(option, None)
    values = {**standard, **{name: setting.value for name, setting in configured.items()}, **given}
    _resolve_names(values, given, verb, config)
    if verb == "run" and not given.get("resume"):
        _refuse_to_guess(values, config)
    if values.get("store") == "" and config.spec.ledger.url and not os.environ.get("ASSAY_DB"):
        values["store"] = ledger_url(config)
    sources = dict.fromkeys(standard, DEFAULT)
    sources.update({name: setting.source for name, setting in configured.items()})
    sources.update(dict.fromkeys(given, COMMAND_LINE))
    if verb == "run" and not values.get("trust"):
        typed = given.get("workflow")  # a path that somebody typed needs no trust, a name does
        chosen = typed is None or typed in config.named("workflow")
        refuse_outside_code(config, values.get("workflow") if chosen else None)
    return Options(**values, config=config, sources=sources)


def _add_opposite(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
    """Let the command line take back a flag that the file sets: --no-NAME."""
    opposite = "--no-" + action.option_strings[-1].lstrip("-")
    if opposite in parser._option_string_actions or opposite.startswith("--no-no-"):
        return
    if action.dest not in NEVER:
        parser.add_argument(
            opposite,
            dest=action.dest,
            action="store_false",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )


def _configured(parser: argparse.ArgumentParser, verb: str, config: Config) -> dict[str, Setting]:
    """The options that a configuration sets for a verb."""
    actions = {action.dest: action for action in parser._actions}
    settings: dict[str, Setting] = {}
    faults: list[Fault] = []
    for option, key, value in _keys_of(verb, config):
        if value is None:
            continue
        if option not in actions:
            if not _is_everywhere(key):  # what a team asks for is never dropped in silence
                missing = f"--{option.replace('_', '-')}"
                faults.append(_fault(config, key, f"`assay {verb}` has no option {missing}."))
            continue
        if (variable := ENVIRONMENT.get(option)) and os.environ.get(variable):
            continue
        try:
            made = _value(actions[option], value, config, key)
        except ValueError as error:
            faults.append(_fault(config, key, str(error)))
            continue
        settings[option] = Setting(made, config.place(*key))
    faults += _command_faults(actions, verb, config)
    raise_faults(faults, where=config.path)
    return settings


def _keys_of(verb: str, config: Config) -> Iterator[tuple[str, Path, Any]]:
    """Each option that the file sets for a verb: its name, the key, the value."""
    for place in PLACES:
        if not place.verbs or verb in place.verbs:
            yield place.option, place.key, member(config.tree, *place.key)
    for option, verbs in _KINDS.items():
        if verb in verbs and (chosen := config.chosen(verbs[verb])) is not None:
            kind = verbs[verb]
            yield option, (kind if config.tree.get(kind) is not None else f"{kind}s",), chosen
    outputs = config.tree.get("outputs")
    if isinstance(outputs, dict):
        yield "output", ("outputs", verb), outputs.get(verb)
    elif verb == "run":
        yield "output", ("outputs",), outputs
    ledger = config.spec.ledger
    if ledger.store is not None:
        yield "store", ("ledger", "store"), (ledger.url or "") if ledger.store else None
    for option, value in config.spec.commands.get(verb, {}).items():
        yield option.replace("-", "_"), ("commands", verb, option), value


def _fault(config: Config, key: Path, message: str, fix: str = "") -> Fault:
    line = config.line(*key)
    return Fault(message, code="CFG-001", file=config.path, line=line, path=show_path(key), fix=fix)


def _is_everywhere(key: Path) -> bool:
    """Whether a key sets an option wherever a verb has it; `commands` has its own check."""
    return key[0] in ("project", "library", "judge_cards", "ledger", "commands")


def _command_faults(
    actions: Mapping[str, argparse.Action], verb: str, config: Config
) -> Iterator[Fault]:
    """What `commands` names that does not exist, for every verb; options for this one."""
    known = verb_names()
    for name, options in config.spec.commands.items():
        if name not in known:
            near = near_miss(name, known)
            yield _fault(config, ("commands", name), f"there is no verb '{name}'.{near}")
        elif name == verb:
            named = [action for action in actions.values() if action.option_strings]
            names = [action.dest.replace("_", "-") for action in named if action.dest not in NEVER]
            for option in options:
                wanted = option.replace("_", "-")
                if wanted.replace("-", "_") in NEVER:
                    yield _fault(
                        config,
                        ("commands", name, option),
                        f"--{wanted} can only be given on the command line.",
                        "Remove it.",
                    )
                elif wanted not in names:
                    yield _fault(
                        config,
                        ("commands", name, option),
                        f"`assay {name}` has no option '{wanted}'.{near_miss(wanted, names)}",
                        f"`assay {name} --help` lists them.",
                    )


def verb_names() -> list[str]:
    """Every verb, and every action of those that have some."""
    return [
        f"{name} {action}".strip()
        for name, verb in VERBS.items()
        for action in (verb.actions or ("",))
    ]


# --- values


def _value(action: argparse.Action, value: Any, config: Config, key: Path) -> Any:
    """A value of the file as the option holds it; a ValueError says why it can't be."""
    if isinstance(action, argparse._StoreTrueAction):
        if not isinstance(value, bool):
            raise ValueError(f"must be true or false, not {value!r}.")
        return value
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        values = value if isinstance(value, list) else [value]
        return [_one(action, each, config, key) for each in values]
    if isinstance(value, list):
        raise ValueError("takes one value, not a list.")
    if value is True and action.const is not None:
        return action.const
    return _one(action, value, config, key)


def _one(action: argparse.Action, value: Any, config: Config, key: Path) -> Any:
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
    if key[0] in ("workflow", "workflows", "dataset", "datasets", "judge", "judges"):
        return text  # resolved already
    if action.dest in ("db", "store"):
        return _sqlite(text, config)
    always = action.metavar in _PATHS and text != "-"
    if always or (action.metavar in _NAMES_OR_PATHS and is_path(text)):
        return config.resolve(text)
    return text


def ledger_url(config: Config) -> str | None:
    """The ledger that a configuration names."""
    url = config.spec.ledger.url
    return None if url is None else _sqlite(url, config)


def _sqlite(url: str, config: Config) -> str:
    """The URL of a ledger; the file of SQLite goes from the configuration's folder."""
    scheme, separator, file = url.partition(":///")
    return f"{scheme}:///{config.resolve(file)}" if separator and scheme == "sqlite" else url


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
    values: dict[str, Any], given: Mapping[str, Any], verb: str, config: Config
) -> None:
    """Replace a name on the command line by what the file describes."""
    for option, verbs in _KINDS.items():
        value = given.get(option)
        if verb not in verbs or value is None:
            continue
        several = value if isinstance(value, list) else [value]
        resolved = [config.find(verbs[verb], name) for name in several]
        values[option] = resolved if isinstance(value, list) else resolved[0]
