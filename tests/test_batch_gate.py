"""`assay gate` over two batches gives the decision that it gives over the same scorecards."""

from __future__ import annotations

import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from assay.batch.slice_sums import MAX_SLICES
from msgspec import json as msgjson
from msgspec import to_builtins

from assay import grade_table
from assay.files.inputs import file_digest
from assay.files.own_files import is_batch_output
from assay.library.shelf import Shelf
from assay.pipeline.batching import plan_batch, scoring_plan
from assay.records.batch import BatchCounts, BatchEngineUsed, BatchFile, BatchRecord
from examples import CAMPAIGN
from once import once

duckdb = pytest.importorskip("duckdb")
PROFILE = str(Path(__file__).parent / "fixtures" / "batch" / "two-criteria@1.yaml")
PLAN = plan_batch(Shelf(), profile=PROFILE, policy="workflow")
SCORING = scoring_plan(Shelf(), profile=PROFILE)
SHARES = {"likert_1_5": 1, "zero_one": 5}
KEPT = ("sample", "attempt", "group", "tag")
DECIDED = (
    "looks",
    "outcome",
    "reason",
    "rules",
    "comparison",
    "would_change",
    "missing",
    "worse",
    "policy",
)


Rows = list[dict[str, Any]]


def runs(seed: int, *, drop: float, groups: int = 0, tags: int = 0) -> list[dict[str, Any]]:
    """Runs of forty samples, with what each criterion and gate came to; some samples have no
    tag, and some no group.
    """
    found = []
    for n in range(40):
        drawn = random.Random(f"{n}")
        own = random.Random(f"{seed} {n}")
        raws = {
            one.spec.id: (drawn.choice([4, 5, 5]) - (own.random() < drop))
            / SHARES[one.spec.formula]
            for one in SCORING.criteria
        }
        gates = {one.id: own.random() > drop / 20 for one in SCORING.gates}
        group = f"g{n % groups}" if groups and not (tags and n > 36) else None
        found.append(
            {
                "run": f"{seed}-{n}",
                "sample": f"s{n:02}",
                "group": group,
                "tag": f"t{n % tags}" if tags and n % 7 else None,
                "raws": raws,
                "gates": gates,
            }
        )
    return found


def cards(path: Path, side: str | Rows) -> Path:
    lines = []
    for row in SIDES[side] if isinstance(side, str) else side:
        card = {
            "schema": "assay.scorecard/1",
            "run_id": row["run"],
            "sample_id": row["sample"],
            "hard_gates": row["gates"],
            "criteria": [
                to_builtins(one.spec.scored(raw := row["raws"][one.spec.id], n=1))
                | ({"missing": "nobody scored it"} if raw is None else {})
                for one in SCORING.criteria
            ],
        }
        if row["group"] is not None:
            card["group"] = row["group"]
        if row["tag"] is not None:
            card["tags"] = [row["tag"]]
        lines.append(json.dumps(card, default=float))
    path.write_text("\n".join(lines) + "\n")
    return path


def evidence(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The same runs as rows: scores and the profile's gates wide, other gates long."""
    known = {one.id for one in SCORING.gates}
    lines: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for row in rows:
        gates = {gate: row["gates"][gate] for gate in known}
        lines.append({name: row.get(name) for name in ("run", *KEPT)} | row["raws"] | gates)
        others += [
            {"run": row["run"], "gate": gate, "verdict": row["gates"][gate]}
            for gate in row["gates"].keys() - known
        ]
    tables = [pa.Table.from_pylist(found) for found in (lines, others) if found]
    pq.write_table(pa.concat_tables(tables, promote_options="default"), path)
    return path


def named(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with run ids that no other side has."""
    return [{**row, "run": f"{name}-{n}"} for n, row in enumerate(rows)]


def with_raw(row: dict[str, Any], raw: float | None, at: int = 0) -> dict[str, Any]:
    return {**row, "raws": {**row["raws"], SCORING.criteria[at].spec.id: raw}}


def with_gates(row: dict[str, Any], places: str, verdict: bool | None = False) -> dict[str, Any]:
    """The run with this verdict on some of the profile's gates."""
    return {
        **row,
        "gates": row["gates"] | {SCORING.gates[int(place)].id: verdict for place in places},
    }


GOOD = runs(1, drop=0.0)
POLITE = [{**row, "gates": {**row["gates"], "polite": True}} for row in GOOD]
SLICED = {"0": (0, 2, 0.0), "12": (12, 2, 0.3), "3": (3, 2, 0.3), "6": (6, 3, 0.9)}
"""How many groups and tags a side has, and how much of the candidate is worse."""
TAGGED = [{**row, "attempt": 1} for row in runs(1, drop=0.0, tags=2)]
REPEATED = {"same": TAGGED[1]["tag"], "other": "elsewhere", "none": None}
"""The tag of a sample's second run."""
SIDES = {
    name: named(name, rows)
    for name, rows in {
        "good": GOOD,
        "also good": runs(2, drop=0.0),
        "bad": runs(2, drop=0.9),
        "polite": POLITE,
        "rude": [
            {**row, "gates": {**row["gates"], "polite": n > 1}} for n, row in enumerate(POLITE)
        ],
        "twice": [*GOOD, GOOD[0]],
        "half": [with_raw(row, None) if n % 2 else row for n, row in enumerate(GOOD)],
        **{
            f"{side} lack scores{' in groups' * bool(groups)}": [
                with_raw(row, raws[n], -1) if n in raws else row
                for n, row in enumerate(runs(seed, drop=0.0, groups=groups))
            ]
            for side, seed, raws in (
                ("ours", 2, {3: None, 8: 0.1}),
                ("theirs", 1, {3: 0.1, 8: None}),
            )
            for groups in (0, 12)
        },
        **{
            f"{side} lack many scores": [
                with_raw(row, raw if n else first, -1) if n < 30 else row
                for n, row in enumerate(GOOD)
            ]
            for side, first, raw in (("ours", None, None), ("theirs", 0.0, 0.0))
        },
        **{
            f"{side} lack their scores{name}": [
                {**with_raw(row, raw, -1), "group": f"g{n % 15}" if name else ""} if n < 30 else row
                for n, row in enumerate(GOOD)
            ]
            for side, raw in (("ours", 0.0), ("theirs", None))
            for name in ("", " in groups")
        },
        "lacks where it missed": [
            *(with_raw(row, 1 if n < 2 else None) for n, row in enumerate(GOOD[:4])),
            *GOOD[4:],
        ],
        "misses elsewhere": [*GOOD[:2], *(with_raw(row, 1) for row in GOOD[2:4]), *GOOD[4:]],
        "open gates": [with_gates(GOOD[0], "01"), with_gates(GOOD[1], "2", None), *GOOD[2:]],
        "fails elsewhere": [with_gates(GOOD[0], "0"), with_gates(GOOD[1], "1"), *GOOD[2:]],
        "invalid": [with_raw(GOOD[0], 99), *GOOD[1:]],
        "grouped": runs(1, drop=0.0, groups=8),
        "their outputs": [
            {**row, "gates": row["gates"] | {"polite": n != 3}}
            for n, row in enumerate(runs(1, drop=0.1))
        ],
        "our outputs": [
            {**row, "gates": row["gates"] | ({"polite": n != 3} if n != 7 else {})}
            for n, row in enumerate(runs(2, drop=0.05))
        ],
        **{
            f"repeats {name}": [
                *TAGGED,
                *(
                    {**row, "attempt": 2, "tag": tag if n == 1 else row["tag"]}
                    for n, row in enumerate(TAGGED)
                ),
            ]
            for name, tag in REPEATED.items()
        },
        "flaky": [*TAGGED[:2], with_gates({**TAGGED[0], "attempt": 2}, "0")],
        "summed": [
            with_gates({**row, "gates": {**row["gates"], "own": n % 9 > 0}}, "2" * (n == 4), None)
            for n, row in enumerate(runs(1, drop=0.3))
        ],
        "many groups": [
            {**row, "sample": f"{n}", "group": f"{n}"}
            for n, row in enumerate(GOOD * (MAX_SLICES // len(GOOD) + 1))
        ],
        "strangers": [{**row, "sample": f"x{row['sample']}"} for row in GOOD],
        **{
            f"ours {name}": runs(2, drop=drop, groups=groups, tags=tags)[groups > 0 :]
            for name, (groups, tags, drop) in SLICED.items()
        },
        **{
            f"theirs {name}": runs(1, drop=0.05, groups=groups, tags=tags)[:-1]
            for name, (groups, tags, _) in SLICED.items()
        },
    }.items()
}


def grade_all(folder: Path) -> None:
    """The grades of all sides as one table: a batch costs much the same for any number of runs."""
    rows = [row for side in SIDES.values() for row in side]
    path = evidence(folder / "in.parquet", rows)
    with duckdb.connect() as source:
        made = grade_table(str(path), profile=PROFILE, connection=source, keep=list(KEPT))
        made.write_parquet(str(folder / "graded.parquet"))


def batch(
    path: Path, side: str, *, columns_sql: dict[str, str] | None = None, **changes: Any
) -> Path:
    """The runs of a side as the output of a batch, with its record. The columns in SQL are kept
    too, in place of those of the rows.
    """
    rows, graded = SIDES[side], once("batches-to-decide-on", grade_all) / "graded.parquet"
    made = columns_sql or {}
    keep = [name for name in KEPT if name not in made and any(row.get(name) for row in rows)]
    lacks = [f'"{name}"' for name in KEPT if name not in keep]
    more = "".join(f', {sql} AS "{name}"' for name, sql in made.items())
    duckdb.execute(
        f"COPY (SELECT * EXCLUDE ({', '.join(lacks)}){more} FROM '{graded}'"
        f" WHERE regexp_full_match(run, '{side}-[0-9]+')) TO '{path}'"
    )
    keep += made
    record = BatchRecord(
        scoring_system=PLAN.scoring_system,
        grading_system=PLAN.grading_system,
        **{
            "profile": PLAN.profile,
            "policy": PLAN.policy,
            "plan": PLAN.digest,
            "digests": dict(PLAN.digests),
            "engine": BatchEngineUsed(name="duckdb", version="1"),
            "sql": PLAN.digest,
            "keep": keep,
            "inputs": [],
            "outputs": [BatchFile(name=path.name, digest=f"sha256:{file_digest(str(path))}")],
            "counts": BatchCounts(
                rows=1, runs=len(rows), passed=0, invalid=0, grades={}, rejects={}
            ),
            **changes,
        },
    )
    path.with_suffix(".batch.json").write_bytes(msgjson.encode(record))
    assert is_batch_output(str(path))
    return path


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> None:
    """A profile of a file isn't on the shelf, where a decision looks for that of a batch."""
    (tmp_path / "own.yaml").write_bytes(Path(PROFILE).read_bytes())
    (tmp_path / "assay.yaml").write_text("profile: own.yaml\n")


@pytest.mark.req("W-075")
def test_a_decision_over_batches_and_its_slices_are_those_over_scorecards(
    tmp_path: Path, assay: Any
) -> None:
    """A slice may hold whole groups, parts of them, and samples without one."""
    violated, outcomes = set(), set()
    for name, (groups, tags, _) in SLICED.items():
        if name in ("3", "6") and not CAMPAIGN:
            continue
        files = []
        for suffix, maker in (("jsonl", cards), ("parquet", batch)):
            sides = (f"ours {name}", f"theirs {name}")
            files.append([maker(tmp_path / f"{side}.{suffix}", side) for side in sides])
        slices = ("--slice", "tag", *(("--slice", "group") if groups else ()))
        asked = [slices] if groups else [("--looks", "3"), *([slices] if CAMPAIGN else ())]
        for more in asked:
            made = []
            for ours, theirs in files:
                done = assay(
                    *("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json", *more)
                )
                assert done.out, done.err
                made.append(done.json())
                outcome = made[-1]["outcome"]
                assert done.code == {"promote": 0, "not_enough_evidence": 4}.get(outcome, 1)
                outcomes.add(outcome)
            for field in (*DECIDED, "slices"):
                assert made[1].get(field) == made[0].get(field), field
            for side in ("candidate", "baseline"):
                for field in ("n", "pass_rate", "grades", "criteria", "gates"):
                    if not groups:
                        assert made[1][side][field] == made[0][side][field], field
            if more is slices:
                assert made[1]["slices"]["kinds"] == (["group", "tag"] if groups else ["tag"])
                unnamed = {"no tag", "no group"} if groups else {"no tag"}
                assert unnamed <= {one["slice"] for one in made[1]["slices"]["slices"]}
                assert len(made[1]["slices"]["slices"]) == groups + tags + len(unnamed)
                violated |= {one.split(":")[0] for one in made[1]["slices"]["violated"]}
    assert "tag" in violated
    assert len(outcomes) > 1


def test_scores_that_a_baseline_batch_lacks_open_no_gate(tmp_path: Path, assay: Any) -> None:
    ours, theirs = (
        batch(tmp_path / "ours.parquet", "also good"),
        batch(tmp_path / "theirs.parquet", "half"),
    )
    done = assay("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json")
    assert (done.code, done.json()["outcome"]) == (1, "hold")
    assert "have no score for correctness in 20 of 40" in done.json()["reason"]
    same = assay("gate", theirs, "--baseline", theirs, "--profile", PROFILE, "--json").json()
    assert same["outcome"] == "promote"  # neither side has those scores


MANY_LACK = "30 samples lack a run or score on one side, for example s00"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        pytest.param(
            "scores",
            "runs of the baseline have no score for safety in 1 of 40",
            marks=pytest.mark.campaign,
        ),
        ("scores in groups", "runs of the baseline have no score for safety in 1 of 40"),
        ("many scores", MANY_LACK),
        ("their scores", MANY_LACK),
        ("their scores in groups", MANY_LACK),
    ],
)
def test_what_missing_scores_could_hide_is_the_same_over_batches_and_scorecards(
    tmp_path: Path, assay: Any, what: str, why: str
) -> None:
    # the missing scores shift the mean by 30 points; their spread alone is beyond this margin
    more = ["--margin", "31"] if what.startswith("their") else []
    made = []
    for suffix, maker in (("jsonl", cards), ("parquet", batch)):
        sides = (f"{one} lack {what}" for one in ("ours", "theirs"))
        ours, theirs = (maker(tmp_path / f"{side}.{suffix}", side) for side in sides)
        given = ["--baseline", theirs, "--profile", PROFILE, *more]
        done = assay("gate", ours, *given, "--json")
        assert done.out, done.err
        made.append(done.json())
    assert why in made[0]["reason"]
    for field in DECIDED:
        assert made[1].get(field) == made[0].get(field), field


def test_a_floor_missed_where_the_baseline_lacks_a_score_is_not_offset_elsewhere(
    tmp_path: Path, assay: Any
) -> None:
    ours, theirs = (
        batch(tmp_path / f"{name}.parquet", name)
        for name in ("misses elsewhere", "lacks where it missed")
    )
    made = assay("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json").json()
    (floors,) = (rule for rule in made["rules"] if rule["id"] == "floor_regression")
    assert (floors["holds"], floors["violated"]) == (False, False)
    found, _, _ = floors["reason"].partition(" for which the baseline has no score.")
    assert found == "the candidate misses the floor of correctness in 2 samples"


def test_gates_that_a_baseline_batch_lacks_evidence_for_do_not_offset_failures_of_others(
    tmp_path: Path, assay: Any
) -> None:
    made = []
    for suffix, maker in (("jsonl", cards), ("parquet", batch)):
        ours, theirs = (
            maker(tmp_path / f"{side}.{suffix}", side) for side in ("fails elsewhere", "open gates")
        )
        done = assay("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json")
        made.append(done.json())
        assert (done.code, made[-1]["outcome"]) == (1, "hold")
        assert "in 2 of 40 samples, the baseline for certain in 1;" in made[-1]["reason"]
        same = assay("gate", theirs, "--baseline", theirs, "--profile", PROFILE, "--json").json()
        assert same["outcome"] == "hold"  # a verdict that both lack may have been a bad one
    for field in (*DECIDED, "baseline"):
        found = made[1][field], made[0][field]
        if field == "baseline":
            found = tuple(
                [one[part] for part in ("gates", "coverage", "top_failure_reasons")]
                for one in found
            )
        assert found[0] == found[1], field


def test_a_slice_column_that_repeats_disagree_on_is_refused_and_one_batch_twice_is_named(
    tmp_path: Path, assay: Any
) -> None:
    for name in REPEATED:
        made = batch(tmp_path / f"{name}.parquet", f"repeats {name}")
        done = assay("gate", made, "--baseline", made, "--slice", "tag")
        assert ("1 sample of the baseline differ in 'tag'" in done.err) == (name != "same")
        assert done.code == (0 if name == "same" else 3), done.err
        assert ("SAME EVIDENCE" in done.out) == (name == "same")


def test_flaky_samples_of_batches_have_intervals_at_the_level_of_the_policy(
    tmp_path: Path, assay: Any
) -> None:
    made = batch(tmp_path / "flaky.parquet", "flaky")
    policy = tmp_path / "ninety@1.yaml"
    shelf = Path(str(files("assay.library") / "policies" / "release@1.yaml")).read_text()
    policy.write_text(
        shelf.replace("policy: release", "policy: ninety").replace("level: 0.95", "level: 0.90")
    )
    done = assay("gate", made, "--baseline", made, "--release-policy", policy, "--json")
    flaky = done.json()["flaky"]
    assert [(one["sample"], one["rate"]["level"]) for one in flaky] == [("s00", 0.9)] * 2
    assert "EASED: the release policy ninety@1 allows more" in done.json()["notes"][0]


def test_an_attempt_that_is_not_a_whole_number_is_refused_by_name(
    tmp_path: Path, assay: Any
) -> None:
    odd = ("'second'", "'NaN'::DOUBLE", "1.5::DOUBLE", "1e300::DOUBLE")
    for number, attempt in enumerate(odd):
        first = "'1'" if number == 0 else "1::DOUBLE"
        some = f"CASE WHEN sample < 's02' THEN {attempt} ELSE {first} END"
        files = [
            batch(tmp_path / f"{number}-{name}.parquet", "good", columns_sql={"attempt": sql})
            for name, sql in (("ours", some), ("theirs", first))
        ]
        done = assay("gate", files[0], "--baseline", files[1])
        assert "the candidate has 2 runs whose `attempt` isn't a whole number" in done.err, attempt
        assert done.code == 3
        if number < 2:
            assert assay("gate", files[1], "--baseline", files[1]).code == 0, first


@pytest.mark.req("W-075")
def test_a_gate_that_the_profile_lacks_cannot_be_dropped(tmp_path: Path, assay: Any) -> None:
    for name, candidate in (("dropped", "good"), ("kept", "polite"), ("failed", "rude")):
        if name == "failed" and not CAMPAIGN:
            continue
        made = []
        for suffix, maker in (("jsonl", cards), ("parquet", batch)):
            files = [
                maker(tmp_path / f"{name}-{place}.{suffix}", side)
                for place, side in (("ours", candidate), ("theirs", "polite"))
            ]
            done = assay("gate", files[0], "--baseline", files[1], "--profile", PROFILE, "--json")
            made.append(done.json())
            assert (done.code == 0) == (name == "kept"), done.err
        for field in DECIDED:
            assert made[1][field] == made[0][field], field
        for side in ("candidate", "baseline"):
            assert made[1][side]["gates"] == made[0][side]["gates"]
        lost = "the candidate lost the gate polite in s00 and 39 more samples"
        assert (lost in made[1]["reason"]) == (name == "dropped")


@pytest.mark.req("W-003")
def test_a_batch_that_cannot_be_trusted_or_compared_opens_no_gate(
    tmp_path: Path, assay: Any
) -> None:
    theirs = batch(tmp_path / "theirs.parquet", "good")
    counts = BatchCounts(
        rows=41, runs=40, passed=40, invalid=0, grades={}, rejects={"BAT-012": 1200}
    )
    ours = batch(tmp_path / "ours.parquet", "also good", counts=counts, columns={"run": "id"})
    other = "sha256:" + 64 * "0"

    def refused(candidate: object, code: str, exit_code: int, *more: str) -> str:
        done = assay("gate", candidate, "--baseline", theirs, *more)
        assert (done.code, code in done.err) == (exit_code, True), done.err
        return str(done.err)

    done = assay("gate", ours, "--baseline", theirs)
    assert done.code == 0, done.err
    assert "`assay batch` rejected 1,200 entries of the candidate and graded" in done.out
    assert "BAT-012 1,200" in done.out
    best = batch(tmp_path / "best.parquet", "also good", columns={"raw": "best_of_five"})
    said = refused(best, "REL-002", 3)
    assert "raw is the column 'raw' in the baseline's batch, and 'best_of_five' in" in said
    for column in ("group", "language"):
        assert f"--keep {column}" in refused(ours, "BAT-061", 2, "--slice", column)
    for option in (["--allow-unpaired"], ["--store"], ["-o", "d.sarif"]):
        assert option[0] in refused(ours, "BAT-061", 2, *option)
    refused(cards(tmp_path / "cards.jsonl", "good"), "BAT-061", 2)
    refused(ours, "CLI-001", 2, "--master", "local[1]")
    done = assay("gate", tmp_path / "cards.jsonl", "--baseline", "c.jsonl", "--engine", "spark")
    assert (done.code, "--engine is for outputs of `assay batch`" in done.err) == (2, True)
    refused(ours, "CLI-001", 2, "--quarantine", "nobody")
    twice = batch(tmp_path / "twice.parquet", "twice")
    said = refused(twice, "REL-004", 3)
    assert "'s00' appears twice in the candidate" in said
    assert "If they are of several versions, grade each version into its own output." in said
    refused(batch(tmp_path / "invalid.parquet", "invalid"), "BAT-060", 3)
    grouped = batch(tmp_path / "grouped.parquet", "grouped")
    done = assay("gate", grouped, "--baseline", grouped, "--looks", "2")
    assert (done.code, "share groups" in done.err) == (2, True)
    refused(batch(tmp_path / "strangers.parquet", "strangers"), "REL-002", 3)
    drawn = batch(tmp_path / "drawn.parquet", "good", sample=40)
    assert "--sample" in refused(drawn, "BAT-060", 3)
    refused(batch(tmp_path / "planned.parquet", "good", plan=other), "REL-002", 3)
    refused(batch(tmp_path / "graded.parquet", "good", policy="workflow@9"), "REL-002", 3)
    outside = [BatchFile(name="../theirs.parquet", digest=other)]
    refused(batch(tmp_path / "outside.parquet", "good", outputs=outside), "BAT-060", 3)
    forged = batch(tmp_path / "forging.parquet", "bad")
    contrary, other_type = "contradicts its norms", "so it isn't what `assay batch` writes"
    for index, (lie, words) in enumerate(
        (
            *((lie, contrary) for lie in ("true AS passed", "100e0 AS score", "'A' AS grade")),
            ("[]::VARCHAR[] AS failed_floors", contrary),
            ("1e0 AS norm_correctness", contrary),
            *(
                (f"'NaN'::DOUBLE AS {one}", "couldn't be graded")
                for one in ("score", "norm_safety")
            ),
            *(
                (f"'x' AS {one}", other_type)
                for one in ("score", "norm_safety", "passed", "failed_gates", "extra_gates")
            ),
        )
    ):
        made = tmp_path / f"forged{index}.parquet"
        lied = f"SELECT * REPLACE ({lie}) FROM '{forged}'"
        duckdb.sql(lied).write_parquet(str(made))
        record = json.loads(forged.with_suffix(".batch.json").read_text())
        record["outputs"] = [{"name": made.name, "digest": f"sha256:{file_digest(str(made))}"}]
        made.with_suffix(".batch.json").write_text(json.dumps(record))
        assert words in refused(made, "BAT-060", 3), lie
    ours.write_bytes(theirs.read_bytes())
    assert "isn't the file that the batch wrote" in refused(ours, "BAT-060", 3)


def test_a_record_that_names_other_files_opens_no_gate(tmp_path: Path, assay: Any) -> None:
    theirs, good = (batch(tmp_path / f"{one}.parquet", "good") for one in "ab")
    bad = batch(tmp_path / "bad.parquet", "bad")
    bad.with_suffix(".batch.json").write_bytes(good.with_suffix(".batch.json").read_bytes())
    folder = tmp_path / "folder"
    (folder / "grades").mkdir(parents=True)
    record = json.loads(good.with_suffix(".batch.json").read_text())
    record["outputs"][0]["name"] = "grades/part-0.parquet"
    (folder / "batch.json").write_text(json.dumps(record))
    (folder / "grades" / "part-0.parquet").write_bytes(good.read_bytes())
    assert assay("gate", folder, "--baseline", theirs).code == 0
    (folder / "grades" / "part-1.parquet").write_bytes(bad.read_bytes())
    for side in (bad, folder):
        done = assay("gate", side, "--baseline", theirs)
        assert (done.code, "isn't a file of the batch" in done.err) == (3, True), done.err


def test_a_profile_that_changed_since_a_batch_was_graded_is_refused(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "assay.yaml").unlink()
    changed = {"plan": "sha256:" + 64 * "1", "profile": "dag-review@1"}
    files = [batch(tmp_path / f"{side}.parquet", side, **changed) for side in ("also good", "good")]
    done = assay("gate", files[0], "--baseline", files[1])
    assert done.code == 3
    assert "other numbers than dag-review@1" in done.err


def test_a_batch_by_a_profile_outside_the_library_is_refused_with_the_command_to_run(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "assay.yaml").unlink()
    for side in ("also good", "good"):
        batch(tmp_path / f"{side.split()[0]}.parquet", side)
    done = assay("gate", "also.parquet", "--baseline", "good.parquet")
    words = "assay gate also.parquet --baseline good.parquet --profile FILE"
    assert (done.code, f"`{words}`" in done.err) == (3, True), done.err
    assert assay(*words.replace("FILE", PROFILE).split()[1:]).code != 3


def test_the_records_of_batches_do_not_overrule_the_project(tmp_path: Path, assay: Any) -> None:
    """Both sides may have been graded before the project asked for more."""
    files = [batch(tmp_path / f"{side}.parquet", side) for side in ("also good", "good")]
    for text, option in (
        ("profile: dag-review@1\n", ("--profile", PROFILE)),
        ("profile: own.yaml\npolicy: workflow-judged\n", ("--grading-policy", "workflow")),
    ):
        (tmp_path / "assay.yaml").write_text(text)
        done = assay("gate", files[0], "--baseline", files[1])
        assert (done.code, "with other numbers" in done.err) == (3, True), text
        assert assay("gate", files[0], "--baseline", files[1], *option).code == 0
        again = tmp_path / "again.parquet"
        if option[0] == "--profile":
            done = assay("batch", files[1], "-o", again)
            assert (done.code, "BAT-027" in done.err, again.exists()) == (3, True, False)


@pytest.mark.req("W-075")
def test_outputs_of_assay_batch_are_decided_on_as_their_scorecards(
    tmp_path: Path, assay: Any
) -> None:
    made: dict[str, dict[str, Path]] = {}
    for side in ("their outputs", "our outputs"):
        table = evidence(tmp_path / f"{side}.in.parquet", SIDES[side])
        parts = tmp_path / f"{side}.parts"
        duckdb.sql(
            f"COPY (SELECT *, hash(run) % 2 AS part FROM '{table}') TO '{parts}' (FORMAT parquet,"
            " PARTITION_BY part)"
        )
        made[side] = {"cards": cards(tmp_path / f"{side}.cards.jsonl", side)}
        for kind, given, more in (
            ("file", table, ("--keep", "sample")),
            ("folder", parts, ("--keep", "sample")),
            ("regraded", tmp_path / f"{side}.file.parquet", ()),
        ):
            if kind == "regraded" and not CAMPAIGN:
                continue
            if kind == "file" or side == "our outputs":
                target = tmp_path / f"{side}.{kind}{'' if kind == 'folder' else '.parquet'}"
                done = assay("batch", given, "-o", target, "--profile", PROFILE, *more)
                assert done.code == 1, done.err
                made[side][kind] = target
    found = {}
    for kind, ours in made["our outputs"].items():
        theirs = made["their outputs"]["cards" if kind == "cards" else "file"]
        done = assay("gate", ours, "--baseline", theirs, "--profile", PROFILE, "--json")
        found[kind] = done.json()
        assert done.code == 1
        assert "lost the gate polite in s07" in found[kind]["reason"]
        for field in DECIDED:
            assert found[kind][field] == found["cards"][field], (kind, field)


def test_batches_on_another_dataset_or_by_another_judge_are_not_compared(
    tmp_path: Path, assay: Any
) -> None:
    """As over runs, where both are known: here, where the baseline kept the columns, in capitals or
    not.
    """
    made = {
        name: batch(
            tmp_path / f"{name}.parquet",
            "good",
            columns_sql={"Dataset_Version": f"{version}", column: f"'{judge}'"},
        )
        for name, version, column, judge in (
            ("old", 1, "Judge", "m-1"),
            ("easier", 2, "Judge", "m-1"),
            ("kinder", 1, "judge", "m-2"),
        )
    }
    assert assay("gate", made["old"], "--baseline", made["old"]).code == 0
    bare = batch(tmp_path / "bare.parquet", "good")
    assert assay("gate", made["easier"], "--baseline", bare).code == 0
    for ours, words in (
        (made["easier"], "dataset_version: 2 here, 1 in the baseline"),
        (made["kinder"], "judge: m-2 here, m-1 in the baseline"),
        (bare, "dataset_version: none here, 1 in the baseline"),
    ):
        done = assay("gate", ours, "--baseline", made["old"])
        assert (done.code, words in done.err) == (3, True), done.err


def test_a_column_that_a_decision_reads_and_a_batch_left_out_is_shown(
    tmp_path: Path, assay: Any
) -> None:
    """Without groups the samples count as independent, and the interval narrows."""
    source = evidence(tmp_path / "in.parquet", SIDES["good"])
    made = {}
    for keep in ("sample", "sample,group,attempt"):
        made[keep] = tmp_path / f"{keep}.parquet"
        done = assay("batch", source, "-o", made[keep], "--profile", PROFILE, "--keep", keep)
        line = "not kept    attempt, group, which `assay gate` reads: --keep attempt,group\n"
        shown = [one for one in done.out.splitlines() if one.startswith("not kept")]
        assert [sorted(one.split()) for one in shown] == (
            [sorted(line.split())] if keep == "sample" else []
        ), done.out
    forgot, whole = made.values()
    pairs = (((whole, forgot), 1), ((forgot, forgot), 0), ((whole, whole), 0))
    for pair, n in pairs if CAMPAIGN else pairs[:2]:
        notes = assay("gate", pair[0], "--baseline", pair[1], "--json").json()["notes"]
        assert sum("kept `group` and the baseline's didn't" in one for one in notes) == n


@pytest.mark.req("W-003")
def test_runs_that_a_batch_rejected_open_no_gate(tmp_path: Path, assay: Any) -> None:
    theirs, ours = batch(tmp_path / "theirs.parquet", "good"), tmp_path / "ours.parquet"
    source = evidence(tmp_path / "in.parquet", SIDES["invalid"])
    done = assay("batch", source, "-o", ours, "--profile", PROFILE, "--keep", "sample")
    assert done.code == 3, done.err
    for pair in ((ours, theirs), (theirs, ours)):
        done = assay("gate", pair[0], "--baseline", pair[1])
        assert (done.code, "couldn't be graded" in done.err) == (3, True), done.err


@pytest.mark.req("W-091")
def test_batches_under_a_policy_with_terms_for_judges_are_never_promoted(
    tmp_path: Path, assay: Any
) -> None:
    """Rows don't show the judge, so both sides miss every floor alike, and no rule notices."""
    given = []
    for name in ("ours", "theirs"):
        table = evidence(tmp_path / f"{name}.in.parquet", runs(1, drop=0.0))
        given.append(tmp_path / f"{name}.parquet")
        keep = ("--profile", PROFILE, "--policy", "workflow-judged", "--keep", "sample")
        assert assay("batch", table, "-o", given[-1], *keep).code == 1
    (tmp_path / "assay.yaml").write_text("release: {margin: 20}\n")  # 40 equal scores show this
    by = ("--profile", PROFILE, "--grading-policy", "workflow-judged", "--json")
    done = assay("gate", given[0], "--baseline", given[1], *by)
    assert (done.code, done.json()["outcome"]) == (1, "hold"), done.out
    assert "don't show which judge gave a score" in done.json()["reason"]
