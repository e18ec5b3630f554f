"""TREC files: a run and the judgements (qrels) it is measured by, one sample for each query.

Both files are needed, in any order; each is known by its content. A sample has what was retrieved,
in trec_eval's order, and the ids of every relevant document: the profile measures it. A judged
query without results is missing. As in trec_eval, a document that nobody judged is not relevant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from assay.errors import InputError
from assay.files.trec_files import ranking, read_qrels, read_run
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.parts import file_stem, head_of
from assay.importers.samples import UNVERSIONED, ResultOrigin, file_id, sample_run, short_id
from assay.importers.tally import ImportTally

MAX_RANK = 1000
"""How far down a ranking is kept; no measure looks further."""
LEVEL = 1
"""The grade from which a document is relevant."""
_LOOKED_AT = 50
_RUN = re.compile(r"\S+\s+(?:Q0|q0|0)\s+\S+\s+\d+\s+[-+]?[0-9.]+(?:[eE][-+]?\d+)?\s+\S.*")
_QRELS = re.compile(r"\S+\s+(?:Q0|q0|\d)\s+\S+\s+-?\d{1,6}\s*")


def _lines(head: Head) -> list[str]:
    lines = head.text.splitlines()[: _LOOKED_AT + 1]
    whole = lines if len(head.data) < 1000 or len(lines) == 1 else lines[:-1]
    return [line.strip() for line in whole if line.strip() and not line.startswith("#")]


def _is_like(head: Head, line: re.Pattern[str]) -> bool:
    lines = _lines(head)
    return bool(lines) and all(line.fullmatch(sample_line) for sample_line in lines)


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    runs, judgements = _sorted_out(paths)
    qrels = read_qrels(judgements)
    tally.read["judgements"] += sum(map(len, qrels.values()))
    dataset = NameVersion(file_stem(judgements), UNVERSIONED)
    for path in runs:
        workflow = NameVersion("retrieval", _tag(path))
        origin = ResultOrigin("trec", workflow, dataset, file_id(path), answers=False)
        yield from _runs(origin, wanted, tally, qrels, read_run(path))
    if any(grade > LEVEL for judged in qrels.values() for grade in judged.values()):
        tally.note(
            "The judgements have several grades; a document only counts as relevant or not. For"
            f" nDCG with the grades: `assay measure retrieval --qrels {quote(judgements)} --run"
            f" {quote(runs[0])}`."
        )


def _sorted_out(paths: Sequence[str]) -> tuple[list[str], str]:
    """The runs and the judgements among the files."""
    runs: list[str] = []
    judgements: list[str] = []
    for path in paths:
        (judgements if _is_judgements(path) else runs).append(path)
    if len(judgements) == 1 and runs:
        return runs, judgements[0]
    if len(judgements) > 1:
        message = "there are several files of judgements."
    elif runs:
        message = "the judgements (qrels) that measure this run are missing."
    else:
        message = "the run that these judgements measure is missing."
    raise InputError(
        "SCO-031",
        message,
        where=", ".join(paths),
        fix="Give a run and its judgements together, one after the other.",
    )


def _is_judgements(path: str) -> bool:
    fields = [len(line.split(None, 5)) for line in _lines(head_of(path))]
    return bool(fields) and max(fields) < 5


def _tag(path: str) -> str:
    """The name that a run has in its last field."""
    first = next(iter(_lines(head_of(path))), "").split(None, 5)
    return short_id(first[5].strip(), 0) if len(first) == 6 else UNVERSIONED


def _runs(
    origin: ResultOrigin,
    wanted: Wanted,
    tally: ImportTally,
    qrels: dict[str, dict[str, int]],
    results: dict[str, dict[str, float]],
) -> Iterator[dict[str, Any]]:
    tally.read["results"] += sum(map(len, results.values()))
    for query, judged in qrels.items():
        relevant = [document for document, grade in judged.items() if grade >= LEVEL]
        scores = results.get(query)
        if not relevant:
            tally.dropped["queries without a relevant document"] += 1
            continue
        kept = [] if scores is None else ranking(scores)[:MAX_RANK]
        if scores is not None and len(scores) > MAX_RANK:
            tally.dropped[f"results beyond rank {MAX_RANK:,}"] += len(scores) - MAX_RANK
        listed = [
            {"id": document, "rank": rank, "relevant": judged.get(document, 0) >= LEVEL}
            for rank, document in enumerate(kept, 1)
        ]
        yield sample_run(
            origin,
            wanted,
            tally,
            sample_id=short_id(query, 0),
            status="success" if scores is not None else "cancelled",
            reason="" if scores is not None else "the run has no results for this query",
            inputs={"query": query},
            retrieval=None if scores is None else listed,
            expected={"relevant_ids": relevant},
        )
    unjudged = len(results.keys() - qrels.keys())
    if unjudged:
        tally.dropped["queries without judgements"] += unjudged


IMPORTER = Importer(
    "trec",
    "TREC run and qrels",
    lambda head: _is_like(head, _RUN) or _is_like(head, _QRELS),
    _read,
    profile="retrieval",
)
