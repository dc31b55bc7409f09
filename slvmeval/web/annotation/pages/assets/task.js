/** The task page: connects its parts. */

import { $, PLACES, fill, tell } from "./dom.js";
import { covered } from "./intervals.js";
import { listen } from "./keyboard.js";
import { begin, common, connect } from "./page.js";
import { Prompt } from "./prompt.js";
import { Steps } from "./steps.js";

const app = {
  ...common,

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
    app.view = {
      ...app.view,
      ...view,
      ...app.kept(view, ["can_prefer", "can_rate"]),
      ...(view.must_see && { must_see: view.must_see.map(updated) }),
    };
    app.show();
  },

  /** The state moved on: show the steps of the page that the server sends now. */
  moved(page, focus) {
    app.steps.replace(page, focus);
    if (!focus) app.notice(app.words.changed_elsewhere);
  },

  /** Whether what was played would allow the preference, or a part to be checked off. */
  unlocks() {
    const { view, reporter } = app;
    if (view.state === "opened") return !view.can_prefer && app.steps.look.left() === 0;
    return view.must_see.some((one) => {
      const needed = (one.end_s - one.start_s) * view.least_seen;
      return !one.seen && covered(reporter.seen(one.place), one.start_s, one.end_s) >= needed;
    });
  },

  /** A part was played to its end: if the server does not count it now, say so. */
  async stretchEnd() {
    if (app.view.state === "opened") { app.steps.look.next(); return; }
    await app.reporter.flush();
    const one = app.view.must_see?.find(({ number }) => number === app.steps.stretches.current);
    if (one && !one.seen && app.server.line === "online" && !app.over) app.notice(app.words.uncounted);
  },

  /** Update everything that depends on the videos or the view. */
  show() {
    const { players, steps } = app;
    if (!steps) return;
    app.showPlayback(app.view.must_see || steps.look.marks());
    app.prompt.show(players.time(players.chosen));
    $("level").hidden = !(players.linked && Math.abs(players.offset) >= 0.5);
    for (const place of PLACES) {
      $(`side-${place}`).classList.toggle("chosen", !players.linked && players.chosen === place);
    }
    steps.show();
  },
};

connect(app);
const { players, words } = app;
players.onStretchEnd = () => app.stretchEnd();
app.prompt = new Prompt(app.view.prompt, document.documentElement.lang, words, (time) => {
  players.seek(players.chosen, time);
});
app.steps = new Steps(app);

function choose(place) {
  players.choose(place);
  tell(fill(words.chosen, { side: words[place] }));
}

listen(app, {
  1: () => choose("left"),
  2: () => choose("right"),
  l: () => { $("linked").click(); tell(players.linked ? words.linked_on : words.linked_off); },
  n: () => app.steps.stretches.jump(1),
  p: () => app.steps.stretches.jump(-1),
  c: () => app.steps.stretches.confirm(),
  "/": () => { app.prompt.open(true); $("search").focus(); },
  Escape: () => { if (!$("prompt").hidden) $("prompt-close").click(); },
});

$("back").addEventListener("click", () => players.step(-5));
$("on").addEventListener("click", () => players.step(5));
$("linked").addEventListener("change", () => players.setLinked($("linked").checked));
$("level").addEventListener("click", () => players.level());
$("linked").checked = true;
tell("");
begin(app);
// the first picture is that of the first part that is to be seen
let waits = PLACES.length;
for (const place of PLACES) {
  const { video } = app.of(place);
  const loaded = () => { waits -= 1; if (!waits && !players.playing && players.untouched()) app.steps.cue(); };
  if (video.readyState >= 1) loaded();
  else video.addEventListener("loadedmetadata", loaded, { once: true });
}
