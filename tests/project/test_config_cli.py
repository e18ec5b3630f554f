"""`assay config`: every value with its source."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from assay.library import fingerprint
from assay.scoring.gates import REQUIRED

TEXT = """\
project: desk
repeats: 2
judges:
  main: {model: m, base_url: "https://h/v1", key_env: DESK_KEY}
library: lib
"""


def test_each_value_has_its_source(tmp_path: Path, assay: Any) -> None:
    (tmp_path / "assay.yaml").write_text(TEXT)
    done = assay("config", "run", "--limit", "3", "--json", env={"ASSAY_LIBRARY": "elsewhere"})
    assert done.code == 0, done.err
    found = {one["option"]: (one["value"], one["source"]) for one in done.json()["options"]}
    assert found["--repeat"] == (2, "assay.yaml:2")
    assert found["--limit"] == (3, "command line")
    assert found["--concurrency"] == (8, "default")
    assert found["--library"] == (None, "environment: ASSAY_LIBRARY")
    shown = assay("config", "run")
    assert "assay.yaml:2" in shown.out
    bare = assay("config", "--no-config", "gate").out
    assert bare.startswith("assay gate, with no assay.yaml")
    assert "assay.yaml:" not in bare
    assert re.search(r"--plan +false +default", bare)


@pytest.mark.parametrize(
    ("verb", "option", "line"),
    [
        ("report export --to inspect -o x.json", "profile", 6),
        ("judge passages", "judge", 3),
    ],
)
def test_an_export_and_a_judge_of_passages_use_the_file_as_their_siblings_do(
    tmp_path: Path, assay: Any, verb: str, option: str, line: int
) -> None:
    (tmp_path / "assay.yaml").write_text(f"{TEXT}profile: rag-measured\n")
    done = assay("config", *verb.split(), "--json")
    assert done.code == 0, done.err
    found = {one["option"]: one["source"] for one in done.json()["options"]}
    assert found[f"--{option}"] == f"assay.yaml:{line}"


def test_a_batch_is_graded_by_the_rules_of_the_file(tmp_path: Path, assay: Any) -> None:
    mine = """\
profile:
  profile: mine
  version: 1
  title: Mine
  family: f
  gates: []
  criteria: [{id: right, label: Right, weight: 1, layer: 1, formula: binary, role: correctness}]
policy: workflow-judged
release: {min_pass_rate: 0.5}
"""
    (tmp_path / "assay.yaml").write_text(mine)
    gates = "".join(f', "{name}": true' for name in REQUIRED)
    rows = [f'{{"run": "r{score}", "right": {score}{gates}}}\n' for score in (0, 1)]
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    done = assay("batch", "rows.jsonl", "-o", "g.parquet", "--json")
    assert done.code == 1, done.out + done.err
    assert '"least": 0.5' in done.out
    record = done.json()["record"]
    assert (record["profile"], record["policy"]) == ("mine@1", "workflow-judged@1")
    again = assay("batch", "g.parquet", "-o", "h.parquet", "--policy", "workflow", "--json")
    assert again.json()["record"]["profile"] == "mine@1"
    (tmp_path / "assay.yaml").write_text("profile: rag\n")
    other = assay("batch", "g.parquet", "-o", "i.parquet")
    assert "its norms are those of mine@1" in other.err, "a record doesn't overrule the project"
    tools = assay("batch", "rows.jsonl", "-o", "t.parquet", "--policy", "flowmcp")
    assert "--profile" not in tools.err


def test_the_file_as_a_whole(tmp_path: Path, assay: Any) -> None:
    missing = assay("config")
    assert (missing.code, "assay init" in missing.err) == (2, True)
    (tmp_path / "assay.yaml").write_text(TEXT)
    done = assay("config")
    assert done.code == 0
    assert "judge main: $DESK_KEY is NOT SET" in done.out
    assert "DESK_KEY is set" in assay("config", env={"DESK_KEY": "sk-very-secret"}).out
    assert "sk-very-secret" not in assay("config", "--json", env={"DESK_KEY": "sk-very-secret"}).out
    assert done.out.splitlines()[1].split() == ["project", "desk", "assay.yaml:1"]
    (tmp_path / "assay.yaml").write_text("projekt: x\n")
    refused = assay("config")
    assert refused.code == 3
    assert "line 1" in refused.err


WORKFLOW = """\
workflow: outside
version: 1
inputs: [question]
outputs: [answer]
output_schema: true
adapter: {kind: python, target: "bot:answer"}
"""
BOT = "def answer(inputs): return {'answer': 'Oslo'}\n"
PROFILE = """\
profile: plain
version: 1
title: Plain
family: plain
gates: []
criteria:
  - {id: right, label: Right, weight: 1, layer: 1, role: correctness, formula: ratio, measure: contains_expected}
"""


def test_a_run_uses_the_file_and_code_elsewhere_only_when_trusted(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    (tmp_path / "bot.py").write_text(BOT)
    home = tmp_path / "home"
    home.mkdir()
    (home / "d.jsonl").write_text('{"id": 1, "question": "?", "expected": {"answer": "Oslo"}}\n')
    (home / "plain.yaml").write_text(PROFILE)
    (home / "assay.yaml").write_text("workflow: ../w.yaml\ndataset: d.jsonl\nprofile: plain.yaml\n")
    given = ("--config", "home/assay.yaml", "--no-store")
    refused = assay("run", *given)
    assert refused.code == 3
    assert "line 1  workflow: 'w.yaml' is outside its folder" in refused.err
    assert assay("run", *given, "--trust").code == 0
    done = assay("run", "w.yaml", *given, "--work", "w")
    assert done.code == 0, "what the command line names needs no trust"
    assert "profile plain@1 from home/assay.yaml:3" in done.err
    assert '"profile":"plain@1"' in (tmp_path / "w" / "runs.jsonl").read_text()
    elsewhere = assay("grade", "w/runs.jsonl", "--no-config")
    assert (elsewhere.code, "no profile is named 'plain@1'" in elsewhere.err) == (3, True)
    assert assay("baseline", "set", "main", "w/runs.jsonl", *given[:2]).code == 0
    (home / "plain.yaml").write_text(PROFILE.replace("weight: 1", "weight: 2"))
    gate = ("gate", "w/runs.jsonl", "--baseline", "main", *given[:2])
    done = assay(*gate)
    assert (done.code, "by a changed profile plain@1 (" in done.err) == (3, True)
    again = re.findall("`assay ([^`]+)`", done.err)[-1]
    assert assay(*again.split()).code == 0, again
    assert assay(*gate).code == 4
    missing = assay("run", "--config", "nowhere.yaml")
    assert (missing.code, "nowhere.yaml" in missing.err) == (3, True)


def test_a_broken_file_is_not_in_the_way_of_repairing_it(
    tmp_path: Path, assay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint, "current", list)  # it takes a second
    (tmp_path / "assay.yaml").write_text("projekt: x\n")
    assert assay("schema-of", "config").code == 0
    assert assay("versions").code == 0
    assert assay("library", "list", "policies").code == 3
    assert assay("library", "list", "policies", "--no-config").code == 0


def test_a_verb_that_is_not_there_is_named(assay: Any) -> None:
    done = assay("config", "judge", "rubrik")
    assert done.code == 2
    assert "Verbs: judge rubric" in done.err
