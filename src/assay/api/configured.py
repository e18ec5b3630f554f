"""What an `assay.yaml` says about running and grading, as plain values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from assay.errors import UsageError
from assay.files.upwards import CONFIG_FILE, find_config
from assay.registry import is_path
from assay.running.config import RunLimits, read_config
from assay.running.config_code import refuse_outside_code
from assay.running.scorers import PlacedScorer, placed_scorers


class Configured(NamedTuple):
    """What is run and graded by, where the caller names nothing else."""

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


def configured(path: str | None) -> Configured:
    """What a configuration or a workflow's own file says; without one, the nearest `assay.yaml`."""
    found = path or find_config()
    if found is None:
        raise UsageError(
            "CFG-001",
            "there is no assay.yaml here or above.",
            fix="Name a workflow's file, or run `assay init`.",
        )
    if os.path.basename(found) != CONFIG_FILE:
        return Configured(found)
    return _read(found, needs_workflow=True)


def nearest() -> Configured:
    """What the nearest `assay.yaml` says, for those who run nothing; empty without one."""
    found = find_config()
    return Configured() if found is None else _read(found, needs_workflow=False)


def _read(found: str, *, needs_workflow: bool) -> Configured:
    config = read_config(found)
    workflow = config.chosen("workflow") or ""
    if needs_workflow and not workflow:
        known = ", ".join(config.named("workflow")) or "none"
        raise UsageError(
            "CFG-001",
            f"the configuration doesn't choose a workflow; it has {known}.",
            where=found,
            fix="Add `workflow: NAME`.",
        )
    spec = config.spec
    if needs_workflow:
        refuse_outside_code(config, workflow)

    def named(key: str) -> str | None:
        value = getattr(spec, key)
        if isinstance(value, dict):
            return f"{found}#{key}"
        return config.resolve(value) if value is not None and is_path(value) else value

    return Configured(
        workflow,
        config.chosen("dataset"),
        named("profile"),
        named("policy"),
        named("rubric"),
        None if spec.library is None else config.resolve(spec.library),
        spec.repeats,
        spec.limits,
        spec.project,
        tuple(
            placed_scorers(
                spec.scorers, spec.gates, folder=Path(config.folder).resolve(), where=found
            )
        ),
    )
