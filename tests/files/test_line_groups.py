"""Lines of a file that belong together, read group by group."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from assay.errors import InputError
from assay.files import line_groups
from assay.files.line_groups import LineGroups


class Pipe(io.BytesIO):
    """A stream that goes one way."""

    def seekable(self) -> bool:
        return False


def grouped(text: bytes, kind=io.BytesIO) -> tuple[list[list[int]], list[int]]:
    with LineGroups("x.jsonl", "id", opened=kind(text)) as groups:
        numbers = [[line.number for line in group] for group in groups]
        return numbers, [line.number for line in groups.loose]


@pytest.mark.parametrize("kind", [io.BytesIO, Pipe])
def test_lines_come_in_groups_in_the_order_of_their_first_lines(kind: Any) -> None:
    rows = [{"spec": 1}, {"id": "a"}, {"id": 7}, {"id": "a", "x": {"id": "b"}}, {"id": 7}]
    text = "\n".join(json.dumps(row) for row in rows).encode()
    assert grouped(text, kind) == ([[2, 4], [3, 5]], [1])


def test_the_key_of_an_inner_object_is_not_the_key_of_its_line() -> None:
    with pytest.raises(InputError, match=r"x\.jsonl:1: `id` isn't a key of this line's own object"):
        grouped(b'{"doc": {"id": "b"}, "id": "a"}')
    with pytest.raises(InputError, match=r"x\.jsonl:1"):
        grouped(b'[{"id": "b"}]')


def test_long_and_damaged_lines_are_refused(monkeypatch) -> None:
    with pytest.raises(InputError, match=r"x\.jsonl:2"):
        grouped(b'{"id": 1}\n{"id": 1')
    with pytest.raises(InputError, match="more than 1,000 lines have no `id`"):
        grouped(b"{}\n" * 1001)
    monkeypatch.setattr(line_groups, "MAX_LINE", 50)
    for text in (b'{"id": 1, "x": "' + b"x" * 60 + b'"}', b"x" * 60):
        with pytest.raises(InputError, match="longer than"):
            grouped(text)


def test_marks_are_found_anywhere() -> None:
    with LineGroups("x", "id", opened=io.BytesIO(b'{"id": 1}\n{"id": 2, "t": "m"}')) as groups:
        assert groups.contains(b'"t": "m"')
        assert not groups.contains(b'"t": "n"')
