"""Scores of autoevals: a list, or one on each line, of what a scorer returned (`name`, `score`,
`metadata`) next to the `input`, `output` and `expected` that it was given.

The scores of one answer by several scorers are one sample. A score of null is a skipped scorer,
which is missing evidence; so is an answer with a scorer that failed. Where no answer has two
scorers, the records are separate checks: they share one metric, `score`, and the scorer is a tag.
Keys that people add, such as `tags`, are listed as not used; a verdict, a status or a further score
among them is refused, for it would be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from assay.canon import digest
from assay.errors import InputError
from assay.files.tables import table_rows
from assay.importers.column_map import NEEDED, SCORE, guess
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.samples import UNVERSIONED, ResultOrigin, file_id, sample_run, short_id
from assay.importers.spool import Spool
from assay.importers.tally import ImportTally

_ALWAYS = {"name", "score", "metadata"}
_KEYS = {*_ALWAYS, "id", "input", "output", "expected", "error"}
_KEPT = ("id", "name", "score", "input", "output", "expected", "error")
_CONTENT = ("id", "input", "output", "expected")

Answer = tuple[str, int]
"""The digest of an answer, and which of several equal ones it is."""
Scored = tuple[Any, ...]
"""The scorer of an answer whose score is in the spool, and the names and scores of any others."""


def _fits(head: Head) -> bool:
    top = {key for key in head.row_keys if not set(".[") & set(key)}
    more = top - _KEYS
    return top >= _ALWAYS and (not more or ("output" in top and not _results_in(more)))


def _results_in(keys: Iterable[str]) -> list[str]:
    """The keys that may say how a sample ended."""
    starts = (*NEEDED, "error", SCORE)
    return [key for key in keys if any(name.startswith(starts) for name in guess([key]).mapping)]


def _records(path: str, tally: ImportTally) -> Iterator[dict[str, Any]]:
    """The records of a file."""
    known = set(_KEYS)
    for record, place in table_rows(path):
        if not isinstance(record, dict) or not isinstance(record.get("name"), str):
            raise InputError(
                "SCO-011",
                f"{place} is not a score of autoevals: it needs a `name` and a `score`.",
                where=path,
            )
        if added := record.keys() - known:
            if lost := _results_in(sorted(added)):
                raise InputError(
                    "SCO-011",
                    f"{place} has the key {lost[0]!r}, which isn't part of a score of autoevals and"
                    " may be a result.",
                    where=path,
                    fix="Remove the key, or import the file with --from table, which reads it.",
                )
            known |= added
        yield record
    if unused := sorted(known - _KEYS):
        tally.note(f"keys that are not used: {', '.join(unused[:20])}")


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        with Spool(path) as spool:
            seen, scores = Counter[tuple[str, str]](), dict[Answer, Scored]()
            first: dict[str, Scored] = {}  # one object for the answers with one scorer
            failed: set[Answer] = set()
            for record in _records(path, tally):
                alone = first.setdefault(record["name"], (record["name"],))
                content = digest({key: record.get(key) for key in _CONTENT})[7:23]
                key = (content, alone[0])
                seen[key] += 1
                answer = (content, seen[key])
                if answer in scores:
                    scores[answer] += (alone[0], record.get("score"))
                else:
                    scores[answer] = alone
                    spool.add([answer, {key: record[key] for key in _KEPT if key in record}])
                if record.get("error"):
                    failed.add(answer)
                tally.read["scores"] += 1
            names = list(dict.fromkeys(name for score in scores.values() for name in _names(score)))
            apart = len(names) > 1 and all(len(score) == 1 for score in scores.values())
            if apart:
                tally.note("no answer has two scorers; each score is a sample, its scorer a tag")
            named = NameVersion("autoevals", UNVERSIONED)
            origin = ResultOrigin("autoevals", named, named, file_id(path))
            listed = [] if apart else names
            yield from _samples(spool, origin, wanted, tally, scores, failed, listed)


def _names(scored: Scored) -> Scored:
    return (scored[0], *scored[1::2])


def _samples(
    spool: Spool,
    origin: ResultOrigin,
    wanted: Wanted,
    tally: ImportTally,
    scores: dict[Answer, Scored],
    failed: set[Answer],
    names: list[str],
) -> Iterator[dict[str, Any]]:
    attempts: Counter[str] = Counter()
    for (content, number), record in spool:
        scored = scores.pop((content, number))
        found = dict(zip(_names(scored), (record.get("score"), *scored[2::2]), strict=True))
        question = {key: record[key] for key in ("input", "expected") if key in record}
        sample_id = short_id(record.get("id", question or None), tally.samples + 1)
        if not names:
            sample_id = f"{record['name']}/{sample_id}"
        attempts[sample_id] += 1
        yield sample_run(
            origin,
            wanted,
            tally,
            sample_id=sample_id,
            status="error" if (content, number) in failed else "success",
            scores={name: found.get(name) for name in names} or {"score": record.get("score")},
            outputs={"answer": record.get("output")},
            inputs={"input": record["input"]} if "input" in record else None,
            expected={"answer": record["expected"]} if "expected" in record else None,
            attempt=attempts[sample_id],
            tags=None if names else [f"scorer:{record['name']}"],
        )


IMPORTER = Importer("autoevals", "autoevals scores", _fits, _read)
