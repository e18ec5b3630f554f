"""Checks before anything runs: which criteria and gates nothing can fill, and whether the endpoints
answer.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from assay.errors import NotEnoughEvidence
from assay.judging.apis import needs_address
from assay.judging.config import JudgeSpec, key_of
from assay.running.assertions import CRITERION, GATE
from assay.running.runner import SampleWork
from assay.running.scorers import PlacedScorer
from assay.running.steps import steps_of
from assay.running.workflow import LoadedWorkflow
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric
from assay.scoring.sources import EvidenceSource, criterion_sources, without_source

CONNECT_S = 5.0
_LISTED = ("forbidden_tools", "handoff_rules")
_DECLARED = ("output_schema", *_LISTED)
_TESTED = ("tests", "patch_applies", "gates.no_sandbox_violation")


def sources_of(
    profile: Profile,
    workflow: LoadedWorkflow,
    work: Sequence[SampleWork],
    scorers: Sequence[PlacedScorer] = (),
    *,
    judge: bool,
    rubric: Rubric | None,
) -> list[EvidenceSource]:
    """Where each gate and criterion gets its evidence when this workflow runs on these samples."""
    absent = [name for name in _DECLARED if getattr(workflow.spec, name) is None]
    absent += _TESTED if workflow.spec.repository is None else ()
    absent += _not_expected(profile, work)
    filled = {name for scorer in scorers for name in (scorer.scorer.id, *scorer.scorer.gates)}
    if any(item.sample.assertions is not None for item in work):
        filled.add(GATE if workflow.spec.assertions == "gate" else CRITERION)
    sources = criterion_sources(profile, judge=judge, rubric=rubric, scorers=filled, absent=absent)
    due = workflow.required_outputs
    if not due or not _expected(work).isdisjoint(due):
        return sources
    lacks = f"it needs `expected.{due[0]}`, which the dataset doesn't have"
    one_output = {item.id for item in profile.criteria if item.measure_params.get("output")}
    return [
        source._replace(kind="nowhere", name="", lacks=lacks)
        if {"required_outputs", "expected"} <= set(source.reads) and source.id not in one_output
        else source
        for source in sources
    ]


def _not_expected(profile: Profile, work: Sequence[SampleWork]) -> Iterator[str]:
    """The expected values that the profile reads, and that no sample has."""
    there = _expected(work)
    for judge in (True, False):
        for source in criterion_sources(profile, judge=judge):
            for field in source.reads:
                head, _, name = field.partition(".")
                if head == "expected" and name and name.split(".")[0].rstrip("[]") not in there:
                    yield field


def _expected(work: Sequence[SampleWork]) -> set[str]:
    """The names of what any sample expects."""
    expected = (item.sample.expected for item in work)
    return {name for value in expected if isinstance(value, dict) for name in value}


def warnings_of(sources: Iterable[EvidenceSource], *, scored: bool) -> list[str]:
    """What nothing in this configuration can fill, one sentence each. `scored`: the workflow has
    scorers, and any criterion may be theirs.
    """
    open_ = [
        source
        for source in without_source(sources)
        if not (scored and source.of == "criterion" and not source.reads)
    ]
    warnings = [f"{source.sentence}." for source in open_]
    needed = {field for source in open_ for field in source.reads}
    if empty := [f"`{name}: []`" for name in _LISTED if name in needed]:
        warnings.append(f"If there are none, declare that in the workflow: {', '.join(empty)}.")
    if any(source.of == "gate" for source in open_):
        warnings.append("A gate without a source fails, so no run can pass.")
    elif open_:
        warnings.append("A criterion without a source counts as 0.")
    return warnings


def check_endpoints(workflow: LoadedWorkflow, judge: JudgeSpec | None) -> None:
    """Refuse to start where the judge has no key, an endpoint takes no connection, or a step after
    the run can't be done.
    """
    for step in steps_of(workflow):
        if missing := step.lacking():
            raise NotEnoughEvidence(
                "RUN-004", missing, where=workflow.where, fix="Nothing was run."
            )
    for url in _workflow_urls(workflow):
        if reason := unreachable(url):
            raise NotEnoughEvidence(
                "RUN-007",
                f"the workflow's endpoint {url} can't be reached: {reason}.",
                where=workflow.where,
                fix="Start it, or correct adapter.url. Nothing was run.",
            )
    if judge is None:
        return

    key_of(judge)
    if not needs_address(judge.api) or judge.proxy_from_environment:
        return
    if reason := unreachable(judge.base_url):
        raise NotEnoughEvidence(
            "JDG-003",
            f"the judge's endpoint {judge.base_url} can't be reached: {reason}.",
            where=judge.judge,
            fix="Start it, or run with --no-judge. Nothing was run.",
        )


def _workflow_urls(workflow: LoadedWorkflow) -> list[str]:
    adapters = workflow.spec.adapters.values()
    urls = [adapter.get("url") for adapter in adapters if adapter.get("kind") == "http"]
    return list(dict.fromkeys(url for url in urls if isinstance(url, str)))


def unreachable(url: str) -> str:
    """Why nothing listens at an address; empty if something does."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
    return ""
