"""Every error code with its cause and fix. `docs/reference/errors.md` is made from this table."""

from __future__ import annotations

from assay.errors.codes import batch, files, ledger, scoring, tools, workflows
from assay.errors.codes.code import ErrorCode

__all__ = ["CODES", "SYSTEMS", "ErrorCode"]

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
    **scoring.CODES,
    **tools.CODES,
    **files.CODES,
    **workflows.CODES,
    **ledger.CODES,
    **batch.CODES,
}
