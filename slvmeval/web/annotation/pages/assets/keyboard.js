/** The keyboard; the page's help lists every key. */

import { $, fill, tell } from "./dom.js";

const TYPED = "input[type=search], input[type=text], textarea, select";

/** `more` are the keys of this page alone. */
export function listen(app, more) {
  const { players, words } = app;
  const speeds = [...$("speed").options].map((option) => Number(option.value));

  function faster(by) {
    const at = Math.min(Math.max(speeds.indexOf(players.rate) + by, 0), speeds.length - 1);
    $("speed").value = $("speed").options[at].value;
    players.setRate(speeds[at]);
    tell(fill(words.speed_now, { speed: speeds[at] }));
  }

  const keys = {
    " ": () => players.toggle(),
    k: () => players.toggle(),
    "[": () => faster(-1),
    "]": () => faster(1),
    f: () => app.fullScreen(players.linked ? "both" : players.chosen),
    "?": () => $("help").showModal(),
    ...more,
  };

  document.addEventListener("keydown", (event) => {
    const { target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    if (target.matches(TYPED)) return;
    const bar = target.matches("input[type=range]");
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      if (target.matches("input[type=radio]")) return;
      const by = (event.shiftKey ? 60 : 5) * (event.key === "ArrowLeft" ? -1 : 1);
      players.step(by, bar ? target.id.replace("-seek", "") : undefined);
      event.preventDefault();
      return;
    }
    // Space and Enter press the focused element
    if (event.key === " " && target.matches("button, a, input[type=checkbox], input[type=radio], summary")) return;
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
