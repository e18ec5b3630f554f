"""What is measured after a run, in order: the steps of families, such as its patch, the assertions
of its sample, and the scorers of the workflow file and of `assay.yaml`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.canon import digest, pretty
from assay.errors import UsageError, count
from assay.files.atomic import write_file
from assay.grouping import grouped
from assay.library.shelf import Shelf
from assay.running.assertions import CRITERION, GATE, AssertionTerms, AssertionWeight, outcome
from assay.running.compatibility import PreparedSample
from assay.running.journal import scorers_digest
from assay.running.local_code import code_digest
from assay.running.runner import PostRun
from assay.running.scorer_results import MAX_REASON
from assay.running.scorers import PlacedScorer, check_scorers, scorer_measures
from assay.running.steps import steps_of
from assay.running.workflow import LoadedWorkflow, read_workflow
from assay.scoring.extension import ADDED, Additions, extended
from assay.scoring.profile import Profile, ProfileCriterion

_RAISED = re.compile(r"[A-Za-z_][\w.]*(: |$)")
"""An exception, as `describe` writes it."""
_SOURCE = {"kind": "script", "name": "assertions of the dataset"}


def after_of(
    workflow: LoadedWorkflow,
    *,
    criteria: Iterable[ProfileCriterion],
    scorers: Sequence[PlacedScorer] = (),
) -> list[PostRun]:
    """Everything that is to be measured after a run; `scorers` are those of the configuration,
    besides the workflow's own. `criteria` have the scales of what they fill: without them, a score
    off its scale would be clamped to a perfect one.
    """
    measures = [step.measure(workflow) for step in steps_of(workflow)]
    measures.append(_assertions(workflow))
    placed = all_scorers(workflow, scorers)
    measures.append(_added(workflow, placed))
    return measures + scorer_measures(placed, criteria)


def all_scorers(
    workflow: LoadedWorkflow, scorers: Iterable[PlacedScorer] = ()
) -> list[PlacedScorer]:
    """The scorers of a workflow file and of the configuration; one that both declare is one."""
    own = [
        PlacedScorer(scorer, workflow.folder, workflow.where) for scorer in workflow.spec.scorers
    ]
    return own + [
        scorer
        for scorer in scorers
        if not any((known.scorer, known.folder) == (scorer.scorer, scorer.folder) for known in own)
    ]


def code_of(workflow: LoadedWorkflow, scorers: Iterable[PlacedScorer] = ()) -> str:
    """A digest of the code that makes and measures the runs of a workflow: its own, that of its
    scorers and of those in the configuration, and the files that steps after a run measure with.
    """
    files = [step.digest(workflow) for step in steps_of(workflow)] or [None]
    own = code_digest((name, workflow.folder) for name in workflow.code)
    return digest([own, scorers_digest(all_scorers(workflow, scorers)), *files])


def additions_of(
    workflow: LoadedWorkflow,
    samples: Iterable[PreparedSample],
    *,
    scorers: Sequence[PlacedScorer] = (),
) -> Additions:
    """The gates and criteria that scorers and assertions fill, and that the profile must have.

    The gate of assertions is not among them: it is in every run of a dataset that has some, and a
    first assertion in a dataset must not make a baseline incomparable.
    """
    additions = scorer_additions(all_scorers(workflow, scorers))
    terms: AssertionTerms = workflow.spec.assertions
    asserted = any(sample.assertions is not None for sample in samples)
    if not asserted or not isinstance(terms, AssertionWeight):
        return additions
    criterion = ProfileCriterion(
        id=CRITERION,
        label="assertions that hold",
        weight=terms.weight,
        layer=1,
        formula="ratio",
    )
    return additions._replace(criteria=(*additions.criteria, criterion))


def scorer_additions(scorers: Iterable[PlacedScorer]) -> Additions:
    """The gates and criteria that scorers fill."""
    gates: list[str] = []
    criteria: list[ProfileCriterion] = []
    for scorer, *_ in scorers:
        gates += scorer.gates
        if scorer.weight is not None:
            criteria.append(
                ProfileCriterion(
                    id=scorer.id,
                    label=scorer.id.replace("_", " "),
                    weight=scorer.weight,
                    layer=1,
                    formula=scorer.formula or "zero_one",
                    role=scorer.role,
                )
            )
    return Additions(tuple(gates), tuple(criteria))


def idle_scorers(
    profile: Profile,
    scorers: Sequence[PlacedScorer],
    runs: Iterable[Mapping[str, Any]] | None = None,
) -> list[str]:
    """Scorers without any effect, one sentence each: those without a weight or a gate that fill no
    criterion. Where the profile has criteria that they may return by name, only the runs can tell,
    so those are reported with `runs`, and the others without.
    """
    measured = {item.id: item.measure is not None for item in profile.criteria}
    idle = {
        scorer.name or scorer.target: scorer.target
        for scorer, *_ in scorers
        if scorer.weight is None and not scorer.gates and measured.get(scorer.id, True)
    }
    added = {scorer.id for scorer, *_ in scorers if scorer.weight is not None}
    is_certain = all(measured[name] for name in measured if name not in added)
    if is_certain is not (runs is None):
        return []
    for run in runs or ():
        if not idle:
            break
        for name, score in run.get("scores", {}).items():
            if not measured.get(name, True):
                idle.pop(score.get("source", {}).get("name"), None)
    label = profile.id.partition("+")[0]
    return [
        f"scorer {target} fills no criterion of {label} and adds none: give it a weight or"
        " gate: true."
        for target in idle.values()
    ]


def scorer_warnings(
    errors: Iterable[Mapping[str, str]], scorers: Sequence[PlacedScorer], *, total: int
) -> list[str]:
    """The scorers that gave no result, one sentence each; `errors` are `metadata.scorer_errors` of
    those of `total` runs that have some. A run without outputs gives its own reason.
    """
    counts = grouped(
        (target, " ".join(str(reason).split())[:200])
        for one in errors
        for target, reason in one.items()
    )
    sentences = []
    for target, reasons in counts.items():
        named = [scorer for scorer, *_ in scorers if scorer.target == target]
        gates = any(scorer.gates for scorer in named)
        scores = any(scorer.weight is not None or not scorer.gates for scorer in named) or not named
        lost = "its score is missing and counts as 0" if scores else ""
        if gates:
            undetermined = "its gate is undetermined, so those runs don't pass"
            lost = f"{lost}, and {undetermined}" if lost else undetermined
        verb = "raised" if _RAISED.match(reasons[0]) else "gave no result"
        name = f"scorer {target}" if target != CRITERION else "the dataset's assertions"
        example = "" if len(set(reasons)) == 1 else ", for example"
        sentences.append(
            f"{name} {verb} in {len(reasons):,} of {count(total, 'run')}{example}:"
            f" {reasons[0].rstrip('.')}; {lost}."
        )
    return sentences


def required_profile(
    shelf: Shelf,
    named: str | Profile | None,
    scorers: Sequence[PlacedScorer],
    *,
    workflow: str | None,
    where: str,
) -> str | Profile | None:
    """The named profile, else that of the workflow in `assay.yaml`, with what the scorers add: it
    is required of every run, even of one that was made without them.
    """
    additions = scorer_additions(scorers)
    if not additions.gates and not additions.criteria:
        return named
    check_scorers(scorers)
    base, family = named, None
    if base is None and workflow is not None:
        subject = read_workflow(workflow).subject()
        base, family = subject.get("profile"), subject.get("family")
    if base is None and family is None:
        raise UsageError(
            "CFG-001",
            "scorers are declared, but no profile to add them to.",
            where=where,
            fix="Add `profile:` to assay.yaml, or give --profile.",
        )
    known = shelf.profile(base) if base is not None else shelf.profile_for_family(str(family))
    profile = extended(known, additions)
    if "+" not in str(profile.version):
        return named or profile.id
    return profile


def write_profile(profile: Profile, folder: str, *, root: str | None = None) -> str:
    """Write a profile to `FOLDER/profiles`, which makes the folder a library; return its path. It
    must be in `root`.
    """
    path = os.path.join(folder, "profiles", f"{profile.id}.yaml")
    write_file(path, pretty(profile), root=root)
    return path


def _assertions(workflow: LoadedWorkflow) -> PostRun:
    terms: AssertionTerms = workflow.spec.assertions
    declared = list(workflow.outputs) or workflow.required_outputs

    def measure(sample: PreparedSample, run: dict[str, Any]) -> dict[str, Any]:
        if sample.assertions is None:
            return {}
        if not sample.assertions:
            reason = "not applicable: the sample asserts nothing"
            return {"gates": {**run.get("gates", {}), GATE: {"passed": True, "reason": reason}}}
        outputs = run.get("outputs")
        results, words = outcome(
            sample.assertions, outputs, status=run["status"], declared=declared
        )
        holds = [result.holds for result in results]
        if terms == "gate":
            passed = False if False in holds else None if None in holds else True
            verdict = {"passed": passed, "reason": words[:MAX_REASON]}
            return {"gates": {**run.get("gates", {}), GATE: verdict}}
        measured: dict[str, Any] = {}
        if None in holds:
            errors = run.get("metadata", {}).get("scorer_errors", {})
            measured["metadata"] = {"scorer_errors": {**errors, CRITERION: words[:MAX_REASON]}}
        if outputs is not None:  # what is undetermined doesn't hold
            score = {
                "raw": {"passed": sum(map(bool, holds)), "total": len(holds)},
                "source": dict(_SOURCE),
            }
            measured["scores"] = {**run.get("scores", {}), CRITERION: score}
        return measured

    return measure


def _added(workflow: LoadedWorkflow, scorers: Sequence[PlacedScorer]) -> PostRun:
    """Names the added criteria in each run, so that none is graded without them later, and the
    scorers, which a comparison requires.
    """
    by_scorers = [item.id for item in scorer_additions(scorers).criteria]
    checks = _checks(workflow, scorers)
    weighted = isinstance(workflow.spec.assertions, AssertionWeight)

    def measure(sample: PreparedSample, run: dict[str, Any]) -> dict[str, Any]:
        asserted = [CRITERION] if weighted and sample.assertions is not None else []
        names = by_scorers + asserted
        return {
            **({"checks": {**run.get("checks", {}), **checks}} if checks else {}),
            **({"metadata": {ADDED: names}} if names else {}),
        }

    return measure


def _checks(workflow: LoadedWorkflow, scorers: Iterable[PlacedScorer]) -> dict[str, int]:
    """Each scorer with a digest of its code: another one may be easier to please. Files that the
    workflow itself runs are left out, because another version of it has others.
    """
    own = [(name, workflow.folder) for name in workflow.code]
    digests = {
        scorer.target: code_digest([(scorer.target, folder)], besides=own)
        for scorer, folder, _ in scorers
    }
    return {
        f"scorer {target} with the code {code[7:19]}": 0
        for target, code in digests.items()
        if code is not None
    }
