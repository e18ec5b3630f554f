"""Measures that count a judge's verdicts: which claims the retrieved passages support, and how much
of the expected answer they contain.

A missing verdict makes a measure undetermined: counting it as a no would blame the workflow for the
judge's silence, and leaving it out would reward a judge that skips hard claims. Measures that need
no judge are in `grounding`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assay import exact
from assay.exact import Ratio
from assay.records.evidence import Claim, Run
from assay.scoring.metrics.citations import is_cited, is_supported, retrieved, sourced
from assay.scoring.metrics.grounding import found_of_relevant
from assay.scoring.metrics.measure import Measure, Undetermined, shown

SEVERITY_WEIGHTS = {"none": 0, "low": 0.25, "medium": 0.5, "high": 1, "critical": 1}


def _check_judged(claims: Sequence[Claim], field: str) -> None:
    unjudged = sum(claim.supported is None for claim in claims)
    if unjudged:
        raise Undetermined(
            f"{unjudged} of {len(claims)} `{field}` were not judged (`supported` is null)"
        )


def _claims_supported(run: Run, _params: Mapping[str, Any]) -> Any:
    claims, citable = sourced(run)
    _check_judged(claims, "claims")
    # A yes without a passage behind it counts as a no: nobody could check it.
    supported = sum(claim.supported is True and is_cited(claim, citable) for claim in claims)
    return shown(Ratio(supported, len(claims)))


def _context_coverage(run: Run, _params: Mapping[str, Any]) -> Any:
    recall = found_of_relevant(run)
    if recall is not None:
        return shown(recall)
    claims = run.expected_claims
    if not claims:
        raise Undetermined(
            "nothing says what should have been found: there is no `expected.relevant_ids`, and no"
            " judge compared the expected answer with the passages (`expected_claims`)"
        )
    passages = retrieved(run)
    _check_judged(claims, "expected_claims")
    # without any retrieved passage nothing is supported, whatever the verdicts are
    supported = sum(claim.supported is True for claim in claims) if passages else 0
    return shown(Ratio(supported, len(claims)))


def _severity(run: Run, params: Mapping[str, Any]) -> Any:
    claims, citable = sourced(run)
    unsupported = [
        claim.severity
        for claim in claims
        if claim.supported is False and claim.severity is not None
    ]
    # the severity of a supported claim doesn't count
    supported = sum(is_supported(claim, citable) is True for claim in claims)
    unjudged = len(claims) - supported - len(unsupported)
    if unjudged:
        raise Undetermined(
            f"{unjudged} of {len(claims)} claims have no `supported`, cite no retrieved"
            " passage, or are unsupported and have no `severity`"
        )
    weights = {**SEVERITY_WEIGHTS, **params["weights"]}
    num, den = 0, 1
    for severity, count in Counter(unsupported).items():
        weight = exact.ratio(weights[severity])
        num, den = num * weight.den + count * weight.num * den, den * weight.den
    return shown(Ratio(len(claims) * den - num, len(claims) * den))


_RAGAS = "Es et al. 2023, RAGAS"

VERDICTS = (
    Measure(
        "claims_supported",
        "1",
        "Claims that the retrieved passages support",
        "share",
        "higher is better",
        "zero_one",
        (("claims[].supported", "claims[].citations", "retrieval"),),
        "undetermined, also where there are no claims or one was not judged",
        _claims_supported,
        citation=f"{_RAGAS} (faithfulness): supported claims of all claims in the answer",
        limits=(
            "Only as good as the verdicts and the list of claims. A claim that cites no retrieved"
            " passage counts as unsupported, whatever its verdict."
        ),
        reads_verdicts=True,
    ),
    Measure(
        "context_coverage",
        "1",
        "What should have been found and was: the relevant passages, or the statements of the"
        " expected answer",
        "share",
        "higher is better",
        "zero_one",
        (("retrieval[].id", "expected.relevant_ids"), ("expected_claims[].supported", "retrieval")),
        "undetermined; nothing retrieved is 0",
        _context_coverage,
        citation=f"{_RAGAS} (context recall): by ids, or statements of the reference answer that"
        " the context supports",
        limits=(
            "By ids, another passage that says the same is not found. By statements, it is only as"
            " good as the expected answer and the verdicts."
        ),
        reads_verdicts=True,
    ),
    Measure(
        "severity_weighted_support",
        "1",
        "1 less the mean severity of unsupported claims",
        "share",
        "higher is better",
        "zero_one",
        (("claims[].supported", "claims[].severity", "claims[].citations", "retrieval"),),
        "undetermined, also where a claim was not judged or cites no retrieved passage, or an"
        " unsupported one has no severity",
        _severity,
        params={"weights": SEVERITY_WEIGHTS},
        citation="Workflow Scoring & Evaluation Reference Guide, section 6, profile C; the weights"
        " are ours",
        limits=(
            "Only as good as the verdicts in the run. A mean hides one grave claim among many; the"
            " gate no_high_severity_hallucination does not."
        ),
        reads_verdicts=True,
    ),
)
