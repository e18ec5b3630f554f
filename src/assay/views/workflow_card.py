"""A workflow on one card: its last evaluations and their trend, what the newest is compared with,
the last decision, and what fails most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import count
from assay.records.evaluation import (
    Evaluation,
    EvaluationTotals,
    LastDecision,
    WorkflowBaseline,
    graded_by,
)
from assay.views.blocks import (
    Column,
    Empty,
    Facts,
    Figure,
    Group,
    Note,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    section,
)
from assay.views.charts import Chart
from assay.views.charts.evaluations import EvaluationPoint, pass_rates
from assay.views.decision import decided
from assay.views.evaluation import unchecked, versioned
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    coded,
    line,
    link,
    moment,
    number,
    phrase,
    shown,
    small,
    verdict,
)

SHOWN = 5
"""Evaluations in the table of a card; the chart has more."""
FAILS = 4
LONG = 80
COLUMNS = ("Evaluation", "Version", "Dataset", Column("Pass rate", "n"), "Started")


class CardRuns(NamedTuple):
    """The newest grades of a workflow that has no evaluation."""

    n: int
    rate: Any
    """The pass rate with its interval."""
    policy: str | None
    newest: str
    """When the newest was graded."""


def trend(evaluations: Sequence[Evaluation], baseline: Evaluation | None = None) -> Chart:
    """The pass rates of evaluations of one workflow, given the newest first."""
    made = pass_rates(
        [
            EvaluationPoint(
                evaluation.name,
                evaluation.started,
                evaluation.workflow.version or "no version",
                versioned(evaluation.dataset),
                evaluation.totals.pass_rate,
                evaluation.totals.n,
                baseline is not None and evaluation.id == baseline.id,
                graded_by(evaluation.settings),
            )
            for evaluation in reversed(evaluations)
        ]
    )
    # The overview has a chart for each workflow; a screen reader tells them apart by their titles.
    named = [f"{made.title}, {clip(evaluation.workflow.id, 60)}" for evaluation in evaluations[:1]]
    return made._replace(title=named[0] if named else made.title)


def workflow_card(
    name: str,
    evaluations: Sequence[Evaluation],
    *,
    baseline: WorkflowBaseline | None,
    decision: LastDecision | None,
    changed: int = 0,
    chart: str = "",
    floors: Mapping[str, int] | None = None,
) -> Section:
    """The card of a workflow with its evaluations, the newest first. `chart` is the address of its
    trend; `changed` counts evaluations that are not what their digests say; `floors` the runs of
    the newest that miss each floor, None if they were not counted.
    """
    newest = evaluations[0]
    against = _against(newest, baseline)
    compared = [against] if baseline is not None and baseline.difference is not None else []
    warned = unchecked(newest.settings)
    state: list[Part] = [
        Facts([("Pass rate", _rate(newest.totals)), *compared], "figures"),
        *([Note(verdict("undetermined", f"{warned}."))] if warned else []),
        Facts(
            [
                *([] if compared else [against]),
                (
                    "Version",
                    phrase(
                        clip(newest.workflow.version, 40, absent_as="none"),
                        small(" ", moment(newest.started)),
                    ),
                ),
                ("Last decision", _decided(decision)),
            ]
        ),
        *_fails(newest, floors),
    ]
    named = baseline.evaluation if baseline is not None and baseline.name else None
    listed = Table(
        f"Last evaluations of {clip(name, LONG)}",
        COLUMNS,
        [_row(evaluation, baseline) for evaluation in evaluations[:SHOWN]],
        kind="stack",
    )
    parts: list[Part] = [Group(state), listed]
    if len(evaluations) > 1:
        drawn = Figure(trend(evaluations, named), f"{chart}/pass-rates" if chart else "")
        if drawn.hint:  # its table would repeat the list
            parts.append(Paragraph(drawn.hint, "hint"))
        else:
            parts = [Group([Group(state), drawn], "split"), listed]
    return section(_title(name), *_changed(changed), *parts, kind="card")


def _changed(n: int) -> list[Part]:
    if not n:
        return []
    were = "evaluation was" if n == 1 else "evaluations were"
    text = (
        f"{n:,} {were} changed after being stored, and left out here. `assay ledger verify` lists"
    )
    return [Note(verdict("fail", coded(f"{text} them.")), "bad")]


def runs_card(
    name: str, runs: int, versions: int, card: CardRuns | None, *, changed: int = 0
) -> Section:
    """The card of a workflow that has runs and no evaluation that can be read."""
    facts = [("Runs", f"{runs:,} of {count(versions, 'version')}, in no evaluation")]
    if card is not None:
        facts += [
            (
                "Pass rate",
                phrase(
                    number(card.rate.value, interval=card.rate, n=card.n, percent=True),
                    small(f" newest {card.n:,} under {shown(card.policy)}"),
                ),
            ),
            ("Last graded", moment(card.newest)),
        ]
    return section(
        _title(name, "runs"),
        *_changed(changed),
        Facts(facts),
        Empty(
            "An evaluation is one version on one dataset: with it you get totals, trends and"
            " comparisons. To make one, run the workflow on a dataset, or import a result file:",
            "assay run\nassay import results.json",
        ),
        kind="card",
    )


def _title(name: str, path: str = "evaluations") -> str:
    return link(clip(name, LONG), address(path, workflow=name))


def _rate(totals: EvaluationTotals) -> str:
    if totals.ungraded == totals.n:
        return absent(f"not graded, {count(totals.n, 'run')}")
    return number(totals.pass_rate.value, interval=totals.pass_rate, n=totals.n, percent=True)


def _against(newest: Evaluation, baseline: WorkflowBaseline | None) -> tuple[str, str]:
    """What the newest is compared with, and whether it is better or worse."""
    if baseline is None:
        keep = code(f"assay baseline set production {newest.name} --store")
        return "Baseline", phrase(absent("none"), small(". Keep this one with ", keep))
    of = baseline.evaluation
    named = f"the baseline {clip(baseline.name, 40)}" if baseline.name else "an earlier evaluation"
    lost = [line(verdict("missing", _lost(baseline)))] if baseline.lost else []
    measured = (
        phrase(absent("not compared"), small(f": {baseline.reason}"))
        if of is None or baseline.difference is None
        else _difference(baseline.difference)
    )
    way = [] if of is None else [line(small(_compare(of, newest)))]
    return f"Compared with {named}", phrase(measured, *lost, *way)


def _compare(of: Evaluation, newest: Evaluation) -> str:
    version = clip(of.workflow.version, 40, absent_as="none")
    return link(
        f"Compare with {clip(of.name, LONG)}, version {version}",
        address("compare", of=(of.id, newest.id)),
    )


def _lost(baseline: WorkflowBaseline) -> str:
    failed = "" if baseline.difference is None else ", counted as failed"
    return f"{count(baseline.lost, 'sample')} missing{failed}"


def _difference(measured: Any) -> str:
    """Whether the newest is better or worse, with its interval."""
    if measured.low is None or measured.high is None:
        return phrase(absent("not compared"), small(f": {measured.reason}"))
    word, text = (
        ("passed", "Better")
        if measured.low > 0
        else ("failed", "Worse")
        if measured.high < 0
        else ("undetermined", "No difference shown")
    )
    ends = f"{100 * measured.low:+.1f} to {100 * measured.high:+.1f} ({measured.level:.0%})"
    return phrase(
        verdict(word, text), small(f" {100 * measured.value:+.1f} percentage points, {ends}")
    )


def _decided(decision: LastDecision | None) -> str:
    if decision is None:
        return absent("none stored")
    version = clip(decision.version, 40, absent_as="none")
    return phrase(
        link(decided(decision.outcome, None), address("decisions", decision.digest)),
        small(
            phrase(
                f" version {version}, under {shown(decision.policy)} ",
                moment(decision.at),
            )
        ),
    )


def _fails(newest: Evaluation, floors: Mapping[str, int] | None) -> list[Part]:
    """The gates and floors that most runs of the newest evaluation fail, and the scores that most
    lack.
    """
    totals = newest.totals
    failing = [
        *_most(floors or {}, "below the floor of", totals.n, newest),
        *_most(totals.gate_failures, "gate", totals.n, newest),
        *_most(totals.missing, "no score for", totals.n, newest),
    ]
    if totals.ungraded:
        href = address("evaluations", newest.id, show="ungraded")
        text = f"could not be graded: {_of(totals.ungraded, totals.n)}"
        failing.append((totals.ungraded, link(text, href)))
    failing.sort(key=lambda pair: -pair[0])
    if not failing and totals.passed == totals.n:
        return []
    ways = [text for _, text in failing[:FAILS]]
    every = "Every reason, floors included" if floors is None else "Every reason"
    if not failing and floors is not None:
        every = f"did not pass: {_of(totals.n - totals.passed, totals.n)}"
    ways.append(link(every, address("evaluations", newest.id)))
    return [Sentences(ways, "Failures and missing scores")]


def _most(
    counts: Mapping[str, int], what: str, n: int, newest: Evaluation
) -> list[tuple[int, str]]:
    return [
        (
            failed,
            link(
                f"{what} {clip(name, LONG)}: {_of(failed, n)}",
                address(
                    "evaluations",
                    newest.id,
                    **({"gate": name} if what == "gate" else {"sort": f"criterion:{name}"}),
                ),
            ),
        )
        for name, failed in counts.items()
        if failed
    ]


def _of(failed: int, n: int) -> str:
    return f"{failed:,} of {count(n, 'run')}"


def _row(evaluation: Evaluation, baseline: WorkflowBaseline | None) -> list[str]:
    of = baseline.evaluation if baseline is not None else None
    is_baseline = (
        of is not None and baseline is not None and baseline.name and of.id == evaluation.id
    )
    return [
        phrase(
            link(clip(evaluation.name, LONG), address("evaluations", evaluation.id)),
            *([small(" baseline ", clip(baseline.name, 40))] if is_baseline and baseline else []),
        ),
        clip(evaluation.workflow.version, 40, absent_as="none"),
        clip(versioned(evaluation.dataset), LONG),
        _rate(evaluation.totals),
        moment(evaluation.started),
    ]
