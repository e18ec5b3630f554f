"""JUnit XML: every writer's report gives the counts it states, and what is not a pass is none."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError, NotEnoughEvidence
from peer_files import RECORDED, imported, survives, takers

FOLDER = RECORDED / "junit"
SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" name="org.acme.CartTest" time="1,234.5" tests="4" errors="1" skipped="1" failures="0">
  <properties><property name="token" value="s3cret"/></properties>
  <testcase name="adds" classname="org.acme.CartTest" time="1,234.5"/>
  <testcase name="flaky" classname="org.acme.CartTest" time="0.5">
    <flakyFailure message="expected 1" type="AssertionError"><stackTrace>at CartTest</stackTrace></flakyFailure>
  </testcase>
  <testcase name="dies" classname="org.acme.CartTest" time="0.1">
    <error message="boom" type="java.io.IOException">trace</error><rerunError message="boom" type="x"/>
  </testcase>
  <testcase name="later" classname="org.acme.CartTest" time="0"><skipped message="not yet"/></testcase>
</testsuite>"""
JEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="jest tests" tests="2" failures="1" errors="0" time="1.2">
  <testsuite name="cart" errors="0" failures="1" skipped="0" timestamp="2026-01-01T00:00:00" time="0.5" tests="2">
    <testcase classname="cart adds" name="cart adds" time="0.003"></testcase>
    <testcase classname="cart removes" name="cart removes" time="0.001"><failure>Error: x</failure></testcase>
  </testsuite>
</testsuites>"""
GO = """<testsuites tests="2" failures="0" skipped="1">
  <testsuite name="acme/cart" tests="2" failures="0" errors="0" id="0" skipped="1" time="0.010">
    <properties><property name="go.version" value="go1.22"></property></properties>
    <testcase name="TestAdd" classname="acme/cart" time="0.000"></testcase>
    <testcase name="TestSlow" classname="acme/cart" time="0.000"><skipped message="Skipped"><![CDATA[x]]></skipped></testcase>
  </testsuite>
</testsuites>"""
GTEST = """<testsuites tests="3" failures="1" disabled="1" errors="0" name="AllTests">
  <testsuite name="Cart" tests="3" failures="1" disabled="1" skipped="0" errors="0" time="0">
    <testcase name="A" status="run" result="completed" time="0" classname="Cart"/>
    <testcase name="B" status="run" result="completed" classname="Cart"><failure message="a"/><failure message="b"/></testcase>
    <testcase name="DISABLED_C" status="notrun" result="suppressed" time="0" classname="Cart"/>
  </testsuite>
</testsuites>"""


def _imported(tmp_path: Path, text: str) -> tuple[list[dict[str, Any]], Any]:
    path = tmp_path / "report.xml"
    path.write_text(text)
    assert takers(path) == ["junit"]
    return imported("junit", path)


def _passed(runs: list[dict[str, Any]]) -> list[Any]:
    return [run["gates"]["junit_passed"]["passed"] for run in runs]


def test_a_report_of_pytest_has_the_totals_that_pytest_printed() -> None:
    (made,) = json.loads((FOLDER / "made.json").read_text())
    runs, tally = imported("junit", FOLDER / "pytest.xml")
    assert takers(FOLDER / "pytest.xml") == ["junit"]
    assert (tally.samples, tally.passed) == (
        made["totals"]["samples"],
        made["totals"]["passed"],
    )
    assert tally.stated == made["totals"]
    assert _passed(runs) == [True, True, True, False, None, None, None, None]
    assert [run["status"] for run in runs[3:]] == ["success", *["error"] * 2, *["cancelled"] * 2]
    assert "sums < expected" in runs[3]["gates"]["junit_passed"]["reason"]
    assert runs[3]["dataset"]["sample_id"] == "test_sums.TestSums::test_wrong"
    assert any("skipped test is missing evidence" in note for note in tally.notes)


@pytest.mark.parametrize(
    ("text", "verdicts", "workflow"),
    [
        (SUREFIRE, [True, True, None, None], "org.acme.CartTest"),
        (JEST, [True, False], "jest tests"),
        (GO, [True, None], "acme/cart"),
        (GTEST, [True, False, None], "AllTests"),
    ],
)
def test_other_writers_give_the_counts_of_their_attributes(
    tmp_path: Path, text: Any, verdicts: Any, workflow: str
) -> None:
    runs, tally = _imported(tmp_path, text)
    assert _passed(runs) == verdicts
    assert {run["workflow"]["id"] for run in runs} == {workflow}
    assert tally.stated["passed"] == tally.passed == verdicts.count(True)
    assert [run["scores"]["passed"]["raw"] is None for run in runs] == [
        one is None for one in verdicts
    ]
    assert "s3cret" not in json.dumps(runs, default=str)


def test_a_flaky_test_has_the_share_of_its_attempts_as_score(tmp_path: Path) -> None:
    runs, tally = _imported(tmp_path, SUREFIRE)
    assert runs[1]["scores"]["passed"]["raw"] == Decimal("0.5")
    assert runs[1]["retries"] == 1
    assert runs[1]["tags"] == ["flaky"]
    assert runs[0]["latency_ms"] == 1234500
    assert any("share of attempts" in note for note in tally.notes)


@pytest.mark.parametrize("outer", ['<testsuites name="pytest tests">', "<testsuites>"])
def test_an_attempt_that_pytest_repeated_is_not_a_pass(tmp_path: Path, outer: str) -> None:
    # pytest-rerunfailures lists each failed attempt as a case without an element
    test = '<testcase classname="test_cart" name="test_%s" time="0.1"'
    text = f"""{outer}<testsuite name="pytest" errors="0" failures="1" skipped="0" tests="3">
      {test % "adds"} />{test % "flaky"} />{test % "flaky"}><system-out>again</system-out></testcase>
      {test % "fails"} />{test % "fails"} />{test % "fails"}><failure message="!">!</failure></testcase>
      </testsuite></testsuites>"""
    runs, tally = _imported(tmp_path, text)
    assert [run["dataset"]["sample_id"].rpartition("_")[2] for run in runs] == [
        *("adds", "flaky", "fails")
    ]
    assert [run["scores"]["passed"]["raw"] for run in runs] == [1, Decimal("0.5"), 0]
    assert [run.get("retries") for run in runs] == [None, 1, 2]
    assert tally.stated == {"samples": 3, "passed": 2}


def test_what_a_test_has_besides_is_never_a_pass(tmp_path: Path) -> None:
    """Names in another case or with a prefix are the same; an unknown one is missing evidence."""
    inner = {
        "<Failure message='no'/>": False,
        "<x:failure xmlns:x='urn:y' message='no'/>": False,
        "<ERROR/>": None,
        "<x:Skipped xmlns:x='urn:y'/>": None,
        "<crashed/>": None,
        "<wrapper><failure/></wrapper>": None,
        "<properties><property name='a' value='b'/></properties><attachments/>": True,
        "<system-out>x</system-out><System-Err>y</System-Err>": True,
        "<attachments><attachment name='a'/></attachments>": True,
        "<properties><failure message='no'/></properties>": False,
        "<properties><property><Error/></property></properties>": None,
        "<system-out><smoke/></system-out>": True,
        "<properties><property name='e'><item name='a.png'>x</item></property></properties>": True,
        "<properties><property><item><failure/></item></property></properties>": False,
    }
    cases = "".join(
        f"<testcase classname='c' name='t{number}'>{text}</testcase>"
        for number, text in enumerate(inner)
    )
    text = f"<testsuites><testsuite name='s' tests='15'>{cases}<TestCase name='t'/></testsuite>"
    runs, tally = _imported(tmp_path, f"{text}</testsuites>")
    assert _passed(runs) == [*inner.values(), True]
    statuses = ["success"] * 2 + ["error", "cancelled", "error", "error"] + ["success"] * 4
    statuses += ["error", "success", "success", "success", "success"]
    assert [run["status"] for run in runs] == statuses
    assert "<crashed>" in runs[4]["gates"]["junit_passed"]["reason"]
    assert [note.partition(" in ")[0] for note in tally.notes if "know <" in note] == [
        "Assay doesn't know <crashed>",
        "Assay doesn't know <wrapper>",
    ]


@pytest.mark.parametrize("key", ["status", "result"])
def test_a_status_that_nobody_knows_is_not_a_pass(tmp_path: Path, key: str) -> None:
    words = {"run": True, "Passed": True, "fail": False, "timeout": None, "inconclusive": None}
    cases = "".join(f"<testcase name='{word}' {key}='{word}'/>" for word in words)
    runs, _ = _imported(tmp_path, f"<testsuite name='s' tests='5'>{cases}</testsuite>")
    assert _passed(runs) == list(words.values())
    assert runs[3]["status"] == "error"
    assert "its status is 'timeout'" in runs[3]["gates"]["junit_passed"]["reason"]


@pytest.mark.parametrize(
    "stated", ['success="false"', 'executed="False"', 'outcome="Failed"', 'STATUS="failed"']
)
def test_an_attribute_that_states_a_failure_is_not_a_pass(tmp_path: Path, stated: str) -> None:
    cases = f'<testcase name="a" {stated}/><testcase name="b" success="True" executed="true"/>'
    runs, _ = _imported(tmp_path, f'<testsuite name="s">{cases}</testsuite>')
    assert _passed(runs) == [False, True]


def test_a_failure_of_a_whole_suite_is_a_sample_that_fails(tmp_path: Path) -> None:
    text = "<testsuite name='s' tests='1'{}><testcase name='a'/>{}</testsuite>"
    for attributes in ("", " errors='1' failures='0'", " errors='0' failures='0'"):
        crash = "<error message='the fixture crashed'><trace/></error>"
        runs, _ = _imported(tmp_path, text.format(attributes, crash))
        assert _passed(runs) == [True, None]
        assert runs[1]["dataset"]["sample_id"] == "s::<error>"
        assert "the fixture crashed" in runs[1]["gates"]["junit_passed"]["reason"]
    runs, _ = _imported(tmp_path, text.format("", "<failure/>"))
    assert _passed(runs) == [True, False]


def test_one_suite_that_counts_differently_leaves_the_others_importable(tmp_path: Path) -> None:
    """Pytest counts a test twice that passed and failed to clean up."""
    twice = SUREFIRE.replace('tests="4"', 'tests="5"').partition("?>")[2]
    text = f"<testsuites>{JEST.partition('<testsuites')[2].partition('>')[2]}"
    runs, tally = _imported(tmp_path, text.replace("</testsuites>", f"{twice}</testsuites>"))
    assert (len(runs), tally.stated) == (6, {})
    assert any("counts 5 tests and lists 4" in note for note in tally.notes)


@pytest.mark.parametrize("entity", ['"aaaa"', 'SYSTEM "file:///etc/hostname"'])
def test_a_document_type_is_named_as_the_reason(tmp_path: Path, entity: str) -> None:
    with pytest.raises(AssayError, match="DOCTYPE"):
        _imported(
            tmp_path,
            f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a {entity}>]>'
            '<testsuite tests="1"><testcase name="&a;"/></testsuite>',
        )


def test_a_case_that_stands_twice_is_two_attempts(tmp_path: Path) -> None:
    case = '<testcase name="t" classname="c"{}'
    runs, _ = _imported(
        tmp_path,
        f"<testsuite>{case.format('><failure/></testcase>')}{case.format('/>')}</testsuite>",
    )
    assert [run["attempt"] for run in runs] == [1, 2]
    assert _passed(runs) == [False, True]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (JEST.replace('failures="1" skipped', 'failures="2" skipped'), "`failures` and shows 1"),
        (SUREFIRE.replace('errors="1"', 'errors="2"'), "`errors` and shows 1"),
        (JEST.replace('failures="1" errors', 'failures="2" errors'), "'jest tests' counts 2"),
        (SUREFIRE.replace('tests="4"', 'tests="999999999"'), "counts 999,999,999 tests"),
        (SUREFIRE.replace(' name="later"', ""), "has no name"),
        (SUREFIRE.replace("<testsuite ", "<!DOCTYPE testsuite><testsuite "), "DOCTYPE"),
        (SUREFIRE[:-20], "cut off"),
        ("<testsuite/>\n<testsuite/>", "junk after"),
    ],
)
def test_tests_that_a_suite_counts_and_does_not_list_are_missing(
    tmp_path: Path, wrong: Any, words: Any
) -> None:
    runs, tally = _imported(tmp_path, JEST.replace('tests="2"', 'tests="4"'))
    assert _passed(runs) == [True, False, None, None]
    assert runs[3]["dataset"]["sample_id"] == "cart::missing-2"
    assert any("counts 4 tests and lists 2" in note for note in tally.notes)
    with pytest.raises(AssayError) as caught:
        _imported(tmp_path, wrong)
    assert words in str(caught.value)


def test_subtests_that_pass_are_not_missing(tmp_path: Path) -> None:
    """Pytest counts each subtest, and lists only those that fail."""
    test = tmp_path / "test_sums.py"
    report = tmp_path / "report.xml"
    bare = ("--disable-plugin-autoload", "-p", "no:cacheprovider")
    for limit, verdicts in ((9, [True, True]), (1, [False, True])):
        test.write_text(
            "def test_many(subtests):\n"
            "    for number in range(3):\n"
            "        with subtests.test(number=number):\n"
            f"            assert number < {limit}\n"
            "def test_one(): pass\n"
        )
        words = ["-q", *bare, str(test), f"--junitxml={report}"]
        subprocess.run(
            [sys.executable, "-m", "pytest", *words], cwd=tmp_path, check=False, capture_output=True
        )
        runs, tally = imported("junit", report)
        assert _passed(runs) == verdicts
        assert any("counts subtests" in note for note in tally.notes)
    cut = report.read_text().partition("<testcase")[0] + "</testsuite></testsuites>"
    with pytest.raises(AssayError, match="counts 3 in its attribute `failures` and shows 0"):
        _imported(tmp_path, cut)


def test_reports_of_several_classes_are_one_evaluation(tmp_path: Path) -> None:
    for name in "AB":
        (tmp_path / f"TEST-{name}.xml").write_text(SUREFIRE.replace("CartTest", name))
    runs, tally = imported("junit", *sorted(tmp_path.glob("*.xml")))
    assert {run["workflow"]["id"] for run in runs} == {"junit"}
    assert (len(runs), tally.stated) == (8, {"samples": 8, "passed": 4})


def test_one_of_several_reports_without_tests_is_not_success(tmp_path: Path) -> None:
    full, empty = tmp_path / "1.xml", tmp_path / "2.xml"
    full.write_text(SUREFIRE)
    empty.write_text('<testsuites><testsuite name="shard-2" tests="0"/></testsuites>')
    with pytest.raises(NotEnoughEvidence, match="the report has no tests"):
        imported("junit", full, empty)


def test_a_damaged_report_is_refused_in_words_or_read(tmp_path: Path) -> None:
    chance, path = random.Random(3), tmp_path / "report.xml"
    survived = 0
    for text in (SUREFIRE, GTEST) * 40:
        at, length = chance.randrange(len(text)), chance.choice((1, 1, 20))
        path.write_text(text[:at] + chance.choice(("", "<", '"', "9", "é")) + text[at + length :])
        survived += survives("junit", path)
    assert 0 < survived < 80
    for root in ("<html/>", "<testsuite><a/></testsuite>"):
        path.write_text(root)
        assert survives("junit", path) == root.startswith("<t")
