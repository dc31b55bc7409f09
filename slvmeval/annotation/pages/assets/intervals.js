/** Intervals [start, end) in seconds of a video, and what of a video was really played. */

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

export const length = (intervals) => intervals.reduce((sum, [a, b]) => sum + b - a, 0);

/**
 * Watch one video and collect what is played. What a jump passes over is not: between two looks at the
 * playhead no more can be played than the clock and the speed allow.
 */
export class Watch {
  constructor(video) {
    this.video = video;
    this.waiting = [];
    this.speed = 0;
    this.last = null;
    for (const name of ["play", "playing", "timeupdate", "pause", "ratechange", "seeked", "ended"]) {
      video.addEventListener(name, () => this.look());
    }
    video.addEventListener("seeking", () => { this.last = null; });
    video.addEventListener("emptied", () => { this.last = null; });
  }

  look() {
    const { video, last } = this;
    const now = { clock: performance.now(), time: video.currentTime, rate: video.playbackRate };
    if (last && !video.seeking) {
      const rate = Math.max(last.rate, now.rate);
      const moved = now.time - last.time;
      if (moved > 0 && moved <= ((now.clock - last.clock) / 1000) * rate + 0.5) {
        this.waiting = merged([...this.waiting, [last.time, now.time]]);
        this.speed = Math.max(this.speed, rate);
      }
    }
    const runs = !video.paused && !video.seeking && !video.ended && !document.hidden;
    this.last = runs ? now : null;
  }

  /** Take what has been collected. */
  take() {
    this.look();
    const taken = { intervals: this.waiting, speed: this.speed || 1 };
    this.waiting = [];
    this.speed = 0;
    return taken;
  }

  /** Put back what could not be sent. */
  giveBack({ intervals, speed }) {
    this.waiting = merged([...intervals, ...this.waiting]);
    this.speed = Math.max(this.speed, speed);
  }
}
