/** The parts of both videos that must be watched before the first answer. */

import { $, PLACES } from "./dom.js";
import { covered, length, without } from "./intervals.js";

//: Shorter stretches are artifacts of players and clocks, in seconds.
const CRUMB_S = 0.1;

export class Look {
  constructor(app) {
    this.app = app;
    this.going = false; // whether what is left is being played, stretch by stretch
  }

  /** The stretches of a video that were not played enough; if only a share counts, the whole video. */
  open(place) {
    const { view, players, reporter } = this.app;
    const seen = reporter.seen(place);
    if (view.look_share) {
      const all = players.length(place);
      return all && length(seen) >= view.look_share * all ? [] : [[0, all]];
    }
    return view.look[place].filter(([start, end]) => covered(seen, start, end) < view.least_seen * (end - start));
  }

  /** Seconds still to be watched, of one video or both. */
  left(place = null) {
    if (!place) return PLACES.reduce((sum, one) => sum + this.left(one), 0);
    const { view, players, reporter } = this.app;
    const seen = reporter.seen(place);
    const open = this.open(place);
    if (view.look_share) return open.length ? Math.max(1, view.look_share * players.length(place) - length(seen)) : 0;
    return open.reduce((sum, [start, end]) => sum + end - start - covered(seen, start, end), 0);
  }

  /** The stretches as the bars mark them. */
  marks() {
    const { view, reporter } = this.app;
    if (view.look_share) return [];
    return PLACES.flatMap((place) => view.look[place].map(([start_s, end_s], number) => ({
      number, place, start_s, end_s,
      confirmed: covered(reporter.seen(place), start_s, end_s) >= view.least_seen * (end_s - start_s),
    })));
  }

  /** The remaining marked parts, in order of time. */
  gaps() {
    return PLACES.flatMap((place) => without(this.open(place), this.app.reporter.seen(place))
      .filter(([start, end]) => end - start >= CRUMB_S)
      .map(([start, end]) => ({ place, start, end })))
      .sort((a, b) => a.start - b.start);
  }

  /** Show the first remaining marked part, without playing it. */
  cue() {
    const { view, players } = this.app;
    const [gap] = view.look_share === 0 ? this.gaps() : [];
    if (gap) players.cue(gap.place, gap.start, gap.start);
  }

  /** Play the remaining parts, stretch by stretch. */
  play() {
    this.going = true;
    const { top } = $("viewer").getBoundingClientRect();
    if (top < -8 || top > window.innerHeight / 3) $("viewer").scrollIntoView({ block: "start" });
    this.next();
  }

  /** Play the next remaining stretch: of both videos if both lack it, else of the one that does. */
  next() {
    if (!this.going) return;
    const { players } = this.app;
    const [gap] = this.gaps();
    if (!gap) { this.going = false; this.app.reporter.flush(); return; }
    // for a share, play no more than is left
    const end = this.app.view.look_share ? Math.min(gap.end, gap.start + this.left(gap.place) + CRUMB_S) : gap.end;
    players.playStretch(gap.place, gap.start, end, gap.start);
  }
}
