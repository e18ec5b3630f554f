"""Error codes of scoring and grading of runs."""

from __future__ import annotations

from assay.errors.codes.code import ErrorCode

CODES: dict[str, ErrorCode] = {
    "SCO-001": ErrorCode(
        "A raw score is outside the range that its formula accepts.",
        (
            "Correct the score, or choose the formula that fits its scale: `assay library list"
            " formulas`."
        ),
    ),
    "SCO-002": ErrorCode(
        "No formula has this id.",
        "Use one of the ids that `assay library list formulas` prints.",
    ),
    "SCO-003": ErrorCode(
        "A raw score has the wrong shape for its formula; a number in quotes is not a number.",
        "Write the shape that `assay library show formula ID` describes.",
    ),
    "SCO-004": ErrorCode(
        "A weight is negative or not a number, or all weights are zero.",
        "Give every criterion a weight of 0 or more, and at least one a weight above 0.",
    ),
    "SCO-005": ErrorCode(
        "A formula's parameters are missing, unknown or contradictory.",
        "Give exactly the parameters that `assay library show formula ID` lists.",
    ),
    "SCO-006": ErrorCode(
        "There is nothing to divide by: no comparisons, or a total of zero.",
        "Leave the score out if nothing was measured; a missing score is counted as missing.",
    ),
    "SCO-007": ErrorCode(
        "Counts contradict each other: more passed than there are, or a count is negative.",
        "Correct the counts where they are written.",
    ),
    "SCO-010": ErrorCode(
        "No profile exists for this workflow family, or the run names no family.",
        "Pass `--profile`, or set `workflow.family` in the run.",
    ),
    "SCO-011": ErrorCode(
        "A run does not have the shape `assay.run/1`.",
        "Correct the field that the message names; `assay schema-of run` prints the schema.",
    ),
    "SCO-012": ErrorCode(
        "A criterion of a rubric does not fit the profile that it overrides.",
        "Use the criterion names and scales of the profile, or choose another rubric.",
    ),
    "SCO-013": ErrorCode(
        "A name is not an identifier.",
        "Start it with a letter and use only letters, digits, `_`, `-` and `.`.",
    ),
    "SCO-014": ErrorCode(
        "A scorecard contradicts the profile it is graded under.",
        "Grade it with the profile that made it, or score the run again.",
    ),
    "SCO-015": ErrorCode(
        "A gate or criterion that a scorer returns has another meaning in the profile.",
        "Rename it in the scorer, or choose a profile that fits.",
    ),
    "SCO-016": ErrorCode(
        "The profile lacks a criterion that a scorer or an assertion added to the run.",
        "Add the criterion to the profile, or give the scorer's entry a `weight`.",
    ),
    "SCO-020": ErrorCode(
        "No dimension of the scoring protocol has this name.",
        "Use one of the dimensions in `prompts.json`.",
    ),
    "SCO-021": ErrorCode(
        "An HTTP status was given a score that it cannot have.",
        "Score 200 as a pass and every other status as a fail.",
    ),
    "SCO-022": ErrorCode(
        "Scores were made under another version of the scoring system.",
        "Score again with this version: `assay tools grade --emit-prompts`.",
    ),
    "SCO-023": ErrorCode(
        "An answer does not fit its question, or has no evidence.",
        "Correct the answer that the message names, and give the evidence it rests on.",
    ),
    "SCO-030": ErrorCode(
        "No retrieval metric has this name, or the run contains no judged query.",
        (
            "Use a metric that `assay measure retrieval --help` lists, and check that both files"
            " name the same queries."
        ),
    ),
    "SCO-031": ErrorCode(
        "A file of judgements or results is malformed.",
        "Correct the line that the message names; both files are in the TREC formats.",
    ),
    "SCO-032": ErrorCode(
        "A document appears twice for one query.",
        "Remove the second line.",
    ),
    "SCO-033": ErrorCode(
        "Attempts cannot be counted: there are no tasks, or k is not a whole number.",
        "Give at least one task, and k as a whole number of 1 or more.",
    ),
    "SCO-034": ErrorCode(
        "Test results are malformed.",
        "Write the lists of test names as `assay measure tests --help` describes.",
    ),
    "SCO-035": ErrorCode(
        "Two texts cannot be compared in the requested way.",
        "Choose a comparison that `assay measure text --help` lists, and give both texts.",
    ),
    "SCO-036": ErrorCode(
        "A line of a measured file is malformed, or the file has no lines.",
        "Correct the line that the message names.",
    ),
    "SCO-038": ErrorCode(
        "A patch, a source tree or a list of tests cannot be measured.",
        "Check that the paths exist and that the patch is a unified diff.",
    ),
    "GRD-101": ErrorCode(
        "A scorecard does not have the shape `assay.scorecard/1`.",
        "Correct the field that the message names; `assay schema-of scorecard` prints the schema.",
    ),
    "GRD-102": ErrorCode(
        "Two criteria of one scorecard have the same name.",
        "Rename or remove one of them.",
    ),
    "GRD-103": ErrorCode(
        "A criterion has no raw score.",
        "Give the score, or write null together with the reason in `missing`.",
    ),
    "GRD-104": ErrorCode(
        "A critical floor is ambiguous, outside its scale, or has an unknown unit.",
        'Write it as `{"raw": x}` or `{"norm": x}`, within the scale.',
    ),
    "GRD-105": ErrorCode(
        "The pass threshold is not a number from 0 to 100.",
        "Write a number from 0 to 100, or omit it to use the policy's.",
    ),
    "GRD-106": ErrorCode(
        "There are no criteria to grade.",
        "Give at least one criterion.",
    ),
    "GRD-108": ErrorCode(
        "A role looks like a misspelling of one that has a floor.",
        "Use the role that the message suggests.",
    ),
}
