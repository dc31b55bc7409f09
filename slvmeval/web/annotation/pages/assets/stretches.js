/** The list of changed parts: play each, and check it off. */

import { $, clock, fill, make, tell } from "./dom.js";
import { covered } from "./intervals.js";

/**
 * The position of the other video while a stretch is played.
 *
 * Both videos have the same timeline, except where clips were removed: then the shorter one is ahead by
 * all that is missing before this point.
 */
export function besideOf(stretches, one) {
  const removed = stretches.filter((other) => other.kind === "removed").sort((a, b) => a.start_s - b.start_s);
  let gone = 0;
  for (const cut of removed) {
    const at = one.kind === "join" ? cut.start_s - gone : cut.start_s;
    if (at >= one.start_s) break;
    gone += cut.end_s - cut.start_s;
  }
  return one.kind === "join" ? one.start_s + gone : one.start_s - gone;
}

export class Stretches {
  constructor(app) {
    this.app = app;
    this.current = null; // number of the stretch that was played last
    this.announced = new Set();
    this.rows = new Map();
    this.list = $("stretches");
    if (!this.list) return;
    this.list.replaceChildren(...app.view.must_see.map((one) => this.row(one)));
    for (const one of app.view.must_see) if (one.seen) this.announced.add(one.number);
    this.show();
  }

  row(one) {
    const { words } = this.app;
    const times = { start: clock(one.start_s), end: clock(one.end_s) };
    const side = words[one.place];
    const number = one.number + 1;
    const play = make("button", {
      type: "button", className: "button small", textContent: `▶ ${fill(words.stretch, { number })}`,
      "aria-label": fill(words.go_to, { number, side, ...times }),
    });
    const what = words[`kind_${one.kind}`];
    const state = make("span", { className: "state" });
    const confirm = make("button", { type: "button", className: "button small tick", textContent: words.confirm,
      "aria-label": `${fill(words.stretch, { number })}: ${words.confirm}` });
    play.addEventListener("click", () => this.play(one.number));
    confirm.addEventListener("click", () => this.confirm(one.number));
    const text = make("span", { className: "stretch-text" },
      make("b", { textContent: side }), ` ${times.start}–${times.end}`,
      ...(what ? [make("small", { textContent: what })] : []),
      ...(one.note ? [make("small", { lang: "", textContent: one.note })] : []));
    const row = make("li", { "data-number": String(one.number) }, play, text, state, confirm);
    this.rows.set(one.number, { row, play, state, confirm });
    return row;
  }

  stretch(number) { return this.app.view.must_see.find((one) => one.number === number); }

  /** Show the first part that is not checked off. */
  cue() {
    const one = this.app.view.must_see?.find(({ confirmed }) => !confirmed);
    if (one) this.app.players.cue(one.place, one.start_s, besideOf(this.app.view.must_see, one));
  }

  play(number) {
    const one = this.stretch(number);
    this.current = number;
    const { players } = this.app;
    players.playStretch(one.place, one.start_s, one.end_s, besideOf(this.app.view.must_see, one));
    const { top } = $("viewer").getBoundingClientRect();
    if (top < -8 || top > window.innerHeight / 3) $("viewer").scrollIntoView({ block: "start" });
    this.show();
  }

  /** Play the next (or previous) one; the next one skips those that are checked off while others are left. */
  jump(by) {
    const all = this.app.view.must_see ?? [];
    if (!all.length) return;
    const left = all.filter((one) => !one.confirmed);
    const from = left.length && by > 0 ? left : all;
    const at = this.current === null ? (by > 0 ? -1 : from.length) : from.findIndex((one) => one.number === this.current);
    let next = from[(at + by + from.length) % from.length];
    if (at < 0 && this.current !== null) next = from.find((one) => one.number > this.current) || from[0];
    this.play(next.number);
  }

  async confirm(number = this.current) {
    if (number === null || !this.rows.has(number)) return;
    const { confirm } = this.rows.get(number);
    const one = this.stretch(number);
    if (!one.seen || one.confirmed || confirm.disabled) return;
    confirm.disabled = true;
    const focused = document.activeElement;
    try {
      this.app.adopt(await this.app.server.ask("confirm", { number }));
      const { all, done } = this.count();
      tell(done === all ? this.app.words.all_done : fill(this.app.words.progress, { done, all }));
      this.show();
      if (focused === confirm) this.focusNext();
      else if (focused === $("part-seen")) (done === all ? $("part-rate") : $("part-on")).focus();
    } catch (problem) {
      this.app.refused(problem);
    } finally {
      this.show();
    }
  }

  /** Show the current stretch right below the videos. */
  showBar() {
    const { view, words } = this.app;
    const one = this.current === null ? null : this.stretch(this.current);
    const { all, done } = this.count();
    const row = one && this.rows.get(one.number);
    const progress = view.state === "rated" ? "" : done === all ? words.all_done : fill(words.progress, { done, all });
    const where = one && `${fill(words.stretch, { number: one.number + 1 })} · ${words[one.place]} · ${row.state.textContent}`;
    const lines = [where || (done < all && words.no_part), progress].filter(Boolean);
    if (!lines.length) lines.push("");
    if (this.barText !== lines.join()) {
      this.barText = lines.join();
      $("part-text").replaceChildren(lines[0], ...lines.slice(1).flatMap((line) => [make("br"), make("small", { textContent: line })]));
    }
    $("part-seen").hidden = done === all || Boolean(one?.confirmed);
    $("part-seen").disabled = !one?.seen;
    $("part-rate").hidden = done < all || view.state === "rated";
    $("part-on").classList.toggle("primary", done < all && (!one || one.confirmed));
  }

  focusNext() {
    const next = this.app.view.must_see.find((one) => !one.confirmed);
    const target = next ? this.rows.get(next.number).play : document.querySelector("#rating input");
    target?.focus();
  }

  count() {
    const all = this.app.view.must_see ?? [];
    return { all: all.length, done: all.filter((one) => one.confirmed && one.seen).length };
  }

  show() {
    if (!this.list) return;
    const { view, words, reporter } = this.app;
    // a small screen shows one part at a time
    const shown = this.current ?? (view.must_see.find((one) => !one.confirmed) ?? view.must_see[0])?.number;
    for (const one of view.must_see) {
      const { row, state, confirm } = this.rows.get(one.number);
      const length = one.end_s - one.start_s;
      const share = Math.min(1, covered(reporter.seen(one.place), one.start_s, one.end_s) / length);
      const text = one.confirmed ? `✓ ${words.confirmed}` : one.seen ? words.seen
        : share > 0.01 ? fill(words.seen_part, { percent: Math.min(99, Math.floor(share * 100)) }) : words.unseen;
      if (state.textContent !== text) state.textContent = text;
      row.classList.toggle("confirmed", one.confirmed && one.seen);
      row.classList.toggle("seen", one.seen);
      row.classList.toggle("shown", one.number === shown);
      if (one.number === this.current) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
      confirm.hidden = one.confirmed;
      confirm.disabled = !one.seen;
      if (one.seen && !this.announced.has(one.number)) {
        this.announced.add(one.number);
        tell(fill(words.now_confirm, { number: one.number + 1 }));
      }
    }
    const { all, done } = this.count();
    $("seen-progress").max = Math.max(all, 1);
    $("seen-progress").value = done;
    const text = done === all && view.state !== "rated" ? words.all_done : fill(words.progress, { done, all });
    if ($("seen-text").textContent !== text) $("seen-text").textContent = text;
    this.showBar();
  }
}
