"""Where the evidence for each criterion and gate of a profile comes from when `assay run` runs the
workflow: measured from the run, decided by a judge, returned by a scorer, or nowhere.

This depends on the profile and the configuration, not on a run: `assay run` checks it before it
spends anything, and `assay library check` proves it for the shipped profiles. Whether a particular
run has the evidence is decided when that run is scored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from assay.scoring.gates import GATES, REQUIRED
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric

RUNNER = "the runner records it"
RECORDED = "the workflow's code records it"
DECLARED = "the workflow file declares it"
DATASET = "the dataset gives it"
REPOSITORY = "the workflow file's `repository` is tested"
JUDGE = "a judge decides it"
NOBODY = "`assay run` doesn't record it"

NOT_RECORDED = "which `assay run` doesn't record"
_NOT_GIVEN = {
    DECLARED: "which the workflow doesn't declare",
    DATASET: "which the dataset doesn't have",
    REPOSITORY: "and the workflow names no `repository` to test",
    RECORDED: "which the workflow doesn't record",
    JUDGE: "and no judge decides it",
}

GIVERS: dict[str, str] = {
    "status": RUNNER,
    "outputs": RUNNER,
    "steps": RUNNER,
    "latency_ms": RUNNER,
    "retries": RUNNER,
    "inputs": DATASET,
    "expected": DATASET,
    "cost_usd": RECORDED,
    "tokens": RECORDED,
    "tool_calls": RECORDED,
    "tool_calls[].valid": DECLARED,
    "handoffs": RECORDED,
    "handoffs[].expected": NOBODY,
    "retrieval": RECORDED,
    "retrieval[].relevant": JUDGE,
    "claims": RECORDED,
    "claims[].supported": JUDGE,
    "claims[].severity": NOBODY,
    "expected_claims": JUDGE,
    "required_inputs": DECLARED,
    "required_outputs": DECLARED,
    "output_schema": DECLARED,
    "forbidden_tools": DECLARED,
    "handoff_rules": DECLARED,
    "tests": REPOSITORY,
    "patch_applies": REPOSITORY,
    "gates.no_sandbox_violation": REPOSITORY,
}
"""Who provides each field of `assay.run/1`; the longest matching path counts."""

Kind = Literal["measured", "judge", "scorer", "nowhere"]


class EvidenceSource(NamedTuple):
    """Where one criterion or gate gets its evidence."""

    id: str
    of: Literal["criterion", "gate"]
    kind: Kind
    name: str
    """The measure, the gate's rule, the judge's task or the scorer; empty if there is none."""
    reads: tuple[str, ...] = ()
    """The fields of the run that it reads."""
    lacks: str = ""
    """What the configuration lacks, if the kind is `nowhere`."""

    @property
    def sentence(self) -> str:
        """One line for a person.

        >>> EvidenceSource("faithfulness", "criterion", "nowhere", "", (), "no judge").sentence
        'criterion faithfulness has no source in this configuration: no judge'
        """
        if self.kind == "nowhere":
            return f"{self.of} {self.id} has no source in this configuration: {self.lacks}"
        reads = f" from {', '.join(self.reads)}" if self.reads else ""
        return f"{self.of} {self.id}: {self.kind} ({self.name}{reads})"


def giver_of(field: str) -> str:
    """Who provides a field; a part that is not listed comes with its parent.

    >>> giver_of("retrieval[].text") == RECORDED, giver_of("retrieval[].relevant") == JUDGE
    (True, True)
    """
    path = field
    while path:
        if path in GIVERS:
            return GIVERS[path]
        path = path[:-2] if path.endswith("[]") else path.rpartition(".")[0]
    return NOBODY


def criterion_sources(
    profile: Profile,
    *,
    judge: bool,
    rubric: Rubric | None = None,
    scorers: Collection[str] = (),
    absent: Collection[str] = (),
    no_judge: str = "none is configured",
) -> list[EvidenceSource]:
    """The source of each gate, required ones first, and of each criterion.

    `rubric` is what the judge scores by (the profile's, unless another was chosen); `scorers` are
    the criteria and gates that scorers and assertions fill; `absent` are fields that this
    configuration is known not to provide, such as `expected.relevant_ids` or `tests`; `no_judge`
    says why there is none.
    """
    judged = {item.name for item in rubric.criteria} if rubric is not None else set()
    lacks_judge = "" if judge else no_judge
    sources: list[EvidenceSource] = []
    for name in dict.fromkeys((*REQUIRED, *(ref.id for ref in profile.gates))):
        gate = GATES.get(name)
        field = f"gates.{name}"
        if gate is not None and gate.is_computed:
            sources.append(_read(name, "gate", name, gate.evidence, lacks_judge, absent))
        elif field in GIVERS and not _is_absent(field, absent):
            sources.append(EvidenceSource(name, "gate", "measured", name, (field,)))
        elif name in scorers:
            sources.append(EvidenceSource(name, "gate", "scorer", name))
        else:
            lacks = f"its verdict comes from a scorer or an assertion, and none gives '{name}'"
            if field in GIVERS:
                lacks = f"{GIVERS[field]}, and this workflow names none"
            sources.append(EvidenceSource(name, "gate", "nowhere", "", (field,), lacks))
    for item in profile.criteria:
        if item.measure is not None:
            sheet = MEASURES[item.measure].evidence
            sources.append(_read(item.id, "criterion", item.measure, sheet, lacks_judge, absent))
        elif item.id in scorers:
            sources.append(EvidenceSource(item.id, "criterion", "scorer", item.id))
        elif item.id in judged:
            sources.append(
                EvidenceSource(item.id, "criterion", "judge", "judge rubric")
                if judge
                else _nowhere(item.id, "criterion", (), f"a judge scores it, and {no_judge}")
            )
        else:
            sources.append(
                _nowhere(item.id, "criterion", (), "no measure, rubric or scorer gives this score")
            )
    return sources


def without_source(sources: Iterable[EvidenceSource]) -> list[EvidenceSource]:
    """The gates and criteria that no run of this configuration can fill."""
    return [source for source in sources if source.kind == "nowhere"]


def _read(
    name: str,
    of: Literal["criterion", "gate"],
    reader: str,
    evidence: tuple[tuple[str, ...], ...],
    lacks_judge: str,
    absent: Collection[str],
) -> EvidenceSource:
    """The source of a computed value: the first of its alternatives that can be filled.
    `lacks_judge` says why no judge decides; empty if one does.
    """
    problem = ""
    wanted: tuple[str, ...] = ()
    for fields in evidence:
        lacks = ""
        by_judge = False
        for field in fields:
            giver = giver_of(field)
            if _is_absent(field, absent) or giver == NOBODY:
                lacks = lacks or f"it needs `{field}`, {_NOT_GIVEN.get(giver, NOT_RECORDED)}"
            elif giver == JUDGE:
                by_judge = True
                lacks = lacks or (lacks_judge and f"a judge decides `{field}`, and {lacks_judge}")
        if not lacks:
            return EvidenceSource(name, of, "judge" if by_judge else "measured", reader, fields)
        problem, wanted = problem or lacks, wanted or fields
    return _nowhere(name, of, wanted, problem)


def _nowhere(
    name: str, of: Literal["criterion", "gate"], reads: tuple[str, ...], lacks: str
) -> EvidenceSource:
    return EvidenceSource(name, of, "nowhere", "", reads, lacks)


def _is_absent(field: str, absent: Collection[str]) -> bool:
    return any(field == gone or field.startswith((f"{gone}.", f"{gone}[]")) for gone in absent)


def expected_names(profile: Profile) -> set[str]:
    """The keys of `expected` that any measure reads or the profile's parameters name."""
    fields = (field for name in MEASURES for part in MEASURES[name].evidence for field in part)
    read = {field.split(".")[1].rstrip("[]") for field in fields if field.startswith("expected.")}
    named = (value for item in profile.criteria for value in item.measure_params.values())
    return read | {"tools"} | {value for value in named if isinstance(value, str)}
