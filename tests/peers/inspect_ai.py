"""inspect_ai with its scripted model: two scorers, epochs, errors, several values of one scorer, and a log that
ended in an error. As `.eval` with Zstandard entries, and as `.json`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CAPITALS = [("France", "Paris"), ("Spain", "Madrid"), ("Peru", "Lima"), ("Norway", "Oslo")]


def make(folder: Path) -> list[dict[str, Any]]:
    os.environ["INSPECT_LOG_DIR"] = str(folder)
    from inspect_ai import Epochs, Task, __version__
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, exact, includes, mean, scorer
    from inspect_ai.solver import generate, solver

    def dataset() -> MemoryDataset:
        samples = [
            Sample(id=land.lower(), input=f"What is the capital of {land}?", target=town)
            for land, town in CAPITALS
        ]
        return MemoryDataset(samples, name="capitals")

    @scorer(metrics={"length": [mean()], "capital": [mean()]})
    def shape():
        async def score(state, target):
            text = state.output.completion
            return Score(value={"length": len(text) / 100, "capital": text[:1].isupper()})

        return score

    @solver
    def stumble(lands: tuple[str, ...]):
        async def solve(state, generate):
            if state.sample_id in lands:
                raise RuntimeError("the tool is not there")
            return await generate(state)

        return solve

    def model(*answers: str):
        # with a usage, or the tool would ask the network how to count tokens
        usage = ModelUsage(input_tokens=9, output_tokens=3, total_tokens=12)
        outputs = [ModelOutput.from_content("mockllm/model", one) for one in answers]
        for output in outputs:
            output.usage = usage
        return get_model("mockllm/model", custom_outputs=outputs, memoize=False)

    quiet = {"display": "none", "log_dir": str(folder), "max_samples": 1, "log_model_api": False}
    answers = ("Paris", "It is Madrid.", "Quito", "Oslo")
    made = []

    def run(name: str, what: str, task: Task, *replies: str, **more: Any) -> None:
        before = set(folder.iterdir())
        (log,) = evaluate(task, model=model(*replies), **{**quiet, **more})
        (path,) = set(folder.iterdir()) - before
        file = f"{name}{path.suffix}"
        log = read_eval_log(str(path))
        path.unlink()
        for part in (log, *(log.samples or ())):
            if part.error is not None:  # the paths of this machine are nobody's business
                part.error.traceback = part.error.traceback_ansi = ""
        for sample in log.samples or ():
            sample.events = []
        write_eval_log(log, str(folder / file))
        totals: dict[str, Any] = {"samples": len(CAPITALS) * (log.eval.config.epochs or 1)}
        for score in log.results.scores if log.results else ():
            for key, metric in score.metrics.items():
                if key in ("accuracy", "mean") and score.reducer in (None, "mean"):
                    plain = score.name == score.scorer
                    totals[score.name if plain else f"{score.scorer}/{score.name}"] = metric.value
        made.append({"version": __version__, "what": what, "files": [file], "totals": totals})

    scored = {"dataset": dataset(), "solver": generate(), "scorer": [includes(), exact()]}
    run("two-scorers", ".eval, two scorers", Task(name="capitals", **scored), *answers)
    run("plain", ".json, two scorers", Task(name="capitals", **scored), *answers, log_format="json")
    values = {"dataset": dataset(), "solver": generate(), "scorer": shape()}
    run("values", ".eval, several values of a scorer", Task(name="shape", **values), *answers)
    twice = Task(name="epochs", epochs=Epochs(2, ["mean", "max"]), **scored)
    run("epochs", ".eval, two epochs", twice, *answers, "Paris", "Sevilla", "Lima", "Oslo")
    errors = {"dataset": dataset(), "solver": stumble(("peru",)), "scorer": includes()}
    run(
        "errors",
        ".eval, one sample failed",
        Task(name="errors", **errors),
        *answers,
        fail_on_error=False,
    )
    run(
        "stopped",
        ".eval, stopped by an error",
        Task(name="stopped", **errors),
        *answers,
        fail_on_error=True,
    )
    return made
