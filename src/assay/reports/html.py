"""Results -> one HTML page that a release manager can open, print, mail and keep.

The page stands alone: no script, no font, no request; its content policy forbids them all. It decides nothing: every number on it stands in the
results it was given; beside that, runs are counted. Whatever is in a result is hostile: text becomes markup in `tag` and nowhere else, and `tag`
escapes it. A value that is missing is said in words, because an empty cell reads like a zero.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay import exact
from assay.canon import number_text
from assay.records.grade import LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_CSS = Path(__file__).parent / "templates" / "report.css"
# Signs that no reader sees: controls, half a surrogate pair, and the marks that make text run backwards, so that one run could pose as another.
_UNSEEN = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)], 0xFFFD)
_SIGNS = {"pass": "✓", "passed": "✓", "success": "✓", "holds": "✓", "undetermined": "?", "skipped": "–"}
_LAYERS = {"1": "Objective (layer 1)", "2": "Rubric or judge (layer 2)", "3": "Operations (layer 3)", "none": "Without a layer"}
_ORIGINS = {"role": "demanded by its role", "criterion": "the criterion's own", "override": "an override"}
_SYSTEMS = {"scoringSystem": "Scoring system", "gradingSystem": "Grading system", "policy": "Policy"}
_ABOUT = {"sample_id": "Sample", "group": "Group", "tags": "Tags", "status": "Status", "judge": "Judge"}
_RUNS = {"run": "Run", "workflow": "Workflow", "grade": "Grade", "score": "Score", "verdict": "Verdict", "why": "Why", "gates": "Gates that fail"}
_SPENT = {"retries": "Retries", "tokens": "Tokens", "cost_usd": "Cost, USD"}
_TIMED = {"duration_ms": "Duration, ms", **_SPENT}
_STEPS = {"name": "Step", "status": "Status", "agent": "Agent", "critical": "Critical", "model": "Model", "tier": "Tier", **_TIMED, "scores": "Scores"}
_COUNTS = {"steps": "Steps", "succeeded": "Succeeded", "failed": "Failed", "skipped": "Skipped", "success_rate": "Success rate", **_TIMED}
_AGENTS = {"agent": "Agent", **_COUNTS, "scores": "Scores"}
_NUMERIC = frozenset({"line", "score", *_COUNTS})

Result = dict[str, Any]


class Html(str):
    """Text that is markup already. Any other string is hostile, and is escaped on its way into a tag. Text made from markup is text again."""


def tag(name: str, *children: str, **attributes: str) -> Html:
    """An element. Attribute values are escaped, and so are children unless they are `Html`; an empty attribute is left out.

    >>> tag("p", "<b>", tag("i", "x"), class_="a & b")
    '<p class="a &amp; b">&lt;b&gt;<i>x</i></p>'
    """
    shown = "".join([f' {key.rstrip("_").replace("_", "-")}="{_safe(str(value))}"' for key, value in attributes.items() if value])
    return Html(f"<{name}{shown}>{join(children)}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Parts one after the other, each escaped unless it is `Html`."""
    return Html("".join([_safe(part) for part in parts]))


def _safe(text: str) -> str:
    return text if isinstance(text, Html) else escape(text.translate(_UNSEEN))


def say(value: Any, absent: str = "not stated") -> str:
    """A value of a result as a person reads it.

    >>> say(0.70), say({"passed": 98, "total": 100}), say({"slo_good": 8}), say([True, "x"]), say(None)
    ('0.7', '98 of 100', 'slo_good 8', 'yes, x', '<span class="absent">not stated</span>')
    """
    if value in (None, "", [], (), {}):
        return tag("span", absent, class_="absent")
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and value.keys() == {"passed", "total"}:
        return join([say(value["passed"]), " of ", say(value["total"])])
    if isinstance(value, dict):
        value = [join([f"{key} ", say(item)]) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return join(part for index, item in enumerate(value) for part in (", " if index else "", say(item)))
    return number_text(value) if exact.is_number(value) else "no finite number"


def points(value: Any, absent: str = "no score") -> str:
    """A score on 0..100 with 2 decimals, half-up as everywhere.

    >>> points(90), points(12.345), points(None)
    ('90.00', '12.35', 'no score')
    """
    return f"{exact.shown(exact.scaled(value, 2), 2):.2f}" if exact.is_number(value) else absent


def _share(value: Any, whole: int = 1) -> float:
    """Where a value lies between 0 and the whole, in percent. For drawing only."""
    return min(100.0, max(0.0, 100 * float(value) / whole)) if exact.is_number(value) and whole > 0 else 0.0


def _percent(value: float) -> str:
    return f"{value:.3f}%"


def _anchor(at: float) -> str:
    return "start" if at < 6 else "end" if at > 94 else "middle"


def _signed(verdict: Any) -> Html:
    """A verdict as a sign and a word, never as a colour alone. One that is unknown or missing looks bad, not good."""
    word = str(verdict or "not stated")
    sign = _SIGNS.get(word, "✗")
    return tag("span", tag("span", sign, aria_hidden="true", class_="sign"), f" {word}", class_={"✓": "good", "✗": "bad"}.get(sign, "open"))


def _badge(letter: Any, *more: str) -> Html:
    return tag("span", tag("b", say(letter, "no grade")), *more, class_=f"badge grade-{letter if letter in LETTERS else 'other'}")


def _passed(run: Result) -> Html:
    return _signed("passed" if run.get("passed") is True else "not passed")


# --- blocks -------------------------------------------------------------------------------------------------------------------------------


def _table(caption: str, columns: Mapping[str, str], rows: Iterable[Sequence[str]], *, kind: str) -> Html:
    """A table whose rows begin with their header. A `stack` folds into cards on a phone, which loses the roles unless they are said; a `wide` one scrolls."""
    kinds = ["n" if key in _NUMERIC else "" for key in columns]
    names = list(columns.values())
    heads = [tag("th", name, scope="col", role="columnheader", class_=of) for name, of in zip(names, kinds, strict=True)]
    lines = []
    for row in rows:
        cells = [tag("td", cell, role="cell", class_=of, data_label=name) for cell, name, of in zip(row[1:], names[1:], kinds[1:], strict=True)]
        lines.append(tag("tr", tag("th", row[0], scope="row", role="rowheader"), *cells, role="row"))
    head = tag("thead", tag("tr", *heads, role="row"), role="rowgroup")
    table = tag("table", tag("caption", caption), head, tag("tbody", *lines, role="rowgroup"), role="table", class_=kind)
    return tag("div", table, role="region", aria_label=caption, tabindex="0", class_="scroll") if kind == "wide" else table


def _facts(pairs: Iterable[tuple[str, str]], *, kind: str = "facts") -> Html:
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_=kind)


def _fields(record: Result, labels: Mapping[str, str], absent: str = "not stated") -> list[tuple[str, str]]:
    return [(label, say(record.get(key), absent)) for key, label in labels.items()]


def _list(title: str, sentences: Sequence[Any]) -> Html:
    return join([tag("h4", title), tag("ul", *(tag("li", say(sentence)) for sentence in sentences)) if sentences else tag("p", say(None, "none"))])


def _block(title: str, *parts: str) -> Html:
    return tag("section", tag("h3", title), *parts)


# --- the head of the page -----------------------------------------------------------------------------------------------------------------


def _head(runs: Sequence[Result], title: str, subtitle: str, faults: Sequence[Result]) -> Html:
    passed = sum(run.get("passed") is True for run in runs)
    counts = [("passed", passed, "good"), ("not passed", len(runs) - passed, "bad"), *([("could not be read", len(faults), "bad")] if faults else [])]
    figures = [tag("li", tag("b", str(count)), f" {word}", class_=kind if count else "") for word, count, kind in counts]
    parts = [tag("h1", title), *([tag("p", subtitle, class_="subtitle")] if subtitle else [])]
    parts += [tag("ul", *figures, class_="counts", aria_label="Runs by verdict")]
    if not runs:
        return tag("header", *parts, tag("p", "No run was graded, so none passed.", class_="verdict"))
    versions = {key: list(dict.fromkeys(run.get(key) for run in runs)) for key in _SYSTEMS}
    return tag("header", *parts, _letters(runs), _facts(_fields(versions, _SYSTEMS)))


def _letters(runs: Sequence[Result]) -> Html:
    """How many runs have each letter. A letter that nobody has is shown too, where the policy has it."""
    counts = Counter(run.get("grade") for run in runs)
    order = dict.fromkeys([band.get("grade") for run in runs for band in run.get("bands") or ()] + list(counts))
    badges = (tag("li", _badge(letter, " ", tag("span", str(counts[letter])))) for letter in order)
    return tag("ul", *badges, class_="letters", aria_label="Runs by letter")


def _faults(faults: Sequence[Result]) -> Html:
    columns = {"file": "File", "line": "Line", "message": "What is wrong"}
    rows = [[value for _, value in _fields(fault, columns)] for fault in faults]
    return tag("section", tag("h2", "Could not be read"), _table("These inputs are not graded.", columns, rows, kind="stack"), id="faults")


def _all_runs(runs: Sequence[Result]) -> Html:
    rows = []
    for number, run in enumerate(runs, 1):
        link, grade = tag("a", say(run.get("run_id")), href=f"#run-{number}"), _badge(run.get("grade"))
        rows.append([link, _workflow(run), grade, points(run.get("weighted_score")), _passed(run), _because(run), _failed_gates(run)])
    return tag("section", tag("h2", "All runs"), _table("What did not pass comes first.", _RUNS, rows, kind="stack runs"), id="runs")


def _workflow(run: Result) -> str:
    workflow = run.get("workflow")
    if not workflow:
        return say(None, "none, a bare scorecard")
    version = tag("small", " version ", say(workflow.get("version")))
    return join([say(workflow.get("id")), version, " ", tag("small", say(workflow.get("family"), "no family"), class_="under")])


def _because(run: Result) -> str:
    """The verdict sentence without its first half, which the columns beside it already say."""
    sentence = str(next(iter(run.get("explanation") or ()), ""))
    return sentence.partition(": ")[2] or sentence or say(run.get("reason"), "no reason is stated")


def _failed_gates(run: Result) -> str:
    failed = run.get("hard_gate_failures")
    if not failed:
        return say(None, "none")
    more = [tag("small", f"and {len(failed) - 3} more")] if len(failed) > 3 else []
    return join([*(tag("code", say(name), class_="under") for name in failed[:3]), *more])


# --- one run ------------------------------------------------------------------------------------------------------------------------------


def _run(run: Result, number: int) -> Html:
    name = f"run-{number}"
    heading = tag("h2", tag("span", say(run.get("run_id"))), " ", _badge(run.get("grade")), id=f"{name}-name")
    verdict = tag("p", say(next(iter(run.get("explanation") or ()), None), "No verdict is stated."), class_="verdict")
    figures = [("Verdict", _passed(run)), ("Score", points(run.get("weighted_score"))), ("Threshold", points(run.get("pass_threshold"), "not stated"))]
    figures += [("By score alone", say(run.get("provisional_grade"))), ("Adjusted for sample size", points(run.get("weighted_score_adjusted")))]
    blocks = [_facts(figures, kind="figures"), _scale(run), _gates(run), _criteria(run), _why(run), *_parts(run), _about(run)]
    back = tag("p", tag("a", "All runs", href="#runs"), class_="back")
    return tag("article", heading, verdict, *blocks, back, id=name, aria_labelledby=f"{name}-name", class_="run")


def _scale(run: Result) -> Html:
    """The bands from 0 to 100, the threshold and the score among them."""
    bands = sorted((band for band in run.get("bands") or () if exact.is_number(band.get("min"))), key=lambda band: _share(band["min"], 100))
    if not bands or not exact.is_number(run.get("weighted_score")):
        return Html("")
    edges = [_share(band["min"], 100) for band in bands] + [100.0]
    drawn, words = [], []
    for band, low, high in zip(bands, edges, edges[1:], strict=False):
        own = "own" if band.get("grade") == run.get("provisional_grade") else ""
        drawn.append(tag("rect", x=_percent(low), y="18", width=_percent(high - low), height="22", class_=f"band {own}".strip()))
        words.append(tag("text", say(band.get("grade")), x=_percent((low + high) / 2), y="33", text_anchor="middle", class_=own))
        words.append(tag("text", say(band["min"]), x=_percent(low), y="54", text_anchor=_anchor(low), class_="edge"))
    score = _share(run["weighted_score"], 100)
    for kind, value in (("limit", run.get("pass_threshold")), ("score", run["weighted_score"])):
        at = _percent(_share(value, 100))
        drawn += [tag("line", x1=at, x2=at, y1="14", y2="44", class_=kind)] if exact.is_number(value) else []
    words.append(tag("text", points(run["weighted_score"]), x=_percent(score), y="10", text_anchor=_anchor(score), class_="at"))
    said = f"The score {points(run['weighted_score'])} on a scale from 0 to 100, threshold {points(run.get('pass_threshold'), 'not stated')}."
    caption = tag("figcaption", "Bands by score. The dashed line is the threshold.")
    return tag("figure", tag("svg", *drawn, *words, role="img", aria_label=said, class_="scale"), caption)


def _gates(run: Result) -> Html:
    order = ["fail", "undetermined", "pass"]
    gates = sorted((run.get("hard_gates") or {}).items(), key=lambda gate: order.index(gate[1].get("status")) if gate[1].get("status") in order else 0)
    rows = [[tag("code", name), _signed(gate.get("status")), say(gate.get("reason"), "no reason is stated")] for name, gate in gates]
    table = _table("An undetermined gate counts as failed.", {"gate": "Gate", "verdict": "Verdict", "reason": "Reason"}, rows, kind="stack gates")
    return _block("Gates", table if rows else tag("p", "No hard gate was asked of this run."))


def _criteria(run: Result) -> Html:
    criteria = run.get("criteria") or ()
    best = max((_share(criterion.get("maximum")) for criterion in criteria), default=0.0)
    rows = [_criterion(criterion, best) for criterion in criteria]
    layers = [(_LAYERS.get(layer, layer), points(value, "no criterion")) for layer, value in (run.get("layers") or {}).items()]
    hint = tag("p", "A bar is as long as the points it could bring. The filled part was earned; the upright mark is the floor.", class_="hint")
    return _block("Criteria", hint, tag("ol", *rows, class_="criteria"), tag("h4", "Points by layer"), _facts(layers))


def _criterion(item: Result, best: float) -> Html:
    name, label, params = item.get("name"), item.get("label"), item.get("params")
    earned, most = points(item.get("contribution")), points(item.get("maximum"))
    title = [tag("b", say(label or name)), *([" ", tag("code", say(name))] if label and label != name else [])]
    raw = say(item["raw_score"]) if item.get("raw_score") is not None else join(["none, so it counts as 0: ", say(item.get("missing"), "no reason is stated")])
    formula = join([say(item.get("formula_id")), *([" (", say(params), ")"] if params else [])])
    facts = [*_fields(item, {"norm": "Norm"}), ("Raw score", raw), ("Formula", formula), *_fields(item, {"weight": "Weight"}), ("Floor", _floor(item))]
    facts += _fields(item, {"role": "Role", "layer": "Layer", "n": "Samples", "adjusted_norm": "Adjusted norm"}, "none")
    head = tag("p", tag("span", *title), " ", tag("span", tag("b", earned), f" of {most} points", class_="earned"), class_="name")
    return tag("li", head, _bar(item, f"{earned} of {most} points", 100 * _share(item.get("maximum")) / best if best else 0.0), _facts(facts))


def _floor(item: Result) -> str:
    floor = item.get("critical_floor")
    if not floor:
        return say(None, "none")
    raw = [", raw ", say(floor["raw"])] if floor.get("raw") is not None else []
    origin = say(floor.get("from"))
    return join([_signed("missed" if item.get("floor_failed") else "holds"), " ", say(floor.get("norm")), *raw, ", ", _ORIGINS.get(origin, origin)])


def _bar(item: Result, said: str, track: float) -> Html:
    """One bar. All bars of a run share a scale, so that a lost point is as wide in one as in another."""
    failed, floor = bool(item.get("floor_failed")), item.get("critical_floor")
    filled = _percent(track * _share(item.get("norm")) / 100)
    drawn = [tag("rect", width=_percent(track), height="12", y="4", class_="track")]
    drawn.append(tag("rect", width=filled, height="12", y="4", class_="missed" if failed else "fill"))
    if floor:
        at = track * _share(floor.get("norm")) / 100
        drawn.append(tag("line", x1=_percent(at), x2=_percent(at), y1="0", y2="20", class_="floor"))
        drawn.append(tag("text", "floor ", say(floor.get("norm")), x=_percent(at), y="33", text_anchor=_anchor(at)))
        said += f", floor {say(floor.get('norm'))} {'missed' if failed else 'holds'}"
    return tag("svg", *drawn, role="img", aria_label=said, class_="bar floored" if floor else "bar")


def _why(run: Result) -> Html:
    placement = run.get("placement") or {}
    opened = " with the gates open" if run.get("hard_gate_failures") else ""
    moves = [("Points to the next band", points(placement.get("margin_to_next_grade"), "no band is higher"))]
    moves += [("Points to lose this band", points(placement.get("to_lose_grade"), "no band is lower"))]
    moves += [(f"Smallest gain{opened}", _move(placement.get("smallest_gain"), "no change of one criterion gains a letter"))]
    moves += [(f"Smallest loss{opened}", _move(placement.get("smallest_loss"), "no change of one criterion loses a letter"))]
    fired = [found for found in run.get("findings") or () if found.get("fired")]
    rules = [join([tag("code", say(found.get("rule"))), " ", say(found.get("text"))]) for found in fired]
    sentences = _list("In sentences", list(run.get("explanation") or ())[1:])
    lists = [_list("Placement", placement.get("notes") or ()), _list("Rules that fired", rules), _list("Notes", run.get("notes") or ())]
    return _block("Why", sentences, tag("h4", "What would move it"), _facts(moves, kind="facts pairs"), *lists)


def _move(move: Result | None, absent: str) -> str:
    if not move:
        return say(None, absent)
    raw = [" (raw ", say(move["needed_raw"]), ")"] if move.get("needed_raw") is not None else []
    return join([say(move.get("criterion")), " from ", say(move.get("norm")), " to ", say(move.get("needed_norm")), *raw, " gives ", say(move.get("grade"))])


def _parts(run: Result) -> list[Html]:
    found = []
    for title, key, columns in (("Steps", "step_scores", _STEPS), ("Agents", "agent_scores", _AGENTS)):
        rows = [[_cell(part, column) for column in columns] for part in run.get(key) or ()]
        found.append(_block(title, _table(title, columns, rows, kind="wide") if rows else tag("p", say(None, "none reported"))))
    return found


def _cell(part: Result, key: str) -> str:
    value, unreported = part.get(key), part.get("unreported") or {}
    if key == "status":
        return _signed(value)
    if key == "scores":
        return join(tag("span", f"{name}: ", say(score), class_="under") for name, score in (value or {}).items()) or say(None, "none")
    return say(value, f"not reported by {say(unreported[key])} of its steps" if key in unreported else "not reported")


def _about(run: Result) -> Html:
    selection, dataset, spent = run.get("selection") or {}, run.get("dataset") or {}, run.get("operations") or {}
    version = [tag("small", " version ", say(dataset.get("version")))] if dataset else []
    about = [("Workflow", _workflow(run)), ("Dataset", join([say(dataset.get("id")), *version]))]
    about += _fields(run, _ABOUT, "none")
    for kind in ("profile", "rubric"):
        why = (selection.get(kind) or {}).get("why")
        about.append((kind.capitalize(), join([say(run.get(kind), "none"), *([", ", say(why)] if why else [])])))
    about += _fields(spent, {"latency_ms": "Latency, ms", **_SPENT}, "not reported")
    about += _fields(run, _SYSTEMS)
    digests = [(f"Digest of the {name}", tag("code", say(value))) for name, value in (run.get("digests") or {}).items()]
    return _block("About this run", _facts(about), _facts(digests, kind="facts small"))


def render(results: Sequence[Mapping[str, Any]], *, title: str, subtitle: str = "", faults: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page for a list of results, as they stand in `results[]` of `assay.grades/1`; `faults` are the inputs that could not be read.

    Runs that did not pass come first, otherwise the order is kept. Same results, same bytes.

    >>> "No run was graded, so none passed." in render([], title="Nightly")
    True
    """
    runs: list[Result] = msgspec.to_builtins(list(results), builtin_types=(Decimal,), enc_hook=str)
    unread: list[Result] = msgspec.to_builtins(list(faults), builtin_types=(Decimal,), enc_hook=str)
    runs.sort(key=lambda run: run.get("passed") is True)
    body = [_head(runs, title, subtitle, unread), *([_faults(unread)] if unread else [])]
    body += [_all_runs(runs), *(_run(run, number) for number, run in enumerate(runs, 1))] if runs else []
    return page(title, join(body))


def page(title: str, body: Html) -> str:
    """A page that stands alone."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"{tag('title', title)}\n<style>\n{_CSS.read_text('utf-8')}</style>\n</head>\n<body>\n{tag('main', body)}\n</body>\n</html>\n"
    )
