"""Assay: the release gate for AI workflows. Evidence goes in; scores, a grade and a decision come
out.

The public names load when they are first used, so that `import assay` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from assay.api.comparing import gate, load, rehearse, summary
    from assay.api.evaluating import evaluate, run
    from assay.api.grading import explain, grade, score
    from assay.errors import AssayError, ExitCode
    from assay.families.batch.tables import grade_table
    from assay.grading.explain import Explanation
    from assay.records.evidence import Run, Verdict
    from assay.records.grade import Grade
    from assay.records.scorecard import Scorecard

__version__ = "0.1.0"
__all__ = [
    "AssayError",
    "ExitCode",
    "Explanation",
    "Grade",
    "Run",
    "Scorecard",
    "Verdict",
    "evaluate",
    "explain",
    "gate",
    "grade",
    "grade_table",
    "load",
    "rehearse",
    "run",
    "score",
    "summary",
]

_HOMES = {
    "AssayError": "assay.errors",
    "ExitCode": "assay.errors",
    "Explanation": "assay.grading.explain",
    "Grade": "assay.records.grade",
    "Run": "assay.records.evidence",
    "Scorecard": "assay.records.scorecard",
    "Verdict": "assay.records.evidence",
    "evaluate": "assay.api.evaluating",
    "explain": "assay.api.grading",
    "gate": "assay.api.comparing",
    "grade": "assay.api.grading",
    "load": "assay.api.comparing",
    "rehearse": "assay.api.comparing",
    "run": "assay.api.evaluating",
    "score": "assay.api.grading",
    "summary": "assay.api.comparing",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    from assay.registry import home_value

    if name in _HOMES:
        value = home_value(f"{_HOMES[name]}:{name}")
    else:
        from assay.family import shipped

        (home,) = (family.functions[name] for family in shipped() if name in family.functions)
        value = home_value(home)
    globals()[name] = value  # the next access finds it
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
