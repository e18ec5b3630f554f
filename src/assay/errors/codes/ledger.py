"""Error codes of ledgers and the server."""

from __future__ import annotations

from assay.errors.codes.code import ErrorCode

CODES: dict[str, ErrorCode] = {
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
}
