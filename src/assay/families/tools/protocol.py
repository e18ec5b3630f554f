"""The file protocol v1 between a deterministic program and an outside grader: prompts out, scores
in, a report out.

The sentences of the prompts and the instructions are constants of the protocol, so that
`prompts.json` is the same no matter who makes it. Nothing here asks a model: see `scorer`. Bands,
tier cap and veto are not part of the protocol: they come from the policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from assay import exact
from assay.canon import digest, time_of, time_text
from assay.errors import Fault, InputError, raise_faults
from assay.families.tools.answers import HIGHEST, LOWEST, MOOT, NA_REASONS, TRANSPORT_DIMENSIONS
from assay.families.tools.names import SKEW, is_schema_id, slug
from assay.families.tools.policy import SCORING_PROTOCOL
from assay.families.tools.source import ToolSchema
from assay.registry import near_miss

INSTRUCTIONS = (
    "Du bist ein Schema-Bewerter. Bewerte unabhaengig basierend nur auf den unten gelieferten"
    ' Informationen. Antworte als JSON-Array: [ { "dimension": "...", "score": <1.0-5.0>,'
    ' "reasoning": "..." }, ... ]. Keine externen Annahmen, keine Kontext-Vermutungen.'
)
WHEN_TO_USE = (
    "Rate the clarity and specificity of the following Schema description on a scale 1.0-5.0. "
)
PARAMETERS = (
    "Rate how well the parameter descriptions in the following schema enable an LLM to call the"
    " tools correctly on a scale 1.0-5.0. Schema: "
)


# --- prompts


def build_prompts(
    description: object, tools_text: str, *, when_to_use: str | None = None
) -> list[dict[str, str]]:
    """The two prompts, in their fixed order. The sentence about a skill is there only when
    there is one.

    >>> [prompt["dimension"] for prompt in build_prompts("Prices", "{}")]
    ['whenToUse', 'parameters']
    """
    skill = f'Skill whenToUse: "{when_to_use}" ' if when_to_use else ""
    described = description if isinstance(description, str) else ""
    return [
        {
            "dimension": "whenToUse",
            "prompt": f'{WHEN_TO_USE}{skill}Schema description: "{described}"',
        },
        {"dimension": "parameters", "prompt": f"{PARAMETERS}{tools_text}"},
    ]


def dimensions_of(schema: ToolSchema, *, when_to_use: str | None = None) -> tuple[str, ...]:
    """The dimensions that a schema is scored on: an MCP server without instructions has no text
    that says when to use it.
    """
    is_described = schema.kind != "mcp" or schema.main.get("description") or when_to_use
    return (
        TRANSPORT_DIMENSIONS
        if is_described
        else tuple(name for name in TRANSPORT_DIMENSIONS if name != MOOT)
    )


def prompts_document(schema: ToolSchema, *, when_to_use: str | None = None) -> dict[str, Any]:
    """`prompts.json` of a schema: the same for the same schema at the same path, no matter who
    makes it and when.
    """
    return {
        "schemaId": schema.schema_id,
        "schemaIdSlug": slug(schema.schema_id),
        "schemaPath": schema.path,
        "scoringProtocol": SCORING_PROTOCOL,
        "scoringInstructions": INSTRUCTIONS,
        "prompts": [
            prompt
            for prompt in build_prompts(
                schema.main.get("description"), schema.tools_text, when_to_use=when_to_use
            )
            if prompt["dimension"] in dimensions_of(schema, when_to_use=when_to_use)
        ],
    }


def prompts_digest(document: dict[str, Any]) -> str:
    """The digest of what a judge was asked; scores that carry it cannot be taken for those of other
    prompts.
    """
    return digest(
        [document["scoringInstructions"], [prompt["prompt"] for prompt in document["prompts"]]]
    )


def check_protocol(document: object, where: str = "") -> dict[str, Any]:
    """A document of protocol v1, or a refusal. A missing version is an unknown one: nothing is
    assumed.
    """
    if not isinstance(document, dict):
        raise InputError("PRO-002", "is not a JSON object.", where=where)
    version = document.get("scoringProtocol")
    if version != SCORING_PROTOCOL:
        problem = (
            "states no scoringProtocol"
            if version is None
            else f"is of the scoringProtocol {version!r}"
        )
        raise InputError(
            "PRO-001",
            f"{problem}; this version supports {SCORING_PROTOCOL!r}.",
            where=where,
            fix="Nothing was written. Make it again with this protocol.",
        )
    return document


def check_prompts(document: object, where: str = "") -> dict[str, Any]:
    """A `prompts.json` that can be scored, or every fault it has."""
    protocol = check_protocol(document, where)
    faults = []
    if not is_schema_id(protocol.get("schemaId")) or protocol.get("schemaIdSlug") != slug(
        protocol["schemaId"]
    ):
        faults.append(
            "schemaId must be <namespace>/<file-base>, and schemaIdSlug the same with '_'."
        )
    prompts = protocol["prompts"] if isinstance(protocol.get("prompts"), list) else []
    dimensions = [item.get("dimension") if isinstance(item, dict) else None for item in prompts]
    if dimensions not in (
        list(TRANSPORT_DIMENSIONS),
        [name for name in TRANSPORT_DIMENSIONS if name != MOOT],
    ):
        faults.append(
            f"prompts must contain one prompt for each of {', '.join(TRANSPORT_DIMENSIONS)}, in"
            " this order; a server without instructions has no first."
        )
    elif not all(isinstance(item.get("prompt"), str) and item["prompt"] for item in prompts):
        faults.append("each prompt must be a string.")
    if not isinstance(protocol.get("scoringInstructions"), str):
        faults.append("scoringInstructions must be a string.")
    raise_faults([Fault(text, code="PRO-002", file=where) for text in faults], where=where)
    return protocol


# --- scores


def score_faults(
    scores: object, dimensions: Sequence[str] = TRANSPORT_DIMENSIONS
) -> list[tuple[str, str, str]]:
    """What is wrong with the list of scores: (code, place, message). Scores name their dimensions,
    or follow the order of the prompts and name none.
    """
    if not isinstance(scores, list):
        return [("PRO-002", "scores", "must be a list.")]
    if not scores:
        return [("PRO-004", "scores", "is empty: there is nothing to grade.")]
    faults = []
    seen: dict[str, int] = {}
    in_order = _is_in_order(scores)
    if in_order and len(scores) != len(dimensions):
        count = f"{len(dimensions)} prompt{'s' if len(dimensions) > 1 else ''} ({', '.join(dimensions)})"  # noqa: E501
        faults.append(
            (
                "PRO-004",
                "scores",
                (
                    f"{len(scores)} without a dimension for {count}. Give one for each prompt in"
                    " its order, or name the dimensions."
                ),
            )
        )
    for index, item in enumerate(scores):
        where = f"scores[{index}]"
        if not isinstance(item, dict):
            faults.append(
                ("PRO-002", where, "must be an object with dimension, score and reasoning.")
            )
            continue
        dimension = item.get("dimension")
        if in_order:
            pass
        elif "dimension" not in item:
            faults.append(
                (
                    "PRO-004",
                    f"{where}.dimension",
                    (
                        "is missing, and other scores name theirs. Name all, or none in the order"
                        " of the prompts."
                    ),
                )
            )
        elif not isinstance(dimension, str) or dimension not in TRANSPORT_DIMENSIONS:
            faults.append(
                (
                    "PRO-004",
                    f"{where}.dimension",
                    (
                        f"{dimension!r} is not one of"
                        f" {', '.join(TRANSPORT_DIMENSIONS)}.{near_miss(str(dimension), TRANSPORT_DIMENSIONS)}"  # noqa: E501
                    ),
                )
            )
        elif dimension in seen:
            faults.append(
                (
                    "PRO-004",
                    f"{where}.dimension",
                    f"'{dimension}' was scored in scores[{seen[dimension]}] already.",
                )
            )
        else:
            seen[dimension] = index
        is_moot = (
            item.get("score") == "n/a"
            and dimension in TRANSPORT_DIMENSIONS
            and dimension not in dimensions
        )
        if not is_moot and (wrong := score_fault(item.get("score"))) is not None:
            faults.append(("PRO-003", f"{where}.score", wrong))
        if "reasoning" in item and not isinstance(item["reasoning"], str):
            faults.append(("PRO-002", f"{where}.reasoning", "must be a string."))
    return faults + [
        ("PRO-004", "scores", f"no score for '{name}'.")
        for name in dimensions
        if name not in seen and not in_order
    ]


def _is_in_order(scores: list[Any]) -> bool:
    return all(isinstance(item, dict) and "dimension" not in item for item in scores)


def _of_each_dimension(
    scores: list[dict[str, Any]], dimensions: Sequence[str]
) -> list[dict[str, Any]]:
    """Sound scores with their dimensions. One that does not apply counts for nothing, also if
    somebody scored it.
    """
    named = (
        [{"dimension": name, **item} for name, item in zip(dimensions, scores, strict=True)]
        if _is_in_order(scores)
        else scores
    )
    moot = [
        {
            "dimension": name,
            "score": "n/a",
            "naReason": NA_REASONS[0],
            "reasoning": "The server gives no instructions.",
        }
        for name in TRANSPORT_DIMENSIONS
        if name not in dimensions
    ]
    return moot + [item for item in named if item["dimension"] in dimensions]


def score_fault(score: object) -> str | None:
    """What is wrong with a score; None if nothing is."""
    try:
        value = exact.ratio(score)
    except ValueError as error:
        return f"must be a number from 1.0 to 5.0; {error}."
    return (
        None
        if LOWEST * value.den <= value.num <= HIGHEST * value.den
        else f"is {score}, outside 1.0 to 5.0; it is refused, not clamped."
    )


def check_scores(
    document: object,
    *,
    expected_slug: str,
    where: str = "",
    asked: str | None = None,
    dimensions: Sequence[str] = TRANSPORT_DIMENSIONS,
    emitted: datetime | None = None,
    now: datetime | None = None,
) -> dict[str, Any]:
    """A `scores.json` for that schema with the dimension of each score, or every fault it has. An
    unknown protocol is refused before anything else.

    `asked` is the digest of the schema's prompts as they are now; scores that state another are of
    another version of it. So are scores from before the prompts were `emitted`; scores from after
    `now` are of a wrong clock.
    """
    body = check_protocol(document, where)
    faults = []
    if asked is not None and body.get("promptsSha256", asked) != asked:
        faults.append(
            (
                "PRO-006",
                "promptsSha256",
                (
                    "these scores were given to other prompts: the schema has changed since. Score"
                    " the new prompts."
                ),
            )
        )
    if body.get("schemaIdSlug") != expected_slug:
        faults.append(
            (
                "PRO-005",
                "schemaIdSlug",
                (
                    f"is {body.get('schemaIdSlug')!r}; these scores are for another schema than"
                    f" '{expected_slug}'."
                ),
            )
        )
    for key in ("creator", "harness"):
        if not isinstance(body.get(key), dict) or not body[key]:
            faults.append(
                ("PRO-002", key, "must be an object that says who scored, and with what.")
            )
    scored = time_of(body.get("timestamp"))
    if scored is None:
        faults.append(
            (
                "PRO-002",
                "timestamp",
                f"{body.get('timestamp')!r} is not a time with a zone, as 2026-05-18T03:15:00Z.",
            )
        )
    elif emitted is not None and scored < emitted:
        text = (
            f"it was scored at {time_text(scored)}, before its prompts were written"
            f" ({time_text(emitted)}): earlier scores are not used again. Score the prompts."
        )
        faults.append(("PRO-006", "timestamp", text))
    elif now is not None and scored > now + SKEW:
        faults.append(
            (
                "FMC-013",
                "timestamp",
                (
                    f"it was scored at {time_text(scored)}, in the future (now:"
                    f" {time_text(now)}). Correct the clock, or pass --now."
                ),
            )
        )
    faults += score_faults(body.get("scores"), dimensions)
    if faults:
        listed = [
            Fault(message, code=code, file=where, path=path) for code, path, message in faults
        ]
        raise InputError(
            faults[0][0], faults[0][2], where=where, faults=listed, fix="Nothing was written."
        )
    return {**body, "scores": _of_each_dimension(body["scores"], dimensions)}
