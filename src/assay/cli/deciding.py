"""`assay gate`: whether a candidate may replace a baseline: names and files as sides, what is
asked of the decision, fresh runs, the plan, and what is shown.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from assay.canon import digest, pretty
from assay.cli import options as opt
from assay.cli import terminal
from assay.cli.family_inputs import own_reader
from assay.cli.frame import COMPARED_BY
from assay.cli.grade import choice_of, graded_choice
from assay.cli.hints import GRADED_BY, command, given, is_one_file
from assay.cli.ledger import ledger_options, storing_evaluated, storing_result
from assay.cli.options import is_typed
from assay.cli.parsing import Options
from assay.cli.progress import Progress
from assay.cli.references import given_rules, suggested_baseline
from assay.errors import InputError, NotEnoughEvidence, UsageError, count, few
from assay.files.atomic import write_file
from assay.files.inputs import Source, listed
from assay.files.json_files import (
    Document,
    Unread,
    member,
    parse_json,
    read_documents,
    stream_documents,
)
from assay.files.line_log import LineLog, LogErrors, LogPlace
from assay.files.own_files import is_batch_output
from assay.importers.known import KNOWN
from assay.project.config import Config, read_config
from assay.project.imports import ToolRuns
from assay.project.inputs import BaselineName, StoredRuns
from assay.project.ledger import baselines_folder
from assay.records.decision import Decision
from assay.records.evidence import IMPORTED
from assay.records.samples import NO_TEXTS, TextCollector, Texts, names_of, row_of_run
from assay.registry import is_path
from assay.release.attestation import Subject, envelope, statement
from assay.release.baseline import (
    EvidenceAge,
    StoredBaseline,
    age_warning,
    changed,
    names,
    refuse_exam,
)
from assay.release.decision import exit_code
from assay.release.plan import make_plan, read_plan
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.running.workflow import read_workflow
from assay.services.compare import (
    Acceptance,
    Asked,
    FreshRuns,
    Origin,
    ReadSide,
    check_origins,
    compare,
    full_names,
    regraded_baseline,
)
from assay.services.confirm import Confirmation, Confirmed, FreshRun, needed_runs
from assay.services.grading import Graded, Grader
from assay.services.named_baselines import find_named
from assay.services.sides import Rereadable, Seen, read_texts, severe_of, side_of
from assay.views.blocks import Note, Part, section
from assay.views.charts.decisions import ScorePair
from assay.views.decision import (
    TEXT,
    decision_charts,
    decision_summary,
    decision_view,
    new_failures,
    outcome_word,
    samples_to_show,
)
from assay.views.exporters import ResultSource
from assay.views.sample import evidence_block, kept_evidence
from assay.views.text import fact_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from assay.release.sides import Side
    from assay.services.choice import Choice
    from assay.services.stored_sides import SideReader
    from assay.services.storing import Result, Store


def run(options: Options) -> int:
    """Decide, or plan a decision."""
    rules = rules_of(options)  # what is wrong with them comes first
    if options.sign and not options.attest:
        raise UsageError("CLI-001", "--sign needs --attest FILE.")
    if options.plan:
        return plan(options, rules, choice_of(options))
    if not options.files or not options.baseline:
        named = options.baseline or options.files
        raise UsageError(
            "CLI-001",
            "a decision needs a candidate and --baseline."
            if not named
            else f"a decision needs a candidate to compare with {listed(named)}."
            if options.baseline
            else "a decision needs --baseline.",
            fix=_example(options),
        )
    opt.outputs(options)
    # before anything is written: no file says promote of a decision that could not be kept
    return _finish(options, decided(options))


def rules_of(options: Options) -> ReleaseRules:
    """The rules of the release policy that the options name, with the numbers they set."""
    return make_release_rules(
        opt.shelf_of(options).policy_of("release", options.release_policy),
        Bars(options.tolerance, options.min_pass_rate, options.confidence, options.min_overlap),
    )


def decided(options: Options) -> Decided:
    """The decision between two sides, stored in a ledger if the candidate is an evaluation in it or
    the options request it.
    """
    rules, (choice, warned) = rules_of(options), graded_choice(options)
    if (source := options.sources.get("baseline")) and not is_typed(options, "baseline"):
        names_given = few([side.name for side in options.baseline])
        opt.note(f"the baseline is {names_given}, which {source} names.")
    if decide := own_reader("gate", [side.path for side in (*options.files, *options.baseline)]):
        own: Decided = decide(options, rules, asked_of(options))
        return own
    with storing_evaluated(options) as store:
        return (
            _decide(options, rules, choice.grader(), warned)
            if store is None
            else _decide_and_store(options, rules, choice, store, warned)
        )


def _decide(
    options: Options,
    rules: ReleaseRules,
    grader: Grader,
    warned: Sequence[str],
    *,
    kept: SideReader | None = None,
) -> Decided:
    judged, compared = list[Subject](), list[Subject]()
    now = opt.moment(options.now)
    candidate = read_side(
        options.files,
        grader,
        name="candidate",
        rules=rules,
        kept=kept,
        read=judged,
    )
    baseline, origin = read_baseline(
        options.baseline,
        grader,
        folder=options.baselines,
        rules=rules,
        now=now,
        kept=kept,
        read=compared,
    )
    asked = asked_of(options, terms_of(options, origin))._replace(
        fresh=_fresh(options, rules, grader, judged, compared, kept)
    )
    if options.confirm:
        if options.fresh:
            raise UsageError("CLI-001", "--confirm makes the fresh runs, and --fresh names some.")
        confirmed = confirm(options, (candidate, baseline), rules, grader, asked)
        if confirmed is not None:
            asked = asked._replace(fresh=_kept_fresh(confirmed.fresh, grader, kept))
    decision = compare(candidate, baseline, rules, grader, asked)
    for text in frozenset(decision.regraded or ()).difference(warned):
        opt.warn(text)
    ours, theirs = candidate.side.samples, baseline.side.samples
    pairs = [
        ScorePair(
            name,
            ours[name].score if name in ours else None,
            theirs[name].score if name in theirs else None,
            (theirs if name in theirs else ours)[name].title,
        )
        for name in sorted(theirs.keys() | (ours.keys() & set(decision.missing.baseline)))
        if name not in decision.missing.quarantined
    ]
    named = named_samples(options, decision, candidate, baseline, grader)
    importer = importer_of(candidate) if candidate.side.imported else ""
    workflow = next(iter(candidate.side.versions), "")
    return Decided(decision, judged, compared, named, pairs, importer, workflow, asked.fresh)


def asked_of(options: Options, terms: Asked | None = None) -> Asked:
    """What the options ask of a decision, besides its sides and rules. `terms` say where the sides
    come from.
    """
    accepted = tuple(name for text in options.accept for name in text.split(",") if name)
    return (terms or Asked())._replace(
        quarantine=tuple(options.quarantine),
        slices=tuple(options.slice),
        plan=_plan(options),
        accepted=Acceptance(accepted, options.because or "", _person() if accepted else ""),
    )


def _person() -> str:
    """Who runs this command: on a code host the person who started the job, else the author of
    commits in this folder, else the user of this machine.
    """
    for name in ("GITHUB_ACTOR", "GITLAB_USER_LOGIN"):
        if os.environ.get(name):
            return os.environ[name]
    words = [shutil.which("git") or "git", "config", "user.email"]
    try:
        made = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        return getpass.getuser()
    return made.stdout.strip() or getpass.getuser()


def _fresh(
    options: Options,
    rules: ReleaseRules,
    grader: Grader,
    judged: list[Subject],
    compared: list[Subject],
    kept: SideReader | None,
) -> FreshRuns:
    """The fresh runs that the options name."""
    if options.fresh_baseline and not options.fresh:
        raise UsageError(
            "CLI-001", "--fresh-baseline needs --fresh, the fresh runs of the candidate."
        )
    sides = [
        read_side(files, grader, name=f"fresh {name}", rules=rules, kept=kept, read=read)
        if files
        else None
        for files, name, read in (
            (options.fresh, "candidate", judged),
            (options.fresh_baseline, "baseline", compared),
        )
    ]
    return FreshRuns(*sides)


def _kept_fresh(fresh: FreshRuns, grader: Grader, kept: SideReader | None) -> FreshRuns:
    """Fresh runs that were made just now, stored like any other evidence."""
    if kept is None:
        return fresh
    sides = [
        None
        if side is None
        else kept.read(side.documents, grader, name=side.side.name, where=side.side.name)
        for side in fresh
    ]
    return FreshRuns(*sides)


def _example(options: Options) -> str:
    """An example of a decision that is possible with what is stored."""
    if options.files:
        found = next(iter(names(options.baselines)), None) or suggested_baseline(options)
        if found is not None:
            files = [side.name for side in options.files]
            again = command("gate", *files, "--baseline", found, options=options)
            return f"Run `{again}`."
        return (
            "Give the results to compare with, a file or an evaluation's name: `--baseline"
            " BASELINE`. The ledger has no other version of this workflow yet."
        )
    if options.baseline:
        named = options.baseline if is_typed(options, "baseline") else ()
        words = [word for side in named for word in ("--baseline", side.name)]
        return f"Run `{command('gate', 'latest', *words, options=options)}`."
    return "For example: `assay gate candidate.jsonl --baseline baseline.jsonl`."


def _plan(options: Options) -> dict[str, Any] | None:
    """The plan that was declared before."""
    if not options.with_plan:
        return None

    return read_plan(options.with_plan)


def _decide_and_store(
    options: Options, rules: ReleaseRules, choice: Choice, store: Store, warned: Sequence[str]
) -> Decided:
    """The decision, kept with the grades of both sides and their evidence."""
    from assay.services.stored_sides import SideReader, decision_drafts

    choice = choice.dated()
    sides = SideReader(store, choice, severe=severe_of(rules))
    made = _decide(options, rules, choice.grader(), warned, kept=sides)
    candidate, baseline = sides.kept[:2]
    if bare := candidate.bare + baseline.bare:
        opt.note(
            f"not stored, because they came without their evidence: {count(bare, 'grade')}."
            " The decision is stored, but cannot be replayed."
        )
    drafts = decision_drafts(
        made.decision,
        candidate,
        baseline,
        fresh=[sides.of(side) for side in made.fresh],
        plan=_plan(options),
        made=options.resolved.made,
    )
    store.put(drafts)
    return made


def _finish(options: Options, made: Decided) -> int:
    from assay.views import junit
    from assay.views.markdown import view

    document = made.decision
    texts = NO_TEXTS if made.named is None else made.named.texts
    page = view(outcome_word(document), decision_summary(document, texts, most=TEXT))
    forms: dict[str, Callable[[Decision], bytes]] = {
        ".txt": suspects_text,
        ".md": lambda _: page.encode(),
        ".xml": lambda document: junit.decision(document, texts),
        ".sarif": lambda document: _sarif(options, document, texts),
        ".html": lambda _: _html(options, made),
    }
    if options.charts:
        from assay.views.drawing import write_charts

        write_charts(decision_charts(document, made.pairs), options.charts)
    if (target := opt.step_summary(options)) is not None:
        opt.append_summary(target, page.encode())
    if options.attest:
        _attest(options, made)
    for note in document.loud or () if options.json else ():
        opt.note(note)
    summary = decision_summary(document, texts)
    show = partial(terminal.show, [*summary, *map(Note, next_command(options, made))])
    return opt.give(options, document, show, exit_code(document), forms=forms)


def _html(options: Options, made: Decided) -> bytes:
    from assay.views.render import report

    document, named = made.decision, made.named
    title = f"Assay: {outcome_word(document)}"
    parts = (
        decision_view(document, pairs=made.pairs)
        if named is None
        else [
            *decision_view(document, pairs=made.pairs, texts=named.texts, broken=named.broken),
            *named.parts(),
        ]
    )
    sides = ([side.name for side in sources] for sources in (options.files, options.baseline))
    heading = " against ".join(map(few, sides))
    return report(title, *parts, heading=heading).encode()


def _sarif(options: Options, document: Decision, texts: Texts) -> bytes:
    from assay.views.sarif import decision, named_samples

    files = [side for side in options.files if is_path(side.name) and side.path != "-"]
    return decision(
        document,
        places=sample_places(files, named_samples(document)),
        file=files[0].name if files else None,
        texts=texts,
    )


def _attest(options: Options, made: Decided) -> None:
    from datetime import UTC, datetime

    now = opt.moment(options.now) or datetime.now(UTC)
    stated = statement(made.decision.tree(), subjects=made.judged, baseline=made.compared, now=now)
    write_file(options.attest, pretty(envelope(stated, key=options.sign)))


_MADE = (StoredRuns, ToolRuns)
"""What is read from a file that this command made, and known by the digest of what it was made of.
"""
_KEPT_RULES = (
    "Name the rules of the baseline with --profile, --rubric or --grading-policy, or undo their"
    " change in assay.yaml; or store it again under the new ones:"
)


def read_side(
    sources: Sequence[Source],
    grader: Grader,
    *,
    name: str,
    rules: ReleaseRules | None = None,
    kept: SideReader | None = None,
    read: list[Subject] | None = None,
    seen: Seen | None = None,
) -> ReadSide:
    """One side of a comparison, from its files. An unreadable line stops everything, since its
    content is unknown, and so does a file without runs: what belongs in it is unknown too. `kept`
    records the inputs, and `read` receives each file with the digest of the bytes that were read.
    `seen` receives each grade as it is made.
    """
    where = listed(sources)
    filled: set[str] = set()
    typed = sha256()
    has_stdin = any(source.path == "-" for source in sources)
    piped = [*stream_documents("-", digest=typed)] if has_stdin else []
    subjects = read
    bytes_read: dict[str, str] = {}

    def documents() -> Iterator[Document | Unread]:
        nonlocal subjects
        noted, subjects = subjects, None  # the bytes that count are those of the first read
        for source in sources:
            if source.path == "-":
                yield from piped
                if noted is not None:
                    noted.append(Subject("<stdin>", typed.hexdigest()))
            else:
                yield from _hashed(source, noted, bytes_read)

    def each(document: Document, graded: Graded) -> None:
        filled.add(document.file)
        if seen is not None:
            seen(document, graded)

    if kept is None:
        severe = None if rules is None else severe_of(rules)
        side = side_of(documents(), grader, name=name, severe=severe, where=where, seen=each)
        found: ReadSide = Rereadable(side, documents)
    else:
        found = kept.read(documents, grader, name=name, where=where, seen=each)
    for source in sources:
        if ("<stdin>" if source.path == "-" else source.name) not in filled:
            raise NotEnoughEvidence(
                "REL-003",
                f"contains no runs, and the other files of the {name} do.",
                where=source.name,
                fix="Fill it, or leave it out if nothing belongs in it.",
            )
    return found


def _hashed(
    source: Source, noted: list[Subject] | None, bytes_read: dict[str, str]
) -> Iterator[Document | Unread]:
    """The documents of a file, which is refused if it isn't the one that was read before."""
    own = sha256()
    yield from stream_documents(source, digest=own)
    if bytes_read.setdefault(source.name, own.hexdigest()) != own.hexdigest():
        raise InputError(
            "REL-008",
            "changed while this command was reading it.",
            where=source.name,
            fix="Run it again.",
        )
    if noted is not None:
        content = source.digest if isinstance(source, _MADE) else own.hexdigest()
        noted.append(Subject(source.name, content))


def sample_places(files: Sequence[Source], samples: Collection[str]) -> dict[str, ResultSource]:
    """Where the first run of each of these samples is."""
    places: dict[str, ResultSource] = {}
    for document in chain.from_iterable(map(stream_documents, files)):
        tree = None if isinstance(document, Unread) else document.tree
        if isinstance(tree, dict) and not isinstance(document, Unread):
            about = {**tree, "sample_id": _sample_id(tree)}
            for name in names_of(about):
                if name in samples and name not in places:
                    places[name] = ResultSource(
                        structs.replace(document, tree=tree.get("metadata"))
                    )
    return places


def _sample_id(tree: dict[str, Any]) -> Any:
    """The sample of a run, which is in its dataset, or of a scorecard or grade."""
    dataset = tree.get("dataset")
    return dataset.get("sample_id") if isinstance(dataset, dict) else tree.get("sample_id")


class NamedSide(NamedTuple):
    """A side, and where it comes from."""

    side: ReadSide
    origin: Origin


def origin_of(sources: Sequence[Source]) -> Origin:
    """Where a side of files or of an evaluation comes from."""
    if not sources:
        return Origin()
    named = ", ".join(_as_given(source) for source in sources)
    source = sources[0]
    if len(sources) > 1 or not isinstance(source, StoredRuns) or source.evaluation is None:
        return Origin(listed(sources), named)
    stored = source.evaluation
    return Origin(
        source.name,
        named,
        stored.evaluation.started,
        stored.runs_digest,
        graded=source.graded,
        where=source.name,
    )


def _as_given(source: Source) -> str:
    """What the user wrote; empty for what has another name than that."""
    if isinstance(source, StoredRuns):
        return source.asked
    return source.name if source.numbered else ""


def read_baseline(
    sources: Sequence[Source],
    grader: Grader,
    *,
    folder: str,
    rules: ReleaseRules,
    now: datetime | None,
    kept: SideReader | None = None,
    read: list[Subject] | None = None,
) -> NamedSide:
    """The baseline: files, or the name of a stored one or of an evaluation. With `kept` one that is
    not in the folder may be in the ledger.
    """
    names = [source.name for source in sources if isinstance(source, BaselineName)]
    if names and len(sources) > 1:
        raise UsageError(
            "CLI-001",
            f"{names[0]!r} names a stored baseline, and it is one of several.",
            fix=f"Give one name, or files only; a file of that name is ./{names[0]}.",
        )
    if names:
        return read_named(names[0], grader, folder=folder, kept=kept, read=read, rules=rules)
    age = EvidenceAge()
    side = read_side(
        sources,
        grader,
        name="baseline",
        rules=rules,
        kept=kept,
        read=read,
        seen=lambda _, graded: age.add(graded.run),
    )
    where, moment = listed(sources), now or datetime.now(UTC)
    dated = StoredBaseline(where, where, "runs", age.dated(moment), {})
    origin = origin_of(sources)
    if origin.made_at is None:  # else it is refused
        warn_of_age(dated, rules, moment, "A stored baseline of that age is refused.")
    return NamedSide(side, origin)


def terms_of(options: Options, origin: Origin) -> Asked:
    """What the options say of a comparison with this baseline."""
    file = origin.where if origin.where.endswith(".jsonl") else "FILE"
    words = ("baseline", "set", re.split("[@ ]", origin.name)[0], file)
    typed = options.baselines != baselines_folder()
    carry = (*COMPARED_BY, *(("--baselines",) if typed else ()))
    return Asked(
        candidate=origin_of(getattr(options, "files", ())),
        baseline=origin,
        given=frozenset(given_rules(options)),
        made=options.resolved.made,
        now=opt.moment(options.now),
        other_rules=f"{_KEPT_RULES} `{command(*words, options=options, carry=carry)}`.",
    )


def checked(baseline: NamedSide, grader: Grader, rules: ReleaseRules, options: Options) -> Side:
    """A baseline that a decision would accept, for what makes none."""
    terms = terms_of(options, baseline.origin)
    check_origins(terms.candidate, terms.baseline, rules, now=terms.now)
    for note in regraded_baseline(baseline.side, grader, terms):
        opt.warn(note)
    return baseline.side.side


def warn_of_age(
    stored: StoredBaseline, rules: ReleaseRules, now: datetime | None, then: str
) -> None:
    """Warn of a baseline that is older than the policy allows."""
    if warning := age_warning(stored, rules, now=now, then=then):
        opt.warn(warning)


def read_named(
    name: str,
    grader: Grader,
    *,
    folder: str,
    kept: SideReader | None = None,
    read: list[Subject] | None = None,
    rules: ReleaseRules | None = None,
) -> NamedSide:
    """The side that a stored baseline is, by its name."""
    looked_in = kept.store if kept is not None and kept.store.needed else None
    stored, in_ledger = find_named(folder, name, looked_in)
    refuse_exam(stored.kind, stored.name, where=stored.path)
    label = f"baseline {stored.name}"
    origin = Origin(stored.name, name, kept=stored.record, where=stored.path)
    if kept is not None and in_ledger is not None:
        if read is not None:
            read.append(Subject(stored.name, in_ledger.digest.removeprefix("sha256:")))
        found: ReadSide = kept.read_baseline(in_ledger, grader, name=label)
        return NamedSide(found, origin._replace(digest=in_ledger.digest))
    own: list[Subject] = []
    found = read_side(
        [Source(stored.path, stored.path)], grader, name=label, rules=rules, kept=kept, read=own
    )
    if (
        own[0].sha256 != stored.record["evidence_digest"]
    ):  # again, of the bytes that count: a file can be swapped after it was found
        raise changed(stored.path, "the evidence is not what was stored")
    if read is not None:
        read.append(Subject(stored.name, own[0].sha256))
    return NamedSide(found, origin)


BROKEN = 3
"""Samples that failed before, too, of which a page shows the texts."""
IN_DETAIL = 3
"""Samples of which a page has the whole evidence."""


class NamedSamples(NamedTuple):
    """What the pages of a decision show of the samples that it names."""

    texts: Texts = NO_TEXTS
    broken: Sequence[str] = ()
    """Samples that fail on both sides."""
    runs: Sequence[tuple[Graded, dict[str, Any]]] = ()
    """The candidate's worst runs of some of them, each with its grade as it is shown."""

    def parts(self) -> list[Part]:
        """The evidence of these runs, for a page."""
        folds = []
        for place, (graded, payload) in enumerate(self.runs, 1):
            row, kept = row_of_run(payload, graded.run), kept_evidence(graded.run)
            folds.append(evidence_block(row, kept, payload, place, opened=False))
        title = "Runs of the candidate in detail"
        return [section(title, *folds, id="worst")] if folds else []


class Decided(NamedTuple):
    """A decision, and what its reports show besides it."""

    decision: Decision
    judged: list[Subject]
    """What the candidate was read from."""
    compared: list[Subject]
    """What the baseline was read from."""
    named: NamedSamples | None = None
    """What is shown of the samples that it names; None for batches."""
    pairs: list[ScorePair] | None = None
    """The scores of every sample; None for batches."""
    importer: str = ""
    """Which tool's results the candidate is; empty for runs of our own."""
    workflow: str = ""
    """The candidate's workflow."""
    fresh: Sequence[ReadSide | None] = ()
    """The fresh runs of the candidate and of the baseline."""


def named_samples(
    options: Options, decision: Decision, candidate: ReadSide, baseline: ReadSide, grader: Grader
) -> NamedSamples:
    """The texts that the outputs of a command show; nothing is read where none shows any."""
    pages = any(path.endswith((".md", ".html")) for path in options.output)
    cases = any(path.endswith((".xml", ".sarif")) for path in options.output)
    shown = [item.sample for item in new_failures(decision)]
    if not (pages or options.step_summary or ((cases or not options.json) and shown)):
        return NamedSamples()
    wanted = samples_to_show(decision)
    broken = _failing_on_both(candidate, baseline, set(decision.missing.quarantined))
    named = {*wanted, *broken}
    collector, worst = TextCollector(), dict[str, tuple[Graded, dict[str, Any]]]()
    detailed = (wanted or broken)[:IN_DETAIL]
    for graded, payload in read_texts(candidate.documents, grader, "candidate", named, collector):
        sample = graded.grade.sample
        known = worst.get(sample)
        if sample in detailed and (
            known is None or graded.grade.score_units < known[0].grade.score_units
        ):
            worst[sample] = graded, payload
    for _ in read_texts(baseline.documents, grader, "baseline", named, collector):
        pass
    return NamedSamples(
        collector.texts(), broken, [worst[sample] for sample in detailed if sample in worst]
    )


def _failing_on_both(candidate: ReadSide, baseline: ReadSide, left_out: set[str]) -> list[str]:
    """The samples that no run of either side passes, the candidate's worst first."""
    before = baseline.side.samples
    failing = [
        sample
        for name, sample in candidate.side.samples.items()
        if not sample.passed
        and (known := before.get(name)) is not None
        and not known.passed
        and name not in left_out
    ]
    failing.sort(key=lambda sample: (sample.score, sample.sample))
    return [sample.sample for sample in failing[:BROKEN]]


def next_command(options: Options, made: Decided) -> list[str]:
    """The command that makes a promoted candidate the new baseline, that runs again what may newly
    fail, or that explains the sample on which a rejected candidate fell most.
    """
    document = made.decision
    if document.outcome == "promote":
        return _baseline_command(options)
    if document.confirmation.needed and document.outcome != "reject":
        return _fresh_commands(options, made)
    fell = next((item for item in document.worse if item.candidate is not None), None)
    if document.outcome != "reject" or fell is None or len(options.files) > 1:
        return []
    (side,) = options.files
    file = side.name
    if not is_one_file(file) or is_batch_output(side.path):
        return []
    policy = given(options, "--grading-policy")[1:]
    words = ("explain", file, "--run", fell.sample, *(("--policy", *policy) if policy else ()))
    ledger = "" if side.numbered else ledger_options(options)
    return [f"{command(*words, options=options, carry=GRADED_BY)}{ledger}  # why"]


def open_samples(document: Decision) -> list[str]:
    """The samples that fresh runs could settle."""
    suspects = document.confirmation.suspects
    waiting = {suspect.sample for suspect in suspects if suspect.verdict == "open"}
    return sorted(waiting | set(document.confirmation.severe))


def suspects_text(document: Decision) -> bytes:
    """The samples that fresh runs could settle, one on each line, as `assay run --only` reads
    them.
    """
    return "".join(f"{name}\n" for name in open_samples(document)).encode()


def importer_of(candidate: ReadSide) -> str:
    """The importer that read a side's first run."""
    for document in candidate.documents():
        imported = member(getattr(document, "tree", None), "metadata", IMPORTED, "from")
        return imported if isinstance(imported, str) else ""
    return ""


def _fresh_commands(options: Options, made: Decided) -> list[str]:
    """What makes the fresh runs: this command where both versions are workflows of assay.yaml, else
    the tool that the results come from.
    """
    document, names = made.decision, open_samples(made.decision)
    turns = document.confirmation.repeats
    known = KNOWN[made.importer].again if made.importer in KNOWN else None
    if known is not None:
        titles = document.titles or {}
        shown = [titles.get(name) or name.partition("/")[2] or name for name in names]
        again = known(shown, turns, made.workflow)
        return [f"{again}  # on both versions, then --fresh and --fresh-baseline"]
    if options.config is not None and not any(side.numbered for side in options.files):
        typed = [word for side in options.baseline for word in ("--baseline", side.name)]
        words = ("gate", *(side.name for side in options.files), *typed, "--confirm")
        return [f"{command(*words, options=options, carry=GRADED_BY)}  # run them again"]
    return []


def _baseline_command(options: Options) -> list[str]:
    kept, files = names(options.baselines), [side.name for side in options.files]
    replaced = [side.name for side in options.baseline if side.name in kept]
    if len(options.baseline) != 1 or not replaced or not all(map(is_one_file, files)):
        return []
    ledger = "" if options.files[0].numbered else ledger_options(options)
    typed = options.baselines != baselines_folder()
    carry = (*GRADED_BY, "--grading-policy", *(("--baselines",) if typed else ()))
    words = command("baseline", "set", *replaced, *files, options=options, carry=carry)
    return [f"{words}{ledger}  # once it is released"]


FOLDER = os.path.join(".assay", "confirm")
ERROR_LINES = 3


class RunnableSide(NamedTuple):
    """A version that can be run here."""

    workflow: str | None
    """Its name in assay.yaml; None for the only one."""
    config: str
    version: str
    """For the names of its runs."""
    trust: bool


def confirm(
    options: Options,
    sides: tuple[ReadSide, ReadSide],
    rules: ReleaseRules,
    grader: Grader,
    asked: Asked,
) -> Confirmed | None:
    """The decision after fresh runs; None if it needs none."""
    first = compare(*sides, rules, grader, asked)
    needed = needed_runs(first, rules)
    samples = sorted({*needed.suspects, *needed.severe})
    if not samples or first.outcome == "reject":
        return None
    with ExitStack() as stack:
        runnable = {
            "candidate": _runnable(options, sides[0], "candidate", None),
            "baseline": _baseline(options, sides[1], stack),
        }
        key = [sides[0].side.digests["evidence"], sides[1].side.digests["evidence"], rules.digest]
        name = digest(key).removeprefix("sha256:")[:16]
        log = LineLog(os.path.join(FOLDER, f"{name}.log"), LogErrors("REL-007"))
        places: list[LogPlace] = []
        log.open(lambda _tree, place, _line: places.append(place))
        stack.callback(log.close)
        kept = [FreshRun(**parse_json(log.raw(place))) for place in places]
        opt.note(_cost(needed.most, samples, sides))
        if kept:
            opt.note(f"{count(len(kept), 'fresh run')} of an earlier confirmation are used again.")
        progress = Progress(2 * needed.most, "fresh runs", unit="runs")

        def make(side: str, sample: str, attempt: int) -> dict[str, Any]:
            tree = _run(runnable[side], sample, attempt)
            progress.add(1)
            return tree

        def keep(run: FreshRun) -> None:
            log.append(run._asdict())

        try:
            return Confirmation(sides, rules, grader, asked, make=make, keep=keep, kept=kept).run()
        finally:
            progress.end()


def _cost(most: int, samples: list[str], sides: tuple[ReadSide, ReadSide]) -> str:
    """What a confirmation may take, before it starts."""
    what = (
        f"confirming {count(len(samples), 'sample')} by fresh runs: at most {most:,} of each side"
    )
    spent = [
        cost
        for side in sides
        for sample in side.side.samples.values()
        for run in sample.attempts
        if (cost := run.use("cost_usd")) is not None
    ]
    if spent:
        what += f", about ${2 * most * sum(spent) / len(spent):.2f}"
    return f"{what}; most suspects need one or two. ({few(samples, 5)})"


def _runnable(options: Options, side: ReadSide, name: str, folder: str | None) -> RunnableSide:
    """The workflow in assay.yaml that a side was run by; of another folder if one is given."""
    path = _config_in(options, folder)
    if path is None:
        raise UsageError(
            "CLI-001",
            "--confirm runs workflows of assay.yaml, and there is none"
            f" {'here or above' if folder is None else 'in that commit'}.",
            fix="Give fresh runs with --fresh and --fresh-baseline.",
        )
    versions = {
        (workflow, version) for workflow, known in side.side.versions.items() for version in known
    }
    if len(versions) != 1:
        raise UsageError(
            "CLI-001",
            f"the {name} has runs of {count(len(versions), 'version')}, so it can't be run again.",
            fix="Give fresh runs with --fresh and --fresh-baseline.",
        )
    ((workflow, version),) = versions
    for known, reference in _workflows(read_config(path)):
        loaded = read_workflow(reference)
        if (loaded.id, loaded.version) == (workflow, version):
            trust = options.config is not None and options.config.trust
            return RunnableSide(known, path, f"{workflow}-{version}", trust)
    raise UsageError(
        "CLI-001",
        f"no workflow in {path} is {workflow} {version}, the version of the {name}.",
        fix="Name the commit that has it with --baseline-commit REV."
        if name == "baseline"
        else "Give fresh runs with --fresh and --fresh-baseline.",
    )


def _config_in(options: Options, folder: str | None) -> str | None:
    """The assay.yaml of this command, or the same file in another checkout."""
    if options.config is None:
        return None
    own = os.path.abspath(options.config.path)
    if folder is None:
        return own
    top = _git("rev-parse", "--show-toplevel").strip()
    path = os.path.join(folder, os.path.relpath(os.path.realpath(own), os.path.realpath(top)))
    return path if os.path.exists(path) else None


def _workflows(config: Config) -> Iterator[tuple[str | None, str]]:
    """Each workflow of an assay.yaml, and how it is referred to."""
    named = config.named("workflow")
    yield from named.items()
    chosen = config.chosen("workflow")
    if chosen is not None and chosen not in named.values():
        yield None, chosen


def _baseline(options: Options, side: ReadSide, stack: ExitStack) -> RunnableSide:
    """Where the baseline runs: here, or in a worktree of the commit that the options name."""
    if not options.baseline_commit:
        return _runnable(options, side, "baseline", None)
    folder = stack.enter_context(worktree(options.baseline_commit))
    return _runnable(options, side, "baseline", folder)


@contextmanager
def worktree(revision: str) -> Iterator[str]:
    """A git worktree of a commit, which is removed at the end."""
    commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    if not commit:
        raise UsageError("CLI-001", f"there is no commit '{revision}' in this repository.")
    parent = tempfile.mkdtemp(prefix="assay-baseline-")
    folder = os.path.join(parent, "tree")
    try:
        _git("worktree", "add", "--detach", folder, commit)
        yield folder
    finally:
        _git("worktree", "remove", "--force", folder)
        shutil.rmtree(parent, ignore_errors=True)


def _git(*words: str) -> str:
    """What git prints; empty where it fails."""
    command = ["git", *words]
    made = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return made.stdout if made.returncode == 0 else ""


def _run(side: RunnableSide, sample: str, attempt: int) -> dict[str, Any]:
    """One run of one sample."""
    short = sample.partition("/")[2] or sample
    with tempfile.TemporaryDirectory(prefix="assay-fresh-") as work:
        chosen, runs = Path(work, "only.txt"), os.path.join(work, "fresh")
        chosen.write_text(f"{short}\n", encoding="utf-8")
        words = [sys.executable, "-P", "-m", "assay", "run"]
        words += [side.workflow] if side.workflow is not None else []
        words += ["--config", side.config, *(["--trust"] if side.trust else [])]
        words += ["--only", str(chosen), "--work", runs, "--no-store"]
        words += ["--name", f"fresh-{side.version}-{attempt}"]
        made = subprocess.run(  # noqa: S603
            words, cwd=os.path.dirname(side.config), capture_output=True, text=True, check=False
        )
        path = os.path.join(runs, "runs.jsonl")
        documents = list(read_documents(path)) if os.path.exists(path) else []
        if len(documents) != 1 or not isinstance(documents[0].tree, dict):
            said = [line for line in made.stderr.splitlines() if line.strip()][-ERROR_LINES:]
            raise NotEnoughEvidence(
                "REL-003",
                f"{sample} could not be run again: {' '.join(said) or 'nothing was written'}",
                where=side.config,
                fix="What was confirmed so far is kept; run the same command again when it works.",
            )
        tree: dict[str, Any] = documents[0].tree
        return tree


def plan(options: Options, rules: ReleaseRules, choice: Choice) -> int:
    """Print how many samples and runs a decision needs, and write the plan. Exits 0, because
    nothing is decided.
    """
    if options.files:
        raise UsageError(
            "CLI-001",
            "a plan is made from the baseline alone; a candidate's noise must not change it.",
            fix="`assay gate --plan --baseline BASELINE`",
        )
    for path in opt.outputs(options):
        if not path.endswith(".json"):
            raise UsageError("CLI-001", f"a plan is written as .json, not to '{path}'.")
    with storing_result(options, "gate --plan") as result:
        made = _made(options, rules, choice, result)
        if result is not None:
            result.put({"plan": made})
    return opt.give(options, made, plan_lines(made))


def _made(
    options: Options, rules: ReleaseRules, choice: Choice, result: Result | None
) -> dict[str, Any]:
    grader, kept = choice.grader(), None
    if result is not None:
        from assay.services.stored_sides import SideReader

        kept = SideReader(result.store, made_of=result.made_of)
        for card in choice.read_cards():
            result.made_of(card)
    now = opt.moment(options.now)
    baseline = (
        checked(
            read_baseline(
                options.baseline,
                grader,
                folder=options.baselines,
                rules=rules,
                now=now,
                kept=kept,
            ),
            grader,
            rules,
            options,
        )
        if options.baseline
        else None
    )
    samples = (
        None
        if baseline is None
        else sorted(
            set(baseline.samples) - {*full_names(options.quarantine, baseline.samples.keys())}
        )
    )
    return make_plan(
        rules,
        slices=options.slice,
        now=now or datetime.now(UTC),
        baseline=baseline,
        samples=samples,
    )


def plan_lines(made: dict[str, Any]) -> Iterator[str]:
    """A plan for a terminal."""
    yield (
        f"plan under {made['policy']}: margin {made['margin']:g} points, at least"
        f" {count(made['min_pairs'], 'pair')}, up to {count(made['looks'], 'look')}\n"
    )
    noise, confirmation = made["noise"], made["confirmation"]
    if noise is None:
        yield "Nothing is known of the noise: name a baseline with several runs of each sample."
        return
    source = (
        "assumed, from one run of each sample; run the baseline several times to know"
        if noise["assumed"]
        else f"from the repeats of {count(noise['samples'], 'sample')}"
    )
    chance = confirmation["suspects_by_chance"]
    yield from fact_lines(
        ("samples", f"{made['n']:,}"),
        ("noise", f"{noise['scores'] ** 0.5:.1f} points between runs of one sample, {source}"),
        (
            "confirm",
            f"{count(confirmation['repeats'], 'fresh run')} in a row confirm a new failure"
            + ("" if chance is None else f"; chance makes about {chance:.0f} suspects"),
        ),
    )
    yield "\nHow often this gate would promote a version that is the same as its baseline:\n"
    yield "  runs of each sample        to run   promoted   shows a loss of"
    for row in made["shown"]:
        banked = " (banked)" if row["banked"] else ""
        runs = f"{row['candidate_runs']} against {row['baseline_runs']}{banked}"
        enough = "  <- enough" if row["same_version_promoted"] >= made["wanted"] else ""
        yield (
            f"  {runs:<22} {row['runs']:>10,} {row['same_version_promoted']:>10.0%}"
            f" {row['smallest_loss']:>11.1f} points{enough}"
        )
    needed = [
        f"{runs} {'run' if runs == '1' else 'runs'}: {'-' if n is None else f'{n:,}'}"
        for runs, n in made["samples_for"].items()
    ]
    yield f"\nSamples for {made['wanted']:.0%}, by runs of each on both sides: {'; '.join(needed)}."
    yield "Banked runs of the baseline are made once; only the samples on which they disagree need"
    yield "repeats of the candidate."
