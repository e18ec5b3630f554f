"""Code repair: patches, judged by tests in the sandbox."""

from __future__ import annotations

from assay.family import Family

_VERBS = "assay.families.repair.verbs"

FAMILY = Family(
    "repair",
    "Patches, judged by tests in the sandbox",
    actions={
        "measure": {
            "solutions": (
                _VERBS,
                "run untrusted solutions against their tests in the sandbox, with pass@k",
            ),
            "patch": (
                _VERBS,
                "check whether patches apply cleanly, and how similar they are to a reference",
            ),
            "repair": (
                _VERBS,
                "judge a patch by tests in the sandbox, each run without it and with it",
            ),
        }
    },
    demo="assay.families.repair.demo:part",
    steps={"repository": "assay.families.repair.repair:STEP"},
)
