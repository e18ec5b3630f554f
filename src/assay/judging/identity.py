"""Who a judge is, as given in the source of a score, in a calibration and on a card; and what
in its settings breaks the protocol.

A judge is a model with its version, prompt, rubric and settings. What is known about one judge says
nothing about another that shares only its name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from assay.canon import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assay.judging.config import JudgeSpec
    from assay.scoring.rubric import Rubric

_SNAPSHOT = re.compile(r"[-:@](\d{4}|\d{8}|\d{4}-\d{2}-\d{2})")


def rubric_name(rubric: Rubric) -> str:
    """A rubric by its name and content: an edited one is another."""
    return f"{rubric.id}+{digest(rubric).removeprefix('sha256:')[:12]}"


def definition_name(definition: str) -> str:
    """The question to a judge of pairs, by its content, instead of a rubric."""
    return f"definition+{digest(definition).removeprefix('sha256:')[:12]}"


def scorer_of(
    spec: JudgeSpec, *, prompt_version: str, rubric: str, answered: Mapping[str, int], **how: Any
) -> dict[str, Any]:
    """The source of the scores that a judge gave. `how` is what else decides its answers: samples,
    examples, references.
    """
    fixed = {
        name: value for name, value in spec.identity().items() if name not in ("model", "version")
    }
    return {
        "kind": "llm",
        "name": spec.model,
        "version": spec.version,
        "prompt_version": prompt_version,
        "rubric": rubric,
        "settings": digest({**fixed, **how}),
        "answered_by": answering(answered),
    }


def answering(models: Iterable[str]) -> str | None:
    """The model that answered, as the endpoint named it; several as one text, which no card of a
    single model fits.
    """
    return " and ".join(sorted(models)) or None


def is_same_model(asked: str, answered: str) -> bool:
    """Whether the model that answered is the one that was asked, or a dated snapshot of it.

    >>> (
    ...     is_same_model("gpt-4o", "gpt-4o-2024-08-06"),
    ...     is_same_model("gpt-4o", "gpt-4o-mini"),
    ...     is_same_model("openai/gpt-4o", "gpt-4o"),
    ... )
    (True, False, True)
    """
    short = asked.rpartition("/")[2]
    return any(
        answered == name
        or (answered.startswith(name) and _SNAPSHOT.fullmatch(answered[len(name) :]))
        for name in (asked, short)
    )


def others_answered(asked: str, answered: Mapping[str, int]) -> list[str]:
    """The models that answered instead of the requested one."""
    return sorted(name for name in answered if not is_same_model(asked, name))


def warnings_of(
    spec: JudgeSpec, *, left_out: Iterable[str], answered: Mapping[str, int]
) -> list[str]:
    """What in the settings and in the replies breaks the judge protocol: a low temperature, a
    strict shape of the reply, the model that was asked.
    """
    dropped = set(left_out)
    found = []
    if spec.temperature is None or "temperature" in dropped:
        found.append(
            "The request sets no temperature, so the endpoint's own applies: the same text may get"
            " another verdict."
        )
    elif spec.temperature > 0:
        found.append(
            f"The temperature is {spec.temperature:g}, above 0: the same text may get another"
            " verdict."
        )
    if spec.structured == "none" or "response_format" in dropped:
        found.append(
            "The request asks for no structured output: replies that cannot be read are more"
            " likely."
        )
    elif spec.structured == "json_object":
        found.append(
            "The request asks for JSON of any shape: replies that cannot be read are more likely."
        )
    total = sum(answered.values())
    for name in others_answered(spec.model, answered):
        found.append(
            f"{spec.model} was asked, and {name} answered {answered[name]:,} of {total:,} times:"
            " these verdicts may not gate."
        )
    return [f"{spec.judge}: {sentence}" for sentence in found]
