"""Report Agent Framework's spans to a `LiveRun` as they begin and end.

A span has few of its attributes when it begins, so its kind is read from its name. The framework
ends the span of cancelled work as if it had succeeded, so the adapter passes on whether it was
cancelled.
"""

from __future__ import annotations

from assay.tracing.dialects import meaning
from assay.tracing.live import LiveRun
from assay.tracing.spans import Kind, Meaning, Span

_KINDS: dict[str, Kind] = {
    "workflow.run": "workflow",
    "executor.process": "step",
    "invoke_agent": "agent",
    "chat": "model",
    "execute_tool": "tool",
}


class SpanFollower:
    """The spans of one run. Another instrumentation may report the same model call again, so only
    the framework's spans count (`own`), and searches that others report.
    """

    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self.heard = False

    def begins(self, span: Span, *, own: bool) -> None:
        """A span begins."""
        word, _, name = span.name.partition(" ")
        self.heard = self.heard or own
        kind = _KINDS.get(word, "other") if own else "other"
        self.live.begins(span, Meaning(kind, str(span.attributes.get("executor.id", name))))

    def ends(self, span: Span, *, own: bool, cancelled: bool) -> None:
        """A span has ended, with all its attributes."""
        meant = meaning(span)
        if not own and meant.kind != "retrieval":
            meant = Meaning("other", span.name)
        if meant.kind == "tool" and not meant.refused:
            meant = meant._replace(valid=True)  # the framework accepted the arguments
        if cancelled:
            meant = meant._replace(error="CancelledError")
        self.live.ends(span.span_id, cancelled=cancelled, **meant._asdict())
