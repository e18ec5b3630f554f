"""`--save-map`: what the columns of a table are, written into the `map:` of assay.yaml."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping

from assay.cli.ledger import ledger_folder
from assay.errors import UsageError
from assay.files.atomic import write_file
from assay.files.upwards import CONFIG_FILE, find_config
from assay.running.config import read_config

_BLOCK = re.compile(r"^map:.*\n?(?:(?:[ \t].*|[ \t]*)(?:\n|\Z))*?(?=^\S|\Z)", re.MULTILINE)


def map_lines(mapping: Mapping[str, str]) -> list[str]:
    """The lines of the block.

    >>> map_lines({"id": "ticket", "score:quality": "stars:1..5"})
    ['map:', '  id: "ticket"', '  "score:quality": "stars:1..5"']
    """
    keys = {key: key if key.isidentifier() else json.dumps(key) for key in mapping}
    return ["map:", *(f"  {keys[key]}: {json.dumps(text)}" for key, text in mapping.items())]


def save_map(options: argparse.Namespace, mapping: Mapping[str, str]) -> str:
    """Write the block into the configuration, in the place of the one before, and give the path.
    Nothing else in the file changes.
    """
    if not mapping:
        raise UsageError(
            "CLI-001",
            "there is no mapping to save: the file is not a table of columns, and --map"
            " sets no scale.",
            fix="Leave out --save-map.",
        )
    config = getattr(options, "config", None)
    path = _config_path() if config is None else config.path
    before = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            before = stream.read()
    block = "\n".join(map_lines(mapping)) + "\n"
    if _BLOCK.search(before):
        after = _BLOCK.sub(lambda _: block, before, count=1)
    else:
        after = before + ("" if not before or before.endswith("\n") else "\n") + block
    write_file(path, after.encode())
    read_config(path)
    return path


def _config_path() -> str:
    """Where to write a configuration that was not read: over an existing one, else next to the
    ledger. In any other folder it would start a new project with another ledger.
    """
    return find_config() or os.path.normpath(os.path.join(ledger_folder(), "..", CONFIG_FILE))
