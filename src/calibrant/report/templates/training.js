"use strict";
/* Curves of the training. */
const Training = (() => {
  const { axis, draw, layout } = Drawing;
  if (!document.getElementById("training-chart")) return { draw: () => {} };
  const COLORS = ["regularized", "base", "c1", "c2", "c4", "c6"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

  const longest = Math.max(...Data.training.map((curve) => curve.epoch.at(-1)));

  function show() {
    draw("training-chart", Data.training.map((curve, index) => ({
      x: curve.epoch, y: curve.value, name: Labels.plain(curve.short), mode: "lines",
      line: { color: Look.color(COLORS[index]), dash: DASHES[index], width: 2.2 },
      hovertemplate: "%{y:.4g}",
    })), layout({
      height: 330, showlegend: true, hovermode: "x unified",
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      xaxis: axis("epoch", { tickformat: "d", ...(longest < 12 ? { dtick: 1 } : {}) }), yaxis: axis(""),
    }));
  }

  return { draw: show };
})();
