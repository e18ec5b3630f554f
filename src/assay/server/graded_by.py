"""Applies a server's assay.yaml (profile, rubric, policy, scorers) to evidence and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from assay.canon import digest
from assay.errors import InputError, ShelfError
from assay.files.json_files import Document
from assay.records.evidence import Workflow
from assay.scoring.extension import extended
from assay.scoring.profile import load_profile
from assay.server.grading import BasedGrader
from assay.server.problems import Problem
from assay.server.state import Services, check_name
from assay.services.evaluation_choice import OWN, EvaluationChoice, covers

_KINDS = {"profile": "profiles", "rubric": "rubrics", "policy": "policies"}


def grader_of(
    services: Services, project: str, named: Mapping[str, str | None] = MappingProxyType({})
) -> BasedGrader:
    """The grader of evidence that arrives: by assay.yaml, else by what the request names, else by
    what each run names.
    """
    return services.grader(project, **_rules(services, named))


def _rules(services: Services, named: Mapping[str, str | None]) -> dict[str, Any]:
    rules = with_configured(services, named, policy="policy")
    own = services.settings.release
    # required of every run, even of one that was made without the scorers
    if own.scorers and any(own.additions):
        if own.extended is None:
            raise InputError(
                "CFG-001",
                "scorers are declared, but no profile to add them to.",
                where=own.source,
                fix="Add `profile:` to assay.yaml.",
            )
        rules["profile"] = own.extended
    return rules


def own_profile(services: Services) -> dict[str, Any]:
    """The profile of assay.yaml, as an evaluation keeps it to be replayed and compared, if no shelf
    has it: with what scorers add, or a file of the project.
    """
    own = services.settings.release
    if own.extended is not None:
        profile = services.shelf.load("profiles", own.extended)
        return {"own_profile": {"profile": profile, "rubric": own.rubric}}
    if own.profile is None:
        return {}
    shelf, profile = services.shelf, services.shelf.load("profiles", own.profile)
    on_it = any(entry.id == profile.id for entry in shelf.entries("profiles"))
    return {} if on_it else {"project_profile": profile}


def check_rules(accepted: Mapping[str, Any], rules: str) -> None:
    """Refuse to continue an execution under other rules than those it was accepted with."""
    if rules != accepted.get("rules", rules):
        raise InputError(
            "RUN-005",
            "the profile, rubric or policy is not the one that this execution was accepted with:"
            " its runs would be graded by two sets of rules.",
            fix="Ask for a new execution, or restore the rules.",
        )


def rules_digest(grader: BasedGrader, workflow: Workflow) -> str:
    """The profile, rubric and policy that grade the runs of a workflow, as one digest."""
    return digest({**grader.plan_for(workflow).plan.digests, "policy": grader.rules.digest})


def grader_by(
    services: Services, project: str, choice: EvaluationChoice, *, stored_cards: bool
) -> BasedGrader:
    """The grader of the sides of a comparison."""
    return services.grader(
        project,
        policy=choice.policy,
        profile=None if choice.own is not None else choice.profile,
        rubric=choice.rubric,
        own=choice.own,
        stored_cards=stored_cards,
    )


def with_configured(
    services: Services, named: Mapping[str, str | None], *, policy: str = "grading_policy"
) -> dict[str, Any]:
    """The rules that a request names, completed from assay.yaml. A request can't deviate from the
    file: it would set its own bar. `policy` is the field that names the policy.
    """
    own = services.settings.release
    given = {kind: name for kind, name in named.items() if name is not None}
    for kind, name in given.items():
        wanted = own.graded_by.get(kind)
        if kind == "policy" and own.config is not None:
            wanted = own.grading_policy  # the default if the file names none
        # a rubric replaces weights and floors of the profile
        fixed = wanted is not None or (kind == "rubric" and own.profile is not None)
        if not fixed or name == wanted:
            continue
        field = policy if kind == "policy" else kind
        if wanted is None:
            profile = services.shelf.load("profiles", str(own.profile)).id
            raise Problem(
                422,
                f"{own.source} sets the profile {profile!r} without a rubric.",
                where=field,
                fix=f"Leave `{field}` out.",
            )
        check_same(services, kind, name, wanted, field=field)
    return {**given, **own.graded_by}


def check_same(services: Services, what: str, name: str, wanted: str, *, field: str) -> None:
    """Refuse a name in a request that doesn't mean the rules of assay.yaml. Those may be a file or
    a part of assay.yaml: then the shelf doesn't have the name that results show.
    """
    kind = _KINDS[what.split()[-1]]
    own = services.shelf.load(kind, wanted)
    try:
        is_same = services.shelf.load(kind, check_name(name)) == own
    except ShelfError as error:
        is_same = name in (own.id, own.id.partition("@")[0])
        if error.code != "LIB-001" or not is_same:
            raise
    if not is_same:
        source = services.settings.release.source
        raise Problem(
            422,
            f"the {what} of {source} is {own.id!r}, not {name[:80]!r}.",
            where=field,
            fix=f"Leave `{field}` out.",
        )


def with_additions(services: Services, choice: EvaluationChoice) -> EvaluationChoice:
    """The choice with what the scorers of assay.yaml require of every run. Refuses a profile that
    evaluations bring with them if it requires less than the file's.
    """
    own = services.settings.release
    if choice.own is None and own.extended is not None:  # by this, evidence that arrives is graded
        return choice._replace(profile=own.extended)
    needs_profile = choice.own is not None and own.profile is not None
    if choice.made is not None or not (any(own.additions) or needs_profile):
        return choice
    profile = (
        load_profile(Document(dict(choice.own), OWN))
        if choice.own is not None
        else None
        if choice.profile is None
        else services.shelf.profile(choice.profile)
    )
    if profile is not None and needs_profile and own.profile is not None:
        wanted = extended(services.shelf.profile(own.profile), own.additions)
        # another criterion with a weight would dilute those of the file
        if not covers(profile, wanted) or len(profile.criteria) > len(wanted.criteria):
            raise InputError(
                "REL-002",
                f"these evaluations bring the profile {profile.id}, which doesn't have the gates,"
                f" criteria and terms for judges of {wanted.id}, the profile of {own.source}.",
                fix=f"Declare scorers that have a weight in {own.source}, not in a workflow file,"
                " and run both versions again with `assay run`.",
            )
    if profile is None or extended(profile, own.additions) != profile:
        raise InputError(
            "REL-002",
            f"{own.source} declares scorers or gates that these evaluations were made without.",
            fix="Run both versions again with `assay run`.",
        )
    return choice
