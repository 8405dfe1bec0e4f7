"""The paper's Figures 1 and 2, from records."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.files import replace_file
from calibrant.metrics.floors import calibration_band
from calibrant.paper.ledger import LEVELS
from calibrant.paper.published import ERROR, MC_DROPOUT
from calibrant.paper.results import (
    Results,
    Setting,
    arm_label,
    model_title,
    paper_settings,
    settings,
)
from calibrant.plots import COLORS, GRAY, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CURVE_SETS = ("concrete", "protein")
_SWEEP_SETS = ("concrete", "protein", "year_msd")
_BASE, _REGULARIZED = COLORS[1], COLORS[0]
# Networks in other colors than base and regularized, told apart by marker as well.
_NETWORK_LOOK = ((COLORS[2], "o"), (COLORS[3], "s"), (COLORS[6], "^"))
_LABELS = {ERROR: "calibration error (%)", "rmse": "RMSE", "nll": "NLL"}
# Without dates, and with a salt for identifiers in an SVG, files stay the same.
_UNDATED = {"svg": {"Date": None}, "png": {"Software": None}}


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Write Figures 1 and 2 as SVG and PNG, the same bytes for the same records.

    A figure for which nothing was run is left out.
    """
    from matplotlib import rc_context

    written = []
    with rc_context(
        {"svg.hashsalt": "calibrant", "font.size": 9, "legend.fontsize": 8}
    ):
        for name, draw in (("figure1", curves_figure), ("figure2", sweep_figure)):
            figure = draw(results)
            if figure is None:
                continue
            for kind, metadata in _UNDATED.items():
                content = io.BytesIO()
                figure.savefig(content, format=kind, dpi=200, metadata=metadata)
                written.append(folder / f"{name}.{kind}")
                replace_file(written[-1], content.getvalue())
    return written


def _figure(width: float, height: float) -> "Figure":
    """Make a figure that no window knows of, so that no display is needed."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def curves_figure(results: Results) -> "Figure | None":
    """Draw Figure 1: calibration curves of MC dropout, base against regularized.

    One panel for concrete and one for protein; without both of them, for the first
    two sets that were run. Thick lines are over all folds and repeats, thin ones over
    the repeats of each fold: folds that miss on opposite sides cancel in the thick
    line, but not in the paper's error. The bands hold the whole curve of a perfect
    model with probability 95 %, on one fold (light) and on all of them (dark).
    """
    pairs = {
        data: setting
        for (network, data), setting in paper_settings(settings(results)).items()
        if network == MC_DROPOUT and setting.pair is not None
    }
    names = [name for name in _CURVE_SETS if name in pairs] or sorted(pairs)[:2]
    if not names:
        return None
    figure = _figure(4.0 * len(names), 5.2)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(panels, names, strict=True):
        _curves_panel(ax, pairs[name])
    return figure


def _curves_panel(ax: "Axes", setting: Setting) -> None:
    sizes = setting.fold_sizes.values()
    for rows, shade, name in (
        (min(sizes), 0.14, "one fold"),
        (sum(sizes), 0.30, "all folds"),
    ):
        nominal, low, high = calibration_band(rows, LEVELS, simultaneous=True)
        ax.fill_between(
            _from_zero(nominal.tolist()),
            _from_zero(low.tolist()),
            _from_zero(high.tolist()),
            color=GRAY,
            alpha=shade,
            linewidth=0,
            label=f"perfect model, {name} (n = {rows:,})",
        )
    ax.plot([0, 1], [0, 1], color=GRAY, linewidth=1, linestyle="--")
    places = _from_zero([level / LEVELS for level in range(1, LEVELS + 1)])
    for known, color in zip(setting.pair or (), (_BASE, _REGULARIZED), strict=False):
        for fold in range(known.arm.folds):
            curve = _from_zero(known.curve(fold))
            ax.plot(places, curve, color=color, linewidth=0.7, alpha=0.4)
        label = f"{arm_label(known.arm)}: error {known.number(ERROR).mean:.3g} %"
        curve = _from_zero(known.curve())
        ax.plot(places, curve, color=color, linewidth=2.2, label=label)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.plot([], [], color=GRAY, linewidth=0.7, label="thin: each fold")
    # Below, because folds far off the diagonal fill both of its sides.
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.13),
        handlelength=1.4,
        frameon=False,
    )
    title = f"{setting.place}, {model_title(setting.key.network)}"
    finish(ax, x="nominal probability", y="observed frequency", title=title)


def _from_zero(values: Sequence[float]) -> list[float]:
    """Let a curve start at the origin, through which all of them go."""
    return [0.0, *values]


def sweep_figure(results: Results) -> "Figure | None":
    """Draw Figure 2: calibration error, RMSE and NLL along the strength.

    One row for each of concrete, protein and year (without all of them, for the first
    three sets with a sweep), one line for each network. Bars are one standard
    deviation over repeats, or over folds where there is one repeat.
    """
    sweeps: dict[str, list[Setting]] = {}
    for (_, data), setting in paper_settings(settings(results)).items():
        if len(setting.sweep) > 2:
            sweeps.setdefault(data, []).append(setting)
    names = [name for name in _SWEEP_SETS if name in sweeps] or sorted(sweeps)[:3]
    if not names:
        return None
    figure = _figure(9.0, 0.3 + 2.5 * len(names))
    rows = figure.subplots(len(names), len(_LABELS), squeeze=False)
    overs = set()
    for row, name in zip(rows, names, strict=True):
        _sweep_row(row, sweeps[name])
        for setting in sweeps[name]:
            repeated = any(len(arm.repeats) > 1 for arm in setting.sweep.values())
            overs.add("repeats" if repeated else "folds (one repeat)")
    for ax in rows[-1]:
        ax.set_xlabel("strength λ")
    handles, labels = rows[0][0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=len(labels),
        frameon=False,
        title=f"Bars: ± one standard deviation over {' or '.join(sorted(overs))}",
        alignment="left",
        title_fontsize=8,
    )
    return figure


def _sweep_row(row: "Sequence[Axes]", group: Sequence[Setting]) -> None:
    strengths = sorted({strength for setting in group for strength in setting.sweep})
    for ax, (measure, label) in zip(row, _LABELS.items(), strict=True):
        looks = zip(group, _NETWORK_LOOK, strict=False)
        for place, (setting, (color, marker)) in enumerate(looks):
            numbers = [arm.number(measure) for arm in setting.sweep.values()]
            ax.errorbar(
                # A small step aside keeps the bars of two networks apart.
                [strengths.index(strength) + 0.1 * place for strength in setting.sweep],
                [number.mean for number in numbers],
                yerr=[number.std or 0.0 for number in numbers],
                color=color,
                marker=marker,
                markersize=4,
                linewidth=1.6,
                elinewidth=1,
                capsize=2,
                label=model_title(setting.key.network),
            )
        if ax is row[0]:
            first = next(iter(group[0].sweep.values()))
            ax.axhline(
                first.number("floor").mean,
                color=GRAY,
                linestyle="--",
                linewidth=1,
                label="a perfect model's mean",
            )
            ax.set_ylim(bottom=0)
        # Strengths such as 0, 1, 2, 5, ... 50 are evenly placed: 0 has no logarithm.
        ax.set_xticks(range(len(strengths)), [f"{each:g}" for each in strengths])
        finish(ax, x="", y=label, title=group[0].place if ax is row[0] else None)
