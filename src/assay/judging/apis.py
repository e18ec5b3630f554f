"""The ways to ask a judge, by the value of `api` in its description: an HTTP dialect, or a function
that gets the answer itself. See `endpoints.JudgeApi`.
"""

from __future__ import annotations

from typing import Any

from assay.registry import Registry


def needs_address(api: str) -> bool:
    """Whether a judge of this kind needs the URL of an endpoint."""
    judge_api = JUDGE_APIS.get(api)
    return judge_api is not None and judge_api.dialect is not None


JUDGE_APIS: Registry[Any] = Registry(
    "judge",
    homes={"assay.judging.endpoints:JUDGES": ("openai", "anthropic", "litellm")},
    group="assay.judges",
)
