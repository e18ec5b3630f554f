"""The meaning of each field of a grade, as its published JSON Schema states it."""

from __future__ import annotations

from typing import Any

GRADES = {
    "schema": "The kind and version of this document.",
    "results": "One grade for each run, in the order of the input.",
    "faults": "Documents that could not be graded, and why.",
    "counts": "How many documents were graded, passed, failed and refused.",
}
GRADE = {
    "run_id": "The run.",
    "passed": "Whether the run passed.",
    "grade": "The letter, with gates and floors applied.",
    "provisional_grade": "The letter of the score alone.",
    "weighted_score": "The weighted mean of the norms, from 0 to 100, rounded half up.",
    "weighted_score_adjusted": "The same on adjusted norms, which allow for small samples.",
    "pass_threshold": "The score that the run had to reach.",
    "reason": "Why it passed or failed, as a code.",
    "grade_reason": "What decided the letter: its band, a missed floor, or a failed gate.",
    "hard_gates": "Every gate with its status and reason. Undetermined fails.",
    "hard_gate_failures": "The gates that did not pass.",
    "criteria": "Every criterion with its score and share.",
    "floor_failures": "The criteria below their critical floor.",
    "layers": "The points of each layer: 1 objective, 2 rubric or judge, 3 operations.",
    "placement": "How far the score is from other letters, and the smallest change that moves it.",
    "explanation": "The grade in sentences.",
    "findings": "Every rule that was applied, and whether it fired.",
    "notes": "What scoring noticed.",
    "bands": "The letters of the policy, each with its lowest score.",
    "policy": "The policy, as name@version.",
    "profile": "The profile, as name@version; null for a bare scorecard.",
    "rubric": "The rubric, as name@version.",
    "selection": "Why this profile and rubric were used.",
    "workflow": "The workflow that ran.",
    "dataset": "The sample it ran on.",
    "sample_id": "The sample.",
    "group": "The group of the sample; samples of one group are not independent.",
    "tags": "Labels for slicing results.",
    "status": "How the run ended.",
    "judge": "The judge that gave the scores.",
    "operations": "Latency, cost, tokens and retries.",
    "step_scores": "What each step did, and its scores.",
    "agent_scores": "What each agent did over all its steps.",
    "scoringSystem": "The version of the scoring system.",
    "gradingSystem": "The version of the grading system.",
    "digests": "Digests of what the grade was made from.",
}
CRITERION = {
    "name": "The criterion.",
    "label": "The name that people see.",
    "role": "What it stands for, such as `correctness`; the policy has floors by role.",
    "layer": "1 objective, 2 rubric or judge, 3 operations.",
    "raw_score": "The score on its own scale; null where there is none.",
    "formula_id": "The formula that brought it onto 0..1.",
    "params": "The parameters of the formula.",
    "norm": "The score on 0..1.",
    "adjusted_norm": "The norm, drawn towards the prior where few samples are behind it.",
    "n": "The number of samples behind the score.",
    "weight": "Its weight.",
    "contribution": "The points that it adds to the weighted score.",
    "maximum": "The points that it could add.",
    "critical_floor": "The floor, and where it comes from.",
    "floor_failed": "Whether the score is below the floor.",
    "missing": "Why there is no score; it counts as 0.",
    "source": "Who gave the score.",
    "disagreement": "How far those who scored it disagreed.",
    "judge_fault": "Why the judge's score may not pass the floor.",
}
SUMMARY = {
    "n": "How many runs there are.",
    "coverage": (
        "Runs by what became of them: scored, failed, inconclusive, errored, not applicable."
    ),
    "pass_rate": "The share that passed, with its interval.",
    "weighted_score": "The distribution of the weighted scores, from 0 to 100.",
    "gates": "How often each gate failed.",
    "criteria": "The norms of each criterion.",
    "slices": "The same by tag, group and family.",
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
