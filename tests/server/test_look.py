"""The look: one palette for pages, reports and charts, and the files that pages load."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import sha256
from itertools import combinations

from assay.server.pages.layout import FILES, STATIC
from assay.views import blocks, palette, pieces, render
from checkout import ROOT

SHEET = (render.TEMPLATES / "pages.css").read_text("utf-8")
VISION = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What linear red, green and blue become (Machado, Oliveira and Fernandes, 2009)."""
APART = 15.0
"""Of two colours that must not be taken for each other, in CIE Lab; 2.3 can just be told apart."""


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    red, green, blue = (
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, linear(colour), strict=True))))
        for row in VISION[vision]
    )
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in (
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
            0.2126 * red + 0.7152 * green + 0.0722 * blue,
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def contrast(one: str, other: str) -> float:
    bright = sorted(
        sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))
        for colour in (one, other)
    )
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def test_the_style_sheet_has_the_colours_of_the_palette_and_no_others() -> None:
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", found))
        for found in re.findall(r":root \{(.*?)\}", SHEET, re.DOTALL)
    )
    grades = {f"grade-{name.lower()}": colour for name, colour in palette.GRADES.items()}
    assert light == {**palette.LIGHT, **grades}
    assert dark == palette.DARK
    for name, ink in palette.GRADE_INK.items():
        rule = f".letter b.grade-{name} {{ background: var(--grade-{name.lower()}); color: {ink};"
        assert rule in SHEET
    rest = re.sub(r":root \{.*?\}", "", SHEET, flags=re.DOTALL)
    for name in ("ink", "quiet", "rule", "ground", "track"):
        for key in ("fill", "stroke"):  # a chart that Vega drew follows the scheme
            turned = f'.drawn [{key}="{palette.LIGHT[name]}"] {{ {key}: var(--{name}); }}'
            assert turned in rest
            rest = rest.replace(turned, "")
    found = {colour.lower() for colour in re.findall(r"#[0-9a-fA-F]{3,8}\b", rest)}
    assert found <= {palette.BLACK, palette.WHITE}


def test_letters_and_verdicts_stay_apart_for_every_kind_of_colour_vision() -> None:
    verdicts = [[scheme[name] for name in ("good", "bad", "open")] for scheme in SCHEMES]
    for colours in (list(palette.GRADES.values()), *verdicts):
        for one, other in combinations(colours, 2):
            for vision in VISION:
                pairs = zip(lab(one, vision), lab(other, vision), strict=True)
                apart = sum((a - b) ** 2 for a, b in pairs) ** 0.5
                assert apart >= APART, (one, other, vision, apart)


def test_ink_is_readable_on_every_ground_in_both_schemes() -> None:
    for scheme in SCHEMES:
        for ink in ("ink", "quiet", "link", "good", "bad", "open"):
            grounds = ["ground", "card", "raised"]
            grounds += [f"{ink}-ground"] if f"{ink}-ground" in scheme else []
            for ground in grounds:
                assert contrast(scheme[ink], scheme[ground]) >= 4.5, (ink, ground)
        assert min(contrast(scheme["line"], scheme[g]) for g in ("ground", "card", "raised")) >= 3
        for ground in ("good-ground", "bad-ground", "open-ground"):
            assert contrast(scheme["ink"], scheme[ground]) >= 4.5
    for name, colour in palette.GRADES.items():
        assert contrast(palette.GRADE_INK[name], colour) >= 4.5, name


SCHEMES = (palette.LIGHT, palette.DARK)

PINNED = {
    "htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "vega-interpreter.min.js": "ee191cf04168e0c043214cea7c4e5ef80e908daa0e757c19c8061df5f898cf89",
    "vega-lite.min.js": "cd32314b1e76e7d879dc9f0534b62be714df03554486c7ca2381abfd0a92d2f4",
    "vega.min.js": "463f3db6a40b20e9747b4ed38f37ed0add508838f9141b1cf8366784b07b30c8",
}
"""What is vendored, by its digest: a file that differs was not reviewed."""


def test_vendored_files_are_those_that_were_reviewed_and_have_a_licence() -> None:
    scripts = {path.name: path for path in (STATIC / "vendor").iterdir() if path.suffix == ".js"}
    assert {name: sha256(scripts[name].read_bytes()).hexdigest() for name in scripts} == PINNED
    for name in scripts:
        licence = STATIC / "vendor" / f"{name.partition('.')[0]}.LICENSE.txt"
        assert "Permission" in licence.read_text("utf-8") or "Redistribution" in licence.read_text()
        assert name in FILES


def test_the_package_takes_along_what_pages_load() -> None:
    listed = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '"assay.server" = ["static/*", "static/vendor/*"]' in listed


def test_a_time_reads_as_how_long_ago_on_a_page_and_as_the_moment_in_a_file() -> None:
    at = pieces.moment("2026-11-15T10:00:00Z")
    now = datetime(2026, 11, 15, 10, 3, tzinfo=UTC)
    page = render.html("base.html", now=now, title="", parts=[at])
    file = render.html("base.html", title="", parts=[at])
    exact = "2026-11-15 10:00:00 UTC"
    opening = '<time datetime="2026-11-15T10:00:00Z"'
    assert f'{opening} title="{exact}">3 min ago</time>' in page
    assert f"{opening}>{exact}</time>" in file


def test_bars_chips_and_regions_need_no_style_attribute_and_escape_what_they_show() -> None:
    hostile = '"><script>'
    shown = blocks.Region(
        "rows",
        [
            pieces.meter(0.25, floor=0.7),
            blocks.Chips(hostile, [blocks.Chip(hostile, "/?a=1", 1200, chosen=True, key="x")]),
            pieces.badge(hostile, "bad"),
            blocks.Table(
                "Rows", (blocks.Column(hostile, "n", "/?sort=a", "ascending"), "B"), [["1", "2"]]
            ),
        ],
    ).__html__()
    assert "<script" not in shown
    assert "style=" not in shown
    assert 'class="meter w-5 f-14 bad"' in shown
    assert 'aria-sort="ascending"><a class="sort" id="sort-1" href="/?sort=a">' in shown
    assert '<span class="count">1,200</span>' in shown
    assert shown.count('aria-current="true"') == 1
