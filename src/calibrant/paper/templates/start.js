"use strict";
/* The summary's chart, and drawing everything, again when the look changes. */
(() => {
  function effect(place) {
    const { rows } = Data.effects[Number(place.dataset.effect)];
    const names = rows.map((row) => row.data);
    const points = (key, color, symbol, label) => ({
      x: rows.map((row) => row[key].mean), y: names, text: rows.map((row) => row[key].text),
      mode: "markers", name: label,
      marker: { color: Look.color(color), symbol, size: symbol === "line-ns" ? 16 : 11, line: { color: Look.color(color), width: symbol === "line-ns" ? 2.5 : 0 } },
      hovertemplate: `${label}: %{text}<extra></extra>`,
    });
    const links = rows.map((row) => ({
      type: "line", x0: row.base.mean, x1: row.regularized.mean, y0: row.data, y1: row.data, layer: "below",
      line: { width: 3, color: Look.color(row.regularized.mean < row.base.mean ? "regularized" : "base") }, opacity: 0.6,
    }));
    const height = 64 + 34 * rows.length;
    place.style.height = `${height}px`;
    Chart.draw(place, [
      points("floor", "faint", "line-ns", "Perfect model"),
      points("base", "base", "circle", "Base"),
      points("regularized", "regularized", "diamond", "Regularized"),
    ], Chart.layout({
      height, shapes: links, hovermode: "closest",
      margin: { l: 10, r: 14, t: 8, b: 44 },
      xaxis: Chart.axis("calibration error (%)", { type: "log", dtick: 1 }),
      yaxis: Chart.axis("", { autorange: "reversed", type: "category" }),
    }));
  }

  function everything() {
    if (typeof Plotly === "undefined") return;
    document.querySelectorAll("[data-effect]").forEach(effect);
    Curves.draw();
    Sweep.draw();
  }

  everything();
  Look.onChange(everything);
})();
