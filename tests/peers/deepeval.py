"""deepeval with metrics that need no model: plain cases, errors, skipped metrics, one that is better when lower, and
conversations.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

CASES = [
    ("Capital of France?", "It is Paris.", "Paris"),
    ("Capital of Germany?", "Munich", "Berlin"),
    ("Capital of Norway?", "Oslo", "Oslo"),
]


def make(folder: Path) -> list[dict[str, Any]]:
    os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
    os.environ["DEEPEVAL_RESULTS_FOLDER"] = str(folder / "saved")
    os.environ["DEEPEVAL_DISABLE_PROGRESS_BAR"] = "1"
    from deepeval import evaluate
    from deepeval.evaluate.configs import AsyncConfig, DisplayConfig, ErrorConfig
    from deepeval.metrics import BaseConversationalMetric, BaseMetric, ExactMatchMetric
    from deepeval.test_case import ConversationalTestCase, LLMTestCase, Turn
    from deepeval.test_run import global_test_run_manager

    class Measured:
        """A metric that a function measures."""

        def __init__(self, name: str, function: Any, *, lower: bool = False) -> None:
            self.threshold, self.async_mode, self.name = 0.5, False, name
            self.function, self.lower = function, lower

        def measure(self, case: Any, *args: Any, **kwargs: Any) -> float:
            self.score = float(self.function(case))
            self.success = self.score <= 0.5 if self.lower else self.score >= 0.5
            self.reason = "as the function says"
            return self.score

        async def a_measure(self, case: Any, *args: Any, **kwargs: Any) -> float:
            return self.measure(case)

        def is_successful(self) -> bool:
            return bool(self.success)

        @property
        def __name__(self) -> str:
            return self.name

    class Local(Measured, BaseMetric):
        """Of a case."""

    class Polite(Measured, BaseConversationalMetric):
        """Of a conversation."""

    def fragile(case: Any) -> float:
        if "Norway" in case.input:
            raise RuntimeError("the metric broke")
        return 1.0

    plain = [
        LLMTestCase(input=asked, actual_output=answer, expected_output=town, completion_time=0.5)
        for asked, answer, town in CASES
    ]
    contains = Local("Contains", lambda case: case.expected_output in case.actual_output)
    shouting = Local("Shouting", lambda case: 0.1 if case.actual_output else 1, lower=True)
    made = []

    def run(name: str, what: str, cases: list[Any], *metrics: Any) -> None:
        global_test_run_manager.reset()
        result = evaluate(
            test_cases=cases,
            metrics=list(metrics),
            async_config=AsyncConfig(run_async=False),
            display_config=DisplayConfig(show_indicator=False, print_results=False),
            error_config=ErrorConfig(ignore_errors=True, skip_on_missing_params=True),
            hyperparameters={"model": "towns-1"},
        )
        (saved,) = (folder / "saved").glob("test_run_*.json")
        saved.rename(folder / name)
        results = result.test_results
        totals: dict[str, Any] = {
            "samples": len(results),
            "passed": sum(one.success is True for one in results),
        }
        scores: dict[str, list[float]] = {}
        for one in results:
            for metric in one.metrics_data or ():
                if metric.score is not None and metric.name != "Shouting":
                    scores.setdefault(metric.name, []).append(metric.score)
        totals |= {metric: sum(values) / len(values) for metric, values in scores.items()}
        made.append(
            {"version": version("deepeval"), "what": what, "files": [name], "totals": totals}
        )

    run("plain.json", "two metrics", plain, contains, ExactMatchMetric())
    run("errors.json", "a metric that fails", plain, contains, Local("Fragile", fragile))
    unsure = [*plain, LLMTestCase(input="Capital of Peru?", actual_output="Lima")]
    run("skipped.json", "a metric skipped", unsure, shouting, ExactMatchMetric())
    talks = [
        ConversationalTestCase(
            scenario=f"asks for the capital of {land}",
            turns=[Turn(role="user", content=f"{land}?"), Turn(role="assistant", content=answer)],
        )
        for land, answer in (("France", "Paris, please."), ("Peru", "No."))
    ]
    polite = Polite("Polite", lambda case: "please" in case.turns[-1].content)
    run("talks.json", "conversations", talks, polite)
    return made
