"""XML that others wrote, read piece by piece: elements as they begin and end.

A document type declaration is refused, and with it every entity that a document could define: the
ones that expand to gigabytes, and the ones that read files or addresses. Depth, attributes and the
size of one tag are limited. Text of one element beyond `MAX_TEXT` is cut off and marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, NamedTuple
from xml.parsers import expat

from assay.errors import InputError
from assay.files.inputs import open_input

MAX_DEPTH = 100
MAX_ATTRIBUTES = 200
MAX_TAG = 4 * 1024 * 1024
"""Bytes of one tag or comment."""
MAX_TEXT = 64 * 1024
"""Characters of one element's text that are kept."""
_CHUNK = 256 * 1024


class XmlStart(NamedTuple):
    """An element that begins."""

    name: str
    attributes: dict[str, str]
    line: int


class XmlEnd(NamedTuple):
    """An element that ends, with the text in it; that of its inner elements is theirs."""

    name: str
    text: str


def stream_xml(path: str) -> Iterator[XmlStart | XmlEnd]:
    """The elements of a document, in its order."""
    with open_input(path) as stream:
        yield from _XmlReader(path).events(stream)


class _XmlRefusal(Exception):
    """A document is refused, whatever follows."""

    def __init__(self, code: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.fix = code, message, fix


class _XmlReader:
    def __init__(self, path: str) -> None:
        self._path = "<stdin>" if path == "-" else path
        self._found: list[XmlStart | XmlEnd] = []
        self._texts: list[list[str]] = []
        self._sizes: list[int] = []
        parser = self._parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._doctype
        parser.ExternalEntityRefHandler = self._external

    def events(self, stream: IO[bytes]) -> Iterator[XmlStart | XmlEnd]:
        total, ended = 0, False
        while not ended:
            data = stream.read(_CHUNK)
            total, ended = total + len(data), not data
            if ended and not total:
                raise InputError("FIL-005", "the file is empty.", where=self._path)
            self._feed(data, ended)
            # expat keeps a tag that has no end yet
            if not ended and total - max(0, self._parser.CurrentByteIndex) > MAX_TAG + _CHUNK:
                raise self._fault("FIL-004", f"one tag is larger than {MAX_TAG // 2**20} MiB.")
            yield from self._found
            self._found.clear()

    def _feed(self, data: bytes, ended: bool) -> None:
        try:
            self._parser.Parse(data, ended)
        except _XmlRefusal as refusal:
            raise self._fault(refusal.code, refusal.message, refusal.fix) from None
        except expat.ExpatError as error:
            words = expat.ErrorString(error.code) or "not well-formed"
            cut = ended and error.code in _CUT
            raise self._fault(
                "FIL-002", f"not XML: {words}.", "The file is cut off." if cut else ""
            ) from None
        except (ValueError, LookupError) as error:  # an unknown encoding
            raise self._fault("FIL-002", f"not XML: {error}.", "Save it as UTF-8.") from None

    def _fault(self, code: str, message: str, fix: str = "") -> InputError:
        line = max(1, self._parser.CurrentLineNumber)
        return InputError(code, message, where=f"{self._path}:{line}", fix=fix)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._texts) >= MAX_DEPTH:
            raise _XmlRefusal("FIL-004", f"nests more than {MAX_DEPTH} deep.")
        if len(attributes) > MAX_ATTRIBUTES:
            raise _XmlRefusal("FIL-004", f"<{name[:80]}> has over {MAX_ATTRIBUTES} attributes.")
        self._texts.append([])
        self._sizes.append(0)
        self._found.append(XmlStart(name, attributes, self._parser.CurrentLineNumber))

    def _end(self, name: str) -> None:
        text = "".join(self._texts.pop())
        if self._sizes.pop() > MAX_TEXT:
            text = f"{text[:MAX_TEXT]} [cut off]"
        self._found.append(XmlEnd(name, text))

    def _text(self, text: str) -> None:
        if self._texts:
            if self._sizes[-1] <= MAX_TEXT:
                self._texts[-1].append(text)
            self._sizes[-1] += len(text)

    def _doctype(self, *_: object) -> None:
        raise _XmlRefusal(
            "FIL-006",
            "has a document type declaration (<!DOCTYPE ...>), which may define entities.",
            "Remove it: Assay reads XML without one.",
        )

    def _external(self, *_: object) -> int:
        raise _XmlRefusal("FIL-006", "refers to another file.")


_CUT = frozenset(
    expat.errors.codes[words]
    for words in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
)
"""Errors at the end of a file that is cut off."""
