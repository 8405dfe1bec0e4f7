"""The numbers behind the page's charts, as one JSON text."""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from calibrant.benchmark.records import LEVELS, NO_REGULARIZER
from calibrant.benchmark.summary import MEASURES, PAPER_REGULARIZER
from calibrant.metrics.floors import calibration_band
from calibrant.report._arms import ArmRecords, Setting, compared_settings
from calibrant.report._names import network_title

__all__ = ["chart_data", "json_text", "number_text"]

_DIGITS = 5
_MINUS = "\N{MINUS SIGN}"
#: Titles of the numbers that the page shows, in its order.
_TITLES = {
    "calibration_error": "Calibration error (%)",
    "floor": "A perfect model's mean error (%)",
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "Covered by 90 % intervals",
    "sharpness": "Mean predicted spread",
}
Json = dict[str, Any]


def chart_data(every: Sequence[Setting]) -> Json:
    """Return all that the charts draw, in plain lists and numbers.

    Examples
    --------
    >>> chart_data([])["settings"]
    []
    """
    rows = {n for s in every for n in (s.fold_rows, s.all_rows)}
    return {
        "levels": [level / LEVELS for level in range(1, LEVELS + 1)],
        "measures": _TITLES,
        "bands": {str(n): _band(n) for n in sorted(rows)},
        "settings": [_setting(each) for each in every],
        "effects": _effects(every),
    }


def json_text(data: Json) -> str:
    r"""Write JSON that can stand in a script element, whatever its strings hold.

    Examples
    --------
    >>> json_text({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    # An element ends at "</script" and a comment starts at "<!--", also in a string.
    return text.replace("<", "\\u003c")


def number_text(mean: float, deviation: float | None = None) -> str:
    """Write a number, with its deviation if there is one, in the paper's digits.

    Examples
    --------
    >>> number_text(41.234, 3.3), number_text(-0.0871), number_text(float("inf"))
    ('41.23 ± 3.30', '−0.087', '∞')
    """
    if math.isinf(mean):
        return "∞" if mean > 0 else f"{_MINUS}∞"
    size = abs(mean)
    digits = 1 if size >= 100 else 2 if size >= 1 else 3
    text = f"{mean:.{digits}f}".replace("-", _MINUS)
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def _plain(value: float | None) -> float | None:
    """Round; JSON knows no infinity, which the text beside it shows."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def _plain_list(values: Iterable[float]) -> list[float]:
    return [round(value, _DIGITS) for value in values]


def _band(rows: int) -> Json:
    _, low, high = calibration_band(rows, LEVELS, simultaneous=True)
    return {"low": _plain_list(low.tolist()), "high": _plain_list(high.tolist())}


def _setting(setting: Setting) -> Json:
    key = setting.key
    return {
        "data": key.data,
        "dataTitle": setting.title,
        "network": key.network,
        "networkTitle": network_title(key.network),
        "protocol": setting.protocol,
        "foldRows": setting.fold_rows,
        "allRows": setting.all_rows,
        "arms": [_arm(arm) for arm in setting.arms],
    }


def _arm(each: ArmRecords) -> Json:
    arm = each.arm
    kinds = {NO_REGULARIZER: "base", PAPER_REGULARIZER: "qr"}
    return {
        "label": each.label,
        "kind": kinds.get(arm.regularizer, "other"),
        "strength": arm.strength,
        "recalibrated": arm.recalibration != "none",
        "over": each.number(MEASURES["rmse"]).over,
        "curve": _plain_list(each.curve()),
        "folds": [_plain_list(curve) for curve in each.fold_curves().values()],
        "numbers": {measure: _number(each, measure) for measure in _TITLES},
    }


def _number(each: ArmRecords, measure: str) -> Json:
    number = each.number(MEASURES[measure])
    return {
        "mean": _plain(number.mean),
        "deviation": _plain(number.deviation),
        "text": number_text(number.mean, number.deviation),
    }


def _effects(every: Sequence[Setting]) -> list[Json]:
    """Base against regularized, for each network and each set."""
    networks: dict[str, list[Json]] = {}
    for setting in compared_settings(every):
        if setting.pair is None:
            continue
        base, regularized = setting.pair
        networks.setdefault(setting.key.network, []).append(
            {
                "data": setting.title,
                "label": regularized.label,
                "base": _number(base, "calibration_error"),
                "regularized": _number(regularized, "calibration_error"),
                "floor": _number(base, "floor"),
                "over": _over(base, regularized),
            }
        )
    return [
        {"network": network_title(network), "rows": rows}
        for network, rows in networks.items()
    ]


def _over(*arms: ArmRecords) -> str:
    """Say what the deviations of some arms are taken over."""
    return " and ".join(
        dict.fromkeys(arm.number(MEASURES["calibration_error"]).over for arm in arms)
    )
