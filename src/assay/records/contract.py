"""Whether a value keeps a JSON Schema: outputs the one that a run carries, the arguments of a call the one of its tool.

The schema is hostile: it is compiled without any access to files or network, its patterns run under a backtracking limit, and one that is no schema leaves
the matter undetermined, not kept. So is the value: what is no JSON (NaN, nesting beyond the limit) is refused before the validator sees it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs
import msgspec

from assay.files import parse_json
from assay.records.plain import beyond_json

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Verdict(NamedTuple):
    """True, False, or None for undetermined; and why."""

    passed: bool | None
    reason: str


_KEPT = Verdict(True, "the outputs keep their schema")
encode = msgspec.json.Encoder(decimal_format="number").encode


class _Compiled:
    """A validator, or why there is none."""

    def __init__(self, schema: Any) -> None:
        self.validator: jsonschema_rs.Draft202012Validator | None = None
        self.problem = ""
        declared = schema.get("$schema", _DRAFT) if isinstance(schema, dict) else _DRAFT
        if str(declared).rstrip("#") != _DRAFT:
            self.problem = f"the `output_schema` is of the draft {declared!r}; only 2020-12 is read"
            return
        try:
            self.validator = jsonschema_rs.Draft202012Validator(schema, offline=True, pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000))
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            first = str(error).strip().splitlines()
            self.problem = f"the `output_schema` is no usable JSON Schema: {first[0][:160] if first else 'unknown'}"


@lru_cache(maxsize=256)
def _compiled(text: bytes) -> _Compiled:
    return _Compiled(parse_json(text))


def check(schema: dict[str, Any] | bool, value: Any) -> Verdict:
    """Whether a value keeps a schema, and the first places where it does not, in words for outputs.

    >>> check({"type": "object", "required": ["a"]}, {"a": 1}).passed, check({"type": "object"}, []).passed, check({"type": 3}, {}).passed
    (True, False, None)
    """
    try:
        text = encode(schema)
        # the encoder writes NaN as null: a schema that holds one would ask for something else
        problem = beyond_json(schema) if b"null" in text else ""
        found = _compiled(text)
    except (ValueError, TypeError, RecursionError):
        problem = beyond_json(schema) or "are no JSON"
    if problem:
        return Verdict(None, f"the `output_schema` is no usable JSON Schema: its parts {problem}")
    if found.validator is None:
        return Verdict(None, found.problem)
    problem = beyond_json(value)
    if problem:
        return Verdict(False, f"the outputs {problem}")
    try:
        if found.validator.is_valid(value):
            return _KEPT
        errors = []
        for error in found.validator.iter_errors(value):
            errors.append(f"{'.'.join(map(str, error.instance_path)) or 'outputs'}: {error.message[:120]}")
            if len(errors) == 4:
                break
    except (jsonschema_rs.ValidationError, ValueError) as error:
        return Verdict(None, f"the outputs could not be checked: {str(error).splitlines()[0][:160]}")
    shown = "; ".join(errors[:3]) + ("; and more" if len(errors) > 3 else "")
    return Verdict(False, f"the outputs break their schema: {shown or 'no place named'}")
