"""Draws a chart as SVG or PNG with vl-convert (the extra `charts`), without browser or network.

The renderer is 84 MB and slow to start, so it is loaded with the first picture and pictures are
kept by the digest of their specification. It lays text out with its own font, so that the same
specification gives the same bytes on every machine with the same version of it. Colours follow the
reader's scheme: the renderer writes them as attributes, and a style sheet overrides those on a dark
ground.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from html import escape
from importlib.util import find_spec
from typing import Any

from assay.errors import UsageError
from assay.files.atomic import atomic_write, make_folder
from assay.installing import install_command, install_hint
from assay.views.charts import DARK, Chart

MISSING = (
    "Charts need an extra that is not installed:"
    f" {install_command('charts')}. The tables have the same numbers."
)
VERSION = "5.21"
"""The version of Vega-Lite, pinned so that a newer renderer doesn't change a picture."""
KEPT = 256
_ROOT = re.compile(r"<svg [^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\" viewBox=\"([^\"]+)\">")
_NAMESPACE = "http://www.w3.org/2000/svg"

_lock = threading.Lock()
_kept: OrderedDict[str, bytes] = OrderedDict()


def available() -> bool:
    """Whether pictures can be drawn here."""
    return find_spec("vl_convert") is not None


def digest(chart: Chart) -> str:
    """The identity of a picture: two charts with the same digest look and read the same. Fit for an
    ETag.
    """
    text = json.dumps(
        [VERSION, chart.title, chart.sentence, chart.spec], sort_keys=True, separators=(",", ":")
    )
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _dark_rules() -> str:
    """The style sheet that turns the light colours of a chart into dark ones."""
    rules = [
        f'[{key}="{light}"]{{{key}:{dark}}}'
        for light, dark in DARK.items()
        for key in ("fill", "stroke")
    ]
    return f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"


def svg(chart: Chart) -> bytes:
    """The chart as a separate file, which follows the reader's colour scheme. It must have a
    `spec`.
    """
    source = _cached("svg", chart, lambda: _rendered(chart)).decode()
    head = _ROOT.search(source)
    if head is None:
        raise RuntimeError("the renderer wrote an SVG with another head than it used to")
    width, height, box = head.groups()
    body = source[head.end() : source.rindex("</svg>")]
    return (
        f'<svg xmlns="{_NAMESPACE}" role="img" aria-label="{escape(chart.sentence)}"'
        f' width="{width}" height="{height}" viewBox="{box}">'
        f"<title>{escape(chart.title)}</title><style>{_dark_rules()}</style>{body}</svg>\n"
    ).encode()


def png(chart: Chart) -> bytes:
    """The chart as a picture with a light ground, to be pasted anywhere."""
    return _cached("png", chart, lambda: _png(chart))


def write_charts(charts: Sequence[Chart], folder: str) -> list[str]:
    """Every chart as `NAME.svg` and `NAME.png` in a folder, which is made where it is missing; the
    paths that were written. One without a picture is left out.

    A name is the chart's own; two charts of the same name are kept apart by a number.
    """
    _renderer()
    make_folder(folder)
    written, seen = [], Counter[str]()
    for chart in charts:
        if chart.spec is None:
            continue
        seen[chart.name] += 1
        name = chart.name if seen[chart.name] == 1 else f"{chart.name}-{seen[chart.name]}"
        for ending, data in (("svg", svg(chart)), ("png", png(chart))):
            path = os.path.join(folder, f"{name}.{ending}")
            with atomic_write(path) as stream:
                stream.write(data)
            written.append(path)
    return written


def _cached(kind: str, chart: Chart, make: Callable[[], bytes]) -> bytes:
    if chart.spec is None:
        raise UsageError("CLI-001", f"there is nothing to draw: {chart.sentence}")
    key = f"{kind} {digest(chart)}"
    with _lock:  # the renderer has one engine: two threads would only wait for each other inside it
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
        _kept[key] = make()
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
        return _kept[key]


def _renderer() -> Any:
    """vl-convert; or how to install it."""
    if not available():
        raise UsageError(
            "CLI-001",
            "drawing needs the package vl-convert-python.",
            fix=f"Run: {install_hint('charts')}",
        )
    import vl_convert

    return vl_convert


def _rendered(chart: Chart) -> bytes:
    made: str = _renderer().vegalite_to_svg(
        json.dumps(chart.spec), vl_version=VERSION, allowed_base_urls=[]
    )
    return made.encode()


def _png(chart: Chart) -> bytes:
    spec = {**(chart.spec or {}), "background": "#ffffff"}
    made: bytes = _renderer().vegalite_to_png(
        json.dumps(spec), vl_version=VERSION, scale=2.0, allowed_base_urls=[]
    )
    return made
