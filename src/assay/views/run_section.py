"""One graded run as a section of a page: the verdict first, then the gates, the criteria, why, the
steps, and what it was made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import exact
from assay.views.charts import grades
from assay.views.markup import (
    Html,
    anchor,
    badge,
    block,
    bullets,
    facts,
    fields,
    join,
    passed,
    percent,
    points,
    say,
    share,
    signed,
    table,
    tag,
)

if TYPE_CHECKING:
    from assay.views.charts import Chart
    from assay.views.figures import Pictures

_LAYERS = {
    "1": "Objective (layer 1)",
    "2": "Rubric or judge (layer 2)",
    "3": "Operations (layer 3)",
    "none": "Without a layer",
}
_ORIGINS = {
    "role": "demanded by its role",
    "criterion": "the criterion's own",
    "override": "an override",
}
SYSTEMS = {"scoringSystem": "Scoring system", "gradingSystem": "Grading system", "policy": "Policy"}
_ABOUT = {
    "sample_id": "Sample",
    "group": "Group",
    "tags": "Tags",
    "status": "Status",
    "judge": "Judge",
}
_SPENT = {"retries": "Retries", "tokens": "Tokens", "cost_usd": "Cost, USD"}
_TIMED = {"duration_ms": "Duration, ms", **_SPENT}
_STEPS = {
    "name": "Step",
    "status": "Status",
    "agent": "Agent",
    "critical": "Critical",
    "model": "Model",
    "tier": "Tier",
    **_TIMED,
    "scores": "Scores",
}
_COUNTS = {
    "steps": "Steps",
    "succeeded": "Succeeded",
    "failed": "Failed",
    "skipped": "Skipped",
    "success_rate": "Success rate",
    **_TIMED,
}
_AGENTS = {"agent": "Agent", **_COUNTS, "scores": "Scores"}

Result = dict[str, Any]

EAGER = 20
"""Sections that a browser lays out at once; the later ones when they come into view."""


def workflow_of(run: Result) -> str:
    """The workflow, its version and its family."""
    workflow = run.get("workflow")
    if not workflow:
        return say(None, "none, a bare scorecard")
    version = tag("small", " version ", say(workflow.get("version")))
    return join(
        [
            say(workflow.get("id")),
            version,
            " ",
            tag("small", say(workflow.get("family"), "no family"), class_="under"),
        ]
    )


def because(run: Result) -> str:
    """The verdict sentence without its first half, which the columns beside it already say."""
    sentence = str(next(iter(run.get("explanation") or ()), ""))
    return sentence.partition(": ")[2] or sentence or say(run.get("reason"), "no reason is stated")


def failed_gates(run: Result) -> str:
    """The first gates that fail."""
    failed = run.get("hard_gate_failures")
    if not failed:
        return say(None, "none")
    more = [tag("small", f"and {len(failed) - 3} more")] if len(failed) > 3 else []
    return join([*(tag("code", say(name), class_="under") for name in failed[:3]), *more])


# --- one run


def run_section(run: Result, number: int, *, pictures: Pictures | None = None) -> Html:
    """The section of a run, with its charts where `pictures` draws them. What a run that passed
    adds to its verdict is folded.
    """
    name = f"run-{number}"
    heading = tag(
        "h2", tag("span", say(run.get("run_id"))), " ", badge(run.get("grade")), id=f"{name}-name"
    )
    verdict = tag(
        "p",
        say(next(iter(run.get("explanation") or ()), None), "No verdict is stated."),
        class_="verdict",
    )
    figures = [
        ("Verdict", passed(run)),
        ("Score", points(run.get("weighted_score"))),
        ("Threshold", points(run.get("pass_threshold"), "not stated")),
    ]
    figures += [
        ("By score alone", say(run.get("provisional_grade"))),
        ("Adjusted for sample size", points(run.get("weighted_score_adjusted"))),
    ]
    drawn = (
        [pictures.figure(chart) for chart in charts_of(run)]
        if pictures is not None
        else [_scale(run)]
    )
    rest = [_gates(run), _criteria(run), _why(run), *_parts(run), _about(run)]
    folded = (
        [tag("details", tag("summary", "Gates, criteria, steps and digests"), *rest, class_="rest")]
        if run.get("passed") is True
        else rest
    )
    back = tag("p", tag("a", "All runs", href="#runs"), class_="back")
    return tag(
        "article",
        heading,
        verdict,
        facts(figures, kind="figures"),
        *drawn,
        *folded,
        back,
        id=name,
        aria_labelledby=f"{name}-name",
        class_="run late" if number > EAGER else "run",
    )


def charts_of(run: Result) -> list[Chart]:
    """The charts of one run: where its points went; its floors, where one is missed; and its steps,
    where they are timed.
    """
    found = [grades.contributions(run)]
    if run.get("floor_failures"):
        found.append(grades.floors(run))
    return [chart for chart in (*found, grades.timeline(run)) if chart.spec is not None]


def _scale(run: Result) -> Html:
    """The bands from 0 to 100, the threshold and the score among them."""
    bands = sorted(
        (band for band in run.get("bands") or () if exact.is_number(band.get("min"))),
        key=lambda band: share(band["min"], 100),
    )
    if not bands or not exact.is_number(run.get("weighted_score")):
        return Html("")
    edges = [share(band["min"], 100) for band in bands] + [100.0]
    drawn, words = [], []
    for band, low, high in zip(bands, edges, edges[1:], strict=False):
        own = "own" if band.get("grade") == run.get("provisional_grade") else ""
        drawn.append(
            tag(
                "rect",
                x=percent(low),
                y="18",
                width=percent(high - low),
                height="22",
                class_=f"band {own}".strip(),
            )
        )
        words.append(
            tag(
                "text",
                say(band.get("grade")),
                x=percent((low + high) / 2),
                y="33",
                text_anchor="middle",
                class_=own,
            )
        )
        words.append(
            tag(
                "text",
                say(band["min"]),
                x=percent(low),
                y="54",
                text_anchor=anchor(low),
                class_="edge",
            )
        )
    score = share(run["weighted_score"], 100)
    for kind, value in (("limit", run.get("pass_threshold")), ("score", run["weighted_score"])):
        at = percent(share(value, 100))
        drawn += (
            [tag("line", x1=at, x2=at, y1="14", y2="44", class_=kind)]
            if exact.is_number(value)
            else []
        )
    words.append(
        tag(
            "text",
            points(run["weighted_score"]),
            x=percent(score),
            y="10",
            text_anchor=anchor(score),
            class_="at",
        )
    )
    said = (
        f"The score {points(run['weighted_score'])} on a scale from 0 to 100, threshold"
        f" {points(run.get('pass_threshold'), 'not stated')}."
    )
    caption = tag("figcaption", "Bands by score. The dashed line is the threshold.")
    return tag(
        "figure", tag("svg", *drawn, *words, role="img", aria_label=said, class_="scale"), caption
    )


def _gates(run: Result) -> Html:
    order = ["fail", "undetermined", "pass"]
    gates = sorted(
        (run.get("hard_gates") or {}).items(),
        key=lambda gate: (
            order.index(gate[1].get("status")) if gate[1].get("status") in order else 0
        ),
    )
    rows = [
        [
            tag("code", name),
            signed(gate.get("status")),
            say(gate.get("reason"), "no reason is stated"),
        ]
        for name, gate in gates
    ]
    listed = table(
        "An undetermined gate counts as failed.",
        {"gate": "Gate", "verdict": "Verdict", "reason": "Reason"},
        rows,
        kind="stack gates",
    )
    return block("Gates", listed if rows else tag("p", "No hard gate was asked of this run."))


def _criteria(run: Result) -> Html:
    criteria = run.get("criteria") or ()
    best = max((share(criterion.get("maximum")) for criterion in criteria), default=0.0)
    rows = [_criterion(criterion, best) for criterion in criteria]
    layers = [
        (_LAYERS.get(layer, layer), points(value, "no criterion"))
        for layer, value in (run.get("layers") or {}).items()
    ]
    hint = tag(
        "p",
        "A bar is as long as the points it could bring. The filled part was earned; the upright"
        " mark is the floor.",
        class_="hint",
    )
    return block(
        "Criteria",
        hint,
        tag("ol", *rows, class_="criteria"),
        tag("h4", "Points by layer"),
        facts(layers),
    )


def _criterion(item: Result, best: float) -> Html:
    name, label, params = item.get("name"), item.get("label"), item.get("params")
    earned, most = points(item.get("contribution")), points(item.get("maximum"))
    title = [
        tag("b", say(label or name)),
        *([" ", tag("code", say(name))] if label and label != name else []),
    ]
    raw = (
        say(item["raw_score"])
        if item.get("raw_score") is not None
        else join(["none, so it counts as 0: ", say(item.get("missing"), "no reason is stated")])
    )
    formula = join([say(item.get("formula_id")), *([" (", say(params), ")"] if params else [])])
    told = [
        *fields(item, {"norm": "Norm"}),
        ("Raw score", raw),
        ("Formula", formula),
        *fields(item, {"weight": "Weight"}),
        ("Floor", _floor(item)),
    ]
    told += fields(
        item,
        {"role": "Role", "layer": "Layer", "n": "Samples", "adjusted_norm": "Adjusted norm"},
        "none",
    )
    head = tag(
        "p",
        tag("span", *title),
        " ",
        tag("span", tag("b", earned), f" of {most} points", class_="earned"),
        class_="name",
    )
    return tag(
        "li",
        head,
        _bar(
            item,
            f"{earned} of {most} points",
            100 * share(item.get("maximum")) / best if best else 0.0,
        ),
        facts(told),
    )


def _floor(item: Result) -> str:
    floor = item.get("critical_floor")
    if not floor:
        return say(None, "none")
    raw = [", raw ", say(floor["raw"])] if floor.get("raw") is not None else []
    origin = say(floor.get("from"))
    return join(
        [
            signed("missed" if item.get("floor_failed") else "holds"),
            " ",
            say(floor.get("norm")),
            *raw,
            ", ",
            _ORIGINS.get(origin, origin),
        ]
    )


def _bar(item: Result, said: str, track: float) -> Html:
    """One bar. All bars of a run share a scale, so that a lost point is as wide in one as in
    another.
    """
    failed, floor = bool(item.get("floor_failed")), item.get("critical_floor")
    filled = percent(track * share(item.get("norm")) / 100)
    drawn = [tag("rect", width=percent(track), height="12", y="4", class_="track")]
    drawn.append(
        tag("rect", width=filled, height="12", y="4", class_="missed" if failed else "fill")
    )
    if floor:
        at = track * share(floor.get("norm")) / 100
        drawn.append(tag("line", x1=percent(at), x2=percent(at), y1="0", y2="20", class_="floor"))
        drawn.append(
            tag(
                "text",
                "floor ",
                say(floor.get("norm")),
                x=percent(at),
                y="33",
                text_anchor=anchor(at),
            )
        )
        said += f", floor {say(floor.get('norm'))} {'missed' if failed else 'holds'}"
    return tag("svg", *drawn, role="img", aria_label=said, class_="bar floored" if floor else "bar")


def _why(run: Result) -> Html:
    placement = run.get("placement") or {}
    opened = " with the gates open" if run.get("hard_gate_failures") else ""
    moves = [
        (
            "Points to the next band",
            points(placement.get("margin_to_next_grade"), "no band is higher"),
        )
    ]
    moves += [
        ("Points to lose this band", points(placement.get("to_lose_grade"), "no band is lower"))
    ]
    moves += [
        (
            f"Smallest gain{opened}",
            _move(placement.get("smallest_gain"), "no change of one criterion gains a letter"),
        )
    ]
    moves += [
        (
            f"Smallest loss{opened}",
            _move(placement.get("smallest_loss"), "no change of one criterion loses a letter"),
        )
    ]
    fired = [found for found in run.get("findings") or () if found.get("fired")]
    rules = [
        join([tag("code", say(found.get("rule"))), " ", say(found.get("text"))]) for found in fired
    ]
    sentences = bullets("In sentences", list(run.get("explanation") or ())[1:])
    lists = [
        bullets("Placement", placement.get("notes") or ()),
        bullets("Rules that fired", rules),
        bullets("Notes", run.get("notes") or ()),
    ]
    return block(
        "Why", sentences, tag("h4", "What would move it"), facts(moves, kind="facts pairs"), *lists
    )


def _move(move: Result | None, absent: str) -> str:
    if not move:
        return say(None, absent)
    raw = [" (raw ", say(move["needed_raw"]), ")"] if move.get("needed_raw") is not None else []
    return join(
        [
            say(move.get("criterion")),
            " from ",
            say(move.get("norm")),
            " to ",
            say(move.get("needed_norm")),
            *raw,
            " gives ",
            say(move.get("grade")),
        ]
    )


def _parts(run: Result) -> list[Html]:
    found = []
    for title, key, columns in (
        ("Steps", "step_scores", _STEPS),
        ("Agents", "agent_scores", _AGENTS),
    ):
        rows = [[_cell(part, column) for column in columns] for part in run.get(key) or ()]
        found.append(
            block(
                title,
                (
                    table(title, columns, rows, kind="wide")
                    if rows
                    else tag("p", say(None, "none reported"))
                ),
            )
        )
    return found


def _cell(part: Result, key: str) -> str:
    value, unreported = part.get(key), part.get("unreported") or {}
    if key == "status":
        return signed(value)
    if key == "scores":
        return join(
            tag("span", f"{name}: ", say(score), class_="under")
            for name, score in (value or {}).items()
        ) or say(None, "none")
    return say(
        value,
        (
            f"not reported by {say(unreported[key])} of its steps"
            if key in unreported
            else "not reported"
        ),
    )


def _about(run: Result) -> Html:
    selection, dataset, spent = (
        run.get("selection") or {},
        run.get("dataset") or {},
        run.get("operations") or {},
    )
    version = [tag("small", " version ", say(dataset.get("version")))] if dataset else []
    about = [("Workflow", workflow_of(run)), ("Dataset", join([say(dataset.get("id")), *version]))]
    about += fields(run, _ABOUT, "none")
    for kind in ("profile", "rubric"):
        why = (selection.get(kind) or {}).get("why")
        about.append(
            (
                kind.capitalize(),
                join([say(run.get(kind), "none"), *([", ", say(why)] if why else [])]),
            )
        )
    about += fields(spent, {"latency_ms": "Latency, ms", **_SPENT}, "not reported")
    about += fields(run, SYSTEMS)
    digests = [
        (f"Digest of the {name}", tag("code", say(value)))
        for name, value in (run.get("digests") or {}).items()
    ]
    return block("About this run", facts(about), facts(digests, kind="facts small"))
