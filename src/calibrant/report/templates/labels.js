"use strict";
/* The data of the page, and its names as texts that plotly does not interpret. */
const Data = JSON.parse(document.getElementById("data").textContent);

const Labels = (() => {
  const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
  const numbers = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });

  /* Plotly reads a part of HTML in every text. */
  const plain = (text) => text.replace(/[&<>]/g, (character) => ENTITIES[character]);

  /* A long name on several lines of a hover label. */
  function wrapped(text, width = 36) {
    const lines = [];
    let line = "";
    for (const word of text.split(" ").flatMap((part) => part.match(new RegExp(`.{1,${width}}`, "gu")) ?? [])) {
      if (line && line.length + word.length >= width) { lines.push(line); line = ""; }
      line += (line ? " " : "") + word;
    }
    return [...lines, line].map(plain).join("<br>");
  }

  const number = (value) => (value === null ? "∞" : numbers.format(value).replace("-", "−"));
  const count = (value) => `${value.toLocaleString("en-US")} row${value === 1 ? "" : "s"}`;
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  return { count, number, percent, plain, wrapped };
})();
