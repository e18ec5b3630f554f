"""Builds evaluations: takes graded runs one by one, and returns the record and its draft.

An evaluation is the last record that is stored, after its runs and their grades, so a ledger
contains all of it or none. Its totals are always computed here, from the grades it names, and
`evaluation_checks` computes them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any, Literal, TypedDict

import msgspec
from msgspec import UNSET, structs, to_builtins

from assay.archive.evaluations import check_name
from assay.archive.grades import evidence_body
from assay.canon import digest, in_order, time_text
from assay.errors import InputError, NotEnoughEvidence
from assay.pipeline.grading import Graded
from assay.records.evaluation import ChosenSamples, EvaluatedRun, Evaluation, VersionedName
from assay.release.summary import EvaluationTally
from assay.store.drafts import Draft, body_of, check_size, digest_text, facets_of, note


class _Versioned(msgspec.Struct):
    id: str | None = None
    version: str | None = None


class _NamedRun(msgspec.Struct):
    run_id: str
    workflow: _Versioned | None = None
    dataset: _Versioned | None = None


class _GateStatus(TypedDict):
    status: str


class _CriterionScore(TypedDict):
    name: str
    raw_score: Any


class _GradeTotals(TypedDict):
    """The parts of a grade that the totals of an evaluation need."""

    passed: bool
    weighted_score: Decimal
    dataset: dict[str, Any] | None
    sample_id: str | None
    group: str | None
    hard_gates: dict[str, _GateStatus]
    criteria: list[_CriterionScore]


_read_run = msgspec.json.Decoder(_NamedRun).decode
_read_grade = msgspec.json.Decoder(_GradeTotals).decode
_read_runs = msgspec.json.Decoder(list[EvaluatedRun]).decode
_write_run = msgspec.json.Encoder(order="sorted").encode
"""Its canonical JSON: it has no numbers."""
_RUNS = b'"runs":['
"""The key of the list of runs. Its first occurrence in an evaluation is the list: only names and
texts come before it.
"""


class EvaluationBuilder:
    """Takes the runs of an evaluation one by one and remembers only their ids and digests, as its
    record has them.

    Every run must belong to the workflow and the dataset that the evaluation names; one of another
    version is refused, because totals over two versions describe neither.
    """

    def __init__(
        self,
        *,
        name: str,
        workflow: VersionedName,
        dataset: VersionedName,
        settings: Mapping[str, Any],
        started: datetime,
        source: Literal["run", "import"] = "run",
        labels: Sequence[str] = (),
        only: ChosenSamples | None = None,
    ) -> None:
        """`only` are the samples that were chosen; None for the whole dataset."""
        check_name(name)
        self.name = name
        self.workflow, self.dataset = workflow, dataset
        self._settings = in_order(to_builtins(settings, builtin_types=(Decimal,)))
        self.started = started
        self._source: Literal["run", "import"] = source
        self._labels = sorted(set(labels))
        self._only = only
        self._runs = bytearray()
        self._evaluates = bytearray()
        self._ids: set[bytes] = set()
        self._tally = EvaluationTally()

    def add(self, graded: Graded) -> None:
        """Add a graded run."""
        assert graded.run is not None, "an evaluation is made of runs"
        self.add_stored(evidence_body(graded), body_of(graded.payload()))

    def add_stored(self, run: bytes, grade: bytes | None) -> None:
        """Add a run as the ledger stores it, with its grade; None for one that could not be
        graded.
        """
        named = _read_run(run)
        self._check(named)
        own = sha256(named.run_id.encode()).digest()
        if own in self._ids:
            raise InputError("FIL-007", f"two runs have the id {named.run_id[:80]!r}.")
        self._ids.add(own)
        if grade is None:
            self._tally.add_ungraded()
        else:
            self._tally.add(_read_grade(grade))
        of_run = sha256(run).digest()
        of_grade = None if grade is None else sha256(grade).digest()
        self._evaluates += of_grade or of_run
        if self._runs:
            self._runs += b","
        self._runs += _write_run(
            EvaluatedRun(
                run_id=named.run_id,
                digest=digest_text(of_run),
                grade=None if of_grade is None else digest_text(of_grade),
            )
        )

    def _check(self, run: _NamedRun) -> None:
        for what, own, wanted in (
            ("workflow", run.workflow, self.workflow),
            ("dataset", run.dataset, self.dataset),
        ):
            own = own or _Versioned()
            if (own.id, own.version) != (wanted.id, wanted.version):
                raise InputError(
                    "STO-018",
                    f"the run {run.run_id!r} belongs to the {what} {own.id}@{own.version}, and the"
                    f" evaluation {self.name!r} to {wanted.id}@{wanted.version}.",
                    fix="An evaluation is one version of a workflow on one version of a dataset.",
                )

    def finish(self, finished: datetime) -> Evaluation:
        """The evaluation, once all of its runs were added."""
        evaluation = self._without_runs(finished)
        return structs.replace(evaluation, runs=_read_runs(b"[%b]" % bytes(self._runs)))

    def drafted(self, finished: datetime, *, author: str | None = None) -> tuple[Evaluation, Draft]:
        """The evaluation without its list of runs, and its complete draft. The draft links to the
        grades, or to the runs that have none: all of them are stored before it.
        """
        evaluation = self._without_runs(finished)
        body = b"".join(self._parts(evaluation))
        check_size(body)
        return evaluation, Draft(
            sha256(body).digest(),
            "evaluation",
            body,
            facets_of("evaluation", body),
            note("author", author),
            reason=None,
            links=(),
            evaluates=bytes(self._evaluates),
        )

    def _without_runs(self, finished: datetime) -> Evaluation:
        if not self._runs:
            raise NotEnoughEvidence("FIL-005", f"the evaluation {self.name!r} has no runs.")
        evaluation = Evaluation(
            id="",
            name=self.name,
            source=self._source,
            workflow=self.workflow,
            dataset=self.dataset,
            configuration=digest(self._settings),
            settings=self._settings,
            only=UNSET if self._only is None else self._only,
            labels=self._labels,
            started=time_text(self.started, "milliseconds"),
            finished=time_text(finished, "milliseconds"),
            totals=self._tally.totals(),
            runs=[],
        )
        rest = sha256()
        for part in self._parts(evaluation):
            rest.update(part)
        return structs.replace(evaluation, id=_id(rest.hexdigest()))

    def _parts(self, evaluation: Evaluation) -> tuple[bytes | bytearray, ...]:
        """The canonical JSON of the evaluation with its runs, in parts, because it can be large."""
        head, key, rest = body_of(evaluation).partition(_RUNS)
        return head, key, self._runs, rest


def identified(evaluation: Evaluation) -> Evaluation:
    """An evaluation with the id that follows from everything else in it."""
    rest = digest(structs.replace(evaluation, id=""))
    return structs.replace(evaluation, id=_id(rest.removeprefix("sha256:")))


def _id(digits: str) -> str:
    return f"ev-{digits[:12]}"
