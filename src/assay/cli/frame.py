"""The frame of every verb: arguments as data, one parser, one way to run it.

A module of the command line declares `COMMANDS`: for each verb or action in it a `Command` with
its sentence, an example, its arguments and the function that runs it. An argument that several
verbs share is declared once, in `COMMON`, and added by its name. `--json` and `--config` belong to
every verb, `-o` to each that has `formats`. Where there is an `assay.yaml`, defaults come from it:
see `configured`. Which module runs which verb is in `verbs`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.cli.memory import uncollected
from assay.cli.parsing import Argument as Argument
from assay.cli.parsing import Bounds as Bounds
from assay.cli.parsing import (
    Effect,
    Kind,
    Resumed,
    Trust,
    add,
    add_config,
    config_path,
    make_parser,
)
from assay.cli.parsing import Options as Options
from assay.cli.verbs import find_verb
from assay.errors import EXIT_CODES_TEXT, ExitCode, InputError, UsageError
from assay.family import Verb
from assay.files.own_files import looks_own
from assay.registry import is_path, near_miss

if TYPE_CHECKING:
    from assay.project.config import Config

_LEDGER = (
    "sqlite:///FILE or postgresql://... (default: $ASSAY_DB, else .assay/ledger.db here or in the"
    " nearest folder above that has .assay or assay.yaml)"
)


def arg(
    *names: str,
    kind: Kind | None = None,
    trust: Trust | None = None,
    key: str | None = None,
    within: Bounds | None = None,
    heading: str | None = None,
    environment: str | None = None,
    offers: str | None = None,
    effect: Effect | None = None,
    resumed: Resumed | None = None,
    **settings: Any,
) -> Argument:
    """An argument; the settings are those of `ArgumentParser.add_argument`. A number, a choice or a
    flag says what it is by them, and an argument without a name is the path of a file unless it
    says otherwise. An option with text must say whether a file may set it freely.
    """
    is_option = names[0].startswith("-")
    kind = kind or _kind_of(settings, "text" if is_option else "path")
    if not is_option:
        trust = trust or "never"
    elif kind != "text":
        trust = trust or "freely"
    if trust is None:
        raise TypeError(f"{names[0]} declares no trust")
    return Argument(
        names,
        settings,
        kind,
        trust,
        key,
        within,
        heading=heading,
        environment=environment,
        offers=offers,
        effect=effect,
        resumed=resumed,
    )


def _kind_of(settings: Mapping[str, Any], other: Kind) -> Kind:
    if settings.get("type") in (int, float):
        return "number"
    if "choices" in settings:
        return "choice"
    return "flag" if settings.get("action") == "store_true" else other


def flag(name: str, help: str, *, trust: Trust = "freely", **settings: Any) -> Argument:
    """An option that is given or not."""
    return arg(name, action="store_true", help=help, trust=trust, **settings)


def repeated(name: str, metavar: str, help: str, **settings: Any) -> Argument:
    """An option that may be given several times; absent it is an empty list."""
    return arg(name, metavar=metavar, action="append", default=[], help=help, **settings)


def policy_option(default: str, *, key: str | None = None) -> Argument:
    """The option `--policy` of a family."""
    return arg(
        "--policy",
        kind="name",
        key=key,
        heading="grading",
        offers="policies",
        effect="grades",
        resumed="as begun",
        metavar="Q",
        default=default,
        help=f"policy by name, name@version or YAML file (default: {default})",
    )


def store_option(what: str) -> Argument:
    """The option `--store`; `what` says what the verb does with the ledger."""
    return arg(
        "--store",
        kind="ledger",
        heading="ledger",
        environment="ASSAY_DB",
        effect="writes",
        resumed="as begun",
        metavar="URL",
        nargs="?",
        const="",
        help=f"{what}: {_LEDGER}",
    )


COMMON: dict[str, Argument] = {
    "files": arg(
        "files",
        nargs="+",
        metavar="FILE",
        help=(
            ".json, .jsonl, - for standard input, another tool's result file, or a name from the"
            " ledger: an evaluation, latest, latest~1, a run's id"
        ),
    ).of_runs(),
    "--profile": arg(
        "--profile",
        kind="name",
        key="profile",
        heading="grading",
        offers="profiles",
        effect="grades",
        resumed="as begun",
        metavar="P",
        help=(
            "profile by name, letter A-D, name@version or YAML file (default: the run's"
            " workflow.family)"
        ),
    ),
    "--policy": policy_option("workflow", key="policy"),
    "--grading-policy": arg(
        "--grading-policy",
        kind="name",
        key="policy",
        heading="grading",
        offers="policies",
        metavar="Q",
        default="workflow",
        help="policy that grades the runs (default: workflow)",
    ),
    "--rubric": arg(
        "--rubric",
        kind="name",
        key="rubric",
        heading="grading",
        offers="rubrics",
        effect="grades",
        resumed="as begun",
        metavar="R",
        help="rubric that overrides the profile's criteria, by name, name@version or YAML file",
    ),
    "--judge-card": repeated(
        "--judge-card",
        "FILE",
        "the card of a judge (assay judge card); may be repeated",
        kind="path",
        key="judge_cards",
        heading="grading",
        effect="grades",
        resumed="as begun",
    ),
    "--now": arg(
        "--now",
        kind="text",
        trust="never",
        metavar="TIME",
        help="use this as the current time, such as 2026-11-15T10:00:00Z (default: the clock)",
    ),
    "--library": arg(
        "--library",
        kind="path",
        key="library",
        environment="ASSAY_LIBRARY",
        effect="grades",
        resumed="as begun",
        metavar="DIR",
        help="a folder with your own profiles/, policies/ and rubrics/ (default: $ASSAY_LIBRARY)",
    ),
    "--store": store_option("also keep evidence and results in a ledger"),
    "--no-store": flag(
        "--no-store",
        "keep nothing in a ledger",
        heading="ledger",
        effect="withholds",
        resumed="as begun",
    ),
    "--project": arg(
        "--project",
        kind="text",
        trust="freely",
        key="project",
        heading="ledger",
        resumed="as begun",
        metavar="NAME",
        default="default",
        help="the project of the ledger (default: default)",
    ),
    "--from": arg(
        "--from",
        kind="text",
        trust="freely",
        dest="kind",
        heading="other tools' files",
        offers="importers",
        effect="grades",
        metavar="KIND",
        help=(
            "the tool that wrote the files, such as promptfoo (default: detected from the content;"
            " `assay import --help` lists them)"
        ),
    ),
    "--map": repeated(
        "--map",
        "KEY=COLUMN,...",
        "what the columns of a CSV or JSONL file mean, such as"
        " id=ticket,answer=output,score:quality=stars:1..5 (other columns are guessed); for another"
        " tool's file, the scale of a metric, best value last: score:tox=toxicity:1..0",
        kind="text",
        trust="freely",
        heading="other tools' files",
        effect="grades",
    ),
    "--baselines": arg(
        "--baselines",
        kind="path",
        heading="ledger",
        metavar="DIR",
        help="where stored baselines are (default: .assay/baselines next to the default ledger)",
    ),
    "--db": arg(
        "--db",
        kind="ledger",
        key="ledger.url",
        heading="ledger",
        environment="ASSAY_DB",
        metavar="URL",
        default="",
        help=f"the ledger: {_LEDGER}",
    ),
    "--jobs": arg(
        "--jobs",
        within=Bounds(least=1),
        type=int,
        metavar="N",
        default=os.cpu_count() or 1,
        help="worker processes for large .jsonl files (default: one per core)",
    ),
    "--keep-going": flag(
        "--keep-going", "grade the valid lines even if others are malformed; still exits 3"
    ),
    "--charts": arg(
        "--charts",
        kind="path",
        effect="writes",
        metavar="DIR",
        help="also write every chart into a folder, as SVG and as PNG",
    ),
    "--step-summary": flag(
        "--step-summary",
        "also append the result as Markdown to the file that $GITHUB_STEP_SUMMARY names",
    ),
    "--min-pass-rate": arg(
        "--min-pass-rate",
        key="release.min_pass_rate",
        type=float,
        resumed="bar",
        metavar="X",
        help="the minimum share of samples that must pass, such as 0.95 (default: all of them)",
    ),
    "--confidence": arg(
        "--confidence",
        key="release.confidence",
        type=float,
        resumed="bar",
        metavar="C",
        help=(
            "the confidence level: the lower end of the pass rate's interval must reach the"
            " minimum; exit 4 if there are too few samples"
        ),
    ),
    "--otlp-endpoint": arg(
        "--otlp-endpoint",
        kind="address",
        trust="trusted",
        metavar="URL",
        help=(
            "also send each grade as OpenTelemetry events, gen_ai.evaluation.result (default:"
            " $OTEL_EXPORTER_OTLP_ENDPOINT)"
        ),
    ),
}
"""The arguments that several verbs share, by name."""

CHOICES = ("--profile", "--policy", "--rubric", "--judge-card", "--now", "--library")
"""What chooses how runs are graded."""
BARS = ("--min-pass-rate", "--confidence")
"""How many samples must pass."""
COMPARED_BY = ("--profile", "--grading-policy", *CHOICES[2:])
"""The same for a verb that also takes a release policy."""
STORE = ("--store", "--project")


class Command(NamedTuple):
    """One verb, or one action of a verb."""

    run: Callable[[Options], int]
    description: str
    """One sentence for its help, with the meaning of its exit code if that is special."""
    example: str
    arguments: tuple[Argument | str, ...] = ()
    """Its arguments: those of `COMMON` by name, its own as `arg(...)`."""
    formats: tuple[str, ...] = ()
    """The extensions that `-o` writes; without any there is no `-o`."""
    defaults: Mapping[str, Any] = {}
    """Values that no option of it sets."""
    configured: bool = True
    """Whether its defaults may come from an `assay.yaml`."""
    without: Collection[str] = ()
    """Keys of `assay.yaml` that it doesn't take, although it has their options."""

    def parse(self, verb: str, argv: list[str], *, optional: Collection[str] = ()) -> Options:
        """Read the arguments of this command; those named in `optional` may be missing."""
        parser = self.parser(verb)
        for action in parser._actions:
            if action.dest in optional:
                action.required = False
                action.nargs = "*" if action.nargs == "+" else action.nargs or "?"
        path = config_path(argv) if self.configured else None
        declared = self.declared
        if path is None:
            values = vars(parser.parse_args(argv))
        else:
            from assay.cli.configured import parse  # only where there is a configuration

            values = parse(declared, parser, verb, argv, path)
            _refuse_settings(values["config"])
        for argument in declared.values():
            _check_number(argument, values.get(argument.dest))
        for dest in ("baselines", "dir"):
            if values.get(dest, "") is None:
                from assay.project.ledger import baselines_folder  # only where baselines are read

                values[dest] = baselines_folder()
        return Options(**values, declared=declared)

    def parser(self, verb: str) -> argparse.ArgumentParser:
        """The parser of its arguments."""
        parser = make_parser(verb, self.description, self.example)
        if self.configured:
            add_config(parser)
        add(parser, *self.declared.values())
        if self.formats:
            parser.set_defaults(formats=self.formats)
        parser.set_defaults(**self.defaults)
        return parser

    @property
    def runs(self) -> list[str]:
        """The destinations of the arguments that name runs."""
        return [argument.dest for argument in self.declared.values() if argument.runs]

    @property
    def declared(self) -> dict[str, Argument]:
        """Every argument by the attribute that contains its value."""
        own = [COMMON[one] if isinstance(one, str) else one for one in self.arguments]
        if any(argument.runs for argument in own):
            own += [COMMON[name] for name in self._sources()]
        return {
            one.dest: one._replace(key=None) if one.key in self.without else one
            for one in (*own, *_output(self.formats))
        }

    def _sources(self) -> list[str]:
        """The options that say where runs come from, as far as the command has none itself: the
        ledger of names, and the tool that wrote a file.
        """
        names = ("--db", "--project", "--from", "--map")
        return [name for name in names if name not in self.arguments]


def _output(formats: tuple[str, ...]) -> list[Argument]:
    """The option `-o` of a verb that writes these."""
    what = f"write to a file; the extension picks the format ({' '.join(formats)}); may be repeated"
    return [
        arg(
            "-o",
            "--output",
            kind="path",
            effect="writes",
            metavar="FILE",
            action="append",
            default=[],
            help=what,
        )
    ][: len(formats)]


def choose(
    verb: str,
    argv: list[str],
    actions: Mapping[str, str],
    *,
    what: str,
    example: str,
    word: str = "ACTION",
) -> str | ExitCode:
    """The action that a verb with several is asked for; or the exit code, once its help is
    printed.
    """
    action = argv[0] if argv else ""
    if action in actions:
        return action
    if action and action not in ("-h", "--help", "help", "--json"):
        raise UsageError(
            "CLI-001",
            f"there is no {word.lower()} '{action}'.{near_miss(action, actions)}",
            fix=f"Choose {', '.join(actions)}. For example: {example}",
        )
    width = max(map(len, actions))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in actions.items())
    wanted = action in ("-h", "--help", "help")
    (sys.stdout if wanted else sys.stderr).write(
        f"{what}\n\nusage: assay {verb} {word} [options]\n\n{listed}\n\n"
        f"  assay {verb} {word} --help   what it takes, with an example\n\n"
        f"example: {example}\n{EXIT_CODES_TEXT}\n"
    )
    return ExitCode.PASSED if wanted else ExitCode.MISUSE


def dispatch(name: str, argv: list[str]) -> int:
    """Load the module of a verb and run it."""
    verb, command = _verb(name), name
    if verb.actions:
        chosen = choose(
            name,
            argv,
            {action: text for action, (_, text) in verb.actions.items()},
            what=verb.description,
            example=verb.example,
            word=verb.word,
        )
        if isinstance(chosen, ExitCode):
            return chosen
        command, argv = f"{name} {chosen}", argv[1:]
    spec = load_command(command)
    given = spec.parse(command, argv)
    try:
        with with_runs(spec, given) as options:
            return spec.run(options)
    except SystemExit as ended:  # of code that was loaded: its exit code is not the gate's
        raise InputError(
            "RUN-004",
            f"code that the command loaded ended the process, with exit code {ended.code}.",
            fix="Look for sys.exit() in your workflow, scorers and plugins.",
        ) from ended


def with_runs(spec: Command, options: Options) -> AbstractContextManager[Options]:
    """The options for the work of a command: with every name of runs replaced by those runs."""
    named = {dest: _texts(getattr(options, dest)) for dest in spec.runs}
    texts = list(chain.from_iterable(named.values()))
    if not texts:
        return nullcontext(options)
    items = any(argument.items for argument in spec.declared.values())
    if not (options.kind or options.map) and all(map(is_path if items else _is_plain, texts)):
        return nullcontext(_of_files(options, named))
    from assay.cli.references import resolved

    return resolved(options, named, items=items)


def _of_files(options: Options, named: Mapping[str, Sequence[str]]) -> Options:
    """The options with files alone, which need nothing else to be read."""
    from assay.files.inputs import Source  # only where runs are read: the help needs no records

    sources = {dest: [Source(text, text) for text in texts] for dest, texts in named.items()}
    return options.with_values(
        **{
            dest: made if isinstance(getattr(options, dest), list) else made[0]
            for dest, made in sources.items()
            if made
        }
    )


def _is_plain(text: str) -> bool:
    """Whether a text is a file that every command reads as it is."""
    return is_path(text) and "://" not in text and looks_own(text)


def _texts(value: str | list[str] | None) -> list[str]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _check_number(argument: Argument, value: Any) -> None:
    if argument.within is None or not isinstance(value, int | float):
        return
    if not argument.within.hold(value):
        raise UsageError("CLI-001", f"{argument.long} is {value:g}; it must be {argument.within}.")


def _refuse_settings(config: Config) -> None:
    """Refuse settings for a verb that takes none from `assay.yaml`: it would ignore them."""
    for verb in config.spec.commands:
        if not load_command(verb).configured:
            raise InputError(
                "CFG-001",
                f"`assay {verb}` takes its options only on the command line.",
                where=config.place("commands", verb),
                fix="Remove them.",
            )


def _verb(name: str) -> Verb:
    verb = find_verb(name)
    if verb is None:
        raise KeyError(name)
    return verb


def load_command(name: str) -> Command:
    """The command of a verb, or of an action of it ("judge rubric")."""
    word, _, action = name.partition(" ")
    verb = _verb(word)
    module = verb.actions[action][0] if action else verb.module
    with uncollected():  # what an import makes stays
        home = module if "." in module else f"assay.cli.{module}"
        command: Command = import_module(home).COMMANDS[name]
    return command
