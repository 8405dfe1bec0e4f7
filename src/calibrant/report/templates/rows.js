"use strict";
/* Rows one by one: their intervals and targets, in order or against the prediction. */
const Rows = (() => {
  const { axis, draw, layout } = Drawing;
  const view = document.getElementById("rows-view");
  const place = document.getElementById("rows-chart");
  const rows = Data.rows;
  const size = rows.row.length;
  const [bottom, top] = rows.window;

  /* An end that is infinite is drawn to the edge, and said to be infinite. */
  const end = (value, edge) => (value === null ? edge : value);
  const span = (level, index) =>
    `${rows[`low_${level}`][index] === null ? "−∞" : Labels.number(rows[`low_${level}`][index])} to `
    + Labels.number(rows[`high_${level}`][index]);

  const texts = rows.row.map((row, index) =>
    `<b>Row ${row.toLocaleString("en-US")}</b>${rows.outside[index] ? ", outside" : ""}<br>`
    + `target ${Labels.number(rows.y[index])}<br>`
    + `median ${Labels.number(rows.center[index])}<br>`
    + `50 %: ${span(50, index)}<br>90 %: ${span(90, index)}`);

  function bars(x, level, color, width) {
    const gapped = (low, high) => low.flatMap((value, index) => [value, high[index], null]);
    return {
      x: gapped(x, x), mode: "lines", hoverinfo: "skip",
      y: gapped(
        rows[`low_${level}`].map((value) => end(value, bottom)),
        rows[`high_${level}`].map((value) => end(value, top)),
      ),
      line: { color: Look.color(color), width },
    };
  }

  function points(x, outside) {
    const chosen = rows.row.map((_, index) => index).filter((index) => Boolean(rows.outside[index]) === outside);
    return {
      x: chosen.map((index) => x[index]), y: chosen.map((index) => rows.y[index]),
      text: chosen.map((index) => texts[index]), mode: "markers",
      marker: outside
        ? { color: Look.color("base"), symbol: "diamond", size: size > 150 ? 6.5 : 8, line: { width: 1, color: Look.color("raised") } }
        : { color: Look.color("ink"), size: size > 150 ? 3.6 : 5 },
      hovertemplate: "%{text}<extra></extra>",
    };
  }

  function show() {
    const order = view.value === "order";
    const x = order ? rows.row.map((_, index) => index + 1) : rows.center;
    const room = Math.max(1.2, Math.min(9, (0.72 * place.clientWidth) / size));
    const target = Labels.plain(Data.target.short);
    const tick = { symbol: "line-ew-open", size: Math.max(4, room), line: { width: 2 }, color: Look.color("paper") };
    const guide = order
      ? size <= 60 ? { x, y: rows.center, mode: "markers", hoverinfo: "skip", marker: tick } : { x, y: rows.center, mode: "lines", hoverinfo: "skip", line: { color: Look.color("paper"), width: 1.4 } }
      : { x: [bottom, top], y: [bottom, top], mode: "lines", hoverinfo: "skip", line: { color: Look.color("faint"), width: 1.4, dash: "dot" } };
    const known = rows.center.filter((value) => value !== null);
    const margin = 0.03 * (Math.max(...known) - Math.min(...known)) || 0.05 * Math.abs(known[0] ?? 0) || 1;
    const range = order ? [0, size + 1] : [Math.min(...known) - margin, Math.max(...known) + margin];
    draw(place, [
      bars(x, 90, "own-wide", order ? room : 1.4), bars(x, 50, "own-narrow", order ? room : 1.4),
      guide, points(x, false), points(x, true),
    ], layout({
      hovermode: "closest", hoverdistance: 12,
      xaxis: axis(order ? "rows, by predicted median" : `predicted median of ${target}`, { range, ...(order ? { tickformat: "d" } : {}), ...(order && size < 10 ? { dtick: 1 } : {}) }),
      yaxis: axis(target, { range: [bottom, top] }),
    }));
  }

  view.addEventListener("change", show);
  return { draw: show };
})();
