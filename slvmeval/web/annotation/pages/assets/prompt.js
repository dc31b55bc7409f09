/** The prompt: by clip, searchable, following the playhead, with its translation. */

import { $, clock, fill, make } from "./dom.js";

/** Put text into an element and mark the matches of a search. */
function write(element, text, wanted) {
  element.replaceChildren();
  if (!wanted) { element.textContent = text; return; }
  const low = text.toLowerCase();
  // a letter whose lower-case form has another length would shift the positions
  const same = low.length === text.length;
  let from = 0;
  for (let at = same ? low.indexOf(wanted) : -1; at >= 0; at = low.indexOf(wanted, from)) {
    element.append(text.slice(from, at), make("mark", {}, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  element.append(text.slice(from));
}

export class Prompt {
  constructor(clips, language, words, goTo) {
    this.clips = clips;
    this.words = words;
    this.current = -1;
    this.list = $("clips");
    this.rows = clips.map((clip) => {
      const time = make("button", { type: "button", className: "clip-time", textContent: clock(clip.start_s),
        "aria-label": fill(words.caption_at, { time: clock(clip.start_s) }) });
      time.addEventListener("click", () => goTo(clip.start_s));
      const caption = make("p", { className: "caption", lang: "", textContent: clip.caption });
      const translation = clip.translation
        ? make("p", { className: "translation", lang: language, textContent: clip.translation }) : null;
      const row = make("li", {}, time, make("div", {}, caption, ...(translation ? [translation] : [])));
      return { row, caption, translation };
    });
    this.list.replaceChildren(...this.rows.map(({ row }) => row));
    const translated = clips.some((clip) => clip.translation);
    $("translation-box").hidden = !translated;
    $("translation").addEventListener("change", () => {
      this.list.classList.toggle("untranslated", !$("translation").checked);
    });
    $("search").addEventListener("input", () => this.search());
    $("search").addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      $("search").value = "";
      this.search();
      $("search").blur();
    });
    $("prompt-open").addEventListener("click", () => this.open($("prompt").hidden));
    $("prompt-close").addEventListener("click", () => { this.open(false); $("prompt-open").focus(); });
    $("follow").addEventListener("change", () => { if ($("follow").checked) this.reveal(); });
  }

  /** Open or close the drawer with the whole text. */
  open(shown) {
    $("prompt").hidden = !shown;
    $("prompt-open").setAttribute("aria-expanded", String(shown));
    if (shown) this.reveal();
  }

  search() {
    const wanted = $("search").value.trim().toLowerCase();
    let count = 0;
    this.rows.forEach(({ row, caption, translation }, index) => {
      const clip = this.clips[index];
      const fits = !wanted || `${clip.caption}\n${clip.translation}`.toLowerCase().includes(wanted);
      row.hidden = !fits;
      count += fits ? 1 : 0;
      write(caption, clip.caption, wanted);
      if (translation) write(translation, clip.translation, wanted);
    });
    const { matches_none: none, matches_one: one, matches_many: many } = this.words;
    $("matches").textContent = !wanted ? "" : fill([none, one][count] ?? many, { count });
    if (!wanted) this.reveal();
  }

  /** Mark the clip at a time of the selected video. */
  show(time) {
    let index = -1;
    while (index + 1 < this.clips.length && this.clips[index + 1].start_s <= time + 0.01) index += 1;
    if (index === this.current) return;
    this.rows[this.current]?.row.removeAttribute("aria-current");
    this.current = index;
    this.rows[index]?.row.setAttribute("aria-current", "true");
    const clip = this.clips[index];
    $("now").textContent = clip ? clip.translation || clip.caption : "";
    if ($("follow").checked) this.reveal();
  }

  /** Scroll the list, never the page, and not away from the keyboard focus. */
  reveal() {
    const row = this.rows[this.current]?.row;
    if (!row || row.hidden || this.list.querySelector(":focus-visible")) return;
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const top = row.offsetTop - 12;
    this.list.scrollTo({ top, behavior: calm ? "auto" : "smooth" });
  }
}
