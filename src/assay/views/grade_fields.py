"""The meaning of each field of a grade, as its published JSON Schema states it."""

from __future__ import annotations

from typing import Any

GRADES = {
    "schema": "The kind and version of this document.",
    "results": "One grade for each run, in the order of the input.",
    "faults": "Documents that could not be graded, and why.",
    "counts": (
        "How many documents were read, graded, passed, failed and refused, with letters, policy and"
        " versions. `bar` is the result of `--min-pass-rate`."
    ),
}
GRADE = {
    "run_id": "The id of the run or scorecard.",
    "passed": "Whether every gate passes, every floor is met and the score is high enough.",
    "grade": "The letter. A failed gate makes it an F, a missed floor caps it.",
    "provisional_grade": "The letter of `weighted_score` alone, without gates and floors.",
    "weighted_score": "The weighted mean of the norms, from 0 to 100, rounded to cents.",
    "weighted_score_adjusted": "The same on adjusted norms, which allow for small samples.",
    "pass_threshold": "The score that the run had to reach.",
    "reason": "Why it passed or failed, as a code.",
    "grade_reason": "What decided the letter: its band, a missed floor, or a failed gate.",
    "hard_gates": "Every gate with its status and reason. Undetermined fails.",
    "hard_gate_failures": "The gates that did not pass.",
    "criteria": "Every criterion with its score and the points it adds.",
    "floor_failures": "The criteria below their critical floor.",
    "layers": "The points of each layer: 1 objective, 2 rubric or judge, 3 operations.",
    "placement": "How far the score is from other letters, and the smallest change that moves it.",
    "explanation": "The grade in sentences.",
    "findings": "Every rule that was applied, and whether it fired.",
    "notes": "What scoring noticed, such as a score that was ignored.",
    "bands": "The letters of the policy, each with its lowest score.",
    "policy": "The policy, as name@version.",
    "profile": "The profile, as name@version; null for a bare scorecard.",
    "rubric": "The rubric, as name@version.",
    "selection": "Why this profile and rubric were used.",
    "workflow": "The workflow that ran.",
    "dataset": "The dataset that it ran on, with version and sample.",
    "sample_id": "The sample's id in its dataset.",
    "group": "The group of the sample; samples of one group are not independent.",
    "tags": "Labels for slicing results.",
    "status": "How the run ended.",
    "attempt": "Which attempt at the sample this is, from 1.",
    "attempts": "How many attempts at the sample were announced.",
    "cause": "What ended a run that did not succeed, where the run states it.",
    "judge": "The judge that the run names, with model and versions.",
    "operations": "Latency, cost, tokens and retries.",
    "step_scores": "What each step did, and its scores.",
    "agent_scores": "What each agent did over all its steps.",
    "scoringSystem": "The version of the scoring system.",
    "gradingSystem": "The version of the grading system.",
    "digests": "Digests of the run, scorecard, profile, rubric, policy and plugins behind it.",
}
CRITERION = {
    "name": "The criterion's id in the profile.",
    "label": "The name that people see.",
    "role": "What it stands for, such as `correctness`; the policy has floors by role.",
    "layer": "1 objective, 2 rubric or judge, 3 operations.",
    "raw_score": "The score on its own scale; null where there is none.",
    "formula_id": "The formula that brought it onto 0..1.",
    "params": "The parameters of the formula.",
    "norm": "The score on 0..1.",
    "adjusted_norm": "The norm, drawn towards the prior where few samples are behind it.",
    "n": "The number of samples behind the score.",
    "weight": "Its weight, relative to the other weights.",
    "contribution": "The points that it adds to the weighted score.",
    "maximum": "The points that it would add with a norm of 1.",
    "critical_floor": "The floor, and where it comes from.",
    "floor_failed": "Whether the floor is missed: by the score, or because the judge may not gate.",
    "missing": "Why there is no score; it counts as 0.",
    "source": "Who gave the score.",
    "disagreement": "How far those who scored it disagreed.",
    "judge_fault": "Why the judge's score may not pass the floor.",
}
LAYERS = {
    "1": "Points of objective criteria; null where there are none.",
    "2": "Points of criteria that a rubric or judge scores.",
    "3": "Points of operations: time and cost.",
    "none": "Points of criteria without a layer.",
}
PLACEMENT = {
    "notes": "How comfortable the score is, in sentences.",
    "margin_to_next_grade": "Points to the next letter by the score alone; null for the best.",
    "to_lose_grade": "Points whose loss costs the letter; null for the last.",
    "smallest_gain": "The smallest change of one criterion that gains a letter; null without one.",
    "smallest_loss": "The smallest change of one criterion that loses it; null without one.",
}
FINDING = {
    "rule": "The rule, such as `hard_gates` or `critical_floors`.",
    "fired": "Whether it changed anything; false shows that it was checked.",
    "subject": "The gate or criterion that it is about; empty for all of them.",
    "text": "What was found, in a sentence.",
}
BAND = {"grade": "The letter.", "min": "The lowest score of the letter."}
OPERATIONS = {
    "latency_ms": "How long the run took, in milliseconds; null if it is not reported.",
    "cost_usd": "What it cost, in US dollars.",
    "tokens": "The tokens of its models.",
    "retries": "How often steps were tried again.",
}
FAULT = {
    "file": "The file, as it was given.",
    "line": "The line of the document; null where the file has none.",
    "code": "The error code.",
    "path": "The key within the document, such as `criteria[1].weight`.",
    "message": "What is wrong, and what to do.",
}
INTERVAL = {
    "value": "The value; null if there is none.",
    "low": "The lower end of the interval.",
    "high": "The upper end of the interval.",
    "level": "The confidence level, such as 0.95.",
    "method": "How the interval was computed, such as `wilson` or `student-t`.",
    "reason": "Why there is no interval.",
}
DISTRIBUTION = {
    "mean": "The mean, with its interval.",
    "sd": "The standard deviation.",
    "quantiles": "The quantiles `p5`, `p25`, `p50`, `p75` and `p95`.",
}
COVERAGE = {
    "scored": "Runs with a verdict for every gate and a score for every criterion.",
    "failed": "Runs with the status `failed`.",
    "inconclusive": "Runs with an undetermined gate or a missing score.",
    "errored": "Runs with the status `error`, `timeout` or `cancelled`.",
    "not_applicable": "Always 0: every run is graded.",
}
FAILURE = {
    "reason": "A gate, a missed floor, a missing score, or a score below the threshold.",
    "count": "Runs with this reason. A run can have several.",
    "example": "The id of the first such run, in the order of ids.",
}
SUMMARY = {
    "n": "How many runs there are.",
    "coverage": "Each run once, by the worst that applies.",
    "pass_rate": "The share that passed, with its interval.",
    "weighted_score": "The distribution of the weighted scores, from 0 to 100.",
    "gates": "How often each gate failed.",
    "criteria": "The distribution of each criterion's norms.",
    "slices": "Count, coverage, pass rate and score of the runs of each family, tag and group.",
    "grades": "Runs by letter.",
    "top_failure_reasons": "The most frequent reasons for failures.",
    "operations": "Latency, cost, tokens and retries.",
    "policies": "The policies that graded the runs.",
    "profiles": "The profiles that scored the runs.",
    "scoringSystem": "The version of the scoring system.",
    "gradingSystem": "The version of the grading system.",
}


def described(schema: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """A schema with the meaning of each of its fields. A field without a text is an error."""
    fields = {
        name: {"description": texts[name], **field} for name, field in schema["properties"].items()
    }
    return {**schema, "properties": fields}
