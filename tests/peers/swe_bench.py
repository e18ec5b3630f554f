"""SWE-bench: logs of our own, graded by the harness's own functions, with its run report.

No container runs: the harness reads logs that a test run would have left.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

MODEL, RUN = "acme/fixer-1", "ours"
START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
FIRST, SECOND = "tests/test_a.py::test_fixed", "tests/test_a.py::test_kept"
INSTANCES: dict[str, tuple[str | None, str | None]] = {
    # patch, and what the tests printed; None for no log
    "acme__solved-1": ("diff", f"{START}\nPASSED {FIRST}\nPASSED {SECOND}\n{END}\n"),
    "acme__half-2": ("diff", f"{START}\nFAILED {FIRST} - assert\nPASSED {SECOND}\n{END}\n"),
    "acme__broke-3": ("diff", f"{START}\nPASSED {FIRST}\nFAILED {SECOND} - no\n{END}\n"),
    "acme__unapplied-4": ("diff", ">>>>> Patch Apply Failed\n"),
    "acme__empty-5": ("", None),
    "acme__crashed-6": ("diff", None),
    "acme__absent-7": (None, None),
}


def make(folder: Path) -> list[dict[str, Any]]:
    from swebench.harness.grading import get_eval_report
    from swebench.harness.reporting import make_run_report
    from swebench.types import TestSpec

    os.chdir(folder)
    predictions, files = {}, []
    for name, (patch, log) in INSTANCES.items():
        if patch is None:
            continue
        prediction = {"instance_id": name, "model_name_or_path": MODEL, "model_patch": patch}
        predictions[name] = prediction
        if log is None:
            continue
        place = Path("logs/run_evaluation") / RUN / MODEL.replace("/", "__") / name
        place.mkdir(parents=True)
        (place / "test_output.txt").write_text(log)
        spec = TestSpec(
            instance_id=name,
            image="",
            eval_script_list=[],
            repo="acme/acme",
            version="1",
            FAIL_TO_PASS=[FIRST],
            PASS_TO_PASS=[SECOND],
            log_parser="parse_log_pytest",
            eval_type="pass_and_fail",
        )
        report = get_eval_report(
            spec, prediction, str(place / "test_output.txt"), include_tests_status=True
        )
        (place / "report.json").write_text(json.dumps(report, indent=4))
        files += [str(place / "report.json"), str(place / "test_output.txt")]
    dataset = [{"instance_id": name} for name in INSTANCES]
    path = make_run_report(predictions, dataset, RUN)
    printed = json.loads(path.read_text())
    totals = {"samples": printed["total_instances"], "passed": printed["resolved_instances"]}
    tool = {"version": version("swebench")}
    return [
        {**tool, "files": [path.name], "what": "run report", "totals": totals},
        {
            **tool,
            "files": [path.name, *files],
            "what": "run report, instance reports and logs",
            "totals": totals,
        },
        {
            **tool,
            "files": [name for name in files if name.endswith(".json")],
            "what": "instance reports",
            "totals": {"samples": 4, "passed": printed["resolved_instances"]},
        },
    ]
