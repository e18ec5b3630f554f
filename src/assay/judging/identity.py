"""The identity of a judge in the source of a score, in a calibration and on a card; and warnings
about its settings.

A judge is a model with its version, prompt, rubric and settings. A measurement of one judge says
nothing about another that only has the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from assay.canon import digest
from assay.judging.config import JudgeSpec
from assay.scoring.rubric import Rubric

_SNAPSHOT = re.compile(r"[-:@](\d{4}|\d{8}|\d{4}-\d{2}-\d{2})")


def rubric_name(rubric: Rubric) -> str:
    """A rubric by its name and content, so that an edited rubric is a different one."""
    return f"{rubric.id}+{digest(rubric).removeprefix('sha256:')[:12]}"


_DEFINITION = "definition+"


def definition_name(definition: str) -> str:
    """The question to a judge of pairs, by its content, instead of a rubric."""
    return f"{_DEFINITION}{digest(definition).removeprefix('sha256:')[:12]}"


def is_definition(rubric: str) -> bool:
    """Whether what a judge went by is the question to a judge of pairs, which has no criteria."""
    return rubric.startswith(_DEFINITION)


def prompt_name(
    version: str, *, with_reference: bool = False, examples: str | None = None, **_how: Any
) -> str:
    """The prompt of a judge: its version, and what each question shows besides the text. A decision
    compares this, and not the settings, because an endpoint may move.

    >>> prompt_name("rubric/1"), prompt_name("rubric/1", with_reference=True)
    ('rubric/1', 'rubric/1+reference')
    """
    reference = "+reference" if with_reference else ""
    shots = "" if examples is None else f"+examples {examples.removeprefix('sha256:')[:12]}"
    return f"{version}{reference}{shots}"


def scorer_of(
    spec: JudgeSpec, *, prompt_version: str, rubric: str, answered: Mapping[str, int], **how: Any
) -> dict[str, str | None]:
    """The source of the scores that a judge gave. `how` has what else decides its answers: samples,
    examples, references.
    """
    fixed = {
        name: value for name, value in spec.identity().items() if name not in ("model", "version")
    }
    return {
        "kind": "llm",
        "name": spec.model,
        "version": spec.whole_version,
        "prompt_version": prompt_name(prompt_version, **how),
        "rubric": rubric,
        "settings": digest({**fixed, **how}),
        "answered_by": answering(answered),
    }


def member_name(spec: JudgeSpec) -> str:
    """A member of a panel in the panel's name: its model, and its version if it states one."""
    return "@".join(part for part in (spec.model, spec.whole_version) if part)


def answering(models: Iterable[str]) -> str | None:
    """The model that answered, as the endpoint named it; several as one text, which no card of a
    single model fits.
    """
    return " and ".join(sorted(models)) or None


def is_same_model(wanted: str, answered: str) -> bool:
    """Whether the model that answered is the one that was asked, or a dated snapshot of it.

    >>> (
    ...     is_same_model("gpt-4o", "gpt-4o-2024-08-06"),
    ...     is_same_model("gpt-4o", "gpt-4o-mini"),
    ...     is_same_model("openai/gpt-4o", "gpt-4o"),
    ... )
    (True, False, True)
    """
    short = wanted.rpartition("/")[2]
    return any(
        answered == name
        or (answered.startswith(name) and _SNAPSHOT.fullmatch(answered[len(name) :]))
        for name in (wanted, short)
    )


def others_answered(wanted: str, answered: Mapping[str, int]) -> list[str]:
    """The models that answered instead of the requested one."""
    return sorted(name for name in answered if not is_same_model(wanted, name))


def warnings_of(
    spec: JudgeSpec, *, left_out: Iterable[str], answered: Mapping[str, int]
) -> list[str]:
    """Warnings where settings or replies break the judge protocol: temperature 0, a strict shape of
    the reply, and answers from the model that was asked.
    """
    dropped = set(left_out)
    warnings = []
    if spec.temperature is None or "temperature" in dropped:
        warnings.append(
            "The request sets no temperature, so the endpoint's own applies: the same text may get"
            " another verdict."
        )
    elif spec.temperature > 0:
        warnings.append(
            f"The temperature is {spec.temperature:g}, above 0: the same text may get another"
            " verdict."
        )
    if spec.structured == "none" or "response_format" in dropped:
        warnings.append(
            "The request asks for no structured output: replies that cannot be read are more"
            " likely."
        )
    elif spec.structured == "json_object":
        warnings.append(
            "The request asks for JSON of any shape: replies that cannot be read are more likely."
        )
    total = sum(answered.values())
    for name in others_answered(spec.model, answered):
        warnings.append(
            f"{spec.model} was asked, and {name} answered {answered[name]:,} of {total:,} times:"
            f" these verdicts may not gate. If that is its full name, ask for `model: {name}`."
        )
    return [f"{spec.judge}: {sentence}" for sentence in warnings]
