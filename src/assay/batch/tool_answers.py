"""Answers about tools as one relational plan: the newest answer to each question, the weighted mean
from 1 to 5, the letter and its caps.

Scores and weights are whole millionths, so the mean is never rounded before it is compared: the sum
of the products is compared with the edge times the sum of the weights. The rules for answers, tiers
and vetoes come with the plan; nothing here knows a policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import to_builtins

from assay.canon import digest

UNIT = 1_000_000
"""Millionths make 1: the precision of scores, weights and edges."""
MAX_WEIGHT = 1_000
"""The heaviest answer."""
MAX_TOTAL = 1_000_000
"""The largest sum of the weights of a subject. The sum of its products then fits into 64 bits."""
STALE, NOT_APPLICABLE = 0, 1
"""What replaces the score of an answer that doesn't count."""


class ToolBatchPlan(NamedTuple):
    """A policy for tool schemas as the numbers that an engine compares."""

    policy: str
    letters: tuple[str, ...]
    """From best to worst."""
    edges: tuple[int, ...]
    """The mean from which each letter holds, in millionths."""
    worth: Mapping[str, int]
    """The words that count, in millionths."""
    stale: str
    excluded: tuple[str, ...]
    """The words that don't count, `stale` among them."""
    lowest: int
    highest: int
    """The limits of a score."""
    reasons: tuple[str, ...]
    """Why an answer may be left out; those that aren't stale need one."""
    caps: Mapping[str, str]
    """The best letter of each tier."""
    group_tier: str
    """The tier whose best letter needs an answer that is bound to a group."""
    group_from: str
    group_cap: str
    """The best letter there without such an answer."""
    unbound: tuple[str, ...]
    """The folded questions that are bound to no group."""
    judged: tuple[str, str]
    """The determinism of an answer that no judge gave, and of one that a judge gave."""
    judged_from: str
    passes_from: str
    triggers: tuple[str, ...]
    rejected: str
    scoring_system: str
    grading_system: str
    digests: Mapping[str, str]

    @property
    def digest(self) -> str:
        """The plan as one digest: equal plans give equal letters."""
        return digest(to_builtins(self._asdict()))
