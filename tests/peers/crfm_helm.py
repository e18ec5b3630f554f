"""HELM's own runner, with its client for debugging, which answers with the last word of the prompt. Of four questions it
gets two right, and one more but for the case.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from helm.benchmark.adaptation.adapter_spec import ADAPT_GENERATION, AdapterSpec
from helm.benchmark.config_registry import register_builtin_configs_from_helm_package
from helm.benchmark.executor import ExecutionSpec
from helm.benchmark.metrics.common_metric_specs import get_exact_match_metric_specs
from helm.benchmark.run_spec import RunSpec
from helm.benchmark.runner import Runner
from helm.benchmark.scenarios.scenario import (
    CORRECT_TAG,
    TEST_SPLIT,
    Input,
    Instance,
    Output,
    Reference,
    Scenario,
    ScenarioSpec,
)
from helm.common.authentication import Authentication

WORDS = {"one two": "two", "red green": "green", "left right": "Right", "up down": "up"}
METRICS = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
FILES = ("run_spec.json", "scenario_state.json", "stats.json", "per_instance_stats.json")


class LastWord(Scenario):
    """Which word comes last?"""

    name = "last_word"
    description = "Name the last word"
    tags: list[str] = []

    def get_instances(self, output_path: str) -> list[Instance]:
        return [
            Instance(Input(text=text), [Reference(Output(text=word), [CORRECT_TAG])], TEST_SPLIT)
            for text, word in WORDS.items()
        ]


def make(folder: Path) -> list[dict[str, Any]]:
    register_builtin_configs_from_helm_package()
    name = "last_word:model=simple_model1"
    spec = RunSpec(
        name=name,
        scenario_spec=ScenarioSpec(f"{__name__}.{LastWord.__name__}"),
        adapter_spec=AdapterSpec(
            method=ADAPT_GENERATION,
            model="simple/model1",
            model_deployment="simple/model1",
            max_train_instances=0,
            output_prefix="",
            output_suffix="",
            input_suffix="",
        ),
        metric_specs=get_exact_match_metric_specs(),
        groups=[],
    )
    Runner(
        ExecutionSpec(None, Authentication(""), str(folder), parallelism=1),
        str(folder / "out"),
        "ours",
        skip_instances=False,
        cache_instances=False,
        cache_instances_only=False,
        skip_completed_runs=False,
        exit_on_error=True,
    ).run_all([spec])
    for file in FILES:
        (folder / "out" / "runs" / "ours" / name / file).rename(folder / file)
    stats = json.loads((folder / "stats.json").read_text())
    means = {stat["name"]["name"]: stat for stat in stats}
    totals = {"samples": len(WORDS)} | {metric: means[metric]["mean"] for metric in METRICS}
    return [
        {
            "version": version("crfm-helm"),
            "importer": "helm",
            "files": list(files),
            "totals": totals,
            "what": what,
        }
        for files, what in (
            (FILES, "all files of a run"),
            (("per_instance_stats.json",), "per_instance_stats.json"),
        )
    ]
