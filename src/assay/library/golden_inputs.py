"""The golden inputs of the behaviour fingerprints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from assay.errors import InputError, ShelfError
from assay.files.json_files import Document, Unread, stream_documents
from assay.library.lock import BUILTIN

GOLDEN = os.path.join(BUILTIN, "golden")


def golden(name: str) -> Iterator[Document]:
    """The documents of one golden file."""
    for document in stream_documents(os.path.join(GOLDEN, name)):
        if isinstance(document, Unread):
            raise ShelfError("LIB-002", document.fault.text(), where=document.fault.file)
        yield document


def outcomes(name: str, take: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """The results of a function on each probe of a golden file: its value, or its error code."""
    results = []
    for document in golden(name):
        try:
            results.append(take(document.tree))
        except InputError as error:
            results.append(error.code)
    return results
