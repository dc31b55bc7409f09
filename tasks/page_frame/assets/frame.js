// The switch between light and dark; where a store's page serves this one, the way back to it.
"use strict";
const pageTheme = (() => {
  const KEY = "slvmeval-theme";
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const shown = () => root.dataset.theme || (system.matches ? "dark" : "light");
  const other = () => (shown() === "dark" ? "light" : "dark");
  // a browser may forbid files to keep anything
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch { /* then the system's */ }
  function show() {
    const button = document.getElementById("theme");
    button.textContent = other() === "dark" ? "☾" : "☀";
    button.setAttribute("aria-label", `Change to ${other()} colours`);
    button.title = `Change to ${other()} colours`;
  }
  function toggle() {
    root.dataset.theme = other();
    try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* as above */ }
    show();
  }
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", toggle);
    system.addEventListener("change", show);
    show();
    const served = location.protocol !== "file:" && location.pathname.match(/^\/[^/]+\/(?=pages\/)/);
    if (served) {
      const back = document.createElement("a");
      back.href = served[0];
      back.textContent = "← Store";
      document.querySelector(".top-nav").prepend(back);
    }
  });
  return { toggle };
})();
