"""The records of tool schemas: entries, indexes, findings, gates, checks and legibility."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field, to_builtins


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


LEVELS = ("error", "warning", "note")
"""The levels of a finding, most severe first. Only an error fails a validation."""


class SchemaRule(NamedTuple):
    """One rule for tool schemas. It has one level, so that breaking it weighs the same in every
    file.
    """

    id: str
    level: str
    holds: str
    """One sentence: what is true of a schema that keeps the rule."""
    fix: str
    spec: str | None = None
    """The id of the same rule in the public FlowMCP specification; None if it has none."""


class SchemaFinding(Struct, frozen=True):
    """One rule that a schema breaks: where, what, and what to do."""

    rule: str
    level: str
    """One of `LEVELS`."""
    path: str
    """The place in the schema, as `tools.getPrice.parameters[0].z`."""
    message: str
    fix: str
    line: int | None = None

    def text(self) -> str:
        """One line for `validationErrors`."""
        where = f"{self.path}: " if self.path else ""
        return f"{self.rule} {where}{self.message} {self.fix}".rstrip()


SYSTEM = "legibility/1"
"""Scores of different systems are not comparable."""


class RuleCost(Struct, frozen=True):
    """The points that one broken rule costs a tool, or a schema as a whole."""

    rule: str
    level: str
    findings: int
    points: int


class ToolLegibility(NamedTuple):
    """The score of one tool."""

    name: str
    score: int
    costs: tuple[RuleCost, ...] = ()
    tokens: int = 0
    """About how many tokens its definition takes in a model's context."""
    unassessed: str = ""
    """Why it could not be assessed, in which case its score is 0; empty if it was."""

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "name": self.name,
            "score": self.score,
            "tokens": self.tokens,
            "costs": to_builtins(self.costs),
            "unassessed": self.unassessed or None,
        }


class SchemaLegibility(NamedTuple):
    """The score of a schema or server, and those of its tools."""

    subject: str
    path: str
    score: int
    mean: int
    """The mean of its tools, rounded down, before `costs` and `cap`."""
    tools: tuple[ToolLegibility, ...]
    costs: tuple[RuleCost, ...]
    """The cost of findings that belong to no tool."""
    cap: int
    """The highest possible score; 100 if nothing limits it."""
    cap_reason: str
    findings: Sequence[SchemaFinding] = ()

    @property
    def lowest(self) -> ToolLegibility | None:
        """The tool with the lowest score, the first by name among equals; None without tools."""
        return min(self.tools, key=lambda tool: (tool.score, tool.name), default=None)

    @property
    def tokens(self) -> int:
        """About how many tokens all its tools take in a model's context."""
        return sum(tool.tokens for tool in self.tools)

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "score": self.score,
            "mean": self.mean,
            "lowest": self.lowest.score if self.lowest else None,
            "cap": self.cap,
            "capReason": self.cap_reason or None,
            "tokens": self.tokens,
            "costs": to_builtins(self.costs),
            "tools": [tool.document() for tool in self.tools],
            "system": SYSTEM,
        }


class LegibilityReport(NamedTuple):
    """Every schema of one check, and the files that could not be read."""

    schemas: tuple[SchemaLegibility, ...]
    unread: tuple[str, ...]
    """Files that could not be read. Each counts as 0."""
    score: int
    minimum: int | None = None
    """The score that every schema and every tool must reach; None if there is no minimum."""

    def below(self) -> list[str]:
        """What falls short of the minimum, in words; empty without a minimum."""
        if self.minimum is None:
            return []
        short = [f"{path} could not be read" for path in self.unread]
        for schema in self.schemas:
            if schema.score < self.minimum:
                short.append(f"{schema.subject} {schema.score}")
            short += [
                f"{schema.subject} {tool.name} {tool.score}"
                for tool in schema.tools
                if tool.score < self.minimum
            ]
        return short if self.schemas or short else ["nothing was scored"]

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "score": self.score,
            "minimum": self.minimum,
            "below": self.below(),
            "system": SYSTEM,
        }


TOOL_CHECK = "assay.tool-check/1"


class _Check(Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of a check. A newer program may add keys."""


class CheckedParameter(_Check, frozen=True, kw_only=True):
    """A parameter as a person reads it."""

    name: str
    """With the names of its parents, as `filter.city` or `hives[].name`."""
    path: str
    type: str = ""
    required: bool = False
    description: str = ""
    limits: str = ""


class CheckedTool(_Check, frozen=True, kw_only=True):
    """A tool as a model is shown it, and its score."""

    name: str
    path: str
    title: str = ""
    description: str = ""
    parameters: list[CheckedParameter] = []
    more_parameters: int = 0
    """How many parameters are left out."""
    hints: dict[str, bool] = {}
    """The effects that it declares, by hint."""
    score: int
    tokens: int = 0
    unassessed: str = ""
    costs: list[RuleCost] = []


class VetoOutcome(_Check, frozen=True, kw_only=True):
    """The outcome of one veto check."""

    id: str
    outcome: str
    reason: str = ""


class ToolCheck(_Check, frozen=True, kw_only=True):
    """The check of one schema or server."""

    schema: str = TOOL_CHECK
    schema_id: str
    namespace: str
    base: str
    kind: str
    """`flowmcp` or `mcp`."""
    file: str
    source_hash: str
    checked_at: str
    version: str = ""
    description: str = ""
    system: str = SYSTEM
    score: int
    mean: int
    cap_reason: str = ""
    costs: list[RuleCost] = []
    """The cost of findings that belong to no tool."""
    tools: list[CheckedTool] = []
    findings: list[SchemaFinding] = []
    checks: list[VetoOutcome] = []


def below(path: str, place: str) -> bool:
    """Whether a finding's path is a place or lies within it.

    >>> below("tools[1].inputSchema", "tools[1]"), below("tools[12]", "tools[1]")
    (True, False)
    """
    return path.startswith(place) and path[len(place) : len(place) + 1] in ("", ".", "[")


def findings_of(check: ToolCheck, tool: CheckedTool) -> list[SchemaFinding]:
    """The findings that belong to a tool, in their order."""
    return [finding for finding in check.findings if below(finding.path, tool.path)]


def own_findings(check: ToolCheck) -> list[SchemaFinding]:
    """The findings that belong to no tool."""
    return [
        finding
        for finding in check.findings
        if not any(below(finding.path, tool.path) for tool in check.tools)
    ]


def plain_check(check: ToolCheck) -> dict[str, Any]:
    """The record as plain data, with the keys of its JSON."""
    return cast("dict[str, Any]", to_builtins(check))


SCHEMA_GATE = "assay.schema-gate/1"


class GateRule(Struct, frozen=True):
    """One condition of the gate. It holds, does not hold, or is undetermined (None)."""

    id: str
    holds: bool | None
    reason: str


class ToolGateResult(Struct, frozen=True):
    """The gate for one schema or namespace. It passes if every rule holds."""

    subject: str
    passed: bool
    rules: tuple[GateRule, ...]

    @property
    def violated(self) -> bool:
        """Whether a rule does not hold; without one, a gate that doesn't pass is undetermined."""
        return any(rule.holds is False for rule in self.rules)


class ToolGate(Struct, frozen=True):
    """The gate for everything that was asked about."""

    passed: bool
    results: tuple[ToolGateResult, ...]
    policy: str = ""
    scoring_system: str = field(name="scoringSystem", default="")
    grading_system: str = field(name="gradingSystem", default="")

    @property
    def violated(self) -> bool:
        """Whether a rule does not hold for any of them."""
        return any(result.violated for result in self.results)
