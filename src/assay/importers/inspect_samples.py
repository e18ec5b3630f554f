"""One sample of an inspect_ai log: its answer, its scores, and how it ended."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

from assay.canon import digest
from assay.errors import InputError
from assay.files.json_files import member
from assay.importers.parts import amount, objects, optional, shaped
from assay.importers.samples import short_id
from assay.importers.tally import ImportTally

LETTERS = {"C": Decimal(1), "P": Decimal("0.5"), "I": Decimal(0), "N": Decimal(0)}
"""Correct, partially correct, incorrect, no answer."""
WORDS = {"yes": Decimal(1), "true": Decimal(1), "no": Decimal(0), "false": Decimal(0)}
VERDICT = "assay"
"""The score for passed or not in a log that Assay exported, and the package that wrote it."""
_NUMBER = re.compile(r"[-+]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][-+]?\d{1,2})?")
_COMMIT = re.compile(r"[0-9A-Za-z]{4,64}")
_ATTACHED = "attachment://"


def parts_of(sample: Any, where: str, tally: ImportTally, scorer: str) -> dict[str, Any]:
    """What `sample_run` needs of a sample. `scorer` names a score that has no name."""
    shaped(sample, dict, "a sample", where)
    number, epoch = sample.get("id"), sample.get("epoch", 1)
    if isinstance(number, bool) or not isinstance(number, int | str) or number == "":
        raise InputError("SCO-011", f"a sample has the id {number!r:.60}.", where=where)
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 1 <= epoch < 10**6:
        raise InputError(
            "SCO-011", f"the sample {number!r:.60} has the epoch {epoch!r:.60}.", where=where
        )
    status, reason = _ending(sample)
    attached = sample.get("attachments")
    texts = attached if isinstance(attached, dict) else {}
    words: dict[str, Any] = {}
    scores = _scores(sample, where, tally, scorer, words)
    if status == "success" and not scores:
        reason = "no scorer gave a score"
    target = sample.get("target")
    answer = _resolved(_answer(sample), texts)
    return {
        "sample_id": short_id(number, 0),
        "attempt": epoch,
        "status": status,
        "reason": reason,
        "scores": scores,
        "inputs": {"input": _resolved(sample.get("input"), texts)} if "input" in sample else None,
        "outputs": {"answer": answer},
        "expected": {"answer": target} if target not in (None, "", []) else None,
        "latency_ms": amount(sample.get("total_time"), 1000),
        "tokens": _tokens(sample.get("model_usage")),
        "retries": len(retried)
        if isinstance(retried := sample.get("error_retries"), list)
        else None,
        "tags": _limit(sample),
        "metadata": {"labels": words} if words else {},
        **times_of(sample),
    }


def checks_of(spec: dict[str, Any]) -> dict[str, int]:
    """What a comparison requires: each scorer with its options, and with the model that grades. A
    scorer with other options may be easier to please.

    >>> checks_of({"scorers": [{"name": "match", "options": {}}]})
    {'scorer match without options': 0}
    """
    roles = next(iter(objects([spec.get("model_roles")])), {})
    checks = {}
    for scorer in objects(spec.get("scorers")):
        name = str(scorer.get("name"))
        options = next(iter(objects([scorer.get("options")])), {})
        grader = roles.get(options.get("model_role") or "grader") if "model" in name else None
        settings = [part for part in (options, grader) if part]
        suffix = f"with the options {digest(settings)[7:19]}" if settings else "without options"
        checks[f"scorer {name[:100]} {suffix}"] = 0
    return checks


def is_graded(spec: dict[str, Any]) -> bool:
    """Whether Assay exported the log: its scores without its verdicts could open a failed gate."""
    packages = next(iter(objects([spec.get("packages")])), {})
    return VERDICT in packages and str(spec.get("model")).startswith(f"{VERDICT}/")


def scorer_of(results: dict[str, Any]) -> str:
    """The name of the only scorer, which samples of old logs don't repeat."""
    first = results.get("scorer") or next(iter(objects(results.get("scores"))), None)
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) and name else "score"


def unscored_in(results: dict[str, Any]) -> list[str]:
    """The labels of the scores that no sample has, by the log's own count.

    >>> unscored_in({"scores": [{"name": "match", "scorer": "match", "scored_samples": 0}]})
    ['match']
    """
    return [
        name if name == scorer else f"{scorer}/{name}"
        for score in objects(results.get("scores"))
        if count_of(score.get("scored_samples")) == 0
        for name, scorer in [(str(score.get("name")), str(score.get("scorer")))]
    ]


def times_of(part: dict[str, Any], *, created: Any = None) -> dict[str, str]:
    """When a sample or a whole log ran, as it says it; else when it was created."""
    named = {"started_at": part.get("started_at"), "finished_at": part.get("completed_at")}
    times = {name: _moment(text) or _moment(created) for name, text in named.items()}
    return {name: moment for name, moment in times.items() if moment is not None}


def revision_text(revision: Any) -> str:
    """The commit that was evaluated, as part of a version.

    >>> revision_text({"type": "git", "commit": "04c45e7d9af", "dirty": True}), revision_text(None)
    ('+04c45e7-dirty', '')
    """
    commit = revision.get("commit") if isinstance(revision, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        return ""
    return f"+{commit[:7]}{'-dirty' if revision.get('dirty') is True else ''}"


def _moment(text: Any) -> str | None:
    """A moment as a log writes it; None if it is none.

    >>> _moment("2026-10-15T10:00:00+00:00"), _moment("yesterday")
    ('2026-10-15T10:00:00+00:00', None)
    """
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _ending(sample: dict[str, Any]) -> tuple[str, str]:
    """The status of a sample, and why."""
    error = sample.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else error
        return "error", str(message)[:2000]
    if sample.get("invalidation") is not None:
        return "cancelled", "the sample was invalidated after it ran"
    if sample.get("limit") is not None and not (sample.get("scores") or sample.get("score")):
        return "timeout", f"stopped by a limit: {_limit(sample)}"
    return "success", ""


def _limit(sample: dict[str, Any]) -> list[str] | None:
    limit = sample.get("limit")
    if limit is None:
        return None
    kind = limit.get("type") if isinstance(limit, dict) else limit
    return [f"limit:{str(kind)[:40]}"]


def _scores(
    sample: dict[str, Any], where: str, tally: ImportTally, scorer: str, words: dict[str, Any]
) -> dict[str, Any]:
    """The scores that are numbers; the others are added to `words`."""
    what = f"`scores` of the sample {sample.get('id')!r:.60}"
    scores = optional(sample.get("scores"), dict, what, where)
    if scores is None:
        scores = {} if sample.get("score") is None else {scorer: sample["score"]}
    made: dict[str, Any] = {}
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(score, dict) and score.get("history"):
            tally.read["edited scores"] += 1
        several = (
            value
            if isinstance(value, dict)
            else dict(enumerate(value))
            if isinstance(value, list)
            else None
        )
        labelled = (
            {name: value}
            if several is None
            else {f"{name}/{key}": item for key, item in several.items()}
        )
        for label, item in labelled.items():
            read = number(item)
            if read is None and item is not None:
                tally.in_words(label, "scores_that_are_no_numbers")
                words[label] = item
            else:
                made[label] = read
    return made


def number(value: Any) -> Decimal | int | bool | None:
    """The number that inspect_ai takes a value for; None if it is none.

    >>> [number(value) for value in ("C", "P", "N", "yes", True, "0.5", "blue")]
    [Decimal('1'), Decimal('0.5'), Decimal('0'), Decimal('1'), True, Decimal('0.5'), None]
    """
    if isinstance(value, int | Decimal):
        return value
    if not isinstance(value, str):
        return None
    value_read = LETTERS.get(value, WORDS.get(value.lower()))
    if value_read is None and _NUMBER.fullmatch(value.strip()):
        value_read = Decimal(value.strip())
    return value_read


def _answer(sample: dict[str, Any]) -> Any:
    """The text of the model's answer: the completion, or the last message."""
    choices = member(sample, "output", "choices")
    messages = sample.get("messages")
    for listed in (
        [choices[0].get("message")]
        if isinstance(choices, list) and choices and isinstance(choices[0], dict)
        else [],
        messages[-1:] if isinstance(messages, list) else [],
    ):
        for message in listed:
            if isinstance(message, dict) and message.get("role", "assistant") == "assistant":
                return _text(message.get("content"))
    return member(sample, "output", "completion")


def _text(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = [
        part for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]
    return "\n".join(part["text"] for part in parts)


def attached(sample: dict[str, Any]) -> set[str]:
    """The names of the texts that the log keeps apart and that a sample's input and answer need."""
    shown = f"{sample.get('input')} {sample.get('output')} {sample.get('messages')}"
    return set(re.findall(_ATTACHED + r"(\w+)", shown))


def _resolved(value: Any, texts: dict[str, Any]) -> Any:
    """A value with the texts that the log keeps apart."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return texts.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, list):
        return [_resolved(item, texts) for item in value]
    if isinstance(value, dict):
        return {key: _resolved(item, texts) for key, item in value.items()}
    return value


def _tokens(usage: Any) -> int | None:
    by_model = list(usage.values()) if isinstance(usage, dict) else []
    counts = [count_of(entry.get("total_tokens")) for entry in objects(by_model)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def limited(size: int | None, limit: Any) -> int | None:
    """The samples that a limit leaves, a number or the two ends of a slice; None if unknown.

    >>> limited(80, None), limited(80, 50), limited(80, [40, 100]), limited(None, [0, 9])
    (80, 50, 40, 9)
    """
    if isinstance(limit, list):
        ends = [count_of(end) for end in limit]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            return None
        last = ends[1] if size is None else min(size, ends[1])
        return max(0, last - ends[0])
    return size if limit is None or size is None else min(size, count_of(limit) or size)


def count_of(value: Any) -> int | None:
    """A count; None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
