"""Where families and plugins come from: the tables that fill the registries of lower layers.

Families are listed in `assay.family`. A plugin is an entry point of an installed package, in one of
the `GROUPS`. Its entry is named `package.name`, so it can't shadow a
shipped one, now or in a later version. Nothing is loaded before its name is asked for.

Everything a plugin needs can be imported from here: `from assay.plugins import Measure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.family import shipped
from assay.registry import home_value

if TYPE_CHECKING:
    from assay.errors import FormulaError as FormulaError
    from assay.errors import InputError as InputError
    from assay.exact import Ratio as Ratio
    from assay.family import Family as Family
    from assay.family import Verb as Verb
    from assay.files.inputs import open_input as open_input
    from assay.formulas.formula import Formula as Formula
    from assay.importers.importer import Importer as Importer
    from assay.importers.importer import NameVersion as NameVersion
    from assay.importers.samples import ResultOrigin as ResultOrigin
    from assay.importers.samples import file_id as file_id
    from assay.importers.samples import sample_run as sample_run
    from assay.judging.endpoints import JudgeApi as JudgeApi
    from assay.judging.endpoints import JudgeRequest as JudgeRequest
    from assay.judging.endpoints import Reply as Reply
    from assay.running.adapters import Adapter as Adapter
    from assay.running.adapters import AdapterSpec as AdapterSpec
    from assay.running.adapters import read_spec as read_spec
    from assay.scoring.gates import Gate as Gate
    from assay.scoring.gates import GateResult as GateResult
    from assay.scoring.metrics.measure import Measure as Measure
    from assay.scoring.metrics.measure import Undetermined as Undetermined
    from assay.tracing.failures import CallFailed as CallFailed
    from assay.views.exporters import Exporter as Exporter
    from assay.views.exporters import Format as Format

FAMILIES = {
    "assay.library.workflow:FAMILY": ("workflow",),
    **{home: (name,) for family in shipped() for name, home in family.systems.items()},
    "assay.library.release:FAMILY": ("release",),
}
"""Where the rules of each family are, in the order in which they are shown."""

TYPES = {
    "Adapter": "assay.running.adapters:Adapter",
    "AdapterSpec": "assay.running.adapters:AdapterSpec",
    "CallFailed": "assay.tracing.failures:CallFailed",
    "Family": "assay.family:Family",
    "Exporter": "assay.views.exporters:Exporter",
    "Format": "assay.views.exporters:Format",
    "Formula": "assay.formulas.formula:Formula",
    "FormulaError": "assay.errors:FormulaError",
    "Gate": "assay.scoring.gates:Gate",
    "GateResult": "assay.scoring.gates:GateResult",
    "Importer": "assay.importers.importer:Importer",
    "InputError": "assay.errors:InputError",
    "JudgeApi": "assay.judging.endpoints:JudgeApi",
    "JudgeRequest": "assay.judging.endpoints:JudgeRequest",
    "Measure": "assay.scoring.metrics.measure:Measure",
    "NameVersion": "assay.importers.importer:NameVersion",
    "Ratio": "assay.exact:Ratio",
    "Reply": "assay.judging.endpoints:Reply",
    "Verb": "assay.family:Verb",
    "Undetermined": "assay.scoring.metrics.measure:Undetermined",
    "file_id": "assay.importers.samples:file_id",
    "open_input": "assay.files.inputs:open_input",
    "read_spec": "assay.running.adapters:read_spec",
    "sample_run": "assay.importers.samples:sample_run",
    "ResultOrigin": "assay.importers.samples:ResultOrigin",
}
"""What a plugin is made of, and where it is defined."""

GROUPS = {
    "assay.formulas": "Formula",
    "assay.gates": "Gate",
    "assay.measures": "Measure",
    "assay.importers": "Importer",
    "assay.judges": "JudgeApi",
    "assay.exporters": "Exporter",
    "assay.adapters": "",
    "assay.families": "Family",
}
"""The groups of entry points, and the type of each group's entries; an adapter's entry is a
function that makes one.
"""


_FUNCTIONS = {
    "fingerprint": "assay.plugins.points:fingerprint",
    "installed": "assay.plugins.points:installed",
    "outsider": "assay.plugins.loading:outsider",
}
"""The functions that the registries call."""


def __getattr__(name: str) -> object:
    home = TYPES.get(name) or _FUNCTIONS.get(name)
    if home is None:
        raise AttributeError(f"module 'assay.plugins' has no attribute {name!r}")
    return home_value(home)
