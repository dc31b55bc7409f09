// Fetches the page again and updates its numbers while it is visible and no detail is open.
"use strict";
(() => {
  const every = 15000;
  const live = document.getElementById("live");
  const note = document.getElementById("live-note");
  if (!live || !note) return;
  const reading = () => document.hidden || live.querySelector("details[open]") || live.contains(document.activeElement)
    || String(document.getSelection()) !== "";
  async function renew() {
    if (reading()) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
      if (answer.type === "opaqueredirect") { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (!fresh) throw new Error("no numbers");
      if (!reading()) live.replaceChildren(...fresh.childNodes);
      note.textContent = note.dataset.running;
      note.classList.remove("warn");
    } catch (problem) {
      note.textContent = note.dataset.lost;
      note.classList.add("warn");
    }
  }
  note.textContent = note.dataset.running;
  setInterval(renew, every);
  document.addEventListener("visibilitychange", renew);
})();
