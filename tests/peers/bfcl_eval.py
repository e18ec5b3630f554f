"""BFCL's own writers and checkers on functions of ours: calls that are right, that have a wrong value, and that are none; and
questions that no function fits.
"""

from __future__ import annotations

import json
import os
import sys
import types
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODEL = "acme-small-1-FC"
PARAMETERS = {
    "type": "dict",
    "properties": {name: {"type": "integer", "description": name} for name in ("a", "b")},
    "required": ["a", "b"],
}
QUESTIONS = (
    ("add", "Add 2 and 3.", {"a": 2, "b": 3}),
    ("multiply", "Multiply 4 by 5.", {"a": 4, "b": 5}),
    ("subtract", "Subtract 1 from 9.", {"a": 9, "b": 1}),
    ("divide", "Divide 8 by 2.", {"a": 8, "b": 2}),
)
CALLS: tuple[Any, ...] = (
    [{"add": '{"a": 2, "b": 3}'}],
    [{"multiply": '{"a": 4, "b": 6}'}],
    "I cannot subtract.",
    [{"divide": '{"a": 8, "b": 2}'}],
)
REFUSALS: tuple[Any, ...] = ("None of them fits.", [{"add": '{"a": 1, "b": 1}'}], "I can't.")


def make(folder: Path) -> list[dict[str, Any]]:
    os.environ["BFCL_PROJECT_ROOT"] = str(folder / "project")
    # BFCL's list of models imports the SDK of every vendor; ours has one model
    models: Any = types.ModuleType("bfcl_eval.constants.model_config")
    models.MODEL_CONFIG_MAPPING = {MODEL: types.SimpleNamespace(underscore_to_dot=True)}
    sys.modules[models.__name__] = models
    from bfcl_eval.eval_checker import eval_runner
    from bfcl_eval.model_handler.base_handler import BaseHandler

    class Handler(BaseHandler):
        def decode_ast(self, result: Any, language: Any, has_tool_call_tag: bool) -> Any:
            return [{name: json.loads(given) for name, given in call.items()} for call in result]

    handler = Handler(MODEL, 0, MODEL, is_fc_model=True)

    def answered(category: str, answers: tuple[Any, ...]) -> list[dict[str, Any]]:
        results = [
            {
                "id": f"{category}_{number}",
                "result": answer,
                "input_token_count": 40,
                "output_token_count": 9,
                "latency": 0.5,
            }
            for number, answer in enumerate(answers)
        ]
        handler.write(results, folder / "result")
        return results

    def asked(category: str) -> list[dict[str, Any]]:
        return [
            {
                "id": f"{category}_{number}",
                "question": [[{"role": "user", "content": question}]],
                "function": [{"name": name, "description": name, "parameters": PARAMETERS}],
            }
            for number, (name, question, _) in enumerate(QUESTIONS)
        ]

    truth = [
        {"ground_truth": [{name: {key: [value] for key, value in arguments.items()}}]}
        for name, _, arguments in QUESTIONS
    ]
    simple, irrelevance = "simple_python", "irrelevance"
    score = folder / "score"
    accuracies = {
        simple: eval_runner.ast_file_runner(
            handler, answered(simple, CALLS), asked(simple), truth, simple, MODEL, score
        ),
        irrelevance: eval_runner.relevance_file_runner(
            handler, answered(irrelevance, REFUSALS), asked(irrelevance), MODEL, irrelevance, score
        ),
    }
    for path in [*folder.glob("result/**/*.json"), *score.rglob("*.json")]:
        path.rename(folder / path.name)
    made = []
    for category, (accuracy, count) in accuracies.items():
        names = [f"BFCL_v4_{category}_{kind}.json" for kind in ("score", "result")]
        totals = {"samples": count, "passed": round(accuracy * count), "valid": accuracy}
        for files in (names, names[:1]):
            what = f"{category}, {'score and result' if len(files) == 2 else 'score'}"
            made.append(
                {
                    "version": version("bfcl-eval"),
                    "importer": "bfcl",
                    "files": files,
                    "totals": totals,
                    "what": what,
                }
            )
    return made
