"""The records of graded tool schemas: grading entries, the index of a namespace or selection, and
the lock of a selection.

Field names are those of the published form in snake case. A field without a value is left out of
the JSON, except where the published form requires the key. `tools` reads and checks these records;
no rules live here.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType


class _Entry(
    Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """A part of an entry; unknown keys are refused."""


class _Index(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of an index or a lock, to which other programs may add keys."""


class GraderIdentity(_Entry, frozen=True, kw_only=True):
    """Who graded."""

    kind: str
    """`llm`, `human` or `script`."""
    name: str
    version: str


class SelectionContext(_Entry, frozen=True, kw_only=True):
    """The audience that a judged answer is meant for."""

    group_id: str
    persona_ids: list[str]
    domain_doc_id: str | None = None


class GradedAnswer(_Entry, frozen=True, kw_only=True):
    """One question, one grader, one score."""

    question_id: str
    score: Any
    """A number from 1 to 5, or `pass`, `fail`, `stale` or `n/a`."""
    na_reason: str | None = None
    weight: Any
    determinism: str
    grader_identity: GraderIdentity
    llm_model: str | None = None
    selection_context: SelectionContext | None = None
    timestamp: str
    evidence: Any = None
    """A text, or an object from an older program."""
    reasoning: str | None = None


class CategoricalVeto(_Entry, frozen=True, kw_only=True):
    """Why a subject is rejected, whatever its scores."""

    triggered_by: str
    grader_identity: GraderIdentity
    evidence: str
    timestamp: str
    reasoning: str | None = None


class RegradingTrigger(_Entry, frozen=True, kw_only=True):
    """Why a node was graded again, and which entry that supersedes."""

    triggered_by: str
    previous_grading_id: str
    timestamp: str
    reported_issue: str | None = None
    requested_by: str | None = None


class Persona(_Entry, frozen=True, kw_only=True):
    """The user whose view an entry takes."""

    base_persona_id: str
    lens_id: str


class GradingEntry(_Entry, frozen=True, kw_only=True):
    """One grading of one node, in the published form or in Assay's extended form."""

    grading_id: str
    schema_id: str
    area: str
    version: str
    schema_hash: str
    about_hash: str | None = None
    grading_mode: str
    grading_tier: str
    selection_id: str | None = None
    harness: str
    persona: Persona | None = None
    skill_id: str | None = None
    scoring_system: str
    grading_system: str
    gradings: list[GradedAnswer]
    categorical_veto: CategoricalVeto | None
    regrading_trigger: RegradingTrigger | None = None
    aggregate_grade: str | None
    max_attainable_grade: str
    form: str | None = None
    """Only in the extended form, like all fields after it."""
    raw_grade: str | UnsetType | None = UNSET
    normalized_score: Any = UNSET
    blocked: bool = False
    blocked_reason: str | None = None
    notes: list[str] | None = None

    @property
    def supersedes(self) -> str | None:
        """The id of the entry that this one supersedes."""
        return self.regrading_trigger.previous_grading_id if self.regrading_trigger else None


class IndexNode(_Index, frozen=True, kw_only=True):
    """A node as an index shows it."""

    status: str
    grade: str | None = None
    raw_grade: str | None = None
    normalized_score: Any = None
    ref: str | None = None
    reason: str | None = None
    bound_to: str | None = None
    note: str | None = None
    changed: bool = False
    """Whether what it graded has changed since."""
    blocked_reason: str | None = None
    """Why it is blocked, if for one of the reasons that an entry may state."""
    scoring_system: str | None = None
    grading_system: str | None = None


class SnapshotRef(_Index, frozen=True, kw_only=True):
    """The file of a schema's newest version, and its hash."""

    file: str
    hash: str


class SchemaNode(_Index, frozen=True, kw_only=True):
    """A schema in an index: each tool, and all its tools together."""

    status: str
    reason: str | None = None
    changed: bool = False
    """Whether it has changed since it was graded as a whole."""
    grade: str | None = None
    snapshot: SnapshotRef | None = None
    tools_aggregate: IndexNode
    tools: dict[str, IndexNode]


class MemberNode(_Index, frozen=True, kw_only=True):
    """A member of a selection with the current grading in its namespace."""

    status: str
    resolved_artifact: str | None
    grade: str | None = None
    reason: str | None = None
    changed: bool = False
    """Whether it has changed since it was graded as a whole."""
    ref: str | None = None


class Blocker(_Index, frozen=True, kw_only=True):
    """A node that can't be graded, and why."""

    node: str
    reason: str
    broken: bool = False
    """Whether files of it are gone, can't be read or contradict each other."""


class NamespaceIndex(_Index, frozen=True, kw_only=True):
    """The index of a namespace."""

    index_version: int
    namespace: str
    updated_at: str
    status: str
    grade: str | None = None
    scoring_system: str | None = None
    grading_system: str | None = None
    summary: dict[str, Any]
    about: IndexNode
    description: IndexNode
    skills: dict[str, IndexNode]
    namespace_aggregate: IndexNode
    schemas: dict[str, SchemaNode]
    blockers: list[Blocker]


class SelectionIndex(_Index, frozen=True, kw_only=True):
    """The index of a selection."""

    index_version: int
    selection_id: str
    updated_at: str
    status: str
    grade: str | None = None
    scoring_system: str | None = None
    grading_system: str | None = None
    summary: dict[str, Any]
    about: IndexNode
    selection_aggregate: IndexNode
    skills: dict[str, IndexNode]
    members: dict[str, MemberNode]
    blockers: list[Blocker]


class LockedMember(_Index, frozen=True, kw_only=True, omit_defaults=False):
    """A member of a selection when the lock was taken."""

    schema_id: str = ""
    schema_version: str | None = None
    schema_hash: str | None = None
    grading_status: str | None = None
    override: dict[str, Any] | None = None


class SelectionLock(_Index, frozen=True, kw_only=True, omit_defaults=False):
    """The frozen members of a selection, which are graded together."""

    selection_id: str | None = None
    selection_version: str | None = None
    selection_hash: str | None = None
    generated_at: str | None = None
    members: list[LockedMember] = []


class StoredIndex(_Index, frozen=True, kw_only=True):
    """A stored index of either kind, possibly from another program."""

    namespace: str | None = None
    selection_id: str | None = None
    updated_at: str | None = None
    status: str | None = None
    grade: str | None = None
    scoring_system: str | None = None
    grading_system: str | None = None
    summary: dict[str, Any] = {}
    about: IndexNode | None = None
    description: IndexNode | None = None
    namespace_aggregate: IndexNode | None = None
    selection_aggregate: IndexNode | None = None
    skills: dict[str, IndexNode] = {}
    schemas: dict[str, SchemaNode] = {}
    members: dict[str, MemberNode] = {}
    blockers: list[Blocker] = []
    lock_snapshot: SelectionLock | None = None
    notes: list[str] = []

    @property
    def kind(self) -> str:
        """`namespace` or `selection`."""
        return "namespace" if self.selection_id is None else "selection"

    @property
    def name(self) -> str:
        """The name of the namespace or selection."""
        return str(self.namespace if self.selection_id is None else self.selection_id)


class ReportDimension(_Index, frozen=True, kw_only=True):
    """One dimension of a report."""

    dimension: str
    score: Any = None
    reasoning: str | None = None


class ReportCheck(_Index, frozen=True, kw_only=True):
    """The outcome of one veto check."""

    id: str
    outcome: str
    reason: str | None = None


class GradeReport(_Index, frozen=True, kw_only=True):
    """A stored report of the file protocol."""

    schema_id: str
    grade: str | None = None
    score: Any = None
    dimensions: list[ReportDimension]
    validation_passed: bool = False
    validation_errors: list[str] = []
    raw_grade: str | None = None
    reason: str | None = None
    grading_tier: str | None = None
    max_attainable_grade: str | None = None
    categorical_veto: dict[str, Any] | None = None
    checks: list[ReportCheck] = []
    findings: list[dict[str, Any]] = []
    policy: str | None = None
    schema_path: str | None = None
    schema_hash: str | None = None
    canonical_hash8: str | None = None
    scoring_protocol: str | None = None
    creator: dict[str, Any] = {}
    harness: dict[str, Any] = {}
    timestamps: dict[str, Any] = {}
    scoring_system: str | None = None
    grading_system: str | None = None


def document(record: Any) -> Any:
    """A record as plain data; decimals keep all their digits."""
    return msgspec.to_builtins(record, builtin_types=(Decimal,))
