/** Intervals [start, end) of a video in seconds, and those that were actually played. */

/** Merge intervals that touch; the result is sorted. */
export function merged(intervals) {
  const result = [];
  for (const [start, end] of [...intervals].sort((a, b) => a[0] - b[0])) {
    const last = result[result.length - 1];
    if (last && start <= last[1] + 0.02) last[1] = Math.max(last[1], end);
    else result.push([start, end]);
  }
  return result;
}

/** Seconds of [start, end) that merged intervals cover. */
export function covered(intervals, start, end) {
  return intervals.reduce((sum, [a, b]) => sum + Math.max(0, Math.min(b, end) - Math.max(a, start)), 0);
}

/** The parts of merged intervals that are not in others; parts of 0.05 s or less are dropped. */
export function without(intervals, others) {
  const left = [];
  for (const [start, end] of intervals) {
    let at = start;
    for (const [from, to] of others) {
      if (to <= at || from >= end) continue;
      if (from > at) left.push([at, from]);
      at = to;
    }
    if (at < end) left.push([at, end]);
  }
  return left.filter(([start, end]) => end - start > 0.05);
}

export const length = (intervals) => intervals.reduce((sum, [a, b]) => sum + b - a, 0);

/**
 * Watch one video and collect what is played. Skipped parts do not count: between two readings of the
 * playhead, no more can be played than the clock and the speed allow.
 */
export class Watch {
  constructor(video) {
    this.video = video;
    this.played = []; // since the page was loaded
    this.waiting = []; // what of it has not been sent to the server
    this.sending = [];
    this.speed = 0;
    this.last = null;
    for (const name of ["play", "playing", "timeupdate", "pause", "ratechange", "seeked", "ended"]) {
      video.addEventListener(name, () => this.look());
    }
    // a jump arrives here; on a slow machine the video runs for a while before "seeked" is fired
    video.addEventListener("seeking", () => { this.last = this.now(); });
    video.addEventListener("emptied", () => { this.last = null; });
  }

  now() {
    return { clock: performance.now(), time: this.video.currentTime, rate: this.video.playbackRate };
  }

  look() {
    const { video, last } = this;
    if (video.seeking) return;
    const now = this.now();
    if (last) {
      const rate = Math.max(last.rate, now.rate);
      const moved = now.time - last.time;
      if (moved > 0 && moved <= ((now.clock - last.clock) / 1000) * rate + 0.5) {
        this.played = merged([...this.played, [last.time, now.time]]);
        this.waiting = merged([...this.waiting, [last.time, now.time]]);
        this.speed = Math.max(this.speed, rate);
      }
    }
    const runs = !video.paused && !video.ended && !document.hidden;
    this.last = runs ? now : null;
  }

  /** Take what has to be sent: everything played that the server does not count yet. */
  take(counted) {
    this.look();
    const taken = { intervals: without(this.played, counted), speed: this.speed || this.video.playbackRate };
    this.sending = this.waiting;
    this.waiting = [];
    return taken;
  }

  /** Settle what was taken: it has arrived or it has not. */
  settle(arrived) {
    if (!arrived) this.waiting = merged([...this.sending, ...this.waiting]);
    else if (!this.waiting.length) this.speed = 0;
    this.sending = [];
  }

  /** The step has changed, and what was played before no longer counts. */
  forget() {
    this.played = [];
    this.waiting = [];
    this.sending = [];
  }

  /** What the server has not acknowledged yet. */
  get open() { return [...this.sending, ...this.waiting]; }
}
