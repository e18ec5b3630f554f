"""Results of ragas: the table of `EvaluationResult.to_pandas()`, saved as CSV, JSON or Parquet.

Each row is a sample. The question, the answer, the passages and the reference also have their old
names: question, answer, contexts, ground_truth. A column of numbers is a metric by its name; one
that ragas doesn't know is kept and not graded, and times and costs are not metrics. NaN, which
ragas writes where it could not compute a metric, is missing and not 0; so is text in such a column.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.files.tables import line_of, table_rows
from assay.importers.cells import MetricColumns, first_of, present, structure_of
from assay.importers.head import Head
from assay.importers.importer import Importer, NameVersion, Wanted
from assay.importers.metric_names import plain_name
from assay.importers.samples import (
    UNVERSIONED,
    ResultOrigin,
    failure_of,
    file_id,
    is_about_failure,
    sample_run,
    shaped,
    short_id,
)
from assay.importers.tally import ImportTally

TOOL = "ragas"
QUESTION = ("user_input", "question")
ANSWER = ("response", "answer")
CONTEXTS = ("retrieved_contexts", "contexts")
REFERENCE = ("reference", "ground_truth", "ground_truths")
OTHER = (
    "reference_contexts",
    "multi_responses",
    "retrieved_context_ids",
    "reference_context_ids",
    "reference_tool_calls",
    "reference_topics",
    "rubric",
    "rubrics",
    "persona_name",
    "query_style",
    "query_length",
    "synthesizer_name",
    "evolution_type",
    "episode_done",
    "metadata",
    "id",
)
KNOWN_COLUMNS = (*QUESTION, *ANSWER, *CONTEXTS, *REFERENCE, *OTHER)
_PLAIN = ("exact_match", "string_present", "bleu_score", "rouge_score", "chrf_score", "id_based")
"""Metrics that no model scores, by the beginnings of their names."""
_METRIC = re.compile(
    r"(?:\w+_)?(?:faithfulness|relevan(?:ce|cy)|precision|recall|correctness|accuracy|similarity"
    r"|score|groundedness|noise_sensitivity|topic_adherence|exact_match|string_present|equivalence"
    r"|utilization)(?:_with(?:out)?_reference)?(?:\(.*\))?"
)
"""The names of the metrics of ragas."""
_WORDS = re.compile(
    r"faithful|relevan|precision|recall|correctness|similarity|accuracy|(?:^|_)f1|score|match"
    r"|grounded|adherence|critic|equivalence|utilization|present|rubric|sensitivity|hallucinat"
    r"|coherence|conciseness|helpful|harmful|malicious|alignment|entailment|completeness|toxic"
)
"""Words in the names of metrics that ragas has."""
_NO_METRIC = re.compile(
    r"(?:^|_)(?:latency|duration|elapsed|runtime|time|timestamp|seconds?|sec|ms|costs?|price|usd"
    r"|tokens?|seed|index|idx|row|length|count|temperature|top_p|top_k|version|year|page)(?:_|$)"
)
"""Words in the names of numbers that people keep next to the scores."""


def _fits(head: Head) -> bool:
    columns = head.columns
    if "user_input" in columns:
        return not columns.isdisjoint(("response", "retrieved_contexts", "reference"))
    return columns.issuperset(("question", "answer", "contexts"))


def _read(paths: Sequence[str], wanted: Wanted, tally: ImportTally) -> Iterator[dict[str, Any]]:
    for path in paths:
        name = NameVersion(TOOL, UNVERSIONED)
        judged, used = set[str](), dict[str, bool]()
        origin = ResultOrigin(TOOL, name, name, file_id(path), judged=judged)
        first = (row for row, _ in table_rows(path))
        metrics = MetricColumns(first, tally, other=KNOWN_COLUMNS, is_metric=_METRIC.fullmatch)
        seen: Counter[str] = Counter()
        for index, (value, place) in enumerate(table_rows(path), 1):
            row = shaped(value, dict, place, path)
            if index == 1:
                origin = origin._replace(answers=not row.keys().isdisjoint(ANSWER))
            tally.read["rows"] += 1
            scores = metrics.scores(row)
            for label in [label for label in scores if label not in used]:
                used[label] = _is_score(label, tally)
                if used[label] and not (label.startswith(_PLAIN) or "non_llm" in label):
                    judged.add(label)
            others = (name for name in row if name not in KNOWN_COLUMNS and not used.get(name))
            failure = failure_of(row, others)
            scores = {label: value for label, value in scores.items() if used[label]}
            question, reference = _question(row), first_of(row, REFERENCE)
            sample_id = short_id(_content(row, question, reference), index)
            seen[sample_id] += 1
            yield sample_run(
                origin,
                wanted,
                tally,
                sample_id=sample_id,
                status="error" if failure else "success",
                reason=failure,
                scores=scores,
                inputs=None if question is None else {"question": question},
                outputs={"answer": first_of(row, ANSWER)} if origin.answers else None,
                expected=None if reference is None else {"answer": reference},
                retrieval=_passages(structure_of(first_of(row, CONTEXTS))),
                attempt=seen[sample_id],
                metadata=metrics.texts(row) or None,
                line=line_of(place),
            )


def _is_score(label: str, tally: ImportTally) -> bool:
    """Whether a column of numbers has scores. One that ragas doesn't know is kept and not graded:
    somebody's own metric, or anything else.
    """
    if _WORDS.search(plain_name(label)) or tally.scale_of(label) is not None:
        return True
    if is_about_failure(label):
        tally.note(f"the column {label} reports failures, so it isn't graded")
        return False
    if _NO_METRIC.search(plain_name(label)):
        tally.note(f"the column {label} is not used: by its name it isn't a metric")
        return False
    tally.doubts[label] = "ragas has no metric of this name"
    return True


def _question(row: Mapping[str, Any]) -> Any:
    """A text, or the messages of a conversation."""
    question = first_of(row, QUESTION)
    is_listed = isinstance(question, str) and question.startswith("[{")
    return structure_of(question) if is_listed else question


def _content(row: Mapping[str, Any], question: Any, reference: Any) -> Any:
    own = present(row.get("id"))
    if own is not None:
        return own
    return None if question is None else {"question": question, "reference": reference}


def _passages(contexts: Any) -> list[dict[str, Any]] | None:
    if contexts is None:
        return None
    listed = contexts if isinstance(contexts, list) else [contexts]
    return [{"id": str(n), "text": str(text), "rank": n} for n, text in enumerate(listed, 1)]


IMPORTER = Importer(TOOL, "ragas tables (CSV, JSON, Parquet)", _fits, _read, apart=True)
