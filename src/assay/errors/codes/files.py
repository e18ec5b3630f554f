"""Error codes of files, configuration, shelf, command line and the program itself."""

from __future__ import annotations

from assay.errors.codes.code import ErrorCode

CODES: dict[str, ErrorCode] = {
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
}
