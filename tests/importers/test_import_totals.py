"""Files that the real tools wrote: recognised, and with the totals that the tool reports."""

from __future__ import annotations

import json

import pytest

from peer_files import RECORDED, imported, takers


@pytest.mark.parametrize("tool", ["bfcl_eval", "crfm_helm", "langfuse", "phoenix"])
def test_totals_of_recorded_files_are_those_of_the_tool(tool: str) -> None:
    for made in json.loads((RECORDED / tool / "made.json").read_text()):
        name = made.get("importer", tool)
        paths = [RECORDED / tool / file for file in made["files"]]
        assert [takers(path) for path in paths] == [[name]] * len(paths)
        runs, tally = imported(name, *paths)
        totals = dict(made["totals"])
        assert (totals.pop("samples"), totals.pop("passed", 0)) == (len(runs), tally.passed)
        for label, mean in totals.items():
            assert float(tally.metrics[label].mean) == pytest.approx(mean, abs=1e-12)


def test_helm_states_its_means_although_it_writes_worst_ones_too() -> None:
    folder = RECORDED / "crfm_helm"
    _, tally = imported("helm", *sorted(folder.glob("*s*_s*.json")), folder / "stats.json")
    assert tally.stated["exact_match"] == tally.metrics["exact_match"].mean


def test_langfuse_scores_belong_to_the_trace_of_their_subject() -> None:
    folder = RECORDED / "langfuse"
    runs, tally = imported("langfuse", folder / "observations.json", folder / "scores.json")
    assert [run["metadata"]["trace_id"] for run in runs] == ["trace-0", "trace-1", "trace-2"]
    assert tally.metrics["right"].judged
    assert tally.dropped["scores without a trace"] == 1, "the score of a session"
