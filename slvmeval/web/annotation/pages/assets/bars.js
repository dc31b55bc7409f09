/** The seek bars: the position of each video, what was played, and (after the preference) what must be watched. */

import { $, PLACES, clock, fill } from "./dom.js";
import { merged } from "./intervals.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;

export class Bars {
  constructor(players, words) {
    this.players = players;
    this.words = words;
    this.painted = {};
    this.held = null; // place whose thumb is being dragged
    for (const place of PLACES) {
      const bar = $(`${place}-seek`);
      bar.addEventListener("input", () => {
        this.held = place;
        players.choose(place);
        players.seek(place, Number(bar.value));
      });
      bar.addEventListener("change", () => { this.held = null; });
    }
  }

  /** Show the positions of the playheads. */
  show() {
    for (const place of PLACES) {
      const all = this.players.length(place);
      const bar = $(`${place}-seek`);
      bar.disabled = !all;
      if (!all) continue;
      const now = this.players.time(place);
      if (bar.max !== String(all)) bar.max = String(all);
      if (this.held !== place) bar.value = String(now);
      const values = { now: clock(now), all: clock(all) };
      const text = fill(this.words.position, values);
      if (bar.getAttribute("aria-valuetext") !== text) bar.setAttribute("aria-valuetext", text);
      const label = `${values.now} / ${values.all}`;
      if ($(`${place}-time`).textContent !== label) $(`${place}-time`).textContent = label;
    }
  }

  /** Paint played intervals and stretches; bars that did not change are not redrawn. */
  paint(seen, stretches) {
    for (const place of PLACES) {
      const all = this.players.length(place);
      if (!all) continue;
      const played = merged(seen[place]);
      const wanted = stretches.filter((one) => one.place === place);
      const key = JSON.stringify([all, played, wanted.map((one) => [one.number, one.confirmed])]);
      if (this.painted[place] === key) continue;
      this.painted[place] = key;
      const shape = (start, end, kind) => {
        const rect = document.createElementNS(SVG, "rect");
        const x = (start / all) * WIDTH;
        rect.setAttribute("x", x.toFixed(2));
        rect.setAttribute("width", Math.max(((end - start) / all) * WIDTH, 1.5).toFixed(2));
        const [y, height] = kind.startsWith("wanted") ? [0, 10] : [2.5, 5];
        rect.setAttribute("y", String(y));
        rect.setAttribute("height", String(height));
        rect.setAttribute("class", kind);
        return rect;
      };
      $(`${place}-track`).replaceChildren(
        shape(0, all, "ground"),
        ...wanted.map((one) => shape(one.start_s, one.end_s, one.confirmed ? "wanted done" : "wanted")),
        ...played.map(([start, end]) => shape(start, end, "played")),
      );
    }
  }
}
