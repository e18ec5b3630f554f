"""The palette: every colour of a page, a report and a chart, by its meaning.

`templates/pages.css` has the same values as custom properties and a test compares the two, so
a letter has one colour everywhere. Letters and verdicts stay apart for people with any kind of
colour vision, and ink is readable on its ground in both schemes; tests measure both. Colour is
never the only sign: a verdict has a sign and a word, and a letter is a letter.
"""

from __future__ import annotations

LIGHT = {
    "ground": "#f6f7f9",
    "card": "#ffffff",
    "raised": "#eceff3",
    "ink": "#171b22",
    "quiet": "#535d6c",
    "rule": "#d9dee6",
    "line": "#7d8796",
    "track": "#dde2ea",
    "link": "#0b5c94",
    "good": "#00694b",
    "bad": "#a80f3a",
    "open": "#735a00",
    "good-ground": "#e0f3ea",
    "bad-ground": "#fdebee",
    "open-ground": "#faf0d2",
}
DARK = {
    "ground": "#12151a",
    "card": "#191d24",
    "raised": "#222831",
    "ink": "#e6e9ee",
    "quiet": "#a3acb9",
    "rule": "#303742",
    "line": "#727d8c",
    "track": "#353d49",
    "link": "#7cc0f0",
    "good": "#4fd1a5",
    "bad": "#ff9a73",
    "open": "#e8c04e",
    "good-ground": "#10291f",
    "bad-ground": "#371d14",
    "open-ground": "#2e2612",
}
"""The same names on a dark ground."""

BLUE, SKY, GREY, ORANGE, RED, GREEN, PINK = (
    "#0072b2",
    "#56b4e9",
    "#8c8c8c",
    "#e69f00",
    "#d55e00",
    "#009e73",
    "#cc79a7",
)
"""Okabe and Ito's colours, for marks; each can be seen on a light and on a dark ground."""
BLACK, WHITE = "#111111", "#ffffff"
"""Text on a coloured mark, which is the same in both schemes."""
GRADES = {"A": BLUE, "B": SKY, "C": GREY, "D": ORANGE, "F": RED}
"""The colour of a letter; one that a policy made up has none."""
GRADE_INK = {"A": WHITE, "B": BLACK, "C": BLACK, "D": BLACK, "F": BLACK}
