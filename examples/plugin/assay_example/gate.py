"""A gate: no output contains a text that somebody forgot to fill in."""

from __future__ import annotations

from typing import Any

from assay.plugins import Gate, GateResult


def rule(run: Any, params: Any) -> GateResult:
    """Whether every output is free of the words."""
    for name, value in run.outputs.items():
        for word in params["words"]:
            if word.lower() in str(value).lower():
                return GateResult(False, f"the output '{name}' contains '{word}'")
    return GateResult(True, "no output contains a placeholder")


NO_PLACEHOLDER = Gate(
    id="assay_example.no_placeholder",
    title="No output contains a placeholder",
    group="profile",
    evidence=(("outputs",),),
    rule=rule,
    needs=("outputs",),  # without outputs the gate is undetermined, which counts as failed
    params={"words": ["TODO", "lorem ipsum"]},
    source="assay-plugin-example",
)
