/** The page on which one video is rated in one dimension: watch it, then choose a level. */

import { $, PLACES, fill, tell } from "./dom.js";
import { covered } from "./intervals.js";
import { listen } from "./keyboard.js";
import { begin, common, connect } from "./page.js";

const [ONLY] = PLACES;

const app = {
  ...common,

  /** Take a newer view of the same task. */
  adopt(view) {
    if (app.over || !view || view.id !== app.view.id) return;
    if (view.state !== app.view.state) { app.again(); return; }
    app.view = { ...app.view, ...view, ...app.kept(view, ["can_rate"]) };
    app.show();
  },

  /** The task was answered, or sent back, in another tab. */
  moved() { window.location.assign(app.urls.task); },

  /** Share of the video that was played, as far as the page knows. */
  share() {
    const seconds = app.players.length(ONLY);
    return seconds ? Math.min(covered(app.reporter.seen(ONLY), 0, seconds) / seconds, 1) : 0;
  },

  unlocks() { return !app.view.can_rate && app.share() >= app.view.least_seen; },

  show() {
    if (!app.tabs) return;
    app.showPlayback([]);
    const ready = app.view.can_rate;
    if ($("rating").disabled === ready) $("rating").disabled = !ready;
    $("step-rate").classList.toggle("waiting", !ready);
    const text = ready ? app.words.ready : fill(app.words.play_more, { percent: Math.floor(app.share() * 100) });
    if ($("rate-state").textContent !== text) $("rate-state").textContent = text;
    $("rate-state").classList.toggle("ready", ready);
    if (ready && !app.told) { app.told = true; tell(text); }
  },
};

connect(app);
listen(app, Object.fromEntries([...document.querySelectorAll("[name=level]")].map((level) => [level.value, () => {
  if (!level.matches(":disabled")) { level.checked = true; level.focus(); }
}])));
$("rate").addEventListener("submit", (event) => {
  event.preventDefault();
  const level = new FormData($("rate")).get("level");
  if (level) app.send("rate", { rating: Number(level), comment: $("comment").value });
});
tell("");
begin(app);
