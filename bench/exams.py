"""Mark 100,000 answers to an exam, beside a plain loop that asks the same four questions.

The plain loop normalises both sides, looks for every form, checks a compiled schema and counts
words; it keeps a score an item and nothing else. Assay also keeps what was answered, finds
patterns, and writes the whole result. Two parts: marking alone, in one process; and the command
from file to file, start included. The number of marks is the same for both, or the run stops.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any
from unicodedata import normalize

import jsonschema_rs
import timing

from assay.families.exams.answers import Answer
from assay.families.exams.exam import Exam, make_exam
from assay.families.exams.marking import Marking, grade_exam
from assay.files.json_files import Document
from assay.library.shelf import Shelf

COUNT = 100_000
VERBS = (
    ("eat", "ate", "comió"),
    ("go", "went", "fue"),
    ("see", "saw", "vio"),
    ("write", "wrote", "escribió"),
    ("sing", "sang", "cantó"),
)
LOOP = """
import json, sys
from unicodedata import normalize
import jsonschema_rs
def plain(text):
    text = normalize("NFC", text).strip().lower()
    return text[:-1] if text.endswith(".") else text
exam = json.load(open(sys.argv[1], encoding="utf-8"))
schema = jsonschema_rs.Draft202012Validator(json.loads(sys.argv[3]))
items = {item["id"]: item for item in exam["items"]}
found = {}
for line in open(sys.argv[2], encoding="utf-8"):
    answer = json.loads(line)
    item, response = items[answer["item"]], answer["response"]
    got, gloss = plain(response["correction"]), plain(response["gloss"])
    found[item["id"]] = {
        "correctness": all(plain(form) in got for form in item["expected_contains"]),
        "spanish_gloss": all(plain(form) in gloss for form in item["gloss_contains"]),
        "schema": schema.is_valid(response),
        "conciseness": 0 < len(response["explanation"].split()) <= 30,
    }
with open(sys.argv[4], "w", encoding="utf-8") as stream:
    json.dump({"items": found, "score": sum(sum(marks.values()) for marks in found.values())}, stream)
"""


def make(count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An exam and its answers; every seventh is wrong in English, every eleventh too long."""
    items, answers = [], []
    for number in range(count):
        verb, past, gloss = VERBS[number % len(VERBS)]
        items.append(
            {
                "id": f"i{number}",
                "prompt": f"Correct: She {verb} it {number} days ago.",
                "expected_contains": [past, str(number)],
                "gloss_contains": [gloss],
                "verb": verb,
                "tense": "past-simple",
            }
        )
        response = {
            "correction": f" She {verb if number % 7 == 0 else past} it {number} days ago.",
            "gloss": f"Ella lo {gloss} hace {number} días.",
            "explanation": (
                f"'{past}' is the past simple of '{verb}'. "
                + "The day is named. " * (9 if number % 11 == 0 else 1)
            ),
        }
        answers.append(
            {"item": f"i{number}", "response": response, "latency_ms": 100 + number % 900}
        )
    return {"exam": "bench", "version": 1, "rubric": "tutor@1", "items": items}, answers


def normal(text: str) -> str:
    """The four steps, as a script would write them."""
    text = normalize("NFC", text).strip().lower()
    return text[:-1] if text.endswith(".") else text


def plain(exam: Exam, answers: dict[str, Answer], schema: Any, budget: int) -> int:
    """How many marks there are, by a plain loop."""
    marks = 0
    scores: dict[str, int] = {}
    for item in exam.items:
        response = answers[item.id].response
        got, gloss = normal(response["correction"]), normal(response["gloss"])
        score = all(normal(form) in got for form in item.wanted or ()) + all(
            normal(form) in gloss for form in item.gloss_contains or ()
        )
        score += schema.is_valid(response) + (0 < len(response["explanation"].split()) <= budget)
        scores[item.id] = score
        marks += score
    return marks


def main() -> int:
    """Both parts."""
    tree, lines = make(COUNT)
    exam = make_exam([Document(tree, "bench")])
    answers = {
        line["item"]: Answer(line["item"], line["response"], line["latency_ms"]) for line in lines
    }
    rubric = Shelf().rubric_of("exam", "tutor@1")
    marking = Marking(rubric)
    schema = jsonschema_rs.Draft202012Validator(rubric.answer_schema)
    ours = sum(one.bits.bit_count() for one in grade_exam(exam, answers, marking).marked)
    theirs = plain(exam, answers, schema, rubric.word_budget)
    if ours != theirs:
        raise SystemExit(f"the marks do not agree: {ours} and {theirs}")
    times = timing.functions(
        {
            "plain loop": lambda: plain(exam, answers, schema, rubric.word_budget),
            "marking": lambda: grade_exam(exam, answers, marking),
        },
        calls=1,
        rounds=5,
    )
    good = timing.table(
        f"{COUNT:,} answers, marked", times, base="plain loop", limits={"marking": 1.2}
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = {
            name: os.path.join(folder, name)
            for name in ("exam.json", "answers.jsonl", "ours.json", "theirs.json")
        }
        with open(paths["exam.json"], "w", encoding="utf-8") as stream:
            json.dump(tree, stream)
        with open(paths["answers.jsonl"], "w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in lines)
        loop = [
            sys.executable,
            "-c",
            LOOP,
            paths["exam.json"],
            paths["answers.jsonl"],
            json.dumps(rubric.answer_schema),
            paths["theirs.json"],
        ]
        ours_ = [
            sys.executable,
            "-m",
            "assay",
            "exam",
            "grade",
            paths["exam.json"],
            "--answers",
            paths["answers.jsonl"],
            "-o",
            paths["ours.json"],
        ]
        subprocess.run(ours_, stdout=subprocess.DEVNULL, check=True)
        found = timing.commands({"plain loop": loop, "assay exam grade": ours_}, rounds=3)
    return (
        0
        if timing.table(
            f"{COUNT:,} answers, from file to file",
            found,
            base="plain loop",
            limits={"assay exam grade": 2.5},
            unit="s",
        )
        and good
        else 1
    )


if __name__ == "__main__":
    started = time.perf_counter()
    sys.exit(main())
