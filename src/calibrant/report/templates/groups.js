"use strict";
/* Groups of rows: how many targets the intervals cover in each. */
const Groups = (() => {
  const { axis, draw, layout } = Drawing;
  const place = document.getElementById("group-chart");
  if (!place) return { draw: () => {} };
  const column = document.getElementById("group-column");
  const measure = document.getElementById("group-measure");
  const MEASURES = {
    covered90: { value: "covered90", range: "range90", text: "text90", right: 0.9, title: "covered by 90 % intervals" },
    covered50: { value: "covered50", range: "range50", text: "text50", right: 0.5, title: "covered by 50 % intervals" },
    below: { value: "below", range: "range50", text: "textBelow", right: 0.5, title: "targets below the predicted median" },
  };

  function show() {
    const chosen = Data.columns[Number(column.value)];
    const { value, range, text, right, title } = MEASURES[measure.value];
    const groups = chosen.groups;
    const inside = (group) => group[value] >= group[range][0] && group[value] <= group[range][1];
    const height = 84 + (groups.length > 16 ? 21 : 32) * groups.length;
    const every = groups.flatMap((group) => [group[value], ...group[range]]).map((share) => 100 * share);
    const points = (wanted, color, symbol) => {
      const some = groups.map((group, index) => ({ group, index })).filter(({ group }) => inside(group) === wanted);
      return {
        x: some.map(({ group }) => 100 * group[value]), y: some.map(({ index }) => index), mode: "markers",
        marker: { color: Look.color(color), symbol, size: 11 },
        text: some.map(({ group }) =>
          `<b>${Labels.wrapped(chosen.name)}</b><br>${Labels.wrapped(group.name)}<br>${group[text]} of ${Labels.count(group.rows)}<br>`
          + `perfect calibration: ${Labels.percent(group[range][0])} to ${Labels.percent(group[range][1])}`),
        hovertemplate: "%{text}<extra></extra>",
      };
    };
    place.style.height = `${height}px`;
    draw(place, [
      {
        x: groups.flatMap((group) => [100 * group[range][0], 100 * group[range][1], null]), y: groups.flatMap((_, index) => [index, index, null]),
        mode: "lines", hoverinfo: "skip", line: { color: Look.color("band-inner"), width: groups.length > 16 ? 9 : 12 },
      },
      points(true, "regularized", "circle"), points(false, "base", "diamond"),
    ], layout({
      height, hovermode: "closest", margin: { l: 10, r: 20, t: 8, b: 46 },
      shapes: [{ type: "line", x0: 100 * right, x1: 100 * right, yref: "paper", y0: 0, y1: 1, layer: "below", line: { color: Look.color("faint"), width: 1.4, dash: "dot" } }],
      xaxis: axis(title, { ticksuffix: " %", range: [Math.max(-2, Math.min(...every) - 3), Math.min(102, Math.max(...every) + 3)] }),
      yaxis: axis("", {
        range: [groups.length - 0.4, -0.6],
        tickvals: groups.map((_, index) => index), ticktext: groups.map((group) => `${Labels.plain(group.short)} `),
      }),
    }));
    const off = groups.filter((group) => !inside(group)).length;
    place.setAttribute("aria-label", `${title}, by ${chosen.name}: ${off} of ${groups.length} groups not explained by chance. The table below has the numbers.`);
  }

  for (const select of [column, measure]) select.addEventListener("change", show);
  return { draw: show };
})();
