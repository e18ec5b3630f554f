"""A repair bot: an issue comes in, a patch goes out.

It uses no model, so it runs anywhere: each keyword has a fixed edit. Replace `edit` with a call to
your model.
"""

import difflib
from pathlib import Path

TREE = Path(__file__).with_name("tree")
EDITS = {
    "slug": ("slugs.py", '"[^a-z0-9]", "-", title.lower())', '"[^a-z0-9]+", "-", title.lower()).strip("-")'),
    "split_bill": (
        "money.py",
        "    return [cents // people] * people",
        "    share, rest = divmod(cents, people)\n    return [share + 1] * rest + [share] * (people - rest)",
    ),
    "is_leap": ("dates.py", "year % 4 == 0", "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"),
    "shorten": ("texts.py", 'text[:width] + "…"', 'text if len(text) <= width else text[:width] + "…"'),
}


def edit(issue):
    """The file to change, the text to replace, and what to put there."""
    return next(fix for word, fix in EDITS.items() if word in issue)


def patch(name, old, new):
    """The change as a unified diff."""
    before = (TREE / name).read_text()
    after = before.replace(old, new)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(lines)


def repair(inputs):
    """Repair one issue. `inputs` contains only what workflow.yaml lists under `inputs`."""
    return {"patch": patch(*edit(inputs["issue"]))}
