"""The file protocol through the real command: prompts out, a grader between, scores in, a report
out.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from checkout import ROOT
from commands import Running
from serving import is_running, until

Run = Callable[..., Any]

EMITTED, SCORED, GRADED = "2026-05-18T03:00:00Z", "2026-05-18T03:15:00Z", "2026-05-18T03:16:00Z"
INSTRUCTIONS = (
    "Du bist ein Schema-Bewerter. Bewerte unabhaengig basierend nur auf den unten gelieferten"
    ' Informationen. Antworte als JSON-Array: [ { "dimension": "...", "score": <1.0-5.0>,'
    ' "reasoning": "..." }, ... ]. Keine externen Annahmen, keine Kontext-Vermutungen.'
)
CLARITY = (
    "Rate the clarity and specificity of the following Schema description on a scale 1.0-5.0. "
)
CALLABLE = (
    "Rate how well the parameter descriptions in the following schema enable an LLM to call the"
    " tools correctly on a scale 1.0-5.0. Schema: "
)
ABOUT_BEES = "Weights and temperatures of beehives on city roofs, one reading every ten minutes."


# --- what the tests are made of


def tool(**changes: Any) -> dict[str, Any]:
    return {
        "method": "GET",
        "path": "/v1/hives",
        "description": "Returns the newest weight of one hive in grams.",
        "parameters": [
            {
                "position": {"key": "hive", "value": "{{USER_PARAM}}", "location": "query"},
                "z": {"primitive": "string()", "options": ["min(2)"]},
            }
        ],
        "tests": [
            {"_description": f"the hive {name}", "hive": name}
            for name in ("north", "south", "court")
        ],
        **changes,
    }


def schema(
    namespace: str = "beewatch", *, tools: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "name": "Hive scales",
        "description": ABOUT_BEES,
        "version": "4.1.0",
        "root": "https://api.beewatch.example",
        "tools": {"getWeight": tool()} if tools is None else tools,
        **changes,
    }


def put(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        encoding="utf-8",
    )
    return path


def scores(
    slug: str = "beewatch_scales", first: object = 4.0, second: object = 3.5, **changes: Any
) -> dict[str, Any]:
    return {
        "schemaIdSlug": slug,
        "scoringProtocol": "v1",
        "creator": {"skill": "grade-score-single", "skillVersion": "1.0.0", "session": "run-7"},
        "harness": {
            "name": "claude-code",
            "version": "1.0.0",
            "model": "a-model",
            "modelContext": "1M",
        },
        "timestamp": SCORED,
        "scores": [
            {"dimension": "whenToUse", "score": first, "reasoning": "Says what and how often."},
            {
                "dimension": "parameters",
                "score": second,
                "reasoning": "The form of a hive's name is open.",
            },
        ],
        **changes,
    }


def listing(root: Path) -> dict[str, bytes | None]:
    """Every name below a folder with its bytes; None for a folder."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def emit(assay: Run, *arguments: object, now: str = EMITTED) -> Any:
    return assay("tools", "grade", *arguments, "--emit-prompts", "--now", now)


def consume(assay: Run, path: object, given: object, *arguments: object, now: str = GRADED) -> Any:
    return assay("tools", "grade", path, "--consume-scores", given, "--now", now, *arguments)


@pytest.fixture
def bees(tmp_path: Path) -> Path:
    return put(tmp_path / "scales.json", schema())


WORK = Path("proofs/grade-work/beewatch_scales")
REPORTS = Path("proofs/grade-reports")


def words(result: Any) -> str:
    """All that a person sees; never a traceback, never an internal error."""
    assert "Traceback" not in result.err
    assert "internal error" not in result.err, result.err
    return str(result.out + result.err)


# --- prompts


@pytest.mark.req("F-123", "F-124", "X-25")
def test_emitted_prompts_hold_the_protocols_text_word_for_word(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    assert emit(assay, bees).code == 0
    made = json.loads((tmp_path / WORK / "prompts.json").read_bytes())
    assert list(made.items()) == [
        ("schemaId", "beewatch/scales"),
        ("schemaIdSlug", "beewatch_scales"),
        ("schemaPath", str(bees)),
        ("scoringProtocol", "v1"),
        ("scoringInstructions", INSTRUCTIONS),
        (
            "prompts",
            [
                {
                    "dimension": "whenToUse",
                    "prompt": f'{CLARITY}Schema description: "{ABOUT_BEES}"',
                },
                {
                    "dimension": "parameters",
                    "prompt": CALLABLE + json.dumps(schema()["tools"], separators=(",", ":")),
                },
            ],
        ),
    ]


@pytest.mark.req("F-124")
@pytest.mark.parametrize("text", [INSTRUCTIONS, CLARITY + 'Schema description: "', CALLABLE])
def test_the_texts_of_the_prompts_are_those_of_the_seed(shared: Path, text: Any) -> None:
    seed = next((shared / "seeds").glob("003*.txt")).read_text(encoding="utf-8")
    assert json.dumps(text)[1:-1] in seed


@pytest.mark.req("F-121")
def test_the_same_schema_gives_the_same_prompts_whoever_emits_them_when_and_where(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    twin = put(tmp_path / "elsewhere" / "deep" / "scales.json", bees.read_text())
    emit(assay, bees)
    first = (tmp_path / WORK / "prompts.json").read_bytes()
    emit(assay, bees, now="2031-01-01T00:00:00Z")
    assert (tmp_path / WORK / "prompts.json").read_bytes() == first
    emit(assay, twin, "--workdir", "other")
    other = (tmp_path / "other/beewatch_scales/prompts.json").read_bytes()
    assert other != first
    assert other.replace(json.dumps(str(twin)).encode(), json.dumps(str(bees)).encode()) == first
    assert first.endswith(b"}\n")


@pytest.mark.req("F-125", "X-25")
def test_the_sentence_about_a_skill_stands_only_where_a_skill_is_given(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emit(assay, bees)
    plain = json.loads((tmp_path / WORK / "prompts.json").read_bytes())
    emit(assay, bees, "--when-to-use", "When a roof has bees.")
    skilled = json.loads((tmp_path / WORK / "prompts.json").read_bytes())
    assert (
        skilled["prompts"][0]["prompt"]
        == f'{CLARITY}Skill whenToUse: "When a roof has bees." Schema description: "{ABOUT_BEES}"'
    )
    assert "Skill" not in plain["prompts"][0]["prompt"]
    assert skilled["prompts"][1] == plain["prompts"][1]


STRINGIFIED = '{"1":{"n":[1,1e+21,1e-7,0,0.1,100]},"7":{"t":"é\u2028\\"\\\\\\u0001/"},"b":{"z":true,"a":null}}'


@pytest.mark.req("F-125")
def test_tools_stand_in_the_prompt_as_a_javascript_engine_writes_them(
    assay: Run, tmp_path: Path
) -> None:
    data = (
        '{"b": {"z": true, "a": null}, "7": {"t": "é\\u2028\\"\\\\\\u0001\\/"}, "1": {"n": [1.0,'
        " 1e21, 1e-7, -0.0, 0.10, 1e2]}}"
    )
    put(tmp_path / "odd.json", f'{{"namespace": "beewatch", "tools": {data}}}')
    put(tmp_path / "odd2.mjs", f"export const main = {{ namespace: 'beewatch', tools: {data} }}")
    assert emit(assay, "odd.json").code == 0
    assert emit(assay, "odd2.mjs").code == 0
    for slug in ("beewatch_odd", "beewatch_odd2"):
        made = json.loads((tmp_path / f"proofs/grade-work/{slug}/prompts.json").read_bytes())
        assert made["prompts"][1]["prompt"] == CALLABLE + STRINGIFIED
        assert made["prompts"][0]["prompt"] == f'{CLARITY}Schema description: ""'


@pytest.mark.req("F-131", "F-132")
@pytest.mark.parametrize(
    ("namespace", "base"),
    [("mudab", "marine-data"), ("coingecko-com", "search-ohlc"), ("sea--air", "ocean--heat")],
)
def test_a_slug_is_the_schema_id_with_an_underscore_for_its_slash(
    assay: Run, tmp_path: Path, namespace: str, base: str
) -> None:
    put(tmp_path / f"{base}.json", schema(namespace))
    emit(assay, f"{base}.json", "--workdir", "w")
    slug = f"{namespace}_{base}"
    assert sorted(listing(tmp_path / "w")) == [slug, f"{slug}/prompts.json", f"{slug}/state.json"]
    consume(
        assay,
        f"{base}.json",
        put(tmp_path / "s.json", scores(slug)),
        "--workdir",
        "w",
        "--reports-dir",
        "r",
    )
    assert [path.name for path in (tmp_path / "r").iterdir()] == [f"{slug}-2026-05-18.json"]
    made = json.loads((tmp_path / "r" / f"{slug}-2026-05-18.json").read_bytes())
    assert (made["schemaId"], made["schemaIdSlug"]) == (f"{namespace}/{base}", slug)


@pytest.mark.req("F-132")
def test_the_state_tells_which_phases_are_done_and_when(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emit(assay, bees)
    state = json.loads((tmp_path / WORK / "state.json").read_bytes())
    assert state["status"] == "prompts-emitted"
    assert state["phases"] == {
        "promptsEmitted": EMITTED,
        "scoresReceived": None,
        "gradeComputed": None,
        "reportWritten": None,
    }
    consume(assay, bees, put(tmp_path / "s.json", scores()))
    state = json.loads((tmp_path / WORK / "state.json").read_bytes())
    assert state["status"] == "reported"
    assert state["phases"] == {
        "promptsEmitted": EMITTED,
        "scoresReceived": SCORED,
        "gradeComputed": GRADED,
        "reportWritten": GRADED,
    }
    assert state["schemaHash"] == "sha256:" + sha256(bees.read_bytes()).hexdigest()
    assert Path(state["report"]).is_file()


# --- the report


@pytest.mark.req("F-129", "F-135", "F-144", "X-117")
def test_a_report_has_the_keys_of_the_protocol_first_and_says_who_scored_with_what(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emit(assay, bees)
    given = scores()
    result = consume(assay, bees, put(tmp_path / "s.json", given))
    assert result.code == 0
    made = json.loads((tmp_path / REPORTS / "beewatch_scales-2026-05-18.json").read_bytes())
    assert list(made)[:14] == [
        "schemaId",
        "schemaIdSlug",
        "schemaPath",
        "schemaHash",
        "date",
        "grade",
        "score",
        "scoringProtocol",
        "creator",
        "harness",
        "timestamps",
        "dimensions",
        "validationPassed",
        "validationErrors",
    ]
    assert (made["grade"], made["score"], made["date"], made["scoringProtocol"]) == (
        "B",
        3.75,
        "2026-05-18",
        "v1",
    )
    assert made["schemaHash"] == "sha256:" + sha256(bees.read_bytes()).hexdigest()
    assert made["schemaPath"] == str(bees)
    assert (made["creator"], made["harness"], made["dimensions"]) == (
        given["creator"],
        given["harness"],
        given["scores"],
    )
    assert made["timestamps"] == {
        "startedAt": EMITTED,
        "scoredAt": SCORED,
        "gradedAt": GRADED,
        "reportedAt": GRADED,
    }
    assert (made["validationPassed"], made["validationErrors"]) == (True, [])
    assert (made["scoringSystem"], made["gradingSystem"], made["policy"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
        "flowmcp@1",
    )
    assert (
        "[GRADING] area=tools-aggregate-schema/scales schema-valid=✓ status=stable"
        " written=✓\n[GRADING] PROGRESS 1/1\n[GRADING] DONE\n" in result.err
    )


def test_without_a_work_folder_a_report_says_that_nobody_knows_when_it_began(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    result = consume(assay, bees, put(tmp_path / "s.json", scores()), "--json")
    assert result.json()["reports"][0]["report"]["timestamps"]["startedAt"] is None


@pytest.mark.req("X-17", "F-086")
def test_the_hash_of_a_report_covers_the_bytes_and_the_other_one_only_the_meaning(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    given = put(tmp_path / "s.json", scores())
    one = consume(assay, bees, given, "--json", "--workdir", "a").json()["reports"][0]["report"]
    bees.write_text(json.dumps(schema(), indent=3) + "\n")
    two = consume(assay, bees, given, "--json", "--workdir", "b").json()["reports"][0]["report"]
    assert one["schemaHash"] != two["schemaHash"]
    assert re.fullmatch(r"sha256:[a-f0-9]{64}", two["schemaHash"])
    assert one["canonicalHash8"] == two["canonicalHash8"]


@pytest.mark.req("F-129", "F-028", "F-030", "F-032", "X-10", "X-11", "X-12")
@pytest.mark.parametrize(
    ("first", "second", "grade", "raw"),
    [
        ("5.0", "4.5", "B", "A"),
        ("4.5", "4.5", "B", "A"),
        ("4.49", "4.5", "B", "B"),
        ("3.5", "3.5", "B", "B"),
        ("3.4999999999999999999999", "3.5", "C", "C"),
        ("2.5", "2.5", "C", "C"),
        ("2.49", "2.5", "D", "D"),
        ("1.5", "1.5", "D", "D"),
        ("1.49", "1.5", "F", "F"),
        ("1", "1.0", "F", "F"),
    ],
)
def test_the_plain_mean_meets_its_band_unrounded_and_never_exceeds_its_tier(
    assay: Run, bees: Path, tmp_path: Path, first: str, second: str, grade: str, raw: str
) -> None:
    text = (
        json.dumps(scores(first="@1", second="@2")).replace('"@1"', first).replace('"@2"', second)
    )
    result = consume(assay, bees, put(tmp_path / "s.json", text), "--json")
    report = result.json()["reports"][0]["report"]
    assert (report["grade"], report["rawGrade"], report["maxAttainableGrade"]) == (grade, raw, "B")
    assert result.code == (0 if grade == "B" else 1)
    assert result.json()["passed"] is (grade == "B")
    if raw == "A":
        assert "capped at B" in report["reason"]


@pytest.mark.req("F-134", "X-10")
def test_a_schema_that_fails_its_validation_is_an_f_with_the_reason_and_the_score_still_shown(
    assay: Run, tmp_path: Path
) -> None:
    broken = schema()
    del broken["description"]
    put(tmp_path / "scales.json", broken)
    result = consume(
        assay, "scales.json", put(tmp_path / "s.json", scores(first=5, second=5)), "--json"
    )
    report = result.json()["reports"][0]["report"]
    assert result.code == 1
    assert (report["grade"], report["rawGrade"], report["score"], report["validationPassed"]) == (
        "F",
        "A",
        5,
        False,
    )
    assert report["reason"] == "the schema does not pass its validation"
    assert any("description-missing" in text for text in report["validationErrors"])
    assert "schema-valid=✗" in result.err


@pytest.mark.req("F-028", "F-048")
def test_a_key_of_another_company_is_a_veto_that_no_score_outweighs(
    assay: Run, tmp_path: Path
) -> None:
    put(
        tmp_path / "scales.json",
        schema(
            requiredServerParams=["COINBASE_API_KEY"], headers={"x-key": "{{COINBASE_API_KEY}}"}
        ),
    )
    result = consume(
        assay, "scales.json", put(tmp_path / "s.json", scores(first=5, second=5)), "--json"
    )
    report = result.json()["reports"][0]["report"]
    assert result.code == 1
    assert (report["grade"], report["rawGrade"]) == ("REJECTED", "A")
    assert report["categoricalVeto"]["triggeredBy"] == "api-key-domain-mismatch"


@pytest.mark.req("F-135")
def test_bands_come_from_the_policy_and_leave_prompts_and_scores_untouched(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    shipped = ROOT / "src/assay/library/policies/flowmcp@1.yaml"
    put(
        tmp_path / "hard.yaml",
        shipped.read_text()
        .replace("policy: flowmcp", "policy: hard")
        .replace("{grade: B, min: 3.5}", "{grade: B, min: 4.2}"),
    )
    given = put(tmp_path / "s.json", scores(first=4, second=4))
    emit(assay, bees)
    plain = (tmp_path / WORK / "prompts.json").read_bytes()
    emit(assay, bees, "--policy", "hard.yaml")
    assert (tmp_path / WORK / "prompts.json").read_bytes() == plain
    usual, hard = (
        consume(assay, bees, given, "--json"),
        consume(assay, bees, given, "--json", "--policy", "hard.yaml"),
    )
    assert [result.json()["reports"][0]["report"]["grade"] for result in (usual, hard)] == [
        "B",
        "C",
    ], words(hard)
    assert hard.json()["reports"][0]["report"]["policy"].startswith("hard@")


@pytest.mark.req("F-132", "X-40", "F-092")
def test_a_report_is_never_overwritten_and_never_left_out(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    given = put(tmp_path / "s.json", scores())
    kept: dict[str, bytes | None] = {}
    for now in (GRADED, GRADED, GRADED, "2026-05-18T23:59:59Z", "2026-05-19T00:00:00Z"):
        shown = consume(assay, bees, given, "--json", now=now).json()["reports"][0]["path"]
        now_there = listing(tmp_path / REPORTS)
        assert set(now_there) - set(kept) == {Path(shown).name}
        assert {name: now_there[name] for name in kept} == kept
        kept = now_there
    assert sorted(kept) == sorted(
        [
            "beewatch_scales-2026-05-18.json",
            "beewatch_scales-2026-05-18-031600Z.json",
            "beewatch_scales-2026-05-18-031600Z-2.json",
            "beewatch_scales-2026-05-18-235959Z.json",
            "beewatch_scales-2026-05-19.json",
        ]
    )


@pytest.mark.req("X-40")
def test_reports_of_one_second_from_several_processes_are_all_kept(
    bees: Path, tmp_path: Path
) -> None:
    put(tmp_path / "s.json", scores())
    words = ("tools", "grade", "scales.json", "--consume-scores", "s.json", "--now", GRADED)
    started = [Running(*words, cwd=tmp_path) for _ in range(3)]
    for process in started:
        process.communicate()
    assert [process.returncode for process in started] == [0] * 3
    reports = list((tmp_path / REPORTS).iterdir())
    assert len(reports) == 3
    assert {json.loads(path.read_bytes())["grade"] for path in reports} == {"B"}


# --- scores that are refused


def _without(key: str) -> dict[str, Any]:
    return {name: value for name, value in scores().items() if name != key}


def _scored(*items: object) -> dict[str, Any]:
    return scores(scores=list(items))


ONE, TWO = scores()["scores"]
REFUSED: dict[str, tuple[object, str]] = {
    "protocol of tomorrow": (scores(scoringProtocol="v2"), "PRO-001"),
    "no protocol": (_without("scoringProtocol"), "PRO-001"),
    "null protocol": (scores(scoringProtocol=None), "PRO-001"),
    "numeric protocol": (scores(scoringProtocol=1), "PRO-001"),
    "protocol in capitals": (scores(scoringProtocol="V1"), "PRO-001"),
    "protocol in a list": (scores(scoringProtocol=["v1"]), "PRO-001"),
    "below": (scores(first=0.99), "PRO-003"),
    "above": (scores(second=5.01), "PRO-003"),
    "above by a hair": (
        json.dumps(scores(first="@")).replace('"@"', "5.00000000000000000000001"),
        "PRO-003",
    ),
    "in quotes": (scores(first="4"), "PRO-003"),
    "true": (scores(first=True), "PRO-003"),
    "null": (scores(first=None), "PRO-003"),
    "no score": (_scored({"dimension": "whenToUse"}, TWO), "PRO-003"),
    "not a number": (json.dumps(scores(first="@")).replace('"@"', "NaN"), "FIL-002"),
    "beyond all measure": (json.dumps(scores(first="@")).replace('"@"', "1e300"), "PRO-003"),
    "an exponent of a billion": (
        json.dumps(scores(first="@")).replace('"@"', "1e999999999"),
        "FIL-002",
    ),
    "a dimension missing": (_scored(ONE), "PRO-004"),
    "a dimension twice": (_scored(ONE, TWO, ONE), "PRO-004"),
    "an unknown dimension": (_scored(ONE, TWO, {**TWO, "dimension": "tosMatch"}), "PRO-004"),
    "no scores": (scores(scores=[]), "PRO-004"),
    "one dimension not named": (_scored(ONE, {"score": 3.5}), "PRO-004"),
    "fewer than prompts": (_scored({"score": 4}), "PRO-004"),
    "more than prompts": (_scored({"score": 4}, {"score": 4}, {"score": 4}), "PRO-004"),
    "a null dimension": (
        _scored({**ONE, "dimension": None}, {**TWO, "dimension": None}),
        "PRO-004",
    ),
    "n/a where it applies": (scores(first="n/a"), "PRO-003"),
    "in order and outside": (_scored({"score": 4}, {"score": 5.5}), "PRO-003"),
    "from the future": (scores(timestamp="2026-05-18T04:00:00Z"), "FMC-013"),
    "scores as an object": (scores(scores={}), "PRO-002"),
    "another schema": (scores("beewatch_frames"), "PRO-005"),
    "no creator": (_without("creator"), "PRO-002"),
    "no harness": (scores(harness={}), "PRO-002"),
    "no time": (_without("timestamp"), "PRO-002"),
    "a time without a zone": (scores(timestamp="2026-05-18T03:15:00"), "PRO-002"),
    "a list": ([scores()], "PRO-002"),
    "a key twice": (json.dumps(scores())[:-1] + ', "scoringProtocol": "v1"}', "FIL-003"),
    "not JSON": ("scores: 4", "FIL-002"),
    "half of it": (json.dumps(scores())[:-20], "FIL-002"),
    "nothing": ("", "FIL-005"),
    "nested too deep": ("[" * 5000 + "]" * 5000, "FIL-004"),
}


@pytest.mark.req("F-122", "F-123", "F-126", "X-26", "X-27")
@pytest.mark.parametrize("name", REFUSED)
def test_scores_that_cannot_be_trusted_are_refused_and_nothing_at_all_is_written(
    assay: Run, bees: Path, tmp_path: Path, name: str
) -> None:
    document, code = REFUSED[name]
    put(tmp_path / "s.json", document)
    before = listing(tmp_path)
    result = consume(assay, bees, "s.json", "--data", "tree", "-o", "findings.sarif")
    assert result.code == 3, words(result)
    assert f"[{code}]" in result.err
    assert result.out == ""
    assert "s.json" in words(result)
    assert listing(tmp_path) == before


@pytest.mark.req("F-122", "X-26")
def test_an_unknown_protocol_is_refused_before_anything_else_is_looked_at(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emit(assay, bees)
    put(tmp_path / "s.json", {"scoringProtocol": "v2", "scores": "?"})
    before = listing(tmp_path)
    result = consume(assay, bees, "s.json", "--json")
    assert result.code == 3
    error = json.loads(result.err)["error"]
    assert (error["code"], "v2" in error["message"], "Nothing was written" in error["fix"]) == (
        "PRO-001",
        True,
        True,
    )
    assert listing(tmp_path) == before


def test_every_fault_of_a_score_file_is_named_at_once(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    put(
        tmp_path / "s.json", scores("other", "4", 9, creator=7, timestamp="yesterday", harness=None)
    )
    shown = consume(assay, bees, "s.json").err
    assert "6 faults" in shown
    for place in (
        "schemaIdSlug",
        "creator",
        "harness",
        "timestamp",
        "scores[0].score",
        "scores[1].score",
    ):
        assert place in shown
    put(tmp_path / "s.json", _scored({**ONE, "dimension": "whenTouse"}, TWO))
    assert "Did you mean 'whenToUse'?" in consume(assay, bees, "s.json").err


@pytest.mark.parametrize("place", ["schemaIdSlug", "scores[0].score", "scores[1].score"])
def test_every_fault_of_a_score_file_stands_in_the_json_too(
    assay: Run, bees: Path, tmp_path: Path, place: str
) -> None:
    put(tmp_path / "s.json", scores("other", "4", 9))
    result = consume(assay, bees, "s.json", "--json")
    assert place in result.err


@pytest.mark.parametrize(
    "kind", ["missing", "folder without it", "folder in its place", "dangling link"]
)
def test_a_score_file_that_is_not_there_is_refused_by_its_name(
    assay: Run, bees: Path, tmp_path: Path, kind: str
) -> None:
    given = "s.json"
    if kind == "folder without it":
        (tmp_path / "s.json").mkdir()
    elif kind == "folder in its place":
        (tmp_path / "all/beewatch_scales/scores.json").mkdir(parents=True)
        given = "all"
    elif kind == "dangling link":
        (tmp_path / "s.json").symlink_to("nowhere.json")
    before = listing(tmp_path)
    result = consume(assay, bees, given)
    assert result.code == 3, words(result)
    assert "[FIL-001]" in result.err
    assert listing(tmp_path) == before


def test_scores_behind_a_link_count_as_the_file_they_are(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    put(tmp_path / "real.json", scores())
    (tmp_path / "s.json").symlink_to("real.json")
    assert consume(assay, bees, "s.json").code == 0


def test_a_report_or_state_that_is_a_link_is_replaced_not_written_through(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    precious = put(tmp_path / "precious.txt", "keep me")
    for name in ("prompts.json", "state.json"):
        (tmp_path / WORK).mkdir(parents=True, exist_ok=True)
        (tmp_path / WORK / name).symlink_to(precious)
    (tmp_path / REPORTS).mkdir(parents=True)
    (tmp_path / REPORTS / "beewatch_scales-2026-05-18.json").symlink_to(precious)
    emit(assay, bees)
    assert consume(assay, bees, put(tmp_path / "s.json", scores())).code == 0
    assert precious.read_text() == "keep me"
    assert (tmp_path / REPORTS / "beewatch_scales-2026-05-18-031600Z.json").is_file()


def test_scores_of_a_schema_that_has_changed_since_are_refused(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emit(assay, bees)
    bees.write_text(bees.read_text() + "\n")
    put(tmp_path / "s.json", scores())
    before = listing(tmp_path)
    result = consume(assay, bees, "s.json")
    assert (result.code, "[PRO-006]" in result.err) == (3, True)
    assert "Write the prompts again" in words(result)
    assert listing(tmp_path) == before


def test_scores_made_before_the_prompts_of_the_changed_schema_are_refused(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emit(assay, bees)
    given = ("--judge", judge(tmp_path, "print('{\"score\": 4}')"), "--now", SCORED, "-o", "s.json")
    assert assay("tools", "score", tmp_path / WORK / "prompts.json", *given).code == 0
    put(
        bees, schema(description="Something else that nobody has scored: sea levels, hour by hour.")
    )
    emit(assay, bees, now="2026-05-18T04:00:00Z")
    before = listing(tmp_path)
    result = consume(assay, bees, "s.json", now="2026-05-18T04:10:00Z")
    assert (result.code, "[PRO-006]" in result.err) == (3, True), words(result)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("content", ["{", "[]", '{"phases": []}'])
def test_a_spoiled_state_is_refused_and_nothing_is_written(
    assay: Run, bees: Path, tmp_path: Path, content: str
) -> None:
    put(tmp_path / WORK / "state.json", content)
    put(tmp_path / "s.json", scores())
    before = listing(tmp_path)
    result = consume(assay, bees, "s.json")
    assert result.code == 3, words(result)
    assert "state.json" in result.err
    assert listing(tmp_path) == before


@pytest.mark.parametrize("why", ["the clock stands before the tree", "the name has a dot"])
def test_scores_that_the_tree_refuses_leave_no_report_either(
    assay: Run, bees: Path, tmp_path: Path, why: str
) -> None:
    put(tmp_path / "s.json", scores())
    path, given = bees, "s.json"
    if why == "the name has a dot":
        path = put(tmp_path / "scales.v2.json", schema())
        put(tmp_path / "s.json", scores("beewatch_scales.v2"))
    else:
        assert consume(assay, bees, "s.json", "--data", "tree").code == 0
    before = listing(tmp_path)
    result = consume(assay, path, given, "--data", "tree", now="2026-05-18T03:10:00Z")
    assert result.code == 3, words(result)
    assert listing(tmp_path) == before


# --- stages, folders, JSON


@pytest.mark.req("F-133")
def test_a_stage_must_be_named_and_only_one(assay: Run, bees: Path, tmp_path: Path) -> None:
    before = listing(tmp_path)
    both = assay("tools", "grade", bees, "--emit-prompts", "--consume-scores", "s.json")
    none = assay("tools", "grade", bees)
    nothing = assay("tools", "grade", "--emit-prompts")
    typo = assay("tools", "grad", bees)
    assert [result.code for result in (both, none, nothing, typo)] == [2, 2, 2, 2]
    assert "two stages" in both.err
    assert "--emit-prompts or --consume-scores" in none.err
    assert "Did you mean 'grade'?" in typo.err
    assert listing(tmp_path) == before


@pytest.fixture
def apiary(tmp_path: Path) -> Path:
    for name in ("scales", "frames", "drones"):
        put(tmp_path / "apiary" / f"{name}.json", schema(name=f"Hive {name}"))
    put(tmp_path / "apiary" / "package.json", {"name": "not-a-schema"})
    return tmp_path / "apiary"


@pytest.mark.req("F-121", "F-127", "F-144")
def test_a_folder_of_schemas_is_emitted_scored_and_consumed_in_one_go(
    assay: Run, apiary: Path, tmp_path: Path
) -> None:
    assert emit(assay, apiary).code == 0
    judge = put(
        tmp_path / "judge.py",
        "import json; print(json.dumps({'score': 4.25, 'reasoning': 'clear'}))",
    )
    scored = assay(
        "tools",
        "score",
        "proofs/grade-work",
        "--judge",
        f"{sys.executable} {judge}",
        "--now",
        SCORED,
    )
    assert scored.code == 0, words(scored)
    assert "next: assay tools grade PATH --consume-scores proofs/grade-work" in scored.out
    result = consume(assay, apiary, "proofs/grade-work", "--json")
    assert result.code == 0, words(result)
    assert [item["report"]["schemaId"] for item in result.json()["reports"]] == [
        "beewatch/drones",
        "beewatch/frames",
        "beewatch/scales",
    ]
    assert len(list((tmp_path / REPORTS).iterdir())) == 3
    assert "[GRADING] PROGRESS 1/3\n" in result.err
    assert result.err.endswith("[GRADING] PROGRESS 3/3\n[GRADING] DONE\n")


def test_one_bad_score_file_of_a_folder_means_that_nothing_is_written(
    assay: Run, apiary: Path, tmp_path: Path
) -> None:
    emit(assay, apiary)
    for name in ("scales", "frames"):
        put(
            tmp_path / f"given/beewatch_{name}/scores.json",
            scores(f"beewatch_{name}", first=4 if name == "scales" else 6),
        )
    before = listing(tmp_path)
    result = consume(assay, apiary, "given", "--data", "tree")
    assert result.code == 3
    assert "2 faults" in result.err
    assert "beewatch_drones" in result.err
    assert "beewatch_frames" in result.err
    assert listing(tmp_path) == before


def test_a_folder_with_a_schema_that_cannot_be_read_is_not_consumed_in_part(
    assay: Run, apiary: Path, tmp_path: Path
) -> None:
    put(apiary / "torn.json", '{"tools": ')
    emitted = emit(assay, apiary)
    assert emitted.code == 3
    assert "torn.json" in words(emitted)
    for name in ("scales", "frames", "drones"):
        put(tmp_path / f"given/beewatch_{name}/scores.json", scores(f"beewatch_{name}"))
    before = listing(tmp_path)
    assert consume(assay, apiary, "given").code == 3
    assert listing(tmp_path) == before


def test_two_schemas_of_one_slug_are_refused_before_either_is_written(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "s" / "b_c.json", schema("a"))
    put(tmp_path / "s" / "c.json", schema("a_b"))
    before = listing(tmp_path)
    result = emit(assay, "s")
    assert result.code == 3, words(result)
    assert listing(tmp_path) == before


def test_json_stands_alone_on_standard_output_in_both_stages(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    emitted = emit(assay, bees, "--json")
    made = emitted.json()
    assert list(made) == ["prompts", "refused", "skipped"]
    assert made["prompts"][0]["schemaHash"] == "sha256:" + sha256(bees.read_bytes()).hexdigest()
    assert (made["refused"], made["skipped"]) == ([], [])
    consumed = consume(assay, bees, put(tmp_path / "s.json", scores()), "--json")
    made = consumed.json()
    assert (made["passed"], made["policy"], made["scoringSystem"], made["gradingSystem"]) == (
        True,
        "flowmcp@1",
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )
    assert made["reports"][0]["report"] == json.loads(
        (tmp_path / REPORTS / "beewatch_scales-2026-05-18.json").read_bytes()
    )


def test_a_terminal_never_sees_the_control_characters_of_a_graders_reasoning(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    hostile = scores()
    hostile["scores"][0]["reasoning"] = "\x1b[31mred\x07 \u202ereversed \u2028 \x9b2J"
    result = consume(assay, bees, put(tmp_path / "s.json", hostile))
    assert result.code == 0
    assert not set(result.out) & set("\x1b\x07\u202e\x9b\u2028")


# --- the grader


@pytest.fixture
def prompts(assay: Run, bees: Path, tmp_path: Path) -> Path:
    emit(assay, bees)
    return tmp_path / WORK / "prompts.json"


def judge(tmp_path: Path, body: str) -> str:
    """A judge of a few lines: `asked` is what it reads, `log` a folder that only the test knows."""
    (tmp_path / "log").mkdir(exist_ok=True)
    head = (
        f"import sys, os, json, time\nlog = {str(tmp_path / 'log')!r}\nasked ="
        " sys.stdin.read()\ncall = len(os.listdir(log))\n"
    )
    head += (
        "open(os.path.join(log, f'{call:03}'), 'w').write(json.dumps({'pid': os.getpid(), 'cwd':"
        " os.getcwd(), 'held': os.listdir(), 'asked': asked}))\n"
    )
    return f"{sys.executable} -IS {put(tmp_path / 'judge.py', head + body)}"


def calls(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((tmp_path / "log").iterdir())]


def score(assay: Run, prompts: Path, command: str, *arguments: object) -> Any:
    return assay("tools", "score", prompts, "--judge", command, "--now", SCORED, *arguments)


@pytest.mark.req("F-126", "F-127", "F-122")
def test_scores_keep_the_order_of_the_prompts_and_say_who_made_them(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    body = (
        "print(json.dumps({'score': 4.5 if 'clarity' in asked else 3.25, 'reasoning': 'because'}))"
    )
    result = score(
        assay,
        prompts,
        judge(tmp_path, body),
        "--model",
        "a-model",
        "--judge-version",
        "7.1",
        "-o",
        "out/scores.json",
    )
    assert result.code == 0, words(result)
    made = json.loads((tmp_path / "out/scores.json").read_bytes())
    assert list(made) == [
        "schemaIdSlug",
        "scoringProtocol",
        "creator",
        "harness",
        "timestamp",
        "scores",
        "promptsSha256",
    ]
    assert (made["schemaIdSlug"], made["scoringProtocol"], made["timestamp"]) == (
        "beewatch_scales",
        "v1",
        SCORED,
    )
    assert made["scores"] == [
        {"dimension": "whenToUse", "score": 4.5, "reasoning": "because"},
        {"dimension": "parameters", "score": 3.25, "reasoning": "because"},
    ]
    assert set(made["creator"]) == {"skill", "skillVersion", "session"}
    assert {key: made["harness"][key] for key in ("version", "model")} == {
        "version": "7.1",
        "model": "a-model",
    }
    assert set(made["harness"]) == {"name", "version", "model", "modelContext"}
    assert all(made["creator"].values())
    assert all(made["harness"].values())
    consumed = consume(assay, tmp_path / "scales.json", "out/scores.json", "--json")
    assert consumed.json()["reports"][0]["report"]["score"] == 3.875


@pytest.mark.req("F-127", "F-143")
def test_each_prompt_is_judged_by_a_process_of_its_own_in_an_empty_folder(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    body = "open('memory', 'w').write(asked)\nos.mkdir('more')\nprint(json.dumps({'score': 4}))"
    assert score(assay, prompts, judge(tmp_path, body)).code == 0
    first, second = calls(tmp_path)
    document = json.loads(prompts.read_bytes())
    for call, prompt, other in (
        (first, *document["prompts"]),
        (second, *reversed(document["prompts"])),
    ):
        assert call["held"] == []
        assert prompt["prompt"] in call["asked"]
        assert document["scoringInstructions"] in call["asked"]
        assert other["prompt"] not in call["asked"]
    assert first["pid"] != second["pid"]
    assert first["cwd"] != second["cwd"]
    assert not any(Path(call["cwd"]).exists() for call in (first, second))
    assert sorted(path.name for path in prompts.parent.iterdir()) == [
        "prompts.json",
        "scores.json",
        "state.json",
    ]


@pytest.mark.req("F-128")
def test_earlier_scores_are_never_used_again(assay: Run, prompts: Path, tmp_path: Path) -> None:
    command = judge(tmp_path, "print(json.dumps({'score': 2 + call / 2}))")
    score(assay, prompts, command)
    score(assay, prompts, command)
    assert len(calls(tmp_path)) == 4
    assert [
        item["score"]
        for item in json.loads((prompts.parent / "scores.json").read_bytes())["scores"]
    ] == [3, 3.5]


@pytest.mark.req("F-128")
@pytest.mark.parametrize(
    ("scored", "code"),
    [
        ("2026-05-18T02:59:59Z", "PRO-006"),
        ("2026-05-17T23:00:00-04:00", None),
        ("2026-05-18T03:22:00Z", "FMC-013"),
    ],
)
def test_scores_from_before_their_prompts_or_from_the_future_are_refused(
    assay: Run, bees: Path, tmp_path: Path, scored: str, code: str | None
) -> None:
    emit(assay, bees)
    put(tmp_path / "s.json", scores(timestamp=scored))
    before = listing(tmp_path)
    result = consume(assay, bees, "s.json")
    assert result.code == (3 if code else 0), words(result)
    if code:
        assert f"[{code}]" in result.err
        assert "scored at 2026-05-18T" in result.err
        assert listing(tmp_path) == before


@pytest.mark.req("F-128")
def test_scores_of_other_prompts_are_refused_also_where_nobody_knows_when_these_were_written(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    put(tmp_path / "s.json", scores(promptsSha256="sha256:" + "0" * 64))
    result = consume(assay, bees, "s.json")
    assert result.code == 3
    assert "[PRO-006]" in result.err


@pytest.mark.req("F-127")
def test_scores_in_the_order_of_the_prompts_need_no_dimension(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    put(tmp_path / "s.json", _scored({"score": 2, "reasoning": "Vague."}, {"score": 5}))
    result = consume(assay, bees, "s.json", "--json")
    assert result.code == 0, words(result)
    report = json.loads(result.out)["reports"][0]["report"]
    assert report["dimensions"] == [
        {"dimension": "whenToUse", "score": 2, "reasoning": "Vague."},
        {"dimension": "parameters", "score": 5},
    ]
    assert report["score"] == 3.5
    put(tmp_path / "s.json", _scored(TWO, ONE))  # names count for more than places
    assert json.loads(consume(assay, bees, "s.json", "--json").out)["reports"][0]["report"][
        "dimensions"
    ] == [TWO, ONE]


HIVE_TOOL = {
    "name": "get_weight",
    "description": "Returns the newest weight of one hive in grams, as the scale measured it.",
    "inputSchema": {
        "type": "object",
        "properties": {"hive": {"type": "string", "description": "The name of the hive."}},
        "required": ["hive"],
    },
}


@pytest.mark.req("F-017", "F-018", "F-021")
@pytest.mark.parametrize(
    "given",
    [
        [TWO],
        [{"score": 3.5}],
        [{**ONE, "score": 1.0}, TWO],
        [{"dimension": "whenToUse", "score": "n/a"}, TWO],
    ],
)
def test_when_to_use_does_not_apply_to_a_server_without_instructions(
    assay: Run, tmp_path: Path, given: list[Any]
) -> None:
    path = put(
        tmp_path / "bees.json",
        {"tools": [HIVE_TOOL], "serverInfo": {"name": "bees", "version": "1"}},
    )
    assert emit(assay, path).code == 0
    document = json.loads((tmp_path / "proofs/grade-work/bees_tools/prompts.json").read_bytes())
    assert [prompt["dimension"] for prompt in document["prompts"]] == ["parameters"]
    put(tmp_path / "s.json", scores("bees_tools", scores=given))
    result = consume(assay, path, "s.json", "--json", "--data", "tree")
    assert result.code == 0, words(result)
    found = json.loads(result.out)["reports"][0]
    report = found["report"]
    assert (report["score"], report["grade"], report["validationPassed"]) == (3.5, "B", True)
    assert report["dimensions"][0] == {
        "dimension": "whenToUse",
        "score": "n/a",
        "naReason": "not-applicable-to-tool-type",
        "reasoning": "The server gives no instructions.",
    }
    assert report["reason"].endswith("; whenToUse does not apply: the server gives no instructions")
    entry = json.loads((tmp_path / found["entry"]).read_bytes())
    answer = next(one for one in entry["gradings"] if one["questionId"] == "Q-whenToUse")
    assert (answer["score"], answer["naReason"]) == ("n/a", "not-applicable-to-tool-type")
    assert assay("tools", "validate", found["entry"]).code == 0


def test_instructions_or_a_skill_make_when_to_use_apply_to_a_server(
    assay: Run, tmp_path: Path
) -> None:
    described = put(
        tmp_path / "told.json",
        {
            "tools": [HIVE_TOOL],
            "serverInfo": {"name": "told", "version": "1"},
            "instructions": "Use it to weigh hives.",
        },
    )
    bare = put(
        tmp_path / "bare.json",
        {"tools": [HIVE_TOOL], "serverInfo": {"name": "bare", "version": "1"}},
    )
    emit(assay, described)
    emit(assay, bare, "--when-to-use", "for hives")
    for name, path in (("told", described), ("bare", bare)):
        document = json.loads(
            (tmp_path / f"proofs/grade-work/{name}_tools/prompts.json").read_bytes()
        )
        assert [prompt["dimension"] for prompt in document["prompts"]] == [
            "whenToUse",
            "parameters",
        ]
        put(tmp_path / "s.json", scores(f"{name}_tools", scores=[TWO]))
        assert "no score for 'whenToUse'" in consume(assay, path, "s.json").err
        put(tmp_path / "s.json", scores(f"{name}_tools"))
        assert (
            json.loads(consume(assay, path, "s.json", "--json").out)["reports"][0]["report"][
                "score"
            ]
            == 3.75
        )


@pytest.mark.req("X-25")
def test_a_list_of_one_counts_as_the_one_score_it_holds(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    name = "'whenToUse' if 'clarity' in asked else 'parameters'"
    assert (
        score(
            assay,
            prompts,
            judge(
                tmp_path,
                f"print(json.dumps([{{'dimension': {name}, 'score': 4, 'reasoning': 'r'}}]))",
            ),
        ).code
        == 0
    )


BAD_JUDGES = {
    "another dimension": (
        'print(\'{"dimension": "parameters", "score": 4}\')',
        "PRO-007",
        "parameters",
    ),
    "two scores at once": ('print(\'[{"score": 4}, {"score": 4}]\')', "PRO-007", "no score"),
    "prose": ("print('I would say four.')", "PRO-007", "not JSON"),
    "prose around JSON": ("print('Here: {\"score\": 4}')", "PRO-007", "not JSON"),
    "nothing": ("pass", "PRO-007", "no score"),
    "no score": ('print(\'{"reasoning": "fine"}\')', "PRO-007", "no score"),
    "a score twice": ('print(\'{"score": 1, "score": 5}\')', "PRO-007", "not JSON"),
    "an exit code": (
        "print('{\"score\": 4}'); sys.exit('the model is down') ",
        "PRO-007",
        "the model is down",
    ),
    "no answer in time": ("time.sleep(60)", "PRO-007", "within 1 s"),
    "above": ("print('{\"score\": 5.01}')", "PRO-003", "5.01"),
    "below": ("print('{\"score\": 0}')", "PRO-003", "outside"),
    "in quotes": ('print(\'{"score": "4"}\')', "PRO-003", "whenToUse"),
    "true": ("print('{\"score\": true}')", "PRO-003", "whenToUse"),
    "half a sign": (
        'sys.stdout.buffer.write(b\'{"score": 4, "reasoning": "\\xff"}\')',
        "PRO-007",
        "not JSON",
    ),
}


@pytest.mark.req("F-127", "F-148", "F-019")
@pytest.mark.parametrize("name", BAD_JUDGES)
def test_a_judge_that_gives_no_valid_score_stops_the_whole(
    assay: Run, prompts: Path, tmp_path: Path, name: str
) -> None:
    body, code, said = BAD_JUDGES[name]
    before = listing(prompts.parent)
    patience = "1" if name == "no answer in time" else "60"
    result = score(assay, prompts, judge(tmp_path, body), "--timeout", patience)
    assert result.code == 3, words(result)
    assert f"[{code}]" in result.err
    assert said in words(result)
    assert listing(prompts.parent) == before


@pytest.mark.req("F-127", "F-095")
def test_a_judge_that_fails_on_the_second_prompt_leaves_the_scores_as_they_were(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    failing = judge(tmp_path, "print(json.dumps({'score': 4})) if call % 2 == 0 else sys.exit(9)")
    assert score(assay, prompts, failing).code == 3
    assert not (prompts.parent / "scores.json").exists()
    put(prompts.parent / "scores.json", "those of yesterday")
    assert score(assay, prompts, failing).code == 3
    assert (prompts.parent / "scores.json").read_text() == "those of yesterday"
    assert sorted(path.name for path in prompts.parent.iterdir()) == [
        "prompts.json",
        "scores.json",
        "state.json",
    ]


@pytest.mark.req("F-122", "X-26")
@pytest.mark.parametrize("version", ["v2", None, 1, ""])
def test_the_grader_too_refuses_a_protocol_it_does_not_know_and_asks_nobody(
    assay: Run, prompts: Path, tmp_path: Path, version: object
) -> None:
    document = json.loads(prompts.read_bytes())
    put(
        prompts,
        (
            {**document, "scoringProtocol": version}
            if version != ""
            else {key: document[key] for key in document if key != "scoringProtocol"}
        ),
    )
    before = listing(prompts.parent)
    result = score(assay, prompts, judge(tmp_path, "print('{\"score\": 4}')"))
    assert (result.code, "[PRO-001]" in result.err) == (3, True)
    assert calls(tmp_path) == []
    assert listing(prompts.parent) == before


def test_prompts_that_were_tampered_with_are_not_scored(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    document = json.loads(prompts.read_bytes())
    command = judge(tmp_path, "print('{\"score\": 4}')")
    for change in (
        {"prompts": document["prompts"][::-1]},
        {"prompts": document["prompts"][:1]},
        {"schemaIdSlug": "other"},
        {"schemaId": "a/b/c"},
        {"scoringInstructions": None},
        {"prompts": [{**document["prompts"][0], "prompt": ""}, document["prompts"][1]]},
    ):
        put(prompts, {**document, **change})
        result = score(assay, prompts, command)
        assert (result.code, "[PRO-002]" in result.err) == (3, True), change
    assert calls(tmp_path) == []


@pytest.mark.req("F-130")
@pytest.mark.parametrize(
    ("second", "warned"),
    [("4.2", False), ("4.2000000000000001", True), ("3.8", False), ("3.79", True)],
)
def test_repeated_scores_warn_only_when_they_lie_more_than_a_fifth_apart(
    assay: Run, prompts: Path, tmp_path: Path, second: str, warned: bool
) -> None:
    body = f"print('{{\"score\": %s}}' % ('4.0' if call % 2 == 0 else '{second}'))"
    result = score(assay, prompts, judge(tmp_path, body), "--repeat", "2", "--json")
    assert result.code == 0, words(result)
    made = result.json()
    assert [item["score"] for item in made["results"][0]["scores"]["scores"]] == [4.0, 4.0]
    assert made["unstable"] == (2 if warned else 0)
    assert ("apart, more than 0.2" in result.err) is warned
    assert [item["reproducible"] for item in made["results"][0]["scores"]["repeats"]] == [
        not warned
    ] * 2
    assert len(calls(tmp_path)) == 4


def test_a_judge_may_be_a_script_beside_the_prompts_although_it_runs_elsewhere(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    script = put(tmp_path / "judge.sh", f"#!{sys.executable}\nprint('{{\"score\": 4}}')\n")
    script.chmod(0o755)
    assert score(assay, prompts, "./judge.sh").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--judge", ""], "empty"),
        (["--judge", "no-such-judge"], "no command"),
        (["--judge", "'"], "not a command"),
        (["--judge", "true", "--repeat", "0"], "at least 1"),
        (["--judge", "true", "--timeout", "-1"], "above 0"),
        ([], "--judge"),
    ],
)
def test_a_judge_that_is_no_command_is_a_misuse(
    assay: Run, prompts: Path, arguments: list[str], said: str
) -> None:
    result = assay("tools", "score", prompts, *arguments)
    assert result.code == 2
    assert said in words(result)


def test_scores_cannot_be_written_onto_a_folder_and_the_command_says_so(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    result = score(assay, prompts, judge(tmp_path, "print('{\"score\": 4}')"), "-o", "out")
    assert result.code == 2
    assert "[FIL-008]" in result.err


def test_a_judge_that_never_stops_talking_is_cut_off_at_the_limit(
    prompts: Path, tmp_path: Path
) -> None:
    talker = judge(tmp_path, "while True: sys.stdout.write('x' * 100_000)")
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20));"
        " import assay.cli.main as m; sys.exit(m.run(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        limited,
        "tools",
        "score",
        str(prompts),
        "--judge",
        talker,
        "--timeout",
        "8",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert "longer than 1 MiB" in done.stderr


def test_a_judge_that_is_too_slow_is_ended_with_all_that_it_started(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    script = put(
        tmp_path / "judge.sh", f"#!/bin/sh\nsleep 300 & echo $! > {tmp_path}/child\nwait\n"
    )
    script.chmod(0o755)
    assert score(assay, prompts, "./judge.sh", "--timeout", "2").code == 3
    child = int((tmp_path / "child").read_text())
    until(lambda: not is_running(child))


def test_a_judge_may_leave_a_process_that_keeps_its_standard_error_open(
    assay: Run, prompts: Path, tmp_path: Path
) -> None:
    left = (
        "import subprocess; child = subprocess.Popen(['sleep', '300'], stdout=subprocess.DEVNULL)\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\n"
    )
    done = score(
        assay, prompts, judge(tmp_path, left + "print('{\"score\": 4}')"), "--timeout", "60"
    )
    assert done.code == 0, done.err
    child = int((tmp_path / "child").read_text())
    until(lambda: not is_running(child))


def test_an_interrupted_scoring_does_not_deny_what_it_has_written(
    assay: Run, apiary: Path, tmp_path: Path
) -> None:
    emit(assay, apiary)
    command = judge(tmp_path, "time.sleep(30) if call >= 2 else print('{\"score\": 4}')")
    process = Running("tools", "score", "proofs/grade-work", "--judge", command, cwd=tmp_path)
    deadline = time.monotonic() + 20
    while len(list((tmp_path / "log").iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert len(list((tmp_path / "proofs/grade-work").rglob("scores.json"))) == 1
    assert "nothing was written" not in err


# --- a module, from end to end


@pytest.mark.req("F-121", "F-134")
def test_a_javascript_schema_goes_from_prompts_to_a_report_and_an_entry(
    assay: Run, tmp_path: Path
) -> None:
    put(
        tmp_path / "scales.mjs",
        f"export const main = {json.dumps(schema(), indent=2)}\nexport const handlers = () => ({{"
        " getWeight: {} })\n",
    )
    assert emit(assay, "scales.mjs").code == 0
    scored = score(
        assay, tmp_path / WORK / "prompts.json", judge(tmp_path, "print('{\"score\": 4.0}')")
    )
    assert scored.code == 0, words(scored)
    result = consume(assay, "scales.mjs", WORK / "scores.json", "--data", "tree", "--json")
    assert result.code == 0, words(result)
    item = result.json()["reports"][0]
    entry = json.loads(Path(item["entry"]).read_bytes())
    assert (item["report"]["grade"], entry["aggregateGrade"], entry["area"]) == (
        "B",
        "B",
        "tools-aggregate-schema",
    )
    assert entry["schemaHash"] == item["report"]["canonicalHash8"]
    assert entry["harness"] != "claude-code"


@pytest.mark.req("F-159")
def test_a_schema_that_fails_its_validation_is_blocked_in_the_tree_and_an_f_in_the_report(
    assay: Run, tmp_path: Path
) -> None:
    put(tmp_path / "scales.json", schema(version="3"))
    result = consume(
        assay, "scales.json", put(tmp_path / "s.json", scores()), "--data", "tree", "--json"
    )
    assert result.code == 1
    entry = json.loads(Path(result.json()["reports"][0]["entry"]).read_bytes())
    assert (entry["blocked"], entry["aggregateGrade"]) == (True, None)


@pytest.mark.req("F-030", "X-12")
def test_a_score_just_below_a_band_reads_back_from_the_tree_as_it_was_graded(
    assay: Run, bees: Path, tmp_path: Path
) -> None:
    text = json.dumps(scores(first="@", second="@")).replace('"@"', "3.4999999999999999999999")
    assert consume(assay, bees, put(tmp_path / "s.json", text), "--data", "tree").code == 1
    node = assay("tools", "status", "--data", "tree", "--json").json()["trees"][0]["schemas"][
        "scales"
    ]["toolsAggregate"]
    assert (node["status"], node["grade"]) == ("graded", "C")
