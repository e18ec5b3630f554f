"""The grader between the two deterministic stages: one isolated request for each prompt, scores
out.

A judge is any command that reads a prompt on its standard input and writes JSON: an object or a
one-element list with `score`, and optionally `dimension` and `reasoning`. Each prompt gets a
separate process in its own empty folder: no history, no tools, no other prompt. If a judge gives no
valid score, everything stops: no score is filled in.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

from assay import exact
from assay.canon import time_text
from assay.errors import InputError
from assay.families.tools.answers import shown
from assay.families.tools.names import stamp
from assay.families.tools.policy import SCORING_PROTOCOL, SchemaRules
from assay.families.tools.protocol import check_prompts, prompts_digest, score_fault
from assay.files.json_files import parse_json
from assay.judging.client import Client, Errored, Journal
from assay.judging.config import JudgeSpec
from assay.judging.endpoints import Prompt
from assay.judging.replies import unfenced
from assay.sandbox.commands import NoAnswerError, ask_command, split_command

NOT_STATED = "not stated"
MAX_REPLY = 1024 * 1024


class PromptJudge(NamedTuple):
    """A judge of prompts: one call for each prompt, and no state between calls."""

    name: str
    ask: Callable[[str, str], bytes]
    """The reply to the instructions and one prompt."""


def command_judge(command: str, *, timeout_s: float) -> PromptJudge:
    """A judge that is a command, run once for each prompt in an empty folder."""
    words = [
        os.path.abspath(word) if (os.path.isfile(word) if place else os.sep in word) else word
        for place, word in enumerate(split_command(command, "the judge", "JSON"))
    ]  # files by their full paths; the command itself may be a name on PATH
    name = os.path.basename(words[0])

    def ask(instructions: str, prompt: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="assay-judge-") as folder:
            try:
                return ask_command(
                    words,
                    f"{instructions}\n\n{prompt}",
                    timeout_s=timeout_s,
                    max_reply=MAX_REPLY,
                    folder=folder,
                )
            except NoAnswerError as error:
                raise InputError(
                    "PRO-007",
                    f"the judge '{name}' gave no score: {error}.",
                    fix="Give it more time with --timeout, or fix the command.",
                ) from None

    return PromptJudge(name, ask)


def endpoint_judge(spec: JudgeSpec) -> PromptJudge:
    """A judge that is a model endpoint, as a judge's description names it. Each prompt is a request
    that has no history. Its client paces and retries; nothing is kept, so that repeats are separate
    draws.
    """

    async def reply_to(instructions: str, prompt: str) -> bytes:
        messages = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": prompt},
        ]
        async with Client(spec, Journal()) as client:
            try:
                reply, _ = await client.reply("prompt", SCORING_PROTOCOL, Prompt(messages))
            except Errored as error:
                raise InputError(
                    "PRO-007", f"the judge {spec.judge} did not answer: {error}."
                ) from None
        if reply.text is None:
            why = f": {reply.refusal}" if reply.refusal else ""
            raise InputError("PRO-007", f"the judge {spec.judge} gave no text{why}.")
        return unfenced(reply.text).encode("utf-8", "replace")

    return PromptJudge(
        spec.judge, lambda instructions, prompt: asyncio.run(reply_to(instructions, prompt))
    )


def read_reply(reply: bytes, dimension: str) -> dict[str, Any]:
    """The score in a judge's reply. Another dimension, no score, or one outside 1 to 5 is not a
    score of this prompt.
    """
    if len(reply) > MAX_REPLY:
        raise InputError(
            "PRO-007", f"{dimension}: the reply is longer than {MAX_REPLY // 2**20} MiB."
        )
    try:
        tree = parse_json(reply.strip() or b"null")
    except ValueError as error:
        raise InputError(
            "PRO-007",
            f"{dimension}: the reply is not JSON ({error}):"
            f" {reply[:120].decode('utf-8', 'replace')!r}.",
            fix="A judge writes JSON and nothing else.",
        ) from None
    item = tree[0] if isinstance(tree, list) and len(tree) == 1 else tree
    if not isinstance(item, dict) or "score" not in item:
        raise InputError(
            "PRO-007",
            f"{dimension}: the reply contains no score:"
            f" {reply[:120].decode('utf-8', 'replace')!r}.",
            fix='Write {"score": 4.0, "reasoning": "..."}.',
        )
    if item.get("dimension", dimension) != dimension:
        raise InputError("PRO-007", f"{dimension}: the reply scores {item['dimension']!r}.")
    reasoning = item.get("reasoning", "")
    if (wrong := score_fault(item["score"])) is not None:
        raise InputError("PRO-003", f"{dimension}: the score {wrong}")
    return {
        "dimension": dimension,
        "score": item["score"],
        "reasoning": reasoning if isinstance(reasoning, str) else str(reasoning),
    }


def score_prompts(
    prompts: dict[str, Any],
    judge: PromptJudge,
    rules: SchemaRules,
    *,
    now: datetime,
    repeat: int = 1,
    model: str | None = None,
    harness_version: str | None = None,
    program_version: str = "",
    where: str = "",
) -> dict[str, Any]:
    """`scores.json`: each prompt scored in its order. The first reply is the score; repeats only
    show how far it can be trusted.
    """
    document = check_prompts(prompts, where)
    scores, repeats = [], []
    for prompt in document["prompts"]:
        replies = [
            read_reply(
                judge.ask(document["scoringInstructions"], prompt["prompt"]), prompt["dimension"]
            )
            for _ in range(repeat)
        ]
        scores.append(replies[0])
        values = [Fraction(*exact.ratio(reply["score"])) for reply in replies]
        apart = max(values) - min(values)
        repeats.append(
            {
                "dimension": prompt["dimension"],
                "scores": [reply["score"] for reply in replies],
                "spread": shown(apart),
                "reproducible": apart <= rules.reproducible_within,
            }
        )
    made: dict[str, Any] = {
        "schemaIdSlug": document["schemaIdSlug"],
        "scoringProtocol": SCORING_PROTOCOL,
        "creator": {
            "skill": "assay tools score",
            "skillVersion": program_version or NOT_STATED,
            "session": f"assay-{stamp(now)}",
        },
        "harness": {
            "name": judge.name,
            "version": harness_version or NOT_STATED,
            "model": model or NOT_STATED,
            "modelContext": NOT_STATED,
        },
        "timestamp": time_text(now),
        "scores": scores,
        "promptsSha256": prompts_digest(document),
    }
    if repeat > 1:
        made["repeats"] = repeats
    return made
