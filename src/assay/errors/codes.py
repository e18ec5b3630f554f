"""Every error code with its cause and fix. `docs/reference/errors.md` is made from this table."""

from __future__ import annotations

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """Why an error with this code is raised, and how to fix it."""

    cause: str
    fix: str


SYSTEMS = {
    "SCO": "scoring",
    "GRD": "grading",
    "FIL": "files",
    "CFG": "assay.yaml",
    "LIB": "the library and plugins",
    "CLI": "the command line",
    "RUN": "running workflows",
    "JDG": "judges",
    "REL": "releases",
    "STO": "ledgers",
    "SRV": "the server, with the HTTP status as the number",
    "MCP": "the tools for coding agents",
    "BAT": "batches",
    "EXM": "exams",
    "SBX": "the sandbox",
    "STA": "statistics",
    "FMC": "reading tool schemas and their tree",
    "PRO": "the scoring protocol of tool schemas",
    "NA": "answers that do not apply",
    "VET": "vetoes",
    "PRT": "partial gradings",
    "IDX": "the index of graded tools",
    "PRE": "preconditions of selections",
    "LCK": "locks of selections",
    "SEL": "selections",
    "HSH": "hashes",
    "API": "the Python API",
    "CNF": "conformance files",
    "ERR": "internal errors",
}
"""The part of the product that each prefix of an error code stands for."""

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
    "NA-001": ErrorCode(
        "An answer is n/a without one of the six reasons.",
        "Give one of the reasons that the message lists.",
    ),
    "GRD-003": ErrorCode(
        "No tier has this name.",
        "Use a tier that the message lists.",
    ),
    "GRD-004": ErrorCode(
        "A grading that belongs to a group names no selection.",
        "Name the selection.",
    ),
    "GRD-005": ErrorCode(
        "A non-deterministic answer names no persona.",
        "Name the persona that answered.",
    ),
    "GRD-007": ErrorCode(
        "The model that answered is not named.",
        "Give the model's name.",
    ),
    "GRD-011": ErrorCode(
        "An answer is neither deterministic nor non-deterministic.",
        "Set its kind to one of the two.",
    ),
    "GRD-012": ErrorCode(
        "A non-deterministic answer names no group.",
        "Name the group of its question.",
    ),
    "GRD-014": ErrorCode(
        "An area was graded without any judged answer.",
        "Have the questions of the area answered, or leave the area out.",
    ),
    "GRD-015": ErrorCode(
        "The grading of a skill names no skill.",
        "Name the skill.",
    ),
    "GRD-016": ErrorCode(
        "A hash is not eight lower-case hexadecimal digits.",
        "Take the hash that `assay tools` computed; don't write one by hand.",
    ),
    "GRD-017": ErrorCode(
        "No trigger for a re-grading has this name.",
        "Use a trigger that the message lists.",
    ),
    "GRD-018": ErrorCode(
        "A re-grading does not name the entry that it supersedes.",
        "Name the earlier entry.",
    ),
    "GRD-019": ErrorCode(
        "A re-grading after a user report lacks the report or its author.",
        "Give both.",
    ),
    "GRD-020": ErrorCode(
        "A grading entry breaks its published form or its rules.",
        (
            "Correct what the message names, or grade again; `assay schema-of grading-entry`"
            " prints the schema."
        ),
    ),
    "GRD-021": ErrorCode(
        "An opinion on terms of use lacks its disclaimer.",
        "Add the disclaimer that the message quotes.",
    ),
    "GRD-030": ErrorCode(
        "An iteration number is outside its range.",
        "Use a number within the range in the message.",
    ),
    "GRD-039": ErrorCode(
        "A blocked node has a reason that is not on the list.",
        "Use a reason that the message lists.",
    ),
    "GRD-041": ErrorCode(
        "A file name contains no timestamp.",
        "Keep the name that `assay tools grade` gave the file.",
    ),
    "GRD-042": ErrorCode(
        "A persona is incomplete, misspelt or missing.",
        "Give the persona completely, as the message shows.",
    ),
    "GRD-043": ErrorCode(
        "No area has this name.",
        "Use an area that the message lists.",
    ),
    "GRD-WARN-001": ErrorCode(
        "An answer is older than the limit for use. This is a warning.",
        "Have the question answered again.",
    ),
    "FMC-001": ErrorCode(
        "A file is not a JavaScript module that can be read.",
        "Correct the syntax at the line in the message.",
    ),
    "FMC-002": ErrorCode(
        "A module exports no schema, or the schema is not an object.",
        "Export the schema as `export const main = {...}`.",
    ),
    "FMC-003": ErrorCode(
        "A module could not be read in time.",
        "Correct its syntax, or split it; a schema is a small text.",
    ),
    "FMC-004": ErrorCode(
        "A schema is too large or too deeply nested.",
        "Split it into smaller schemas.",
    ),
    "FMC-005": ErrorCode(
        "A module's schema is not a literal, or code next to it could change it.",
        "Write the value that the message names out, or move the code into a handler.",
    ),
    "FMC-006": ErrorCode(
        "A package that reads schemas is not installed.",
        "Install it with the line in the message; `assay doctor` shows what is missing.",
    ),
    "FMC-007": ErrorCode(
        "A name cannot be part of a file name.",
        "Rename it, using letters, digits, `-` and `_`.",
    ),
    "FMC-008": ErrorCode(
        "There is no tool schema in this file or folder.",
        "Check the path; `assay tools check` reads .mjs modules, JSON files and MCP servers.",
    ),
    "FMC-009": ErrorCode(
        "A path leads out of its folder.",
        "Use a path inside the folder.",
    ),
    "FMC-010": ErrorCode(
        "An MCP server does not start or does not answer.",
        (
            "Start the same command by hand and read what it prints; check its path and its"
            " environment."
        ),
    ),
    "FMC-011": ErrorCode(
        "An MCP server breaks the protocol or exceeds the limits.",
        "Fix the server; the message names the reply.",
    ),
    "FMC-012": ErrorCode(
        "A required value is missing or of the wrong type.",
        "Give the value that the message names.",
    ),
    "FMC-013": ErrorCode(
        "The clock is earlier than something that has already happened.",
        "Set the clock, or pass `--now`.",
    ),
    "FMC-014": ErrorCode(
        "An entry with this timestamp already exists.",
        "Wait a second and grade again, or pass another `--now`.",
    ),
    "FMC-015": ErrorCode(
        "A node may not be graded now: it, or something it depends on, is rejected or blocked.",
        "Resolve what the message names first.",
    ),
    "FMC-016": ErrorCode(
        "Answers and options contradict each other.",
        "Make the names in the envelope and on the command line agree.",
    ),
    "FMC-017": ErrorCode(
        "The declaration of an MCP server is malformed, or does not fit the server.",
        (
            "Correct the key that the message names; `assay schema-of tool-declaration` prints"
            " the schema."
        ),
    ),
    "PRO-001": ErrorCode(
        "A document belongs to an unknown scoring protocol, or names none.",
        "Use the files that `assay tools grade --emit-prompts` wrote.",
    ),
    "PRO-002": ErrorCode(
        "A document of the scoring protocol is malformed.",
        "Correct the field that the message names; `assay schema-of scores` prints the schema.",
    ),
    "PRO-003": ErrorCode(
        "A score of the protocol is not a number from 1.0 to 5.0.",
        "Have the judge answer again with a number from 1.0 to 5.0.",
    ),
    "PRO-004": ErrorCode(
        "A dimension is missing, unknown or scored twice.",
        "Score every dimension in `prompts.json` once.",
    ),
    "PRO-005": ErrorCode(
        "The scores are for another schema.",
        "Give the scores that were made for this schema.",
    ),
    "PRO-006": ErrorCode(
        "A schema changed after its prompts were made.",
        "Make the prompts again with `--emit-prompts`, and have them scored again.",
    ),
    "PRO-007": ErrorCode(
        "A judge did not give a score.",
        "Ask the judge again; a missing score is never filled in.",
    ),
    "VET-001": ErrorCode(
        "No veto trigger has this name.",
        "Use a trigger that the message lists.",
    ),
    "VET-002": ErrorCode(
        "A veto has no evidence.",
        "Give the evidence.",
    ),
    "VET-003": ErrorCode(
        "A veto lacks the reasoning it needs.",
        "Give the reasoning.",
    ),
    "VET-004": ErrorCode(
        "A veto names no grader.",
        "Name who or what raised it.",
    ),
    "PRT-002": ErrorCode(
        "No grading mode has this name.",
        "Use `full` or `partial`.",
    ),
    "PRT-003": ErrorCode(
        "The first grading of a node is partial.",
        "Begin with a full grading.",
    ),
    "PRT-004": ErrorCode(
        "A partial grading changed the grade.",
        "Keep the earlier grade, or make a full grading.",
    ),
    "PRT-005": ErrorCode(
        "A partial grading contains a veto.",
        "Make a full grading.",
    ),
    "IDX-001": ErrorCode(
        "An index or an entry lacks a required key.",
        "Rebuild it with `assay tools index`.",
    ),
    "IDX-002": ErrorCode(
        "A value in an index has the wrong type.",
        "Rebuild it with `assay tools index`.",
    ),
    "IDX-003": ErrorCode(
        "An index has another version.",
        "Rebuild it with `assay tools index`.",
    ),
    "IDX-004": ErrorCode(
        "An entry or a manifest cannot be read.",
        "Restore the file, or import the schema again.",
    ),
    "IDX-006": ErrorCode(
        "There is no such node in the tree.",
        "Check the name; `assay tools status` lists the nodes.",
    ),
    "IDX-007": ErrorCode(
        "A status or grade does not exist.",
        "Use one that the message lists.",
    ),
    "PRE-004": ErrorCode(
        "A member of a selection is not stable yet.",
        "Grade that member first.",
    ),
    "LCK-005": ErrorCode(
        "A lock overrides something that may not be overridden.",
        "Override only the keys that the message lists.",
    ),
    "LCK-006": ErrorCode(
        "A lock was changed after it was taken, or cannot be read.",
        "Take it again: `assay tools index NAME --lock`.",
    ),
    "SEL-001": ErrorCode(
        "A selection is malformed.",
        "Correct the key that the message names.",
    ),
    "SEL-002": ErrorCode(
        "A selection has no members.",
        "Add at least one schema.",
    ),
    "SEL-003": ErrorCode(
        "A member of a selection is not a schema id.",
        "Write it as `namespace/name`.",
    ),
    "SEL-S1": ErrorCode(
        "A member appears twice in a selection.",
        "Remove one of the two.",
    ),
    "SEL-S3": ErrorCode(
        "A selection has too many skills.",
        "Remove skills until the limit in the message is met.",
    ),
    "SEL-S4": ErrorCode(
        "A selection names no persona.",
        "Name at least one persona.",
    ),
    "HSH-003": ErrorCode(
        "A value cannot be hashed.",
        "Use plain JSON values: no functions, no infinite numbers, no cycles.",
    ),
    "FIL-001": ErrorCode(
        "A file cannot be read.",
        "Check that the path exists and that you may read it.",
    ),
    "FIL-002": ErrorCode(
        "A file is not valid JSON or YAML, or not of the expected shape.",
        "Correct the line that the message names.",
    ),
    "FIL-003": ErrorCode(
        "A key appears twice in one object.",
        "Remove one of the two; which of them counts would depend on the reader.",
    ),
    "FIL-004": ErrorCode(
        "A file or a line is too large, or is nested too deeply.",
        "Split the file, or make what the message names smaller.",
    ),
    "FIL-005": ErrorCode(
        "The file is empty.",
        "Check that the command that writes it succeeded.",
    ),
    "FIL-006": ErrorCode(
        "This command does not read documents of this kind.",
        "Give a kind that the message lists; `assay import` reads files of other tools.",
    ),
    "FIL-007": ErrorCode(
        "An id appears more than once.",
        "Give each run, sample or item its own id.",
    ),
    "FIL-008": ErrorCode(
        "A file cannot be written.",
        "Check that the folder exists, that you may write there, and that the disk has space.",
    ),
    "FIL-009": ErrorCode(
        "A file above the working folder belongs to another user.",
        "Pass `--config FILE` if you trust it, or `--no-config` to ignore it.",
    ),
    "FIL-010": ErrorCode(
        "A result file states totals that its samples don't add up to.",
        "Write the file again: it is cut off or was changed.",
    ),
    "CFG-001": ErrorCode(
        "An `assay.yaml` is malformed, or contradicts itself.",
        "Correct the line that the message names; `assay schema-of config` prints the schema.",
    ),
    "CFG-002": ErrorCode(
        "An `assay.yaml` that isn't trusted sets something that needs trust.",
        "Read the file. If you trust it, run `assay trust`, or pass `--trust` for one command.",
    ),
    "CFG-003": ErrorCode(
        "An `assay.yaml` contains a key or password.",
        "Put it into an environment variable and write only the variable's name (`key_env`).",
    ),
    "CFG-004": ErrorCode(
        "The settings that say which files you trust may have been written by somebody else.",
        "Remove the file that the message names, and run `assay trust` again in each project.",
    ),
    "LIB-001": ErrorCode(
        "Nothing in the library has this name.",
        "Use a name that `assay library list` prints, or pass `--library DIR`.",
    ),
    "LIB-002": ErrorCode(
        "A library file lacks something required, or contains something that is not allowed.",
        "Correct the line that the message names; `assay library check FILE` reports all faults.",
    ),
    "LIB-003": ErrorCode(
        "A published version has changed.",
        "Restore it, and publish the change as a new version.",
    ),
    "LIB-004": ErrorCode(
        "A profile, policy or rubric contains an anti-pattern.",
        "Follow the advice in the message.",
    ),
    "LIB-005": ErrorCode(
        "A policy belongs to another family than this command grades.",
        "Choose a policy of the family that the message names.",
    ),
    "LIB-007": ErrorCode(
        "A plugin cannot be loaded, or does not do what its kind promises.",
        "Update or remove the plugin; `assay doctor` lists the installed ones.",
    ),
    "CLI-001": ErrorCode(
        "The command does not understand its arguments.",
        "Read `assay VERB --help`.",
    ),
    "MCP-001": ErrorCode(
        "A call to a tool of `assay mcp` has invalid arguments.",
        "Follow the tool's input schema.",
    ),
    "MCP-002": ErrorCode(
        "A path in a call to a tool of `assay mcp` leads out of the project folder.",
        "Use a path inside the project folder.",
    ),
    "STA-001": ErrorCode(
        "A statistic got an invalid argument.",
        "Use a value within the range in the message.",
    ),
    "CNF-001": ErrorCode(
        "A conformance file is not a list of cases.",
        "Write a JSON list of cases, as `assay conform --help` describes.",
    ),
    "API-001": ErrorCode(
        "A Python object does not have the shape that the call takes.",
        "Pass the type that the function's signature names.",
    ),
    "ERR-001": ErrorCode(
        "An internal error.",
        "Run again with `--debug` and report the traceback.",
    ),
    "ERR-002": ErrorCode(
        "A worker process died.",
        "Run again; if memory ran out, use fewer workers (`--jobs 1`).",
    ),
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
    "STO-001": ErrorCode(
        "There is no ledger there, it cannot be opened, or a package it needs is not installed.",
        "Check the URL in `--db`, `--store` or `$ASSAY_DB`; install what the message names.",
    ),
    "STO-002": ErrorCode(
        "A ledger cannot be written: it is locked, read-only, or its disk is full.",
        "Wait for the other command, make room, or check the permissions.",
    ),
    "STO-003": ErrorCode(
        "A file or a database is not a ledger, or is damaged.",
        "Restore a backup; `assay ledger verify` shows what is damaged.",
    ),
    "STO-004": ErrorCode(
        "A database has no ledger yet, or one of a version that this program does not support.",
        "Update Assay, or let a command that stores something create or upgrade the ledger.",
    ),
    "STO-005": ErrorCode(
        "The URL of a ledger is not valid.",
        "Write sqlite:///FILE or postgresql://HOST/NAME.",
    ),
    "STO-006": ErrorCode(
        "A ledger is append-only: nothing in it is changed or deleted.",
        "Store a new record instead.",
    ),
    "STO-007": ErrorCode(
        "A stored record does not match its digest.",
        "Don't trust it: it was changed outside Assay. Restore a backup.",
    ),
    "STO-008": ErrorCode(
        (
            "A record that is needed is missing, or was deleted on request and only its digest is"
            " left."
        ),
        "Run and store it again.",
    ),
    "STO-009": ErrorCode(
        "A record was deleted on request and may not come back, or exists as another kind.",
        "Store a new record with another content.",
    ),
    "STO-010": ErrorCode(
        "The document to store is not a record.",
        "Send a JSON object of a kind that the message lists.",
    ),
    "STO-011": ErrorCode(
        "A link points to nothing, or a grade comes without its evidence.",
        "Store the evidence first.",
    ),
    "STO-012": ErrorCode(
        "There is no such record, grade or token in the ledger.",
        "Check the id and `--project`.",
    ),
    "STO-013": ErrorCode(
        "A digest, the name of a project, an author or a reason is malformed.",
        "Write it as the message shows.",
    ),
    "STO-014": ErrorCode(
        "There is no such scope, or a token has none.",
        "Use `read`, `write`, `judge`, `baseline` or `admin`.",
    ),
    "STO-015": ErrorCode(
        "The database refused for an unknown reason.",
        "Read the database's own message; report it if it is not about your setup.",
    ),
    "STO-016": ErrorCode(
        "A query names a kind or a filter that does not exist.",
        "Use one that the message lists.",
    ),
    "STO-017": ErrorCode(
        "A record of this kind cannot be replayed.",
        "Replay runs, grades and decisions.",
    ),
    "STO-018": ErrorCode(
        "A run belongs to another version than the evaluation it was added to.",
        (
            "Store it as a separate evaluation: one version of a workflow on one version of a"
            " dataset."
        ),
    ),
    "SRV-400": ErrorCode(
        "A request cannot be read.",
        "Send valid JSON and the parameters that the API describes.",
    ),
    "SRV-401": ErrorCode(
        "A request has no token, or one that is unknown or has expired.",
        "Send `Authorization: Bearer TOKEN`; `assay token create` makes one.",
    ),
    "SRV-403": ErrorCode(
        "A token lacks the scope that a request needs.",
        "Use a token with the scope that the message names.",
    ),
    "SRV-404": ErrorCode(
        "Nothing is at this address, or this project does not have it.",
        "Check the path, the id, and the token's project.",
    ),
    "SRV-405": ErrorCode(
        "An address does not take this method.",
        "Use a method from the `Allow` header.",
    ),
    "SRV-408": ErrorCode(
        "A request arrives too slowly.",
        "Send it again over a faster connection, or in smaller parts.",
    ),
    "SRV-409": ErrorCode(
        "A request contradicts an earlier one.",
        "Use another id for a new run or execution; one that is over can't be changed.",
    ),
    "SRV-413": ErrorCode(
        "A request is larger than its limit.",
        "Send fewer runs at once, or send them as lines.",
    ),
    "SRV-415": ErrorCode(
        "An address does not read this media type or encoding.",
        "Send `application/json`, or `application/x-ndjson` to addresses that take lines.",
    ),
    "SRV-422": ErrorCode(
        "A request can be read, but cannot be carried out.",
        "Correct what `where`, `faults` or `reasons` name.",
    ),
    "SRV-429": ErrorCode(
        "Too many executions or traces of this project are waiting.",
        "Wait as long as the `Retry-After` header asks for.",
    ),
    "SRV-431": ErrorCode(
        "The address and headers of a request are larger than 64 KiB.",
        "Send long texts in the body.",
    ),
    "SRV-500": ErrorCode(
        "An internal error while a request was answered.",
        "Report it with the request id.",
    ),
    "SRV-503": ErrorCode(
        "The server or its database cannot answer now.",
        "Try again later; check the database.",
    ),
    "BAT-001": ErrorCode(
        "A formula has no translation to SQL, so a batch cannot use it.",
        "Choose another formula, or grade with `assay grade`.",
    ),
    "BAT-002": ErrorCode(
        "Weights have too many decimals for a batch.",
        "Write weights with fewer decimals.",
    ),
    "BAT-003": ErrorCode(
        "A batch lacks a column, or a column that you named does not exist.",
        "Map the column with `--map`, or correct the name.",
    ),
    "BAT-004": ErrorCode(
        "A column of a batch has the wrong type.",
        "Convert the column before grading.",
    ),
    "BAT-005": ErrorCode(
        "The bounds of a criterion, or a shrinkage, are too precise for a batch.",
        "Use rounder numbers, or grade with `assay grade`.",
    ),
    "BAT-008": ErrorCode(
        "The engine of a batch refused.",
        "Read the engine's own message.",
    ),
    "BAT-009": ErrorCode(
        "No batch engine has this name.",
        "Use `duckdb` or `spark`.",
    ),
    "BAT-010": ErrorCode(
        "A number has more digits than a batch computes exactly.",
        "Round it before grading.",
    ),
    "BAT-011": ErrorCode(
        "The n of a row is not a sample size.",
        "Write a whole number of 0 or more.",
    ),
    "BAT-012": ErrorCode(
        "A row has a criterion that the profile lacks.",
        "Correct the name, or choose the profile that has it.",
    ),
    "BAT-013": ErrorCode(
        "A row has no run id.",
        "Give every row the id of its run.",
    ),
    "BAT-014": ErrorCode(
        "A row has a score without a criterion, or a verdict without a gate.",
        "Name the criterion or the gate.",
    ),
    "BAT-015": ErrorCode(
        "A run has several values in a column to keep.",
        "Keep only columns that have one value per run.",
    ),
    "BAT-016": ErrorCode(
        "Two columns of a batch's output would have the same name.",
        "Rename the kept column.",
    ),
    "BAT-017": ErrorCode(
        "A column of a batch could mean two things.",
        "Say what it means with `--map`, or rename it where the rows are made.",
    ),
    "BAT-020": ErrorCode(
        "A batch cannot read this file or folder.",
        "Give Parquet, CSV or JSON Lines, or a Delta or Iceberg table that the engine can read.",
    ),
    "BAT-021": ErrorCode(
        "The output of a batch exists, or was not written by a batch.",
        "Choose another output, or pass `--overwrite` for the output of an earlier batch.",
    ),
    "BAT-022": ErrorCode(
        "An engine cannot read an input of a batch.",
        "Read the engine's own message; check the file.",
    ),
    "BAT-023": ErrorCode(
        "An input of a batch changed while it was being read.",
        "Run again when nothing writes to it.",
    ),
    "BAT-024": ErrorCode(
        "A run has rows in several partitions.",
        "Partition by a column that has one value per run.",
    ),
    "BAT-025": ErrorCode(
        "A text is not a verdict.",
        "Write true, false or null.",
    ),
    "BAT-026": ErrorCode(
        "A file of an earlier batch is not the one that its record names.",
        "Give the output together with its own record.",
    ),
    "BAT-027": ErrorCode(
        "Norms were made by another profile, or by another version of scoring.",
        "Grade from the raw scores.",
    ),
    "BAT-030": ErrorCode(
        "Spark cannot start or cannot be reached.",
        "Check Java and `SPARK_REMOTE`; `assay doctor` shows both.",
    ),
    "BAT-031": ErrorCode(
        "A Spark session has settings that change letters.",
        "Set them as the message says.",
    ),
    "BAT-032": ErrorCode(
        "Spark cannot read an input.",
        "Check the path and that every worker can reach it.",
    ),
    "BAT-033": ErrorCode(
        "Spark did not finish, or did not write every row.",
        "Read Spark's log and run again; nothing partial is kept.",
    ),
    "BAT-050": ErrorCode(
        "The record of a batch is malformed.",
        "Grade the batch again; don't edit the record.",
    ),
    "BAT-060": ErrorCode(
        "A batch cannot take part in a decision.",
        "Give an output of `assay batch`, with its record.",
    ),
    "BAT-061": ErrorCode(
        "A decision over batches does not support what was requested.",
        "Give one batch on each side, without the options that the message names.",
    ),
}
