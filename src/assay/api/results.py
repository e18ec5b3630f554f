"""The results of the API's functions: they print on one screen, and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.canon import canonical, pretty
from assay.files.atomic import atomic_write
from assay.files.json_files import Document, parse_json
from assay.records.contract import encode
from assay.release.summary import Summary
from assay.scoring.profile import Profile
from assay.services.compare import Origin
from assay.services.grading import Graded
from assay.services.rules import GradedSide
from assay.views.evaluation import RunReasons, WorstSample, evaluation_view, keep_worst
from assay.views.text import text_view

if TYPE_CHECKING:
    from assay.records.decision import Decision
    from assay.records.evaluation import Evaluation
    from assay.records.grade import Payload
    from assay.records.rehearsal import Rehearsal
    from assay.records.summary import SummaryBlock
    from assay.services.choice import Choice
    from assay.services.evaluation_choice import ToolProfile
    from assay.views.blocks import Part


class Displayed:
    """A result that prints as text and, in a notebook, as escaped HTML."""

    def _parts(self) -> Sequence[Part]:
        raise NotImplementedError

    def __str__(self) -> str:
        return text_view(self._parts())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as HTML."""
        from assay.views.render import clean, macro  # Jinja2 loads only where HTML is wanted

        return clean(str(macro("group")({"parts": self._parts(), "kind": ""})))


class EvaluationOutcome(Displayed):
    """An evaluation with its graded runs.

    `evaluation` is the record, `grades` the grade of each run as in `assay.grades/1`, `runs` the
    evidence. It is truthy only if every run passed.
    """

    def __init__(
        self,
        evaluation: Evaluation | None,
        graded: Sequence[Graded],
        *,
        choice: Choice,
        name: str = "",
        made: ToolProfile | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.name = evaluation.name if evaluation is not None else name
        self.graded = tuple(graded)
        self.choice = choice
        """What it was graded by. A comparison grades both sides by the baseline's, unless the
        caller names others.
        """
        self.made = made
        """The profile, if it was made from another tool's metrics, with the columns read."""
        self.origin = origin or Origin(self.name)
        """Where its runs come from: as a baseline, a stored evaluation may be too old."""
        self.notes: tuple[str, ...] = ()

    def graded_side(self) -> GradedSide:
        """What graded it, for a comparison."""
        choice = self.choice
        profile = choice.profile.id if isinstance(choice.profile, Profile) else choice.profile
        settings = {"profile": profile, "rubric": choice.rubric, "policy": choice.policy}
        return GradedSide(self.name or "the candidate", settings, self.made)

    @property
    def grades(self) -> list[Payload]:
        """The grade of each run."""
        return [graded_run.payload() for graded_run in self.graded]

    @property
    def runs(self) -> list[Mapping[str, Any]]:
        """The evidence of each run, as `assay.run/1`."""
        return [document.tree for document in self.documents()]

    @property
    def passed(self) -> bool:
        """Whether there are runs and every one passed."""
        return bool(self.graded) and all(graded_run.grade.passed for graded_run in self.graded)

    @property
    def pass_rate(self) -> float:
        """The share of runs that passed."""
        return sum(graded_run.grade.passed for graded_run in self.graded) / max(1, len(self.graded))

    @property
    def failed(self) -> list[str]:
        """The ids of the runs that did not pass."""
        return [
            graded_run.grade.scorecard.run_id
            for graded_run in self.graded
            if not graded_run.grade.passed
        ]

    def __bool__(self) -> bool:
        return self.passed

    def __len__(self) -> int:
        return len(self.graded)

    def __iter__(self) -> Iterator[Payload]:
        return iter(self.grades)

    def documents(self) -> Iterator[Document]:
        """The evidence as a comparison reads it."""
        for place, graded_run in enumerate(self.graded, 1):
            yield Document(
                parse_json(canonical(graded_run.evidence)), self.name or "evaluation", place
            )

    def save(self, path: str) -> None:
        """Write the runs as JSON Lines, which every command reads."""
        with atomic_write(path) as stream:
            for document in self.documents():
                stream.write(encode(document.tree) + b"\n")

    def _parts(self) -> Sequence[Part]:
        if self.evaluation is None:
            from assay.views.summary import summary_view

            return summary_view(block_of(self.graded))
        worst: list[WorstSample] = []
        reasons = RunReasons()
        for graded_run in self.graded:
            keep_worst(worst, graded_run.payload(), graded_run.run)
            reasons.add(graded_run.grade)
        used = f"Graded by {self.evaluation.settings['scored_by']['profile']}."
        notes = [used, *self.notes]
        return evaluation_view(self.evaluation, worst=worst, notes=notes, reasons=reasons)


def block_of(graded: Sequence[Graded]) -> SummaryBlock:
    """The summary of graded runs."""
    summary = Summary()
    for graded_run in graded:
        summary.add(graded_run.grade)
    return summary.block()


class GateOutcome(Displayed):
    """A decision: `outcome` is promote, hold, reject or not_enough_evidence; only promote is
    true.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.outcome = decision.outcome

    def __bool__(self) -> bool:
        return self.outcome == "promote"

    def document(self) -> bytes:
        """The decision as `assay.decision/1`."""
        return pretty(self.decision)

    def _parts(self) -> Sequence[Part]:
        from assay.views.decision import decision_summary

        return decision_summary(self.decision)


class RehearsalOutcome(Displayed):
    """A rehearsal of a release policy; `rehearsal` has every number."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal

    def document(self) -> bytes:
        """The rehearsal as `assay.rehearsal/1`."""
        return pretty(self.rehearsal)

    def _parts(self) -> Sequence[Part]:
        from assay.views.rehearsal import rehearsal_summary

        return rehearsal_summary(self.rehearsal)


class SummaryOutcome(Displayed):
    """The reporting bundle over runs; `block` has every number. It is truthy only if every run
    passed.
    """

    def __init__(self, block: SummaryBlock) -> None:
        self.block = block

    def __bool__(self) -> bool:
        return self.block.n > 0 and self.block.pass_rate.value == 1

    def _parts(self) -> Sequence[Part]:
        from assay.views.summary import summary_view

        return summary_view(self.block)
