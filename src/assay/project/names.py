"""What a name means in a ledger: an evaluation by its name or id, `latest`, `latest~N`, `NAME~N`,
or a stored run by its id; and the error for a name that means nothing.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Self

from assay.errors import AssayError, NotEnoughEvidence, UsageError
from assay.project.ledger import open_for, url_of
from assay.registry import is_relative, near_miss
from assay.release.baseline import no_baseline
from assay.services import evaluations
from assay.services.evaluations import (
    LATEST,
    StoredEvaluation,
    ambiguous,
    evaluation_names,
    find_evaluation,
    list_evaluations,
)

if TYPE_CHECKING:
    from assay.project.config import Config
    from assay.store.drafts import Item
    from assay.store.ledger import Ledger

SHOWN = 5


class Named(NamedTuple):
    """What a name stands for: an evaluation, or the newest stored run of an id."""

    evaluation: StoredEvaluation | None
    run: Item | None


class LedgerNames:
    """The names of a ledger, while it is open for reading. `baselines` is the folder of those that
    a name could also mean.
    """

    def __init__(
        self, url: str, project: str, *, config: Config | None = None, baselines: str = ""
    ) -> None:
        self._url = url
        self._project = project
        self._config = config
        self._baselines = baselines

    @cached_property
    def ledger(self) -> Ledger | None:
        """None if there is no ledger that can be opened; a name is then an error."""
        try:
            return open_for(self._url, read_only=True)
        except AssayError as error:
            self._absent = error
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        ledger = self.__dict__.pop("ledger", None)  # files alone never open it
        if ledger is not None:
            ledger.close()

    def opened(self, text: str) -> Ledger:
        """The ledger, to look a name up; if there is none, the error for this name."""
        if self.ledger is None:
            raise self._no_ledger(text)
        return self.ledger

    def get(self, text: str) -> Named:
        """What a name stands for; an error if it stands for nothing."""
        ledger = self.opened(text)
        named = self.find(ledger, text)
        if named is None:
            raise self.unknown(ledger, text, None)
        return named

    def find(self, ledger: Ledger, text: str) -> Named | None:
        """What a name stands for; None if it stands for nothing."""
        if is_relative(text):
            return self._latest(ledger, text)
        evaluation = find_evaluation(ledger, text, project=self._project)
        page = ledger.find(
            "run", {"run_id": text}, project=self._project, limit=1, newest_first=True
        )
        run = next((item for item in page.items if item.body is not None), None)
        if evaluation is not None and run is not None:
            raise ambiguous(text, described(Named(evaluation, None)), described(Named(None, run)))
        return None if evaluation is None and run is None else Named(evaluation, run)

    def _latest(self, ledger: Ledger, text: str) -> Named | None:
        """The newest evaluation, or one before it; of the workflow that assay.yaml names, if it
        names one.
        """
        workflow = _workflow(self._config)
        if workflow is not None:
            same = ledger.count("evaluation", {"workflow": workflow}, project=self._project)
            names = evaluation_names(ledger, project=self._project)
            if not same.n and names:
                raise NotEnoughEvidence(
                    "STO-012",
                    f"there is no {text}: the workflow of assay.yaml, {workflow}, has no"
                    f" evaluations. Those of other workflows are {', '.join(names[:SHOWN])}.",
                    fix="Evaluate it with `assay run`, or name an evaluation.",
                )
        evaluation = find_evaluation(ledger, text, project=self._project, workflow=workflow)
        return None if evaluation is None else Named(evaluation, None)

    # --- what is not there

    def unknown(self, ledger: Ledger, text: str, baselines: list[str] | None) -> AssayError:
        """The error for a name that stands for nothing; `baselines` are those in the folder, where
        it could have been one.
        """
        names = evaluation_names(ledger, project=self._project)
        where = f"the project '{self._project}' of {ledger.where}"
        if is_relative(text):
            n = ledger.count("evaluation", project=self._project).n
            there = f"{n} evaluation{'s' if n != 1 else ''}" if n else "no evaluations"
            newest = next(list_evaluations(ledger, project=self._project), None)
            part = newest is not None and newest.evaluation.only
            return NotEnoughEvidence(
                "STO-012",
                f"there is no {text}: {where} has {there}"
                f"{'; those of chosen samples are never the latest' if part else ''}.",
                fix="`assay run` and `assay import` store one each time.",
            )
        if baselines is not None:
            known, folder = [*baselines, *names], self._baselines
            return no_baseline(
                text,
                known,
                where=folder,
                fix=(
                    "`assay baseline set NAME FILE...` stores one, `assay evals` lists the"
                    " evaluations."
                ),
                neither_in=f"the folder {folder} nor as an evaluation in {where}",
            )
        listed = f" It has {', '.join(names[:SHOWN])}." if names else " It has no evaluations."
        return UsageError(
            "STO-012",
            f"no evaluation or run is named {text[:120]!r} in {where}."
            f"{near_miss(text, (*names, LATEST)) or listed}",
            fix=_as_file(text),
        )

    def _no_ledger(self, text: str) -> AssayError:
        where = url_of(self._url).removeprefix("sqlite:///")
        if self._absent.code == "STO-001" and not os.path.exists(where):
            return NotEnoughEvidence(
                "STO-012",
                f"{text[:120]!r} names an evaluation or a run, and there is no ledger at"
                f" {where} to look in.",
                fix=f"`assay run` and `assay import` make one. {_as_file(text)}",
            )
        return self._absent


def _workflow(config: Config | None) -> str | None:
    """The id of the workflow that a configuration names, if it names one that can be read."""
    chosen = None if config is None else config.chosen("workflow")
    if chosen is None:
        return None
    from assay.running.workflow import read_workflow

    try:
        return read_workflow(chosen).id
    except AssayError:
        return None  # running it reports the error


def _as_file(text: str) -> str:
    return f"To read a file of that name, write ./{text}."


def described(named: Named) -> str:
    """What a name stands for, in words."""
    if named.evaluation is not None:
        return evaluations.described(named.evaluation)
    assert named.run is not None
    return f"the run {named.run.digest[:19]}"
