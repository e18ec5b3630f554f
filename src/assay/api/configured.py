"""What an `assay.yaml` says about running and grading, as plain values."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from assay.errors import Fault, UsageError
from assay.files.json_files import Path
from assay.files.upwards import CONFIG_FILE, find_config
from assay.files.yaml_files import is_yaml_name
from assay.registry import is_path
from assay.running.config import Config, ReleaseBars, RunLimits, read_config
from assay.running.config_trust import (
    needs_trust,
    part_faults,
    reason,
    refuse_untrusted,
    rules,
    scorer_faults,
)
from assay.running.scorers import PlacedScorer, placed_scorers


class Configured(NamedTuple):
    """The defaults for running and grading, unless the caller names others."""

    workflow: str = ""
    dataset: str | None = None
    profile: str | None = None
    policy: str | None = None
    rubric: str | None = None
    library: str | None = None
    repeats: int | None = None
    limits: RunLimits = RunLimits()
    project: str | None = None
    scorers: tuple[PlacedScorer, ...] = ()
    release: ReleaseBars = ReleaseBars()
    quarantine: tuple[str, ...] = ()
    """Samples that the file excludes from decisions."""
    slices: tuple[str, ...] = ()
    """What the file has decisions sliced by."""
    cards: tuple[str, ...] = ()
    """Files with judge cards."""
    judge: str | None = None
    """The judge that the caller names."""


def configured(
    workflow: str | None, dataset: str | None = None, judge: str | None = None
) -> Configured:
    """The settings of the nearest `assay.yaml`, for the named workflow, dataset and judge; a
    workflow may also be an `assay.yaml` itself.
    """
    given = workflow if os.path.basename(workflow or "") == CONFIG_FILE else None
    path = given or find_config()
    if path is not None:
        return _read(path, None if given else workflow, dataset, judge, needs_workflow=True)
    if workflow is None or not is_path(workflow):
        raise UsageError(
            "CFG-001",
            "there is no assay.yaml here or above.",
            fix="Name a workflow's file, or run `assay init`.",
        )
    return Configured(workflow, dataset, judge=judge)


def nearest() -> Configured:
    """The settings of the nearest `assay.yaml` for callers that run nothing; empty without one."""
    path = find_config()
    return Configured() if path is None else _read(path, needs_workflow=False)


def _read(
    path: str,
    workflow: str | None = None,
    dataset: str | None = None,
    judge: str | None = None,
    *,
    needs_workflow: bool,
) -> Configured:
    return settings_of(read_config(path), workflow, dataset, judge, needs_workflow=needs_workflow)


def settings_of(
    config: Config,
    workflow: str | None = None,
    dataset: str | None = None,
    judge: str | None = None,
    *,
    needs_workflow: bool = False,
) -> Configured:
    """What an `assay.yaml` sets. A setting that needs trust is refused without it."""
    path = config.path
    chosen = config.find("workflow", workflow) if workflow else config.chosen("workflow") or ""
    if needs_workflow and not chosen:
        known = ", ".join(config.named("workflow")) or "none"
        raise UsageError(
            "CFG-001",
            f"the configuration doesn't choose a workflow; it has {known}.",
            where=path,
            fix="Add `workflow: NAME`.",
        )
    data = config.find("dataset", dataset) if dataset else config.chosen("dataset")
    faults = [*scorer_faults(config), *_outside(config)]
    if needs_workflow:  # a path that somebody typed needs no trust, a name does
        if workflow is None or workflow in config.named("workflow"):
            faults += part_faults(config, "workflow", chosen)
        if data is not None and (dataset is None or dataset in config.named("dataset")):
            faults += part_faults(config, "dataset", data)
    judging = judge and config.find("judge", judge)
    if judging and judge in config.named("judge"):
        faults += part_faults(config, "judge", judging)
    refuse_untrusted(config, faults)
    spec = config.spec
    return Configured(
        chosen,
        data,
        rules(config, "profile"),
        rules(config, "policy"),
        rules(config, "rubric"),
        None if spec.library is None else config.resolve(spec.library),
        spec.repeats,
        spec.limits,
        spec.project,
        tuple(
            placed_scorers(
                spec.scorers, spec.gates, folder=pathlib.Path(config.folder).resolve(), where=path
            )
        ),
        spec.release if spec.release.policy is None else _resolved(config, spec.release),
        _listed(spec.commands.get("gate", {}), "quarantine"),
        _listed(spec.commands.get("gate", {}), "slice"),
        tuple(map(config.resolve, spec.judge_cards)),
        judging,
    )


def _listed(options: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """An option that may be given several times."""
    value = options.get(name, [])
    return tuple(map(str, value if isinstance(value, list) else [value]))


def _outside(config: Config) -> Iterator[Fault]:
    """The files that the configuration names outside its folder."""
    spec = config.spec
    named: list[tuple[Path, str | None]] = [(("library",), spec.library)]
    named += [(("judge_cards", index), card) for index, card in enumerate(spec.judge_cards)]
    if is_path(policy := spec.release.policy or ""):
        named.append((("release", "policy"), policy))
    for key, path in named:
        if path is not None and (why := reason(config, "path", config.resolve(path))):
            yield needs_trust(config, key, why)


def _resolved(config: Config, release: ReleaseBars) -> ReleaseBars:
    """The same with the path of its policy from the working folder on."""
    name = str(release.policy)
    return replace(release, policy=config.resolve(name) if is_yaml_name(name) else name)
