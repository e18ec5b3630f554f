"""One test case of JUnit XML: which outcome its elements and attributes report."""

from __future__ import annotations

from assay.files.xml_files import XmlStart

OUTCOMES = ("failure", "error", "skipped")
RERUN = "rerunfailure"
AGAIN = ("flakyfailure", "flakyerror", RERUN, "rerunerror")
HARMLESS = ("system-out", "system-err", "properties", "property", "attachments", "attachment")
"""Elements that report no outcome. An outcome inside one of them counts as if it were next to it;
what nobody knows there is part of a log or of a property, such as Xray's `<item>`.
"""
KNOWN = frozenset((*OUTCOMES, *AGAIN, *HARMLESS))
_STATED = ("status", "result", "outcome", "success", "executed")
_STATUSES = {
    "passed": (
        *("run", "pass", "passed", "ok", "success", "succeeded", "successful", "completed"),
        *("fixed", "true"),
    ),
    "failure": ("fail", "failed", "failure", "false"),
    "error": ("error", "errored", "broken", "aborted"),
    "skipped": ("notrun", "skipped", "disabled", "ignored", "pending", "suppressed", "todo"),
}
"""What some writers say in an attribute of a case, without an element; another word is an error."""


class CaseReport:
    """One test case while it is read."""

    def __init__(self, start: XmlStart) -> None:
        self.start = start
        self.found: dict[str, int] = {}
        """How many elements of each name it has."""
        self.reasons: dict[str, str] = {}

    def child(self, start: XmlStart, text: str) -> None:
        """Add an element of the case."""
        self.found[start.name] = self.found.get(start.name, 0) + 1
        if start.name in HARMLESS:
            return
        message = start.attributes.get("message", "").strip() or text.strip()
        kind = start.attributes.get("type", "").strip()
        self.reasons.setdefault(start.name, message or kind)

    @property
    def unknown(self) -> list[str]:
        """The elements that nobody knows: they may say that the test failed."""
        return [name for name in self.found if name not in KNOWN]

    @property
    def outcome(self) -> str:
        """`failure`, `error`, `skipped` or `passed`; the worst of those reported."""
        stated = {
            next((outcome for outcome, known in _STATUSES.items() if word in known), "error")
            for word in self.words
        }
        for reported in (self.found, stated):
            for outcome in ("error", "failure", "skipped"):
                if outcome in reported:
                    return outcome
        return "error" if self.unknown else "passed"

    @property
    def words(self) -> list[str]:
        """What its attributes state as the outcome, in lower case."""
        given = {key.lower(): text.strip().lower() for key, text in self.start.attributes.items()}
        return [given[key] for key in _STATED if given.get(key)]

    @property
    def reruns(self) -> int:
        """How many of its attempts failed before the last one."""
        return sum(self.found.get(name, 0) for name in AGAIN) if self.found else 0

    def is_again(self, earlier: CaseReport) -> bool:
        """Whether this is another attempt at a test whose last one has no outcome."""
        names = [
            [case.start.attributes.get(key) for key in ("classname", "name")]
            for case in (earlier, self)
        ]
        return names[0] == names[1] and earlier.outcome == "passed"
