"""The release rules that a server decides by: those of `assay gate` under the same assay.yaml."""

from __future__ import annotations

import os

from assay.archive.release_settings import ReleaseSettings
from assay.cli.configured import COMMAND_LINE
from assay.cli.frame import Options, load_command
from assay.cli.gate import rules_of
from assay.cli.grade import asked_profile
from assay.cli.run_profile import configured_scorers
from assay.files.yaml_files import is_yaml_name
from assay.release.policy import Bars
from assay.running.post_run import scorer_additions


def release_settings(options: Options) -> ReleaseSettings:
    """The release rules of the assay.yaml that the options come from. An error in them is reported
    at the start.
    """
    if options.config is None:
        return ReleaseSettings()
    words = ["--config", options.config.path, *(["--trust"] if options.config.trust else [])]
    gate = load_command("gate").parse("gate", words)
    gate.library = options.library
    rules_of(gate)
    scorers = configured_scorers(gate)
    has_base = gate.profile is not None or options.config.chosen("workflow") is not None
    extended = (
        asked_profile(gate, gate.profile) if any(scorer_additions(scorers)) and has_base else None
    )
    is_typed = options.sources.get("policy") == COMMAND_LINE  # it wins over the file
    return ReleaseSettings(
        config=os.path.abspath(options.config.path),
        policy=_absolute(gate.release_policy),
        bars=Bars(*(getattr(gate, name) for name in Bars._fields)),
        profile=None if gate.profile is None else _absolute(gate.profile),
        rubric=None if gate.rubric is None else _absolute(gate.rubric),
        grading_policy=_absolute(options.policy if is_typed else gate.grading_policy),
        scorers=tuple(scorer.scorer for scorer in scorers),
        extended=None if extended is None else _absolute(extended),
        quarantine=tuple(gate.quarantine),
        slices=tuple(gate.slice),
    )


def _absolute(name: str) -> str:
    """A name on the shelf as it is; a file from wherever a command is run."""
    if not is_yaml_name(name):
        return name
    file, separator, key = name.partition("#")
    return f"{os.path.abspath(file)}{separator}{key}"
