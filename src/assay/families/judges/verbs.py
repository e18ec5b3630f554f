"""`assay judge`: score by a rubric, in pairs, claims, passages; audit, card, drift."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import digest
from assay.cli import judging as common
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.frame import (
    STORE,
    Argument,
    Bounds,
    Command,
    Options,
    arg,
    flag,
    policy_option,
    repeated,
)
from assay.cli.judging import specs_of
from assay.cli.ledger import ledger_options, storing_result
from assay.errors import (
    AssayError,
    ExitCode,
    InputError,
    NotEnoughEvidence,
    UsageError,
    count,
    printable,
)
from assay.families.judges.audit import (
    AUDIT_SCHEMA,
    PROBES,
    MeasuredBias,
    audit,
    audit_pairs,
    audit_rubric,
    calls_of,
    digest_of,
    distinct_pairs,
    load,
    paddings,
)
from assay.families.judges.calibration import MINIMUM_LABELS, shown
from assay.families.judges.calibration import calibrate as calibrate_rows
from assay.families.judges.drift import DriftLimits, compare_cards, moment_of
from assay.families.judges.label_rows import (
    check_one_verdict,
    drawn_sentence,
    kind_of,
    own_labels,
    read_labels,
)
from assay.families.judges.label_views import results_view, sets_table
from assay.families.judges.labelling import (
    CHOICE,
    SetRequest,
    labelled_rows,
    labels_of_run,
    labels_of_set,
    list_sets,
    make_set,
    need_set,
    override_label,
    people_say,
    results_of,
    run_named,
    saving,
    set_draft,
    unjudged_rows,
)
from assay.families.judges.pairwise import DEFINITION, compare, comparisons_document, pair_questions
from assay.families.judges.records import DRAWS, LabelResults, Rater
from assay.files.json_files import Document, read_json, stream_documents
from assay.grading.policy import make_rules
from assay.judging.card import admit_tree, check_card, impossible, make_card, read_card
from assay.judging.claims_task import claims_of, judge_parts, judged_runs, passages_of, weighed_runs
from assay.judging.identity import definition_name, member_name, prompt_name, rubric_name, scorer_of
from assay.judging.items import (
    AnswerPair,
    JudgedItem,
    pair_up,
    read_examples,
    read_items,
    read_pairs,
)
from assay.judging.questions import (
    CLAIM_PROMPT,
    PAIRWISE_PROMPT,
    PASSAGE_PROMPT,
    RUBRIC_PROMPT,
    Question,
)
from assay.judging.rubric_task import (
    Judged,
    Voted,
    apart,
    convene,
    counts_of,
    judge_rubric,
    questions_of,
    scored_runs,
)
from assay.project.ledger import open_for
from assay.project.trust import rules
from assay.records.grade import ENGINE
from assay.records.judge_card import AuditRecord, CalibrationRecord
from assay.records.reading import read_record
from assay.registry import near_miss
from assay.services.evaluations import need_evaluation
from assay.stats.agreement import krippendorff_alpha
from assay.store.drafts import draft as make_draft
from assay.views.blocks import Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from assay.families.judges.labelling import LabelledRows
    from assay.judging.client import Client, Usage
    from assay.judging.config import JudgeSpec
    from assay.scoring.rubric import Rubric
    from assay.services.storing import Result, Store
    from assay.store.ledger import Ledger


MAX_LINES = 40


class RubricJob:
    """The questions that `rubric` and `panel` ask."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rubric: Rubric = opt.shelf_of(options).rubric(options.rubric)
        self.items: list[JudgedItem] = read_items(
            options.files, output=options.output_field, with_reference=options.with_reference
        )
        examples = (
            {item.name: read_examples(options.examples, item) for item in self.rubric.criteria}
            if options.examples
            else None
        )
        self.questions = questions_of(
            self.items, self.rubric, only=options.criterion, examples=examples
        )
        if any(path.endswith(".jsonl") for path in opt.outputs(options)):
            # runs that cannot be written are an error before anything is paid
            unjudged = [
                Judged(item.id, criterion.name, None, None, ())
                for item, criterion, _ in self.questions
            ]
            self.runs(unjudged, {"name": ""})

    def how(self) -> dict[str, Any]:
        """What besides the judge's own settings decides its answers."""
        shots = {
            question.criterion.name: list(map(list, question.examples))
            for _, _, question in self.questions
            if question.examples
        }
        return {
            "samples": self.options.samples,
            "with_reference": self.options.with_reference,
            "examples": digest(shots) if shots else None,
        }

    def asked(self) -> list[tuple[Question, int]]:
        """Every question with the number of its draw."""
        return [
            (question, sample)
            for item, _, question in self.questions
            if item.missing is None
            for sample in range(self.options.samples)
        ]

    def runs(
        self, judged: Sequence[Judged], scorer: Mapping[str, str | None]
    ) -> list[dict[str, Any]]:
        """The runs with these scores in them."""
        return scored_runs(
            self.items, judged, self.rubric, scorer=scorer, replace=self.options.replace
        )


def _rubric(options: Options, store: Store | None) -> int:
    specs = specs_of(options, only="rubric")
    job = RubricJob(options)
    if options.dry_run:
        more = "An unusable reply is sent back once for repair, which takes one more call."
        return common.dry_run(options, specs, job.asked(), more=more)

    judged, usages = common.ask(
        options,
        specs,
        lambda clients: judge_rubric(clients[0], job.questions, samples=options.samples),
        total=len(job.asked()),
    )
    counts = counts_of(answer for item in judged for answer in item.answers)
    scorer = scorer_of(
        specs[0],
        prompt_version=RUBRIC_PROMPT,
        rubric=rubric_name(job.rubric),
        answered=usages[0].answered_by,
        **job.how(),
    )
    document = {
        "schema": "assay.judgements/1",
        "judge": common.judge_shown(specs[0]),
        "scorer": scorer,
        "warnings": common.warnings_in(usages),
        "rubric": job.rubric.id,
        "prompt_version": RUBRIC_PROMPT,
        "samples": options.samples,
        "items": [item.shown() for item in judged],
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    common.note_usage(usages, counts)
    common.note_age(usages[0])
    return common.finish(
        options,
        store,
        document,
        _lines(judged),
        rows=lambda: job.runs(judged, scorer),
        whole=all(item.raw is not None for item in judged),
    )


def _panel(options: Options, store: Store | None) -> int:
    specs = specs_of(options)
    names = [spec.judge for spec in specs]
    if len(specs) < 2 or len(set(names)) != len(names):
        raise UsageError(
            "CLI-001",
            "a panel has at least two judges with different names.",
            fix="Give --judge once for each.",
        )
    for spec, other in combinations(specs, 2):
        if spec.digest == other.digest:
            raise UsageError(
                "CLI-001",
                f"{spec.judge} and {other.judge} are the same judge, and its vote would count"
                " twice.",
                fix="Leave one out; --samples asks a judge more than once.",
            )
    job = RubricJob(options)
    if options.dry_run:
        return common.dry_run(options, specs, job.asked())

    async def ask(clients: list[Client]) -> dict[str, list[Judged]]:
        judged = await asyncio.gather(
            *(judge_rubric(client, job.questions, samples=options.samples) for client in clients)
        )
        return dict(zip(names, judged, strict=True))

    members, usages = common.ask(options, specs, ask, total=len(job.asked()) * len(specs))
    voted = convene(members, by=options.vote)
    counts = counts_of(
        answer for judged in members.values() for item in judged for answer in item.answers
    )
    disagreement = _disagreement(members)
    document = {
        "schema": "assay.judgements/1",
        "panel": [common.judge_shown(spec) for spec in specs],
        "warnings": common.warnings_in(usages),
        "vote": options.vote,
        "rubric": job.rubric.id,
        "prompt_version": RUBRIC_PROMPT,
        "samples": options.samples,
        "items": [item.shown() for item in voted],
        "members": {name: [item.shown() for item in judged] for name, judged in members.items()},
        "disagreement": disagreement,
        "counts": counts,
        "usage": usages,
        **ENGINE,
    }
    as_one = {
        "kind": "llm",
        "name": "panel:" + "+".join(map(member_name, specs)),
        "version": options.vote,
        "prompt_version": prompt_name(RUBRIC_PROMPT, **job.how()),
        "rubric": rubric_name(job.rubric),
    }
    combined = [
        item._replace(
            raw=vote.raw,
            why=vote.why,
            disagreement=apart("judges", [seat.raw for seat in vote.seats if seat.raw is not None]),
        )
        for item, vote in zip(members[names[0]], voted, strict=True)
    ]
    alpha = disagreement["krippendorff_alpha"]["value"]
    shown_alpha = "is not defined here" if alpha is None else f"{alpha:.3f}"
    unanimous = (
        f"unanimous on {disagreement['unanimous']:,} of {disagreement['judged_by_all']:,};"
        f" Krippendorff's alpha {shown_alpha}"
    )
    common.note_usage(usages, counts)
    return common.finish(
        options,
        store,
        document,
        [*_lines(voted), unanimous],
        rows=lambda: job.runs(combined, as_one),
        whole=all(item.raw is not None for item in voted),
    )


def _disagreement(members: dict[str, list[Judged]]) -> dict[str, Any]:
    rows = [[item.raw for item in rows] for rows in zip(*members.values(), strict=True)]
    whole = [row for row in rows if None not in row]
    spreads = [max(row) - min(row) for row in whole]
    numbers = [[None if raw is None else float(raw) for raw in row] for row in rows]
    return {
        "judged_by_all": len(whole),
        "unanimous": spreads.count(0),
        "largest_spread": max(spreads, default=None),
        "mean_spread": float(sum(spreads)) / len(spreads) if spreads else None,
        "krippendorff_alpha": krippendorff_alpha(numbers, level="interval").shown(),
    }


def _lines(rows: Sequence[Judged] | Sequence[Voted]) -> Iterator[str]:
    """The first scores, one on each line."""
    shown: Iterable[Any] = rows[:MAX_LINES]
    width = min(40, max((len(row.item) for row in rows[:MAX_LINES]), default=1))
    wide = max((len(row.criterion) for row in rows[:MAX_LINES]), default=1)
    for row in shown:
        score = row.raw if row.raw is not None else f"none: {row.why}"
        yield f"{row.item[:40]:<{width}}  {row.criterion:<{wide}}  {score}"
    if len(rows) > MAX_LINES:
        yield f"... and {len(rows) - MAX_LINES:,} more; -o judgements.json has them all"


_WORK: tuple[Argument | str, ...] = (
    arg(
        "files",
        metavar="FILE",
        nargs="+",
        help=(
            'runs (assay.run/1), lines of {"id", "input", "output", "reference"}, or an'
            " evaluation's name or latest"
        ),
    ).of_runs(items=True),
    arg(
        "--rubric",
        heading="grading",
        offers="rubrics",
        key="rubric",
        kind="name",
        metavar="R",
        required=True,
        help="rubric by name, name@version or YAML file",
    ),
    repeated(
        "--criterion",
        "NAME",
        "only this criterion of the rubric; may be repeated",
        kind="text",
        trust="freely",
    ),
    arg(
        "--output-field",
        kind="text",
        trust="freely",
        metavar="NAME",
        help="which of a run's outputs is judged (default: all of them)",
    ),
    flag("--with-reference", "show the judge what was expected of each run"),
    arg(
        "--samples",
        within=Bounds(least=1),
        metavar="N",
        type=int,
        default=1,
        help="draws of each question (default: 1)",
    ),
    arg(
        "--examples",
        kind="path",
        metavar="FILE",
        help=(
            'judged cases to show first: lines of {"input", "output", "score", "reason",'
            ' "criterion"}'
        ),
    ),
    flag("--replace", "replace scores that a run already has"),
    "--library",
    *STORE,
)


def _pairwise(options: Options, store: Store | None) -> int:
    specs = specs_of(options, only="pairwise")
    opt.outputs(options)
    pairs = pairs_of(options.files)
    questions = [
        (question, 0)
        for pair in pairs
        for question in pair_questions(pair, options.seed, options.definition)
    ]
    if options.dry_run:
        more = "Each pair whose orders disagree takes two more calls."
        return common.dry_run(options, specs, questions, more=more)

    compared, usages = common.ask(
        options,
        specs,
        lambda clients: compare(
            clients[0], pairs, seed=options.seed, definition=options.definition
        ),
        total=len(questions),
    )
    counts = counts_of(look.answer for pair in compared for look in pair.looks)
    scorer = scorer_of(
        specs[0],
        prompt_version=PAIRWISE_PROMPT,
        rubric=definition_name(options.definition),
        answered=usages[0].answered_by,
    )
    document = comparisons_document(
        compared,
        judge=common.judge_shown(specs[0]),
        scorer=scorer,
        counts=counts,
        usage=usages[0],
        limit=options.limit,
        seed=options.seed,
    )
    common.note_usage(usages, counts)
    common.note_age(usages[0])
    return common.finish(
        options,
        store,
        document,
        document["sentences"],
        rows=lambda: [line for pair in compared for line in pair.verdicts()],
        whole=document["without_verdict"] == 0,
    )


def pairs_of(files: Sequence[str]) -> list[AnswerPair]:
    """The pairs of a file; or of two files of runs, candidate a and candidate b."""
    if len(files) == 2:
        heads = [
            next(
                (document for document in stream_documents(path) if isinstance(document, Document)),
                None,
            )
            for path in files
        ]
        if all(
            head is not None and isinstance(head.tree, dict) and "a" not in head.tree
            for head in heads
        ):
            return pair_up(read_items(files[:1]), read_items(files[1:]))
    return read_pairs(files)


class _Work(NamedTuple):
    """What one of the two actions asks about, and what it makes of the answers."""

    action: str
    noun: str
    collect: Callable[..., list[Any]]
    prompt: str
    row: Callable[[Any], dict[str, Any]]
    verdict: str
    """The key of the verdict in a row."""
    decided: Callable[..., Iterable[Any]]
    sentences: dict[str, str]
    """For each kind of thing that is asked about, the sentence of those that hold."""
    hint: str = ""


_CLAIMS = _Work(
    "claims",
    "claim",
    claims_of,
    CLAIM_PROMPT,
    lambda part: {"claim": part.question.texts[0]},
    "supported",
    judged_runs,
    {"claim": "claims are supported"},
)
_PASSAGES = _Work(
    "passages",
    "passage",
    passages_of,
    PASSAGE_PROMPT,
    lambda part: {"kind": part.what, "text": part.question.texts[0]},
    "verdict",
    weighed_runs,
    {
        "passage": "passages are relevant",
        "statement": "statements of the expected answers are in the passages",
    },
    " Runs whose dataset gives `expected.relevant_ids` need no judge for this.",
)


def _decide(work: _Work, options: Options, store: Store | None) -> int:
    specs = specs_of(options, only=work.action)
    items = read_items(options.files)
    parts = work.collect(items, again=options.again)
    if not parts:
        raise NotEnoughEvidence(
            "JDG-010",
            f"there is no undecided {work.noun} in these runs.",
            fix=f"--again asks about decided ones too.{work.hint}",
        )
    if options.dry_run:
        return common.dry_run(options, specs, [(part.question, 0) for part in parts])

    answers, usages = common.ask(
        options, specs, lambda clients: judge_parts(clients[0], parts), total=len(parts)
    )
    counts = counts_of(answers)
    verdicts = [
        None if answer.verdict is None else bool(answer.verdict.score) for answer in answers
    ]
    rows = [
        {
            "run": part.run,
            **work.row(part),
            "outcome": answer.outcome,
            work.verdict: verdict,
            "quotes": [] if answer.verdict is None else list(answer.verdict.quotes),
            "reason": answer.reason,
            "key": answer.key,
        }
        for part, answer, verdict in zip(parts, answers, verdicts, strict=True)
    ]
    document = {
        "schema": f"assay.{work.action}/1",
        "judge": common.judge_shown(specs[0]),
        "warnings": common.warnings_in(usages),
        "prompt_version": work.prompt,
        work.action: rows,
        "counts": counts,
        "usage": usages[0],
        **ENGINE,
    }
    lines = []
    for kind, holds in work.sentences.items():
        own = [row[work.verdict] for row in rows if row.get("kind", kind) == kind]
        if own:
            lines.append(
                f"{own.count(True)} of {len(own)} {holds},"
                f" {own.count(False)} are not, {own.count(None)} have no verdict"
            )
    common.note_usage(usages, counts)
    return common.finish(
        options,
        store,
        document,
        lines,
        rows=lambda: work.decided(
            items, parts, answers, model=specs[0].model, version=specs[0].whole_version
        ),
        whole=None not in verdicts,
    )


def _card(options: Options, store: Store | None) -> int:
    audited = _audited(options.audit) if options.audit else None
    calibration = _calibration(options.calibration) if options.calibration else None
    named = calibration.get("judge") if calibration is not None else None
    model = options.model or (named.get("model") if isinstance(named, dict) else None)
    if audited is None and not model:
        raise UsageError(
            "CLI-001",
            "the card has no judge.",
            fix="Give --audit FILE, a --calibration that names its judge, or --model.",
        )
    if audited is not None and options.model and audited["judge"].get("model") != options.model:
        raise UsageError(
            "CLI-001",
            f"the audit is for {audited['judge'].get('model')!r}, not {options.model!r}.",
        )
    rules = make_rules(opt.shelf_of(options).policy(options.policy))
    if rules.judge_terms is None:
        raise UsageError(
            "CLI-001",
            f"the policy {rules.policy} has no terms for judges.",
            fix="Set them in `judge.gate` of a policy, as workflow-judged does.",
        )
    now = opt.moment(options.now) or datetime.now(UTC)
    judge = audited["judge"] if audited is not None else {"judge": model, "model": model}
    if calibration is not None:
        _check_same(judge, audited, calibration, options.calibration)
    made_card = make_card(
        judge=judge,
        audit=audited,
        calibration=calibration,
        verdicts={} if calibration is None else calibration.get("verdicts") or {},
        now=now,
    )
    admission = admit_tree(made_card, rules.judge_terms, now=now)
    document = {
        **made_card,
        "admission": {
            "policy": rules.policy,
            "gradingSystem": rules.grading_system,
            **admission.shown(),
        },
    }
    if store is not None:
        from assay.services.storing import card_drafts

        store.put(card_drafts(document, audit=audited, calibration=calibration))
    may = "may gate" if admission.may_gate else "may not gate"
    states = {False: "fails", None: "not measured", True: "holds"}
    lines = [
        f"{document['model']} {may} under {rules.policy}.",
        *(
            f"  {states[state]:<12}  {term.sentence}"
            for state in states
            for term in admission.terms
            if term.holds is state
        ),
    ]
    return opt.give(
        options, document, lines, ExitCode.of(admission.may_gate), forms={".html": _html}
    )


def _html(card: dict[str, Any]) -> bytes:
    from assay.families.judges.views import judge_page

    return judge_page(read_card(card)).encode("utf-8", "replace")


def _audited(path: str) -> dict[str, Any]:
    document = read_json(path)
    tree = document.tree
    if not isinstance(tree, dict) or tree.get("schema") != AUDIT_SCHEMA:
        raise InputError(
            "JDG-009",
            f"is not a judge audit: its schema is not {AUDIT_SCHEMA}.",
            where=path,
            fix="`assay judge audit --judge judge.yaml -o audit.json` writes one.",
        )
    read_record(document, AuditRecord, "JDG-009")
    return tree


def _calibration(path: str) -> dict[str, Any]:
    document = read_json(path)
    tree = document.tree
    if (
        not isinstance(tree, dict)
        or not isinstance(tree.get("agreement"), dict)
        or "n_labelled" not in tree
    ):
        raise InputError(
            "JDG-009",
            "is not a judge calibration.",
            where=path,
            fix="`assay judge calibrate --labels FILE -o calibration.json` writes one.",
        )
    wrong = impossible(tree)
    if wrong is not None:
        raise InputError("JDG-009", f"has an impossible figure: {wrong}.", where=path)
    read_record(document, CalibrationRecord, "JDG-009")
    return tree


def _check_same(
    judge: dict[str, Any], audited: dict[str, Any] | None, calibration: dict[str, Any], path: str
) -> None:
    """Refuse to make one card of two judges. A calibration that names no judge makes a card that
    lets nobody gate.
    """
    other = calibration.get("judge")
    if not isinstance(other, dict):
        return
    keys = ("model", "version", "digest") if audited is not None else ("model",)
    for key in keys:
        if judge.get(key) != other.get(key):
            what = "settings" if key == "digest" else key
            raise InputError(
                "JDG-009",
                f"is for another judge: its {what} is {other.get(key)!r}, that of the"
                f" {'audit' if audited is not None else 'card'} {judge.get(key)!r}.",
                where=path,
                fix="Calibrate and audit the same judge: one description, one prompt, one rubric.",
            )
    prompt = (calibration.get("scorer") or {}).get("prompt_version")
    asked_prompt = str(prompt).partition("+")[0]  # an audit shows neither references nor examples
    if audited is not None and asked_prompt not in audited.get("prompt_versions", ()):
        raise InputError(
            "JDG-009",
            f"was made with the prompt {prompt!r}; the audit has"
            f" {', '.join(audited.get('prompt_versions', ())) or 'none'}.",
            where=path,
        )


def _audit(options: Options, store: Store | None) -> int:
    specs = specs_of(options, only="audit")
    probes = tuple(dict.fromkeys(options.probe)) or PROBES
    known: Sequence[AnswerPair] = _own_pairs(options.items) if options.items else audit_pairs()
    pairs, injections = known[: options.first], load()[: options.first]
    calls = calls_of(probes, len(pairs), len(injections), options.repeats)
    if options.dry_run:
        most = f"{specs[0].judge}: at most {count(calls, 'call')}; the same question is asked once."
        plan = {"schema": "assay.judge-plan/1", "dry_run": True, "calls_at_most": calls}
        return common.print_plan(options, plan, [most])

    biases, usages = common.ask(
        options,
        specs,
        lambda clients: audit(
            clients[0],
            pairs=pairs,
            paddings=paddings(),
            criterion=audit_rubric().criteria[0],
            injections=injections,
            family=specs[0].family,
            probes=probes,
            repeats=options.repeats,
        ),
        total=calls,
    )
    document = audit_document(
        biases,
        spec=specs[0],
        pairs=pairs,
        source=options.items or "bundled",
        injections=len(injections),
        usage=usages[0],
    )
    draft = None
    if store is not None:
        draft = make_draft(document, kind="audit")
    totals = {
        "answers": sum(bias.answers for bias in biases.values()),
        "without a verdict": sum(bias.lost for bias in biases.values()),
    }
    common.note_usage(usages, totals)
    common.note_age(usages[0])
    known_ones = [bias for name, bias in biases.items() if name != "self_preference"]
    return common.finish(
        options,
        store,
        document,
        _card_lines(biases),
        draft=draft,
        whole=all(bias.estimate.value is not None for bias in known_ones),
    )


def _own_pairs(path: str) -> list[AnswerPair]:
    given = read_pairs([path])
    pairs = distinct_pairs(given)
    if len(pairs) < len(given):
        what = count(len(given) - len(pairs), "pair")
        opt.note(f"left out {what}: repeated, or with two equal texts.")
    if not pairs:
        raise InputError(
            "JDG-005",
            "has no pair of two different texts.",
            where=path,
            fix="Give two different answers to each task.",
        )
    return pairs


def _card_lines(biases: dict[str, MeasuredBias]) -> Iterator[str]:
    for name, measured in biases.items():
        lost = f" {measured.lost} of {measured.answers} answers had no verdict."
        yield f"{measured.sentence}{lost if measured.lost else ''}"
        rate = measured.detail.get("inconsistency_rate") if name == "position" else None
        if rate and rate["value"] is not None:
            yield (
                f"order: {rate['value']:.3f} of the pairs are decided by their order"
                f" ({rate['low']:.3f} to {rate['high']:.3f})."
            )


def audit_document(
    biases: dict[str, MeasuredBias],
    *,
    spec: JudgeSpec,
    pairs: Sequence[AnswerPair],
    source: str,
    injections: int,
    usage: Usage,
) -> dict[str, Any]:
    """`assay.judge-audit/1`."""
    return {
        "schema": AUDIT_SCHEMA,
        "judge": common.judge_shown(spec),
        "prompt_versions": [PAIRWISE_PROMPT, RUBRIC_PROMPT],
        "items": {
            "source": source,
            "n": len(pairs),
            "digest": digest_of(pairs),
            "injections": injections,
        },
        "biases": {name: measured.shown() for name, measured in biases.items()},
        "warnings": usage.warnings,
        "price": spec.price,
        "usage": usage,
        **ENGINE,
    }


LIMITS = DriftLimits()
STATISTICS = ("cohen_kappa", "krippendorff_alpha", "spearman", "kendall_tau_b", "pearson")


def _calibrate(options: Options, store: Store | None) -> int:
    if bool(options.labels) == bool(options.from_ledger):
        raise UsageError(
            "CLI-001",
            "choose where the labels are: --labels FILE, or --from-ledger SET.",
            fix="`assay label list` lists the sets of the ledger.",
        )
    if options.criterion and not (options.from_ledger or options.judgements):
        raise UsageError("CLI-001", "--criterion is for --from-ledger SET or --judgements FILE.")
    if options.labels:
        opt.outputs(options, options.labels)
    name, version = _set(options.set)
    judgements = read_judgements(options.judgements) if options.judgements else None
    labelled = _of_ledger(options, judgements) if options.from_ledger else None
    if labelled is None and judgements is not None and options.criterion:
        judgements = _on(options.criterion, judgements)
    if labelled is not None:
        name, version = name or labelled.about["name"], version or labelled.about["id"]
        judgements = labelled.judgements
    where = options.labels or f"the set {name}"
    notes: list[str] = []
    try:
        if labelled is None:
            rows = read_labels(options.labels, _verdicts(judgements))
            # the labels of a set in a ledger, exported
            raters = {name: None for row in rows for name in row.raters or ()}
            own = "" if judgements is None else own_labels(raters, judgements)
            drawn = next((row.draw for row in rows if row.draw is not None), None)
            notes = [*filter(None, [own, drawn_sentence(drawn) if drawn else ""])]
            judgements = None if notes else judgements
        else:
            rows, notes = labelled.rows, labelled.sentences
        document = calibrate_rows(
            rows,
            minimum=options.minimum,
            level=options.level,
            seed=options.seed,
            set_id=name,
            set_version=version,
            positive=options.positive,
            judgements=judgements,
        )
    except InputError as error:
        error.where = error.where or where
        raise
    except NotEnoughEvidence as error:
        error.where = where
        raise
    if labelled is not None:
        document["label_set"] = labelled.about
    document["sentences"] = [*notes, *document["sentences"]]
    if store is not None:
        opt.outputs(options)
        store.put([make_draft(document, kind="calibration")])
    return opt.give(options, document, [*document["sentences"], "", *_table(document)])


def _of_ledger(options: Options, judgements: dict[str, Any] | None) -> LabelledRows:
    """People's labels of a set, next to the judge's verdicts."""
    with open_for(options.db or options.store or "", read_only=True) as ledger:
        results = results_named(ledger, options.from_ledger, options.project)
        try:
            return labelled_rows(
                ledger,
                results,
                project=options.project,
                criterion=options.criterion,
                judgements=judgements,
            )
        except InputError as error:
            error.where = error.where or options.judgements or ""
            raise


def read_judgements(path: str) -> dict[str, Any]:
    """The judgements of one judge, of our own client or from files. A panel is several judges, and
    has no card.
    """
    tree = read_json(path).tree
    shape = {"schema": str, "judge": dict, "scorer": dict, "items": list}
    if (
        not isinstance(tree, dict)
        or any(not isinstance(tree.get(name), kind) for name, kind in shape.items())
        or not all(map(_is_judged, tree["items"]))
    ):
        raise InputError(
            "JDG-009",
            "does not contain the judgements of one judge.",
            where=path,
            fix="`assay judge rubric -o judgements.json` writes one.",
        )
    check_one_verdict(tree, where=path)
    return tree


def _on(criterion: str, judgements: dict[str, Any]) -> dict[str, Any]:
    """The judgements of one criterion."""
    items = [item for item in judgements["items"] if item.get("criterion") == criterion]
    if not items:
        known = sorted({str(item.get("criterion")) for item in judgements["items"]})
        raise UsageError(
            "CLI-001",
            f"no judgement is on the criterion {criterion!r}.{near_miss(criterion, known)}",
            fix=f"Choose one of {', '.join(known)}.",
        )
    return {**judgements, "items": items}


def _verdicts(judgements: dict[str, Any] | None) -> dict[str, Any]:
    """The verdict on each item; none if there are several on one, by several criteria."""
    items = judgements["items"] if judgements else []
    verdicts = {str(item.get("id")): item.get("raw", item.get("winner")) for item in items}
    return verdicts if len(verdicts) == len(items) else {}


def _is_judged(item: Any) -> bool:
    """Whether this is an item with a verdict that a label can be compared with, or with none."""
    if not isinstance(item, dict) or not isinstance(item.get("criterion"), str | None):
        return False
    return all(item.get(key) is None or kind_of(item[key]) for key in ("raw", "winner"))


def _set(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    name, at, version = text.rpartition("@")
    if not (name and at and version):
        raise UsageError(
            "CLI-001",
            f"--set is {text!r}; it must be a name and a version.",
            fix="For example --set support@3",
        )
    return name, version


def _table(document: dict[str, Any]) -> list[str]:
    """Every number with its interval and n."""
    block = document["agreement"]
    n = document["n_labelled"]
    rows = [("accuracy", document["accuracy"], n)]
    rows += [(name, block[name], n) for name in STATISTICS]
    rows += [
        (f"weighted_kappa {name}", value, n) for name, value in block["weighted_kappa"].items()
    ]
    rows.append(
        ("bias", document["bias"]["mean_difference"], n - document["unparsable"]["labelled"])
    )
    rows += [
        (name, value, document["n_judged"] if name == "naive" else n + document["n_unlabelled"])
        for name, value in document["corrected"].items()
    ]
    return [f"{name:<24} {shown(value)}  n={count:,}" for name, value, count in rows] + [
        f"{'set':<24} {_named(document['set'])}"
    ]


def _named(label_set: dict[str, Any]) -> str:
    name = f"{label_set['id']}@{label_set['version']} " if label_set["id"] else ""
    return f"{name}{label_set['digest']}"


def _drift(options: Options) -> int:
    with storing_result(options, "judge drift") as result:
        return _drifted(options, result)


def _drifted(options: Options, result: Result | None) -> int:
    cards = sorted(
        (check_card(read_json(path).tree, where=path) for path in options.files),
        key=lambda card: moment_of(str(card["made_at"])),
    )
    document = compare_cards(
        cards[:-1],
        cards[-1],
        limits=DriftLimits(options.minimum, options.max_flipped, options.alpha),
    )
    if result is not None:
        opt.outputs(options)
        for card in cards:
            result.made_of(card)
        result.put(document)
    alarm = document["alarm"]
    head = {True: "ALARM", False: "no alarm", None: "cannot tell"}[alarm]
    lines = [printable(f"{document['model']}: {head}: {document['reason']}")]
    for drift in document["comparisons"]:
        lines.append(
            printable(
                f"since {drift.since},"
                f" {count(drift.n, 'item')}{'' if drift.enough else f': {drift.reason}'}"
            )
        )
        lines += [
            f"  {test.id:<12} p={test.p_holm:.3g} after Holm  {test.sentence}"
            for test in drift.tests
        ]
    lines += [
        printable(f"left out: {card['made_at']}, {card['reason']}") for card in document["left_out"]
    ]
    return opt.give(options, document, lines, ExitCode.of(None if alarm is None else not alarm))


SET = arg(
    "set",
    kind="text",
    metavar="SET",
    help="a set's name or id, or latest; `assay label list` lists them",
)


def results_named(ledger: Ledger, name: str, project: str) -> LabelResults:
    """The set that a person names, and the results of its labels."""
    stored = need_set(ledger, name, project=project)
    return results_of(stored, labels_of_set(ledger, stored.digest, project=project))


def _new(options: Options) -> int:
    if options.question and not options.pairs:
        raise UsageError(
            "CLI-001",
            "--question is for pairs.",
            fix="Name the second evaluation with --pairs, or leave --question out.",
        )
    request = SetRequest(
        options.draw,
        options.n,
        options.seed,
        options.rubric or "",
        options.criterion,
        options.name or "",
        options.question or "",
        options.with_reference,
        (options.config and rules(options.config, "rubric")) or "",
    )
    with open_for(options.db) as ledger:
        evaluation = need_evaluation(ledger, options.evaluation, project=options.project)
        other = (
            need_evaluation(ledger, options.pairs, project=options.project)
            if options.pairs
            else None
        )
        made = make_set(
            ledger, opt.shelf_of(options), evaluation, other, request, project=options.project
        )
        stored = ledger.put_many([set_draft(made)], project=options.project)[0]
    document = {**_brief(made, stored.digest), "new": stored.new}
    known = "" if stored.new else "; the set existed already"
    lines = [
        f"{made.name} ({made.id}): {count(len(made.items), 'item')} of {made.draw.pool:,}{known}",
        *(f"  left out, {why}: {n:,}" for why, n in made.draw.left_out.items() if n),
        f"Label it: `assay view{ledger_options(options)}`, then open /label/{made.id}",
    ]
    return opt.give(options, document, map(printable, lines))


def _brief(made: Any, digest: str) -> dict[str, Any]:
    return {
        "name": made.name,
        "id": made.id,
        "digest": digest,
        "task": made.task,
        "evaluation": made.evaluation,
        "other": made.other,
        "rubric": None if made.rubric is None else made.rubric.id,
        "criteria": []
        if made.rubric is None
        else [criterion.name for criterion in made.rubric.criteria],
        "draw": made.draw,
        "items": len(made.items),
    }


def summary(results: LabelResults, *, labels: bool = False) -> dict[str, Any]:
    """A set and the results of its labels, as JSON; each rater's labels only with `labels`."""
    return {
        **_brief(results.stored.set, results.stored.digest),
        "labelled": results.labelled,
        "superseded": results.superseded,
        "raters": [
            {
                "name": progress.rater.name,
                "by": progress.rater.by,
                "id": progress.rater.id,
                "labelled": progress.done,
            }
            for progress in results.progress
        ],
        "typed_raters": results.typed,
        "independent_raters": results.independent,
        "changed": results.changed,
        "changed_after_others": results.changed_late,
        "agreement": [
            {
                "criterion": agreement.criterion,
                "items": agreement.items,
                "same": agreement.same,
                "statistic": agreement.statistic,
                "value": agreement.beyond_chance,
            }
            for agreement in results.agreement
        ],
        "disagreements": [
            {
                "sample": case.item.sample,
                "run_id": case.item.run_id,
                "criterion": case.criterion,
                **(
                    {
                        "labels": [
                            {"rater": rater.name, "by": rater.by, "id": rater.id, "value": value}
                            for rater, value in case.values
                        ]
                    }
                    if labels
                    else {}
                ),
            }
            for case in results.disagreed
        ],
    }


def _list(options: Options) -> int:
    with open_for(options.db, read_only=True) as ledger:
        sets = [
            results_of(stored, labels_of_set(ledger, stored.digest, project=options.project))
            for stored in list_sets(ledger, project=options.project)
        ]
        where = ledger.where
    if not sets and not options.json:
        text = f"there are no label sets in the project '{options.project}' of {where}."
        opt.note(f"{text} `assay label new EVALUATION` makes one.")
    document = {"sets": [summary(results) for results in sets]}
    table = [sets_table(sets, lambda made: f"/label/{made.id}")] if sets else []
    return opt.give(options, document, lambda: terminal.show(table))


def _show(options: Options) -> int:
    with open_for(options.db, read_only=True) as ledger:
        results = results_named(ledger, options.set, options.project)
    document = summary(results, labels=options.labels)
    return opt.give(options, document, lambda: _show_results(options, results))


def _show_results(options: Options, results: LabelResults) -> None:
    hidden = "not listed without --labels."
    for part in results_view(results, seen=None if options.labels else (), why_hidden=hidden):
        if isinstance(part, Section):
            sys.stdout.write(f"\n{part.title}\n")
        terminal.show(part.parts if isinstance(part, Section) else [part])
    if results.labels and not options.labels:
        sys.stdout.write(
            "\nLabels and comments are hidden so that raters stay blind. If you have labelled your"
            " items, or are not a rater, add --labels.\n"
        )


_UNJUDGED = ("JDG-009", "JDG-010", "STO-008")
"""Without verdicts that can be compared with the labels, people's work can still be exported."""


def _export(options: Options) -> int:
    if not opt.outputs(options):
        raise UsageError("CLI-001", "no file to write to.", fix="Give -o labels.jsonl")
    with open_for(options.db, read_only=True) as ledger:
        results = results_named(ledger, options.set, options.project)
        if options.pairs:
            rows = _pairs(ledger, results, options.project)
        else:
            judgements = read_judgements(options.judgements) if options.judgements else None
            try:
                labels = labelled_rows(
                    ledger,
                    results,
                    project=options.project,
                    criterion=options.criterion,
                    judgements=judgements,
                ).rows
            except AssayError as error:
                if options.judgements or error.code not in _UNJUDGED:
                    error.where = error.where or options.judgements or ""
                    raise
                opt.note(f"{error.message} The rows have no verdicts of a judge.")
                labels = unjudged_rows(results, criterion=options.criterion)
            rows = [
                {
                    name: value
                    for name, value in row._asdict().items()
                    if value is not None or name in ("human", "judge")
                }
                for row in labels
            ]
    made = results.stored.set
    labelled = sum(row.get("label" if options.pairs else "human") is not None for row in rows)
    document = {
        "set": {"name": made.name, "id": made.id, "digest": results.stored.digest},
        "rows": len(rows),
        "labelled": labelled,
        "files": list(options.output),
    }
    line = f"{count(len(rows), 'row')}, {labelled:,} labelled, in {', '.join(options.output)}"
    return opt.give(options, document, [line], forms={".jsonl": lambda _: opt.json_lines(rows)})


def _pairs(ledger: Ledger, results: LabelResults, project: str) -> list[dict[str, Any]]:
    """The pairs of a set with people's choices, as `judge pairwise` and `judge audit` read them."""
    made = results.stored.set
    if made.other is None:
        raise UsageError("CLI-001", f"the set {made.name} has no pairs.", fix="Leave --pairs out.")
    people = people_say(results, CHOICE)
    rows = []
    for item in made.items:
        wanted = [item.run, str(item.other)]
        items = ledger.get_many(wanted, project=project)
        trees = [
            items[digest].tree() for digest in wanted if digest in items and items[digest].body
        ]
        if len(trees) < 2:
            raise NotEnoughEvidence(
                "STO-008",
                f"a run of the sample {item.sample!r} was forgotten.",
                where=results.stored.digest,
                fix="Make a new set: `assay label new`.",
            )
        first, second = trees
        rows.append(
            {
                "id": item.sample,
                "input": first.get("inputs"),
                "a": first.get("outputs"),
                "b": second.get("outputs"),
                "reference": first.get("expected") if made.expected else None,
                "label": people.get(item.run),
                "a_run": item.run,
                "b_run": item.other,
            }
        )
    return rows


def _override(options: Options) -> int:
    name = options.rater
    if not name:
        with suppress(OSError, KeyError):
            name = getpass.getuser()
    if not name:
        raise UsageError("CLI-001", "the rater has no name.", fix="Give your name with --rater.")
    with open_for(options.db) as ledger:
        evaluation = (
            need_evaluation(ledger, options.evaluation, project=options.project)
            if options.evaluation
            else None
        )
        run = run_named(ledger, options.run, evaluation, project=options.project)
        label = override_label(
            run,
            evaluation and evaluation.digest,
            Rater(name=name, by="stated"),
            verdict=options.verdict,
            reason=options.reason,
        )
        drafts = saving(ledger, label, project=options.project)
        stored = ledger.put_many(drafts, project=options.project)
        labels = labels_of_run(ledger, label.run, project=options.project)
    document = {
        "run_id": label.run_id,
        "run": label.run,
        "verdict": options.verdict,
        "rater": label.rater,
        "new": any(label.new for label in stored),
        "overrides": len(labels.overrides),
    }
    line = (
        f"{label.run_id}: {label.rater.name} says {options.verdict}."
        f"{'' if document['new'] else ' That was recorded before.'}"
        " The grade is unchanged, and no gate reads overrides."
    )
    return opt.give(options, document, [printable(line)])


COMMANDS = {
    "judge rubric": Command(
        common.stored(_rubric),
        "Score texts against the criteria of a rubric: one question for each criterion, the reason"
        " before the score, quotes that must appear in the text.",
        "assay judge rubric runs.jsonl --rubric rag --judge judge.yaml -o judged.jsonl -o"
        " judgements.json",
        (*_WORK, *common.JUDGE),
        formats=(".json", ".jsonl"),
    ),
    "judge panel": Command(
        common.stored(_panel),
        "Ask several judges, ideally of different families, by one rubric: their mean or majority,"
        " and how far they disagree.",
        "assay judge panel runs.jsonl --rubric rag --judge a.yaml --judge b.yaml --judge c.yaml"
        " --vote majority -o judged.jsonl",
        (
            *_WORK,
            *common.JUDGES,
            arg(
                "--vote",
                choices=("mean", "majority"),
                default="mean",
                help="how the scores become one (default: mean)",
            ),
        ),
        formats=(".json", ".jsonl"),
    ),
    "judge pairwise": Command(
        common.stored(_pairwise),
        "Compare two answers to each task in both orders; if the orders disagree, it asks"
        " once more, then calls a tie.",
        "assay judge pairwise pairs.jsonl --judge judge.yaml -o comparisons.json -o verdicts.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    'lines of {"id", "input", "a", "b", "reference", "label"}; or two files of'
                    " runs, candidate a and b"
                ),
            ),
            arg(
                "--definition",
                kind="text",
                trust="freely",
                metavar="TEXT",
                default=DEFINITION,
                help="what counts as better",
            ),
            arg(
                "--limit",
                within=Bounds(0, 1),
                metavar="X",
                type=float,
                default=0.10,
                help="warn above this rate of inconsistent pairs (default: 0.10)",
            ),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
    "judge claims": Command(
        common.stored(partial(_decide, _CLAIMS)),
        "Decide whether the retrieved context supports each claim: a yes needs a quote from the"
        " context. Writes the runs with `supported` decided.",
        "assay judge claims runs.jsonl --judge judge.yaml -o grounded.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    "runs (assay.run/1) with claims and retrieval, or an evaluation's name or"
                    " latest"
                ),
            ).of_runs(),
            flag("--again", "also ask about claims that are already decided"),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
    "judge passages": Command(
        common.stored(partial(_decide, _PASSAGES)),
        "Decide whether each retrieved passage helps to answer the question, and which statements"
        " of the expected answer the passages contain. Writes the runs with `relevant` and"
        " `expected_claims` decided, for context precision and recall.",
        "assay judge passages runs.jsonl --judge judge.yaml -o judged.jsonl",
        (
            arg(
                "files",
                metavar="FILE",
                nargs="+",
                help=(
                    "runs (assay.run/1) with retrieval, and an expected answer for recall, or an"
                    " evaluation's name or latest"
                ),
            ).of_runs(),
            flag("--again", "also ask about passages that are already decided"),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json", ".jsonl"),
    ),
    "judge card": Command(
        common.stored(_card),
        "Make the card of a judge from its audit and its calibration, and show whether it may gate"
        " under a policy. Exit 0 if it may, 1 if not.",
        "assay judge card --audit audit.json --calibration calibration.json -o card.json -o"
        " card.html",
        (
            arg(
                "--audit",
                kind="path",
                metavar="FILE",
                help="the output of `assay judge audit -o audit.json`",
            ),
            arg(
                "--calibration",
                kind="path",
                metavar="FILE",
                help="the output of `assay judge calibrate -o calibration.json`",
            ),
            arg(
                "--model",
                kind="text",
                trust="freely",
                metavar="M",
                help="the model the card is for, if neither file names it",
            ),
            policy_option("workflow-judged"),
            "--now",
            "--library",
            *STORE,
        ),
        formats=(".json", ".html"),
    ),
    "judge audit": Command(
        common.stored(_audit),
        "Measure what moves a judge besides quality: position, length, padding, its own family,"
        " repeats, stated scores, injections. Each with an interval.",
        "assay judge audit --judge judge.yaml -o audit.json",
        (
            arg(
                "--items",
                kind="path",
                metavar="FILE",
                help=(
                    "your own pairs, labelled where you can, instead of the 40 bundled ones; copies"
                    " count once"
                ),
            ),
            repeated(
                "--probe",
                "NAME",
                f"only this probe; may be repeated ({', '.join(PROBES)})",
                choices=PROBES,
            ),
            arg(
                "--first",
                within=Bounds(least=2),
                metavar="N",
                type=int,
                help=(
                    "only the first N pairs and injections, for a slow judge; intervals grow"
                    " accordingly"
                ),
            ),
            arg(
                "--repeats",
                within=Bounds(least=2),
                metavar="N",
                type=int,
                default=3,
                help="draws of each question in the self_agreement probe (default: 3)",
            ),
            *common.JUDGE,
            *STORE,
        ),
        formats=(".json",),
    ),
    "judge calibrate": Command(
        common.stored(_calibrate),
        "Compare a judge's verdicts with human labels: agreement, bias, and the true rate or mean"
        " from few labels and many verdicts.\nThe labelled rows must be drawn at random from all"
        " rows.",
        "assay judge calibrate --labels labels.jsonl --judgements judgements.json --set support@3"
        " -o calibration.json",
        (
            arg(
                "--labels",
                kind="path",
                metavar="FILE",
                help=(
                    '.jsonl of {"id", "human", "judge"}; human null: unlabelled; judge null:'
                    " unparsable; without judge, the verdict comes from --judgements"
                ),
            ),
            arg(
                "--from-ledger",
                kind="text",
                trust="freely",
                metavar="SET",
                help=(
                    "take the labels that people gave to a set (`assay label`) in the ledger, and"
                    " the verdicts from the evaluation's runs or from --judgements"
                ),
            ),
            arg(
                "--criterion",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="the criterion that people labelled, where there are several",
            ),
            arg(
                "--judgements",
                kind="path",
                metavar="FILE",
                help=(
                    "where the judge gave these verdicts (`judge rubric -o FILE.json`): names the"
                    " judge; a card needs it"
                ),
            ),
            arg(
                "--minimum",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=MINIMUM_LABELS,
                help=f"labelled verdicts that are needed (default: {MINIMUM_LABELS})",
            ),
            arg(
                "--level",
                metavar="X",
                type=float,
                default=0.95,
                help="confidence level of every interval (default: 0.95)",
            ),
            arg(
                "--set",
                kind="text",
                trust="freely",
                metavar="ID@VERSION",
                help="name of the calibration set; its digest covers ids and labels",
            ),
            arg(
                "--positive",
                kind="text",
                trust="freely",
                metavar="VALUE",
                help="the value whose rate to estimate, if values are words, for example pass",
            ),
            arg(
                "--seed",
                metavar="N",
                type=int,
                default=0,
                help="recorded with the result; it changes no number (default: 0)",
            ),
            "--db",
            *STORE,
        ),
        formats=(".json",),
    ),
    "judge drift": Command(
        _drift,
        "Compare a judge's latest card with its own past ones: verdicts that flipped on the same"
        " items, agreement, mean.\nExit 0: no change shown; 1: alarm; 4: not enough on the cards.",
        "assay judge drift cards/2026-10.json cards/2026-11.json",
        (
            arg(
                "files",
                nargs="+",
                metavar="CARD",
                help="cards of one judge, in any order; the newest is compared with the others",
            ),
            arg(
                "--minimum",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=LIMITS.minimum,
                help=f"items with verdicts on both cards (default: {LIMITS.minimum})",
            ),
            arg(
                "--max-flipped",
                within=Bounds(least=0, below=1),
                metavar="X",
                type=float,
                default=LIMITS.max_flipped,
                help=f"share of verdicts that may change (default: {LIMITS.max_flipped})",
            ),
            arg(
                "--alpha",
                within=Bounds(above=0, below=1),
                metavar="X",
                type=float,
                default=LIMITS.alpha,
                help=f"chance of a false alarm over all tests (default: {LIMITS.alpha})",
            ),
            *STORE,
        ),
        formats=(".json",),
    ),
    "label new": Command(
        _new,
        "Draw samples of a stored evaluation for people to label. Each rater gets every"
        " item, in a different order, and never sees a judge's score or a grade.\nThe same"
        " command twice"
        " makes one set.",
        "assay label new latest --n 50 --draw random",
        (
            arg(
                "evaluation",
                kind="text",
                metavar="EVALUATION",
                help="an evaluation's name or id, latest or latest~N",
            ),
            arg("--n", type=int, metavar="N", default=50, help="how many items (default: 50)"),
            arg(
                "--draw",
                kind="text",
                trust="freely",
                metavar="HOW",
                default="random",
                help=(
                    f"{', '.join(DRAWS)}: any sample; where judge and rules are furthest apart; or"
                    " nearest to a floor or the passing score (default: random). A judge may"
                    " gate only on random labels"
                ),
            ),
            arg(
                "--pairs",
                kind="text",
                trust="freely",
                metavar="OTHER",
                help="compare the answers with those of another evaluation, blind, instead",
            ),
            arg(
                "--rubric",
                heading="grading",
                offers="rubrics",
                kind="name",
                metavar="R",
                help=(
                    "rubric to score by: name, name@version or YAML file (default: the judge's,"
                    " else the profile's)"
                ),
            ),
            repeated(
                "--criterion",
                "NAME",
                "only this criterion; may be repeated",
                kind="text",
                trust="freely",
            ),
            arg("--seed", type=int, metavar="N", default=0, help="seed of the draw (default: 0)"),
            arg(
                "--name",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="name of the set (default: from the evaluation)",
            ),
            arg(
                "--question",
                kind="text",
                trust="freely",
                metavar="TEXT",
                help="with --pairs: what makes an answer better",
            ),
            flag("--with-reference", "show raters the expected answer"),
            "--library",
            "--db",
            "--project",
        ),
    ),
    "label list": Command(
        _list,
        "List the label sets of the ledger, newest first.",
        "assay label list",
        ("--db", "--project"),
    ),
    "label show": Command(
        _show,
        "Show how far raters have got, how well they agree and how often they differ; with"
        " --labels also what each of them gave and wrote.\n"
        "Agreement is Cohen's kappa for two raters and Krippendorff's alpha for more.",
        "assay label show latest",
        (
            SET,
            flag("--labels", "also show raters' labels and comments; label your items first"),
            "--db",
            "--project",
        ),
    ),
    "label export": Command(
        _export,
        "Write the labels of a set next to the judge's verdicts, as `assay judge calibrate"
        " --labels` reads them; `judge` is null where no judge scored by the rubric of the set."
        " Several raters become one value: the median of scores, the"
        " most frequent choice.",
        "assay label export latest -o labels.jsonl",
        (
            SET,
            arg(
                "--criterion",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="which criterion, where the set has several",
            ),
            arg(
                "--judgements",
                kind="path",
                metavar="FILE",
                help=(
                    "the judge's verdicts (`judge rubric` or `judge pairwise -o FILE.json`;"
                    " default: the scores in the runs)"
                ),
            ),
            flag("--pairs", "write the pairs themselves, for `assay judge pairwise`"),
            "--db",
            "--project",
        ),
        formats=(".jsonl",),
    ),
    "label override": Command(
        _override,
        "Record that a person would have decided differently on a run, and why. It is shown"
        " next to the"
        " grade and counted; it never changes a grade, a total or a decision.",
        "assay label override r-001 --verdict fail --reason 'Quotes the 2019 price list'",
        (
            arg("run", kind="text", metavar="RUN", help="a run's id, or its digest"),
            arg("--verdict", required=True, choices=("pass", "fail"), help="what you would decide"),
            arg("--reason", kind="text", trust="freely", required=True, metavar="TEXT", help="why"),
            arg(
                "--in",
                kind="text",
                trust="freely",
                dest="evaluation",
                metavar="EVALUATION",
                help="the evaluation of the run",
            ),
            arg(
                "--rater",
                kind="text",
                trust="trusted",
                metavar="NAME",
                help="who decided (default: the user of this machine)",
            ),
            "--db",
            "--project",
        ),
    ),
}
