"""Grades as a log of inspect_ai (`.json`), with a score for the verdict, one for the grade's points
and one for each criterion, so that `inspect view` and `read_eval_log` show them.

A repeat of a sample is an epoch. A criterion without a score has none in the log either: inspect
counts it as unscored, not as 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from hashlib import sha256
from typing import IO, Any

from assay.canon import encode_any
from assay.records.grade import Payload
from assay.registry import home_value
from assay.views.exporters import Exporter, ResultSource
from assay.views.spooled import Spooled, evidence_text

VERDICT, POINTS = "assay", "assay_score"
"""The scores that every sample has: passed or not, and the weighted score on 0..1."""


class InspectLog(Spooled):
    """Grades as one log."""

    def row(self, result: Payload, source: ResultSource) -> Any:
        """One sample, and where it comes from."""
        question, answer, target = evidence_text(source.run)
        why = " ".join(result["explanation"]) or result["reason"]
        about = {key: result[key] for key in ("run_id", "grade", "reason", "policy", "profile")}
        scores: dict[str, Any] = {
            VERDICT: {
                "value": "C" if result["passed"] is True else "I",
                "answer": answer,
                "explanation": why,
                "metadata": {**about, "hard_gates": result["hard_gates"]},
            },
            POINTS: {"value": result["weighted_score"] / 100, "explanation": why},
        }
        for item in result["criteria"]:
            if item["raw_score"] is not None:
                scores[_free(item["name"], scores)] = {
                    "value": item["norm"],
                    "explanation": f"raw {encode_any(item['raw_score']).decode()[:200]}"
                    f" by {item['formula_id']}, weight {item['weight']}",
                }
        return {
            "sample": result["sample_id"] or result["run_id"],
            "workflow": result["workflow"],
            "dataset": result["dataset"],
            "input": question or "",
            "target": target or "",
            "output": answer,
            "scores": scores,
        }

    def write_all(self, stream: IO[bytes], counts: dict[str, Any]) -> None:
        """The log: what was evaluated and the totals, then the samples."""
        totals: dict[str, tuple[Fraction, int]] = {}
        first: Mapping[str, Any] = {}
        names: Counter[str] = Counter()
        total = 0
        for row in self.rows():
            total += 1
            first = first or row
            names[row["sample"]] += 1
            for name, score in row["scores"].items():
                value = {"C": 1, "I": 0}.get(score["value"], score["value"])
                so_far, n = totals.get(name, (Fraction(0), 0))
                totals[name] = so_far + Fraction(str(value)), n + 1
        head = _head(first, totals, counts, total=total, samples=names)
        stream.write(encode_any(head).removesuffix(b"}") + b',"samples":[')
        epochs: Counter[str] = Counter()
        model = head["eval"]["model"]
        for index, row in enumerate(self.rows()):
            epochs[row["sample"]] += 1
            made = _sample(row, epochs[row["sample"]], model)
            stream.write((b",\n" if index else b"\n") + encode_any(made))
        stream.write(b"\n]}\n")


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return f"criterion_{name}" if name in taken else name


def _head(
    first: Mapping[str, Any],
    totals: Mapping[str, tuple[Fraction, int]],
    counts: Mapping[str, Any],
    *,
    total: int,
    samples: Counter[str],
) -> dict[str, Any]:
    """Everything of a log besides its samples. Its ids are made of what it contains, so that the
    same grades give the same log.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    workflow, dataset = first.get("workflow") or {}, first.get("dataset") or {}
    mark = sha256(
        encode_any([workflow, dataset, sorted(samples), counts.get("policy")])
    ).hexdigest()
    about = {
        key: counts[key] for key in ("policy", "scoringSystem", "gradingSystem") if key in counts
    }
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": mark[:22],
            "run_id": mark[22:44],
            "created": now,
            "task": workflow.get("id") or "assay",
            "task_id": mark[-22:],
            "task_version": workflow.get("version") or 0,
            "dataset": {
                "name": dataset.get("id"),
                "samples": len(samples),
                "sample_ids": list(samples),
            },
            "model": f"assay/{workflow.get('id') or 'unknown'}",
            "config": {"epochs": max(samples.values(), default=1)},
            "packages": {"assay": home_value("assay:__version__")},
            "metadata": about,
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": total,
            "completed_samples": total,
            "scores": [_total(name, *counts, total) for name, counts in totals.items()],
        },
        "stats": {"started_at": now, "completed_at": now, "model_usage": {}},
    }


def _total(name: str, points: Fraction, n: int, total: int) -> dict[str, Any]:
    metric = "accuracy" if name == VERDICT else "mean"
    return {
        "name": name,
        "scorer": name,
        "scored_samples": n,
        "unscored_samples": total - n,
        "params": {},
        "metrics": {metric: {"name": metric, "value": float(points / n), "params": {}}},
    }


def _sample(row: Mapping[str, Any], epoch: int, model: str) -> dict[str, Any]:
    answer = row["output"]
    choice = {
        "message": {"role": "assistant", "content": answer, "source": "generate"},
        "stop_reason": "stop",
    }
    messages = [{"role": "user", "content": row["input"]}]
    return {
        "id": row["sample"],
        "epoch": epoch,
        "input": row["input"],
        "target": row["target"],
        "messages": messages if answer is None else [*messages, choice["message"]],
        "output": {"model": model, "choices": [] if answer is None else [choice]},
        "scores": row["scores"],
        "metadata": {},
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": {},
    }


EXPORTER = Exporter("inspect", "inspect_ai: a log with scores for each run", (".json",), InspectLog)
