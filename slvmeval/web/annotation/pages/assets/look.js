/** What has to be looked at in both videos before the first answer. */

import { $, PLACES } from "./dom.js";
import { covered, length, without } from "./intervals.js";

//: What is shorter than this is left over by players and clocks, seconds.
const CRUMB_S = 0.1;

export class Look {
  constructor(app) {
    this.app = app;
    this.going = false; // whether what is left is being played, stretch by stretch
  }

  /** The stretches of a video of which not enough was played; where a share of it counts, the video. */
  open(place) {
    const { view, players, reporter } = this.app;
    const seen = reporter.seen(place);
    if (view.look_share) {
      const all = players.length(place);
      return all && length(seen) >= view.look_share * all ? [] : [[0, all]];
    }
    return view.look[place].filter(([start, end]) => covered(seen, start, end) < view.least_seen * (end - start));
  }

  /** Seconds that are still to be seen, of one video or of both. */
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

  /** What is left of the marked parts, in the order of time. */
  gaps() {
    return PLACES.flatMap((place) => without(this.open(place), this.app.reporter.seen(place))
      .filter(([start, end]) => end - start >= CRUMB_S)
      .map(([start, end]) => ({ place, start, end })))
      .sort((a, b) => a.start - b.start);
  }

  /** Show the first marked part that is left, without playing it. */
  cue() {
    const { view, players } = this.app;
    const [gap] = view.look_share === 0 ? this.gaps() : [];
    if (gap) players.cue(gap.place, gap.start, gap.start);
  }

  /** Play what is left, stretch by stretch. */
  play() {
    this.going = true;
    const { top } = $("viewer").getBoundingClientRect();
    if (top < -8 || top > window.innerHeight / 3) $("viewer").scrollIntoView({ block: "start" });
    this.next();
  }

  /** Play the next of what is left: of both videos where both lack it, else of the one that does. */
  next() {
    if (!this.going) return;
    const { players } = this.app;
    const [gap] = this.gaps();
    if (!gap) { this.going = false; this.app.reporter.flush(); return; }
    // of a share no more is played than is left
    const end = this.app.view.look_share ? Math.min(gap.end, gap.start + this.left(gap.place) + CRUMB_S) : gap.end;
    players.playStretch(gap.place, gap.start, end, gap.start);
  }
}
