"""What people see of tool schemas: findings, entries, indexes, lists, gates and legibility."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from assay.errors import count, few
from assay.families.tools.records import (
    LEVELS,
    SYSTEM,
    CheckedParameter,
    CheckedTool,
    GradedAnswer,
    GradeReport,
    GradingEntry,
    IndexNode,
    LegibilityReport,
    MemberNode,
    RuleCost,
    SchemaFinding,
    SchemaLegibility,
    SchemaNode,
    SelectionLock,
    StoredIndex,
    ToolCheck,
    ToolGate,
    ToolLegibility,
    below,
    document,
    findings_of,
    own_findings,
)
from assay.records.grade import LETTERS
from assay.views.blocks import (
    Block,
    Chip,
    Chips,
    Column,
    Decided,
    Details,
    Empty,
    Facts,
    Field,
    Filters,
    Group,
    Note,
    Pager,
    Paragraph,
    Part,
    Region,
    Section,
    Sentences,
    Table,
    parts_of,
    section,
    stated,
)
from assay.views.grade_line import outcome
from assay.views.markdown import ROWS as MARKDOWN_ROWS
from assay.views.markdown import view
from assay.views.pieces import (
    Piece,
    absent,
    address,
    clip,
    code,
    coded,
    indented,
    letter,
    line,
    link,
    listed,
    moment,
    number,
    phrase,
    sentence,
    short_digest,
    shown,
    small,
    strong,
    verdict,
    words,
)

MAX_ROWS = 500
_SIGNS = {"error": "fails", "warning": "stale", "note": "none"}


def finding_of(stored: Mapping[str, Any]) -> SchemaFinding:
    """A finding of a report, also of another program's."""
    line_number = stored.get("line")
    return SchemaFinding(
        **{key: str(stored.get(key) or "") for key in ("rule", "level", "path", "message", "fix")},
        line=line_number if isinstance(line_number, int) else None,
    )


def level(word: str) -> str:
    """The level of a finding as a verdict."""
    return verdict(_SIGNS.get(word, "fails"), word)


def finding_words(finding: SchemaFinding, *, alone: bool = False) -> str:
    """One finding in a cell or a list: the level, what is wrong, and the fix below it. `alone` says
    that it is not next to what it is about, so that it names it.
    """
    about = finding.path.rpartition(".")[2]
    text = f"{about}: {finding.message}" if alone and about else _sentence(finding.message)
    return phrase(
        level(finding.level),
        " ",
        coded(clip(text, 600)),
        line(small("Fix: ", coded(clip(finding.fix, 600)))),
    )


def cell(findings: Sequence[SchemaFinding], absent_as: str = "") -> str:
    """Findings below each other in a cell."""
    return (
        phrase(*(line(finding_words(finding)) for finding in findings)) if findings else absent_as
    )


def finding_table(
    caption: str,
    findings: Sequence[SchemaFinding],
    costs: Sequence[RuleCost] = (),
    *,
    most: int = MAX_ROWS,
) -> Table:
    """Findings with their fixes, the gravest first."""
    points = {cost.rule: cost.points for cost in costs}
    columns = [
        Column("Where"),
        Column("Level"),
        Column("What is wrong", "wide"),
        Column("Fix", "wide"),
        Column("Rule"),
        *([Column("Points", "n")] if costs else []),
    ]
    rows = [
        [
            _where(finding),
            level(finding.level),
            clip(_sentence(finding.message), 600),
            coded(clip(finding.fix, 600)),
            code(finding.rule),
            *([f"−{points[finding.rule]}" if finding.rule in points else "0"] if costs else []),
        ]
        for finding in findings[:most]
    ]
    return Table(caption, columns, rows, absent="No findings.", kind="stack")


def _where(finding: SchemaFinding) -> str:
    at = f" (line {finding.line})" if finding.line is not None else ""
    return clip(f"{finding.path or 'the whole schema'}{at}", 200)


def _sentence(text: str) -> str:
    """A message as a sentence: it follows a path in other places."""
    return f"{text[:1].upper()}{text[1:]}"


FAMILY = "tool schemas"
MAX_ENTRY_ROWS = 200
MAX_TEXT = 2000
_RELATIONS = {
    "supersedes": ("supersedes", "is superseded by"),
    "evidence_of": ("is part of the index", "was made from"),
}
"""How records belong together, seen from the first and from the second."""


def graded(grade: str | None, system: str | None, raw: Any = None, *, why: str = "") -> str:
    """A letter of this family with its grading system, and the raw one where it differs. Anything
    else is described in words.
    """
    if grade in (None, "", "n/a"):
        return absent("n/a: too small to be graded" if grade == "n/a" else "no grade")
    made = letter(grade, f"{FAMILY}, {system or 'grading system not stated'}")
    return (
        made if raw in (None, UNSET, grade) else phrase(made, line(small(f"raw grade {raw}{why}")))
    )


def graded_at(entry: GradingEntry) -> str:
    """When an entry was made, by its id."""
    return stamped(entry.grading_id.partition("--")[2])


def stamped(stamp: str | None, absent_as: str = "not stated") -> str:
    """A time as file names write it.

    >>> stamped("2026-05-30T10-15-00Z"), stamped("never", "never")
    ('2026-05-30 10:15:00 UTC', 'never')
    """
    date, has_time, time = (stamp or "").partition("T")
    return moment(f"{date}T{time.replace('-', ':')}" if has_time else None, absent_as)


def subject(entry: GradingEntry) -> str:
    """What an entry grades."""
    persona = entry.persona
    parts = [entry.schema_id, entry.skill_id, entry.selection_id]
    parts += [f"{persona.base_persona_id} / {persona.lens_id}"] if persona else []
    return " · ".join(part for part in parts if part)


def lines(parts: Sequence[str], absent_as: str) -> str:
    """Texts below each other in a cell."""
    return phrase(*map(line, parts)) if parts else absent(absent_as)


HISTORY = (
    Column("Graded"),
    Column("Of"),
    Column("Grade"),
    Column("Mode"),
    Column("Tier and cap"),
    Column("Bound to"),
    Column("Why", "wide"),
)


def history_row(entry: GradingEntry, own: str) -> list[str]:
    """An entry in the history; `own` is its digest."""
    return [
        link(graded_at(entry), address("schemas", own)),
        phrase(subject(entry), " ", small(entry.area)),
        graded(entry.aggregate_grade, entry.grading_system, entry.raw_grade),
        entry.grading_mode,
        phrase(entry.grading_tier, small(f", at best {entry.max_attainable_grade}")),
        short_digest(entry.schema_hash),
        _why(entry),
    ]


def _why(entry: GradingEntry) -> str:
    trigger, veto = entry.regrading_trigger, entry.categorical_veto
    previous = code(trigger.previous_grading_id) if trigger else ""
    issue = trigger and trigger.reported_issue
    reasons = (
        phrase(trigger.triggered_by, ", supersedes ", previous) if trigger else "",
        f"reported by {trigger.requested_by}: {issue}" if trigger and issue else "",
        phrase(verdict("veto"), f" {veto.triggered_by}: {veto.evidence}") if veto else "",
        phrase(verdict("blocked"), " ", shown(entry.blocked_reason)) if entry.blocked else "",
    )
    return lines([*filter(None, reasons), *(entry.notes or ())], "a first grading")


_ANSWERS = (
    Column("Question"),
    Column("Score", "n"),
    Column("Weight", "n"),
    Column("Kind"),
    Column("Grader"),
    Column("Answered"),
    Column("Reasoning and evidence", "wide"),
)


def entry_view(
    entry: GradingEntry, record: Section, links: Sequence[tuple[str, bool, str]]
) -> list[Block]:
    """One entry. `links` are its relations: which, whether it is on the first side, and to which
    record.
    """
    raw = None if entry.raw_grade is UNSET else entry.raw_grade
    related = [
        [_RELATIONS[relation][not first], short_digest(other, address("schemas", other))]
        for relation, first, other in links
        if relation in _RELATIONS
    ]
    return [
        _decided(graded(entry.aggregate_grade, entry.grading_system), _why(entry)),
        Facts(
            [
                ("Area", entry.area),
                ("Tier", entry.grading_tier),
                ("At best", entry.max_attainable_grade),
                ("Raw grade", shown(raw, "as the grade, or not stated")),
                ("Mode", entry.grading_mode),
                ("Graded", graded_at(entry)),
            ],
            "figures",
        ),
        section(
            "Answers",
            Table(
                "Answers",
                _ANSWERS,
                [_answer(answer) for answer in entry.gradings[:MAX_ENTRY_ROWS]],
                absent="There are no answers.",
            ),
            id="answers",
        ),
        record,
        section(
            "Related records",
            Table("Related records", ("It", "Record"), related, absent="Nothing is linked to it."),
            id="related",
        ),
    ]


def _answer(answer: GradedAnswer) -> list[str]:
    grader = answer.grader_identity
    who = " ".join(part for part in (grader.kind, grader.name, grader.version) if part)
    basis = [clip(answer.reasoning, MAX_TEXT)] if answer.reasoning else []
    if answer.evidence:
        basis.append(phrase(small("evidence "), clip(answer.evidence, MAX_TEXT)))
    return [
        code(answer.question_id),
        phrase(shown(answer.score), *([small(f" {answer.na_reason}")] if answer.na_reason else [])),
        shown(answer.weight),
        answer.determinism,
        phrase(who, *([small(f" {answer.llm_model}")] if answer.llm_model else [])),
        moment(answer.timestamp),
        lines(basis, "none"),
    ]


def _decided(outcome: str, reason: str) -> Group:
    return Group([Paragraph(outcome, "outcome"), Paragraph(reason, "verdict")], "decided")


ENTRY_KEYS = (
    "gradingId",
    "version",
    "schemaHash",
    "aboutHash",
    "harness",
    "scoringSystem",
    "gradingSystem",
    "form",
)
REPORT_KEYS = (
    "schemaId",
    "schemaPath",
    "schemaHash",
    "canonicalHash8",
    "scoringProtocol",
    "creator",
    "harness",
    "timestamps",
    "scoringSystem",
    "gradingSystem",
)


def record_section(
    record: GradingEntry | GradeReport,
    keys: Sequence[str],
    *,
    own: str,
    stored: str,
    author: str | None,
) -> Section:
    """Where a record comes from."""
    values: Mapping[str, Any] = document(record)
    pairs = [
        (
            words(key),
            short_digest(values[key]) if isinstance(values[key], str) else shown(values[key]),
        )
        for key in keys
        if values.get(key)
    ]
    return section(
        "Record",
        Facts([*pairs, *provenance(own, stored, author)], "small"),
        id="record",
    )


def provenance(own: str, stored: str, author: str | None) -> list[tuple[str, str]]:
    """The record itself, when it was stored, and by whom."""
    whole = link("the whole record", address("api", "v1", "records", own))
    return [
        ("Record", phrase(short_digest(own), " ", whole)),
        ("Stored", moment(stored)),
        ("By", shown(author)),
    ]


def report_table(reports: Sequence[tuple[GradeReport, str]]) -> Table:
    """Reports in a list, each with its digest."""
    return Table(
        "Reports of the file protocol",
        ("Schema", "Grade", "Score, 1 to 5", "Validation", "Graded"),
        [
            [
                link(report.schema_id, address("schemas", own)),
                _report_letter(report),
                _score(report),
                _valid(report),
                moment(report.timestamps.get("gradedAt")),
            ]
            for report, own in reports
        ],
        kind="stack runs",
    )


def _report_letter(report: GradeReport) -> str:
    return graded(report.grade, report.policy, report.raw_grade, why=", capped")


def _score(report: GradeReport) -> str:
    return number(report.score, n=len(report.dimensions), digits=3, absent_as="no score")


def _valid(report: GradeReport) -> str:
    return verdict("passed", "valid") if report.validation_passed else verdict("fails", "not valid")


def report_view(report: GradeReport, record: Section) -> list[Any]:
    """One report."""
    findings = [finding_of(finding) for finding in report.findings]
    veto = report.categorical_veto or {}
    return [
        _decided(
            phrase(_report_letter(report), " ", _valid(report)),
            shown(report.reason, "No reason given."),
        ),
        Facts(
            [
                ("Score, 1 to 5", _score(report)),
                ("Raw grade", shown(report.raw_grade)),
                ("Tier", shown(report.grading_tier)),
                ("At best", shown(report.max_attainable_grade)),
                ("Policy", shown(report.policy)),
            ],
            "figures",
        ),
        *(
            [Note(f"Veto {veto.get('triggeredBy')}: {clip(veto.get('evidence'))}", "bad")]
            if veto
            else []
        ),
        section(
            "Dimensions",
            Table(
                "Dimensions",
                ("Dimension", Column("Score", "n"), Column("Reasoning", "wide")),
                [
                    [
                        code(item.dimension),
                        shown(item.score),
                        clip(item.reasoning, MAX_TEXT, absent_as="none"),
                    ]
                    for item in report.dimensions
                ],
                kind="stack",
            ),
            id="dimensions",
        ),
        section(
            "Validation",
            Sentences(report.validation_errors, absent="No errors."),
            id="validation",
        ),
        section(
            "Checks",
            Table(
                "Checks",
                ("Check", "Outcome", Column("Why", "wide")),
                [
                    [
                        code(check.id),
                        verdict("passed" if check.outcome == "clean" else check.outcome),
                        shown(check.reason),
                    ]
                    for check in report.checks
                ],
                absent="No check was made.",
                kind="stack",
            ),
            id="checks",
        ),
        section("Findings", finding_table("Findings", findings), id="findings"),
        record,
    ]


NOT_A_GRADE = (
    "A legibility score from fixed rules, not a grade: it shows whether a model can read and call"
    " the tools, not whether they work."
)
MAX_LEGIBILITY_ROWS = 1000
"""Tools, and findings, on a page; schemas share them."""
LEAST_ROWS = 10
"""Of each schema, however many there are."""
MAX_SCHEMAS = 100
MAX_UNREAD = 20
MAX_BELOW = 20
LOWEST = 5
_TOOLS = (
    Column("Tool"),
    Column("Score", "n"),
    Column("Tokens", "n"),
    Column("Points lost to", "wide"),
)


def page(report: LegibilityReport, scale: Sequence[tuple[str, str]]) -> str:
    """A self-contained page. `scale` lists what each fault costs."""
    from assay.views.render import report as standalone

    subjects = [schema.subject for schema in report.schemas]
    heading = f"Tool legibility: {clip(subjects[0], 120)}" if len(subjects) == 1 else ""
    schemas = _worst_first(report)
    shown = schemas[:MAX_SCHEMAS]
    most = max(LEAST_ROWS, MAX_LEGIBILITY_ROWS // max(1, len(shown)))
    return standalone(
        "Assay tool legibility",
        *_head(report),
        *(_schemas(schemas, MAX_SCHEMAS, linked=True) if len(schemas) > 1 else []),
        *(_schema(schema, place, most) for place, schema in enumerate(shown)),
        section(
            "How the score is calculated",
            Table("Points lost per fault", ("What", Column("Effect", "wide")), scale),
            id="scale",
        ),
        heading=heading or "Tool legibility",
    )


def markdown(report: LegibilityReport) -> str:
    """The verdict and a table of tools, the lowest score first."""
    scored = [(schema, tool) for schema in report.schemas for tool in schema.tools]
    scored.sort(key=lambda pair: (pair[1].score, pair[0].subject, pair[1].name))
    several = len(report.schemas) > 1
    named = [Column("Schema")] if several else []
    rows = [[*([schema.subject] if several else []), *_tool_row(tool)] for schema, tool in scored]
    parts: list[Part] = [*_head(report)]
    if several:
        parts += _schemas(_worst_first(report), MARKDOWN_ROWS)
    parts.append(Table("Tools", [*named, *_TOOLS], rows[:MARKDOWN_ROWS]))
    parts += _more(len(rows) - MARKDOWN_ROWS, "tool")
    findings = [(finding, schema) for schema in report.schemas for finding in schema.findings]
    findings.sort(key=lambda pair: LEVELS.index(pair[0].level))
    if findings:
        table = finding_table("Findings", [finding for finding, _ in findings[:MARKDOWN_ROWS]])
        subjects = [[schema.subject] if several else [] for _, schema in findings]
        rows = [[*subject, *row] for subject, row in zip(subjects, table.rows, strict=False)]
        parts.append(Table("Findings", [*named, *table.heads], rows))
        parts += _more(len(findings) - MARKDOWN_ROWS, "finding")
    return view("tool legibility", parts)


def legibility_lines(schema: SchemaLegibility) -> list[str]:
    """The score of one schema for a terminal: the number, and the tools that lost points."""
    low = sorted(
        (tool for tool in schema.tools if tool.score < 100),
        key=lambda tool: (tool.score, tool.name),
    )
    made = [f"legibility {schema.score}/100 ({_summary(schema)})"]
    made += [f"{tool.score:>5}  {tool.name}: {_lost(tool)}" for tool in low[:LOWEST]]
    if len(low) > LOWEST:
        made.append(f"       … and {count(len(low) - LOWEST, 'more tool')} below 100")
    return made


def badge(report: LegibilityReport) -> bytes:
    """An SVG of one line: the word, and the score of all that was checked."""
    from assay.views.render import html

    score = report.score
    fill = "#1a7f37" if score >= 80 else "#9a6700" if score >= 50 else "#b42318"
    text = html("badge.svg", label="tool legibility", value=f"{score}/100", fill=fill)
    return text.encode()


def _summary(schema: SchemaLegibility) -> str:
    lowest = schema.lowest
    parts = (
        count(len(schema.tools), "tool"),
        "" if lowest is None else f"mean {schema.mean}; lowest {lowest.score}",
        schema.cap_reason,
        f"overall {_costs(schema.costs)}" if schema.costs else "",
    )
    return "; ".join(filter(None, parts))


def _costs(costs: Sequence[RuleCost]) -> str:
    return ", ".join(
        f"{cost.rule} −{cost.points}" + (f" ({cost.findings:,}×)" if cost.findings > 1 else "")
        for cost in costs
    )


def _lost(tool: ToolLegibility) -> str:
    if tool.unassessed:
        return f"not assessed: {tool.unassessed}"
    return _costs(tool.costs) or "nothing"


def _head(report: LegibilityReport) -> list[Part]:
    tools = [tool for schema in report.schemas for tool in schema.tools]
    below = report.below()
    reached = verdict("fails", "no") if below else verdict("holds", "yes")
    least = None if report.minimum is None else number(report.minimum, digits=0)
    facts = stated(
        ("Legibility", number(report.score, digits=0, unit="of 100")),
        ("Tools", number(len(tools), digits=0)),
        (
            "Lowest tool",
            number(min(tool.score for tool in tools), digits=0) if tools else absent("no tools"),
        ),
        ("Tokens in context", number(sum(tool.tokens for tool in tools), digits=0)),
        ("System", code(SYSTEM)),
        ("Minimum", least or ""),
        ("Minimum reached", reached if least else ""),
    )
    many = f"{count(len(report.unread), 'file')} could not be read and count as 0:"
    return [
        Paragraph(absent(NOT_A_GRADE), "lead"),
        Facts(facts, "figures"),
        *_first(many, [clip(path) for path in report.unread], MAX_UNREAD, "file"),
        *_first(
            f"Below the minimum of {report.minimum}:",
            [clip(text, 120) for text in below],
            MAX_BELOW,
            "item",
        ),
    ]


def _first(title: str, texts: Sequence[str], most: int, noun: str) -> list[Part]:
    """The first of some texts under a title; nothing if there are none."""
    if not texts:
        return []
    head = Paragraph(absent(title), "verdict")
    return [head, Sentences(texts[:most]), *_more(len(texts) - most, noun)]


def _worst_first(report: LegibilityReport) -> list[SchemaLegibility]:
    return sorted(report.schemas, key=lambda schema: (schema.score, schema.subject))


def _schemas(schemas: Sequence[SchemaLegibility], most: int, *, linked: bool = False) -> list[Part]:
    heads = (Column("Schema"), Column("Score", "n"), Column("Tools", "n"), Column("Limited by"))
    rows = []
    for place, schema in enumerate(schemas[:most]):
        name = clip(schema.subject, 120)
        rows.append(
            [
                link(name, f"#schema-{place}") if linked else name,
                number(schema.score, digits=0),
                number(len(schema.tools), digits=0),
                schema.cap_reason or absent("nothing"),
            ]
        )
    return [Table("Schemas", heads, rows), *_more(len(schemas) - most, "schema")]


def _schema(schema: SchemaLegibility, place: int, most: int) -> Section:
    tools = sorted(schema.tools, key=lambda tool: (tool.score, tool.name))
    findings = schema.findings
    facts = [
        ("Score", number(schema.score, digits=0, unit="of 100")),
        ("Mean of its tools", number(schema.mean, digits=0)),
        ("Limited by", schema.cap_reason or absent("nothing")),
        ("Points lost by the schema", _costs(schema.costs) or absent("none")),
        ("Source", clip(schema.path)),
    ]
    parts: list[Part] = [
        Facts(facts),
        Table(
            f"Tools: {schema.subject}",
            _TOOLS,
            [_tool_row(tool) for tool in tools[:most]],
            absent="It has no tools.",
            kind="stack",
        ),
        *_more(len(tools) - most, "tool"),
    ]
    if findings:
        table = finding_table(f"Findings: {schema.subject}", findings, most=most)
        inside = [table, *_more(len(findings) - most, "finding")]
        parts.append(Details(count(len(findings), "finding"), inside, opened=len(findings) <= 50))
    return section(clip(schema.subject, 120), *parts, id=f"schema-{place}")


def _more(left: int, noun: str) -> list[Part]:
    text = f"… and {count(left, f'more {noun}')}: -o findings.json has all of them."
    return [Paragraph(absent(text), "hint")] if left > 0 else []


def _tool_row(tool: ToolLegibility) -> list[str]:
    return [
        clip(tool.name, 120),
        number(tool.score, digits=0),
        number(tool.tokens, digits=0),
        _lost(tool) if tool.costs or tool.unassessed else absent("nothing"),
    ]


UNCHECKED, UNGRADED, CLEAN = "unchecked", "ungraded", "clean"
STATES = {
    "error": "With errors",
    "warning": "With warnings",
    CLEAN: "No findings",
    UNCHECKED: "Not checked",
    UNGRADED: "Not graded",
}
"""What a list of tools can be narrowed down to."""
_LAST = 1_000_000


class ToolRow(NamedTuple):
    """One tool."""

    namespace: str
    base: str
    name: str
    check: ToolCheck | None = None
    tool: CheckedTool | None = None
    findings: Sequence[SchemaFinding] = ()
    node: IndexNode | None = None
    system: str | None = None
    """The grading system of the node's letter."""

    @property
    def schema_id(self) -> str:
        """The schema or server that it belongs to."""
        return f"{self.namespace}/{self.base}"

    @property
    def href(self) -> str:
        """Its page."""
        return address("schemas", self.schema_id, tool=self.name)

    @property
    def grade(self) -> str | None:
        """Its letter by the scoring protocol."""
        grade = None if self.node is None else self.node.grade
        return None if grade == "n/a" else grade

    def is_in(self, state: str) -> bool:
        """Whether it belongs to one of `STATES`."""
        if state == UNCHECKED:
            return self.tool is None
        if state == UNGRADED:
            return not self.grade
        if state == CLEAN:
            return self.tool is not None and not self.findings and not self.tool.unassessed
        return any(finding.level == state for finding in self.findings)


class ToolQuery(NamedTuple):
    """What an address asks of the list."""

    q: str = ""
    of: str = ""
    state: str = ""
    sort: str = ""
    order: str = ""

    def href(self, **changes: str) -> str:
        """The address of the list with these changes."""
        query = self._replace(**changes)
        return address("schemas", **query._asdict())


def tool_rows(indexes: Iterable[StoredIndex], checks: Iterable[ToolCheck]) -> list[ToolRow]:
    """Every tool of the newest indexes and checks, once."""
    rows: dict[tuple[str, str, str], ToolRow] = {}
    for check in checks:
        for tool in check.tools:
            row = ToolRow(
                check.namespace, check.base, tool.name, check, tool, findings_of(check, tool)
            )
            rows[row[:3]] = row
    for index in indexes:
        for base, schema in index.schemas.items():
            for name, node in schema.tools.items():
                key = (index.name, base, name)
                row = rows.get(key, ToolRow(*key))
                system = node.grading_system or index.grading_system
                rows[key] = row._replace(node=node, system=system)
    return list(rows.values())


SORTS: dict[str, Callable[[ToolRow], Any]] = {
    "legibility": lambda row: _LAST if row.tool is None else row.tool.score,
    "grade": lambda row: _grade_order(row.grade),
    "findings": lambda row: tuple(
        -sum(finding.level == level for finding in row.findings) for level in LEVELS
    ),
    "tokens": lambda row: _LAST if row.tool is None else -row.tool.tokens,
    "tool": lambda row: row.name.casefold(),
}
"""What the rows can be sorted by: the first click puts first what needs work."""
DEFAULT_SORT = "legibility"


def _grade_order(grade: str | None) -> int:
    """Grades without a letter first, then the worst letter, no grade last."""
    if not grade:
        return _LAST
    return -LETTERS.index(grade) if grade in LETTERS else -len(LETTERS)


def chosen_rows(rows: Sequence[ToolRow], query: ToolQuery) -> list[ToolRow]:
    """The rows that a query asks for, in its order."""
    words = query.q.casefold().split()
    chosen = [
        row
        for row in rows
        if (not query.of or query.of in (row.schema_id, row.namespace))
        and (query.state not in STATES or row.is_in(query.state))
        and (not words or all(word in _searched(row) for word in words))
    ]
    by_name = sorted(chosen, key=lambda row: (row.name.casefold(), row.schema_id))
    sort = SORTS.get(query.sort, SORTS[DEFAULT_SORT])
    return sorted(by_name, key=sort, reverse=query.order == "desc")


def _searched(row: ToolRow) -> str:
    texts = [row.name, row.schema_id]
    texts += [row.tool.title, row.tool.description] if row.tool else []
    texts += [f"{finding.rule} {finding.message}" for finding in row.findings]
    return " ".join(texts).casefold()


def counted(findings: Sequence[SchemaFinding]) -> str:
    """Findings by their level, in words.

    >>> counted([])
    'none'
    """
    levels = [finding.level for finding in findings]
    parts = [count(levels.count(level), level) for level in LEVELS if level in levels]
    return ", ".join(parts) or "none"


MAX_HISTORY = 20
MAX_ENTRIES = 30


class StoredCheck(NamedTuple):
    """A check in the ledger."""

    check: ToolCheck
    digest: str
    stored: str
    author: str | None = None


def tool_parts(
    row: ToolRow,
    stored: StoredCheck | None,
    *,
    entries: Sequence[tuple[GradingEntry, str]] = (),
    past: Sequence[StoredCheck] = (),
    scale: Sequence[tuple[str, str]] = (),
) -> list[Part]:
    """The page of one tool. `entries` are its gradings, `past` the checks of its schema, the newest
    first; `scale` says what costs what.
    """
    tool = row.tool
    graded = _grading(row, entries, _source(row.check))
    if tool is None or stored is None:
        command = "assay tools check schemas/ --store"
        nothing = Empty("The schema of this tool was never checked here:", command)
        return [_figures(row), nothing, graded]
    placed = {
        place: [finding for finding in row.findings if below(finding.path, place)]
        for place in (_described(tool), *(parameter.path for parameter in tool.parameters))
    }
    return [
        _figures(row),
        Paragraph(absent(NOT_A_GRADE), "hint"),
        _description(tool, placed[_described(tool)]),
        _parameters(tool, placed),
        _rest(row, placed),
        graded,
        _scores(tool, past),
        check_record(stored, scale),
    ]


def _figures(row: ToolRow) -> Facts:
    tool = row.tool
    return Facts(
        [
            ("Legibility", legibility(row.tool)),
            ("Grade by the protocol", letter_of(row)),
            ("Findings", counted(row.findings) if tool else absent("not checked")),
            (
                "Tokens in context",
                number(tool.tokens if tool else None, digits=0, absent_as="not known"),
            ),
            (
                "Belongs to",
                link(clip(row.schema_id, 120), address("schemas", row.schema_id)),
            ),
        ],
        "figures",
    )


def legibility(tool: CheckedTool | None) -> str:
    """The legibility score of a tool; never a letter."""
    if tool is not None and tool.unassessed:
        return phrase(
            number(0, digits=0, unit="of 100"), small(f" not assessed: {tool.unassessed}")
        )
    score = None if tool is None else tool.score
    return number(score, digits=0, unit="of 100", absent_as="not checked")


def letter_of(row: ToolRow) -> str:
    """The grade of a tool by the protocol."""
    if row.node is None:
        return absent("not graded")
    return graded(row.node.grade, row.system, row.node.raw_grade, why=", capped")


def _described(tool: CheckedTool) -> str:
    return f"{tool.path}.description"


def _description(tool: CheckedTool, findings: Sequence[SchemaFinding]) -> Section:
    hints = ", ".join(f"{key} {'yes' if value else 'no'}" for key, value in tool.hints.items())
    parts: list[Part] = [
        *([Paragraph(strong(tool.title))] if tool.title else []),
        Paragraph(tool.description, "prose")
        if tool.description
        else Paragraph("It has no description.", "absent"),
        *([Paragraph(f"Its hints: {hints}.", "hint")] if hints else []),
        Sentences([finding_words(finding) for finding in findings]),
    ]
    return section("Description", *parts, id="description")


_PARAMETERS = (
    Column("Parameter"),
    Column("Type"),
    Column("Required"),
    Column("Description", "wide"),
    Column("Findings", "wide"),
)


def _parameters(tool: CheckedTool, placed: dict[str, list[SchemaFinding]]) -> Section:
    rows = [
        [
            code(clip(parameter.name, 200)),
            _type(parameter),
            "yes" if parameter.required else "no",
            clip(parameter.description, 1000, absent_as="none"),
            cell(_own(parameter, tool.parameters, placed), absent("none")),
        ]
        for parameter in tool.parameters
    ]
    more = f"{tool.more_parameters:,} more are not shown." if tool.more_parameters else ""
    table = Table(
        "Parameters", _PARAMETERS, rows, absent="It takes no parameters.", kind="stack parameters"
    )
    return section("Parameters", table, id="parameters", hint=more)


def _own(
    parameter: CheckedParameter,
    parameters: Sequence[CheckedParameter],
    placed: dict[str, list[SchemaFinding]],
) -> list[SchemaFinding]:
    """The findings of a parameter without those of the parameters within it."""
    inner = {
        finding
        for other in parameters
        if other.path != parameter.path and below(other.path, parameter.path)
        for finding in placed[other.path]
    }
    return [finding for finding in placed[parameter.path] if finding not in inner]


def _type(parameter: CheckedParameter) -> str:
    kind = clip(parameter.type, 300, absent_as="no type")
    return phrase(kind, small(f", {parameter.limits}")) if parameter.limits else kind


def _rest(row: ToolRow, placed: dict[str, list[SchemaFinding]]) -> Section:
    """The findings that are about neither the description nor a parameter."""
    placed_findings = {finding for findings in placed.values() for finding in findings}
    rest = [finding for finding in row.findings if finding not in placed_findings]
    costs = row.tool.costs if row.tool else []
    lost = [
        phrase(f"{count(cost.points, 'point')} to ", code(cost.rule), small(f" {cost.findings:,}×"))
        for cost in costs
    ]
    title = "Findings about the tool as a whole"
    nothing = Paragraph("Nothing was found, and no points were lost.", "absent")
    return section(
        title if rest else "Points",
        finding_table(title, rest) if rest else None,
        Sentences(lost, "Where the points went") if lost else None,
        None if rest or lost else nothing,
        id="findings",
    )


def _source(check: ToolCheck | None) -> str:
    """The arguments of a command that reads the schema again."""
    file = "schemas/" if check is None or check.file.startswith("(") else check.file
    if file.startswith("stdio://"):
        return f"--mcp {shlex.quote(file.removeprefix('stdio://'))}"
    return f"--mcp-url {shlex.quote(file)}" if "://" in file else shlex.quote(file)


def _grading(row: ToolRow, entries: Sequence[tuple[GradingEntry, str]], source: str) -> Section:
    node = row.node
    if node is None:
        nothing = "It was never graded: judges answer the questions of the scoring protocol."
        command = f"assay tools import {source} --store\nassay tools grade {source} --emit-prompts"
        return section("Grade by the protocol", Empty(nothing, command), id="grade")
    reason = node.blocked_reason.replace("-", " ") if node.blocked_reason else node.reason
    reason = reason or node.note
    return section(
        "Grade by the protocol",
        Paragraph(phrase(verdict(node.status), " ", letter_of(row))),
        *([Paragraph(sentence(reason))] if reason else []),
        Table(
            "Gradings, the newest first",
            HISTORY,
            [history_row(entry, own) for entry, own in entries[:MAX_ENTRIES]],
            absent="No grading of this tool is stored.",
            kind="stack",
        ),
        id="grade",
    )


def _scores(tool: CheckedTool, past: Sequence[StoredCheck]) -> Section:
    rows = []
    for checked in past[:MAX_HISTORY]:
        then = next((other for other in checked.check.tools if other.name == tool.name), None)
        rows.append(
            [
                link(moment(checked.check.checked_at), address("schemas", checked.digest)),
                legibility(then) if then else absent("was not there"),
                shown(checked.check.version, "no version"),
                short_digest(checked.check.source_hash),
            ]
        )
    return section(
        "Checks over time",
        Table(
            "Checks over time",
            ("Checked", Column("Legibility", "n"), "Version", "Source"),
            rows,
            kind="stack",
        ),
        id="checks",
    )


def check_record(stored: StoredCheck, scale: Sequence[tuple[str, str]]) -> Section:
    """Where a check comes from, and how its scores are made."""
    check = stored.check
    facts = [
        ("Source", clip(check.file)),
        ("Hash of the source", short_digest(check.source_hash)),
        ("Kind", "MCP server" if check.kind == "mcp" else "FlowMCP schema"),
        ("Scored by", code(check.system)),
        *provenance(stored.digest, stored.stored, stored.author),
    ]
    table = Table("Points lost per fault", ("What", Column("Effect", "wide")), scale)
    return section(
        "Record",
        *([Details("How the legibility score is calculated", [table])] if scale else []),
        Facts(facts, "small"),
        id="record",
    )


_CHECKED_TOOLS = (
    Column("Tool"),
    Column("Legibility", "n"),
    Column("Findings"),
    Column("Tokens", "n"),
    Column("Description", "wide"),
)


def check_parts(
    stored: StoredCheck,
    *,
    past: Sequence[StoredCheck],
    newer: bool = False,
    scale: Sequence[tuple[str, str]] = (),
    namespace: str = "",
) -> list[Part]:
    """The page of one checked schema or server. `namespace` is the address of its gradings."""
    check = stored.check
    tools = sorted(check.tools, key=lambda tool: (tool.score, tool.name))
    here = address("schemas", check.schema_id)
    rows = []
    for tool in tools:
        row = ToolRow(check.namespace, check.base, tool.name)
        findings = [finding for finding in check.findings if below(finding.path, tool.path)]
        rows.append(
            [
                link(clip(tool.name, 120), row.href),
                legibility(tool),
                counted(findings),
                number(tool.tokens, digits=0),
                clip(tool.description, 200, absent_as="no description"),
            ]
        )
    vetoes = [check for check in check.checks if check.outcome == "veto"]
    older = Note(phrase("This is an older check; ", link("the newest is here", here), "."))
    protocol = phrase("How it is graded by the protocol: ", link("its namespace", namespace), ".")
    return parts_of(
        older if newer else None,
        *(Note(f"Veto {veto.id}: {veto.reason}", "bad") for veto in vetoes),
        Facts(
            [
                ("Legibility", number(check.score, digits=0, unit="of 100")),
                ("Mean of its tools", number(check.mean, digits=0)),
                ("Limited by", check.cap_reason or absent("nothing")),
                ("Tools", f"{len(check.tools):,}"),
                ("Findings", counted(check.findings)),
                ("Checked", moment(check.checked_at)),
            ],
            "figures",
        ),
        Paragraph(absent(NOT_A_GRADE), "hint"),
        Paragraph(check.description, "prose") if check.description else None,
        section(
            "Tools",
            Table(
                "Tools, the lowest score first",
                _CHECKED_TOOLS,
                rows,
                absent="It has no tools.",
                kind="stack runs",
            ),
            id="tools",
        ),
        section(
            "Findings about the schema as a whole",
            finding_table("Findings about the schema", own_findings(check), check.costs),
            id="findings",
        ),
        section("Veto checks", _veto_table(check), id="vetoes"),
        section("Checks over time", _history(past), id="checks"),
        Paragraph(protocol) if namespace else None,
        check_record(stored, scale),
    )


def _veto_table(check: ToolCheck) -> Table:
    outcomes = {"clean": verdict("passed", "clean"), "veto": verdict("fails", "veto")}
    return Table(
        "Checks for a veto",
        ("Check", "Outcome", Column("Why", "wide")),
        [
            [
                words(check.id.replace("-", "_")),
                outcomes.get(check.outcome)
                or verdict(
                    "undetermined" if check.outcome == "undetermined" else "none", check.outcome
                ),
                clip(check.reason, 600),
            ]
            for check in check.checks
        ],
        absent="No check was made.",
        kind="stack",
    )


def _history(past: Sequence[StoredCheck]) -> Table:
    rows = [
        [
            link(moment(checked.check.checked_at), address("schemas", checked.digest)),
            number(checked.check.score, digits=0),
            f"{len(checked.check.tools):,}",
            counted(checked.check.findings),
            shown(checked.check.version, "none"),
        ]
        for checked in past[:MAX_HISTORY]
    ]
    columns = ("Checked", Column("Legibility", "n"), Column("Tools", "n"), "Findings", "Version")
    return Table("Checks over time", columns, rows, kind="stack")


MAX_RESULTS = 200
_VERDICTS = {True: "holds", False: "violated", None: "undetermined"}


def gate_title(gate: ToolGate) -> str:
    """What was asked about, in a title."""
    names = [result.subject for result in gate.results] or ["nothing"]
    return f"Production gate of {few(names, 1)}"


def gate_outcome(gate: ToolGate) -> Piece:
    """Passed, failed, or undetermined."""
    if gate.passed:
        return verdict("passed")
    return verdict("failed" if gate.violated or not gate.results else "undetermined")


def first_reason(gate: ToolGate) -> str:
    """The first rule that does not hold, in words."""
    closed = [
        (rule.holds is None, f"{result.subject}: {rule.id}: {rule.reason}")
        for result in gate.results
        for rule in result.rules
        if rule.holds is not True
    ]
    if not closed:
        return "every rule holds" if gate.results else "nothing was asked about"
    more = f" (and {len(closed) - 1} more)" if len(closed) > 1 else ""
    return min(closed, key=lambda pair: pair[0])[1] + more


def gate_view(gate: ToolGate) -> list[Part]:
    """The decision, and each subject with its rules."""
    columns = ("Rule", "Verdict", Column("Why", "wide"))
    return [
        Decided(gate_outcome(gate), shown(gate.policy, "no policy"), first_reason(gate)),
        *(
            section(
                result.subject,
                Paragraph(outcome(result.passed)),
                Table(
                    f"Rules for {result.subject}",
                    columns,
                    [
                        [code(rule.id), verdict(_VERDICTS[rule.holds]), shown(rule.reason)]
                        for rule in result.rules
                    ],
                    kind="stack rules",
                ),
            )
            for result in gate.results[:MAX_RESULTS]
        ),
    ]


SELECTION = "selection"
ON_A_PAGE = 100
NOTHING_YET = Empty(
    "No tool is stored in this project yet. Check the tools of a server or a folder of schemas."
    " This calls no model:",
    'assay tools check --mcp "python server.py" --store\nassay tools check schemas/ --store',
    "`assay tools record`, `index`, `regrade` and `gate` also take --store: they add the grades.",
)
_VERSIONS = ("scoringSystem", "gradingSystem", "mixedVersions")
"""Keys of a summary that are shown elsewhere."""


class IndexVersion(Struct, frozen=True):
    """A stored index."""

    index: StoredIndex
    digest: str
    stored: str
    """When."""

    @property
    def href(self) -> str:
        """The address of its namespace or selection. A name that a browser would take for a step up
        goes by its index.
        """
        index = self.index
        if not index.name.strip("."):
            return address("schemas", self.digest)
        return address("schemas", index.name, kind=SELECTION if index.kind == SELECTION else None)


_HEADS = (
    ("tool", "Tool", ""),
    ("legibility", "Legibility", "n"),
    ("grade", "Grade by the protocol", ""),
    ("findings", "Findings", ""),
    ("tokens", "Tokens", "n"),
)


def tools_view(rows: Sequence[ToolRow], query: ToolQuery, start: int = 0) -> list[Block]:
    """Every tool in a row, as the query asks; `start` is the first row of the page."""
    schemas = sorted({row.schema_id for row in rows})
    fields = [
        Field("q", "Search", hint="name, description, finding"),
        *([Field("of", "Schema", "select", schemas)] if len(schemas) > 1 else []),
        Field(
            "sort", "Sort by", "select", [(key, title) for key, title, _ in _HEADS], "worst first"
        ),
        *(Field(name, name, "hidden") for name in ("state", "order")),
    ]
    chosen = chosen_rows(rows, query)
    page = chosen[start : start + ON_A_PAGE]
    table = Table(
        "Tools",
        _columns(query),
        [_listed_tool_row(row) for row in page],
        absent="No tool matches this filter.",
        kind="stack runs",
    )
    parts: list[Block] = [
        _chips(chosen_rows(rows, query._replace(state="")), query),
        Filters("/schemas", fields, query._asdict(), title="Search and sort", button="Show"),
        table,
        *_pages(len(chosen), start, query),
    ]
    return [Region("tools", parts)]


def _columns(query: ToolQuery) -> list[Column]:
    is_down = query.order == "desc"
    turned = {query.sort or DEFAULT_SORT: "" if is_down else "desc"}
    order = {query.sort or DEFAULT_SORT: "descending" if is_down else "ascending"}
    return [
        *(
            Column(title, kind, query.href(sort=key, order=turned.get(key, "")), order.get(key, ""))
            for key, title, kind in _HEADS
        ),
        Column("What to fix first", "wide"),
    ]


def _chips(rows: Sequence[ToolRow], query: ToolQuery) -> Chips:
    counts = {state: sum(row.is_in(state) for row in rows) for state in STATES}
    return Chips(
        "Which tools",
        [
            Chip("All", query.href(state=""), len(rows), not query.state),
            *(
                Chip(
                    STATES[state],
                    query.href(state="" if query.state == state else state),
                    n,
                    query.state == state,
                )
                for state, n in counts.items()
                if n or query.state == state
            ),
        ],
    )


def _listed_tool_row(row: ToolRow) -> list[str]:
    first = row.findings[0] if row.findings else None
    tokens = number(row.tool.tokens if row.tool else None, digits=0, absent_as="not known")
    return [
        phrase(link(clip(row.name, 120), row.href), line(small(clip(row.schema_id, 120)))),
        legibility(row.tool),
        verdict(row.node.status) if row.node and not row.grade else letter_of(row),
        counted(row.findings) if row.tool else absent("not checked"),
        tokens,
        finding_words(first, alone=True)
        if first
        else absent("nothing" if row.tool else "not checked"),
    ]


def _pages(n: int, start: int, query: ToolQuery) -> list[Block]:
    if n <= ON_A_PAGE and not start:
        return []

    def at(first: int) -> str:
        query_now = {key: value for key, value in query._asdict().items() if value}
        return address("schemas", **query_now, start=str(first) if first else None)

    last = min(n, start + ON_A_PAGE)
    return [
        Pager(
            newest=at(0) if start else "",
            newer=at(max(0, start - ON_A_PAGE)) if start else "",
            older=at(last) if last < n else "",
            summary=f"{start + 1:,} to {last:,} of {n:,} tools.",
            words=("First", "← Previous", "Next →"),
        )
    ]


def schemas_view(checks: Sequence[StoredCheck]) -> Section:
    """Every checked schema or server, the lowest score first."""
    columns = (
        Column("Schema or server"),
        Column("Legibility", "n"),
        Column("Limited by"),
        Column("Tools", "n"),
        Column("Findings"),
        Column("Checked"),
    )
    rows = [
        [
            link(clip(checked.check.schema_id, 120), address("schemas", checked.check.schema_id)),
            number(checked.check.score, digits=0, unit="of 100"),
            checked.check.cap_reason or absent("nothing"),
            f"{len(checked.check.tools):,}",
            counted(checked.check.findings),
            moment(checked.check.checked_at),
        ]
        for checked in sorted(
            checks, key=lambda checked: (checked.check.score, checked.check.schema_id)
        )
    ]
    title = "Schemas and servers"
    return section(title, Table(title, columns, rows, kind="stack runs"), id="checked")


_LIST = (
    Column("Name"),
    Column("Status"),
    Column("Grade"),
    Column("Contains", "wide"),
    Column("Blocked", "n"),
    Column("Changed"),
    Column("Stored"),
)


def list_view(newest: Sequence[IndexVersion]) -> Iterator[Section]:
    """Namespaces and selections, each as its newest index has it."""
    for kind, title in (("namespace", "Namespaces"), (SELECTION, "Selections")):
        rows = [_list_row(version) for version in newest if version.index.kind == kind]
        if rows:
            yield section(title, Table(title, _LIST, rows, kind="stack runs"), id=f"{kind}s")


def lead(rows: Sequence[ToolRow]) -> str:
    """The sentence under the title of the list."""
    schemas = {row.schema_id for row in rows}
    return (
        f"{count(len(rows), 'tool')} in {count(len(schemas), 'schema')}. Legibility, 0 to 100,"
        " comes from fixed rules; the grade comes from judges. Neither is made from the other."
    )


def _list_row(version: IndexVersion) -> list[str]:
    index = version.index
    held = _contents(index)
    return [
        link(clip(index.name, 120), version.href),
        verdict(index.status),
        graded(index.grade, index.grading_system),
        listed(held) if held else absent("nothing"),
        f"{len(index.blockers):,}",
        stamped(index.updated_at, "never"),
        moment(version.stored),
    ]


_ONE = {
    "schemas": "schema",
    "tools": "tool",
    "skills": "skill",
    "members": "member",
    "namespaces": "namespace",
    "entries": "entry",
}


def _contents(index: StoredIndex) -> list[str]:
    """The counts of an index as text: `2 tools (1 stable)`, then states such as `about blocked`.
    Zero counts are omitted.
    """
    known = dict(summary_of(index))
    made = []
    for key, noun in _ONE.items():
        n, stable = known.pop(key, None), known.pop(f"{key}Stable", None)
        if isinstance(n, int) and n:
            many = count(n, noun, key)
            made.append(many if stable is None else f"{many} ({shown(stable)} stable)")
    return [
        *made,
        *(phrase(f"{words(key).lower()} ", shown(value)) for key, value in known.items()),
    ]


def summary_of(index: StoredIndex) -> list[tuple[str, Any]]:
    """What an index sums up; of the entries and questions it remembers, their number."""
    return [
        (key, len(value) if key in ("entries", "catalogue") and isinstance(value, dict) else value)
        for key, value in index.summary.items()
        if key not in _VERSIONS
    ]


MAX_NODES = 400
ENTRIES = 60
OLDER = 20
MEANING = {
    "operational": "every node is stable",
    "partial": "some nodes are graded, not all are stable",
    "blocked": "nothing is graded, and something can't be graded",
    "pending": "nothing is graded yet",
    "rejected": "a node is rejected by a veto",
}
"""What the statuses of a whole mean."""


class TreeRow(NamedTuple):
    """A node of the tree: how deep it is, what it is, and which gradings are its own."""

    depth: int
    name: str
    what: str
    node: IndexNode | MemberNode | SchemaNode | None
    areas: tuple[str, ...] = ()
    subject: str | None = None
    """The schemaId of its entries, where that tells them apart."""
    skill: str | None = None
    href: str = ""


class RowHistory(NamedTuple):
    """The gradings of a node."""

    tier: str | None
    gradings: int = 0
    entry: GradingEntry | None = None
    """The one that decides."""
    digest: str = ""
    changed: bool = False
    """What was graded has changed since."""
    old: Mapping[str, str] | None = MappingProxyType({})
    """The questions whose answers are too old by now, and why; None if their age is unknown."""


def rows_in(index: StoredIndex) -> list[TreeRow]:
    """The nodes in the order of the tree."""
    return _of_selection(index) if index.kind == SELECTION else _of_namespace(index)


def _of_selection(index: StoredIndex) -> list[TreeRow]:
    levels = ("selection-skills-L1", "selection-skills-L2", "selection-skills-L3")
    whole = index.selection_aggregate
    return [
        TreeRow(0, "Selection as a whole", "aggregate", whole, ("selection-aggregate",)),
        TreeRow(0, "About page", "about", index.about, ("about-selection",)),
        *(
            TreeRow(0, name, "skill", node, levels, skill=name)
            for name, node in index.skills.items()
        ),
        *(
            TreeRow(0, name, "member", node, href=address("schemas", name.partition(".")[0]))
            for name, node in index.members.items()
        ),
    ]


def _of_namespace(index: StoredIndex) -> list[TreeRow]:
    whole = index.namespace_aggregate
    return [
        TreeRow(0, "Namespace as a whole", "aggregate", whole, ("tools-aggregate-namespace",)),
        TreeRow(0, "Description", "description", index.description, ("namespace-description",)),
        TreeRow(0, "About page", "about", index.about, ("about-namespace",)),
        *(
            row
            for name, schema in index.schemas.items()
            for row in _of_schema(index.name, name, schema)
        ),
        *(
            TreeRow(0, name, "skill", node, ("namespace-skills",), skill=name.partition(".")[2])
            for name, node in index.skills.items()
        ),
    ]


def _of_schema(namespace: str, name: str, schema: SchemaNode) -> list[TreeRow]:
    whole, areas = schema.tools_aggregate, ("tools-aggregate-schema",)
    here = f"{namespace}/{name}"
    return [
        TreeRow(0, name, "schema, with its tools", schema),
        TreeRow(1, "All its tools together", "aggregate", whole, areas, f"{namespace}.{name}"),
        *(
            TreeRow(
                1,
                tool,
                "tool",
                node,
                ("single-test",),
                f"{namespace}.{tool}",
                href=address("schemas", here, tool=tool),
            )
            for tool, node in schema.tools.items()
        ),
    ]


_NODES = (
    Column("Node"),
    Column("Status"),
    Column("Grade"),
    Column("Mean, 1 to 5", "n"),
    Column("Tier and cap"),
    Column("Bound to"),
    Column("Notes", "wide"),
    Column("History"),
)


def _node_row(row: TreeRow, history: RowHistory, system: str | None) -> list[str]:
    node = row.node
    shown_node = node if isinstance(node, IndexNode) else None
    own_system = shown_node.grading_system if shown_node else None
    past: str = absent("none stored" if row.areas else "of its nodes")
    if history.entry is not None:
        past = link(count(history.gradings, "grading"), address("schemas", history.digest))
    return [
        indented(
            row.depth, link(row.name, row.href) if row.href else row.name, " ", small(row.what)
        ),
        verdict(node.status if node else None),
        graded(
            node.grade if node else None,
            own_system or system,
            shown_node.raw_grade if shown_node else None,
            why=", capped",
        ),
        number(
            shown_node.normalized_score if shown_node else None,
            digits=3,
            absent_as="no mean" if row.areas else "of its nodes",
        ),
        _tier(history),
        _bound(node),
        lines(_to_be_known(node, history), "nothing"),
        past,
    ]


def _tier(history: RowHistory) -> str:
    entry = history.entry
    if entry is not None:
        return phrase(entry.grading_tier, small(f", at best {entry.max_attainable_grade}"))
    return shown(history.tier, "of its nodes")


def _bound(node: IndexNode | MemberNode | SchemaNode | None) -> str:
    if isinstance(node, SchemaNode) and node.snapshot is not None:
        return phrase(small("source "), code(node.snapshot.hash))
    bound = node.bound_to if isinstance(node, IndexNode) else None
    return short_digest(bound) if bound else absent("nothing")


_WHY = {
    "validation-failed": "the schema is not valid: `assay tools check` lists what to fix",
    "fewer-than-three-tests": "fewer than three tests: add tests to the tool",
    "fewer-than-two-tests": "fewer than two tests: add tests",
    "no-about": "there is no about page: write one",
    "api-down": "the API did not answer",
    "all-schemas-unparseable": "no schema can be read",
    "not-imported": "not imported: `assay tools import` adds it to the tree",
}
"""Why a node is blocked, in words; the record has the key."""


def _why_blocked(reason: str) -> str:
    return coded(_WHY.get(reason, reason))


def _to_be_known(
    node: IndexNode | MemberNode | SchemaNode | None, history: RowHistory
) -> list[str]:
    parts: list[str] = []
    if history.changed and node is not None:
        parts.append(verdict("stale", node.reason or ""))
    if history.old is None:
        parts.append(verdict("undetermined", "the age of its answers is unknown"))
    elif history.old:
        stale = verdict("stale", f"{count(len(history.old), 'answer')} too old by now")
        parts.append(phrase(stale, small(f": {next(iter(history.old.values()))}")))
    if node is not None and node.reason and not history.changed:
        parts.append(_why_blocked(node.reason))
    if isinstance(node, IndexNode) and node.note:
        parts.append(node.note)
    return parts


def index_view(
    version: IndexVersion,
    rows: Sequence[tuple[TreeRow, RowHistory]],
    entries: Sequence[tuple[GradingEntry, str]],
    others: Sequence[IndexVersion],
    *,
    newer: bool,
    policies: Sequence[str],
    author: str | None,
) -> list[Block]:
    """One index: its outcome, blockers, tree, entries, and the other indexes of it. `newer` says
    that it is not the newest one.
    """
    index = version.index
    lock = [_lock(index.lock_snapshot)] if index.lock_snapshot else []
    older = (
        [Note(phrase("This is an older index; ", link("the newest is here", version.href), "."))]
        if newer
        else []
    )
    sections = [
        _blockers(index),
        _tree(index, rows),
        *lock,
        section(
            "Entry history",
            Table(
                "Grading entries, the newest first",
                HISTORY,
                [history_row(entry, own) for entry, own in entries[:ENTRIES]],
                absent="No entry is stored with this index: nothing is graded yet.",
                kind="stack",
            ),
            id="entries",
            hint=f"The newest {ENTRIES} of {len(entries):,}."
            if len(entries) > ENTRIES
            else "Nothing is overwritten: superseded entries stay.",
        ),
        _others(others),
        _origin(version, policies, author),
    ]
    return [*_index_head(version), *older, *sections]


def _index_head(version: IndexVersion) -> list[Block]:
    index = version.index
    meaning = MEANING.get(str(index.status), "unknown status")
    mixed = index.summary.get("mixedVersions")
    return [
        Group(
            [
                Paragraph(
                    phrase(verdict(index.status), " ", graded(index.grade, index.grading_system)),
                    "outcome",
                ),
                Paragraph(f"The {index.kind} is {index.status}: {meaning}.", "verdict"),
            ],
            "decided",
        ),
        *(
            [Note(phrase("Scores of more than one version are mixed: ", shown(mixed), "."), "bad")]
            if mixed
            else []
        ),
        Facts(
            [
                *((words(key), shown(value)) for key, value in summary_of(index)),
                ("Changed", stamped(index.updated_at, "never")),
                ("Stored", moment(version.stored)),
            ],
            "figures",
        ),
    ]


def _blockers(index: StoredIndex) -> Section:
    rows = [
        [code(blocker.node), _why_blocked(blocker.reason)] for blocker in index.blockers[:MAX_NODES]
    ]
    columns = ("Node", Column("Why", "wide"))
    table = Table("Blockers", columns, rows, absent="Nothing is blocked.", kind="stack")
    return section("Blockers", table, id="blockers")


def _tree(index: StoredIndex, rows: Sequence[tuple[TreeRow, RowHistory]]) -> Section:
    cells = [_node_row(row, past, index.grading_system) for row, past in rows[:MAX_NODES]]
    more = (
        [Paragraph(f"The first {MAX_NODES} of {len(rows):,} nodes.", "hint")]
        if len(rows) > MAX_NODES
        else []
    )
    return section(
        "Tree",
        Table("Nodes", _NODES, cells, absent="The index has no nodes.", kind="stack tree"),
        *more,
        id="tree",
        hint=(
            "A node is pending, blocked, graded, stable or rejected. The raw grade is the one"
            " before the tier's cap."
        ),
    )


def _lock(lock: SelectionLock) -> Section:
    rows = []
    for member in lock.members[:MAX_NODES]:
        rest = {
            key: value
            for key, value in document(member).items()
            if key not in ("schemaId", "gradingStatus")
        }
        rows.append([member.schema_id, verdict(member.grading_status), shown(rest)])
    return section(
        "Frozen members",
        Table(
            "Frozen members",
            ("Member", "Status when it was frozen", Column("As it was", "wide")),
            rows,
            absent="It lists no members.",
        ),
        id="lock",
        hint="The selection as locked. The tree above shows its members as they are now.",
    )


def _others(others: Sequence[IndexVersion]) -> Section:
    rows = [
        [
            short_digest(version.digest, address("schemas", version.digest)),
            verdict(version.index.status),
            graded(version.index.grade, version.index.grading_system),
            moment(version.stored),
        ]
        for version in others[:OLDER]
    ]
    return section(
        "Other stored indexes",
        Table(
            "Other stored indexes",
            ("Index", "Status", "Grade", "Stored"),
            rows,
            absent="This is the only one stored.",
            kind="stack",
        ),
        id="versions",
    )


def _origin(version: IndexVersion, policies: Sequence[str], author: str | None) -> Section:
    index = version.index
    known = ", ".join(policies) or "none"
    stored, _, by = provenance(version.digest, version.stored, author)
    pairs = [
        ("Scoring system", shown(index.scoring_system)),
        ("Grading system", shown(index.grading_system)),
        ("Policy", f"an index names none; the library has {known} for this family"),
        stored,
        by,
    ]
    notes = [Paragraph(note) for note in index.notes]
    return section("Record", Facts(pairs, "small"), *notes, id="origin")
