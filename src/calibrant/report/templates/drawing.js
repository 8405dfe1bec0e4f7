"use strict";
/* What the charts of every page share: axes, layout, tables beside them. */
const Drawing = (() => {
  const config = { responsive: true, displayModeBar: false, scrollZoom: false };

  function axis(title, more = {}) {
    return {
      title: { text: title, font: { size: 13 }, standoff: 8 },
      gridcolor: Look.color("grid"),
      linecolor: Look.color("line-strong"),
      tickcolor: Look.color("line-strong"),
      zeroline: false,
      fixedrange: true,
      automargin: true,
      ...more,
    };
  }

  function layout(more = {}) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: Look.font(), size: 13, color: Look.color("soft") },
      margin: { l: 52, r: 14, t: 14, b: 46 },
      showlegend: false,
      dragmode: false,
      hoverlabel: {
        bgcolor: Look.color("raised"),
        bordercolor: Look.color("line-strong"),
        font: { family: Look.font(), size: 13, color: Look.color("ink") },
      },
      ...more,
    };
  }

  function titled(text) {
    const font = { size: 14, color: Look.color("ink") };
    return {
      title: { text: `<b>${text}</b>`, x: 0, xref: "paper", xanchor: "left", font },
      margin: { l: 52, r: 14, t: 40, b: 46 },
    };
  }

  function draw(id, traces, look) {
    const place = typeof id === "string" ? document.getElementById(id) : id;
    return Plotly.react(place, traces, look, config);
  }

  function element(tag, text, attributes = {}) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  /* The text alternative of a chart. */
  function table(place, caption, heads, rows) {
    const node = element("table");
    node.append(element("caption", caption));
    const head = node.createTHead().insertRow();
    heads.forEach((name, index) =>
      head.append(element("th", name, { scope: "col", ...(index ? { class: "number" } : {}) })));
    const body = node.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((text, index) =>
        line.append(element(index ? "td" : "th", text, index ? { class: "number" } : { scope: "row" })));
    }
    place.replaceChildren(node);
  }

  function fill(select, options, wanted) {
    const before = wanted ?? select.value;
    select.replaceChildren(...options.map(([value, text]) => element("option", text, { value })));
    if (options.some(([value]) => value === before)) select.value = before;
    select.disabled = options.length < 2;
  }

  return { axis, draw, element, fill, layout, table, titled };
})();
