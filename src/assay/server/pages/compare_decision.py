"""The decision on a comparison, with the rules it was made by and the button that stores it."""

from __future__ import annotations

from assay.errors import AssayError
from assay.server.auth import Principal
from assay.server.pages.compared_rules import PageRules, gate_command, rules_for
from assay.server.pages.compared_sides import (
    BASELINE,
    MOST,
    ComparedSide,
    decide_between,
    texts_between,
)
from assay.server.problems import Problem
from assay.server.state import Services
from assay.services.stored_compare import DecidedSides, ReleaseSide
from assay.store.drafts import draft
from assay.views.blocks import Button, Details, Note, Paragraph, Part, Section, Verbatim, section
from assay.views.compare import CompareQuery, decision_parts
from assay.views.pieces import address, link, phrase, sentence, strong


def refused(title: str, error: AssayError | Problem) -> Section:
    """Why something was refused, and what to do."""
    message = error.detail if isinstance(error, Problem) else error.message
    fix = [Paragraph(phrase(strong("What to do: "), error.fix))] if error.fix else []
    return section(
        title,
        Note(sentence(message), "bad"),
        *fix,
        Paragraph(f"Error {error.code}.", "hint"),
        id="refused",
    )


def decision_section(
    services: Services,
    principal: Principal,
    candidate: ComparedSide,
    baseline: ComparedSide,
    query: CompareQuery,
) -> tuple[Section, str]:
    """Whether the candidate may replace the baseline, by the rules of the command; and, if stored
    scores don't show what moved, the reason as a key of UNMOVED.
    """
    project, ours, theirs = principal.project, candidate.side, baseline.side
    command = Verbatim(gate_command(services, project, ours, theirs, query.policy))
    title = f"May {candidate.version.name} replace {baseline.version.name}?"
    why_not = (
        f"a side has more than {MOST:,} runs, which takes longer than a page may"
        if max(len(ours.evidence), len(theirs.evidence)) > MOST
        else ""
    )
    if why_not:
        text = f"Not decided here: {why_not}. The command decides, and stores the decision:"
        return section(title, Note(text), command, id="decision"), ""
    try:
        rules = rules_for(services, query.policy)
        decided = decide_between(services, project, ours, theirs, query.policy)
        texts = texts_between(services, project, ours, theirs, decided)
    except (AssayError, Problem) as error:
        parts = refused("No decision", error).parts
        return section(title, *parts, id="decision", kind="refused"), "refused"
    unmoved = "regraded" if decided.regraded else ""
    if rules.project:
        return section(
            title,
            Note(_other_rules(rules), "bad"),
            *decision_parts(decided.decision, under=rules.text, texts=texts),
            Paragraph("This page doesn't store it. The command does:"),
            command,
            id="decision",
        ), unmoved
    return section(
        title,
        *decision_parts(decided.decision, under=rules.text, texts=texts),
        _storing(services, principal, decided, (ours, theirs), query.policy),
        Details("The same decision by the command", [command]),
        id="decision",
    ), unmoved


def _other_rules(rules: PageRules) -> str:
    return (
        f"{rules.text}: not the project's release rules. `assay gate` decides under"
        f" {rules.project} here."
    )


def refuse_other_rules(services: Services, policy: str) -> None:
    """Refuse to store a decision that was not made by the project's rules."""
    rules = rules_for(services, policy)
    if rules.project:
        raise Problem(422, _other_rules(rules), fix="Choose the project's rules in the form.")


def _storing(
    services: Services,
    principal: Principal,
    decided: DecidedSides,
    sides: tuple[ReleaseSide, ReleaseSide],
    policy: str,
) -> Part:
    """The button that stores a decision, or where it is stored."""
    name = draft(decided.decision.tree(), kind="decision").name
    if services.ledger.get(name, project=principal.project) is not None:
        stored = link("Open the stored decision", address("decisions", name))
        return Paragraph(phrase("This decision is stored. ", stored))
    if "write" not in principal.scopes:
        return Paragraph("Not stored: that needs a token with the `write` scope.", "hint")
    # by digest: a name may mean another evaluation by the time the button is pressed
    candidate, baseline = (
        side.digest if side.stored is not None else BASELINE + side.digest for side in sides
    )
    hidden = {"candidate": candidate, "baseline": baseline, "policy": policy, "decision": name}
    return Button("Store this decision", "/compare", hidden)
