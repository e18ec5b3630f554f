"""A file of one tool is never taken for another's, and a broken one never for a whole one."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, NotEnoughEvidence
from assay.importers.head import HEAD, Head
from assay.importers.known import KNOWN, fitting
from assay.services.importing import import_runs
from examples import within_cpu_seconds
from peer_files import RECORDED, SHARED, needs_shared, takers

NOT_RESULTS = {"made.json", "expected.json"}
OTHER_NAMES = {
    "bfcl_eval": "bfcl",
    "crfm_helm": "helm",
    "lm_eval_new": "lm_eval",
    "otel": "otlp",
    "pydantic_evals": "pydantic-evals",
}


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


FIRST = {
    OTHER_NAMES.get(path.parent.name, path.parent.name): path
    for path in sorted(RECORDED.glob("*/*"), reverse=True)
    if path.is_file() and path.name not in NOT_RESULTS
}
"""One recorded file of each tool."""


def refusal(path: Path, folder: Path, kind: str | None) -> str:
    """Why a file isn't imported; anything but a refusal in our words fails the test."""
    place = folder / "runs"
    place.mkdir(exist_ok=True)
    with pytest.raises(AssayError) as refused:
        import_runs([str(path)], str(place), kind=kind)
    for left in place.iterdir():  # a caller drops the folder with what was read before the fault
        left.unlink()
    return f"{refused.value.message} {refused.value.fix}"


@pytest.mark.parametrize("tool", sorted(FIRST))
@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_a_named_kind_reads_no_file_that_another_tool_wrote(
    tool: str, tmp_path: Path, kind: Any
) -> None:
    if kind not in (tool, "table"):
        refusal_text = refusal(FIRST[tool], tmp_path, kind)
        assert f"looks like {KNOWN[tool].title}, not {KNOWN[kind].title}" in refusal_text
        assert f"--from {tool}" in refusal_text


@pytest.mark.parametrize("kind", [None, *sorted(KNOWN)])
def test_packed_empty_and_utf_16_files_are_named_as_such(kind: str | None, tmp_path: Path) -> None:
    text = (RECORDED / "autoevals" / "scores.json").read_text()
    path = tmp_path / "scores.json"
    for data, message in (
        (gzip.compress(text.encode()), "gzip"),
        (text.encode("utf-16"), "UTF-16"),
        (text.encode("utf-16-be"), "UTF-16"),
        (b" \n", "the file is empty"),
        (b"[ ]\n", "the file is an empty list"),
    ):
        path.write_bytes(data)
        assert message in refusal(path, tmp_path, kind)
    if kind is None:
        with pytest.raises(NotEnoughEvidence, match="an empty list"):
            import_runs([str(path)], str(tmp_path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"id,score"), "gzip"),
        ("id,a\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_other_commands_name_packed_and_utf_16_files_too(
    tmp_path: Path, capsys, data: Any, message: str
) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(data)
    assert assay(["grade", str(path)]) == 3
    assert message in capsys.readouterr().err


def test_xml_may_be_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_bytes((FIRST["junit"]).read_text().replace("utf-8", "utf-16").encode("utf-16"))
    assert takers(path) == ["junit"]
    assert import_runs([str(path)], str(tmp_path)).n == 8


@pytest.mark.parametrize(
    "start",
    [
        b"[",
        b'{"a":',
        b'{"a":[',
        b'{"' + b"k" * 50_000 + b'":{"a":1,"b":2,',
        b'{"a":"' + b'\\"' * 1000,
        b'["\\',
        b'"a" ',
        b"{'a':",
        b"<!---->",
        b"<?x?><!-- --",
        b"evalId:" + b" " * 9,
    ],
    ids=range(11),
)
def test_a_hostile_head_is_known_or_not_at_once(start: bytes) -> None:
    repeated = start if len(start) < 10 else start[-6:]
    data = (start + repeated * HEAD)[:HEAD]

    def look() -> None:  # each took minutes, or gigabytes
        assert fitting(Head("results.json", data)) == []

    within_cpu_seconds(5, look)


def test_a_file_that_is_cut_off_says_so(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(FIRST["pydantic-evals"].read_bytes()[:40])
    assert "it is cut off" in refusal(path, tmp_path, None)
    path.write_bytes(FIRST["pydantic-evals"].read_bytes()[:-3])
    assert "it ends in the middle of a value" in refusal(path, tmp_path, None)
