"""What a name means where a file of runs is taken: an evaluation of the ledger by its name or id,
`latest`, `latest~N`, `NAME~N`, or a stored run by its id.

A path has a slash or an extension, or is `-`; anything else is a name. The runs of a name are
written to a temporary file for the time of the command, byte for byte as the ledger stores them.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assay.canon import pretty
from assay.cli import options as opt
from assay.cli.configured import COMMAND_LINE
from assay.cli.imported_inputs import (
    ImportedInput,
    import_input,
    is_importable,
    made_of,
    refuse_unclear,
    report_import,
    use_made_profile,
)
from assay.cli.ledger_names import LedgerNames, Named, described
from assay.files.atomic import write_file
from assay.files.inputs import StoredInput
from assay.files.json_files import Document, stream_documents
from assay.registry import is_path, is_relative
from assay.release.baseline import names as baseline_names
from assay.services.evaluation_choice import CHOSEN, FLAGS
from assay.services.evaluations import (
    LATEST,
    StoredEvaluation,
    ambiguous,
    evaluation_label,
    find_other_version,
    first_grade,
    no_other_version,
    stored_grades,
    stored_runs,
    versions_of,
)
from assay.services.rules import GradedSide, RulesRequest, rules_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from assay.cli.parsing import Options
    from assay.records.evaluation import VersionedName
    from assay.store.ledger import Ledger

STORED = "the evaluation"
"""Where an option's value comes from that an evaluation was stored with."""


@contextmanager
def resolved(options: Options, named: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """The options with every name replaced by its runs, while a command works. `named` has the
    values of each option that takes runs.
    """
    with tempfile.TemporaryDirectory() as folder:
        if "baselines" not in options and "baseline" in named:
            options.baselines = options.dir  # as `assay baseline` calls it
        resolver = _Resolver(options, folder)
        with resolver:
            for dest, texts in named.items():
                baseline = dest == "baseline"
                made = resolver.inputs(texts, baseline=baseline or dest == "others")
                (resolver.baselines if baseline else resolver.candidates).extend(made)
                if made:
                    several = isinstance(getattr(options, dest), list)
                    setattr(options, dest, made if several else made[0])
            if not getattr(options, "stored_grades", False) or resolver.imported:
                resolver.choose()
            options.stored = resolver.made
        for imported in resolver.imported:
            report_import(imported.imported)
        yield


def suggested_baseline(options: Options) -> str | None:
    """A baseline in the ledger that the candidate of the options can be compared with."""
    with _Resolver(options, "") as resolver:
        resolver.candidates.extend(options.files)
        return resolver.suggested()


class _Resolver(LedgerNames):
    def __init__(self, options: Options, folder: str) -> None:
        super().__init__(options)
        self._folder = folder
        self._made: dict[tuple[str, bool], StoredInput] = {}
        self.candidates: list[str] = []
        """What a baseline is compared with."""
        self.baselines: list[str] = []

    @property
    def made(self) -> list[StoredInput]:
        """What the names stand for."""
        return list(self._made.values())

    @property
    def imported(self) -> list[ImportedInput]:
        """What other tools wrote."""
        both = (*self.candidates, *self.baselines)
        return [side for side in both if isinstance(side, ImportedInput)]

    def inputs(self, texts: Sequence[str], *, baseline: bool) -> list[str]:
        """The runs of names and files. Files of other tools are imported together."""
        foreign = [text for text in texts if is_importable(text, self._options)]
        made = [
            text if is_path(text) else self.input(text, baseline=baseline)
            for text in texts
            if text not in foreign
        ]
        if foreign:
            made.append(import_input(foreign, self._folder, self._options))
        return made

    def input(self, text: str, *, baseline: bool) -> str:
        """The runs of a name. The name of a stored baseline stays as it is, for the command to
        find.
        """
        if (text, baseline) in self._made:
            return self._made[text, baseline]
        known = baseline_names(self._options.baselines) if baseline else []
        if self.ledger is None and baseline and not is_relative(text):
            return text
        ledger = self.opened(text)
        judged = self._judged() if baseline else set()
        named = (
            self._other_version(ledger, text, judged)
            if judged and is_relative(text)
            else self.find(ledger, text)
        )
        if text.partition("@")[0] in known:
            if named is not None:
                raise ambiguous(text, "a stored baseline", described(named))
            return text
        if baseline and named is not None:
            from assay.store.baselines import baseline_names as ledger_names  # a database

            if text in ledger_names(ledger, project=self._project):
                raise ambiguous(text, "a baseline in the ledger", described(named))
        if named is None:
            stores = getattr(self._options, "store", None) is not None
            if baseline and not is_relative(text) and stores:
                return text  # it may be a baseline of the ledger
            raise self.unknown(ledger, text, known if baseline else None)
        if named.evaluation is not None and named.evaluation.evaluation.workflow in judged:
            opt.note(
                f"{text} has the same version as the candidate: this compares"
                f" {_version(named.evaluation)} with itself. If the workflow changed, give it a new"
                " version."
            )
        made = self._made[text, baseline] = self._written(ledger, text, named)
        return made

    def suggested(self) -> str | None:
        """A baseline in the ledger that the candidate can be compared with."""
        ledger = self.ledger
        judged = set() if ledger is None else self._judged()
        if ledger is None or not judged:
            return None
        stored = any(
            isinstance(candidate, StoredInput) and candidate.evaluation
            for candidate in self.candidates
        )
        for text in (f"{LATEST}~1", LATEST) if stored else (LATEST,):
            if find_other_version(ledger, text, project=self._project, judged=judged) is not None:
                return text
        return None

    def _judged(self) -> set[VersionedName]:
        """The versions of workflows that the candidate is of, where its runs say so."""
        workflows: set[VersionedName] = set()
        for candidate in self.candidates:
            if isinstance(candidate, StoredInput) and candidate.evaluation is not None:
                workflows.add(candidate.evaluation.evaluation.workflow)
            elif isinstance(candidate, StoredInput) or os.path.isfile(
                candidate
            ):  # a pipe is read only once
                documents = stream_documents(candidate)
                workflows |= versions_of(
                    each.tree for each in documents if isinstance(each, Document)
                )
        return workflows

    def _other_version(self, ledger: Ledger, text: str, judged: set[VersionedName]) -> Named | None:
        evaluation = find_other_version(ledger, text, project=self._project, judged=judged)
        few = text != LATEST  # one evaluation has none before it, whatever its version
        if evaluation is None and ledger.count("evaluation", project=self._project).n > few:
            raise no_other_version(ledger, text, project=self._project, judged=judged)
        return None if evaluation is None else Named(evaluation, None)

    def _written(self, ledger: Ledger, text: str, named: Named) -> StoredInput:
        stored, run = named
        place = os.path.join(self._folder, str(len(self._made)))
        if stored is None:
            assert run is not None
            same = ledger.count("run", {"run_id": text}, project=self._project).n
            if same > 1:
                opt.note(f"{text} is the newest of {same:,} stored runs with this id")
            made = StoredInput(text, f"{place}.jsonl", run.digest.removeprefix("sha256:"))
            _write(made.file, [run])
            if self._wants_grades:
                from assay.services.storing import grade_of_run  # loaded only for names

                made.grades = f"{place}.grades.jsonl"
                grade = grade_of_run(ledger, text, project=self._project)
                _write(made.grades, [] if grade is None else [grade])
            return made
        evaluation = stored.evaluation
        label = evaluation_label(ledger, stored, project=self._project)
        if text not in (label, evaluation.id):
            opt.note(_taken(text, stored, label))
        made = StoredInput(label, f"{place}.jsonl", stored.digest.removeprefix("sha256:"))
        made.evaluation, made.asked = stored, text
        made.graded = first_grade(ledger, stored, project=self._project)
        _write(made.file, stored_runs(ledger, stored, project=self._project))
        if self._wants_grades:
            made.grades = f"{place}.grades.jsonl"
            _write(made.grades, stored_grades(ledger, stored, project=self._project))
        return made

    @property
    def _wants_grades(self) -> bool:
        return bool(getattr(self._options, "stored_grades", False))

    def choose(self) -> None:
        """Grade by what `rules_for` says, where the options have anything to say about it."""
        options = self._options
        known = [name for name, _ in CHOSEN if _option(options, name) in options]
        compares = bool(self.baselines)
        judged = self.candidates if compares else []
        refuse_unclear(options, self.candidates, self.baselines)
        bar = self.baselines or self.candidates
        given = given_rules(options)
        chosen = rules_for(
            RulesRequest(
                [_graded(options, side, bar=False) for side in judged],
                [_graded(options, side, bar=True) for side in bar],
                given=given if "profile" in known else {**given, "profile": ""},
                configured=_configured(options, given),
                flags={name: f"--{_option(options, name).replace('_', '-')}" for name in FLAGS},
                fix="Compare it with an evaluation that `assay evals` lists, or name the rules that"
                " both sides are graded by, with --profile, --rubric or --grading-policy.",
                shelf=opt.shelf_of(options) if "library" in options else None,
            )
        )
        if chosen.made is not None:
            use_made_profile(options, judged, chosen.made, self._folder)
            return
        for name in known:
            option, value = _option(options, name), getattr(chosen, name)
            if name == "profile" and chosen.own is not None:
                file = "{profile}@{version}.yaml".format(**chosen.own)
                value = os.path.join(self._folder, "profiles", file)
                write_file(value, pretty(chosen.own))
                options.sources = {**options.sources, "profile": STORED, "rubric": STORED}
            if value != getattr(options, option):
                setattr(options, option, value)
                options.stored_rules = {*getattr(options, "stored_rules", ()), name}


def _option(options: Options, name: str) -> str:
    """The option that names the profile, the rubric or the policy."""
    return f"grading_{name}" if f"grading_{name}" in options else name


def given_rules(options: Options) -> dict[str, Any]:
    """What the command line names of profile, rubric and policy."""
    given: dict[str, Any] = {}
    for name, default in CHOSEN:
        option = _option(options, name)
        value = getattr(options, option, default)
        if name in getattr(options, "stored_rules", ()):  # those that evaluations were stored with
            continue
        if options.sources.get(option, COMMAND_LINE if value != default else "") == COMMAND_LINE:
            given[name] = value
    return given


def _configured(options: Options, given: Mapping[str, Any]) -> dict[str, Any]:
    """What assay.yaml sets of them."""
    values = {name: getattr(options, _option(options, name), default) for name, default in CHOSEN}
    return {
        name: values[name]
        for name, default in CHOSEN
        if name not in given and values[name] != default
    }


def _graded(options: Options, side: str, *, bar: bool) -> GradedSide:
    """What graded an input. An imported candidate is graded by the baseline's metrics, and brings
    none.
    """
    made = made_of(options, side, needed=bar)
    if isinstance(side, ImportedInput):  # it says what its tool scored by
        return GradedSide(str(side), made=made, kept=True)
    if isinstance(side, StoredInput) and side.evaluation is not None:
        return GradedSide(str(side), side.evaluation.evaluation.settings, made)
    return GradedSide(
        str(side), made=made, kept=not (isinstance(side, StoredInput) or is_path(side))
    )


def _version(stored: StoredEvaluation) -> str:
    workflow = stored.evaluation.workflow
    return f"{workflow.id}@{workflow.version}"


def _taken(text: str, stored: StoredEvaluation, label: str) -> str:
    """Which evaluation was taken, where the name alone does not say it."""
    evaluation = stored.evaluation
    subject = (
        f"{_version(stored)} on"
        f" {evaluation.dataset.id}@{evaluation.dataset.version}, evaluated {evaluation.started}"
    )
    if evaluation.source == "import" and evaluation.started[:10] != stored.stored_at[:10]:
        subject += f", imported {stored.stored_at}"
    named = label if evaluation.name in (label, text) else f"{evaluation.name} ({label})"
    return f"{text} is {named}: {subject}"


def _write(path: str, items: Iterable[Any]) -> None:
    with open(path, "wb") as stream:
        for item in items:
            item.tree()  # what is not what its digest says is refused, never used
            stream.write(item.body + b"\n")
