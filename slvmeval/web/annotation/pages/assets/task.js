/** The task page: connects its parts. */

import { Bars } from "./bars.js";
import { $, PLACES, make, tell } from "./dom.js";
import { listen } from "./keyboard.js";
import { Players } from "./players.js";
import { Prompt } from "./prompt.js";
import { Reporter } from "./report.js";
import { Refusal, Server } from "./server.js";
import { Steps } from "./steps.js";
import { Tabs, Trouble } from "./trouble.js";

//: After these refusals the page can only show a way to continue.
const LAST = new Set(["unknown_campaign", "unknown_worker", "unknown_assignment", "expired", "excluded", "no_consent",
  "no_session", "limit", "done", "no_tasks"]);

const island = JSON.parse($("island").textContent);
const videos = Object.fromEntries(PLACES.map((place) => [place, $(place)]));

const app = {
  view: island.view,
  urls: island.urls,
  words: island.words,
  over: false,
  busy: false,
  places: { left: 0, right: 0 }, // the last positions of the playheads, for a video that is reloaded
  of: (place) => ({ video: videos[place] }),

  /** Take a newer view of the same task. */
  adopt(view) {
    if (app.over || !view || view.id !== app.view.id) return;
    // the steps on the page belong to the old state: they are fetched together with the view
    if (view.state !== app.view.state) { app.again(); return; }
    // answers may arrive out of order: what was seen or checked off stays so
    const before = new Map((app.view.must_see ?? []).map((one) => [one.number, one]));
    const updated = (one) => ({
      ...one,
      seen: one.seen || Boolean(before.get(one.number)?.seen),
      confirmed: one.confirmed || Boolean(before.get(one.number)?.confirmed),
    });
    app.view = { ...app.view, ...view, ...(view.must_see && { must_see: view.must_see.map(updated) }) };
    app.show();
  },

  /** Fetch the whole page again. */
  async refresh({ focus = false }) {
    const { page, island: fresh } = await app.server.page();
    if (!fresh || fresh.view.id !== app.view.id) {
      app.over = true;
      window.location.assign(app.urls.task);
      return;
    }
    const moved = fresh.view.state !== app.view.state;
    app.view = fresh.view;
    app.urls = fresh.urls;
    Object.assign(app.server, { urls: fresh.urls, csrf: fresh.csrf });
    if (moved) {
      app.steps.replace(page, focus);
      if (!focus) app.notice(app.words.changed_elsewhere);
    }
    app.show();
  },

  /** The task may have moved on elsewhere. */
  async again() {
    if (app.over || app.busy) return;
    try { await app.refresh({}); } catch (problem) { app.refused(problem); }
  },

  /** The server refused: show why, and what to do. */
  refused(problem) {
    if (!(problem instanceof Refusal)) throw problem;
    const texts = island.refused[problem.reason] || island.refused.other;
    const last = LAST.has(problem.reason);
    if (last) { app.over = true; app.players.pause(); }
    app.notice(texts.text, texts.title, last || problem.goOn ? problem.goOn || app.urls.task : null);
    if (!last) app.again();
  },

  notice(text, title = "", link = null) {
    const box = $("alert");
    box.replaceChildren(...(title ? [make("b", { textContent: title })] : []), make("span", { textContent: text }));
    if (link) box.append(make("a", { href: link, className: "button", textContent: island.go_on }));
    box.hidden = false;
  },

  line(state) {
    const { words } = app;
    const text = { online: words.online, offline: words.offline, busy: words.busy }[state];
    $("line").textContent = text;
    $("line").dataset.state = state;
    $("line").hidden = false;
    clearTimeout(app.lineTimer);
    if (state === "online") app.lineTimer = setTimeout(() => { $("line").hidden = true; }, 4000);
  },

  /** A part was played to its end: if the server does not count it now, say so. */
  async stretchEnd() {
    await app.reporter.flush();
    const one = app.view.must_see?.find(({ number }) => number === app.steps.stretches.current);
    if (one && !one.seen && app.server.line === "online" && !app.over) app.notice(app.words.uncounted);
  },

  async fullScreen(place) {
    if (document.fullscreenElement) { await document.exitFullscreen(); return; }
    const target = place === "both" ? $("viewer") : $(`side-${place}`);
    if (target.requestFullscreen) await target.requestFullscreen();
    // an iPhone shows only a single video in full screen
    else videos[place === "both" ? app.players.chosen : place].webkitEnterFullscreen?.();
  },

  /** Update everything that depends on the videos or the view. */
  show() {
    const { players, bars, reporter, steps, words } = app;
    if (!steps) return;
    bars.show();
    const seen = Object.fromEntries(PLACES.map((place) => [place, reporter.seen(place)]));
    bars.paint(seen, app.view.must_see || []);
    app.prompt.show(players.time(players.chosen));
    const label = players.playing ? words.pause : words.play;
    if ($("play").textContent !== label) $("play").textContent = label;
    $("play").classList.toggle("runs", players.playing);
    $("level").hidden = !(players.linked && Math.abs(players.offset) >= 0.5);
    for (const place of PLACES) {
      if (players.ready(place) && !players.starved(place)) app.places[place] = players.time(place);
      $(`side-${place}`).classList.toggle("chosen", !players.linked && players.chosen === place);
      $(`side-${place}`).classList.toggle("waits", players.starved(place));
    }
    steps.show();
  },
};

app.server = new Server(app.urls, island.csrf, app.line);
app.players = new Players(videos, () => app.show());
app.players.onStretchEnd = () => app.stretchEnd();
app.players.onBlocked = () => app.notice(app.words.blocked);
app.reporter = new Reporter(app, videos);
app.bars = new Bars(app.players, app.words);
app.prompt = new Prompt(app.view.prompt, document.documentElement.lang, app.words, (time) => {
  app.players.seek(app.players.chosen, time);
});
app.steps = new Steps(app);
app.trouble = new Trouble(app);
app.tabs = new Tabs(app);
listen(app);

$("play").addEventListener("click", () => app.players.toggle());
$("back").addEventListener("click", () => app.players.step(-5));
$("on").addEventListener("click", () => app.players.step(5));
$("speed").addEventListener("change", () => app.players.setRate(Number($("speed").value)));
$("linked").addEventListener("change", () => app.players.setLinked($("linked").checked));
$("level").addEventListener("click", () => app.players.level());
$("help-open").addEventListener("click", () => $("help").showModal());
$("part-back").addEventListener("click", () => app.steps.stretches.jump(-1));
$("part-on").addEventListener("click", () => app.steps.stretches.jump(1));
$("part-seen").addEventListener("click", () => app.steps.stretches.confirm());
for (const button of document.querySelectorAll("[data-full]")) {
  button.addEventListener("click", () => app.fullScreen(button.dataset.full));
}
for (const place of PLACES) {
  videos[place].addEventListener("click", () => { app.players.choose(place); app.players.toggle(); });
}
$("linked").checked = true;
app.players.setRate(Number($("speed").value));
// a worker who is in another tab does not watch the videos
document.addEventListener("visibilitychange", () => { if (document.hidden) app.players.pause(); else app.again(); });
// while videos wait for data, nothing is sent that would reveal a lost connection
window.addEventListener("offline", () => app.server.setLine("offline"));
window.addEventListener("online", () => app.again());
window.addEventListener("pageshow", (event) => { if (event.persisted) app.again(); });
app.show();
tell("");
