"""What things are called: areas, ids, times in file names, files and folders of a grading tree.

Every name that becomes part of a path passes `segment`, so that no id can lead out of the tree.
Nothing here reads or writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from assay.errors import InputError
from assay.registry import near_miss

AUTONOMOUS = "autonomous"
GROUP_BOUND = "group-bound"
TIERS = (AUTONOMOUS, GROUP_BOUND)
DETERMINISTIC = "deterministic"
NON_DETERMINISTIC = "non-deterministic"
FULL = "full"
PARTIAL = "partial"
LETTERS = ("A", "B", "C", "D", "F")
REJECTED = "REJECTED"
BASE_PERSONAS = ("ai-engineer", "decision-maker", "hackathon-builder", "schema-maintainer")
NEUTRAL = "neutral"
"""The persona of an area that is bound to none."""


class Area(NamedTuple):
    """One kind of thing that is graded, and where its gradings are stored."""

    name: str
    tier: str
    folder: str
    persona: bool = False
    """Whether an entry must name a persona."""
    skill: bool = False
    """Whether an entry must name a skill."""


_NS, _SEL = "providers/{namespace}", "selections/{selection}"
AREAS: dict[str, Area] = {
    area.name: area
    for area in (
        Area("single-test", AUTONOMOUS, f"{_NS}/{{schema}}/tools/{{tool}}"),
        Area("tools-aggregate-schema", AUTONOMOUS, f"{_NS}/{{schema}}"),
        Area("tools-aggregate-namespace", AUTONOMOUS, _NS),
        Area("namespace-description", AUTONOMOUS, _NS),
        Area(
            "namespace-skills",
            AUTONOMOUS,
            f"{_NS}/{{schema}}/skills/{{skill}}",
            persona=True,
            skill=True,
        ),
        Area("about-namespace", AUTONOMOUS, f"{_NS}/{{schema}}/resources/about", persona=True),
        Area("about-selection", GROUP_BOUND, f"{_SEL}/resources/about", persona=True),
        Area(
            "selection-skills-L1", GROUP_BOUND, f"{_SEL}/skills/{{skill}}", persona=True, skill=True
        ),
        Area(
            "selection-skills-L2", GROUP_BOUND, f"{_SEL}/skills/{{skill}}", persona=True, skill=True
        ),
        Area(
            "selection-skills-L3", GROUP_BOUND, f"{_SEL}/skills/{{skill}}", persona=True, skill=True
        ),
        Area("selection-aggregate", GROUP_BOUND, _SEL, persona=True),
    )
}
"""The eleven areas, a closed list: a new one is a new grading system."""

SKEW = timedelta(minutes=5)
"""How far a grader's clock may be ahead of this machine's."""
GRADINGS = "_gradings"
INDEX = "index.json"
RECORD = "_record.jsonl"
"""What is remembered of the entries of a namespace or selection: `index.EntryRecord`."""
MAX_SEGMENT = 120
"""The longest name that is part of a path; file systems stop at 255 bytes, and a snapshot's name
adds time and hash.
"""

_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}-[0-9]{2}-[0-9]{2}Z")
_READ_STAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2})-([0-9]{2})(?:-([0-9]{2})(?:[-.]([0-9]{1,6}))?)?Z"
)
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PERSONA = re.compile(r"[a-z][a-z0-9-]*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HASH8 = re.compile(r"[a-f0-9]{8}")


def area_of(name: object) -> Area:
    """The area of that name; an unknown one is refused with the near miss.

    >>> area_of("single-test").tier
    'autonomous'
    """
    area = AREAS.get(name) if isinstance(name, str) else None
    if area is None:
        raise InputError(
            "GRD-043",
            f"there is no area {name!r}.{near_miss(str(name), AREAS)}",
            fix=f"The areas are {', '.join(AREAS)}.",
        )
    return area


def segment(value: object, what: str) -> str:
    """A name that may be part of a path, or an error: never empty, never hidden, never `..`, never
    a slash.
    """
    if value is None:
        raise InputError("FMC-012", f"no {what} is named.", fix=f"Give the {what}.")
    if (
        not isinstance(value, str)
        or not _SEGMENT.fullmatch(value)
        or ".." in value
        or len(value) > MAX_SEGMENT
    ):
        shown_name = (
            repr(value)
            if len(repr(value)) < 80
            else f"{repr(value)[:60]}... ({len(str(value))} characters)"
        )
        raise InputError(
            "FMC-007",
            f"the {what} {shown_name} cannot be part of a file name.",
            fix=(
                "Use letters, digits, '.', '_' and '-', beginning with a letter or digit, at most"
                f" {MAX_SEGMENT} characters."
            ),
        )
    return value


# --- times


def stamp(moment: datetime) -> str:
    """A moment as file names write it.

    >>> stamp(datetime(2026, 5, 30, 10, 15, tzinfo=UTC))
    '2026-05-30T10-15-00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")


def is_stamp(text: object) -> bool:
    """Whether a text is a moment in the grammar of file names, to the second, and a moment that
    exists.
    """
    return (
        isinstance(text, str)
        and _STAMP.fullmatch(text) is not None
        and parse_stamp(text) is not None
    )


def parse_stamp(text: str) -> datetime | None:
    """The moment of a file name; also without seconds and with fractions of one, as older programs
    wrote it. None if it is none.

    >>> parse_stamp("2026-05-29T15-34Z").minute
    34
    """
    match = _READ_STAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute = (int(part) for part in match.groups()[:5])
    try:
        return datetime(
            year,
            month,
            day,
            hour,
            minute,
            int(match[6] or 0),
            int((match[7] or "0").ljust(6, "0")),
            tzinfo=UTC,
        )
    except ValueError:
        return None


# --- ids


def is_schema_id(text: object) -> bool:
    """Whether a text is `namespace/file-base`: exactly one slash, something on both sides."""
    return (
        isinstance(text, str)
        and text.count("/") == 1
        and not text.startswith("/")
        and not text.endswith("/")
    )


def slug(schema_id: object) -> str:
    """The id as a file name.

    >>> slug("mudab/marine-data")
    'mudab_marine-data'
    """
    if not isinstance(schema_id, str) or not schema_id:
        raise InputError(
            "FMC-007", f"{schema_id!r} is not a schema id.", fix="It is <namespace>/<file-base>."
        )
    return schema_id.replace("/", "_")


def report_name(schema_id: object, date: object) -> str:
    """The file name of a grade report, before any suffix against a collision."""
    if not is_schema_id(schema_id):
        raise InputError(
            "FMC-007",
            f"{schema_id!r} is not a schema id.",
            fix="It is <namespace>/<file-base>, with exactly one slash.",
        )
    if (
        not isinstance(date, str)
        or not _DATE.fullmatch(date)
        or parse_stamp(f"{date}T00-00Z") is None
    ):
        raise InputError("FMC-012", f"{date!r} is not a date.", fix="Write YYYY-MM-DD.")
    return f"{slug(schema_id)}-{date}.json"


def is_hash8(text: object) -> bool:
    """Whether a text is eight lower-case hexadecimal digits."""
    return isinstance(text, str) and _HASH8.fullmatch(text) is not None


def id_moment(grading_id: str) -> datetime | None:
    """The time in the id of an entry, `<hash8>--<time>`; None if it names none.

    >>> id_moment("326a19f8--2026-05-30T10-15-00Z").day
    30
    """
    return parse_stamp(grading_id.partition("--")[2])


# --- files and folders


def grading_file(
    area: object, timestamp: object, *, base_persona: object = None, lens: object = None
) -> str:
    """The file name of a grading: `<area>[--<basePersona>--<lens>]--<timestamp>.json`.

    >>> grading_file("single-test", "2026-05-30T10-15-00Z")
    'single-test--2026-05-30T10-15-00Z.json'
    """
    name = area_of(area).name
    if not is_stamp(timestamp):
        raise InputError(
            "GRD-041",
            f"{timestamp!r} is not a timestamp.",
            fix="Write YYYY-MM-DDTHH-MM-SSZ, without colons.",
        )
    persona = ""
    if base_persona is not None or lens is not None:
        for value in (base_persona, lens):
            if not isinstance(value, str) or not _PERSONA.fullmatch(value) or "--" in value:
                raise InputError(
                    "GRD-042",
                    f"{value!r} is not a persona or lens.",
                    fix="Give both or none, each in lower-case letters, digits and single '-'.",
                )
        persona = f"{base_persona}--{lens}--"
    return f"{name}--{persona}{timestamp}.json"


def primitive_file(name: str, timestamp: str, hash8: str, extension: str) -> str:
    """The file name of a snapshot: `<name>--<timestamp>--<hash8>.<ext>`."""
    return f"{segment(name, 'name')}--{timestamp}--{hash8}.{extension}"


def gradings_dir(area: object, names: Mapping[str, object]) -> str:
    """The folder of an area's gradings below `grading-data/`, without a slash at the end.

    >>> gradings_dir("tools-aggregate-schema", {"namespace": "openmeteo", "schema": "air"})
    'providers/openmeteo/air/_gradings'
    """
    known = area_of(area)
    parts = []
    for part in known.folder.split("/"):
        if part.startswith("{"):
            key = part[1:-1]
            if names.get(key) is None:
                raise InputError("FMC-012", f"the area '{known.name}' needs a {key}.")
            parts.append(segment(names[key], key))
        else:
            parts.append(part)
    return "/".join([*parts, GRADINGS])


def file_stamp(name: str) -> datetime | None:
    """The time in a file name: the last part, or the one before the hash. Read from the end,
    because a name may hold `--` and even another time.

    >>> file_stamp("air--quality--2026-05-30T10-15-00Z--93baef35.mjs").day
    30
    """
    _, *parts = name.rsplit(".", 1)[0].split("--")
    if parts and is_hash8(parts[-1]):
        del parts[-1]
    return parse_stamp(parts[-1]) if parts else None


def latest(files: Iterable[str], logical_name: str) -> str | None:
    """The newest version among `<logicalName>--...` by its parsed time, then by its name; None if
    there is no version.

    A plain sort of the names would be wrong: persona segments come before the time.
    """
    versions = [
        (moment, name)
        for name in files
        if name.startswith(f"{logical_name}--") and (moment := file_stamp(name)) is not None
    ]
    return max(versions)[1] if versions else None
