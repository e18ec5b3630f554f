"""Retrieval metrics of 10,000 queries x 100 documents against pytrec_eval, in one run: nDCG@10,
MAP, MRR and recall@100, a value for each query and each mean.

Each contender starts from the same dicts; a run in no order is measured too, and reading a run from
a file. The digits are compared, all 40,000 of them, before any time is. Needs `pip install
pytrec-eval-terrier`.
"""

from __future__ import annotations

import random
import sys
import tempfile

import pytrec_eval
from timing import functions, table

from assay.files.trec_files import read_run
from assay.scoring.metrics import retrieval

QUERIES, DEPTH, JUDGED, POOL = 10_000, 100, 30, 1_000
METRICS = ["ndcg_cut_10", "map", "recip_rank", "recall_100"]
PEER_METRICS = {"ndcg_cut.10", "map", "recip_rank", "recall.100"}


def made(*, seed: int) -> tuple[retrieval.Qrels, retrieval.Scores]:
    """Judgements, half of them of documents that are retrieved, and a run in rank order."""
    draw = random.Random(seed)
    qrels, run = {}, {}
    for query in range(QUERIES):
        documents = draw.sample(range(POOL), DEPTH)
        judged = [*draw.sample(documents, JUDGED // 2), *range(POOL, POOL + JUDGED // 2)]
        qrels[f"q{query}"] = {
            f"d{document}": draw.choices([0, 1, 2, 3], [4, 3, 2, 1])[0] for document in judged
        }
        run[f"q{query}"] = {
            f"d{document}": float(1000 - rank) for rank, document in enumerate(documents)
        }
    return qrels, run


def main() -> bool:
    qrels, run = made(seed=7)
    draw = random.Random(8)
    shuffled = {
        query: dict(draw.sample(list(scores.items()), DEPTH)) for query, scores in run.items()
    }
    peer = pytrec_eval.RelevanceEvaluator(qrels, PEER_METRICS)

    expected = peer.evaluate(run)
    for name, found in (
        ("in order", retrieval.evaluate(qrels, run, METRICS)),
        ("no order", retrieval.evaluate(qrels, shuffled, METRICS)),
    ):
        if found.queries != expected:
            raise SystemExit(f"{name}: not the digits of pytrec_eval")
    print(
        f"{QUERIES:,} queries x {len(METRICS)} values: every digit is pytrec_eval's, also from"
        " a run in no order"
    )

    times = functions(
        {
            "pytrec_eval": lambda: peer.evaluate(run),
            "assay": lambda: retrieval.evaluate(qrels, run, METRICS),
        },
        calls=1,
        rounds=15,
    )
    good = table(
        "From dicts in rank order",
        times,
        base="pytrec_eval",
        limits={"assay": 1.0},
    )
    times = functions(
        {
            "pytrec_eval": lambda: peer.evaluate(shuffled),
            "assay": lambda: retrieval.evaluate(qrels, shuffled, METRICS),
        },
        calls=1,
        rounds=15,
    )
    good = (
        table("From dicts in no order", times, base="pytrec_eval", limits={"assay": 1.0}) and good
    )
    with tempfile.NamedTemporaryFile("w", suffix=".run") as stream:
        for query, scores in run.items():
            stream.writelines(
                f"{query} Q0 {document} {rank} {score} bench\n"
                for rank, (document, score) in enumerate(scores.items(), 1)
            )
        stream.flush()

        def parsed() -> object:
            with open(stream.name, encoding="utf-8") as lines:
                return pytrec_eval.parse_run(lines)

        times = functions(
            {"pytrec_eval.parse_run": parsed, "assay": lambda: read_run(stream.name)},
            calls=1,
            rounds=3,
        )
    return (
        table(
            "Reading a run of 1,000,000 lines",
            times,
            base="pytrec_eval.parse_run",
            limits={"assay": 3.0},
        )
        and good
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
