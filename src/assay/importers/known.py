"""All importers, by the name that `--from` takes, and which of them reads a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.importers.head import Head
    from assay.importers.importer import Importer

KNOWN: Registry[Importer] = Registry(
    "importer",
    homes={
        "assay.importers.autoevals:IMPORTER": ("autoevals",),
        "assay.importers.junit:IMPORTER": ("junit",),
        "assay.importers.deepeval:IMPORTER": ("deepeval",),
        "assay.importers.inspect_ai:IMPORTER": ("inspect_ai",),
        "assay.importers.otlp:IMPORTER": ("otlp",),
        "assay.importers.own_runs:IMPORTER": ("assay",),
        "assay.importers.promptfoo:IMPORTER": ("promptfoo",),
        "assay.importers.pydantic_evals:IMPORTER": ("pydantic-evals",),
        "assay.importers.bfcl:IMPORTER": ("bfcl",),
        "assay.importers.helm:IMPORTER": ("helm",),
        "assay.importers.human_eval:IMPORTER": ("human_eval",),
        "assay.importers.langfuse:IMPORTER": ("langfuse",),
        "assay.importers.mlflow:IMPORTER": ("mlflow",),
        "assay.importers.phoenix:IMPORTER": ("phoenix",),
        "assay.importers.ragas:IMPORTER": ("ragas",),
        "assay.importers.table:IMPORTER": ("table",),
        "assay.importers.lm_eval:IMPORTER": ("lm_eval",),
        "assay.importers.openai_evals:IMPORTER": ("openai_evals",),
        "assay.importers.swe_bench:IMPORTER": ("swe_bench",),
    },
    group="assay.importers",
)


def fitting(head: Head, mapping: Mapping[str, str] | None = None) -> list[Importer]:
    """The importers that recognise a file by its beginning. A table of results is taken where no
    other tool wrote it; `mapping` says what its columns are.
    """
    importers = [KNOWN[name] for name in KNOWN if KNOWN[name].fits(head)]
    if importers:
        return importers
    from assay.importers.table import takes  # it reads tables; everybody else only lists names

    return [KNOWN["table"]] if takes(head, mapping or {}) else []
