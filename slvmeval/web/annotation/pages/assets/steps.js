/** The three steps: choose the better video, watch the changed parts, rate the change. */

import { $, clock, fill, tell } from "./dom.js";
import { Look } from "./look.js";
import { Stretches } from "./stretches.js";

export class Steps {
  constructor(app) {
    this.app = app;
    this.draw();
  }

  /** Connect the elements of the steps; called again when the steps have been replaced. */
  draw() {
    this.place = null;
    this.look = new Look(this.app);
    this.stretches = new Stretches(this.app);
    for (const button of document.querySelectorAll("[data-prefer]")) {
      button.addEventListener("click", () => this.choose(button.dataset.prefer));
    }
    $("look-on")?.addEventListener("click", () => this.look.play());
    $("sure-yes")?.addEventListener("click", () => this.prefer());
    $("sure-no")?.addEventListener("click", () => this.choose(null));
    $("part-back")?.addEventListener("click", () => this.stretches.jump(-1));
    $("part-on")?.addEventListener("click", () => this.stretches.jump(1));
    $("part-seen")?.addEventListener("click", () => this.stretches.confirm());
    $("rate")?.addEventListener("submit", (event) => { event.preventDefault(); this.rate(); });
    this.show();
  }

  /** Replace the steps by those of a newer page from the server. */
  replace(page, focus) {
    for (const id of ["brief", "steps"]) {
      $(id).replaceChildren(...document.importNode(page.getElementById(id), true).childNodes);
    }
    this.draw();
    this.cue();
    if (focus) $("see-title")?.focus();
  }

  /** Show the beginning of the first part still to be watched. */
  cue() {
    if (this.app.view.state === "opened") this.look.cue();
    else this.stretches.cue();
  }

  choose(place) {
    const before = this.place;
    this.place = place;
    for (const button of document.querySelectorAll("[data-prefer]")) {
      button.setAttribute("aria-pressed", String(button.dataset.prefer === place));
    }
    $("sure").hidden = !place;
    if (place) $("sure-yes").focus();
    else document.querySelector(`[data-prefer=${before}]`)?.focus();
  }

  async prefer() {
    const { app } = this;
    const place = this.place;
    if (!place || app.busy) return;
    app.busy = true;
    app.players.pause();
    const yes = $("sure-yes");
    const label = yes.textContent;
    yes.disabled = true;
    yes.textContent = app.words.sending;
    try {
      await app.reporter.flush();
      await app.server.ask("prefer", { place });
      await app.refresh({ focus: true });
      tell(app.words.stored);
      app.tabs?.changed();
    } catch (problem) {
      app.busy = false; // so that `refused` may refresh the page
      await app.refused(problem);
      yes.disabled = false;
      yes.textContent = label;
    } finally {
      app.busy = false;
    }
  }

  rate() {
    const rating = new FormData($("rate")).get("rating");
    if (rating) this.app.send("rate", { rating, comment: $("comment").value });
  }

  show() {
    const { view } = this.app;
    if (view.state === "opened") this.showPrefer();
    else this.showRate();
  }

  showPrefer() {
    const { view, words } = this.app;
    for (const button of document.querySelectorAll("[data-prefer]")) button.disabled = !view.can_prefer;
    const [left, right] = ["left", "right"].map((place) => clock(Math.ceil(this.look.left(place))));
    const text = view.can_prefer ? words.prefer_ready : fill(words.prefer_more, { left, right });
    if ($("prefer-state").textContent !== text) $("prefer-state").textContent = text;
    $("prefer-state").classList.toggle("ready", view.can_prefer);
    $("look-on").hidden = view.can_prefer;
    // both videos play together
    const time = clock(Math.ceil(Math.max(this.look.left("left"), this.look.left("right"))));
    const main = fill(view.look_share ? words.look_share : words.look_on, { time });
    if ($("look-text").textContent !== main) $("look-text").textContent = main;
  }

  showRate() {
    const { view } = this.app;
    this.stretches.show();
    if (!$("rate")) return; // the explanation of a training task
    const ready = view.can_rate;
    if ($("rating").disabled === ready) $("rating").disabled = !ready;
    $("rate-hint").hidden = ready;
    $("step-rate").classList.toggle("waiting", !ready);
  }
}
