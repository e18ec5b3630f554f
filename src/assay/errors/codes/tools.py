"""Error codes of tool schemas."""

from __future__ import annotations

from assay.errors.codes.code import ErrorCode

CODES: dict[str, ErrorCode] = {
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
}
