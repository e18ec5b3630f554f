"""The SQL of answers about tools: one grade per subject, and the rejects.

A row with a fault never counts, and its subject has no grade. Everything is grouped by subject: the
levels below it (moments, questions) need no other shuffle once the rows are partitioned by subject.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.batch.engine import SourceColumn
from assay.batch.layout import ColumnFinder
from assay.batch.quoting import identifier, text
from assay.batch.row_faults import NO_RUN, OFF_SCALE, STRAY, TOO_PRECISE, TWO_VALUES, RowFault
from assay.batch.tool_answers import (
    MAX_TOTAL,
    MAX_WEIGHT,
    NOT_APPLICABLE,
    STALE,
    UNIT,
    ToolBatchPlan,
)
from assay.batch.typed_columns import (
    decimal_of,
    find_columns,
    is_text,
    listed,
    lookup,
    moment_of,
    no_id,
    text_of,
)

REQUIRED = ("subject", "question", "score", "weight", "tier")
NUMBERS = ("score", "weight")
OPTIONAL = ("veto", "cap", "timestamp", "determinism", "na_reason")
GRADE_COLUMNS = (
    "subject",
    "grade",
    "raw_grade",
    "passed",
    "reason",
    "mean",
    "tier",
    "max_attainable",
    "veto",
    "tier_capped",
    "group_capped",
    "size_capped",
    "unjudged",
    "answers",
    "stale",
    "excluded",
    "faults",
    "policy",
    "scoring_system",
    "grading_system",
)
"""The columns of a grade."""

BAD_TIER = RowFault(-50, "GRD-003", "there is no such tier")
BAD_CAP = RowFault(-51, "BAT-070", "the cap is not a letter of the policy")
BAD_VETO = RowFault(-52, "VET-001", "nothing of that name triggers a veto")
NOT_A_SCORE = RowFault(-53, "SCO-003", "neither a number from 1 to 5 nor a word that is a score")
NO_REASON = RowFault(-54, "NA-001", "n/a without one of the reasons for it")
BAD_DETERMINISM = RowFault(-55, "GRD-011", "neither deterministic nor non-deterministic")
BAD_WEIGHT = RowFault(-56, "SCO-004", "the weight is not a number of at least 0")
BIG_WEIGHT = RowFault(-57, "BAT-071", f"the weight is above {MAX_WEIGHT} or has over 6 decimals")
BAD_MOMENT = RowFault(-58, "BAT-072", "the timestamp is not a time with a zone")
TWO_ANSWERS = RowFault(-59, "BAT-073", "the newest answers to the question contradict each other")
NO_TIER = RowFault(-60, "GRD-003", "no row of the subject has a tier")
TWO_TIERS = RowFault(-61, "BAT-074", "the rows of the subject have several tiers or several caps")
BIG_TOTAL = RowFault(-62, "BAT-071", f"the weights of the subject add up to more than {MAX_TOTAL}")

FAULTS = (
    NO_RUN,
    OFF_SCALE,
    STRAY,
    TOO_PRECISE,
    BAD_TIER,
    BAD_CAP,
    BAD_VETO,
    NOT_A_SCORE,
    NO_REASON,
    BAD_DETERMINISM,
    BAD_WEIGHT,
    BIG_WEIGHT,
    BAD_MOMENT,
    TWO_ANSWERS,
    NO_TIER,
    TWO_TIERS,
    BIG_TOTAL,
    TWO_VALUES,
)
_SHIFT = 1 << 24
"""A packed answer is weight * _SHIFT + score * 2 + judged: one number in 64 bits, so that the
newest answer is one aggregate.
"""


class ToolAnswersQuery:
    """The queries of a plan over a view."""

    def __init__(
        self,
        plan: ToolBatchPlan,
        view: str,
        columns: Sequence[SourceColumn],
        *,
        names: Mapping[str, str],
        keep: Sequence[str] = (),
    ) -> None:
        self.plan = plan
        self._view = identifier(view)
        finder = ColumnFinder(columns, names, roles=(*REQUIRED, *OPTIONAL), taken=GRADE_COLUMNS)
        self._columns = find_columns(finder, required=REQUIRED, optional=OPTIONAL)
        self._keep = [finder.kept(name) for name in keep]
        self.unused = finder.unused()
        self._rank = {letter: place for place, letter in enumerate(plan.letters)}

    def grades(self) -> str:
        """One row per subject."""
        plan, rank = self.plan, self._rank
        passes = rank[plan.passes_from]
        best = lookup("tier", {text(tier): text(cap) for tier, cap in plan.caps.items()})
        kept = [
            f" CASE WHEN kept{i} = other{i} THEN kept{i} END AS {identifier(column.name)},"
            for i, column in enumerate(self._keep)
        ]
        return f"""{self._subjects()}
SELECT subject,{"".join(kept)}
  CASE WHEN sound AND veto IS NOT NULL THEN {text(plan.rejected)} ELSE {self._letter("place")} END
    AS grade,
  {self._letter("raw_place")} AS raw_grade, coalesce(place <= {passes}, FALSE) AS passed,
  CASE WHEN NOT sound THEN 'invalid_evidence' WHEN veto IS NOT NULL THEN 'veto'
    WHEN place IS NULL THEN 'no_scorable_answers' WHEN place <= {passes} THEN 'passed'
    ELSE 'below_passing_grade' END AS reason,
  mean / 1e12 AS mean, CASE WHEN sound THEN tier END AS tier,
  CASE WHEN sound THEN {best} END AS max_attainable,
  {lookup("veto", {str(place): text(name) for place, name in enumerate(plan.triggers)})} AS veto,
  raw_place < tier_place AS tier_capped, tier_capped_place < bound_place AS group_capped,
  bound_place < place AS size_capped, place <= {rank[plan.judged_from]} AND NOT judged AS unjudged,
  answers, stale, excluded, faults + unclear + unfit + clashes AS faults,
  {text(plan.policy)} AS policy, {text(plan.scoring_system)} AS scoring_system,
  {text(plan.grading_system)} AS grading_system
FROM places"""

    def rejects(self) -> str:
        """Every row that doesn't count and why, every question whose newest answer is unclear, and
        every subject that can't be graded as a whole.
        """
        code = lookup("fault", {str(fault.number): text(fault.code) for fault in FAULTS})
        reason = lookup("fault", {str(fault.number): text(fault.reason) for fault in FAULTS})
        kept = [
            f" UNION ALL SELECT subject, NULL, CAST(kept{i} AS VARCHAR), NULL, {TWO_VALUES.number}"
            f" FROM places WHERE kept{i} <> other{i}"
            for i in range(len(self._keep))
        ]
        return f"""{self._subjects()},
refused AS (
  SELECT subject, question, score, weight, fault FROM given WHERE fault IS NOT NULL
  UNION ALL
  SELECT subject, question, NULL, NULL, {TWO_ANSWERS.number} FROM answers WHERE low <> high
  UNION ALL
  SELECT subject, NULL, NULL, NULL, unfit_fault FROM places WHERE unfit_fault IS NOT NULL
  {"".join(kept)}
)
SELECT subject, question, score, weight, {code} AS code, {reason} AS reason FROM refused"""

    def _letter(self, place: str) -> str:
        return lookup(place, {str(rank): text(letter) for letter, rank in self._rank.items()})

    def _given(self) -> str:
        """Every row with its fault, or packed: weight, score and whether a judge gave it."""
        plan, columns = self.plan, self._columns
        score, moment = columns["score"], columns.get("timestamp")
        # a word keeps its quotation marks in JSON, and a quoted number is not a number there
        quote = '"{}"'.format if score.type == "JSON" else str
        worth = dict(plan.worth) | {
            word: STALE if word == plan.stale else NOT_APPLICABLE for word in plan.excluded
        }
        needy = [text(quote(word)) for word in plan.excluded if word != plan.stale]
        words = {text(quote(word)): units for word, units in worth.items()}
        names = [name for name in (*REQUIRED, *OPTIONAL) if name != "timestamp"]
        value, weight = decimal_of(score), decimal_of(columns["weight"])
        texts = listed(f"{text_of(columns.get(name))} AS {name}" for name in names)
        kept = "".join(
            f", {identifier(column.name)} AS kept{i}" for i, column in enumerate(self._keep)
        )
        held = "".join(f" kept{i}," for i in range(len(self._keep)))
        return f"""typed AS (
  SELECT {texts}, {value.value} AS value, {value.is_long} AS is_long, {weight.value} AS heavy,
    {weight.is_long} AS is_long_weight,
    {text_of(moment)} AS moment_text, {moment_of(moment)} AS moment{kept}
  FROM {self._view}
),
scaled AS (
  SELECT *, coalesce(score IN ({listed(words)}), FALSE){"" if is_text(score) else " AND FALSE"}
      AS is_word,
    CASE WHEN value BETWEEN {plan.lowest} AND {plan.highest}
      THEN CAST(round(value * {UNIT}e0) AS BIGINT) END AS units,
    CASE WHEN heavy BETWEEN 0 AND {MAX_WEIGHT}
      THEN CAST(round(heavy * {UNIT}e0) AS BIGINT) END AS weight_units
  FROM typed
),
checked AS (
  SELECT *, CASE {self._faults(needy)} END AS fault FROM scaled
),
given AS (
  SELECT subject, question, score, weight, moment, fault, tier, cap,{held}
    {lookup("veto", {text(name): place for place, name in enumerate(plan.triggers)})} AS veto,
    CASE WHEN fault IS NULL AND question IS NOT NULL THEN weight_units * {_SHIFT}
      + 2 * {lookup("score", dict(words), "units")}
      + CASE WHEN determinism = {text(plan.judged[1])} THEN 1 ELSE 0 END END AS packed
  FROM checked
)"""

    def _faults(self, needy: list[str]) -> str:
        """What is wrong with a row, the first thing first."""
        plan = self.plan
        checks: dict[str, RowFault | None] = {
            no_id("subject"): NO_RUN,
            f"NOT tier IN ({listed(map(text, plan.caps))})": BAD_TIER,
            f"NOT cap IN ({listed(map(text, plan.letters))})": BAD_CAP,
            f"NOT veto IN ({listed(map(text, plan.triggers))})": BAD_VETO,
            "question IS NULL AND (score IS NOT NULL OR weight IS NOT NULL)": STRAY,
            "question IS NULL": None,
            "NOT is_word AND value IS NULL AND is_long": TOO_PRECISE,
            "NOT is_word AND value IS NULL": NOT_A_SCORE,
            "NOT is_word AND units IS NULL": OFF_SCALE,
            f"NOT is_word AND units / {UNIT}e0 <> value": TOO_PRECISE,
            f"score IN ({listed(needy)}) AND (na_reason IS NULL"
            f" OR NOT na_reason IN ({listed(map(text, plan.reasons))}))": NO_REASON,
            "(heavy IS NULL AND NOT is_long_weight) OR heavy < 0": BAD_WEIGHT,
            f"weight_units IS NULL OR weight_units / {UNIT}e0 <> heavy": BIG_WEIGHT,
        }
        if "determinism" in self._columns:
            known = listed(map(text, plan.judged))
            checks[f"determinism IS NULL OR NOT determinism IN ({known})"] = BAD_DETERMINISM
        checks["moment IS NULL AND moment_text IS NOT NULL"] = BAD_MOMENT
        return " ".join(
            f"WHEN {check} THEN {fault.number if fault else 'NULL'}"
            for check, fault in checks.items()
        )

    def _subjects(self) -> str:
        """From rows to the place of each subject among the letters."""
        plan, rank = self.plan, self._rank
        raw = " ".join(
            f"WHEN top >= {edge} * total THEN {place}" for place, edge in enumerate(plan.edges)
        )
        tiers = {text(tier): rank[cap] for tier, cap in plan.caps.items()}
        caps = {text(letter): place for letter, place in rank.items()}
        group_cap = rank[plan.group_cap]
        kept = range(len(self._keep))
        low = "".join(f", min(kept{i}) AS kept{i}, max(kept{i}) AS other{i}" for i in kept)
        high = "".join(f", min(kept{i}) AS kept{i}, max(other{i}) AS other{i}" for i in kept)
        clashes = [f"CASE WHEN kept{i} <> other{i} THEN 1 ELSE 0 END" for i in kept]
        clash = " + ".join(["0", *clashes])
        bound = f"NOT {folded_question('question')} IN ({listed(map(text, plan.unbound))})"
        return f"""WITH {self._given()},
moments AS (
  SELECT subject, question, moment, min(packed) AS low, max(packed) AS high,
    count(fault) AS faults, min(tier) AS tier, max(tier) AS other_tier, min(cap) AS cap,
    max(cap) AS other_cap, min(veto) AS veto{low}
  FROM given GROUP BY subject, question, moment
),
questions AS (
  SELECT subject, question, coalesce(arg_max(low, moment), max(low)) AS low,
    coalesce(arg_max(high, moment), max(high)) AS high, sum(faults) AS faults,
    min(tier) AS tier, max(other_tier) AS other_tier, min(cap) AS cap,
    max(other_cap) AS other_cap, min(veto) AS veto{high}
  FROM moments GROUP BY subject, question
),
answers AS (
  SELECT *, low // {_SHIFT} AS weight, low % {_SHIFT} // 2 AS score, low % 2 AS judged,
    low % {_SHIFT} // 2 > {NOT_APPLICABLE} AS counts,
    low >= {_SHIFT} AND {bound} AS bound
  FROM questions
),
subjects AS (
  SELECT subject,
    CAST(sum(CASE WHEN counts THEN 1 ELSE 0 END) AS BIGINT) AS answers,
    CAST(sum(CASE WHEN score = {STALE} THEN 1 ELSE 0 END) AS BIGINT) AS stale,
    CAST(sum(CASE WHEN NOT counts THEN 1 ELSE 0 END) AS BIGINT) AS excluded,
    sum(CAST(CASE WHEN counts THEN weight ELSE 0 END AS DECIMAL(19, 0))) AS all_weight,
    sum(CAST(CASE WHEN counts THEN weight * score ELSE 0 END AS DECIMAL(19, 0))) AS all_top,
    max(CASE WHEN counts AND bound THEN 1 ELSE 0 END) = 1 AS group_bound,
    max(CASE WHEN counts THEN judged ELSE 0 END) = 1 AS judged,
    CAST(sum(CASE WHEN low <> high THEN 1 ELSE 0 END) AS BIGINT) AS unclear,
    CAST(sum(faults) AS BIGINT) AS faults, min(tier) AS tier, max(other_tier) AS other_tier,
    min(cap) AS cap, max(other_cap) AS other_cap, min(veto) AS veto{high}
  FROM answers GROUP BY subject
),
fitting AS (
  SELECT *, {clash} AS clashes,
    CASE WHEN faults > 0 THEN NULL WHEN tier IS NULL THEN {NO_TIER.number}
    WHEN tier <> other_tier OR cap <> other_cap THEN {TWO_TIERS.number}
    WHEN all_weight > {MAX_TOTAL * UNIT} THEN {BIG_TOTAL.number} END AS unfit_fault
  FROM subjects
),
valid AS (
  SELECT *, CASE WHEN unfit_fault IS NULL THEN 0 ELSE 1 END AS unfit,
    faults = 0 AND unclear = 0 AND unfit_fault IS NULL AND clashes = 0 AS sound
  FROM fitting
),
sums AS (
  SELECT *, {lookup("tier", tiers)} AS tier_place, {lookup("cap", caps, "0")} AS cap_place,
    CASE WHEN sound AND veto IS NULL AND all_weight > 0 THEN CAST(all_weight AS BIGINT) END
      AS total,
    CASE WHEN sound AND veto IS NULL AND all_weight > 0 THEN CAST(all_top AS BIGINT) END AS top
  FROM valid
),
means AS (
  SELECT *, CASE {raw} END AS raw_place,
    top // total * {UNIT} + (2 * {UNIT} * (top % total) + total) // (2 * total) AS mean
  FROM sums
),
tiers AS (
  SELECT *, CASE WHEN raw_place < tier_place THEN tier_place ELSE raw_place END
    AS tier_capped_place
  FROM means
),
bounds AS (
  SELECT *, CASE WHEN tier = {text(plan.group_tier)} AND NOT group_bound
      AND tier_capped_place <= {rank[plan.group_from]} AND tier_capped_place < {group_cap}
    THEN {group_cap} ELSE tier_capped_place END AS bound_place
  FROM tiers
),
places AS (
  SELECT *, CASE WHEN bound_place < cap_place THEN cap_place ELSE bound_place END AS place
  FROM bounds
)"""


def folded_question(question: str) -> str:
    """A question as its dimension is recognised: without `Q-`, in lower case, only letters and
    digits. Two letters outside ASCII have a lower case inside it; engines differ on them.
    """
    bare = (
        f"CASE WHEN starts_with({question}, 'Q-') THEN substring({question}, 3) ELSE {question} END"
    )
    ascii_only = f"translate({bare}, '\u212a\u0130', 'ki')"
    return f"regexp_replace(lower({ascii_only}), '[^a-z0-9]', '', 'g')"
