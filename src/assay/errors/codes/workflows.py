"""Error codes of running, judging, exams, sandbox and release."""

from __future__ import annotations

from assay.errors.codes.code import ErrorCode

CODES: dict[str, ErrorCode] = {
    "EXM-001": ErrorCode(
        "An exam is malformed.",
        "Correct the line that the message names; `assay schema-of exam` prints the schema.",
    ),
    "EXM-002": ErrorCode(
        "Two items of an exam have the same id.",
        "Rename one of them.",
    ),
    "EXM-003": ErrorCode(
        "An item expects nothing.",
        "Say what the answer must contain: `expected_contains`, `expected` or `expect`.",
    ),
    "EXM-004": ErrorCode(
        "The exam has no items, so there is nothing to grade.",
        "Add items.",
    ),
    "EXM-005": ErrorCode(
        "The files of one exam disagree.",
        "Give them the same exam id, version and rubric.",
    ),
    "EXM-006": ErrorCode(
        "An answer is malformed.",
        'Correct the line that the message names: `{"item", "response"}`.',
    ),
    "EXM-007": ErrorCode(
        "An item is answered twice.",
        "Keep one answer for each item.",
    ),
    "EXM-008": ErrorCode(
        "An answer is for an item that the exam does not have.",
        "Correct the item's id, or give the exam that has it.",
    ),
    "EXM-009": ErrorCode(
        "A mark is neither 0 nor 1.",
        "Write 0 or 1.",
    ),
    "EXM-010": ErrorCode(
        "A document is not the result of an exam.",
        "Give what `assay exam grade` wrote.",
    ),
    "EXM-011": ErrorCode(
        "The parts of a result do not add up.",
        "Grade the answers again; the file was changed.",
    ),
    "EXM-012": ErrorCode(
        "A result was made with another rubric, or for another exam.",
        "Compare results of the same exam under the same rubric.",
    ),
    "EXM-013": ErrorCode(
        "A result belongs to another set than the gate checks.",
        "Give the capstone result to the gate, and the regression result with `--regression`.",
    ),
    "EXM-014": ErrorCode(
        "A baseline is missing.",
        "Give the graded baseline with `--baseline`.",
    ),
    "EXM-015": ErrorCode(
        "A rubric marks differently, so past marks cannot be weighed by it.",
        "Grade the answers again with `assay exam grade`.",
    ),
    "EXM-016": ErrorCode(
        "A schedule cannot start from this date.",
        "Write it as 2026-11-15.",
    ),
    "SBX-001": ErrorCode(
        "The requested isolation is not available.",
        "Install bubblewrap, or choose an isolation that `assay doctor` shows as available.",
    ),
    "SBX-002": ErrorCode(
        "The sandbox itself failed.",
        "Read the message; the workflow was not judged.",
    ),
    "SBX-003": ErrorCode(
        "A limit, a file or a text cannot be used in the sandbox.",
        "Correct what the message names.",
    ),
    "JDG-001": ErrorCode(
        "No judge has this name, or its description is malformed.",
        "Correct the judge's YAML file, or use a name in `judges` of `assay.yaml`.",
    ),
    "JDG-002": ErrorCode(
        "The key of a judge is not in the environment.",
        "Set the variable that the message names.",
    ),
    "JDG-003": ErrorCode(
        "A judge's endpoint cannot be reached, or does not answer as its protocol requires.",
        "Check `base_url`, the model's name and the network.",
    ),
    "JDG-004": ErrorCode(
        "A journal of judge work is in use, damaged, or cannot be written.",
        "Wait for the other command, or name another file with `--journal`.",
    ),
    "JDG-005": ErrorCode(
        "A file of judge work is malformed.",
        "Correct the line that the message names.",
    ),
    "JDG-008": ErrorCode(
        "A file of labels is malformed.",
        'Correct the line that the message names: `{"id", "human", "judge"}`.',
    ),
    "JDG-009": ErrorCode(
        "A judge's card is missing, too old, or malformed.",
        "Make a new one with `assay judge card`.",
    ),
    "JDG-010": ErrorCode(
        "There are too few labels or judgements for a conclusion.",
        "Label more samples: `assay label new`.",
    ),
    "JDG-011": ErrorCode(
        "A judge cannot score a criterion whose scale or anchors are missing.",
        "Add `scale` and `anchors` to the criterion of the rubric.",
    ),
    "REL-001": ErrorCode(
        "A release policy or a plan is malformed.",
        "Correct the key that the message names.",
    ),
    "REL-002": ErrorCode(
        "Two sets of results cannot be compared: they were made differently.",
        "Run both sides on the same dataset and grade them by the same rules.",
    ),
    "REL-003": ErrorCode(
        "There is nothing, or too little, to decide on.",
        "Add samples or repeats; `assay gate --plan` shows how many.",
    ),
    "REL-004": ErrorCode(
        "A sample appears twice on one side of a comparison.",
        "Give each attempt its number in `attempt`, or remove the duplicate.",
    ),
    "REL-005": ErrorCode(
        "A baseline is missing, too old, or has changed.",
        "Store a new one with `assay baseline set`.",
    ),
    "REL-006": ErrorCode(
        "A plan changed after the results were seen.",
        "Decide by the plan that was declared first.",
    ),
    "REL-007": ErrorCode(
        "An attestation lacks something, or its signature does not fit.",
        "Don't trust it; make a new one with `assay gate --attest`.",
    ),
    "REL-008": ErrorCode(
        "A document is not a decision, or its parts do not fit together.",
        "Give what `assay gate --json` wrote, unchanged.",
    ),
    "RUN-001": ErrorCode(
        "A workflow file is malformed.",
        "Correct the line that the message names; `assay schema-of config` prints the schema.",
    ),
    "RUN-002": ErrorCode(
        "A dataset is malformed, or its samples cannot be told apart.",
        "Correct the line that the message names, and give each sample an id.",
    ),
    "RUN-003": ErrorCode(
        "A dataset does not fit a workflow.",
        "Give the inputs that the message names, or map columns under `inputs`.",
    ),
    "RUN-004": ErrorCode(
        "A workflow cannot be loaded, or something it needs is not installed.",
        "Install what the message names, and check that the code can be imported.",
    ),
    "RUN-005": ErrorCode(
        "The journal of a run is in use, damaged, or belongs to another run.",
        "Wait for the other command, or start a new run without `--resume`.",
    ),
    "RUN-006": ErrorCode(
        "A workflow reports something about itself that it may not, or that cannot be true.",
        "Remove it: a workflow reports what it did; scores and verdicts come from elsewhere.",
    ),
    "RUN-007": ErrorCode(
        "The endpoint of a workflow cannot be reached.",
        "Check its URL, and that it is running.",
    ),
}
