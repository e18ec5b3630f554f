"""Measuring judges: their cards, audits, calibration and drift, and the labels of people."""

from __future__ import annotations

from assay.family import Family, Verb

_VERBS = "assay.families.judges.verbs"
_RATERS = "assay.families.judges.raters"

_JUDGE = {
    "rubric": (_VERBS, "score texts against the criteria of a rubric"),
    "pairwise": (_VERBS, "compare two answers to each task, in both orders"),
    "claims": (_VERBS, "decide whether the retrieved context supports each claim of a run"),
    "passages": (
        _VERBS,
        "decide which passages help, and how much of the expected answer they contain",
    ),
    "panel": (_VERBS, "ask several judges by one rubric, and take their mean or majority"),
    "audit": (
        _VERBS,
        "measure a judge's biases, its consistency and which injections it obeys",
    ),
    "calibrate": (
        _VERBS,
        "compare a judge's verdicts with human labels, and correct its estimates",
    ),
    "card": (
        _VERBS,
        "make a judge's card: agreement, biases, price, and whether it may gate",
    ),
    "drift": (_VERBS, "compare a judge's latest card with its earlier ones"),
}

FAMILY = Family(
    "judges",
    "Judges, measured: cards, audits, drift and people's labels",
    verbs={
        "judges and metrics": {
            "judge": Verb(
                _VERBS,
                "score with model judges, and measure their bias, calibration and drift",
                actions=_JUDGE,
                description="Score with model judges, and measure how far to trust them.",
                example=(
                    "assay judge rubric runs.jsonl --rubric rag --model m-1 --base-url"
                    " http://127.0.0.1:8080/v1 -o judged.jsonl"
                ),
                left="answered questions are in the journal and are not asked again",
            ),
            "label": Verb(
                _VERBS,
                "draw samples for people to label, and show how well they agree",
                actions={
                    "new": (_VERBS, "draw a set of samples, or of pairs, from stored evaluations"),
                    "list": (_VERBS, "list the sets, with each rater's progress"),
                    "show": (_VERBS, "show the agreement, disagreements and comments of a set"),
                    "export": (_VERBS, "write labels and verdicts as files for other verbs"),
                    "override": (
                        _VERBS,
                        "record your own verdict; the grade does not change",
                    ),
                },
                description="Collect labels from people. Labels calibrate judges; they never"
                " open a gate.",
                example="assay label new latest --n 50",
            ),
        }
    },
    actions={
        "measure": {
            "agreement": (
                _RATERS,
                (
                    "compare two or more raters of the same items: kappas, alpha, correlations,"
                    " each with its interval"
                ),
            ),
            "pairwise": (
                _RATERS,
                (
                    "summarise verdicts on pairs in both orders: consistency, win rate, accuracy,"
                    " position bias"
                ),
            ),
        }
    },
    served="assay.families.judges.pages:SERVED",
    documents="assay.families.judges.records:DOCUMENTS",
    demo="assay.families.judges.demo:part",
    checks="assay.families.judges.labelling:label_faults",
)
