"""Result files of other tools in tests: import them, and break them."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError
from assay.files.json_files import Document
from assay.importers.head import HEAD, Head
from assay.importers.importer import Wanted
from assay.importers.known import KNOWN, fitting
from assay.importers.tally import ImportTally
from assay.records.reading import read_run
from checkout import ROOT
from examples import repeats

RECORDED = Path(__file__).parent / "fixtures"
SHARED = ROOT.parent / "shared" / "data" / "peer_results"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data/peer_results")
NOTHING = Wanted()
ODD = (None, True, -1, 10**400, "", "x", [], {}, [None], {"": None}, "\ud83d", 0.5, "NaN")


def takers(path: Path | str) -> list[str]:
    """The importers that take a file for theirs."""
    with open(path, "rb") as stream:
        return [one.name for one in fitting(Head(str(path), stream.read(HEAD)))]


def imported(
    name: str, *paths: Path | str, wanted: Wanted = NOTHING
) -> tuple[list[dict[str, Any]], ImportTally]:
    """The runs of files, each of them valid, and the account of the import."""
    tally = ImportTally()
    runs = list(KNOWN[name].read([str(path) for path in paths], wanted, tally))
    for run in runs:
        read_run(Document(run, name))
    assert len({run["run_id"] for run in runs}) == len(runs)
    return runs, tally


def survives(name: str, path: Path | str) -> bool:
    """Whether a file comes in; anything but a refusal in our words is a failure of the test."""
    try:
        imported(name, path)
    except AssayError:
        return False
    return True


def broken(tree: Any, count: int, *, seed: int = 7) -> Iterator[Any]:
    """Copies of a tree, each with a part dropped, or replaced by something odd, or doubled."""
    chance = random.Random(seed)
    places = list(_places(tree))
    for _ in range(repeats(count // 3, count)):
        made = copy.deepcopy(tree)
        *above, last = chance.choice(places)
        parent = made
        for key in above:
            parent = parent[key]
        what = chance.randrange(4)
        if what == 0:
            del parent[last]
        elif what == 1 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        else:
            parent[last] = chance.choice(ODD)
        yield made


def _places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in items:
        yield (*above, key)
        yield from _places(value, (*above, key))
