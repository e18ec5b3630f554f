"""`assay tools score`: the grader between the two deterministic stages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from assay import __version__
from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli.frame import Bounds, Command, Options, arg
from assay.errors import InputError, UsageError
from assay.files.atomic import write_file
from assay.files.json_files import read_json
from assay.files.yaml_files import is_yaml_name, read_entry
from assay.tools.ecma import document_bytes
from assay.tools.scorer import PromptJudge, command_judge, endpoint_judge, score_prompts


def _score(options: Options) -> int:
    judge, model = _judge(options)
    rules, now = inp.rules_of(options), inp.now_of(options)
    results: list[dict[str, Any]] = []
    unstable = 0
    for source, target in _jobs(options.prompts, options.output):
        scores = score_prompts(
            read_json(source, lone_surrogates=True).tree,
            judge,
            rules,
            now=now,
            repeat=options.repeat,
            model=model,
            harness_version=options.judge_version,
            program_version=__version__,
            where=source,
        )
        write_file(target, document_bytes(scores, where=source))
        results.append({"path": target, "scores": scores})
        for item in scores.get("repeats", ()):
            if not item["reproducible"]:
                unstable += 1
                opt.warn(
                    f"{scores['schemaIdSlug']} {item['dimension']}:"
                    f" {options.repeat} scores are {float(item['spread']):g} apart, more than"
                    f" {float(rules.reproducible_within):g}: {', '.join(map(str, item['scores']))}"
                )
    return opt.give(options, {"results": results, "unstable": unstable}, _lines(options, results))


def _lines(options: Options, results: list[dict[str, Any]]) -> Iterator[str]:
    for result in results:
        scores = result["scores"]
        shown = ", ".join(f"{item['dimension']} {item['score']}" for item in scores["scores"])
        yield f"{scores['schemaIdSlug']}  {shown}  {result['path']}"
    where = options.prompts if os.path.isdir(options.prompts) else results[0]["path"]
    path = opt.unless_configured(options, "tools grade", "mcp", "PATH")
    yield f"next: assay tools grade{path} --consume-scores {options.output or where}"


def _judge(options: Options) -> tuple[PromptJudge, str | None]:
    """The judge, and the model for the record."""
    if not is_yaml_name(options.judge):
        return command_judge(options.judge, timeout_s=options.timeout), options.model
    from assay.judging.config import load_judge

    spec = load_judge(read_entry(options.judge, "judge"))
    return endpoint_judge(spec), options.model or spec.model


def _jobs(prompts: str, output: str | None) -> list[tuple[str, str]]:
    if not os.path.isdir(prompts):
        if output and os.path.isdir(output):
            raise UsageError(
                "FIL-008", "is a directory.", where=output, fix="Name the file, as scores.json."
            )
        return [(prompts, output or os.path.join(os.path.dirname(prompts), "scores.json"))]
    jobs = [
        (
            os.path.join(prompts, name, "prompts.json"),
            os.path.join(output or prompts, name, "scores.json"),
        )
        for name in sorted(os.listdir(prompts))
    ]
    jobs = [job for job in jobs if os.path.isfile(job[0])]
    if not jobs:
        raise InputError(
            "FMC-008",
            "contains no <slug>/prompts.json.",
            where=prompts,
            fix="Write them with `assay tools grade PATH --emit-prompts`.",
        )
    return jobs


COMMANDS = {
    "tools score": Command(
        _score,
        "Score prompts with a judge: one isolated request for each prompt. A judge is a command"
        " that reads a prompt and writes JSON.",
        "assay tools score proofs/grade-work/openmeteo_air/prompts.json -o scores.json --judge"
        " './judge.sh'",
        (
            arg(
                "prompts",
                metavar="PROMPTS",
                help="a prompts.json, or a work folder with <slug>/prompts.json",
            ),
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="SCORES",
                help=(
                    "where to write scores.json; for a work folder, the folder to write to"
                    " (default: next to the prompts)"
                ),
            ),
            arg(
                "--judge",
                offers="files",
                kind="text",
                trust="trusted",
                metavar="J",
                required=True,
                help=(
                    'a command that reads a prompt on standard input and writes {"score": 1.0-5.0,'
                    ' "reasoning": ...}; or a judge\'s description (.yaml)'
                ),
            ),
            arg(
                "--model",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="the model behind the judge, for the record",
            ),
            arg(
                "--judge-version",
                kind="text",
                trust="freely",
                metavar="V",
                help="the version of the judge, for the record",
            ),
            arg(
                "--repeat",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=1,
                help=(
                    "ask N times; the first reply is the score, the others show how consistent it"
                    " is (default: 1)"
                ),
            ),
            arg(
                "--timeout",
                within=Bounds(above=0),
                metavar="S",
                type=float,
                default=120.0,
                help="seconds to wait for one reply (default: 120)",
            ),
            *inp.RULES,
            "--now",
        ),
    ),
}
