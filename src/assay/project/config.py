"""`assay.yaml`: the one file of a project, read and checked.

Its keys describe what is run and judged. `cli/configured` maps them to command-line options;
`files/upwards` finds the file. A workflow, dataset or judge in it is referred to as
`assay.yaml#workflows.NAME`, which is read like a file. API keys never go into it, only the names of
the environment variables that contain them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from assay.errors import EvidenceError, Fault, UsageError, raise_faults
from assay.files.json_files import Document, Path
from assay.files.yaml_files import is_yaml_name, read_yaml
from assay.judging.config import JudgeSpec, spec_faults
from assay.records.evidence import ClosedRecord, Number
from assay.records.reading import read_record
from assay.registry import identifier_fault, is_path, near_miss
from assay.running.dataset import DatasetFile
from assay.running.workflow import Scorer, WorkflowFile

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]
Amount = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
OptionValue = bool | int | Number | str | list[int | Number | str] | None


class WorkflowEntry(WorkflowFile, frozen=True, kw_only=True):
    """A workflow: the keys of a workflow file, or `file` with the path of one. Its name is its key
    in the mapping.
    """

    workflow: str = ""
    """Its name, where it differs from the key."""
    version: str | int = ""
    """The version of the workflow; required where it is not in a file."""
    file: str | None = None
    """The path of a workflow file, instead of the other keys."""


class DatasetEntry(DatasetFile, frozen=True, kw_only=True):
    """A dataset: the keys of a dataset file; often `file` alone. Its name is its key in the
    mapping.
    """

    dataset: str = ""
    """Its name, where it differs from the key."""


class JudgeEntry(JudgeSpec, frozen=True, kw_only=True):
    """A judge: the keys of a judge's file. Its name is its key in the mapping."""

    judge: str = ""
    """Its name, where it differs from the key."""


class RunLimits(ClosedRecord, frozen=True):
    """What one `assay run` may take."""

    timeout_s: Seconds | None = None
    """Seconds for one call of the workflow."""
    retries: Annotated[int, Meta(ge=0, le=20)] | None = None
    """How often a failed call is made again."""
    concurrency: Positive | None = None
    """Calls at the same time."""
    samples: Positive | None = None
    """Run only this many samples, from the start of the dataset."""
    judge_calls: Positive | None = None
    """The maximum number of questions to the judge."""
    judge_usd: Amount | None = None
    """The maximum cost of the judge in US dollars; needs a price."""


class ReleaseBars(ClosedRecord, frozen=True):
    """When a candidate may replace the baseline."""

    policy: str | None = None
    """Release policy by name, name@version or YAML file."""
    tolerance: Amount | None = None
    """How much the candidate may lose: points of scores, percentage points of gate failures."""
    min_pass_rate: Share | None = None
    """The minimum share of samples that pass."""
    confidence: Annotated[float, Meta(gt=0, lt=1)] | None = None
    """The confidence of the pass rate's interval; its lower end is compared."""
    min_overlap: Share | None = None
    """The minimum share of samples that both sides must have with equal content."""


class OutputFiles(ClosedRecord, frozen=True):
    """The files that each verb writes; the extension picks the format."""

    run: list[str] = []
    """Files that `assay run` writes."""
    grade: list[str] = []
    """Files that `assay grade` writes."""
    gate: list[str] = []
    """Files that `assay gate` writes."""


class LedgerPlace(ClosedRecord, frozen=True):
    """Where evidence and results are stored."""

    url: str | None = None
    """sqlite:///FILE or postgresql://HOST/NAME; $ASSAY_DB comes first."""
    store: bool | None = None
    """Whether results are stored by default."""


class ConfigFile(ClosedRecord, frozen=True):
    """The configuration of a project, as written in `assay.yaml`."""

    project: str | None = None
    """The project of the ledger; also the name of the only workflow."""
    workflow: WorkflowEntry | str | None = None
    """The only workflow, the path of its file, or the name of the one in `workflows` to run."""
    workflows: dict[str, WorkflowEntry | str] = {}
    """Workflows by name, where there are several."""
    dataset: DatasetEntry | str | None = None
    """The only dataset, the path of its data, or the name of the one in `datasets` to use."""
    datasets: dict[str, DatasetEntry | str] = {}
    """Datasets by name, where there are several."""
    judges: dict[str, JudgeEntry | str] = {}
    """Judges by name."""
    judge: str | None = None
    """The judge to use: one of `judges`, or the path of a judge's file."""
    judge_cards: list[str] = []
    """The cards of judges that may gate, as `assay judge card` writes them."""
    profile: str | dict[str, Any] | None = None
    """The profile, as a name, name@version or YAML file; or its keys."""
    rubric: str | dict[str, Any] | None = None
    """The rubric that overrides criteria, by name, name@version or YAML file; or its keys."""
    policy: str | dict[str, Any] | None = None
    """The policy to grade by, as a name, name@version or YAML file; or its keys."""
    scorers: list[Scorer] = []
    """Functions that score every run."""
    gates: list[Scorer] = []
    """Functions that give the verdict of a gate on every run."""
    repeats: Positive | None = None
    """How often each sample runs."""
    limits: RunLimits = RunLimits()
    """What one `assay run` may take."""
    baseline: str | list[str] | None = None
    """What `assay gate` compares with: a stored baseline, an evaluation, or a file."""
    release: ReleaseBars = ReleaseBars()
    """When a candidate may replace the baseline."""
    outputs: list[str] | OutputFiles = []
    """The files that `assay run` writes, or those of each verb."""
    map: dict[str, str] = {}
    """What the columns of a table of results are: `{id: ticket, "score:quality": "stars:1..5"}`."""
    ledger: LedgerPlace = LedgerPlace()
    """Where evidence and results are stored."""
    library: str | None = None
    """A folder with profiles/, policies/ and rubrics/."""
    commands: dict[str, dict[str, OptionValue]] = {}
    """Any other option, by verb and name: `gate: {slice: [tag]}`."""


class Config(NamedTuple):
    """A configuration that has been checked, and where it is."""

    spec: ConfigFile
    path: str
    tree: Mapping[str, Any]
    lines: Mapping[Path, int]
    trust: bool = False
    """Whether the user trusts the file for this command. See `project.trust`."""

    @property
    def folder(self) -> str:
        """The folder of the file, to which its paths are relative."""
        return os.path.dirname(self.path)

    def line(self, *key: str | int) -> int | None:
        """The line of a key."""
        return self.lines.get(key)

    def place(self, *key: str | int) -> str:
        """A key's file and line, as `assay.yaml:12`."""
        line = self.line(*key)
        return self.path if line is None else f"{self.path}:{line}"

    def resolve(self, path: str) -> str:
        """A path in the file, relative to the working folder."""
        if os.path.isabs(path):
            return path
        joined = os.path.join(self.folder, path)
        return os.path.normpath(joined) if self.folder else path

    def named(self, kind: Kind) -> dict[str, str]:
        """Everything of a kind that has a name, and how it is referred to."""
        entries: Mapping[str, Any] = getattr(self.spec, f"{kind}s")
        return {name: self._reference(f"{kind}s.{name}", given) for name, given in entries.items()}

    def chosen(self, kind: Kind) -> str | None:
        """The one to use if the command line names none; None if there is none."""
        given, named = getattr(self.spec, kind), self.named(kind)
        if isinstance(given, str) and given in named:
            return named[given]
        if given is not None:
            return self._reference(kind, given)
        return next(iter(named.values())) if len(named) == 1 else None

    def rules(self, kind: Literal["profile", "policy", "rubric"]) -> str | None:
        """The profile, policy or rubric as a name or a file; None if there is none."""
        given = getattr(self.spec, kind)
        if isinstance(given, str) and not is_yaml_name(given):
            return given
        return None if given is None else self._reference(kind, given)

    def find(self, kind: Kind, name: str) -> str:
        """What a name refers to: an entry of the file, or a path."""
        named = self.named(kind)
        if name not in named and not is_path(name) and not os.path.exists(name):
            raise UsageError(
                "CLI-001",
                f"there is no {kind} '{name}' in {self.path}.{near_miss(name, named)}",
                fix=f"{kind.capitalize()}s: {', '.join(named)}."
                if named
                else f"Add it to `{kind}s`.",
            )
        return named.get(name, name)

    def _reference(self, key: str, given: Any) -> str:
        """A file, or the part of this one that describes it."""
        if isinstance(given, str):
            return self.resolve(given)
        file = getattr(given, "file", None)
        if file is not None and (is_yaml_name(file) or isinstance(given, WorkflowEntry)):
            return self.resolve(str(file))
        return f"{self.path}#{key}"


Kind = Literal["workflow", "dataset", "judge"]
KINDS: tuple[Kind, ...] = ("workflow", "dataset", "judge")


def read_config(path: str) -> Config:
    """The configuration of a file, or every fault of it with its line."""
    document = read_yaml(path)
    # before anything else: no message about another fault may repeat a secret
    _refuse(document, _secrets(document))
    try:
        spec = read_record(document, ConfigFile, "CFG-001")
    except EvidenceError as error:
        for fault in error.faults:
            fault.fix = fault.fix or _known_keys(fault)
        _refuse(document, error.faults)
        raise
    config = Config(spec, path, document.tree, document.lines or {})
    _refuse(
        document,
        (
            document.fault(message, key, code="CFG-001", fix=fix)
            for key, message, fix in _faults(config)
        ),
    )
    return config


def _refuse(document: Document, faults: Iterable[Fault]) -> None:
    raise_faults(sorted(faults, key=lambda fault: fault.line or 0), where=document.file)


_SECRET = re.compile(
    r"(?i)(.*[_-])?(api[_-]?key|key|token|secret|password|passwd|authorization|credentials?)"
)
_URL_PASSWORD = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@:\s]*:[^/@\s]+@")


def _secrets(document: Document) -> Iterator[Fault]:
    """Keys and passwords written into the file itself. Their values are never printed."""
    for path, value in _leaves(document.tree):
        name = str(path[-1]) if path else ""
        in_judge = path[:1] == ("judges",) and _SECRET.fullmatch(name)
        in_header = len(path) > 1 and path[-2] == "headers" and _SECRET.fullmatch(name)
        in_url = isinstance(value, str) and _URL_PASSWORD.match(value)
        if not (in_judge or in_header or in_url):
            continue
        what, fix = (
            (
                "this URL contains a password.",
                "Put it into the environment, and name it with `key_env` or `headers_from_env`."
                if value.startswith("http")
                else "Put it into the environment: PGPASSWORD, or the ledger's URL in ASSAY_DB.",
            )
            if in_url
            else (
                "a key never goes into this file, which is shared and stored.",
                "Put it into the environment and write `headers_from_env: {NAME: VARIABLE}`."
                if in_header
                else "Put it into the environment and write `key_env: VARIABLE`.",
            )
        )
        yield document.fault(what, path, code="CFG-003", fix=fix)


def _leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if not isinstance(tree, dict | list):
        yield path, tree
        return
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from _leaves(value, (*path, key))


def _known_keys(fault: Fault) -> str:
    """What exists, for an unknown key without a near miss."""
    if not fault.unknown_key or fault.hinted or "." in fault.path or "[" in fault.path:
        return ""
    return f"The keys are {', '.join(KEYS)}."


KEYS = ConfigFile.__struct_fields__


def _faults(config: Config) -> Iterator[tuple[Path, str, str]]:
    """What is wrong with a configuration beyond its shape: key, message, fix."""
    spec = config.spec
    tree = config.tree
    bars: Mapping[str, Any] = tree.get("release") or {}
    # a key without a value would lower the bar to the default
    empty: list[Path] = [
        (key,) for key in ("profile", "rubric", "policy") if key in tree and tree[key] is None
    ]
    for verb, options in spec.commands.items():
        empty += [("commands", verb, name) for name, value in options.items() if value is None]
        for name in options:
            if "-" in name and (other := name.replace("-", "_")) in options:
                yield ("commands", verb, name), f"'{other}' is the same option.", "Keep one."
    for path in (*empty, *(("release", key) for key, value in bars.items() if value is None)):
        yield path, "the key has no value.", "Write one, or remove the key."
    for kind in KINDS:
        many = f"{kind}s"
        entries: Mapping[str, Any] = getattr(spec, many)
        one = getattr(spec, kind)
        for name, entry in entries.items():
            problem = identifier_fault(name)
            if problem is None and ("/" in name or "." in name or "#" in name):
                problem = "has a slash, a dot or a #, as paths do"
            if problem is not None:
                yield (many, name), f"the name {problem}.", "Use letters, digits, _ and -."
            yield from _entry_faults((many, name), entry)
        if isinstance(one, str) and entries and not is_path(one) and one not in entries:
            yield (
                (kind,),
                f"there is no {kind} '{one}' in `{many}`.{near_miss(one, entries)}",
                f"{kind.capitalize()}s: {', '.join(entries)}.",
            )
        elif one is not None and not isinstance(one, str):
            if entries:
                yield (
                    (kind,),
                    f"a {kind} is described here, and others in `{many}`.",
                    f"Move it there, and write `{kind}: NAME`.",
                )
            yield from _entry_faults((kind,), one)
    if isinstance(spec.judge, str) and not spec.judges and not is_path(spec.judge):
        yield ("judge",), f"'{spec.judge}' is not described.", "Add it to `judges`."


def _entry_faults(key: Path, entry: Any) -> Iterator[tuple[Path, str, str]]:
    if isinstance(entry, WorkflowEntry):
        if entry.file is not None and entry != WorkflowEntry(file=entry.file):
            yield key, "has a `file` and other keys.", "Remove the `file` or the other keys."
        elif entry.file is None and entry.version == "":
            yield (
                key,
                "the key 'version' is missing.",
                "Write `version: 1`, and increase it with each change.",
            )
    elif isinstance(entry, DatasetEntry):
        if entry.file is None and entry.table is None:
            yield key, "has neither a `file` nor a `table`.", "Write `file: samples.jsonl`."
    elif isinstance(entry, JudgeEntry):
        yield from (((*key, *path.split(".")), text, fix) for path, text, fix in spec_faults(entry))
