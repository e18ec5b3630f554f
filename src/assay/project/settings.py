"""What an `assay.yaml` says about running, grading and keeping, as plain values. `cli/configured`
reads the rest: the options of commands.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from assay.errors import Fault, UsageError
from assay.files.json_files import Path
from assay.files.upwards import CONFIG_FILE, find_config
from assay.files.yaml_files import is_yaml_name
from assay.project.config import Config, ReleaseBars, RunLimits, read_config
from assay.project.trust import (
    needs_trust,
    part_faults,
    reason,
    refuse_untrusted,
    rules,
    scorer_faults,
)
from assay.registry import is_path
from assay.running.post_run import required_profile, write_profile
from assay.running.scorers import PlacedScorer, placed_scorers

if TYPE_CHECKING:
    from assay.library.shelf import Shelf


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
        tuple(scorers_of(config)),
        spec.release if spec.release.policy is None else _resolved(config, spec.release),
        _listed(spec.commands.get("gate", {}), "quarantine"),
        _listed(spec.commands.get("gate", {}), "slice"),
        tuple(map(config.resolve, spec.judge_cards)),
        judging,
    )


def scorers_of(config: Config) -> list[PlacedScorer]:
    """The scorers and gates of a configuration."""
    folder, spec = pathlib.Path(config.folder).resolve(), config.spec
    return placed_scorers(spec.scorers, spec.gates, folder=folder, where=config.path)


def required_by(
    config: Config, profile: str | None, shelf: Shelf, *, scratch: str | None = None
) -> str | None:
    """A profile with what the scorers of `assay.yaml` add to it: what a team declares is required
    of every run, also of one that was made without it. It is written to the `.assay` folder of the
    configuration, or to `scratch`.
    """
    made = required_profile(
        shelf,
        profile or rules(config, "profile"),  # an import takes none from the file otherwise
        scorers_of(config),
        workflow=config.chosen("workflow"),
        where=config.path,
    )
    if made is None or isinstance(made, str):
        return made
    if scratch is not None:
        return write_profile(made, scratch)
    home = config.folder or os.curdir
    return write_profile(made, os.path.join(config.folder, ".assay"), root=home)


def ledger_url(config: Config) -> str | None:
    """The ledger that a configuration names."""
    url = config.spec.ledger.url
    if url is None:
        return None
    refuse_untrusted(config, ledger_faults(config))
    return placed_url(url, config)


def ledger_faults(config: Config) -> list[Fault]:
    """Why the ledger of a file needs trust, unless the environment names another."""
    url = config.spec.ledger.url
    if not url or os.environ.get("ASSAY_DB"):
        return []
    why = reason(config, "ledger", placed_url(url, config))
    return [needs_trust(config, ("ledger", "url"), why)] if why else []


def placed_url(url: str, config: Config) -> str:
    """The URL of a ledger; the file of SQLite goes from the configuration's folder."""
    scheme, separator, file = url.partition(":///")
    return f"{scheme}:///{config.resolve(file)}" if separator and scheme == "sqlite" else url


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
