"""The gates of exams and of tool schemas, as decisions: which of their rules hold, and what they
were decided on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.server.pages.layout import Column, address, facts, link, section, short, table, verdict
from assay.server.pages.paging import mapped, rows_of, texts, words
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.server.state import Services
    from assay.store.drafts import Item

Tree = dict[str, Any]
MAX_ROWS = 200


def _head(outcome: Html, policy: Any, reasons: Sequence[str]) -> Html:
    under = tag("small", "under ", say(policy, "no policy"))
    why = tag(
        "p",
        ". ".join(one[:1].upper() + one[1:] for one in reasons) or "No reason is stated.",
        class_="verdict",
    )
    return tag("div", tag("p", outcome, " ", under, class_="outcome"), why, class_="decided")


def _passed(passed: Any) -> Html:
    return verdict("passed", "Passed") if passed is True else verdict("not passed", "Not passed")


# --- exams


def held(found: Any, absent: str) -> Html:
    """Whether a limit is kept; what was not asked is said so."""
    if not isinstance(found, dict):
        return verdict("none", absent)
    return verdict("holds") if found.get("holds") is True else verdict("fails", "does not hold")


def exam(services: Services, project: str, item: Item, decision: Tree) -> list[Html]:
    """The gate of an exam: what blocks, what only warns, and the results it was decided on."""
    capstone, target, drop = (decision.get(name) for name in ("capstone", "target", "regression"))
    moved = mapped(drop)
    rows = [
        [
            "Capstone score",
            held(capstone, "not asked"),
            "blocks",
            join(
                [
                    "score ",
                    say(mapped(capstone).get("score")),
                    ", at least ",
                    say(mapped(capstone).get("limit")),
                ]
            ),
        ],
        [
            "Drop on the regression set",
            held(drop, "no baseline was given"),
            "blocks",
            (
                join(
                    [
                        "from ",
                        say(moved.get("baseline")),
                        " to ",
                        say(moved.get("candidate")),
                        ", a drop of ",
                        say(moved.get("drop")),
                        ", at most ",
                        say(moved.get("limit")),
                    ]
                )
                if moved
                else say(None, "nothing to compare with")
            ),
        ],
        [
            "Production target",
            held(target, "not asked"),
            "only tells",
            join(
                [
                    "score ",
                    say(mapped(target).get("score")),
                    ", target ",
                    say(mapped(target).get("limit")),
                ]
            ),
        ],
    ]
    for soft in rows_of(decision.get("soft")):
        warn = soft.get("warn")
        said = (
            verdict("undetermined", "not measured")
            if warn is None
            else verdict("stale", "warns")
            if warn is True
            else verdict("holds")
        )
        value = join(
            [
                "value ",
                say(soft.get("value"), "none"),
                ", limit ",
                say(soft.get("limit")),
                *([": ", str(soft["reason"])] if soft.get("reason") else []),
            ]
        )
        rows.append(
            [join(["Soft gate ", tag("code", say(soft.get("id")))]), said, "only warns", value]
        )
    verify = mapped(decision.get("verify_rubric"))
    if verify:
        test = mapped(verify.get("self_test"))
        sound = (
            verdict("holds")
            if test.get("passed") is True
            else verdict("fails", "the rubric fails its own test")
        )
        rows.append(
            [
                "Rise, checked for a fault of the rubric",
                sound,
                "blocks",
                join(
                    ["rise ", say(verify.get("rise")), ", checked above ", say(verify.get("limit"))]
                ),
            ]
        )
    axes = mapped(moved.get("axes"))
    changes = [(words(axis), say(change)) for axis, change in axes.items()]
    notes = texts(decision.get("notes"))
    return [
        _head(
            _passed(decision.get("passed")), decision.get("policy"), texts(decision.get("reasons"))
        ),
        section(
            "Gates",
            table(
                "Gates of the exam",
                ("Gate", "Verdict", "It", Column("Found", "wide")),
                rows,
                kind="stack",
            ),
            id="rules",
        ),
        *(
            [section("Change of each axis against the baseline", facts(changes), id="axes")]
            if changes
            else []
        ),
        *(
            [section("To be known", tag("ul", *(tag("li", one) for one in notes)), id="notes")]
            if notes
            else []
        ),
        _rests_on(services, project, item, "exams", decision),
    ]


# --- tool schemas


def schema_outcome(decision: Mapping[str, Any]) -> Html:
    """Passed, not passed, or not to be told."""
    results = rows_of(decision.get("results"))
    if decision.get("passed") is True:
        return verdict("passed")
    failed = any(
        rule.get("holds") is False for one in results for rule in rows_of(one.get("rules"))
    )
    return (
        verdict("not passed")
        if failed or not results
        else verdict("undetermined", "cannot be told")
    )


def first_reason(results: Sequence[Mapping[str, Any]]) -> str:
    """The first rule that does not hold, in words."""
    open_ = [
        (one, rule)
        for one in results
        for rule in rows_of(one.get("rules"))
        if rule.get("holds") is not True
    ]
    if not open_:
        return "every rule holds" if results else "nothing was asked about"
    one, rule = sorted(open_, key=lambda pair: pair[1].get("holds") is None)[0]
    more = f" (and {len(open_) - 1} more)" if len(open_) > 1 else ""
    return f"{one.get('subject')}: {rule.get('id')}: {rule.get('reason')}{more}"


def schemas(services: Services, project: str, item: Item, decision: Tree) -> list[Html]:
    """The production gate: each subject with its rules."""
    words_of = {
        True: verdict("holds"),
        False: verdict("violated"),
        None: verdict("undetermined", "could not be judged"),
    }
    parts = []
    for result in rows_of(decision.get("results"))[:MAX_ROWS]:
        rules = [
            [
                tag("code", say(rule.get("id"))),
                words_of.get(rule.get("holds"), verdict(None)),
                say(rule.get("reason")),
            ]
            for rule in rows_of(result.get("rules"))
        ]
        name = str(result.get("subject"))
        passed = verdict("passed" if result.get("passed") is True else "not passed")
        parts.append(
            section(
                name,
                tag("p", passed),
                table(
                    f"Rules for {name}",
                    ("Rule", "Verdict", Column("Why", "wide")),
                    rows=rules,
                    kind="stack rules",
                ),
            )
        )
    return [
        _head(
            schema_outcome(decision),
            decision.get("policy"),
            [first_reason(rows_of(decision.get("results")))],
        ),
        *parts,
        _rests_on(services, project, item, "schemas", decision),
    ]


def _rests_on(services: Services, project: str, item: Item, path: str, decision: Tree) -> Html:
    links = services.ledger.links_of(item.digest, project=project, limit=MAX_ROWS)
    told = {"candidate_of": "decided on", "baseline_of": "held against"}
    rows = [
        [link(short(one.source), address(path, one.source)), told[one.relation]]
        for one in links
        if one.relation in told and one.source and one.target == item.digest
    ]
    systems = [
        (f"Digest of the {words(key).lower()}", short(value))
        for key, value in mapped(decision.get("digests")).items()
    ]
    versions = [
        ("Scoring system", say(decision.get("scoringSystem"))),
        ("Grading system", say(decision.get("gradingSystem"))),
        ("Rubric", say(decision.get("rubric"), "none")),
    ]
    listed = table(
        "What was decided on",
        ("Record", "It was"),
        rows,
        absent="What it was decided on is not stored.",
    )
    return section(
        "What it rests on", listed, facts([*versions, *systems], kind="small"), id="origin"
    )
