"""A chart on a page that stands alone: its title, its sentence, the picture within the page, and
the table behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.views import drawing
from assay.views.markup import Html, tag

if TYPE_CHECKING:
    from assay.views.charts import Chart


class Pictures:
    """Draws the charts of one page. Every picture has ids of its own; without the renderer tables
    stand where pictures would, and one line says why.
    """

    def __init__(self, *, draw: bool = True) -> None:
        self._asked = draw
        self._can = draw and drawing.available()
        self._count = 0
        self._said = False

    @property
    def can_draw(self) -> bool:
        """Whether charts become pictures."""
        return self._can

    @property
    def styles(self) -> str:
        """What the page's style sheet needs for them."""
        return drawing.dark_rules("svg.chart") + "\n" if self._count else ""

    def figure(self, chart: Chart, *, opened: bool = False) -> Html:
        """The chart as a figure; its table is folded unless it is to be `opened`, because the
        picture cuts what it says.
        """
        caption = tag("figcaption", tag("b", chart.title), " ", tag("span", chart.sentence))
        if chart.spec is not None and self._can:
            self._count += 1
            drawn = Html(drawing.inline(chart, f"c{self._count}-"))
            picture = tag(
                "div", drawn, role="group", aria_label=chart.title, tabindex="0", class_="picture"
            )
            return tag(
                "figure",
                caption,
                picture,
                tag(
                    "details", tag("summary", "Table"), table(chart), open="open" if opened else ""
                ),
                class_="chart",
            )
        parts = [caption]
        if chart.spec is not None and self._asked and not self._said:
            self._said = True
            parts.append(tag("p", drawing.MISSING, class_="hint"))
        if len(chart.columns) > 1:
            parts.append(tag("details", tag("summary", "Table"), table(chart), open="open"))
        return tag("figure", *parts, class_="chart")


def table(chart: Chart) -> Html:
    """The table behind a chart."""
    numeric = [
        "n" if place and all(_is_number(row[place]) for row in chart.rows) else ""
        for place in range(len(chart.columns))
    ]
    heads = [
        tag("th", name, scope="col", class_=kind)
        for name, kind in zip(chart.columns, numeric, strict=True)
    ]
    lines = [
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(
                tag("td", cell, class_=kind)
                for cell, kind in zip(row[1:], numeric[1:], strict=True)
            ),
        )
        for row in chart.rows
    ]
    made = tag(
        "table",
        tag("caption", chart.title),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *lines),
        class_="wide",
    )
    return tag(
        "div",
        made,
        role="region",
        aria_label=f"{chart.title}: the table",
        tabindex="0",
        class_="scroll",
    )


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(",", "").replace(".", "", 1).removesuffix("%").isdigit()
