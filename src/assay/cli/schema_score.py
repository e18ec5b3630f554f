"""`assay tools score`: the grader between the two deterministic stages."""

from __future__ import annotations

import os
import sys
from typing import Any

from assay import __version__
from assay.cli import options as opt
from assay.cli import schema_input as inp
from assay.errors import ExitCode, InputError, UsageError
from assay.files.atomic import atomic_write
from assay.files.json_files import read_json
from assay.tools.documents import document_bytes


def run(action: str, argv: list[str]) -> int:
    """Score the prompts that the command line names."""
    return _score(argv)


def _score(argv: list[str]) -> int:
    made = opt.parser(
        "tools score",
        "Score prompts with a judge: one isolated request for each prompt. A judge is a command"
        " that reads a prompt and writes JSON.",
        "assay tools score proofs/grade-work/openmeteo_air/prompts.json -o scores.json --judge"
        " './judge.sh'",
    )
    made.add_argument(
        "prompts",
        metavar="PROMPTS",
        help="a prompts.json, or a work folder with <slug>/prompts.json",
    )
    made.add_argument(
        "-o",
        "--output",
        metavar="SCORES",
        help=(
            "where to write scores.json, or for a work folder the folder (default: beside the"
            " prompts)"
        ),
    )
    made.add_argument(
        "--judge",
        metavar="J",
        required=True,
        help=(
            'a command that reads a prompt on standard input and writes {"score": 1.0-5.0,'
            ' "reasoning": ...}; or a judge\'s description (.yaml)'
        ),
    )
    made.add_argument("--model", metavar="NAME", help="the model behind the judge, for the record")
    made.add_argument(
        "--judge-version", metavar="V", help="the version of the judge, for the record"
    )
    made.add_argument(
        "--repeat",
        metavar="N",
        type=int,
        default=1,
        help="ask N times; the first reply is the score, the others show how well it repeats",
    )
    made.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=120.0,
        help="seconds to wait for one reply (default: 120)",
    )
    inp.add_rules(made)
    inp.add_clock(made)
    options = made.parse_args(argv)
    if options.repeat < 1 or options.timeout <= 0:
        raise UsageError("CLI-001", "--repeat and --timeout must be positive.")
    from assay.tools.scorer import CommandJudge, EndpointJudge, Judge, score_prompts

    judge: Judge
    if options.judge.endswith((".yaml", ".yml")):
        from assay.files.yaml_files import read_yaml
        from assay.judging.config import load_judge

        spec = load_judge(read_yaml(options.judge))
        judge = EndpointJudge(spec)
        options.model = options.model or spec.model
    else:
        judge = CommandJudge(options.judge, timeout_s=options.timeout)
    rules, now = inp.rules_of(options), inp.now_of(options)
    results: list[dict[str, Any]] = []
    unstable = 0
    jobs = _jobs(options.prompts, options.output)
    for source, target in jobs:
        scored = score_prompts(
            read_json(source, lone_surrogates=True).tree,
            judge,
            rules,
            now=now,
            repeat=options.repeat,
            model=options.model,
            harness_version=options.judge_version,
            program_version=__version__,
            where=source,
        )
        with atomic_write(target) as stream:
            stream.write(document_bytes(scored.document))
        results.append({"path": target, "scores": scored.document})
        for item in scored.spreads:
            if item.warning:
                unstable += 1
                sys.stderr.write(
                    f"assay: warning: {scored.document['schemaIdSlug']} {item.dimension}:"
                    f" {options.repeat} scores lie {float(item.spread):g} apart, more than"
                    f" {float(rules.reproducible_within):g}: {', '.join(map(str, item.scores))}\n"
                )
    if options.json:
        opt.print_json({"results": results, "unstable": unstable})
    else:
        for result in results:
            shown = ", ".join(
                f"{item['dimension']} {item['score']}" for item in result["scores"]["scores"]
            )
            sys.stdout.write(f"{result['scores']['schemaIdSlug']}  {shown}  {result['path']}\n")
        given = options.output or (
            options.prompts if os.path.isdir(options.prompts) else results[0]["path"]
        )
        sys.stdout.write(f"next: assay tools grade PATH --consume-scores {given}\n")
    return ExitCode.PASSED


def _jobs(prompts: str, output: str | None) -> list[tuple[str, str]]:
    if not os.path.isdir(prompts):
        if output and os.path.isdir(output):
            raise UsageError(
                "FIL-008", "is a directory.", where=output, fix="Name the file, as scores.json."
            )
        return [(prompts, output or os.path.join(os.path.dirname(prompts), "scores.json"))]
    names = sorted(
        name
        for name in os.listdir(prompts)
        if os.path.isfile(os.path.join(prompts, name, "prompts.json"))
    )
    if not names:
        raise InputError(
            "FMC-008",
            "holds no <slug>/prompts.json.",
            where=prompts,
            fix="Write them with `assay tools grade PATH --emit-prompts`.",
        )
    return [
        (
            os.path.join(prompts, name, "prompts.json"),
            os.path.join(output or prompts, name, "scores.json"),
        )
        for name in names
    ]
