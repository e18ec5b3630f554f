"""The rules that a page decides by: those of `assay gate` under the assay.yaml that the server was
started with, unless the form names another release policy.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from assay.archive.evaluation_choice import EvaluationChoice
from assay.archive.evaluation_deciding import ReleaseSide, choose_for
from assay.errors import AssayError
from assay.release.policy import ReleaseRules, make_release_rules
from assay.server.graded_by import with_additions
from assay.server.state import Services, check_name

_BARS = {
    "margin": "margin {:g} points",
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
    words = [str(loaded.id)]
    for name, value in own.bars._asdict().items():
        if value is not None:
            words.append(_BARS[name].format(value if name == "margin" else value * 100))
    return PageRules(make_release_rules(loaded, own.bars), policy, ", ".join(words))


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
    words = []
    if choice.own is None:  # a profile that is named would replace it
        words += ["--profile", own.profile] if own.profile else []
        words += ["--rubric", own.rubric] if own.rubric else []
    if "policy" in own.graded_by or settings.policy != "workflow":
        words += ["--grading-policy", choice.policy]
    return words


def gate_command(
    services: Services, project: str, candidate: ReleaseSide, baseline: ReleaseSide, policy: str
) -> str:
    """The command that makes the same decision, wherever it is run, and stores it."""
    settings, own = services.settings, services.settings.release
    words = ["assay", "gate", candidate.name, "--baseline", baseline.name]
    words += ["--release-policy", policy or own.policy]
    for name, value in own.bars._asdict().items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", repr(value)]
    words += _graded_by(services, candidate, baseline)
    words += [word for card in settings.cards for word in ("--judge-card", card)]
    words += ["--library", settings.library] if settings.library else []
    words += ["--project", project] if project != "default" else []
    address = settings.db
    is_file = address.startswith("sqlite:") or "://" not in address
    # the address of another database may contain a password: it comes from $ASSAY_DB or the file
    kept = own.config is not None and (own.only_command or any(own.additions) or not is_file)
    words += ["--config", str(own.config)] if kept else ["--no-config"]
    return shlex.join([*words, "--store", *([address] if is_file else [])])
