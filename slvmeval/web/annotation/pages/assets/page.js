/** What the pages of a pair and of a rated video have in common. */

import { Bars } from "./bars.js";
import { $, PLACES, make } from "./dom.js";
import { merged } from "./intervals.js";
import { Players } from "./players.js";
import { Reporter } from "./report.js";
import { Refusal, Server } from "./server.js";
import { Tabs, Trouble } from "./trouble.js";

//: After these refusals the page can only show a way to continue.
const LAST = new Set(["unknown_campaign", "unknown_worker", "unknown_assignment", "expired", "excluded", "no_consent",
  "no_session", "limit", "done", "no_tasks"]);

//: Actions that wait for a last report continue after this time.
const MAX_FLUSH_MS = 3000;

/** The page's data, from the server. */
export const island = JSON.parse($("island").textContent);
export const videos = Object.fromEntries(PLACES.map((place) => [place, $(place)]));

/** Parts of a page's `app`, which adds `adopt`, `moved`, `unlocks` and `show`. */
export const common = {
  view: island.view,
  urls: island.urls,
  words: island.words,
  over: false,
  busy: false,
  places: { left: 0, right: 0 }, // the last positions of the playheads, for a video that is reloaded
  of: (place) => ({ video: videos[place] }),

  /** Answers may arrive out of order: what counts as played, and what that unlocked, stays so. */
  kept(view, unlocked) {
    const either = (name) => [name, Boolean(this.view[name] || view[name])];
    const all = (place) => [place, merged([...this.view.seen[place], ...view.seen[place]])];
    return {
      ...Object.fromEntries(unlocked.map(either)),
      seen: Object.fromEntries(Object.keys(view.seen).map(all)),
    };
  },

  /** Fetch the whole page again. */
  async refresh({ focus = false }) {
    const { page, island: fresh } = await this.server.page();
    if (!fresh || fresh.view.id !== this.view.id) {
      this.over = true;
      window.location.assign(this.urls.task);
      return;
    }
    const moved = fresh.view.state !== this.view.state;
    this.view = fresh.view;
    this.urls = fresh.urls;
    Object.assign(this.server, { urls: fresh.urls, csrf: fresh.csrf });
    if (moved) {
      for (const place of PLACES) this.reporter.watches[place].forget();
      this.moved(page, focus);
    }
    this.show();
  },

  /** The task may have moved on elsewhere. */
  async again() {
    if (this.over || this.busy) return;
    try { await this.refresh({}); } catch (problem) { this.refused(problem); }
  },

  /** The server refused: show why, and what to do; cleared when the page is fetched again. */
  async refused(problem) {
    if (!(problem instanceof Refusal)) throw problem;
    const texts = island.refused[problem.reason] || island.refused.other;
    const last = LAST.has(problem.reason);
    if (last) { this.over = true; this.players.pause(); }
    this.notice(texts.text, texts.title, last || problem.nextPage ? problem.nextPage || this.urls.task : null);
    if (!last) await this.again();
  },

  notice(text, title = "", link = null) {
    const box = $("alert");
    box.replaceChildren(...(title ? [make("b", { textContent: title })] : []), make("span", { textContent: text }));
    if (link) box.append(make("a", { href: link, className: "button", textContent: island.next_page }));
    box.hidden = false;
  },

  line(state) {
    const { words } = this;
    const text = { online: words.online, offline: words.offline, busy: words.busy }[state];
    $("line").textContent = text;
    $("line").dataset.state = state;
    $("line").hidden = false;
    clearTimeout(this.lineTimer);
    if (state === "online") this.lineTimer = setTimeout(() => { $("line").hidden = true; }, 4000);
  },

  async fullScreen(place) {
    if (document.fullscreenElement) { await document.exitFullscreen(); return; }
    const target = place === "both" ? $("main") : $(`side-${place}`);
    if (target.requestFullscreen) await target.requestFullscreen();
    // an iPhone shows only a single video in full screen
    else videos[place === "both" ? this.players.chosen : place].webkitEnterFullscreen?.();
  },

  /** Send the last answer of the task, and continue with the next page. */
  async send(name, answer) {
    if (this.busy) return;
    this.busy = true;
    this.players.pause();
    const send = $("send");
    const label = send.textContent;
    send.disabled = true;
    send.textContent = this.words.sending;
    try {
      await this.reporter.flush();
      const { next } = await this.server.ask(name, answer);
      this.over = true;
      this.tabs?.changed();
      window.location.assign(next);
    } catch (problem) {
      this.busy = false; // so that `refused` may refresh the page
      await this.refused(problem);
      send.disabled = false;
      send.textContent = label;
    } finally {
      this.busy = false;
    }
  },

  /** Update what depends on the players; `stretches` are marked on the bars. */
  showPlayback(stretches) {
    const { players, bars, reporter, words } = this;
    bars.show();
    bars.paint(Object.fromEntries(PLACES.map((place) => [place, reporter.seen(place)])), stretches);
    const label = players.playing ? words.pause : words.play;
    if ($("play").textContent !== label) $("play").textContent = label;
    $("play").classList.toggle("runs", players.playing);
    for (const place of PLACES) {
      if (players.ready(place) && !players.starved(place)) this.places[place] = players.time(place);
      $(`side-${place}`).classList.toggle("waits", players.starved(place));
    }
  },
};

/** Create the players and their observers. */
export function connect(app) {
  app.server = new Server(app.urls, island.csrf, (state) => app.line(state));
  app.players = new Players(videos, () => app.show());
  app.players.onBlocked = () => app.notice(app.words.blocked);
  app.reporter = new Reporter(app, videos);
  // everything played up to a jump counts
  app.players.onJump = (place) => app.reporter.watches[place].look();
  app.bars = new Bars(app.players, app.words);
}

/** Listen to the page's controls; everything that `app.show` needs is there. */
export function begin(app) {
  app.trouble = new Trouble(app);
  app.tabs = new Tabs(app);
  $("play").addEventListener("click", () => app.players.toggle());
  $("speed").addEventListener("change", () => app.players.setRate(Number($("speed").value)));
  $("help-open").addEventListener("click", () => $("help").showModal());
  for (const button of document.querySelectorAll("[data-full]")) {
    button.addEventListener("click", () => app.fullScreen(button.dataset.full));
  }
  // the page in the other language must know what was played
  const languages = document.querySelector(".languages");
  languages?.addEventListener("submit", async (event) => {
    if (languages.dataset.told) return;
    event.preventDefault();
    languages.dataset.told = "yes";
    app.players.pause();
    await Promise.race([app.reporter.flush(), new Promise((resolve) => { setTimeout(resolve, MAX_FLUSH_MS); })]);
    languages.requestSubmit(event.submitter);
  });
  for (const place of PLACES) {
    videos[place].addEventListener("click", () => { app.players.choose(place); app.players.toggle(); });
  }
  app.players.setRate(Number($("speed").value));
  // a worker in another tab is not watching the videos
  document.addEventListener("visibilitychange", () => { if (document.hidden) app.players.pause(); else app.again(); });
  // while videos wait for data, nothing is sent that would reveal a lost connection
  window.addEventListener("offline", () => app.server.setLine("offline"));
  window.addEventListener("online", () => app.again());
  window.addEventListener("pageshow", (event) => { if (event.persisted) app.again(); });
  app.show();
}
