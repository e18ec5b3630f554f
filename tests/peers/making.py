"""Runs one peer tool in the environment of the peers: `python -P making.py TOOL FOLDER`.

`tests/peers/TOOL.py` has a function `make(folder)`, which lets the real tool write result files
into the folder, on data of our own, without network or keys. It returns one dict for each import:

    {"version": "1.2.3",            # of the tool
     "files": ["log.eval"],         # in the folder
     "totals": {"samples": 4, "passed": 3, "accuracy": 0.75}}

`totals` are what the tool itself printed: the number of its samples, how many of them passed, and
the mean of a metric by its label in the tool. `"importer"` names the importer where it isn't TOOL,
`"what"` says what is special about the files. A tool that can't run here returns the reason.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from pathlib import Path


def main() -> None:
    tool, folder = sys.argv[1], Path(sys.argv[2])
    # by its path and under another name: `inspect_ai.py` must not hide the package `inspect_ai`
    spec = importlib.util.spec_from_file_location(
        f"peer_{tool}", Path(__file__).with_name(f"{tool}.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # HELM imports a scenario by the name of its module
    with contextlib.redirect_stdout(sys.stderr):
        spec.loader.exec_module(module)
        made = module.make(folder)
    (folder / "made.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main()
