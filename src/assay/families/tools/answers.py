"""Answers: one question, one grader, one score. What a score may be, what it is worth, and what
counts.

A score is a number from 1 to 5, or one of four words. `pass` and `fail` are worth what the policy
says; `n/a` and `stale` have no value and don't count: they are in neither the numerator nor the
denominator. A missing answer is never replaced by a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from assay import exact
from assay.errors import InputError
from assay.families.tools.names import DETERMINISTIC, NON_DETERMINISTIC
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import GradedAnswer
from assay.records.typed import convert

WORDS = ("pass", "fail", "stale", "n/a")
EXCLUDED = ("stale", "n/a")
LOWEST, HIGHEST = 1, 5
GRADER_KINDS = ("llm", "human", "script")

NA_REASONS = (
    "not-applicable-to-tool-type",
    "requires-private-data",
    "blocked-by-precondition",
    "out-of-scope-resource",
    "out-of-scope-prompt",
    "out-of-scope-procedure",
)
"""Why a question was not answered. The list is closed: a new reason needs a new specification."""

TRANSPORT_DIMENSIONS = ("whenToUse", "parameters")
MOOT = "whenToUse"
"""The one that does not apply to an MCP server without instructions: there is no text to score."""
DIMENSIONS = (
    *TRANSPORT_DIMENSIONS,
    "apiAvailability",
    "personaUseCaseFit",
    "domainConformance",
    "tosMatch",
    "legalAssessment",
    "securityScore",
    "formattingCompliance",
    "outputSchemaConformance",
    "descriptionNeutrality",
    "completeness",
    "aboutConventionCompliance",
    "namespaceSkillValidity",
    "selectionSkillL1",
    "selectionSkillL2",
    "selectionSkillL3",
)
LEGACY_DIMENSIONS = ("S1-Coverage", "S2-PersonaFit", "S3-SkillAdequacy", "S4-DomainDocAlignment")

AUTONOMOUS_DIMENSIONS = frozenset(DIMENSIONS) - {
    "personaUseCaseFit",
    "domainConformance",
    "selectionSkillL1",
    "selectionSkillL2",
    "selectionSkillL3",
}
"""Dimensions that say nothing about a group: they alone never carry an A."""

TECHNICAL_PERSONAS = ("security-reviewer", "api-integration-engineer", "documentation-dx-reviewer")
"""Technical reviewers; they never represent the users that an answer is given for."""

LEGAL_DISCLAIMER = "grader assessment, not legally binding"

_FOLD = re.compile(r"[^a-z0-9]")


def dimension_of(question_id: str) -> str | None:
    """The dimension a question asks about, where its id says so: `Q-api-availability` and
    `Q-apiAvailability` are one. None otherwise.

    >>> dimension_of("Q-api-availability"), dimension_of("Q-single-test-04")
    ('apiAvailability', None)
    """
    return _BY_FOLD.get(folded(question_id.removeprefix("Q-")))


def folded(name: str) -> str:
    """A name in lower case, only its letters and digits."""
    return _FOLD.sub("", name.lower())


_BY_FOLD = {folded(name): name for name in (*DIMENSIONS, *LEGACY_DIMENSIONS)}


def check_score(score: object) -> None:
    """Raise an error that explains why a value is not a score."""
    if isinstance(score, str):
        if score not in WORDS:
            raise InputError(
                "SCO-003",
                f"{score!r} is not a score.",
                fix=(
                    "A score is a number from 1 to 5, or pass, fail, stale or n/a; write a number"
                    " without quotes."
                ),
            )
        return
    try:
        value = exact.ratio(score)
    except ValueError as error:
        code = (
            "SCO-001"
            if isinstance(score, float | Decimal | int) and not isinstance(score, bool)
            else "SCO-003"
        )
        raise InputError(
            code, f"{error}.", fix="A score is a number from 1 to 5, or pass, fail, stale or n/a."
        ) from None
    if not LOWEST * value.den <= value.num <= HIGHEST * value.den:
        raise InputError(
            "SCO-001", f"the score {score} is outside 1 to 5.", fix="It is refused, not clamped."
        )


def check_weight(weight: object) -> exact.Ratio:
    """A weight of at least 0; 0 is allowed and contributes nothing."""
    try:
        value = exact.ratio(weight)
    except ValueError as error:
        raise InputError("SCO-004", f"the weight must be a number; {error}.") from None
    if value.num < 0:
        raise InputError(
            "SCO-004", f"the weight {weight} is negative.", fix="A weight is 0 or more."
        )
    return value


def check_na(score: object, reason: object) -> None:
    """`n/a` needs one of the six reasons; free text is none."""
    check_score(score)
    if score == "n/a" and reason not in NA_REASONS:
        given = "no reason" if reason is None else f"the reason {reason!r}"
        raise InputError(
            "NA-001", f"n/a is given with {given}.", fix=f"Give one of {', '.join(NA_REASONS)}."
        )


def check_answer(answer: Mapping[str, Any]) -> None:
    """What an answer must have by its score and its determinism, in the order in which the first
    fault is reported.
    """
    check_na(answer.get("score"), answer.get("naReason"))
    determinism = answer.get("determinism")
    if determinism not in (DETERMINISTIC, NON_DETERMINISTIC):
        raise InputError(
            "GRD-011", f"{determinism!r} is neither '{DETERMINISTIC}' nor '{NON_DETERMINISTIC}'."
        )
    if determinism == NON_DETERMINISTIC:
        context = answer.get("selectionContext")
        context = context if isinstance(context, dict) else {}
        personas = context.get("personaIds")
        if (
            not isinstance(personas, list)
            or not personas
            or not all(isinstance(name, str) and name for name in personas)
        ):
            raise InputError(
                "GRD-005",
                "a non-deterministic answer names no persona.",
                fix='Give selectionContext.personaIds; a neutral area has ["neutral"].',
            )
        if all(name in TECHNICAL_PERSONAS for name in personas):
            raise InputError(
                "GRD-005",
                f"{', '.join(personas)} reviews technique and doesn't represent a user.",
                fix="Name a persona of the users; a neutral area has neutral.",
            )
        if not isinstance(context.get("groupId"), str) or not context["groupId"]:
            raise InputError(
                "GRD-012",
                "a non-deterministic answer names no group.",
                fix="Give selectionContext.groupId; a neutral area has its own name.",
            )


def read_answers(given: Iterable[Mapping[str, Any]]) -> list[GradedAnswer]:
    """Answers as records, or the first fault."""
    read = []
    for index, answer in enumerate(given):
        question = answer.get("questionId")
        try:
            check_answer(answer)
        except InputError as error:
            raise InputError(error.code, f"{question}: {error.message}", fix=error.fix) from None
        grader = answer.get("graderIdentity")
        if isinstance(grader, dict) and grader.get("kind") == "llm" and not answer.get("llmModel"):
            raise InputError(
                "GRD-007", f"{question}: a model answered and is not named.", fix="Give llmModel."
            )
        try:
            read.append(convert(answer, GradedAnswer))
        except msgspec.ValidationError as error:
            raise InputError("GRD-020", f"gradings[{index}]: {error}") from None
        if lacks_disclaimer(read[-1]):
            raise InputError(
                "GRD-021",
                f"{question}: an opinion on terms lacks its disclaimer.",
                fix=f'Add "{LEGAL_DISCLAIMER}" to its reasoning.',
            )
    return read


def lacks_disclaimer(answer: GradedAnswer) -> bool:
    """Whether an answer gives an opinion on terms without saying that it binds nobody."""
    legal = dimension_of(answer.question_id) == "legalAssessment" and answer.score != "n/a"
    return legal and LEGAL_DISCLAIMER not in f"{answer.reasoning} {answer.evidence}"


class Mean(NamedTuple):
    """A weighted sum over the answers that count."""

    total: Fraction
    weight: Fraction
    stale: int

    @property
    def value(self) -> Fraction | None:
        """The mean; None if nothing counts."""
        return self.total / self.weight if self.weight else None


def weighted_mean(answers: Iterable[tuple[object, object]], rules: SchemaRules) -> Mean:
    """The exact weighted mean of (score, weight) pairs, without those that do not count."""
    total = weights = Fraction(0)
    stale = 0
    for score, weight in answers:
        check_score(score)
        share = Fraction(*check_weight(weight))
        if score in EXCLUDED:
            stale += score == "stale"
            continue
        total += share * Fraction(*rules.worth(score))
        weights += share
    return Mean(total, weights, stale)


def shown(value: Fraction | None) -> Any:
    """An exact quotient as a JSON number: every digit where a decimal has an end, the nearest
    double where it has none.

    >>> shown(Fraction(15, 4)), shown(Fraction(11, 3)), shown(Fraction(5))
    (Decimal('3.75'), 3.6666666666666665, 5)
    """
    if value is None or value.denominator == 1:
        return None if value is None else value.numerator
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1 or value.denominator > 10**30:
        return float(value)
    return _ALL_DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(
        _ALL_DIGITS
    )


_ALL_DIGITS = Context(prec=200)


# --- HTTP


def http_score(status: object) -> str:
    """The score of an HTTP answer: only 200 passes; 401 and 403 are not proof that a key would
    work.

    >>> http_score(200), http_score(403)
    ('pass', 'fail')
    """
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        raise InputError("SCO-021", f"{status!r} is not an HTTP status.")
    return "pass" if status == 200 else "fail"


def terms_score(status: object) -> str:
    """The score of a link to terms: one that does not answer says nothing about the terms, so it is
    stale, never fail.

    >>> terms_score(200), terms_score(404)
    ('pass', 'stale')
    """
    return "pass" if http_score(status) == "pass" else "stale"


def http_fault(answer: GradedAnswer) -> str | None:
    """How a stored answer contradicts the HTTP status in its own evidence; None if it doesn't."""
    status = answer.evidence.get("httpStatus") if isinstance(answer.evidence, dict) else None
    if str(status) in ("None", "200") or answer.score in ("fail", "stale", 1):
        return None
    return f"{answer.question_id}: HTTP {status} is scored {answer.score}, and only 200 passes."
