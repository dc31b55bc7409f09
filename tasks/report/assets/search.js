// Finds rows by words, and shows a page of them at a time. Without scripts all rows are shown.
"use strict";
(() => {
  const table = document.getElementById("disputed");
  const bar = document.getElementById("disputed-bar");
  if (!table || !bar) return;
  const PAGE = 25;
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const search = bar.querySelector("input");
  const said = bar.querySelector("output");
  const [back, on] = bar.querySelectorAll("button");
  let first = 0;
  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = rows.filter(({ text }) => words.every((word) => text.includes(word)));
    first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / PAGE) * PAGE));
    const page = new Set(found.slice(first, first + PAGE));
    for (const one of rows) one.row.hidden = !page.has(one);
    const last = first + page.size;
    said.textContent = found.length ? `${first + 1} to ${last} of ${found.length}` : "No pair has these words.";
    back.disabled = first === 0;
    on.disabled = last === found.length;
  }
  search.addEventListener("input", () => { first = 0; show(); });
  back.addEventListener("click", () => { first -= PAGE; show(); });
  on.addEventListener("click", () => { first += PAGE; show(); });
  // a browser keeps the text of a page to which one returns
  window.addEventListener("pageshow", show);
  window.addEventListener("beforeprint", () => { for (const one of rows) one.row.hidden = false; });
  window.addEventListener("afterprint", show);
  bar.hidden = false;
  show();
})();
