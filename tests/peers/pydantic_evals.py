"""pydantic-evals: five cases, one of which fails and one of which an evaluator can't score."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ANSWERS = {"France": "Paris", "Spain": "madrid", "Peru": "Quito, D.M.", "Norway": "Oslo"}
CAPITALS = {"France": "Paris", "Spain": "Madrid", "Peru": "Lima", "Norway": "Oslo", "Chad": "?"}


def make(folder: Path) -> list[dict[str, Any]]:
    import re

    from pydantic_evals import Case, Dataset
    from pydantic_evals.evaluators import Contains, EqualsExpected, EvaluationReason, Evaluator
    from pydantic_evals.reporting import EvaluationReport, EvaluationReportAdapter

    @dataclass
    class Length(Evaluator):
        def evaluate(self, ctx: Any) -> Any:
            if ctx.inputs["country"] == "Norway":
                raise ValueError("no ruler")
            close = abs(len(ctx.output) - len(ctx.expected_output)) <= 1
            words = EvaluationReason(value=close, reason=f"{len(ctx.output)} letters")
            return {"close": 1.0 if close else 0.25, "fits": words, "size": "small"}

    def answer(inputs: dict[str, str]) -> str:
        return ANSWERS[inputs["country"]]

    def write(name: str, report: EvaluationReport[Any, Any, Any]) -> dict[str, Any]:
        text = EvaluationReportAdapter.dump_json(report, indent=1).decode()
        # its stack traces name files of this machine
        text = re.sub(r'("error_stacktrace": )"(?:[^"\\]|\\.)*"', r'\1"Traceback"', text)
        (folder / name).write_text(text)
        means = report.averages()
        scores = dict(means.scores) if means else {}
        return {
            "version": version("pydantic-evals"),
            "importer": "pydantic-evals",
            "files": [name],
            "totals": {"samples": len(report.cases) + len(report.failures), **scores},
        }

    cases = [
        Case(name=country, inputs={"country": country}, expected_output=capital)
        for country, capital in CAPITALS.items()
    ]
    dataset = Dataset(name="capitals", cases=cases, evaluators=[EqualsExpected(), Length()])
    report = dataset.evaluate_sync(answer, name="atlas", progress=False)
    assert report.averages().assertions == 4 / 7
    made = [write("report.json", report)]
    repeated = dataset.evaluate_sync(answer, name="atlas", progress=False, repeat=2)
    made.append({**write("repeats.json", repeated), "what": ".json, two repeats"})
    cases[0].evaluators = [Contains("Paris")]
    own = Dataset(name="capitals", cases=cases[:3], evaluators=[EqualsExpected()])
    mixed = write("own_evaluators.json", own.evaluate_sync(answer, name="atlas", progress=False))
    return [*made, {**mixed, "what": ".json, evaluators of one case"}]
