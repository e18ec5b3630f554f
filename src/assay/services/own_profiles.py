"""The profiles that evaluations and decisions bring with them, because no shelf has them: those
made from another tool's metrics, those that a team's scorers added to, and those of a project's
own files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from assay.canon import pretty
from assay.files.atomic import write_file
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile, make_plan
from assay.services.evaluations import list_evaluations
from assay.store.drafts import Draft, Item, draft
from assay.store.ledger import Ledger

OWN_PROFILE = "assay.own-profile/1"
"""The schema of a record with the profile of a decision on files."""


def own_profile_draft(profile: Mapping[str, Any], *, author: str | None = None) -> Draft:
    """The profile that a decision was made with, for its replay."""
    return draft({"schema": OWN_PROFILE, "profile": profile}, kind="event", author=author)


def shelf_with_own(shelf: Shelf, ledger: Ledger, item: Item, folder: str, *, project: str) -> Shelf:
    """A shelf that also has the profiles of a project's evaluations, and those of the decision that
    `item` is or was graded for, written to `folder`. Shipped profiles and those of a library take
    precedence. Of several with one name, the one that `item` names by digest counts.
    """
    place = os.path.join(folder, "profiles")
    os.makedirs(place, exist_ok=True)
    known = {entry.id for entry in shelf.entries("profiles")}
    wanted = _profile_digest(item.tree())
    for digest, tree in _own(ledger, item, project):
        profile = load_profile(Document(tree, digest))
        path = os.path.join(place, f"{profile.id}.yaml")
        if profile.id in known or "/" in profile.id:
            continue
        if not os.path.exists(path) or make_plan(profile, why="").digests["profile"] == wanted:
            write_file(path, pretty(profile))
    return Shelf(*shelf.roots[:-1], folder)


def _profile_digest(tree: Mapping[str, Any]) -> str | None:
    """The digest of the profile that made a grade or an evaluation."""
    source = tree if "digests" in tree else (tree.get("settings") or {}).get("scored_by") or {}
    digest: str | None = (source.get("digests") or {}).get("profile")
    return digest


def _own(ledger: Ledger, item: Item, project: str) -> Iterator[tuple[str, Any]]:
    for stored in list_evaluations(ledger, project=project):
        settings = stored.evaluation.settings
        if settings.get("own_profile") is not None:
            yield stored.digest, settings["own_profile"]["profile"]
        if settings.get("project_profile") is not None:
            yield stored.digest, settings["project_profile"]
    links = ledger.links_of_many([item.digest], project=project)
    decisions = [link.source for link in links if link.relation == "decides" and link.source]
    linked = ledger.links_of_many([item.digest, *decisions], project=project)
    evidence = ledger.get_many(
        [link.source for link in linked if link.relation == "evidence_of" and link.source],
        project=project,
    )
    for one in evidence.values():
        if one.schema == OWN_PROFILE and one.body is not None:
            yield one.digest, one.tree()["profile"]
