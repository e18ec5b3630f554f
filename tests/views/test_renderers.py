"""Every block is known to every renderer: a page, plain text, a terminal with tables, Markdown."""

from __future__ import annotations

import io
import pkgutil
import re
from collections.abc import Callable, Iterator
from html import unescape
from importlib import import_module
from types import SimpleNamespace

import pytest

from assay import views
from assay.cli import terminal
from assay.views import blocks, compare, sample, sample_table, values
from assay.views.blocks import Block, Control, Part, drawn
from assay.views.charts import Chart
from assay.views.markdown import view
from assay.views.text import text_view

LINE = sample_table.SampleLine(
    "faq-1",
    *(0, 1, "faq@7", "How do I pay?", "By card", "By invoice", "F", "F", "12.00", False),
    [sample_table.SampleBar("0.12", 2, True)],
    "correctness misses its floor",
)
CHART = Chart("pass", "Pass rate", "It fell to 62%.", None, ("Version", "Rate"), [("v7", "62%")])
INNER: list[Part] = [blocks.Paragraph("an inner paragraph"), "an inner text"]
ENTRY = blocks.ListEntry("claim 4", [*INNER, blocks.Facts([("support", "passage 2")])])
EXAMPLES: list[tuple[Block, tuple[str, ...]]] = [
    (blocks.Section("Rules", INNER, hint="each of them"), ("Rules", "each of them", "inner text")),
    (blocks.Group(INNER), ("an inner paragraph", "an inner text")),
    (blocks.Details("3 more", INNER), ("3 more", "an inner paragraph", "an inner text")),
    (blocks.Paragraph("It holds."), ("It holds.",)),
    (blocks.Sentences(["One.", "Two."]), ("One.", "Two.")),
    (blocks.Note("Not graded", "bad"), ("Not graded",)),
    (blocks.Empty("No runs yet.", "assay run", "See docs."), ("No runs yet.", "assay run", "See")),
    (blocks.Verbatim("line 1\nline 2"), ("line 1", "line 2")),
    (blocks.Decided("✗ reject", "release@1", "2 fail", "Not released", "95% sure"), ("95% sure",)),
    (blocks.Facts([("cost", "$3.10")]), ("cost", "$3.10")),
    (blocks.Table("Runs", ("Name", "Score"), [("r-1", "70.00")]), ("r-1", "70.00")),
    (blocks.Figure(CHART), ("Pass rate", "It fell to 62%.", "v7", "62%")),
    (blocks.Region("list", INNER), ("an inner paragraph", "an inner text")),
    (blocks.Polled("live", "/live", INNER), ("an inner paragraph", "an inner text")),
    (blocks.Heading("Gates"), ("Gates",)),
    (blocks.Entries([ENTRY], "Claims"), ("claim 4", "inner paragraph", "support", "passage 2")),
    (values.DocumentText("How do I pay?"), ("How do I pay?",)),
    (values.Fields([("city", INNER)]), ("city", "an inner paragraph", "an inner text")),
    (values.Items([INNER]), ("an inner paragraph", "an inner text")),
    (values.ChatMessage("assistant", INNER), ("assistant", "an inner paragraph")),
    (values.Picture("/runs/1/a.png", "a receipt"), ("a receipt",)),
    (sample.Strip(["F", "12.00 of 100"]), ("F", "12.00 of 100")),
    (
        sample_table.SampleTable([[LINE]], [("correct", "correctness")], True, True, 1),
        ("faq-1", "faq@7", "How do I pay?", "By invoice", "12.00", "0.12", "misses its floor"),
    ),
    (blocks.Contents([("gates", "Gates")]), ("Gates",)),
    (blocks.Filters("/runs", [blocks.Field("q", "Name")], {}), ("Name",)),
    (blocks.Chips("Show", [blocks.Chip("Failed", "/runs", 3)]), ("Failed",)),
    (blocks.Pager(older="/runs?2", summary="50 runs"), ("50 runs",)),
    (blocks.Button("Cancel", "/cancel", {"token": "t"}), ("Cancel",)),
    (sample.Walk(home="/evaluations/1", name="faq"), ("faq",)),
    (compare.CompareForm([("e-1", "faq 1")], [], ["e-1"], ["release"]), ("faq 1", "release")),
    (sample_table.Search("/e", "Search in texts", "", [], "/e"), ("Search in texts",)),
    (sample_table.NumberedPager("1 to 50 of 60 samples", following="/e?2"), ("of 60 samples",)),
]


def kinds(of: type[Block]) -> Iterator[type[Block]]:
    for kind in of.__subclasses__():
        yield from ([] if kind is Control else [kind])
        yield from kinds(kind)


def html(block: Block) -> str:
    return unescape(re.sub("<[^>]*>", " ", block.__html__()) + block.__html__())


def on_a_terminal(block: Block) -> str:
    screen = io.StringIO()
    screen.isatty = lambda: True  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "sys", SimpleNamespace(stdout=screen))
        patch.delenv("CI", raising=False)
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "240")
        terminal.show([block])
    return screen.getvalue()


def markdown(block: Block) -> str:
    return view("a view", [block]).removeprefix("## Assay: a view\n")


ELSEWHERE: dict[str, Callable[[Block], str]] = {
    "text": lambda block: text_view([block]),
    "terminal": on_a_terminal,
    "markdown": markdown,
}


def test_there_is_an_example_of_every_block() -> None:
    for module in pkgutil.walk_packages(views.__path__, "assay.views."):
        import_module(module.name)
    assert {kind for kind in kinds(Block) if kind.__module__.startswith("assay.")} == {
        type(block) for block, _ in EXAMPLES
    }


@pytest.mark.parametrize(("block", "texts"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_every_renderer_shows_what_a_block_says(block: Block, texts: tuple[str, ...]) -> None:
    for text in texts:
        assert text in html(block)
    for renderer, draw in ELSEWHERE.items():
        if renderer == "terminal":
            pytest.importorskip("rich", reason="no tables on a terminal here")
        made = draw(block)
        if isinstance(block, Control):
            assert made.strip() == "", renderer
        else:
            assert [text for text in texts if text not in made] == [], renderer


def test_a_block_without_a_way_to_be_drawn_is_an_error_in_every_renderer() -> None:
    class Clock(Block, frozen=True):
        time: str

    for draw in (html, *ELSEWHERE.values()):
        with pytest.raises((KeyError, NotImplementedError)):
            draw(Clock("12:00"))
    with pytest.raises(NotImplementedError, match="Clock"):
        list(drawn([Clock("12:00")], {}))
