// Sorts the table by a column; rows without a value come last.
"use strict";
(() => {
  const table = document.getElementById("board");
  const chosen = document.getElementById("sort-by");
  if (!table || !chosen) return;
  const heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => row.cells[column].dataset.value ?? "";
  function sort(column, descending) {
    const text = heads[column].dataset.kind === "text";
    const rows = [...table.tBodies[0].rows];
    rows.sort((one, other) => {
      const [a, b] = [value(one, column), value(other, column)];
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = text ? a.localeCompare(b) : Number(a) - Number(b);
      return descending ? -order : order;
    });
    table.tBodies[0].append(...rows);
    heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    chosen.value = String(column);
  }
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const first = head.dataset.kind === "text" || head.dataset.kind === "least" ? "ascending" : "descending";
      sort(column, before ? before === "ascending" : first === "descending");
    });
  });
  chosen.addEventListener("change", () => {
    const column = Number(chosen.value);
    sort(column, heads[column].dataset.kind === "number");
  });
})();
