"""The results of the rules for runs, scorecards and releases on their golden inputs.

Reasons and explanations are not behaviour and are left out. Scoring is fingerprinted on runs and on
formula probes; grading on scorecards that use only `zero_one`, so that a change of another formula
moves scoring alone. Profiles and policies are pinned to version 1, so that publishing a new one
moves nothing here.
"""

from __future__ import annotations

from typing import Any

from assay.canon import digest
from assay.files.json_files import Document
from assay.formulas import normalise
from assay.grading.grade import grade
from assay.grading.policy import Rules, make_rules
from assay.library.golden_inputs import golden, outcomes
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.records.grade import Grade
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import Scorecard
from assay.release.decision import Paired, Terms, decide
from assay.release.policy import make_release_rules
from assay.release.sides import Evidence, SevereKinds, Side, SideBuilder, pair_up
from assay.release.summary import Summary
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.examples import EXAMPLES
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.profile import make_plan
from assay.scoring.scorecard import score

FIRST_MEASURES = ("tests_passed", "latency", "cost")
"""The measures of scoringSystem/1.0.0; adding another changes no score."""


def workflow_scoring() -> list[Any]:
    """Formula probes, then the golden runs with their first measures."""
    shelf = Shelf()
    results = outcomes(
        "formulas.jsonl",
        lambda probe: normalise(probe["raw"], probe["formula_id"], probe["params"]),
    )
    for document in golden("runs.jsonl"):
        run = read_run(document)
        profile = shelf.profile(run.workflow.profile or f"{run.workflow.family}@1")
        if run.workflow.profile is not None:
            profile = shelf.profile(f"{profile.profile}@1")  # its name may be an alias letter
        rubric = shelf.rubric(run.workflow.rubric) if run.workflow.rubric else None
        results.append(_scored(score(run, make_plan(profile, why="", rubric=rubric))))
        results.append([_value(MEASURES[name].take(run, {})) for name in FIRST_MEASURES])
    return results


def _value(taken: Any) -> Any:
    return None if isinstance(taken, Undetermined) else taken


def _scored(card: Scorecard) -> dict[str, Any]:
    return {
        "run_id": card.run_id,
        "gates": card.hard_gates,
        "criteria": [
            [
                item.name,
                item.raw_score,
                item.formula_id,
                item.params,
                item.weight,
                item.critical_floor,
                item.role,
                item.layer,
                item.n,
                item.missing is None,
            ]
            for item in card.criteria
        ],
        "steps": card.step_scores,
        "agents": card.agent_scores,
    }


def workflow_grading() -> list[Any]:
    """The golden scorecards under both first policies."""
    shelf = Shelf()
    policies = [make_rules(shelf.policy(name)) for name in ("workflow@1", "workflow-judged@1")]
    return [
        _graded(grade(read_scorecard(document), rules))
        for rules in policies
        for document in golden("scorecards.jsonl")
    ]


def _graded(result: Grade) -> dict[str, Any]:
    return {
        "run_id": result.run_id,
        "grade": [result.grade, result.provisional_grade, result.passed, result.reason],
        "scores": [result.score_units, result.adjusted_score_units, result.threshold_units],
        "gates": result.hard_gate_failures,
        "floors": result.floor_failures,
        "criteria": [
            [
                item.name,
                item.norm_units,
                item.adjusted_units,
                item.contribution_units,
                item.floor_units,
                item.floor_failed,
            ]
            for item in result.criteria
        ],
        "rules": [[finding.rule, finding.fired, finding.subject] for finding in result.findings],
    }


def measure_fingerprints() -> dict[str, str]:
    """The digest of each measure's results on the golden runs, by `id@version`: every measure has
    its own version.
    """
    runs = [
        read_run(document) for name in ("runs.jsonl", "measures.jsonl") for document in golden(name)
    ]
    fingerprints = {}
    for name in MEASURES:
        measure = MEASURES[name]
        choices = [measure.params]
        if name in EXAMPLES:
            choices.append({**measure.params, **EXAMPLES[name].params})
        taken = [_value(measure.take(run, params)) for params in choices for run in runs]
        fingerprints[f"{name}@{measure.version}"] = digest(taken)
    return fingerprints


def profile_fingerprints() -> dict[str, str]:
    """The digest of each shipped profile's results on the golden runs of its family, by
    `profiles/id`: they also depend on its measures and gates, not only on its file.
    """
    shelf = Shelf()
    runs = [read_run(document) for document in golden("profiles.jsonl")]
    fingerprints = {}
    for entry in shelf.entries("profiles"):
        profile = shelf.profile(entry.id)
        plan = make_plan(profile, why="")
        cards = [score(run, plan) for run in runs if run.workflow.family == profile.family]
        fingerprints[entry.key] = digest([_scored(card) for card in cards])
    return fingerprints


def release_grading() -> list[Any]:
    """The decision on each golden comparison under every first policy."""
    shelf = Shelf()
    grading = make_rules(shelf.policy("workflow@1"))
    policies = [
        make_release_rules(shelf.policy_of("release", name))
        for name in ("release@1", "release-strict@1", "regression@1")
    ]

    def decided(probe: dict[str, Any]) -> list[Any]:
        results = []
        for rules in policies:
            severe = SevereKinds(rules.severe_gates, rules.severe_roles)
            ours, theirs = (
                _side(name, probe[name], probe["n"], grading, severe)
                for name in ("candidate", "baseline")
            )
            paired = Paired(pair_up(ours, theirs))
            results.append(_outcome(decide(paired, ours, theirs, rules, Terms())))
        return results

    return outcomes("decisions.jsonl", decided)


def _side(name: str, spec: dict[str, Any], n: int, rules: Rules, severe: SevereKinds) -> Side:
    """A side of `n` samples: `score` for all of them; `scores`, `gates` and `missing` for single
    ones by their number; `criterion` for everything else.
    """
    builder = SideBuilder(name, severe)
    for index in range(n):
        key = str(index)
        if index in spec.get("missing", ()):
            continue
        criterion = {
            "name": "quality",
            "raw_score": spec.get("scores", {}).get(key, spec["score"]),
            "formula_id": "zero_one",
            "weight": 1,
        }
        card = {
            "schema": "assay.scorecard/1",
            "run_id": f"{name}-{index}",
            "sample_id": key,
            "hard_gates": {
                "no_policy_violation": True,
                "looks_right": True,
                **spec.get("gates", {}).get(key, {}),
            },
            "criteria": [{**criterion, **spec.get("criterion", {})}],
        }
        builder.add(
            grade(read_scorecard(Document(card, name)), rules),
            Evidence(key, f"{name} {key}".encode()),
        )
    return builder.side(Summary().block())


def _outcome(made: Decision) -> dict[str, Any]:
    difference = made.comparison.difference
    ends = (difference.estimate, difference.low, difference.high)
    return {
        "outcome": made.outcome,
        "rules": [[rule.id, rule.holds, rule.violated] for rule in made.rules],
        "difference": [None if end is None else f"{end:.6f}" for end in ends],
        "suspects": [[one.sample, one.check, one.verdict] for one in made.confirmation.suspects],
        "missing": made.missing,
    }
