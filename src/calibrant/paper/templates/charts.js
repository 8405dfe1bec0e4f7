"use strict";
/* What the charts of a reproduction share: data, looks, and the curves of one setting. */
const Data = JSON.parse(document.getElementById("data").textContent);

const Chart = (() => {
  const SYMBOLS = ["square", "triangle-up", "cross", "star", "triangle-down", "x"];
  const { axis, draw, element, fill, layout, table, titled } = Drawing;

  /* Color, symbol and dash of an arm: the same for a model and its recalibrated form. */
  function style(setting, arm) {
    const key = `${arm.kind}|${arm.label.split(" + ")[0]}`;
    const others = [...new Set(
      setting.arms
        .filter((each) => each.kind !== "base" && !isPaper(each))
        .map((each) => `${each.kind}|${each.label.split(" + ")[0]}`),
    )];
    const dash = arm.recalibrated ? "dash" : "solid";
    if (arm.kind === "base") return { color: Look.color("base"), symbol: "circle", dash };
    if (isPaper(arm)) return { color: Look.color("regularized"), symbol: "diamond", dash };
    const place = others.indexOf(key) % SYMBOLS.length;
    return { color: Look.color(`c${place + 1}`), symbol: SYMBOLS[place], dash };
  }

  function isPaper(arm) {
    return arm.kind === "qr" && arm.strength === 20;
  }

  const promised = [0, ...Data.levels];
  const from = (values, gap) =>
    [0, ...values].map((value, index) => (gap ? value - promised[index] : value));

  /* The area that holds the whole curve of 95 % of perfect models. */
  function band(rows, gap, name, color) {
    const { low, high } = Data.bands[rows];
    const edge = { x: promised, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
    return [
      { ...edge, y: from(low, gap) },
      { ...edge, y: from(high, gap), fill: "tonexty", fillcolor: Look.color(color), name },
    ];
  }

  function curve(setting, arm, gap) {
    const { color, symbol, dash } = style(setting, arm);
    return {
      x: promised,
      y: from(arm.curve, gap),
      name: arm.label,
      mode: "lines+markers",
      line: { color, width: 2.5, dash },
      marker: { color, symbol: arm.recalibrated ? `${symbol}-open` : symbol, size: 6.5 },
      hovertemplate: `%{y:${gap ? "+" : ""}.3f}`,
    };
  }

  function folds(setting, arm, gap) {
    const { color, dash } = style(setting, arm);
    return arm.folds.map((values, index) => ({
      x: promised,
      y: from(values, gap),
      name: `${arm.label}, fold ${index + 1}`,
      mode: "lines",
      opacity: 0.45,
      line: { color, width: 1.1, dash },
      hoverinfo: "skip",
    }));
  }

  function curves(id, setting, arms, { gap = false, each = false, title = "" } = {}) {
    const diagonal = {
      x: [0, 1], y: gap ? [0, 0] : [0, 1], mode: "lines", hoverinfo: "skip",
      line: { color: Look.color("faint"), width: 1.2, dash: "dot" },
    };
    const traces = [
      ...band(setting.foldRows, gap, "one fold", "band"),
      ...band(setting.allRows, gap, "all folds", "band-inner"),
      diagonal,
      ...(each ? arms.flatMap((arm) => folds(setting, arm, gap)) : []),
      ...arms.map((arm) => curve(setting, arm, gap)),
    ];
    const range = gap ? {} : { range: [0, 1.005] };
    return draw(id, traces, layout({
      ...(title ? titled(title) : {}),
      hovermode: "x unified",
      xaxis: axis("promised probability", {
        range: [0, 1.005], hoverformat: ".2f",
        showspikes: true, spikemode: "across", spikethickness: 1, spikecolor: Look.color("faint"), spikedash: "dot",
      }),
      yaxis: axis(gap ? "observed minus promised" : "observed frequency", range),
    }));
  }

  /* Three selects that narrow down to one setting: data set, network, protocol. */
  function chooser(prefix, settings, onChange) {
    const names = ["data", "network", "protocol"];
    const selects = names.map((name) => document.getElementById(`${prefix}-${name}`));
    const titles = (each) => [
      [each.data, each.dataTitle], [each.network, each.networkTitle], [each.protocol, each.protocol],
    ];
    function narrow(first) {
      let left = settings;
      selects.forEach((select, index) => {
        const options = new Map(left.map((each) => titles(each)[index]));
        if (index >= first) fill(select, [...options], first ? undefined : index ? undefined : "concrete");
        left = left.filter((each) => titles(each)[index][0] === select.value);
      });
      return left[0];
    }
    let current = narrow(0);
    selects.forEach((select, index) => select.addEventListener("change", () => {
      current = narrow(index + 1);
      onChange(current);
    }));
    return () => current;
  }

  return { axis, chooser, curves, draw, element, isPaper, layout, style, table, titled };
})();
