"use strict";
/* Calibration curves: pick a set, a model and the strengths to show. */
const Curves = (() => {
  if (!document.getElementById("curve-chart")) return { draw: () => {} };
  const find = (name) => document.getElementById(`curve-${name}`);
  const GLYPHS = {
    circle: "M8 2a4 4 0 110 8 4 4 0 010-8z", diamond: "M8 1l5 5-5 5-5-5z", square: "M4 2h8v8H4z",
    "triangle-up": "M8 1l5 9H3z", cross: "M6.5 1h3v3.5H13v3H9.5V11h-3V7.5H3v-3h3.5z",
    star: "M8 0l1.6 3.9 4.2.3-3.2 2.7 1 4.1L8 8.8 4.4 11l1-4.1L2.2 4.2l4.2-.3z",
    "triangle-down": "M8 11L3 2h10z", x: "M4 3.5L5.5 2 8 4.5 10.5 2 12 3.5 9.5 6 12 8.5 10.5 10 8 7.5 5.5 10 4 8.5 6.5 6z",
  };
  const shown = new Set();
  const setting = Chart.chooser("curve", Data.settings, () => { choose(); draw(); });

  function mark(arm) {
    const { color, symbol, dash } = Chart.style(setting(), arm);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "-4 0 24 12");
    svg.setAttribute("class", "mark");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS(space, "path");
    line.setAttribute("d", "M-4 6H20");
    line.setAttribute("stroke", color);
    line.setAttribute("stroke-width", "2");
    if (dash === "dash") line.setAttribute("stroke-dasharray", "4 3");
    const glyph = document.createElementNS(space, "path");
    glyph.setAttribute("d", GLYPHS[symbol]);
    glyph.setAttribute("fill", arm.recalibrated ? Look.color("raised") : color);
    glyph.setAttribute("stroke", color);
    svg.append(line, glyph);
    return svg;
  }

  const listed = () => setting().arms.filter(
    (arm) => !arm.recalibrated || find("recalibrated").checked,
  );

  /* A new setting starts with base and the paper's strength, or with all it has. */
  function choose() {
    shown.clear();
    const plain = setting().arms.filter((arm) => !arm.recalibrated);
    const few = plain.filter((arm) => arm.kind === "base" || Chart.isPaper(arm));
    const start = few.length ? few : plain.length ? plain : setting().arms;
    start.slice(0, 6).forEach((arm) => shown.add(arm.label));
    const some = setting().arms.some((arm) => arm.recalibrated);
    find("recalibrated-row").hidden = !some;
    if (!plain.length) find("recalibrated").checked = true;
    list();
  }

  function list() {
    find("arms").replaceChildren(...listed().map((arm) => {
      const label = Chart.element("label", undefined, { class: "check" });
      const box = Chart.element("input", undefined, { type: "checkbox", value: arm.label });
      box.checked = shown.has(arm.label);
      box.addEventListener("change", () => {
        if (box.checked) shown.add(arm.label); else shown.delete(arm.label);
        draw();
      });
      label.append(box, mark(arm), arm.label);
      return label;
    }));
  }

  function card(arm) {
    const node = Chart.element("div", undefined, { class: "card" });
    node.style.setProperty("--mark", Chart.style(setting(), arm).color);
    const { calibration_error: error, floor, rmse, nll, coverage } = arm.numbers;
    node.append(
      Chart.element("b", arm.label),
      Chart.element("span", `Error ${error.text} % (perfect: ${floor.text.split(" ")[0]})`),
      Chart.element("span", `RMSE ${rmse.text} · NLL ${nll.text}`),
      Chart.element("span", `90 % intervals hold ${coverage.text}`),
      Chart.element("span", `± over ${arm.over}`),
    );
    return node;
  }

  function draw() {
    const now = setting();
    const arms = listed().filter((arm) => shown.has(arm.label));
    const options = { gap: find("view").value === "gap", each: find("folds").checked };
    Chart.curves("curve-chart", now, arms, options);
    find("chart").setAttribute("aria-label",
      `Calibration curves on ${now.dataTitle}, ${now.networkTitle}, ${now.protocol}: `
      + `${arms.map((arm) => arm.label).join("; ") || "none chosen"}. The table below has the numbers.`);
    find("cards").replaceChildren(...arms.map(card));
    const count = (rows) => rows.toLocaleString("en-US");
    find("fold-rows").textContent = `95 % of perfect models, on one fold of ${count(now.foldRows)} rows`;
    find("all-rows").textContent = `on all ${count(now.allRows)} rows`;
    const { low, high } = Data.bands[now.foldRows];
    const heads = ["Promised", ...arms.map((arm) => arm.label), `Perfect, one fold of ${now.foldRows}`];
    Chart.table(find("table"), `Observed frequency on ${now.dataTitle}, ${now.networkTitle}, ${now.protocol}`,
      heads, Data.levels.map((level, index) => [
        level.toFixed(2), ...arms.map((arm) => arm.curve[index].toFixed(3)),
        `${low[index].toFixed(3)} to ${high[index].toFixed(3)}`,
      ]));
  }

  find("recalibrated").addEventListener("change", () => {
    // Show the recalibrated forms of what is shown.
    for (const arm of setting().arms.filter((each) => each.recalibrated)) {
      if (!find("recalibrated").checked) shown.delete(arm.label);
      else if (shown.has(arm.label.split(" + ")[0])) shown.add(arm.label);
    }
    list();
    draw();
  });
  for (const name of ["view", "folds"]) find(name).addEventListener("change", draw);
  choose();
  return { draw: () => { list(); draw(); } };
})();
