"use strict";
// Sortable tables (class `sorts`): headings become buttons; a search field with data-filter="ID" filters rows.
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    return cell.dataset.by === undefined ? cell.textContent : Number(cell.dataset.by);
  };
  const compare = (a, b) => {
    // Unknown values sort last in ascending order.
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;
    if (typeof b === "number") return 1;
    return a.localeCompare(b);
  };
  for (const table of document.querySelectorAll("table.sorts")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "descending" ||
          (!head.hasAttribute("aria-sort") && head.classList.contains("left"));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "ascending" : "descending");
        const rows = [...body.rows];
        rows.sort((a, b) => compare(value(a, column), value(b, column)) * (down ? 1 : -1));
        body.replaceChildren(...rows);
      });
    });
  }
  for (const field of document.querySelectorAll("input[data-filter]")) {
    const table = document.getElementById(field.dataset.filter);
    const says = document.getElementById(field.dataset.filter + "-says");
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      let shown = 0;
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        shown += row.hidden ? 0 : 1;
      }
      if (says) says.textContent = wanted ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
    });
  }
})();
