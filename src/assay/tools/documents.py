"""How documents of this family are written: indented, every decimal with all its digits, any text a
JavaScript string can hold.
"""

from __future__ import annotations

from typing import Any

import msgspec

from assay.tools.ecma import stringify

_encode = msgspec.json.Encoder(decimal_format="number").encode


def document_bytes(document: Any) -> bytes:
    """A document as its file holds it.

    A score is written with the digits it came with: were it rounded to the nearest double, what is
    read back could have another grade.
    """
    try:
        text = _encode(document)
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can write
        text = stringify(document).encode()
    return msgspec.json.format(text, indent=2) + b"\n"


def script_bytes(document: Any) -> bytes:
    """A document as a JavaScript program would write it: the same bytes whoever makes it."""
    return msgspec.json.format(stringify(document).encode(), indent=2) + b"\n"
