"""Attacks on the grading tree through the real command: many at once, kill -9, clocks, edited
files, links, hostile input.
"""

from __future__ import annotations

import ctypes
import json
import random
import resource
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from assay.families.tools.validation import in_braces
from assay.files.line_log import line_of
from commands import Running
from examples import repeats, within_cpu_seconds
from test_tools_cli import (
    HIVE,
    IMPORTED,
    LATER,
    PERSONA,
    RECORDED,
    VETO,
    WEIGHT,
    envelope,
    grow,
    home,
    record,
    rule,
    status,
    swarm,
    whole,
)
from test_tools_protocol import (
    ABOUT_BEES,
    Run,
    consume,
    listing,
    put,
    schema,
    scores,
    tool,
    words,
)

AFTER = "2026-05-18T05:00:00Z"


def start(folder: Path, *arguments: object) -> Running:
    return Running("tools", *arguments, cwd=folder)


def gradings(tmp_path: Path) -> Path:
    return home(tmp_path, "scales", "tools", "getWeight", "_gradings")


def node(assay: Run) -> dict[str, Any]:
    found: dict[str, Any] = status(assay)["schemas"]["scales"]["tools"]["getWeight"]
    return found


def assert_whole(tree: Path, assay: Run) -> None:
    """Every document of a tree parses, and its indexes say what a fresh rebuild says."""
    for path in tree.rglob("*.json"):
        json.loads(path.read_bytes())
    held = {path: path.read_bytes() for path in tree.rglob("index.json")}
    assert assay("tools", "index").code == 0
    assert {path: path.read_bytes() for path in tree.rglob("index.json")} == held


# --- many at once


AT_ONCE = repeats(6, 20)


@pytest.mark.req("F-092", "F-097", "F-145")
def test_processes_recording_at_once_into_one_node_lose_nothing(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    started = []
    for number in range(AT_ONCE):
        file = put(tmp_path / f"e{number}.json", envelope("single-test", 4, question=f"Q-{number}"))
        started.append(start(tmp_path, "record", file, *WEIGHT, "--now", RECORDED, "--json"))
    written = [json.loads(process.communicate()[0]) for process in started]
    assert len({item["path"] for item in written}) == AT_ONCE
    for item in written:
        assert json.loads(Path(item["path"]).read_bytes()) == item["entry"]
    entries = [json.loads(path.read_bytes()) for path in gradings(tmp_path).iterdir()]
    assert sorted(entry["gradings"][0]["questionId"] for entry in entries) == sorted(
        f"Q-{number}" for number in range(AT_ONCE)
    )
    assert len({entry["gradingId"] for entry in entries}) == AT_ONCE
    assert_whole(tmp_path / "grading-data", assay)


def test_processes_importing_and_consuming_side_by_side_leave_one_sound_tree(
    assay: Run, tmp_path: Path
) -> None:
    for name in ("scales", "frames", "drones"):
        put(tmp_path / f"{name}.json", schema(name=name))
        put(tmp_path / f"{name}-s.json", scores(f"beewatch_{name}"))
    started = [start(tmp_path, "import", f"{name}.json") for name in ("scales", "frames", "drones")]
    started += [
        start(
            tmp_path,
            "grade",
            f"{name}.json",
            "--consume-scores",
            f"{name}-s.json",
            "--data",
            "grading-data",
        )
        for name in ("scales", "frames", "drones")
    ]
    for process in started:
        process.communicate()
    assert [process.returncode for process in started] == [0] * 6
    assert set(status(assay)["schemas"]) == {"scales", "frames", "drones"}
    assert_whole(tmp_path / "grading-data", assay)


# --- kill -9


@pytest.mark.req("F-095", "F-145")
def test_kill_nine_at_any_moment_leaves_a_tree_that_can_be_used(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    put(tmp_path / "e.json", envelope("single-test"))
    put(tmp_path / "s.json", scores())
    chance = random.Random(7)
    written: list[str] = []
    for number in range(repeats(15, 60)):
        moment = f"2026-05-18T06:{number:02}:00Z"
        if number % 3 == 0:
            put(
                tmp_path / "scales.json",
                schema(description=f"Weights of beehives on city roofs, edition {number}."),
            )
            process = start(tmp_path, "import", "scales.json", "--now", moment, "--json")
        elif number % 3 == 1:
            process = start(tmp_path, "record", "e.json", *WEIGHT, "--now", moment, "--json")
        else:
            process = start(
                tmp_path,
                "grade",
                "scales.json",
                "--consume-scores",
                "s.json",
                "--data",
                "grading-data",
                "--now",
                moment,
                "--json",
            )
        time.sleep(chance.uniform(0, 0.2))
        out = process.end_at_once()
        if process.returncode == 0:
            said = json.loads(out)
            written += (
                [said["path"]]
                if "path" in said
                else [
                    item.get("entry") or item["path"]
                    for item in said.get("reports", said.get("imported", []))
                ]
            )
    for path in tmp_path.joinpath("grading-data").rglob("*"):
        if path.suffix == ".json":
            json.loads(path.read_bytes())
        elif path.name == "_record.jsonl":  # only the last line may be torn
            for line in path.read_bytes().split(b"\n")[:-1]:
                json.loads(line)
        else:
            assert path.is_dir() or path.name == ".lock" or path.suffix == ".part", path
    for path in written:
        assert (tmp_path / path).is_file()
    for path in tmp_path.joinpath("proofs").rglob("*.json"):
        json.loads(path.read_bytes())
    assert assay("tools", "index").code == 0
    assert_whole(tmp_path / "grading-data", assay)
    result = assay("tools", "record", "e.json", *WEIGHT, "--now", "2026-05-18T07:00:00Z")
    assert result.code == 0, words(result)
    assert assay("tools", "import", "scales.json", "--now", "2026-05-18T07:00:00Z").code == 0


@pytest.mark.req("F-095")
def test_part_files_that_a_kill_left_behind_are_read_by_nobody(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    before = status(assay)
    put(
        gradings(tmp_path) / ".single-test--2026-05-18T09-00-00Z.json.0123456789abcdef.part",
        '{"half',
    )
    put(
        home(tmp_path, "scales")
        / ".scales--2026-05-18T09-00-00Z--deadbeef.json.0123456789abcdef.part",
        '{"half',
    )
    put(home(tmp_path) / ".index.json.0123456789abcdef.part", '{"half')
    assert status(assay) == before
    assert assay("tools", "gate", "beewatch").code == 0
    assert record(assay, tmp_path, envelope("single-test"), *WEIGHT, now=LATER).code == 0
    assert assay("tools", "export", "beewatch", "-o", "out").code == 0
    assert not list((tmp_path / "out").rglob("*.part"))


# --- clocks


@pytest.mark.req("F-081")
def test_an_entry_older_than_the_newest_is_refused(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    before = listing(tmp_path / "grading-data")
    result = record(
        assay, tmp_path, envelope("single-test", 5), *WEIGHT, now="2026-05-18T03:28:00Z"
    )
    assert (result.code, "[FMC-013]" in result.err, "--now" in result.err) == (3, True, True)
    assert listing(tmp_path / "grading-data") == before
    near = record(assay, tmp_path, envelope("single-test", 2), *WEIGHT, now="2026-05-18T03:29:30Z")
    assert near.code == 0, words(near)
    assert node(assay)["status"] == "graded", (
        "the entry that was written last decides, also when the clock slipped by seconds"
    )


@pytest.mark.req("F-092")
def test_a_second_that_is_full_is_refused_not_overwritten(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    put(
        gradings(tmp_path) / "single-test--2026-05-18T03-31-01Z.json",
        next(gradings(tmp_path).iterdir()).read_text(),
    )
    before = listing(gradings(tmp_path))
    assert record(assay, tmp_path, envelope("single-test", 5), *WEIGHT).code == 3
    assert listing(gradings(tmp_path)) == before


@pytest.mark.req("F-090")
def test_a_version_imported_with_an_earlier_clock_is_refused_or_becomes_the_live_one(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    put(
        tmp_path / "scales.json",
        schema(description="Weights, temperatures and humidity of beehives on city roofs."),
    )
    result = assay("tools", "import", "scales.json", "--now", "2026-05-17T03:00:00Z", "--json")
    if result.code != 3:
        assert (
            status(assay)["schemas"]["scales"]["snapshot"]["file"]
            in result.json()["imported"][0]["path"]
        )


@pytest.mark.req("F-090", "F-092")
def test_a_version_imported_in_the_same_second_becomes_the_live_one(
    assay: Run, tmp_path: Path
) -> None:
    for number in range(6):
        put(
            tmp_path / "scales.json",
            schema(description=f"Weights of beehives on city roofs, edition {number}."),
        )
        made = assay("tools", "import", "scales.json", "--now", IMPORTED, "--json").json()[
            "imported"
        ][0]["path"]
        assert status(assay)["schemas"]["scales"]["snapshot"]["file"] == Path(made).name


@pytest.mark.parametrize(
    "now", ["0001-01-01T00:00:00+05:00", "0999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
)
def test_a_clock_beyond_the_calendar_is_a_misuse_or_works(
    assay: Run, tmp_path: Path, now: str
) -> None:
    put(tmp_path / "scales.json", schema())
    first = assay("tools", "import", "scales.json", "--now", now)
    words(first)
    if first.code == 0:
        for _ in range(2):
            result = record(assay, tmp_path, envelope("single-test"), *WEIGHT, now=now)
            assert result.code in (0, 2) or "[FMC-01" in result.err, words(result)
    else:
        assert first.code == 2


# --- hand-edited entries


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))


@pytest.mark.req("F-036", "F-050", "F-107")
@pytest.mark.parametrize(
    "how",
    [
        "grade raised",
        "veto removed",
        "veto and grade removed by halves",
        "id changed",
        "truncated",
        "key twice",
        "emptied",
        "a list",
        "a link",
    ],
)
def test_an_entry_that_was_tampered_with_blocks_its_node(
    assay: Run, tmp_path: Path, how: str
) -> None:
    grow(assay, tmp_path, grade=2)
    path = next(gradings(tmp_path).iterdir())
    if how == "grade raised":
        edit(path, aggregateGrade="B")
    elif how in ("veto removed", "veto and grade removed by halves"):
        record(
            assay, tmp_path, envelope("single-test", 2, categoricalVeto=VETO), *WEIGHT, now=LATER
        )
        path = sorted(gradings(tmp_path).iterdir())[-1]
        edit(path, categoricalVeto=None, **({"aggregateGrade": "B"} if "halves" in how else {}))
    elif how == "id changed":
        edit(path, gradingId="deadbeef--2026-05-18T03-30-00Z")
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:-30])
    elif how == "key twice":
        path.write_text(path.read_text().rstrip().removesuffix("}") + ', "aggregateGrade": "B"}')
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "a list":
        path.write_text(f"[{path.read_text()}]")
    else:
        path.rename(tmp_path / "moved.json")
        path.symlink_to(tmp_path / "moved.json")
    found = node(assay)
    assert found["status"] == "blocked"
    assert path.name in found["reason"]
    assert "grade" not in found
    assert any(path.name in blocker["reason"] for blocker in status(assay)["blockers"])
    assert assay("tools", "gate", "beewatch.scales").code == 1
    assert assay("tools", "index").code == 0


@pytest.mark.req("F-050")
def test_deleting_a_veto_that_a_later_entry_names_blocks_the_node(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    record(assay, tmp_path, envelope("single-test", 5, categoricalVeto=VETO), *WEIGHT, now=LATER)
    record(
        assay, tmp_path, envelope("single-test", 4), *WEIGHT, "--trigger", "scheduled", now=AFTER
    )
    assert node(assay)["status"] == "stable"
    (gradings(tmp_path) / "single-test--2026-05-18T04-00-00Z.json").unlink()
    found = node(assay)
    assert found["status"] == "blocked"
    assert "which is gone" in found["reason"]


@pytest.mark.req("F-050")
def test_a_good_entry_slipped_in_after_a_veto_does_not_lift_it(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    good = next(gradings(tmp_path).iterdir()).read_text()
    record(assay, tmp_path, envelope("single-test", 5, categoricalVeto=VETO), *WEIGHT, now=LATER)
    put(
        gradings(tmp_path) / "single-test--2026-05-18T05-00-00Z.json",
        good.replace("T03-30-00Z", "T05-00-00Z"),
    )
    assert node(assay)["status"] == "rejected"
    assert assay("tools", "gate", "beewatch").code == 1


@pytest.mark.req("F-091")
@pytest.mark.parametrize("where", ["another tool", "another area"])
def test_an_entry_in_the_wrong_place_never_makes_a_node_stable(
    assay: Run, tmp_path: Path, where: str
) -> None:
    put(
        tmp_path / "scales.json",
        schema(tools={"getWeight": tool(), "getHeat": tool(path="/v1/heat")}),
    )
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    record(assay, tmp_path, envelope("single-test"), *WEIGHT)
    mine = next(gradings(tmp_path).iterdir())
    if where == "another tool":
        put(home(tmp_path, "scales", "tools", "getHeat", "_gradings") / mine.name, mine.read_text())
        found = status(assay)["schemas"]["scales"]["tools"]["getHeat"]
    else:
        put(
            home(tmp_path, "scales", "_gradings")
            / mine.name.replace("single-test", "tools-aggregate-schema"),
            mine.read_text(),
        )
        found = status(assay)["schemas"]["scales"]["toolsAggregate"]
    assert found["status"] == "blocked"


@pytest.mark.req("F-081")
@pytest.mark.parametrize("moved", ["2026-05-18T05-00-00Z", "2026-05-18T02-00-00Z"])
def test_renaming_an_entry_makes_it_neither_newer_nor_older(
    assay: Run, tmp_path: Path, moved: str
) -> None:
    grow(assay, tmp_path, grade=4)
    record(assay, tmp_path, envelope("single-test", 1), *WEIGHT, now=LATER)
    assert node(assay)["status"] == "graded"
    old, new = (
        gradings(tmp_path) / f"single-test--2026-05-18T{time}-00Z.json"
        for time in ("03-30", "04-00")
    )
    (old if moved > old.name[13:] else new).rename(
        gradings(tmp_path) / f"single-test--{moved}.json"
    )
    assert node(assay)["status"] == "graded"


def test_an_entry_from_the_future_does_not_open_the_gate(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    good = next(gradings(tmp_path).iterdir()).read_text()
    record(assay, tmp_path, envelope("single-test", 1), *WEIGHT, now=LATER)
    put(
        gradings(tmp_path) / "single-test--9998-05-18T05-00-00Z.json",
        good.replace("2026-05-18T03-30-00Z", "9998-05-18T05-00-00Z"),
    )
    result = assay("tools", "gate", "beewatch")
    assert (result.code, "FMC-013" in result.err) == (3, True)


@pytest.mark.req("F-137")
def test_deleting_the_folder_of_a_failing_tool_does_not_open_the_gate(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path, tools={"getWeight": tool(), "getHeat": tool(path="/v1/heat")})
    record(assay, tmp_path, envelope("single-test", 1), *HIVE, "--tool", "getHeat")
    assert assay("tools", "gate", "beewatch.scales").code == 1
    shutil.rmtree(home(tmp_path, "scales", "tools", "getHeat"))
    assert assay("tools", "gate", "beewatch.scales").code != 0


AVAILABLE = {
    "questionId": "Q-apiAvailability",
    "weight": 1,
    "determinism": "deterministic",
    "graderIdentity": {"kind": "script", "name": "probe", "version": "1"},
}


def seen(status: int, at: str) -> dict[str, Any]:
    """Answers to two questions: one that never ages, and the HTTP status at a certain time."""
    clear = {"questionId": "Q-clarity", "score": 5, "weight": 1, "reasoning": "It is clear."}
    answer = {**AVAILABLE, "evidence": {"httpStatus": status}, "timestamp": at}
    return envelope("single-test", answers=[clear, answer])


@pytest.mark.req("F-074", "T-55")
def test_an_answer_that_has_aged_closes_the_gate_until_somebody_looks_again(
    assay: Run, tmp_path: Path
) -> None:
    def gate(now: str) -> tuple[int, bool | None, str]:
        done = assay("tools", "gate", "beewatch.scales", "--json", "--now", now)
        return done.code, *rule(done, "beewatch.scales", "stable")

    grow(assay, tmp_path)
    again = ("--trigger", "scheduled")
    assert record(assay, tmp_path, seen(200, LATER), *WEIGHT, *again, now=LATER).code == 0
    assert gate("2026-06-01T04:00:00Z")[:2] == (0, True)
    code, holds, reason = gate("2026-06-01T04:00:01Z")
    assert (code, holds) == (4, None)
    assert "getWeight Q-apiAvailability is stale: answered on 2026-05-18, limit 14 days" in reason
    assert reason.endswith("; answer again: `assay tools record FILE --trigger scheduled`")
    # an entry that states it changes nothing
    assert assay("tools", "regrade", *again, "--now", "2026-06-02T00:00:00Z").code == 0
    assert gate("2026-06-02T01:00:00Z")[:2] == (4, None)
    day = "2026-06-03T00:00:00Z"
    assert record(assay, tmp_path, seen(200, day), *WEIGHT, *again, now=day).code == 0
    assert gate(day)[:2] == (0, True)


def test_a_failed_answer_does_not_open_the_gate_by_growing_old(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    again = ("--trigger", "scheduled")
    assert record(assay, tmp_path, seen(503, LATER), *WEIGHT, *again, now=LATER).code == 0
    assert node(assay)["status"] == "graded"
    done = assay("tools", "regrade", *again, "--now", "2026-06-02T00:00:00Z")
    assert "C -> B" in done.out
    found = node(assay)
    assert found["status"] == "graded"
    assert "Q-apiAvailability was fail before it was stale" in found["reason"]
    assert assay("tools", "gate", "beewatch.scales", "--now", "2026-06-02T01:00:00Z").code == 1


@pytest.mark.req("F-020", "F-078")
def test_an_api_that_does_not_answer_is_not_recorded_as_stale(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    down = seen(503, LATER)
    down["answers"][1]["score"] = "stale"
    done = record(assay, tmp_path, down, *WEIGHT, "--trigger", "scheduled", now=LATER)
    assert (done.code, "HTTP 503 is scored stale" in done.err) == (3, True)


def test_the_gate_shows_the_graded_tools_that_a_schema_no_longer_has(
    assay: Run, tmp_path: Path
) -> None:
    """A vetoed tool that got another name is a new tool, which must be graded; the old one shows."""
    grow(assay, tmp_path)
    again = ("--trigger", "scheduled")
    vetoed = envelope("single-test", categoricalVeto=VETO)
    assert record(assay, tmp_path, vetoed, *WEIGHT, *again, now=LATER).code == 0
    put(tmp_path / "scales.json", schema(tools={"readWeight": tool()}))
    assert assay("tools", "import", "scales.json", "--now", AFTER).code == 0
    done = assay("tools", "gate", "beewatch.scales", "--json")
    assert rule(done, "beewatch.scales", "primitives") == (
        False,
        "readWeight is pending; graded earlier, and gone: getWeight (veto illegal-content)",
    )


@pytest.mark.req("F-050")
@pytest.mark.parametrize("area", ["single-test", "tools-aggregate-schema"])
def test_a_vetoed_schema_does_not_pass_under_another_name(
    assay: Run, tmp_path: Path, area: str
) -> None:
    grow(assay, tmp_path)
    again, where = ("--trigger", "scheduled"), WEIGHT if area == "single-test" else HIVE
    vetoed = envelope(area, categoricalVeto=VETO)
    assert record(assay, tmp_path, vetoed, *where, *again, now=LATER).code == 0
    (tmp_path / "scales.json").rename(tmp_path / "frames.json")
    assert assay("tools", "import", "frames.json", "--now", LATER).code == 0
    frames = (*HIVE[:3], "frames")
    for name, place in (
        ("single-test", (*frames, "--tool", "getWeight")),
        ("tools-aggregate-schema", frames),
    ):
        assert record(assay, tmp_path, envelope(name, 5), *place, now=AFTER).code == 0
    for _ in range(2):
        done = assay("tools", "gate", "beewatch.frames", "--json")
        found = rule(done, "beewatch.frames", "no_veto")
        assert (done.code, found) == (1, (False, "scales, the same schema, is rejected"))
        shutil.rmtree(home(tmp_path, "scales"), ignore_errors=True)  # the index remembers it


@pytest.mark.req("F-050")
def test_once_a_veto_is_lifted_the_schema_passes_under_every_name(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    again = ("--trigger", "scheduled")
    vetoed = envelope("tools-aggregate-schema", categoricalVeto=VETO)
    record(assay, tmp_path, vetoed, *HIVE, *again, now=LATER)
    lifted = envelope("tools-aggregate-schema", 5, timestamp=AFTER)
    assert record(assay, tmp_path, lifted, *HIVE, *again, now=AFTER).code == 0
    (tmp_path / "scales.json").rename(tmp_path / "frames.json")
    assay("tools", "import", "frames.json", "--now", AFTER)
    frames = (*HIVE[:3], "frames")
    record(assay, tmp_path, envelope("single-test"), *frames, "--tool", "getWeight", now=AFTER)
    record(assay, tmp_path, envelope("tools-aggregate-schema"), *frames, now=AFTER)
    assert assay("tools", "gate", "beewatch.scales", "beewatch.frames").code == 0


@pytest.mark.req("F-050")
def test_a_veto_follows_the_bytes_also_after_the_schema_was_repaired(
    assay: Run, tmp_path: Path
) -> None:
    """The repaired schema lifts the veto of its name, not that of the bytes that were vetoed."""
    grow(assay, tmp_path)
    again, vetoed = ("--trigger", "scheduled"), (tmp_path / "scales.json").read_bytes()
    veto = envelope("tools-aggregate-schema", categoricalVeto=VETO)
    record(assay, tmp_path, veto, *HIVE, *again, now=LATER)
    put(tmp_path / "scales.json", schema(description=f"{ABOUT_BEES} It sells nothing."))
    assay("tools", "import", "scales.json", "--now", "2026-05-18T05:01:00Z")

    def grade(place: tuple[str, ...], now: str, *trigger: str) -> None:
        whole = envelope("tools-aggregate-schema", 5, timestamp=now)
        assert record(assay, tmp_path, whole, *place, *trigger, now=now).code == 0
        one, where = envelope("single-test", 5, timestamp=now), (*place, "--tool", "getWeight")
        assert record(assay, tmp_path, one, *where, *trigger, now=now).code == 0

    grade(HIVE, "2026-05-18T05:02:00Z", *again)
    assert assay("tools", "gate", "beewatch.scales").code == 0
    (tmp_path / "frames.json").write_bytes(vetoed)
    assay("tools", "import", "frames.json", "--now", "2026-05-18T05:03:00Z")
    grade((*HIVE[:3], "frames"), "2026-05-18T05:04:00Z")
    done = assay("tools", "gate", "beewatch.frames", "--json")
    assert (done.code, rule(done, "beewatch.frames", "no_veto")) == (
        1,
        (False, "an earlier version of scales, the same schema, is rejected"),
    )
    # under its first name too: `record` lifts the veto of a person, the file protocol doesn't
    (tmp_path / "scales.json").write_bytes(vetoed)
    put(tmp_path / "s.json", scores())
    tree = ("--data", "grading-data")
    refused = consume(assay, "scales.json", "s.json", *tree, now="2026-05-18T05:05:00Z")
    assert (refused.code, "is rejected (illegal-content)" in words(refused)) == (3, True)
    assay("tools", "import", "scales.json", "--now", "2026-05-18T05:06:00Z")
    done = assay("tools", "gate", "beewatch.scales", "--json")
    assert rule(done, "beewatch.scales", "no_veto")[0] is False
    grade(HIVE, "2026-05-18T05:07:00Z", *again)
    done = assay("tools", "gate", "beewatch.scales", "beewatch.frames")
    assert done.code == 0, words(done)


@pytest.mark.req("F-011")
def test_the_gate_shows_that_a_tool_was_scored_under_another_version(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    path = next(gradings(tmp_path).iterdir())
    path.write_text(path.read_text().replace("scoringSystem/1.0.0", "scoringSystem/0.9.0"))
    (home(tmp_path) / "_record.jsonl").unlink()  # as another program's tree comes
    done = assay("tools", "gate", "beewatch.scales", "--json")
    assert rule(done, "beewatch.scales", "stable") == (
        True,
        "status stable; getWeight scored under scoringSystem/0.9.0",
    )


@pytest.mark.parametrize("name", ["get\0Weight", "w" * 5000, "\x1b[2K"])
def test_a_record_that_names_what_cannot_be_is_not_an_internal_error(
    assay: Run, tmp_path: Path, name: str
) -> None:
    grow(assay, tmp_path)
    with (home(tmp_path) / "_record.jsonl").open("ab") as stream:
        stream.write(line_of({"entries": {f"scales/tools/{name}/single-test/x": {"digest": "d"}}}))
    done = assay("tools", "gate", "beewatch")
    assert (done.code, "\x1b" in done.out, "is gone" in done.out) == (4, False, True)


def test_half_a_surrogate_pair_is_refused_where_a_document_is_written(
    assay: Run, tmp_path: Path
) -> None:
    (tmp_path / "scales.json").write_text(json.dumps(schema(description="Weights \ud800")))
    done = assay("tools", "grade", "scales.json", "--emit-prompts")
    assert (done.code, "scales.json: the text" in done.err) == (3, True)
    assert r"\ud800' can't be written as UTF-8. Remove lone surrogates." in done.err
    put(tmp_path / "scales.json", schema())
    found = scores()
    found["scores"][0]["reasoning"] = "\ud800"
    (tmp_path / "scores.json").write_text(json.dumps(found))
    done = assay("tools", "grade", "scales.json", "--consume-scores", "scores.json")
    assert done.code == 3
    assert done.err.startswith("assay: scores.json: 1 fault\n")
    assert r"the text '\ud800' can't be written as UTF-8" in done.err
    assert not [*(tmp_path / "proofs").rglob("*.json")], "nothing was written"


@pytest.mark.req("X-39")
def test_a_source_in_the_tree_that_was_changed_does_not_pass(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    path = next(home(tmp_path, "scales").glob("scales--*.json"))
    path.write_text(json.dumps(schema(description="Slipped in after the grading, by hand.")))
    result = assay("tools", "gate", "beewatch", "--json")
    assert result.code == 4
    assert "was changed" in rule(result, "beewatch.scales", "validation")[1]
    path.write_text("{")
    assert assay("tools", "gate", "beewatch").code == 4
    path.unlink()
    assert assay("tools", "gate", "beewatch").code != 0


@pytest.mark.req("F-098", "F-117")
def test_a_lock_that_was_edited_in_the_index_does_not_open_the_precondition(
    assay: Run, tmp_path: Path
) -> None:
    swarm(assay, tmp_path, 5)
    put(
        tmp_path / "scales.json",
        schema("hive3", description="A wholly new text for the hive number three."),
    )
    assay("tools", "import", "scales.json", "--now", LATER)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    path = tmp_path / "grading-data/selections/city-bees/index.json"
    head, key, lock = path.read_text().partition('"lockSnapshot"')
    path.write_text(head + key + lock.replace('"pending"', '"stable"'))
    assert record(assay, tmp_path, whole(), now=AFTER).code == 3


@pytest.mark.req("F-098", "F-119")
def test_a_torn_lock_file_is_named_and_never_pasted_into_the_index(
    assay: Run, tmp_path: Path
) -> None:
    swarm(assay, tmp_path, 5)
    assay("tools", "index", "city-bees", "--lock", "--now", LATER)
    folder = tmp_path / "grading-data/selections/city-bees"
    (folder / "index.json").unlink()
    next(folder.glob("lock--*.json")).write_text('{"selectionId": "city')
    result = record(assay, tmp_path, whole(), now=AFTER)
    assert result.code == 3, words(result)
    assay("tools", "index")
    if (folder / "index.json").exists():
        json.loads((folder / "index.json").read_bytes())


# --- links and names


@pytest.mark.parametrize("action", ["index", "gate", "export", "record", "import", "regrade"])
def test_a_namespace_that_is_a_link_is_neither_read_nor_written_through(
    assay: Run, tmp_path: Path, action: str
) -> None:
    grow(assay, tmp_path)
    shutil.move(home(tmp_path), tmp_path / "elsewhere")
    home(tmp_path).symlink_to(tmp_path / "elsewhere")
    before = listing(tmp_path / "elsewhere")
    if action == "record":
        result = record(assay, tmp_path, envelope("single-test"), *WEIGHT, now=LATER)
    elif action == "import":
        put(
            tmp_path / "scales.json",
            schema(description="Another text about beehives on city roofs."),
        )
        result = assay("tools", "import", "scales.json", "--now", LATER)
    else:
        result = assay(
            "tools",
            action,
            "beewatch",
            *{"export": ["-o", "out"], "regrade": ["--trigger", "scheduled"]}.get(action, []),
        )
    assert (result.code, "[FMC-009]" in result.err) == (3, True), words(result)
    assert listing(tmp_path / "elsewhere") == before


def test_status_too_refuses_a_namespace_that_is_a_link(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    shutil.move(home(tmp_path), tmp_path / "elsewhere")
    home(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert assay("tools", "status").code == 3


@pytest.mark.parametrize(
    "inside", ["scales", "scales/tools/getWeight", "scales/tools/getWeight/_gradings"]
)
def test_a_link_below_a_namespace_is_not_written_through(
    assay: Run, tmp_path: Path, inside: str
) -> None:
    grow(assay, tmp_path)
    shutil.move(home(tmp_path, inside), tmp_path / "elsewhere")
    home(tmp_path, inside).symlink_to(tmp_path / "elsewhere")
    before = listing(tmp_path / "elsewhere")
    assert record(assay, tmp_path, envelope("single-test"), *WEIGHT, now=LATER).code == 3
    assert listing(tmp_path / "elsewhere") == before


NAMES = [
    "..",
    "../up",
    "a/b",
    "/etc",
    "a\x00b",
    "",
    ".hidden",
    "a..b",
    "a b",
    "ä",
    "-rf",
    "a\nb",
    "\x1b[31mred",
    "\u202eevil",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_that_leads_elsewhere_is_refused_everywhere(
    assay: Run, tmp_path: Path, name: str
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    put(tmp_path / "hostile.json", schema(name))
    put(tmp_path / "tooled.json", schema(tools={name: tool()}))
    outside = {path for path in listing(tmp_path) if not path.startswith("grading-data")} | {
        "envelope.json"
    }
    results = [
        assay("tools", "import", "hostile.json"),
        assay("tools", "import", "tooled.json"),
        assay("tools", "grade", "hostile.json", "--emit-prompts"),
    ]
    for key in ("namespace", "schema", "tool"):
        place = {"namespace": "beewatch", "schema": "scales", "tool": "getWeight", key: name}
        results.append(record(assay, tmp_path, envelope("single-test", **place)))
    results.append(record(assay, tmp_path, {**whole(), "selectionId": name}))
    for result in results:
        assert result.code in (2, 3), words(result)
        assert not set(words(result)) & set("\x1b\x00\u202e")
    assert {path for path in listing(tmp_path) if not path.startswith("grading-data")} <= outside
    assert set(status(assay)["schemas"]) == {"scales"}


def test_a_name_too_long_for_a_file_is_malformed_input_in_both_commands(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "long.json", schema("n" * 300))
    assert [
        assay("tools", "import", "long.json").code,
        assay("tools", "grade", "long.json", "--emit-prompts").code,
    ] == [3, 3]
    assert not (tmp_path / "proofs").exists()


def test_a_schema_whose_file_name_has_a_dot_can_be_graded_or_is_refused_at_once(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.v2.json", schema(root="http://plain.example/"))
    first, second = (
        assay("tools", "import", "scales.v2.json", "--now", now) for now in (IMPORTED, LATER)
    )
    assert (first.code, second.code) in ((1, 1), (3, 3))


@pytest.mark.parametrize("what", ["a key's name", "an unknown field", "a tool's name", "an issue"])
def test_no_control_character_of_an_input_reaches_the_terminal(
    assay: Run, tmp_path: Path, what: str
) -> None:
    evil = "x\x1b[2Jy\x07\u202e"
    if what == "an issue":
        grow(assay, tmp_path)
        result = assay(
            "tools",
            "regrade",
            "--trigger",
            "user-report",
            "--issue",
            evil,
            "--by",
            evil,
            "--now",
            LATER,
        )
    else:
        changes = {
            "a key's name": {"requiredServerParams": [f"{evil}_KEY"]},
            "an unknown field": {evil: 1},
            "a tool's name": {"tools": {evil: tool()}},
        }[what]
        put(tmp_path / "scales.json", schema(**changes))
        result = assay("tools", "validate", "scales.json")
    assert not set(words(result)) & set("\x1b\x07\u202e")


def test_json_output_escapes_what_a_terminal_would_obey(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "scales.json", schema(requiredServerParams=["x\x1b[2Jy\x07_KEY"]))
    result = assay("tools", "validate", "scales.json", "--json")
    assert not set(result.out) & set("\x1b\x07")
    assert "x\x1b[2Jy\x07_KEY" in json.dumps(result.json(), ensure_ascii=False).encode().decode(
        "unicode_escape"
    )


# --- hostile documents


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("deep.json", "[" * 100_000, "FIL-004"),
        ("deep-object.json", '{"a":' * 50_000, "FIL-004"),
        ("deep.yaml", "[" * 200, "FIL-004"),
        ("bomb.yaml", "a: &a [1]\nb: [*a, *a]\n", "FIL-002"),
        ("tag.yaml", "a: !!python/object/apply:os.system ['touch owned']\n", "FIL-002"),
        ("twice.yaml", "area: single-test\narea: single-test\n", "FIL-003"),
        ("twice.json", '{"area": "single-test", "area": "single-test"}', "FIL-003"),
        ("list.json", "[]", "FMC-012"),
        ("word.json", '"area"', "FMC-012"),
        ("nan.json", '{"area": NaN}', "FIL-002"),
        ("latin.json", b"\xff\xfe", "FIL-002"),
        ("empty.json", "", "FIL-005"),
        ("bom.json", b"\xef\xbb\xbf{}", "FIL-002"),
    ],
)
def test_a_hostile_envelope_is_refused_in_words(
    assay: Run, tmp_path: Path, name: str, content: str | bytes, code: str
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = listing(tmp_path)
    result = assay("tools", "record", name, *WEIGHT, "--now", RECORDED)
    assert (result.code, f"[{code}]" in result.err) == (3, True), words(result)
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    "number",
    ["1e400", "1e999999999", "-1e-999999999", "9" * 5000, "4." + "0" * 5000 + "1", "0.1e-400"],
)
@pytest.mark.parametrize("key", ["score", "weight"])
def test_numbers_beyond_all_measure_are_refused_at_once(
    assay: Run, tmp_path: Path, number: str, key: str
) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    given = envelope("single-test")
    given["answers"][0][key] = "@"
    result = record(assay, tmp_path, json.dumps(given).replace('"@"', number), *WEIGHT)
    assert result.code == 3, words(result)
    assert len(words(result)) < 20_000


def test_an_envelope_in_yaml_says_the_same_as_in_json(assay: Run, tmp_path: Path) -> None:
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    put(tmp_path / "e.yaml", json.dumps(envelope("single-test")))
    assert assay("tools", "record", "e.yaml", *WEIGHT, "--now", RECORDED).code == 0
    yaml = json.loads(next(gradings(tmp_path).iterdir()).read_bytes())
    as_json = record(assay, tmp_path, envelope("single-test"), *WEIGHT, "--json", now=LATER).json()[
        "entry"
    ]
    assert yaml["gradings"] == as_json["gradings"]


def test_texts_with_line_separators_and_control_characters_survive_in_the_tree(
    assay: Run, tmp_path: Path
) -> None:
    text = "one\u2028two\u2029three\x00four\x1b[31m\x7f\x85 \ufeff\U0001f41d"
    put(tmp_path / "scales.json", schema())
    assay("tools", "import", "scales.json", "--now", IMPORTED)
    given = envelope("single-test")
    given["answers"][0] |= {"reasoning": text, "evidence": {text: text}}
    result = record(assay, tmp_path, given, *WEIGHT)
    assert result.code == 0, words(result)
    entry = json.loads(next(gradings(tmp_path).iterdir()).read_bytes())
    assert (entry["gradings"][0]["reasoning"], entry["gradings"][0]["evidence"]) == (
        text,
        {text: text},
    )
    assert node(assay)["status"] == "stable"
    assert "\x1b" not in assay("tools", "status").out


def test_an_entry_too_large_to_be_read_is_not_written(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    given = envelope("single-test")
    given["answers"][0]["reasoning"] = "x" * 10_000_000
    result = record(assay, tmp_path, given, *WEIGHT, now=LATER)
    assert (result.code, "[FMC-004]" in result.err) == (3, True), words(result)
    assert node(assay)["status"] == "stable"


@pytest.mark.req("F-107", "F-144")
def test_the_progress_line_tells_the_status_that_the_index_tells(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    next(gradings(tmp_path).iterdir()).write_bytes(b"{")
    result = record(assay, tmp_path, envelope("single-test"), *WEIGHT, now=LATER)
    if result.code == 0:
        assert f"status={node(assay)['status']} " in result.err


@pytest.mark.req("F-144")
def test_the_progress_line_of_a_regrading_tells_the_status_that_the_index_tells(
    assay: Run, tmp_path: Path
) -> None:
    grow(assay, tmp_path)
    put(
        tmp_path / "scales.json",
        schema(tools={"getWeight": tool(tests=[{"_description": "one", "hive": "north"}])}),
    )
    assay("tools", "import", "scales.json", "--now", LATER)
    result = assay(
        "tools",
        "regrade",
        "beewatch",
        "--trigger",
        "user-report",
        "--issue",
        "x",
        "--by",
        "Ada",
        "--now",
        AFTER,
    )
    line = next(line for line in result.err.splitlines() if "area=single-test/getWeight" in line)
    assert f"status={node(assay)['status']} " in line


# --- a disk that does not take it


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))


def no_powers() -> None:
    """Root without its powers: file modes hold for it too. Nothing changes for anybody else."""
    libc, drop_from_bounds = ctypes.CDLL(None), 24
    for power in range(64):
        libc.prctl(drop_from_bounds, power)


ACTIONS = ["emit", "import", "record", "consume"]


def attempt(assay: Run, tmp_path: Path, action: str, **limits: Any) -> Any:
    put(tmp_path / "s.json", scores())
    put(
        tmp_path / "scales.json",
        (
            schema(description="Another text about beehives on city roofs.")
            if action == "import"
            else schema()
        ),
    )
    put(tmp_path / "e.json", envelope("single-test"))
    data = ["--data", "grading-data"]
    command = {
        "emit": ["grade", "scales.json", "--emit-prompts"],
        "import": ["import", "scales.json", *data],
        "record": ["record", "e.json", *WEIGHT, *data],
        "consume": ["grade", "scales.json", "--consume-scores", "s.json", *data],
    }[action]
    return assay("tools", *command, "--now", LATER, **limits)


@pytest.mark.req("F-095")
@pytest.mark.parametrize("action", ACTIONS)
def test_a_full_disk_leaves_no_half_file_and_no_lost_one(
    assay: Run, tmp_path: Path, action: str
) -> None:
    grow(assay, tmp_path)
    before = {
        name: data for name, data in listing(tmp_path / "grading-data").items() if data is not None
    }
    result = attempt(assay, tmp_path, action, limits=small_files)
    assert result.code not in (0, 1)
    assert "Traceback" not in result.err
    after = listing(tmp_path / "grading-data")
    assert {name: after.get(name) for name in before if not name.endswith("index.json")} == {
        k: v for k, v in before.items() if not k.endswith("index.json")
    }
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_bytes())
    assert not list(tmp_path.rglob("*.part"))
    assert assay("tools", "index").code == 0
    assert attempt(assay, tmp_path, action).code == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_a_full_disk_is_not_called_a_fault_of_ours(assay: Run, tmp_path: Path, action: str) -> None:
    grow(assay, tmp_path)
    result = attempt(assay, tmp_path, action, limits=small_files)
    assert "[FIL-008]" in words(result)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_read_only_folder_is_named_and_nothing_changes(
    assay: Run, tmp_path: Path, action: str
) -> None:
    grow(assay, tmp_path)
    put(tmp_path / "proofs" / "keep.txt", "")
    folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    before = listing(tmp_path / "grading-data")
    try:
        result = attempt(assay, tmp_path, action, limits=no_powers)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert result.code == 2, words(result)
    assert listing(tmp_path / "grading-data") == before


@pytest.mark.parametrize("place", ["--workdir", "--reports-dir", "--data"])
def test_a_file_in_the_place_of_a_folder_is_named(assay: Run, tmp_path: Path, place: str) -> None:
    put(tmp_path / "scales.json", schema())
    put(tmp_path / "s.json", scores())
    put(tmp_path / "blocked", "a file")
    result = consume(assay, "scales.json", "s.json", place, "blocked")
    assert result.code in (2, 3), words(result)
    assert "blocked" in result.err
    assert (tmp_path / "blocked").read_text() == "a file"


@pytest.mark.req("F-089")
def test_what_a_persona_is_called_cannot_lead_out_of_the_tree(assay: Run, tmp_path: Path) -> None:
    grow(assay, tmp_path)
    context = {"groupId": "hives", "personaIds": ["ai-engineer"]}
    for lens in ("../../up", "a/b", "", "x--2030-01-01T00-00-00Z", None):
        result = record(
            assay,
            tmp_path,
            envelope(
                "namespace-skills", persona={**PERSONA, "lensId": lens}, selectionContext=context
            ),
            *HIVE,
            "--skill",
            "weigh",
            now=LATER,
        )
        assert result.code == 3, words(result)
    assert not list(tmp_path.rglob("*2030*"))


def test_braces_that_never_close_are_read_at_once() -> None:
    def read_each() -> None:  # a few thousand blanks took hours
        for text in ("{{" + " " * 500_000, "{{" + "\n" * 500_000 + "x", "{{ a" * 100_000):
            assert in_braces(text) == []
        assert in_braces("{{" + " " * 500_000 + "id\n}}") == ["id"]

    within_cpu_seconds(5, read_each)
