"""Results -> one HTML page that a release manager can open, print, mail and keep.

The page stands alone: no script, no font, no request; its content policy forbids them all. It
decides nothing: every number on it stands in the results it was given; beside that, runs are
counted and what they lost is subtracted. Markup is made in `markup` and nowhere else, because
whatever is in a result is hostile.

A page is bounded, so that a stream of any length needs no memory and a browser opens it at once:
beyond its rows, sections and pictures it says how many more there are, and what holds them. What
did not pass never gives way to what did.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.views.charts import Chart, summaries
from assay.views.figures import Pictures
from assay.views.markup import (
    Html,
    badge,
    facts,
    fields,
    join,
    page,
    passed,
    points,
    rate,
    say,
    table,
    tag,
)
from assay.views.run_section import (
    SYSTEMS,
    Result,
    because,
    charts_of,
    failed_gates,
    run_section,
    workflow_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Html", "Report", "join", "page", "points", "render", "say", "tag"]

ROWS = 10_000
"""Rows of the table at the most."""
SECTIONS = 100
"""Runs with a section of their own at the most."""
PICTURES = 20
"""Failed runs whose charts are drawn; a picture costs about 50 ms."""
FEW = 5
"""Of so few runs those that passed are drawn too."""
PLAIN = 500
"""Rows above which the table is cut into parts that a browser lays out as they come into view."""
PART = 250
CAUSES = 3
_RUNS = {
    "run": "Run",
    "workflow": "Workflow",
    "grade": "Grade",
    "score": "Score",
    "verdict": "Verdict",
    "why": "Why",
    "gates": "Gates that fail",
}
_ROW = (
    *(
        "run_id",
        "passed",
        "grade",
        "weighted_score",
        "pass_threshold",
        "reason",
        "hard_gate_failures",
        "floor_failures",
        "workflow",
        "bands",
    ),
    *SYSTEMS,
)
_encode = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


class _Kept(NamedTuple):
    """The runs of one verdict: a row of each, and the whole of the first."""

    rows: list[Result]
    whole: list[Result | bytes]


class Report:
    """Grades as a page, taken one by one: a format of `assay.views.documents`."""

    def __init__(
        self,
        *,
        title: str = "Assay report",
        subtitle: str = "",
        pictures: int = PICTURES,
        rows: int = ROWS,
        sections: int = SECTIONS,
    ) -> None:
        self.title, self.subtitle = title, subtitle
        self._pictures, self._rows, self._sections = pictures, rows, sections
        self._failed, self._passed = _Kept([], []), _Kept([], [])
        self._letters: Counter[Any] = Counter()
        self._causes: Counter[str] = Counter()
        self._gates: Counter[str] = Counter()
        self._bins = summaries.score_bins([])
        self._systems: dict[str, dict[Any, None]] = {key: {} for key in SYSTEMS}
        self._bands: dict[str, list[Result]] = {}
        self._thresholds: dict[str, Any] = {}
        self.graded = self.passed = 0

    # --- one by one ---

    def head(self) -> bytes:
        """Nothing: the verdict comes first, and is not known yet."""
        return b""

    def piece(self, result: Mapping[str, Any]) -> bytes:
        """A result: its row on one line, the whole of it on the next."""
        return _encode(_row(result)) + b"\n" + _encode(result)

    def joint(self) -> bytes:
        """Nothing."""
        return b""

    def onto(self, stream: IO[bytes]) -> Report:
        """Runs wait here until the verdict is known."""
        return self

    def write(self, data: bytes) -> None:
        """Take a piece."""
        if data:
            row, _, whole = data.partition(b"\n")
            self._take(_decode(row), whole)

    def add(self, result: Result) -> None:
        """Take a result as it is."""
        self._take(_row(result), result)

    def finish(
        self, stream: IO[bytes], faults: Sequence[dict[str, Any]], counts: dict[str, Any]
    ) -> None:
        """Write the page."""
        stream.write(self.foot(faults, counts))

    def foot(self, faults: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]) -> bytes:
        """The whole page."""
        return self.page(faults, counts).encode("utf-8", "replace")

    def _take(self, row: Result, whole: Result | bytes) -> None:
        good = row.get("passed") is True
        self.graded += 1
        self.passed += good
        self._letters[row.get("grade")] += 1
        place = summaries.bin_of(row.get("weighted_score"))
        if place is not None:
            self._bins[place]["count"] += 1
        self._gates.update(row.get("hard_gate_failures") or ())
        if not good:
            self._causes.update(_causes(row))
        for key, values in self._systems.items():
            if len(values) < 10:
                values[row.get(key)] = None
        if len(self._bands) < 2:
            self._bands[repr((row.get("policy"), row.get("bands")))] = [
                band for band in row.get("bands") or () if isinstance(band, dict)
            ]
        if len(self._thresholds) < 2:
            self._thresholds[repr(row.get("pass_threshold"))] = row.get("pass_threshold")
        kept = self._passed if good else self._failed
        if len(kept.rows) < self._rows:
            kept.rows.append(row)
        if len(kept.whole) < self._sections:
            kept.whole.append(whole)

    # --- the whole ---

    def charts(self) -> list[Chart]:
        """Every chart of the page: those of all runs, then those of each run that is drawn. A run's
        are named after its number.
        """
        found = self._summary()
        for number, run in self._drawn():
            found += [
                chart._replace(
                    name=f"run-{number}-{chart.name}", title=f"{run.get('run_id')}: {chart.title}"
                )
                for chart in charts_of(run)
            ]
        return found

    def _sectioned(self) -> list[Result]:
        """The runs with a section: those that did not pass, and after them, where there is room,
        those that did.
        """
        whole = [*self._failed.whole, *self._passed.whole][: self._sections]
        return [_decode(one) if isinstance(one, bytes) else one for one in whole]

    def _drawn(self) -> Iterator[tuple[int, Result]]:
        few = self.graded <= FEW
        for number, run in enumerate(self._sectioned()[: self._pictures], 1):
            if few or run.get("passed") is not True:
                yield number, run

    def _ordered(self) -> dict[Any, int]:
        """How many runs have each letter, in the order of the bands. A letter that nobody has is
        counted too, where the policy has it.
        """
        order = [band.get("grade") for bands in self._bands.values() for band in bands]
        return {letter: self._letters[letter] for letter in dict.fromkeys([*order, *self._letters])}

    def _summary(self) -> list[Chart]:
        if self.graded < 2:
            return []
        policies = [str(policy) for policy in self._systems["policy"]]
        # bands and threshold are drawn only where they are those of every run
        bands = next(iter(self._bands.values())) if len(self._bands) == 1 else []
        threshold = next(iter(self._thresholds.values())) if len(self._thresholds) == 1 else None
        found = [
            summaries.grade_mix(self._ordered(), ", ".join(policies)),
            summaries.score_histogram(
                self._bins,
                bands=bands,
                threshold=threshold,
                policy=policies[0] if len(policies) == 1 else "",
            ),
        ]
        return [*found, summaries.gate_failures(self._gates, self.graded)] if self._gates else found

    def page(
        self, faults: Sequence[Mapping[str, Any]] = (), counts: Mapping[str, Any] | None = None
    ) -> str:
        """The page of the runs that were taken, and of the inputs that could not be read."""
        unread: list[Result] = [dict(fault) for fault in faults]
        missed = max(len(unread), (counts or {}).get("faults") or 0)
        pictures = Pictures(draw=self._pictures > 0)
        body = [self._head(missed, counts or {}), *([_faults(unread, missed)] if unread else [])]
        if self.graded:
            charts = self._summary()
            body += (
                [
                    tag(
                        "section",
                        tag("h2", "All together"),
                        *map(pictures.figure, charts),
                        id="together",
                        class_="pair",
                    )
                ]
                if charts
                else []
            )
            drawn = {number for number, _ in self._drawn()} if pictures.can_draw else set()
            sections = [
                run_section(run, number, pictures=pictures if number in drawn else None)
                for number, run in enumerate(self._sectioned(), 1)
            ]
            body += [self._all_runs(len(sections)), *sections, *self._left_out(len(sections))]
        return page(self.title, join(body), styles=pictures.styles)

    def _head(self, unread: int, counts: Mapping[str, Any]) -> Html:
        numbers = [
            ("passed", self.passed, "good"),
            ("not passed", self.graded - self.passed, "bad"),
            *([("could not be read", unread, "bad")] if unread else []),
        ]
        figures = [
            tag("li", tag("b", f"{count:,}"), f" {word}", class_=kind if count else "")
            for word, count, kind in numbers
        ]
        parts = [
            tag("h1", self.title),
            *([tag("p", self.subtitle, class_="subtitle")] if self.subtitle else []),
            self._verdict(unread),
        ]
        parts.append(tag("ul", *figures, class_="counts", aria_label="Runs by verdict"))
        if not self.graded:
            return tag("header", *parts)
        badges = [
            tag("li", badge(letter, " ", tag("span", f"{count:,}")))
            for letter, count in self._ordered().items()
        ]
        parts.append(tag("ul", *badges, class_="letters", aria_label="Runs by letter"))
        found = counts.get("pass_rate")
        more = (
            [("Pass rate", f"{rate(found)}, n {self.graded:,}")] if isinstance(found, dict) else []
        )
        versions = {key: list(values) for key, values in self._systems.items()}
        return tag("header", *parts, facts([*more, *fields(versions, SYSTEMS)]))

    def _verdict(self, unread: int) -> Html:
        """The verdict in a sentence, and what did it most often."""
        if not self.graded:
            return tag("p", "No run was graded, so none passed.", class_="verdict")
        failed = self.graded - self.passed
        if not failed and not unread:
            word = (
                "The one run passed." if self.graded == 1 else f"All {self.graded:,} runs passed."
            )
            return tag("p", tag("strong", "Passed.", class_="good"), f" {word}", class_="verdict")
        said = (
            [f"{failed:,} of {self.graded:,} run{'s' if self.graded != 1 else ''} did not pass"]
            if failed
            else []
        )
        said += (
            [f"{unread:,} input{'s' if unread != 1 else ''} could not be read"] if unread else []
        )
        causes = [
            f"{cause} ({count:,})"
            for cause, count in sorted(self._causes.items(), key=lambda pair: (-pair[1], pair[0]))[
                :CAUSES
            ]
        ]
        why = f" Most often: {'; '.join(causes)}." if causes else ""
        return tag(
            "p",
            tag("strong", "Not passed.", class_="bad"),
            f" {' and '.join(said)}.{why}",
            class_="verdict",
        )

    def _all_runs(self, sections: int) -> Html:
        rows = [*self._failed.rows, *self._passed.rows][: self._rows]
        caption = "What did not pass comes first."
        if len(rows) <= PLAIN:
            parts = [
                table(
                    caption,
                    _RUNS,
                    [
                        _line(row, _link(row, number, sections))
                        for number, row in enumerate(rows, 1)
                    ],
                    kind="stack runs",
                )
            ]
        else:
            lines = [
                _short(row, _link(row, number, sections)) for number, row in enumerate(rows, 1)
            ]
            parts = [
                _part(lines[at : at + PART], at, len(lines)) for at in range(0, len(lines), PART)
            ]
        more = self.graded - len(rows)
        if more:
            failed = self.graded - self.passed - min(len(self._failed.rows), len(rows))
            text = (
                f"… and {more:,} more: {failed:,} not passed, {more - failed:,} passed. They are"
                " not on this page; -o grades.jsonl writes every one."
            )
            parts.append(tag("p", text, class_="hint"))
        return tag("section", tag("h2", "All runs"), *parts, id="runs")

    def _left_out(self, sections: int) -> list[Html]:
        """What has no section, and where it is."""
        more = self.graded - sections
        if more <= 0:
            return []
        failed = max(0, self.graded - self.passed - sections)
        text = (
            f"{more:,} runs have no section here: {failed:,} that did not pass and"
            f" {more - failed:,} that did. "
        )
        text += (
            "Every one is in the grades, which -o grades.jsonl writes; assay explain FILE --run ID"
            " explains one."
        )
        return [tag("section", tag("h2", "Left out"), tag("p", text), id="left-out")]


def _row(result: Mapping[str, Any]) -> Result:
    """What the table and the counts need of a result."""
    return {**{key: result.get(key) for key in _ROW}, "because": because(dict(result))}


def _causes(row: Result) -> list[str]:
    """Why a run did not pass, in the words that are counted."""
    gates, floors = row.get("hard_gate_failures") or (), row.get("floor_failures") or ()
    found = [*(f"gate {name}" for name in gates), *(f"{name} below its floor" for name in floors)]
    return found or ["score below the threshold"]


def _link(row: Result, number: int, sections: int) -> str:
    """The name of a run, which leads to its section where it has one."""
    name = say(row.get("run_id"))
    return tag("a", name, href=f"#run-{number}") if number <= sections else name


def _line(row: Result, link: str) -> list[str]:
    return [
        link,
        workflow_of(row),
        badge(row.get("grade")),
        points(row.get("weighted_score")),
        passed(row),
        row["because"],
        failed_gates(row),
    ]


def _short(row: Result, link: str) -> Html:
    """A row of a long table. It has few elements, because a browser pays for each of them; why a
    run passed is left to its verdict.
    """
    good, workflow, gates = (
        row.get("passed") is True,
        row.get("workflow"),
        row.get("hard_gate_failures") or (),
    )
    about = (
        " ".join(str(workflow.get(key) or "not stated") for key in ("id", "version", "family"))
        if isinstance(workflow, dict)
        else "a bare scorecard"
    )
    more = f" and {len(gates) - 3} more" if len(gates) > 3 else ""
    cells = [
        tag("th", link, scope="row"),
        tag("td", about),
        tag("td", say(row.get("grade"), "no grade")),
        tag("td", points(row.get("weighted_score")), class_="n"),
    ]
    cells += [
        tag("td", "✓ passed" if good else "✗ not passed", class_="good" if good else "bad"),
        tag("td", "" if good else row["because"]),
    ]
    return tag("tr", *cells, tag("td", ", ".join(map(str, gates[:3])) + more if gates else "none"))


def _part(lines: Sequence[Html], at: int, total: int) -> Html:
    """A part of a long table, which a browser lays out when it comes into view."""
    caption = f"Runs {at + 1:,} to {at + len(lines):,} of {total:,}"
    heads = tag(
        "tr",
        *(
            tag("th", name, scope="col", class_="n" if key == "score" else "")
            for key, name in _RUNS.items()
        ),
    )
    made = tag(
        "table", tag("caption", caption), tag("thead", heads), tag("tbody", *lines), class_="long"
    )
    return tag("div", made, role="region", aria_label=caption, tabindex="0", class_="scroll part")


def _faults(faults: Sequence[Result], total: int) -> Html:
    columns = {"file": "File", "line": "Line", "message": "What is wrong"}
    rows = [[value for _, value in fields(fault, columns)] for fault in faults]
    more = (
        [tag("p", f"… and {total - len(rows):,} more.", class_="hint")] if total > len(rows) else []
    )
    return tag(
        "section",
        tag("h2", "Could not be read"),
        table("These inputs are not graded.", columns, rows, kind="stack"),
        *more,
        id="faults",
    )


def render(
    results: Sequence[Mapping[str, Any]],
    *,
    title: str,
    subtitle: str = "",
    faults: Sequence[Mapping[str, Any]] = (),
    pictures: int = PICTURES,
) -> str:
    """The page for a list of results, as they stand in `results[]` of `assay.grades/1`; `faults`
    are the inputs that could not be read.

    Runs that did not pass come first, otherwise the order is kept. Same results, same bytes.
    `pictures` says of how many runs charts are drawn at the most; with 0 none is drawn at all, and
    tables stand in their place.

    >>> "No run was graded, so none passed." in render([], title="Nightly")
    True
    """
    report = Report(title=title, subtitle=subtitle, pictures=pictures)
    for result in msgspec.to_builtins(list(results), builtin_types=(Decimal,), enc_hook=str):
        report.add(result)
    return report.page(msgspec.to_builtins(list(faults), builtin_types=(Decimal,), enc_hook=str))
