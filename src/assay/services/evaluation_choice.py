"""What evaluations are graded by when they are compared: the profile, the rubric and the policy
they were stored with.

Both the command line and the pages choose here, so that neither accepts what the other refuses. A
profile made from another tool's metrics is always the baseline's: a candidate that lacks one of
them loses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import Document
from assay.formulas import NOISE
from assay.importers.column_map import ERROR, SCORE, column_of
from assay.importers.metric_names import plain_name
from assay.registry import is_path

if TYPE_CHECKING:
    from assay.scoring.profile import Profile


CHOSEN = (("profile", None), ("rubric", None), ("policy", "workflow"))
"""What an evaluation is graded by, each with its default."""
FLAGS = {"profile": "--profile", "rubric": "--rubric", "policy": "--grading-policy"}
"""The options that name each of them."""
MAP = "map"
"""The key for the mapping of an import in the settings of an evaluation, and in a baseline."""
OWN = "own.yaml"
"""The name of a profile that evaluations bring with them."""


class ToolProfile(NamedTuple):
    """A profile that was made from the metrics in one tool's results."""

    name: str
    tool: str
    profile: Mapping[str, Any]
    columns: Mapping[str, str] = MappingProxyType({})
    """The columns or metrics that were read as each thing, where that is known."""

    def facts(self) -> dict[str, Any]:
        """What the record of a baseline keeps of it."""
        columns = {MAP: dict(self.columns)} if self.columns else {}
        return {"made_profile": self.profile, **columns}


class ComparedInput(NamedTuple):
    """An input of a comparison, and the profile made for it; None if none was."""

    name: str
    made: ToolProfile | None


class EvaluationChoice(NamedTuple):
    """What to grade evaluations by."""

    policy: str
    profile: str | None
    rubric: str | None
    own: Mapping[str, Any] | None = None
    """The profile itself, if no shelf has it; `profile` is then OWN."""
    made: ToolProfile | None = None
    """The profile that was made from metrics; None for any other."""


def made_profile(
    name: str, profile: Mapping[str, Any] | None, columns: Any = None
) -> ToolProfile | None:
    """The profile as a `ToolProfile`; None if it was not made from metrics. `columns` is the
    mapping of the import, if it was stored.
    """
    if not profile or not profile.get("made_from"):
        return None
    listed = columns.items() if isinstance(columns, Mapping) else ()
    known = {str(key): text for key, text in listed if isinstance(text, str)}
    return ToolProfile(name, str(profile["profile"]).partition("-")[2], profile, known)


def own_profile(settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The profile that an evaluation brings with it."""
    return (settings.get("own_profile") or {}).get("profile")


def baseline_settings(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a baseline of another tool's results was evaluated with, from its record; None for any
    other.
    """
    made = (record or {}).get("made_profile")
    return {"own_profile": {"profile": made}, MAP: (record or {}).get(MAP)} if made else None


def one_made_profile(
    inputs: Sequence[ComparedInput], rest: Sequence[ComparedInput] = ()
) -> ToolProfile | None:
    """The profile made from the metrics of `inputs`, by which `rest` are graded as well; None if
    none was made from metrics. Results of two tools, or of one tool and of runs, can't be compared.
    """
    both = (*inputs, *rest)
    known = [compared.made for compared in both if compared.made is not None]
    if not known:
        return None
    other = next((compared.name for compared in both if compared.made is None), None)
    if other is not None:
        raise InputError(
            "REL-002",
            f"{known[0].name} comes from {known[0].tool}, and {other} does not.",
            fix="Compare results of one tool, or give a profile for all of them with --profile.",
        )
    tools = {profile.tool: profile.name for profile in reversed(known)}
    if len(tools) > 1:
        listed = ", ".join(f"{name} comes from {tool}" for tool, name in tools.items())
        raise InputError(
            "REL-002",
            f"results of two tools can't be compared: {listed}.",
            fix="Compare results of one tool.",
        )
    chosen = known[0]
    for compared in rest:
        if compared.made is not None:
            _refuse_other_columns(compared.made, chosen)
    if any(
        compared.made is not None and compared.made.profile != chosen.profile for compared in inputs
    ):
        raise UsageError(
            "CLI-001",
            "the results have different metrics, and each makes its own profile.",
            fix="Give them one by one, or choose the profile with --profile.",
        )
    return chosen


def _refuse_other_columns(candidate: ToolProfile, baseline: ToolProfile) -> None:
    """Refuse a candidate whose scores or verdicts come from other columns than the baseline's, one
    that reads no failures from a column in which the baseline's rows report them, and one without
    a status: an error column may be missing where nothing failed.
    """
    columns = {key: column_of(text).name for key, text in candidate.columns.items()}
    for key, text in baseline.columns.items():
        before, now = column_of(text).name, columns.get(key)
        is_value = key in ("passed", "status") or key.startswith(SCORE)
        if not before or not (is_value or key == "error" or key.startswith(ERROR)):
            continue
        if now is None and key == "status":
            where = "missing"
        elif now is None:
            other = next((other for other, column in columns.items() if column == before), None)
            where = "" if is_value or other is None else f"read as {other}"
        elif not now:
            where = "left out"
        else:
            is_other = is_value and plain_name(now) != plain_name(before)
            where = f"the column {now!r}" if is_other else ""
        if where:
            raise InputError(
                "REL-002",
                f"{key} is the column {before!r} in the baseline, and {where} in {candidate.name}.",
                fix="Import both with the same --map. A column that was only renamed needs its"
                " earlier name in the file.",
            )


def refuse_unknown_scales(
    baseline: ToolProfile, option: str = "--map score:NAME=METRIC:LOW..HIGH", *, again: bool = True
) -> None:
    """Refuse to decide on only some of the baseline's metrics: one that can't be graded may have
    got worse.
    """
    names = baseline.profile.get("not_graded") or []
    if not names:
        return
    state = "Import it again and state" if again else "State"
    raise NotEnoughEvidence(
        "SCO-010",
        f"{', '.join(names)} can't be graded, because the scale or the better end isn't known, and"
        " a decision without it could miss that it got worse.",
        where=baseline.name,
        fix=f"{state} the scale, the best value last, with {option}, or"
        " give a profile for both sides with --profile P."
        if option
        else "Give a profile for both sides with --profile P.",
    )


def refuse_other_scale(candidate: str, documents: Iterable[Any], made: ToolProfile) -> None:
    """Refuse a candidate with values beyond the scale of the baseline: a 5 of 5 would count as a
    perfect share.
    """
    names = [item["id"] for item in made.profile["criteria"]]
    for document in documents:
        scores = document.tree.get("scores") or {} if isinstance(document, Document) else {}
        for name in names:
            raw = (scores.get(name) or {}).get("raw")
            if raw is not None and not -NOISE <= raw <= 1 + NOISE:
                raise InputError(
                    "REL-002",
                    f"{name} is {raw} in {candidate}, and from 0 to 1 in the baseline.",
                    fix="Evaluate both sides with the same metrics.",
                )


def one_own_profile(settings: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The profile that scorers and assertions added to, with its rubric, if all evaluations have
    the same one; None otherwise. Another check makes sure that every run has what they added.
    """
    owns = [setting.get("own_profile") for setting in settings]
    own = owns[0] if owns else None
    return None if own is None or any(other != own for other in owns) else own


def one_setting(
    name: str,
    default: str | None,
    stored: Mapping[str, Mapping[str, Any]],
    *,
    flag: str,
) -> str | None:
    """The setting that all evaluations were graded by; `stored` has the settings of each by its
    name. An error if they differ.
    """
    chosen = {label: settings.get(name) or default for label, settings in stored.items()}
    value, *others = sorted(set(chosen.values()), key=str)
    if others:
        by = ", ".join(f"{name} by {value or 'default'}" for name, value in chosen.items())
        raise UsageError(
            "CLI-001",
            f"the {name} that graded these evaluations is not the same: {by}.",
            fix=f"Choose one for all of them with {flag}.",
        )
    if value != default and is_path(str(value)):
        raise UsageError(
            "CLI-001",
            f"{next(iter(stored))} was graded by a {name} from a file, {value}.",
            fix=f"Give that file with {flag}.",
        )
    return value


def covers(profile: Profile, wanted: Profile) -> bool:
    """Whether a profile has all gates, criteria and terms for judges of another one, unchanged; it
    may have more gates and criteria.
    """
    gates, needed_gates = (
        {digest((ref.id, ref.params, ref.verdict)) for ref in side.gates}
        for side in (profile, wanted)
    )
    criteria, needed = ({digest(item) for item in side.criteria} for side in (profile, wanted))
    return gates >= needed_gates and criteria >= needed and profile.judge == wanted.judge


def refuse_unknown_bar(
    name: str, settings: Mapping[str, Any], *, given: Collection[str], fix: str
) -> None:
    """Refuse a candidate that chose its own rules if the baseline is runs without a record of what
    graded them: the candidate never sets the bar.
    """
    own = settings.get("own_profile")
    kinds = [
        kind
        for kind, default in CHOSEN
        if kind not in given
        and ((settings.get(kind) or default) != default or (kind == "profile" and own))
    ]
    if kinds:
        raise InputError(
            "REL-002",
            f"{name} chose its {' and '.join(kinds)}, and the baseline is runs without a record of"
            " what graded them: the candidate would set the bar.",
            fix=fix,
        )
