"""Every exception of the product, and the exit codes they end in.

    AssayError                     code, message, where, fix
    ├── InputError                 what came in is malformed                       exit 3
    │   ├── EvidenceError          a run or a scorecard
    │   ├── FormulaError           a raw score its formula does not accept
    │   └── ShelfError             a profile, policy or rubric
    ├── NotEnoughEvidence          nothing, or too little, to judge                exit 4
    └── UsageError                 the command line was misused                    exit 2

A code belongs to one system: see `codes`, which has the table with causes and fixes. Anything
else that escapes is an internal error and ends in exit 5.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """The exit code of a command. Only `PASSED` opens a gate.

    >>> ExitCode.NOT_ENOUGH == 4
    True
    """

    PASSED = 0
    FAILED = 1
    MISUSE = 2
    MALFORMED = 3
    NOT_ENOUGH = 4
    FAULT = 5

    @classmethod
    def of(cls, holds: bool | None) -> ExitCode:
        """The code for whether something holds; None means that there is too little evidence."""
        return {True: cls.PASSED, False: cls.FAILED, None: cls.NOT_ENOUGH}[holds]


EXIT_CODES_TEXT = (
    "exit codes: 0 passed · 1 failed · 2 misuse of the command line · 3 malformed input · 4 not"
    " enough evidence · 5 internal error"
)


def printable(text: str) -> str:
    r"""Text for a terminal: characters that would move the cursor, break a line or reverse the text
    are escaped.

    >>> printable("r-1\n\x1b[2K")
    'r-1\\n\\x1b[2K'
    """
    return (
        text
        if text.isprintable()
        else "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
        )
    )


_LONGEST = 1000
"""Characters of a message: it quotes what it is about, and that may be of any length."""


def _bounded(text: str) -> str:
    """A message without the middle of what makes it too long."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 300]} [...] {text[-290:]}"


def count(n: int, noun: str, plural: str = "") -> str:
    """A count with its noun in the right number.

    >>> count(1, "run"), count(1200, "run"), count(0, "entry", "entries")
    ('1 run', '1,200 runs', '0 entries')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"


def few(
    names: Sequence[str], most: int = 5, *, total: int | None = None, between: str = ", "
) -> str:
    """The first names, and how many more there are.

    >>> few(["a", "b", "c"], 2), few(["a"])
    ('a, b and 1 more', 'a')
    """
    n = len(names) if total is None else total
    return between.join(names[:most]) + (f" and {n - most:,} more" if n > most else "")


class Fault:
    """One thing wrong with one input: where, what, and what to do."""

    __slots__ = ("code", "file", "fix", "hinted", "line", "message", "path", "unknown_key")

    def __init__(
        self,
        message: str,
        *,
        code: str = "FIL-002",
        file: str = "",
        line: int | None = None,
        path: str = "",
        fix: str = "",
        unknown_key: bool = False,
        hinted: bool = False,
    ) -> None:
        """`unknown_key`: the message names a key that nothing knows; `hinted`: and the key or the
        keys that may have been meant.
        """
        self.code = code
        self.unknown_key = unknown_key
        self.hinted = hinted
        self.file = file
        self.line = line
        self.path = _bounded(path)
        self.message = _bounded(message)
        self.fix = _bounded(fix)

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
    """An error with a code, a place and a fix. Everything that Assay raises on purpose is one.

    >>> import assay
    >>> try:
    ...     assay.grade({"schema": "assay.scorecard/1"})
    ... except assay.AssayError as error:
    ...     error.code, error.exit_code.name
    ('GRD-101', 'MALFORMED')
    """

    exit_code = ExitCode.FAULT

    def __init__(self, code: str, message: str, *, where: str = "", fix: str = "") -> None:
        self.code = code
        self.message = _bounded(message)
        self.where = where
        self.fix = _bounded(fix)
        super().__init__(self.message)

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


_FEW = 3
"""A fault that occurs more often than this is shown once."""


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

    def listed(self, file: str = "") -> list[Fault]:
        """Its faults; without any, the error itself as one, in `file` unless it names a place."""
        alone = Fault(self.message, code=self.code, file=self.where or file, fix=self.fix)
        return list(self.faults) or [alone]

    def as_dict(self) -> dict[str, object]:
        """The JSON form. If there are several faults, it lists each of them."""
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
        alike = Counter((fault.path, fault.message) for fault in self.faults)
        shown = set()
        for fault in self.faults:
            key = (fault.path, fault.message)
            if alike[key] <= _FEW:
                lines.append(f"  {fault.text()}")
            elif key not in shown:
                shown.add(key)
                lines.append(f"  {fault.text()} (and in {alike[key] - 1:,} more places)")
        if total > len(self.faults):
            lines.append(f"  ... and {total - len(self.faults):,} more")
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)


class FaultList:
    """The faults of one input, gathered so that all are raised at once. The first `limit` are kept,
    and all are counted.
    """

    def __init__(self, file: str = "", *, code: str = "FIL-002", limit: int = 20) -> None:
        self.file = file
        self.code = code
        self.limit = limit
        self.kept: list[Fault] = []
        self.count = 0

    def add(
        self,
        message: str,
        *,
        line: int | None = None,
        path: str = "",
        fix: str = "",
        code: str = "",
        file: str = "",
    ) -> None:
        """Add a fault of this input."""
        self.take(
            Fault(
                message,
                code=code or self.code,
                file=file or self.file,
                line=line,
                path=path,
                fix=fix,
            )
        )

    def take(self, fault: Fault) -> None:
        """Add a fault that is already made."""
        self.count += 1
        if len(self.kept) < self.limit:
            self.kept.append(fault)

    def raise_if_any(self) -> None:
        """Raise one error with all the faults."""
        if self.kept:
            raise self.error()

    def error(self, kind: type[InputError] | None = None) -> InputError:
        """One error with all the faults; there is at least one."""
        first = self.kept[0]
        error = (kind or InputError)(
            first.code,
            first.message,
            where=self.file or first.file,
            fix=first.fix,
            faults=self.kept,
        )
        error.fault_count = self.count
        return error


def raise_faults(
    faults: Sequence[Fault], *, where: str = "", kind: type[InputError] = InputError
) -> None:
    """Raise all faults as one error with the message of the first; do nothing without faults."""
    if faults:
        first = faults[0]
        raise kind(first.code, first.message, where=where, fix=first.fix, faults=faults)


class EvidenceError(InputError):
    """A run or a scorecard is malformed."""


class FormulaError(InputError):
    """A raw score that its formula does not accept."""


class ShelfError(InputError):
    """A profile, policy or rubric is malformed, unknown or has changed."""

    of_shelf = False
    """True if a file on the shelf is at fault and not the evidence: every document would fail."""


class NotEnoughEvidence(AssayError):
    """There is nothing, or too little, to judge; that never passes."""

    exit_code = ExitCode.NOT_ENOUGH


class UsageError(AssayError):
    """The command line was misused."""

    exit_code = ExitCode.MISUSE
