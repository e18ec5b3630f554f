"""Grades written in a format, as `assay grade -o FILE` writes them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from assay.views.exporters import Format, ResultSource


def exported(form: Format, document: Mapping[str, Any]) -> bytes:
    """A grades document in a format."""
    stream = io.BytesIO()
    stream.write(form.head())
    sink = form.onto(stream)
    for place, result in enumerate(document["results"]):
        sink.write((form.joint() if place else b"") + form.piece_of(result, ResultSource()))
    form.finish(stream, document["faults"], document["counts"])
    return stream.getvalue()
