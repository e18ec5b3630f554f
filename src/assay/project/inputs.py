"""What a name means where runs are taken: an evaluation of the ledger by its name or id, `latest`,
`latest~N`, `NAME~N`, a stored run by its id, a stored baseline, or a file: of runs, or of another
tool. Each becomes a `Source`.

A path has a slash or an extension, or is `-`; anything else is a name. The runs of a name are
written to a temporary file for the time of the work, byte for byte as the ledger stores them. Runs
of another tool are graded by the profile that its metrics make. In a comparison these are the
baseline's metrics: one that the candidate lacks counts as lost, and its additional ones don't
count. Results of two tools are never compared.
"""

from __future__ import annotations

import os
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import to_builtins

from assay.canon import pretty
from assay.errors import InputError, NotEnoughEvidence
from assay.files.atomic import write_file
from assay.files.inputs import Source, file_digest
from assay.files.json_files import Document, stream_documents
from assay.project.imports import Reading, ToolRuns, import_files, is_importable
from assay.project.ledger import open_store
from assay.project.names import LedgerNames, Named, described
from assay.registry import is_path, is_relative
from assay.release.baseline import find
from assay.release.baseline import names as baseline_names
from assay.services.evaluation_choice import (
    FLAGS,
    MAP,
    EvaluationChoice,
    ToolProfile,
    made_profile,
    own_profile,
    refuse_unknown_scales,
)
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
from assay.services.importing import PASSED, map_option
from assay.services.rules import GradedSide, RulesRequest, rules_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assay.library.shelf import Shelf
    from assay.records.evaluation import VersionedName
    from assay.services.importing import ImportedRuns
    from assay.store.ledger import Ledger


class StoredRuns(Source, frozen=True, kw_only=True):
    """Runs that a ledger has under a name."""

    digest: str
    """The digest of the record behind the name."""
    asked: str = ""
    """The name of the evaluation as it was given, such as `latest`."""
    evaluation: StoredEvaluation | None = None
    """None if the name is that of a run."""
    graded: Any = None
    """The first stored grade of the evaluation, which names what it was graded by."""
    grades: str | None = None
    """A file with the stored grades of the runs, in order, where they are asked for."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the evaluation was made with; empty for a run."""
        return {} if self.evaluation is None else self.evaluation.evaluation.settings


class BaselineName(Source, frozen=True):
    """The name of a stored baseline, which is found where it is read."""


class Lookup(NamedTuple):
    """Where names are looked up, and how other tools' files are read."""

    note: Callable[[str], None]
    """Reports what was taken, where the name alone doesn't say it."""
    project: str
    baselines: str
    """The folder of stored baselines."""
    db: str = ""
    """The URL of the ledger; empty for the default one."""
    store: str | None = None
    """The ledger in which a stored baseline may be, too."""
    reading: Reading = Reading()
    items: bool = False
    """Whether the work reads files of its own form, which are no runs."""
    grades: bool = False
    """Whether stored grades are wanted as well."""


class InputResolver(LedgerNames):
    """Makes sources of names, while the ledger is open. The runs wait in the folder."""

    def __init__(self, lookup: Lookup, folder: str) -> None:
        super().__init__(
            lookup.db or lookup.store or "",
            lookup.project,
            config=lookup.reading.config,
            baselines=lookup.baselines,
        )
        self._lookup = lookup
        self._folder = folder
        self._made: dict[tuple[str, bool], StoredRuns] = {}
        self.candidates: list[Source] = []
        """What a baseline is compared with."""
        self.baselines: list[Source] = []

    @property
    def stored(self) -> list[StoredRuns]:
        """What the ledger has under the names."""
        return list(self._made.values())

    @property
    def imported(self) -> list[ImportedRuns]:
        """What other tools wrote."""
        both = (*self.candidates, *self.baselines)
        return [side.imported for side in both if isinstance(side, ToolRuns)]

    def inputs(self, texts: Sequence[str], *, baseline: bool) -> list[Source]:
        """The sources of names and files. Files of other tools are imported together."""
        reading, items = self._lookup.reading, self._lookup.items
        foreign = [text for text in texts if is_importable(text, reading, items=items)]
        made = [
            Source(text, text) if is_path(text) else self.input(text, baseline=baseline)
            for text in texts
            if text not in foreign
        ]
        if foreign:
            made.append(import_files(foreign, self._folder, reading))
        return made

    def input(self, text: str, *, baseline: bool) -> Source:
        """The runs of a name, or the name of a stored baseline."""
        if (text, baseline) in self._made:
            return self._made[text, baseline]
        known = baseline_names(self._baselines) if baseline else []
        if self.ledger is None and baseline and not is_relative(text):
            return BaselineName(text, text)
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
            return BaselineName(text, text)
        if baseline and named is not None:
            from assay.store.baselines import baseline_names as ledger_names  # a database

            if text in ledger_names(ledger, project=self._project):
                raise ambiguous(text, "a baseline in the ledger", described(named))
        if named is None:
            if baseline and not is_relative(text) and self._lookup.store is not None:
                return BaselineName(text, text)  # it may be one of the ledger
            raise self.unknown(ledger, text, known if baseline else None)
        if named.evaluation is not None and named.evaluation.evaluation.workflow in judged:
            self._lookup.note(
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
            isinstance(candidate, StoredRuns) and candidate.evaluation
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
            if isinstance(candidate, StoredRuns) and candidate.evaluation is not None:
                workflows.add(candidate.evaluation.evaluation.workflow)
            # a pipe is read only once
            elif not isinstance(candidate, BaselineName) and os.path.isfile(candidate.path):
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

    def _written(self, ledger: Ledger, text: str, named: Named) -> StoredRuns:
        stored, run = named
        place = os.path.join(self._folder, str(len(self._made)))
        path = f"{place}.jsonl"
        grades = f"{place}.grades.jsonl" if self._lookup.grades else None
        if stored is None:
            assert run is not None
            same = ledger.count("run", {"run_id": text}, project=self._project).n
            if same > 1:
                self._lookup.note(f"{text} is the newest of {same:,} stored runs with this id")
            _write(path, [run])
            if grades is not None:
                from assay.services.storing import grade_of_run  # loaded only for names

                grade = grade_of_run(ledger, text, project=self._project)
                _write(grades, [] if grade is None else [grade])
            digest = run.digest.removeprefix("sha256:")
            return StoredRuns(text, path, numbered=False, digest=digest, grades=grades)
        label = evaluation_label(ledger, stored, project=self._project)
        if text not in (label, stored.evaluation.id):
            self._lookup.note(_taken(text, stored, label))
        _write(path, stored_runs(ledger, stored, project=self._project))
        if grades is not None:
            _write(grades, stored_grades(ledger, stored, project=self._project))
        return StoredRuns(
            label,
            path,
            numbered=False,
            digest=stored.digest.removeprefix("sha256:"),
            asked=text,
            evaluation=stored,
            graded=first_grade(ledger, stored, project=self._project),
            grades=grades,
        )

    # --- what grades them

    def rules(
        self,
        *,
        given: Mapping[str, Any],
        configured: Mapping[str, Any],
        is_named: bool,
        flags: Mapping[str, str] = FLAGS,
        shelf: Shelf | None = None,
    ) -> EvaluationChoice:
        """What grades the inputs; the arguments are those of `RulesRequest`. `is_named` says that
        the user names the profile, or that none is taken.
        """
        judged = self.candidates if self.baselines else []
        if not is_named:
            self._refuse_unclear()
        chosen = rules_for(
            RulesRequest(
                [self._graded(side, bar=False) for side in judged],
                [self._graded(side, bar=True) for side in self.baselines or self.candidates],
                given=given,
                configured=configured,
                flags=flags,
                fix="Compare it with an evaluation that `assay evals` lists, or name the rules that"
                " both sides are graded by, with --profile, --rubric or --grading-policy.",
                shelf=shelf,
            )
        )
        if chosen.made is not None:
            names = [item["id"] for item in chosen.made.profile["criteria"]]
            for side in judged:
                if isinstance(side, ToolRuns):
                    if PASSED in names:
                        side.imported.score_verdicts()
                    self._compare_metrics(side, names)
        return chosen

    def profile_file(self, profile: Mapping[str, Any], *folders: str) -> str:
        """A profile that no shelf has, as a file."""
        name = "{profile}@{version}.yaml".format(**profile)
        path = os.path.join(self._folder, *folders, name)
        write_file(path, pretty(profile))
        return path

    def _graded(self, side: Source, *, bar: bool) -> GradedSide:
        """What graded an input. An imported candidate is graded by the baseline's metrics, and
        brings none.
        """
        made = self._made_of(side, needed=bar)
        if isinstance(side, ToolRuns):  # it says what its tool scored by
            return GradedSide(side.name, made=made, kept=True)
        if isinstance(side, StoredRuns) and side.evaluation is not None:
            return GradedSide(side.name, side.settings, made)
        return GradedSide(side.name, made=made, kept=isinstance(side, BaselineName))

    def _made_of(self, side: Source, *, needed: bool) -> ToolProfile | None:
        """The profile that was made for an input; None if it was not made from metrics. A candidate
        is graded by the baseline's profile and needs none.
        """
        own: Any = None
        columns: Any = None
        if isinstance(side, ToolRuns):
            columns = side.imported.tally.mapping
            if not needed and side.imported.tally.samples:
                return ToolProfile(side.name, side.imported.importer.name, {}, columns)
            own = to_builtins(side.imported.made_profile(), builtin_types=(Decimal,))
        elif isinstance(side, StoredRuns):
            own, columns = own_profile(side.settings), side.settings.get(MAP)
        elif isinstance(side, BaselineName):
            record = self._baseline_record(side.name)
            own, columns = record.get("made_profile"), record.get(MAP)
        elif side.is_file and not os.path.exists(side.path):
            file_digest(side)  # reports the missing file, which would pass for another tool's
        return made_profile(side.name, own, columns)

    def _baseline_record(self, name: str) -> Mapping[str, Any]:
        """The record of a stored baseline. With a store, one that the folder lacks may be in the
        ledger: if it can't be read, the code that reads it reports why.
        """
        from assay.services.named_baselines import find_named
        from assay.store.baselines import find_baseline

        lookup = self._lookup
        try:
            return find(self._baselines, name).record
        except NotEnoughEvidence:
            if lookup.store is None:
                raise
        with (
            suppress(InputError),
            open_store(lookup.store, lookup.project, lookup.note, read_only=True) as store,
        ):
            kept = find_baseline(store.ledger, name, project=store.project)
            # which reports that there is none
            return (kept or find_named(self._baselines, name, store).stored).record
        return {}

    def _refuse_unclear(self) -> None:
        """Refuse a file without runs among other tools' results, and a baseline with a metric whose
        scale isn't known.
        """
        both = (*self.candidates, *self.baselines)
        if any(self._made_of(side, needed=False) for side in both):
            for what, sides in (("candidate", self.candidates), ("baseline", self.baselines)):
                for side in sides:
                    if not isinstance(side, StoredRuns | ToolRuns):
                        _refuse_empty(side, what)
        for side in self.baselines:
            if isinstance(side, ToolRuns):
                made = self._made_of(side, needed=True)
                names = [] if made is None else made.profile.get("not_graded") or []
                if made is not None and names:
                    option = map_option(side.imported.tally, names)
                    refuse_unknown_scales(made, option, again=False)

    def _compare_metrics(self, side: ToolRuns, names: Sequence[str]) -> None:
        note, tally = self._lookup.note, side.imported.tally
        has = [name for name, metric in tally.metrics.items() if metric.n]
        for name in names:
            if name not in has:
                note(f"{side}: lacks {name!r}, which the baseline has, so every sample loses it")
        if extra := [name for name in has if name not in names]:
            listed = ", ".join(extra)
            note(f"{side}: not graded, because the baseline has no such metric: {listed}")


def _refuse_empty(side: Source, what: str) -> None:
    """Refuse a file without runs, which would pass for a file of another tool."""
    if os.path.isfile(side.path) and next(stream_documents(side), None) is None:
        raise NotEnoughEvidence("REL-003", f"the {what} contains no runs.", where=side.name)


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
