/** Report to the server what was actually played: every few seconds, when a step depends on it, and on leaving. */

import { PLACES } from "./dom.js";
import { Watch, merged } from "./intervals.js";
import { Refusal } from "./server.js";

const EVERY_MS = 4000;
const MAX_WAIT_MS = 30000;

export class Reporter {
  /**
   * `app.adopt(view)` takes a new view, `app.refused(problem)` a refusal; `app.unlocks()` says whether what was
   * played would allow the next step.
   */
  constructor(app, videos) {
    this.app = app;
    this.watches = Object.fromEntries(PLACES.map((place) => [place, new Watch(videos[place])]));
    this.sending = null;
    this.next = 0;
    this.wait = EVERY_MS;
    setInterval(() => this.beat(), 500);
    window.addEventListener("online", () => { this.next = 0; this.wait = EVERY_MS; });
    window.addEventListener("pagehide", () => this.leave());
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.leave(); });
  }

  /** What was played: what the server counts, and what has not been sent yet. */
  seen(place) {
    return merged([...this.app.view.seen[place], ...this.watches[place].open]);
  }

  /** Whether unsent playback would unlock something on the page. */
  urgent() {
    return PLACES.some((place) => this.watches[place].waiting.length) && this.app.unlocks();
  }

  beat() {
    if (this.app.over || this.sending) return;
    const waits = PLACES.some((place) => this.watches[place].waiting.length);
    if (!waits) return;
    const now = performance.now();
    const calm = this.app.server.line === "online";
    if (now >= this.next || (calm && this.urgent())) this.flush();
  }

  /** Send waiting reports; those that cannot be sent keep waiting. */
  async flush() {
    while (this.sending) await this.sending;
    this.sending = this.send();
    try { await this.sending; } finally { this.sending = null; }
  }

  async send() {
    for (const place of PLACES) {
      const watch = this.watches[place];
      const taken = watch.take(this.app.view.seen[place]);
      if (!taken.intervals.length) { watch.settle(true); continue; }
      try {
        const view = await this.app.server.once("play", { place, ...taken });
        this.wait = EVERY_MS;
        watch.settle(true);
        this.app.adopt(view);
      } catch (problem) {
        watch.settle(problem instanceof Refusal);
        if (problem instanceof Refusal) { this.app.refused(problem); return; }
        this.app.server.setLine(problem.line || "offline");
        this.wait = Math.min(this.wait * 1.5, MAX_WAIT_MS);
        break;
      }
    }
    this.next = performance.now() + this.wait;
  }

  /** The page is closing, perhaps for good: the browser still sends this. */
  leave() {
    if (this.app.over) return;
    for (const place of PLACES) {
      const watch = this.watches[place];
      if (watch.sending.length) continue;
      const taken = watch.take(this.app.view.seen[place]);
      if (!taken.intervals.length) { watch.settle(true); continue; }
      this.app.server.once("play", { place, ...taken }, { keepalive: true })
        .then(() => watch.settle(true), (problem) => watch.settle(problem instanceof Refusal));
    }
  }
}
