"use strict";
/* The sweep: one slider moves a marker through all charts. */
const Sweep = (() => {
  if (!document.getElementById("sweep-form")) return { draw: () => {} };
  const find = (name) => document.getElementById(`sweep-${name}`);
  const along = (setting) => setting.arms
    .filter((arm) => !arm.recalibrated && arm.kind !== "other")
    .sort((a, b) => a.strength - b.strength);
  const slider = find("strength");
  const setting = Chart.chooser(
    "sweep", Data.settings.filter((each) => along(each).length > 2), () => { begin(); draw(); },
  );
  const CHARTS = { error: "calibration_error", rmse: "rmse", nll: "nll" };

  function begin() {
    const arms = along(setting());
    const paper = arms.findIndex(Chart.isPaper);
    slider.max = arms.length - 1;
    slider.value = paper < 0 ? arms.length - 1 : paper;
    find("labels").replaceChildren(...arms.map((arm) => Chart.element("span", String(arm.strength))));
    find("ticks").replaceChildren(...arms.map((arm, index) => Chart.element("option", undefined, { value: index })));
    find("over").textContent = `Bars are one population standard deviation (ddof 0) over ${[...new Set(arms.map((arm) => arm.over))].join(", or over ")}. `
      + "In the last chart the strength in question stands beside the smallest one.";
    Chart.table(find("table"), `${setting().dataTitle}, ${setting().networkTitle}, ${setting().protocol}`,
      ["λ", ...Object.values(Data.measures), "± over"],
      arms.map((arm) => [String(arm.strength), ...Object.keys(Data.measures).map((key) => arm.numbers[key].text), arm.over]));
  }

  function line(name, measure) {
    const arms = along(setting());
    const now = Number(slider.value);
    const color = Look.color("regularized");
    const places = arms.map((_, index) => index);
    const numbers = arms.map((arm) => arm.numbers[measure]);
    const traces = [{
      x: places, y: numbers.map((each) => each.mean), text: numbers.map((each) => each.text),
      customdata: arms.map((arm) => arm.strength), mode: "lines+markers",
      line: { color, width: 2.2 }, marker: { color, size: 7 },
      error_y: { type: "data", array: numbers.map((each) => each.deviation ?? 0), color, thickness: 1.2, width: 4 },
      hovertemplate: "λ = %{customdata}: %{text}<extra></extra>",
    }, {
      x: [now], y: [numbers[now].mean], mode: "markers", hoverinfo: "skip",
      marker: { size: 17, symbol: "circle-open", color: Look.color("ink"), line: { width: 2.5 } },
    }];
    const shapes = [{
      type: "line", x0: now, x1: now, yref: "paper", y0: 0, y1: 1, layer: "below",
      line: { color: Look.color("soft"), width: 1, dash: "dot" },
    }];
    const annotations = [];
    if (measure === "calibration_error") {
      const floor = arms[0].numbers.floor.mean;
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: floor, y1: floor, line: { color: Look.color("faint"), width: 1.3, dash: "dash" } });
      annotations.push({ xref: "paper", x: 1, xanchor: "right", y: floor, yanchor: "bottom", showarrow: false, text: "a perfect model", font: { size: 12, color: Look.color("soft") } });
    }
    const more = measure === "calibration_error" ? { rangemode: "tozero" } : {};
    Chart.draw(`sweep-${name}`, traces, Chart.layout({
      shapes, annotations, hovermode: "closest",
      ...Chart.titled(Data.measures[measure]),
      xaxis: Chart.axis("strength λ", { tickvals: places, ticktext: arms.map((arm) => String(arm.strength)), range: [-0.4, arms.length - 0.6] }),
      yaxis: Chart.axis("", more),
    }));
    find(name).setAttribute("aria-label",
      `${Data.measures[measure]} along the strength on ${setting().dataTitle}, ${setting().networkTitle}: `
      + `${numbers[now].text} at λ = ${arms[now].strength}. The table below has the numbers.`);
  }

  function change(now, base, measure) {
    const [a, b] = [base.numbers[measure].mean, now.numbers[measure].mean];
    if (now === base || a === null || b === null) return "";
    // An NLL may be negative or near 0: only its difference has a meaning.
    const text = measure === "nll" ? (b - a).toFixed(3) : `${((b / a - 1) * 100).toFixed(1)} %`;
    return `${text.startsWith("-") ? "" : "+"}${text} against λ = ${base.strength}`.replace("-", "−");
  }

  function card(title, text, note) {
    const node = Chart.element("div", undefined, { class: "card" });
    node.append(Chart.element("b", title), Chart.element("span", text, { class: "big" }), Chart.element("span", note));
    return node;
  }

  function numbers(arm, base) {
    const floor = arm.numbers.floor.text.split(" ")[0];
    find("numbers").replaceChildren(...Object.values(CHARTS).map((measure) => card(
      `${Data.measures[measure]} at λ = ${arm.strength}`, arm.numbers[measure].text,
      change(arm, base, measure) || (measure === "calibration_error" ? `a perfect model: ${floor}` : "without regularizer"),
    )));
  }

  function draw() {
    const arms = along(setting());
    const now = arms[Number(slider.value)];
    find("value").textContent = `= ${now.strength}`;
    slider.setAttribute("aria-valuetext", `λ = ${now.strength}`);
    [...find("labels").children].forEach((each, index) => each.classList.toggle("on", index === Number(slider.value)));
    numbers(now, arms[0]);
    for (const [name, measure] of Object.entries(CHARTS)) line(name, measure);
    Chart.curves("sweep-curve", setting(), now === arms[0] ? [now] : [arms[0], now], { title: `Calibration curve at λ = ${now.strength}` });
    find("curve").setAttribute("aria-label", `Calibration curve at λ = ${now.strength} beside that at λ = ${arms[0].strength}`);
  }

  slider.addEventListener("input", draw);
  begin();
  return { draw };
})();
