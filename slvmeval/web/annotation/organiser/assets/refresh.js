// Fetches the page anew and puts its numbers in place, while somebody looks and is not about to read a detail.
"use strict";
(() => {
  const every = 15000;
  const live = document.getElementById("live");
  const said = document.getElementById("live-note");
  if (!live || !said) return;
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
      said.textContent = said.dataset.running;
      said.classList.remove("warn");
    } catch (problem) {
      said.textContent = said.dataset.lost;
      said.classList.add("warn");
    }
  }
  said.textContent = said.dataset.running;
  setInterval(renew, every);
  document.addEventListener("visibilitychange", renew);
})();
