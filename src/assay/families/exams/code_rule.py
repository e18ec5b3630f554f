"""The rule on code: the answer is a solution, and the item's tests run against it in the sandbox.

Solution and tests run in two processes, so that the solution can't report itself as passed (see
`sandbox.solutions`). Tests that are at fault give no mark and leave a note.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, ClassVar, Literal

from assay import exact
from assay.errors import InputError
from assay.families.exams.rule import Check, ExpectingItem, ExpectingRule, MarkingSetting, Response
from assay.records.evidence import Number
from assay.sandbox.outcome import SandboxVerdict

_FENCED = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_EXPECTED = {"tests", "entry_point", "support", "solution"}
MAX_SECONDS = 600


class PassesTests(ExpectingRule, frozen=True):
    """The code passes the item's tests. An item expects `{tests, entry_point, support, solution}`:
    `tests` are asserts, `check(candidate)`, functions `test_*` or unittest classes; `solution` is a
    reference that `assay exam lint` runs.

    Of a response in Markdown, the one fenced block counts.
    """

    kind: ClassVar[str] = "code"
    timeout_s: Number = 10
    mode: Literal["two-process", "one-process"] = "two-process"

    def problem(self) -> str:
        """The time is limited."""
        if not exact.is_amount(self.timeout_s) or not 0 < self.timeout_s <= MAX_SECONDS:
            return f"`timeout_s` must be a number of seconds up to {MAX_SECONDS}."
        return ""

    def read(self, response: Response) -> str | None:
        """The code."""
        read = super().read(response)
        if not isinstance(read, str):
            return None
        blocks = _FENCED.findall(read)
        return blocks[0] if len(blocks) == 1 else read

    def faults(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> list[str]:
        """There are tests, and every key is known."""
        if not isinstance(want, dict):
            return ["must be a mapping with `tests`."]
        faults = [f"has no key '{key}'." for key in want if key not in _EXPECTED]
        faults += [
            f"`{key}` must be a string." for key, text in want.items() if type(text) is not str
        ]
        if not str(want.get("tests") or "").strip():
            faults.append("there are no tests, so every answer would be right.")
        entry = want.get("entry_point")
        if isinstance(entry, str) and not entry.isidentifier():
            faults.append(f"`entry_point` is {entry[:60]!r}, which can't be a function's name.")
        return faults

    def shows(self, want: Any) -> list[str]:
        """What is tested; the tests themselves stay in the exam."""
        return [f"{want.get('entry_point') or 'the code'} passes its tests"]

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Run the tests; what a solution is refused for counts as failed."""

        def check(code: str | None) -> bool:
            if not code or not code.strip():
                return False
            try:
                verdict = self.run(code, want)
            except InputError as error:  # too large, or no text: a fault of the answer
                if error.code != "SBX-003":
                    raise
                return False
            if verdict.passed is None:
                setting.note(f"{item.id}: the tests gave no verdict: {verdict.reason}")
            return verdict.passed is True

        return cache(check)

    def run(self, code: str, want: dict[str, Any]) -> SandboxVerdict:
        """The sandbox's result for a solution."""
        # only an exam with code pays for the sandbox
        from assay.sandbox.isolation import require
        from assay.sandbox.limits import SandboxLimits
        from assay.sandbox.solutions import check_solution

        require("bubblewrap")
        return check_solution(
            code,
            want["tests"],
            want.get("entry_point"),
            support=want.get("support", ""),
            limits=SandboxLimits(wall_s=float(self.timeout_s)),
            mode=self.mode,
        )
