"use strict";
/* Tables: sorted by the buttons in their heads; a tapped entry tells its details. */
(() => {
  function value(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    return cell.textContent.trim();
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    // Text such as "not run" comes after every number.
    if (typeof a === "number") return -1;
    if (typeof b === "number") return 1;
    return a.localeCompare(b, "en");
  }

  function sort(table, head) {
    const column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const each of table.querySelectorAll("[aria-sort]")) {
      each.setAttribute("aria-sort", "none");
    }
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => {
      const mixed = typeof a !== typeof b;
      return up || mixed ? compare(a, b) : compare(b, a);
    });
    body.append(...rows.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    for (const button of table.querySelectorAll("th button")) {
      button.addEventListener("click", () => sort(table, button.closest("th")));
    }
    const line = table.closest(".grid").querySelector(".entry-detail");
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("tbody [title]");
      if (!cell) return;
      const head = table.tHead.rows[table.tHead.rows.length - 1].cells[cell.cellIndex];
      const row = cell.parentElement.cells[0].textContent.trim();
      line.textContent = `${row}, ${head.textContent.trim()}: ${cell.title}`;
      line.hidden = false;
    });
  }
})();
