"""Write the list of versions into a documentation site: `python docs/versions.py SITE VERSION`.

`make site` builds the checked-out version into `site/`, and `make site VERSION=TAG` that of a tag
into `site/TAG`. Each of them links to its `versions.html`, which lists them all. Tools such as mike
publish to a branch for a web server; this site must work from a folder.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Versions of the Assay documentation</title>
<style>body {{ font-family: system-ui, sans-serif; line-height: 1.6; margin: 2rem auto; max-width: 40rem; padding: 0 1rem }}</style>
<h1>Versions of this documentation</h1>
<ul>
{rows}
</ul>
<p>To add the documentation of a tag, check out the repository and run <code>make site VERSION=TAG</code>.</p>
</html>
"""


def write_versions(site: Path, version: str) -> None:
    """Write `versions.html` for the version in `site` and for each version in a folder of it."""
    tags = sorted(path.parents[1].name for path in site.glob("*/search/search_index.json"))
    for folder, up in [(site, ""), *((site / tag, "../") for tag in tags)]:
        links = [(f"{up}index.html", version), *((f"{up}{tag}/index.html", tag) for tag in tags)]
        rows = "\n".join(
            f'<li><a href="{html.escape(to)}">{html.escape(name)}</a></li>' for to, name in links
        )
        (folder / "versions.html").write_text(PAGE.format(rows=rows), encoding="utf-8")


if __name__ == "__main__":
    write_versions(Path(sys.argv[1]), sys.argv[2])
