"use strict";
/* The calibration curve and the histogram, each with their bands under perfect calibration. */
const Curve = (() => {
  const { axis, draw, layout } = Drawing;
  const view = document.getElementById("curve-view");
  const { nominal, observed, before, low, high } = Data.curve;
  const places = [0, ...nominal];
  const LABEL = "95 % under perfect calibration";

  const from = (values, gap) =>
    [0, ...values].map((value, index) => (gap ? value - places[index] : value));

  function line(values, gap, name, color, dash, symbol) {
    return {
      x: places, y: from(values, gap), name, mode: "lines+markers",
      line: { color: Look.color(color), width: 2.5, dash },
      marker: { color: Look.color(color), symbol, size: 6.5 },
      hovertemplate: `%{y:${gap ? "+" : ""}.3f}`,
    };
  }

  function curve() {
    const gap = view.value === "gap";
    const edge = { x: places, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
    draw("curve-chart", [
      { ...edge, y: from(low, gap) },
      { ...edge, y: from(high, gap), fill: "tonexty", fillcolor: Look.color("band-inner"), name: LABEL },
      {
        x: [0, 1], y: gap ? [0, 0] : [0, 1], mode: "lines", hoverinfo: "skip",
        line: { color: Look.color("faint"), width: 1.2, dash: "dot" },
      },
      ...(before ? [line(before, gap, "Before", "base", "dash", "circle-open")] : []),
      line(observed, gap, before ? "Recalibrated" : "Observed", "regularized", "solid", "diamond"),
    ], layout({
      hovermode: "x unified",
      xaxis: axis("nominal probability", { range: [0, 1.005], hoverformat: ".2f" }),
      yaxis: axis(gap ? "observed minus nominal" : "observed frequency", gap ? {} : { range: [0, 1.005] }),
    }));
  }

  function histogram() {
    const { counts, before: earlier, low: least, high: most, rows } = Data.histogram;
    const width = 1 / counts.length;
    const middles = counts.map((_, index) => (index + 0.5) * width);
    const inside = (count) => count >= least && count <= most;
    const dashed = { width: 1.2, dash: "dot", color: Look.color("soft") };
    const traces = [{
      type: "bar", x: middles, y: counts, width: width * 0.94,
      marker: { color: counts.map((count) => Look.color(inside(count) ? "regularized" : "base")), opacity: 0.85 },
      text: counts.map((count, index) =>
        `${(index * width).toFixed(2)} to ${((index + 1) * width).toFixed(2)}: ${Labels.count(count)}<br>`
        + `perfect calibration: ${least.toLocaleString("en-US")} to ${most.toLocaleString("en-US")}`),
      textposition: "none", hovertemplate: "%{text}<extra></extra>",
    }];
    if (earlier) {
      const steps = earlier.flatMap((count, index) => [[index * width, count], [(index + 1) * width, count]]);
      traces.push({
        x: steps.map(([x]) => x), y: steps.map(([, y]) => y), mode: "lines", hoverinfo: "skip",
        line: { color: Look.color("ink"), width: 2, dash: "dash" },
      });
    }
    draw("histogram-chart", traces, layout({
      hovermode: "closest", bargap: 0,
      shapes: [
        { type: "rect", xref: "paper", x0: 0, x1: 1, y0: least, y1: most, line: { width: 0 }, fillcolor: Look.color("band-inner"), layer: "above" },
        ...[least, most].map((y) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: dashed })),
      ],
      xaxis: axis("PIT value", { range: [0, 1], dtick: 0.2 }),
      yaxis: axis("rows", { rangemode: "tozero", range: [0, 1.06 * Math.max(most, ...counts, ...(earlier ?? []))], ...(rows < 20 ? { dtick: 1 } : {}) }),
    }));
  }

  view.addEventListener("change", curve);
  return { draw: () => { curve(); histogram(); } };
})();
