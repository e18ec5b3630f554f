"""What a run was asked, what it answered and what was expected, as other tools show it: as text."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.canon import encode_any
from assay.records.evidence import Run


class EvidenceText(NamedTuple):
    """The three texts of a run; None if there is none."""

    input: str | None = None
    output: str | None = None
    target: str | None = None


def evidence_text(run: Run | None) -> EvidenceText:
    """The texts of a run."""
    if run is None:
        return EvidenceText()
    return EvidenceText(*map(as_text, (run.inputs, run.outputs, run.expected)))


def as_text(value: Any) -> str | None:
    """A value as text: the one text of a single field as it is, anything else as JSON.

    >>> as_text({"answer": "42"}), as_text({"a": 1, "b": 2}), as_text({})
    ('42', '{"a":1,"b":2}', None)
    """
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if value is None or value == {}:
        return None
    return value if isinstance(value, str) else encode_any(value).decode()
