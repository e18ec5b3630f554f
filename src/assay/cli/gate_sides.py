"""Reading the two sides of a decision from files, or a stored baseline by its name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from assay.cli import options as opt
from assay.cli.frame import COMPARED_BY
from assay.cli.hints import command
from assay.cli.ledger import baselines_folder
from assay.cli.references import given_rules
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.inputs import StoredInput
from assay.files.json_files import Document, Unread, stream_documents
from assay.records.samples import names_of
from assay.registry import is_path
from assay.release.attestation import Subject
from assay.release.baseline import (
    EvidenceAge,
    StoredBaseline,
    age_warning,
    changed,
    refuse_exam,
)
from assay.services.compare import Asked, Origin, check_origins, regraded_baseline
from assay.services.named_baselines import find_named
from assay.services.sides import Rereadable, Seen, severe_of, side_of
from assay.views.exporters import ResultSource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from assay.cli.parsing import Options
    from assay.release.policy import ReleaseRules
    from assay.release.sides import Side
    from assay.services.compare import ReadSide
    from assay.services.grading import Graded, Grader
    from assay.services.stored_sides import SideReader

_KEPT_RULES = (
    "Name the rules of the baseline with --profile, --rubric or --grading-policy, or undo their"
    " change in assay.yaml; or store it again under the new ones:"
)


def read_side(
    paths: Sequence[str],
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
    where = ", ".join(paths)
    filled: set[str] = set()
    typed = sha256()
    piped = [*stream_documents("-", digest=typed)] if "-" in paths else []
    subjects = read
    bytes_read: dict[str, str] = {}

    def documents() -> Iterator[Document | Unread]:
        nonlocal subjects
        noted, subjects = subjects, None  # the bytes that count are those of the first read
        for path in paths:
            if path == "-":
                yield from piped
                if noted is not None:
                    noted.append(Subject("<stdin>", typed.hexdigest()))
            else:
                yield from _hashed(path, noted, bytes_read)

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
    for path in paths:
        if ("<stdin>" if path == "-" else path) not in filled:
            raise NotEnoughEvidence(
                "REL-003",
                f"contains no runs, and the other files of the {name} do.",
                where=path,
                fix="Fill it, or leave it out if nothing belongs in it.",
            )
    return found


def _hashed(
    path: str, noted: list[Subject] | None, bytes_read: dict[str, str]
) -> Iterator[Document | Unread]:
    """The documents of a file, which is refused if it isn't the one that was read before."""
    own = sha256()
    yield from stream_documents(path, digest=own)
    if bytes_read.setdefault(path, own.hexdigest()) != own.hexdigest():
        raise InputError(
            "REL-008", "changed while this command was reading it.", where=path, fix="Run it again."
        )
    if noted is not None:
        content = path.digest if isinstance(path, StoredInput) else own.hexdigest()
        noted.append(Subject("<stdin>" if path == "-" else str(path), content))


def sample_places(files: Sequence[str], samples: Collection[str]) -> dict[str, ResultSource]:
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


def origin_of(paths: Sequence[str]) -> Origin:
    """Where a side of files or of an evaluation comes from."""
    if not paths:
        return Origin()
    named = ", ".join(path.asked if isinstance(path, StoredInput) else path for path in paths)
    path = paths[0]
    if len(paths) > 1 or not isinstance(path, StoredInput) or path.evaluation is None:
        return Origin(", ".join(paths), named)
    stored = path.evaluation
    return Origin(
        str(path),
        named,
        stored.evaluation.started,
        stored.runs_digest,
        graded=path.graded,
        where=path,
    )


def read_baseline(
    paths: Sequence[str],
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
    names = [path for path in paths if not is_path(path) and not isinstance(path, StoredInput)]
    if names and len(paths) > 1:
        raise UsageError(
            "CLI-001",
            f"{names[0]!r} names a stored baseline, and it is one of several.",
            fix=f"Give one name, or files only; a file of that name is ./{names[0]}.",
        )
    if names:
        return read_named(paths[0], grader, folder=folder, kept=kept, read=read, rules=rules)
    age = EvidenceAge()
    side = read_side(
        paths,
        grader,
        name="baseline",
        rules=rules,
        kept=kept,
        read=read,
        seen=lambda _, graded: age.add(graded.run),
    )
    where, moment = ", ".join(paths), now or datetime.now(UTC)
    dated = StoredBaseline(where, where, "runs", age.dated(moment), {})
    origin = origin_of(paths)
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
        made=getattr(options, "made_profile", None),
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
    found = read_side([stored.path], grader, name=label, rules=rules, kept=kept, read=own)
    if (
        own[0].sha256 != stored.record["evidence_digest"]
    ):  # again, of the bytes that count: a file can be swapped after it was found
        raise changed(stored.path, "the evidence is not what was stored")
    if read is not None:
        read.append(Subject(stored.name, own[0].sha256))
    return NamedSide(found, origin)
