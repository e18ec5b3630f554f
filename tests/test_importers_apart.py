"""A file of one tool is never taken for another's."""

from __future__ import annotations

from assay.importers.known import KNOWN
from peer_files import RECORDED, SHARED, needs_shared, takers

NOT_RESULTS = {"made.json", "expected.json"}
OTHER_NAMES = {"lm_eval_new": "lm_eval", "otel": "otlp", "pydantic_evals": "pydantic-evals"}


def strangers(folder) -> dict[str, list[str]]:
    """The files that another importer than that of their folder takes, or none, or several."""
    found = {}
    for path in sorted(folder.rglob("*")):
        tool = path.relative_to(folder).parts[0]
        name = OTHER_NAMES.get(tool, tool)
        if path.is_file() and path.name not in NOT_RESULTS and name in KNOWN:
            names = takers(path)
            if names != [name]:
                found[str(path.relative_to(folder))] = names
    return found


def test_every_recorded_file_is_taken_by_the_importer_of_its_tool_alone() -> None:
    assert strangers(RECORDED) == {}


@needs_shared
def test_every_shared_file_is_taken_by_the_importer_of_its_tool_alone() -> None:
    assert strangers(SHARED) == {}
