"""The judge's part of an evaluation: it decides the claims and passages of each run and scores its
rubric, once the run is over.

A question without a verdict leaves its score missing, and the evaluation goes on: a judge that is
down, refuses or answers nonsense costs verdicts, never runs. Once the endpoint is known to be down,
only answers from the journal are used. The judge isn't asked about criteria that a scorer has
scored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from assay.errors import NotEnoughEvidence, count
from assay.files.json_files import Document
from assay.judging.claims_task import claims_of, judge_parts, judged_runs, passages_of, weighed_runs
from assay.judging.client import Client, JudgeAnswer, price_of, tokens_of
from assay.judging.config import JudgeSpec
from assay.judging.identity import rubric_name, scorer_of
from assay.judging.items import item_of, shown
from assay.judging.questions import RUBRIC_PROMPT, Question, RubricQuestion
from assay.judging.rubric_task import Judged, judge_rubric, questions_of, scored_runs
from assay.records.reading import read_run
from assay.scoring.rubric import Rubric
from assay.scoring.sources import EvidenceSource

SUPPORTED = "claims[].supported"
"""How a source names the verdicts on claims."""
WEIGHED = ("retrieval[].relevant", "expected_claims[].supported")
"""How a source names the verdicts on passages and expected answers."""
BY_RUBRIC = "judge rubric"
"""How a source names scores by a rubric."""
ANSWER_TOKENS = 400
"""The length that an estimate assumes for an answer, in tokens."""
LOOKED_AT = 50
"""Samples that an estimate is based on."""


class JudgeTask(NamedTuple):
    """What a judge is asked about every run."""

    rubric: Rubric | None
    criteria: tuple[str, ...]
    """The criteria of the rubric that count."""
    claims: bool
    """Whether the verdicts on claims count."""
    passages: bool = False
    """Whether the verdicts on passages and expected answers count."""

    def __bool__(self) -> bool:
        return bool(self.criteria) or self.claims or self.passages

    @property
    def needed_for(self) -> str:
        """What has no source without a judge."""
        parts = [", ".join(self.criteria)] if self.criteria else []
        verdicts = [name for name in ("claims", "passages") if getattr(self, name)]
        if verdicts:
            parts.append(f"the verdicts on {' and '.join(verdicts)}")
        return " and ".join(parts)


def task_of(sources: Sequence[EvidenceSource], rubric: Rubric | None) -> JudgeTask:
    """What a judge is asked, if these are the sources of a profile's evidence."""
    judged = [source for source in sources if source.kind == "judge"]
    return JudgeTask(
        rubric,
        tuple(source.id for source in judged if source.name == BY_RUBRIC),
        any(SUPPORTED in source.reads for source in judged),
        any(set(WEIGHED) & set(source.reads) for source in judged),
    )


class JudgeEstimate(NamedTuple):
    """The estimated cost of judging an evaluation, before its answers are known."""

    calls: int
    """Without questions about claims, which can't be counted before the runs."""
    input_tokens: int
    cost_usd: Decimal | None
    """With the longest replies; None without a price."""


def estimate(
    task: JudgeTask, spec: JudgeSpec | None, inputs: Sequence[Mapping[str, Any]], *, runs: int
) -> JudgeEstimate:
    """The estimate for this many runs on samples like these."""
    criteria = [] if task.rubric is None else task.rubric.criteria
    criteria_asked = [criterion for criterion in criteria if criterion.name in task.criteria]
    seen = inputs[:: max(1, len(inputs) // LOOKED_AT)][:LOOKED_AT]
    tokens = sum(
        (
            tokens_of(RubricQuestion(criterion, shown(dict(values)), "").messages("0" * 32))
            + ANSWER_TOKENS
            for values in seen
            for criterion in criteria_asked
        ),
        Decimal(0),
    )
    calls = runs * len(criteria_asked)
    total = math.ceil(tokens * runs / len(seen)) if seen else 0
    price = None if spec is None else spec.price
    cost = (
        None if spec is None or price is None else price_of(price, total, calls * spec.max_tokens)
    )
    return JudgeEstimate(calls, total, cost)


class JudgeStep:
    """Judges runs one by one. `counts` has the number of answers by outcome."""

    def __init__(self, task: JudgeTask, client: Client, *, max_calls: int | None = None) -> None:
        self.task = task
        self.client = client
        self.width = client.width
        """How many runs to work on at once."""
        self._max_calls = max_calls
        self._new = 0
        self.counts: Counter[str] = Counter()
        self.first_fault = ""
        """Why the first answer without a verdict has none."""
        self.down: NotEnoughEvidence | None = None
        """Why the judge is no longer asked."""

    @property
    def missing(self) -> int:
        """Questions without a verdict."""
        return self.counts.total() - self.counts["scored"]

    async def ask(self, question: Question, *, sample: int = 0) -> JudgeAnswer:
        """The answer to a question; an error if the judge is down."""
        answer: JudgeAnswer | None = None
        why = "" if self.client.has(question, sample=sample) else self._refusal()
        if not why:
            try:
                answer = await self.client.ask(question, sample=sample)
            except NotEnoughEvidence as error:
                self.down = error
                why = str(error)
        if answer is None:
            answer = JudgeAnswer("errored", None, why, "", False, False, None)
        self.counts[answer.outcome] += 1
        if answer.verdict is None:
            named = "" if answer.outcome == "unparsable" else f"{answer.outcome}: "
            self.first_fault = self.first_fault or f"{named}{answer.reason}"
        return answer

    def _refusal(self) -> str:
        """Why a new question may not be asked; empty if it may."""
        if self.down is not None:
            return str(self.down)
        if self._max_calls is not None and self._new >= self._max_calls:
            return f"the limit of {count(self._max_calls, 'question')} was reached (--max-calls)"
        self._new += 1
        return ""

    async def judge(self, run: dict[str, Any]) -> dict[str, Any]:
        """A run with the judge's verdicts in it, or with what is missing of them."""
        return await self._scored(await self._weighed(await self._decided(run)))

    async def _decided(self, run: dict[str, Any]) -> dict[str, Any]:
        item = item_of(read_run(Document(run, run["run_id"])))
        parts = claims_of([item]) if self.task.claims else []
        if not parts:
            return run
        answers = await judge_parts(self, parts)
        spec = self.client.spec
        return judged_runs([item], parts, answers, model=spec.model, version=spec.whole_version)[0]

    async def _weighed(self, run: dict[str, Any]) -> dict[str, Any]:
        if not self.task.passages:
            return run
        item = item_of(read_run(Document(run, run["run_id"])))
        parts = passages_of([item])
        answers = await judge_parts(self, parts)
        spec = self.client.spec
        return weighed_runs([item], parts, answers, model=spec.model, version=spec.whole_version)[0]

    async def _scored(self, run: dict[str, Any]) -> dict[str, Any]:
        rubric = self.task.rubric
        scores = run.get("scores") or {}
        wanted = [name for name in self.task.criteria if scores.get(name, {}).get("raw") is None]
        if rubric is None or not wanted:
            return run
        item = item_of(read_run(Document(run, run["run_id"])))
        judged = await judge_rubric(self, questions_of([item], rubric, only=wanted))
        scored = scored_runs(
            [item], judged, rubric, scorer=self._scorer(rubric, judged), replace=True
        )[0]
        faults = {item.criterion: item.why for item in judged if item.why is not None}
        if faults:
            scored["metadata"] = {**scored.get("metadata", {}), "judge_errors": faults}
        return scored

    def _scorer(self, rubric: Rubric, judged: Sequence[Judged]) -> dict[str, str | None]:
        models = Counter(
            answer.model for item in judged for answer in item.answers if answer.model is not None
        )
        return scorer_of(
            self.client.spec,
            prompt_version=RUBRIC_PROMPT,
            rubric=rubric_name(rubric),
            answered=models,
            samples=1,
            with_reference=False,
            examples=None,
        )
