"""Every exception of the product, and the exit codes they end in.

    AssayError                     code, message, where, fix
    ├── InputError                 what came in is malformed                       exit 3
    │   ├── EvidenceError          a run or a scorecard
    │   ├── FormulaError           a raw score its formula does not accept
    │   └── ShelfError             a profile, policy or rubric
    ├── NotEnoughEvidence          nothing, or too little, to judge                exit 4
    └── UsageError                 the command line was misused                    exit 2

A code belongs to one system: `SCO-` scoring, `GRD-` grading, `FIL-` files, `LIB-` the shelf, `CLI-`
the command line, `CNF-` conformance, `API-` the Python interface; of tool schemas `FMC-` reading
and tree, `PRO-` the file protocol, `NA-`, `VET-`, `PRT-`, `IDX-`, `PRE-`, `LCK-`, `SEL-` and `HSH-`
as their specification names them; `EXM-` exams, `SBX-` the sandbox, `JDG-` judges, `REL-` releases,
`RUN-` running workflows, `STO-` ledgers, `SRV-` the server (with the status of the answer for a
number), `STA-` statistics. Anything else that escapes is a fault of ours and ends in exit 5.
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """What a command says to its caller. Only `PASSED` opens a gate."""

    PASSED = 0
    FAILED = 1
    MISUSE = 2
    MALFORMED = 3
    NOT_ENOUGH = 4
    FAULT = 5


EXIT_CODES_TEXT = (
    "exit codes: 0 passed · 1 failed · 2 misuse of the command line · 3 malformed input · 4 not"
    " enough evidence · 5 internal error"
)

CODES: dict[str, str] = {
    "SCO-001": "A raw score is outside the range its formula accepts.",
    "SCO-002": "No formula has this id.",
    "SCO-003": (
        "A raw score is not of the shape its formula accepts (a numeric string is not a number)."
    ),
    "SCO-004": "A weight is negative, not a number, or all weights are zero.",
    "SCO-005": "A formula's parameters are missing, unknown or contradictory.",
    "SCO-006": "There is nothing to divide by: no comparisons, or a total of zero.",
    "SCO-007": "Counts contradict each other: more passed than there are, or a negative count.",
    "SCO-010": "No profile serves this family, or the run names none.",
    "SCO-011": "A run is not of the shape `assay.run/1`.",
    "SCO-012": "A rubric's criterion does not fit the profile it overrides.",
    "SCO-013": "A name is not an identifier.",
    "SCO-014": "A scorecard contradicts the profile it is graded under.",
    "GRD-101": "A scorecard is not of the shape `assay.scorecard/1`.",
    "GRD-102": "Two criteria of one scorecard have the same name.",
    "GRD-103": "A scorecard lacks a raw score.",
    "GRD-104": "A critical floor is ambiguous, outside its scale, or of an unknown unit.",
    "GRD-105": "The pass threshold is not a number from 0 to 100.",
    "GRD-106": "There are no criteria to grade.",
    "GRD-108": "A role is a slip of one that has a floor.",
    "GRD-107": "A gate's verdict is not true, false or null; a gate carries no weight.",
    "SCO-020": "No dimension has this name.",
    "SCO-021": "An HTTP status does not carry its score.",
    "SCO-022": "Scores were made under another version of the scoring system.",
    "SCO-023": "An answer does not fit its question, or rests on no evidence.",
    "SCO-030": "No retrieval metric has this name, or no judged query is in the run.",
    "SCO-031": "A file of judgements or results is not of its shape.",
    "SCO-032": "A document stands twice for one query.",
    "SCO-033": "Attempts cannot be counted: no tasks, or k is no whole number.",
    "SCO-034": "Test results are not of their shape.",
    "SCO-035": "A comparison of texts is not possible as it is asked for.",
    "SCO-036": "A line of a measured file is not of its shape, or there is none.",
    "NA-001": "n/a stands without one of its six reasons.",
    "GRD-003": "No tier has this name.",
    "GRD-004": "A group-bound grading names no selection.",
    "GRD-005": "A non-deterministic answer names no persona.",
    "GRD-007": "A model answered and is not named.",
    "GRD-011": "An answer is neither deterministic nor non-deterministic.",
    "GRD-012": "A non-deterministic answer names no group.",
    "GRD-014": "An area was graded without any judged answer.",
    "GRD-015": "A grading of a skill names no skill.",
    "GRD-016": "A hash is not eight lower-case hexadecimal digits.",
    "GRD-017": "Nothing of this name triggers a re-grading.",
    "GRD-018": "A re-grading names no entry that it supersedes.",
    "GRD-019": "A re-grading by user report says neither what nor by whom.",
    "GRD-020": "A grading entry breaks its published form or its rules.",
    "GRD-021": "An opinion on terms stands without its disclaimer.",
    "GRD-030": "An iteration is outside its range.",
    "GRD-039": "A block gives a reason that is not on the list.",
    "GRD-041": "A file name holds no timestamp.",
    "GRD-042": "A persona is half there, misspelt or missing.",
    "GRD-043": "No area has this name.",
    "GRD-WARN-001": "An answer is older than answers are kept in use.",
    "FIL-001": "A file cannot be read.",
    "FIL-002": "A file is not the JSON or YAML it should be.",
    "FIL-003": "A key stands twice in one object.",
    "FIL-004": "A file, a line or a nesting is beyond the limit.",
    "FIL-005": "There is nothing in the file.",
    "FIL-006": "A document is of a kind this command does not read.",
    "FIL-007": "An id appears more than once.",
    "FIL-008": "A file cannot be written.",
    "LIB-001": "Nothing on the shelf has this name.",
    "LIB-002": "A shelf file does not hold what its kind must hold.",
    "LIB-003": "A published version has changed.",
    "LIB-004": "An anti-pattern was found on the shelf.",
    "LIB-005": "A policy is of another family than this command grades.",
    "CLI-001": "The command line does not say what to do.",
    "FMC-001": "A file is no JavaScript module that can be read.",
    "FMC-002": "A module exports no schema, or a schema is no object.",
    "FMC-003": "A module ran too long.",
    "FMC-004": "A schema is too large, too deep, or uses too much memory.",
    "FMC-005": "A module threw, or needs what a schema may not use.",
    "FMC-006": "Something that reads schemas is not installed.",
    "FMC-007": "A name cannot be part of a file name.",
    "FMC-008": "There is no tool schema in this file or folder.",
    "FMC-009": "A path leads out of its folder.",
    "FMC-010": "An MCP server does not start or does not answer.",
    "FMC-011": "An MCP server answers against the protocol or beyond the limits.",
    "FMC-012": "Something that must be given is missing or of the wrong kind.",
    "FMC-013": "The clock stands before something that has already happened.",
    "FMC-014": "An entry of this moment is already there.",
    "FMC-015": "A node may not be graded now: it, or what it depends on, is rejected or blocked.",
    "FMC-016": "Envelopes and options contradict each other.",
    "PRO-001": "A document is of an unknown scoring protocol, or of none.",
    "PRO-002": "A document of the scoring protocol is not of its shape.",
    "PRO-003": "A score of the protocol is no number from 1.0 to 5.0.",
    "PRO-004": "A dimension is missing, unknown or scored twice.",
    "PRO-005": "Scores are for another schema.",
    "PRO-006": "A schema changed between its prompts and its scores.",
    "PRO-007": "A judge did not give a score.",
    "VET-001": "Nothing of this name triggers a veto.",
    "VET-002": "A veto stands without evidence.",
    "VET-003": "A veto stands without the reasoning it needs.",
    "VET-004": "A veto names no grader.",
    "PRT-002": "No grading mode has this name.",
    "PRT-003": "The first grading of a node is partial.",
    "PRT-004": "A partial grading changed the grade.",
    "PRT-005": "A veto stands in a partial grading.",
    "IDX-001": "An index or an entry lacks something it must have.",
    "IDX-002": "Something in an index is of the wrong kind.",
    "IDX-003": "An index is of another version.",
    "IDX-004": "An entry cannot be read.",
    "IDX-006": "There is no such node in the tree.",
    "IDX-007": "A status or grade is none that exists.",
    "PRE-004": "A member of a selection is not stable yet.",
    "LCK-006": "A lock was changed after it was taken, or cannot be read.",
    "LCK-005": "A lock overrides what may not be overridden.",
    "SEL-001": "A selection is not of its shape.",
    "SEL-002": "A selection has no members.",
    "SEL-003": "A member of a selection is no schema id.",
    "SEL-S1": "A member stands twice in a selection.",
    "SEL-S3": "A selection has more skills than it may.",
    "SEL-S4": "A selection names no persona.",
    "HSH-003": "A value has no hash.",
    "EXM-001": "An exam is not of its shape.",
    "EXM-002": "Two items of an exam have one id.",
    "EXM-003": "An item expects nothing.",
    "EXM-004": "There is nothing to grade: the exam has no items.",
    "EXM-005": "The files of one exam disagree.",
    "EXM-006": "An answer is not of its shape.",
    "EXM-007": "An item is answered twice.",
    "EXM-008": "An answer is for an item that the exam does not have.",
    "EXM-009": "A mark is neither 0 nor 1.",
    "EXM-010": "A document is no result of an exam.",
    "EXM-011": "The parts of a result do not add up.",
    "EXM-012": "A result was made with another rubric, or of another exam.",
    "EXM-013": "A result is of another set than the gate is on.",
    "EXM-014": "A baseline is missing.",
    "EXM-015": "A rubric marks otherwise, so past marks cannot be weighed by it.",
    "EXM-016": "A date cannot be scheduled from.",
    "SBX-001": "The isolation that was asked for is not available.",
    "SBX-002": "The sandbox itself failed.",
    "SBX-003": "Something cannot be taken into the sandbox.",
    "SCO-037": "Raters cannot be compared as it is asked for.",
    "SCO-038": "A patch, a tree or a test list cannot be measured as it is asked for.",
    "JDG-001": "No judge has this name, or its description is not of its shape.",
    "JDG-002": "The key of a judge is not in the environment.",
    "JDG-003": "A judge's endpoint cannot be reached, or does not answer as its protocol says.",
    "JDG-004": "A journal of judge work is in use, damaged, or cannot be written.",
    "JDG-005": "A file of judge work is not of its shape.",
    "JDG-006": "The budget of a judge is spent.",
    "JDG-007": "An answer is for another question than was asked.",
    "JDG-008": "A file of labels is not of its shape.",
    "JDG-009": "A judge's card is missing, too old, or not of its shape.",
    "JDG-010": "There are too few labels or judgments to say anything.",
    "JDG-011": "A criterion cannot be put to a judge: its scale or its anchors are missing.",
    "REL-001": "A release policy or a plan is not of its shape.",
    "REL-002": "Two sets of results cannot be compared: they were made differently.",
    "REL-003": "There is nothing, or too little, to decide on.",
    "REL-004": "A sample stands twice on one side of a comparison.",
    "REL-005": "A baseline is missing, too old, or has changed.",
    "REL-006": "A plan changed after the results were seen.",
    "REL-007": "An attestation does not hold what it must, or its signature does not fit.",
    "REL-008": "A document is no decision, or its parts do not fit together.",
    "RUN-001": "A workflow file is not of its shape.",
    "RUN-002": "A dataset is not of its shape, or its samples cannot be told apart.",
    "RUN-003": "A dataset does not fit a workflow.",
    "RUN-004": "A workflow cannot be loaded, or what it needs is not installed.",
    "RUN-005": "The journal of a run is in use, damaged, or of another run.",
    "RUN-006": "A workflow says something of itself that cannot be.",
    "STO-001": (
        "There is no ledger there, it cannot be opened or reached, or what it takes is not"
        " installed."
    ),
    "STO-002": (
        "A ledger cannot be written: it is locked, read-only, its disk is full, or its place cannot"
        " be had."
    ),
    "STO-003": "A file or a database is no ledger, or is damaged.",
    "STO-004": "A ledger has tables of another version than this program knows or may make.",
    "STO-005": "The URL of a ledger names none.",
    "STO-006": "A ledger is append-only: nothing in it is changed or deleted.",
    "STO-007": "A stored record is not what its digest says.",
    "STO-008": "A record that is needed is not there, or was forgotten: only its digest is left.",
    "STO-009": "A record comes again that was forgotten, or that is there as another kind.",
    "STO-010": (
        "What is to be stored is no record: no JSON object, of no kind there is, or nobody's to"
        " write."
    ),
    "STO-011": "A link leads to nothing, or a grade comes without its evidence.",
    "STO-012": "There is no such record, grade or token in the ledger.",
    "STO-013": "A digest, the name of a project, an author or a reason is not of its shape.",
    "STO-014": "There is no such scope, or a token has none.",
    "STO-015": "The database refused, and we do not know why.",
    "STO-016": "A question to a ledger names a kind or a filter that there is not.",
    "STO-017": "A record of this kind cannot be replayed.",
    "SRV-400": "A request cannot be read.",
    "SRV-401": "A request comes without a token, or with one that is not known or has ended.",
    "SRV-403": "A token has not the scope that a request needs.",
    "SRV-404": "There is nothing at this address, or no such thing in this project.",
    "SRV-405": "An address does not take this method.",
    "SRV-408": "A request comes too slowly.",
    "SRV-409": "A request contradicts one that came before.",
    "SRV-413": "A request is larger than its limit.",
    "SRV-415": "An address does not read this media type or encoding.",
    "SRV-422": "A request can be read, and what it says cannot be done.",
    "SRV-429": "A token makes too many requests.",
    "SRV-500": "A fault of ours while a request was answered.",
    "SRV-503": "The server or its database cannot answer now.",
    "STA-001": "A statistic is asked for with an argument that it does not take.",
    "CNF-001": "A conformance file is not a list of cases.",
    "API-001": "A Python object is not of the shape the call takes.",
    "ERR-001": "A fault of ours.",
    "ERR-002": "A worker process died.",
}
"""Every error code with its meaning; `docs/reference/errors.md` is made from it."""


def printable(text: str) -> str:
    r"""Text for a terminal: what would move the cursor, break a line or run backwards is written as
    an escape.

    >>> printable("r-1\n\x1b[2K")
    'r-1\\n\\x1b[2K'
    """
    return (
        text
        if text.isprintable()
        else "".join(
            sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
        )
    )


class Fault:
    """One thing wrong with one input: where, what, and what to do."""

    __slots__ = ("code", "file", "fix", "line", "message", "path")

    def __init__(
        self,
        message: str,
        *,
        code: str = "FIL-002",
        file: str = "",
        line: int | None = None,
        path: str = "",
        fix: str = "",
    ) -> None:
        self.code = code
        self.file = file
        self.line = line
        self.path = path
        self.message = message
        self.fix = fix

    def __repr__(self) -> str:
        return f"Fault({self.text()!r})"

    def text(self) -> str:
        """One line for a person: line number, path, message and fix."""
        where = "  ".join(
            part
            for part in (
                f"line {self.line}" if self.line is not None else "",
                f"{self.path}:" if self.path else "",
            )
            if part
        )
        body = f"{self.message} {self.fix}".rstrip()
        return printable(f"{where} {body}" if where else body)

    def as_dict(self) -> dict[str, object]:
        """The shape `faults[]` has in every JSON document."""
        return {
            "file": self.file,
            "line": self.line,
            "code": self.code,
            "path": self.path,
            "message": f"{self.message} {self.fix}".rstrip(),
        }


class AssayError(Exception):
    """An error with a code, a place and a remedy."""

    exit_code = ExitCode.FAULT

    def __init__(self, code: str, message: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        return printable(f"{head}{self.message} {self.fix}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:  # worker processes hand errors to their parent
        return (_rebuild, (type(self), self.__dict__.copy()))

    def as_dict(self) -> dict[str, object]:
        """The JSON form: `{"error": {"code", "message", "where", "fix"}}`."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "where": self.where,
                "fix": self.fix,
            }
        }


def _rebuild(kind: type[AssayError], state: dict[str, object]) -> AssayError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (state["message"],)
    return error


class InputError(AssayError):
    """What came in is malformed. Carries every fault that was found, not only the first."""

    exit_code = ExitCode.MALFORMED
    fault_count = 0
    """How many faults there were, where more were found than are kept."""
    advice = ""
    """What to do about all of them."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: str = "",
        fix: str = "",
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(code, message, where=where, fix=fix)
        self.faults = tuple(faults)

    def as_dict(self) -> dict[str, object]:
        """The JSON form; where there are several faults, each of them stands in it."""
        made = super().as_dict()
        error = made["error"]
        if len(self.faults) > 1 and isinstance(error, dict):
            error["faults"] = [fault.as_dict() for fault in self.faults]
        return made

    def __str__(self) -> str:
        if not self.faults:
            return super().__str__()
        total = max(self.fault_count, len(self.faults))
        count = f"{total:,} fault{'s' if total != 1 else ''}"
        lines = [printable(f"{self.where}: {count}") if self.where else count]
        lines += [f"  {fault.text()}" for fault in self.faults]
        if total > len(self.faults):
            lines.append(f"  ... and {total - len(self.faults):,} more")
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)


class EvidenceError(InputError):
    """A run or a scorecard is malformed."""


class FormulaError(InputError):
    """A raw score that its formula does not accept."""


class ShelfError(InputError):
    """A profile, policy or rubric is malformed, unknown or has changed."""

    of_shelf = False
    """True where a file on the shelf is at fault and not the evidence: no other document would fare
    better.
    """


class NotEnoughEvidence(AssayError):
    """There is nothing, or too little, to judge; that never passes."""

    exit_code = ExitCode.NOT_ENOUGH


class UsageError(AssayError):
    """The command line does not say what to do."""

    exit_code = ExitCode.MISUSE
