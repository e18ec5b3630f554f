"""The profiles that evaluations bring with them, because no shelf has them: those made from another
tool's metrics, and those that a team's scorers added to.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from assay.archive.evaluations import list_evaluations
from assay.files.atomic import write_file
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile
from assay.views.documents import pretty

if TYPE_CHECKING:
    from assay.store.ledger import Ledger


def shelf_with_own(shelf: Shelf, ledger: Ledger, folder: str, *, project: str) -> Shelf:
    """A shelf that also has the profiles of a project's evaluations, written to `folder`. What is
    shipped or in a library comes first by its own name: theirs all end in a digest.
    """
    place = os.path.join(folder, "profiles")
    os.makedirs(place, exist_ok=True)
    for stored in list_evaluations(ledger, project=project):
        own = stored.evaluation.settings.get("own_profile")
        if own is None:
            continue
        profile = load_profile(Document(own["profile"], stored.digest))
        path = os.path.join(place, f"{profile.id}.yaml")
        if "+" in str(profile.version) and "/" not in profile.id and not os.path.exists(path):
            write_file(path, pretty(profile))
    return Shelf(*shelf.roots[:-1], folder)
