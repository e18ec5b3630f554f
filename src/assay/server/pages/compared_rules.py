"""The rules that a page decides by: those of `assay gate` under the assay.yaml that the server was
started with, unless the form names another release policy.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from assay.errors import AssayError
from assay.release.policy import ReleaseRules, make_release_rules
from assay.server.graded_by import with_additions
from assay.server.state import Services, check_name
from assay.services.evaluation_choice import EvaluationChoice
from assay.services.stored_compare import ReleaseSide, choose_for

_BARS = {
    "tolerance": "tolerance {:g} points",
    "min_pass_rate": "minimum pass rate {:.10g}%",
    "confidence": "confidence {:.10g}%",
    "min_overlap": "minimum overlap {:.10g}%",
}


class PageRules(NamedTuple):
    """The rules of a decision."""

    rules: ReleaseRules
    policy: str
    """The policy as a command names it."""
    text: str
    """The policy, and every number of it that assay.yaml changes."""
    project: str = ""
    """The rules of assay.yaml, if these are different ones."""


def rules_for(services: Services, policy: str) -> PageRules:
    """The project's rules, or those of another policy if one is named."""
    own = services.settings.release
    project = _page_rules(services, own.policy)
    chosen = _page_rules(services, check_name(policy)) if policy else project
    if own.config is not None and chosen.rules.digest != project.rules.digest:
        return chosen._replace(project=project.text)
    is_set = own.policy != "release" or any(value is not None for value in own.bars)
    return chosen._replace(text=f"{chosen.text}, from {own.source}") if is_set else chosen


def _page_rules(services: Services, policy: str) -> PageRules:
    loaded = services.shelf.policy_of("release", policy)
    own = services.settings.release
    bars = (
        _BARS[name].format(value if name == "tolerance" else value * 100)
        for name, value in own.bars._asdict().items()
        if value is not None
    )
    rules = make_release_rules(loaded, own.bars)
    return PageRules(rules, policy, ", ".join([str(loaded.id), *bars]))


def choice_for(
    services: Services, candidate: ReleaseSide, baseline: ReleaseSide
) -> EvaluationChoice:
    """What both sides are graded by."""
    own = services.settings.release
    choice = choose_for(
        candidate, baseline, policy=services.settings.policy, configured=own.graded_by
    )
    return with_additions(services, choice)


def _graded_by(services: Services, candidate: ReleaseSide, baseline: ReleaseSide) -> list[str]:
    """The options for what both sides are graded by that a command without assay.yaml needs."""
    settings, own = services.settings, services.settings.release
    try:
        choice = choice_for(services, candidate, baseline)
    except AssayError:  # there is no decision in this case
        return []
    named = choice.own is None  # else a profile that is named would replace it
    has_policy = "policy" in own.graded_by or settings.policy != "workflow"
    return [
        *(["--profile", own.profile] if named and own.profile else []),
        *(["--rubric", own.rubric] if named and own.rubric else []),
        *(["--grading-policy", choice.policy] if has_policy else []),
    ]


def gate_command(
    services: Services, project: str, candidate: ReleaseSide, baseline: ReleaseSide, policy: str
) -> str:
    """The command that makes the same decision, wherever it is run, and stores it."""
    settings, own = services.settings, services.settings.release
    address = settings.db
    is_file = address.startswith("sqlite:") or "://" not in address
    # the address of another database may contain a password: it comes from $ASSAY_DB or the file
    kept = own.config is not None and (any(own.additions) or not is_file)
    bars = {name: value for name, value in own.bars._asdict().items() if value is not None}
    words = (
        *("assay", "gate", candidate.name, "--baseline", baseline.name),
        *("--release-policy", policy or own.policy),
        *(word for name in bars for word in (f"--{name.replace('_', '-')}", repr(bars[name]))),
        *(word for name in own.quarantine for word in ("--quarantine", name)),
        *(word for name in own.slices for word in ("--slice", name)),
        *_graded_by(services, candidate, baseline),
        *(word for card in settings.cards for word in ("--judge-card", card)),
        *(["--library", settings.library] if settings.library else []),
        *(["--project", project] if project != "default" else []),
        *(["--config", str(own.config)] if kept else ["--no-config"]),
        *("--store", *([address] if is_file else [])),
    )
    return shlex.join(words)
