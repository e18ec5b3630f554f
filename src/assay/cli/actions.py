"""The actions of the verbs that have many: for each, the module that runs it and what it does.

Plain data, like `verbs`.
"""

from __future__ import annotations

JUDGE = {
    "rubric": ("judge_rubric", "score texts against the criteria of a rubric"),
    "pairwise": ("judge_pairwise", "compare two answers to each task, in both orders"),
    "claims": ("judge_claims", "decide whether the retrieved context supports each claim of a run"),
    "passages": (
        "judge_claims",
        "decide which passages help, and what of the expected answer they contain",
    ),
    "panel": ("judge_rubric", "several judges on one rubric, by mean or by majority"),
    "audit": ("judge_audit", "measure a judge's biases, its repeatability and what it obeys"),
    "calibrate": (
        "judge_calibrate",
        "compare a judge's verdicts with human labels, and correct estimates by them",
    ),
    "card": (
        "judge_card",
        "one card for one judge: agreement, biases, price, and whether it may gate",
    ),
    "drift": ("judge_calibrate", "compare a judge's latest card with its own past"),
    "export": ("judge_files", "write the questions to files, to be answered elsewhere or later"),
    "ask": ("judge_ask", "answer a file of questions"),
    "consume": (
        "judge_files",
        "read answers that came from elsewhere, and turn them into judgements",
    ),
}

MEASURE = {
    "retrieval": (
        "measure",
        "ranked retrieval, as trec_eval measures it, from qrels and a run file",
    ),
    "pass-at-k": ("measure", "unbiased pass@k and pass^k from counts or attempts"),
    "tests": (
        "measure",
        "fail-to-pass and pass-to-pass, resolved full, partial or no, with three denominators",
    ),
    "tool-calls": (
        "measure",
        "tool calls against what was expected: selection, arguments, the verdicts of BFCL",
    ),
    "solutions": (
        "measure_code",
        "untrusted solutions run against their tests in the sandbox, and pass@k over them",
    ),
    "patch": (
        "measure_code",
        "whether patches apply cleanly to a tree, and how alike they are to a reference",
    ),
    "repair": (
        "measure_repair",
        "a patch judged by tests in the sandbox, each run without it and with it",
    ),
    "agreement": (
        "measure_raters",
        (
            "two or more raters of the same items: kappas, alpha, correlations,"
            " each with its interval"
        ),
    ),
    "pairwise": (
        "measure_raters",
        (
            "verdicts on pairs in both orders: consistency, win rate, accuracy,"
            " preference for a position"
        ),
    ),
    "text": (
        "measure",
        "answers against expected texts: exact, substring, word, numbers, edit similarity",
    ),
}

TOOLS = {
    "check": (
        "tools_check",
        "list what is wrong with a schema, a server or grading files, each with a fix",
    ),
    "validate": ("tools_check", "the same findings, as the exact report of rules"),
    "grade": (
        "tools_grade",
        "run the two deterministic stages: --emit-prompts, then --consume-scores FILE",
    ),
    "score": ("tools_score", "run the grader between them: one isolated request for each prompt"),
    "import": (
        "tools_tree",
        "put schemas and selections into a grading tree, each version next to the last",
    ),
    "record": ("tools_tree", "write a grading entry from an evaluator's answers"),
    "index": ("tools_index", "rebuild the indexes of a tree; --lock freezes a selection's members"),
    "status": (
        "tools_index",
        "show the tree of a namespace or selection: statuses, grades, blockers",
    ),
    "regrade": ("tools_tree", "grade again after a trigger, as far as that needs no grader"),
    "gate": (
        "tools_gate",
        "run the production gate: B or better, stable, no veto, clean validation",
    ),
    "export": (
        "tools_gate",
        "write a namespace or selection in its strict published form, into a new folder",
    ),
}

EXAM = {
    "grade": ("exam", "marks on the rubric's axes, the exam's score, a diagnosis"),
    "gate": ("exam_gate", "the hard gate, the regression check and the soft gates on graded exams"),
    "lint": (
        "exam_upkeep",
        "faults and traps of exam files, such as wrong forms that would be accepted",
    ),
    "break": (
        "exam",
        "mark again with a step of normalisation left out, and show the marks that are lost",
    ),
    "recalibrate": (
        "exam_upkeep",
        "what the weights of another rubric would have done to past exams",
    ),
    "export-sm2": (
        "exam_upkeep",
        "items, qualities and due dates for a spaced-repetition scheduler",
    ),
    "review": ("exam_review", "grade the items that are due in a schedule, and move the schedule"),
}
