"""A calibration in plain words, with intervals and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.errors import count

_NOT_RANDOM = (
    "The judge rates the labelled rows differently from the rest, or rates more of them: if they"
    " were not drawn at random, no correction is valid. Unless they are a whole set that `assay"
    " label new` drew at random, no card made from this calibration lets the judge gate."
)


def sentences(calibration: Mapping[str, Any]) -> list[str]:
    """The calibration in plain words, with intervals and counts."""
    total = calibration["n_labelled"] + calibration["n_unlabelled"]
    copies, unread = calibration.get("copies"), calibration["unparsable"]
    ppi, selection = calibration["corrected"]["ppi"], calibration["selection"]
    labelled = calibration["n_labelled"]
    told = (
        f"{labelled:,} of {total:,} rows have a human label.",
        f"{count(copies, 'more row')} left out: copies of another text." if copies else "",
        f"{count(unread['total'], 'verdict')} could not be read, {unread['labelled']:,} of them"
        " on labelled rows; there they count as wrong."
        if unread["total"]
        else "",
        _agreement(calibration["agreement"], calibration["accuracy"]),
        _bias(calibration["bias"]["mean_difference"], labelled - unread["labelled"]),
        *(
            [f"Nothing is estimated: {ppi.get('reason')}."]
            if ppi["value"] is None
            else _estimates(
                calibration["corrected"],
                calibration["n_judged"],
                share=calibration["scale"]["positive"] is not None,
            )
        ),
        "" if selection is None or selection["looks_random"] else _NOT_RANDOM,
        ""
        if calibration["groups"] is None
        else f"Rows come in {calibration['groups']['n']:,} groups: bias and estimates allow for"
        " that, the intervals of agreement do not.",
    )
    return list(filter(None, told))


def _agreement(block: Mapping[str, Any], accuracy: Mapping[str, Any]) -> str:
    kappa, rank = block["cohen_kappa"], block["spearman"]
    if kappa["value"] is not None:
        return (
            f"The judge gives the human label in {shown(accuracy, share=True)};"
            f" Cohen's kappa is {shown(kappa)}."
        )
    if rank["value"] is not None:
        return f"The rank correlation of scores and labels is {shown(rank)}."
    return f"Agreement cannot be determined: {kappa.get('reason') or rank.get('reason')}."


def _bias(bias: Mapping[str, Any], n: int) -> str:
    if bias["low"] is None:
        return ""
    way = "higher than" if bias["low"] > 0 else "lower than" if bias["high"] < 0 else ""
    leans = f"The judge scores {way} people do" if way else "No bias is shown"
    return f"{leans}: judge minus people is {shown(bias)}, over {n:,} rows."


def _estimates(corrected: Mapping[str, Any], judged: int, *, share: bool) -> list[str]:
    alone, ppi_, inverted = corrected["naive"], corrected["ppi"], corrected["misclassification"]
    what = "rate" if share else "mean"
    lines = [
        (
            f"The judge alone gives {shown(alone, share=share)} over {judged:,} rows; that is its own"  # noqa: E501
            f" {what}, not the truth."
        )
    ]
    outside = (
        None not in (alone["value"], ppi_["low"])
        and not ppi_["low"] <= alone["value"] <= ppi_["high"]
    )
    lines.append(
        f"By labels and verdicts together (PPI++) the true {what} is"
        f" {shown(ppi_, share=share)}{': the judge alone is wrong' if outside else ''}."
    )
    if inverted["value"] is not None:
        why = f" ({inverted['reason']})" if "reason" in inverted else ""
        lines.append(
            "Corrected for its errors (misclassification), it is"
            f" {shown(inverted, share=share)}{why}."
        )
    elif share:
        lines.append(f"Its errors can't be corrected for: {inverted.get('reason')}.")
    return lines


def shown(interval: Mapping[str, Any], *, share: bool = False) -> str:
    """A value with its interval, in words.

    >>> shown({"value": 0.5, "low": 0.25, "high": 0.75}, share=True)
    '50.0% (25.0% to 75.0%)'
    """
    if interval["value"] is None:
        return f"unknown ({interval.get('reason')})"
    ends = (interval["value"], interval["low"], interval["high"])
    value, low, high = (
        (
            None
            if end is None
            else f"{100 * end:.1f}%"
            if share
            else f"{round(float(end), 3) + 0.0:.3f}"
        )
        for end in ends
    )
    return (
        f"{value} (no interval: {interval.get('reason')})"
        if low is None
        else f"{value} ({low} to {high})"
    )
