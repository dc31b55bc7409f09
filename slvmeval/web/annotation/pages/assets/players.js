/** Two videos that play together or separately. */

import { PLACES, otherPlace } from "./dom.js";

//: Seconds that linked videos may drift apart before one is moved; a frame stays for a second.
const TOLERANCE_S = 0.5;

export class Players {
  constructor(videos, changed) {
    this.videos = videos;
    this.changed = changed;
    this.linked = PLACES.length > 1;
    this.chosen = "left";
    this.rate = 1;
    this.offset = 0; // seconds that the right video is ahead of the left one
    this.wanted = new Set(); // places that should be running
    this.until = null;
    for (const place of PLACES) {
      const video = videos[place];
      for (const name of ["loadedmetadata", "timeupdate", "seeked", "waiting", "playing", "canplay", "pause", "ended"]) {
        video.addEventListener(name, () => this.tick());
      }
    }
  }

  get playing() { return this.wanted.size > 0; }
  get places() { return this.linked ? PLACES : [this.chosen]; }
  ready(place) { return this.videos[place].readyState >= 1; }
  length(place) { return this.ready(place) ? this.videos[place].duration : 0; }
  time(place) { return this.videos[place].currentTime; }

  /** The time of the other video that corresponds to a time of this one, clamped to that video. */
  partner(place, time) {
    const other = otherPlace(place);
    const wanted = place === "left" ? time + this.offset : time - this.offset;
    return this.within(other, wanted);
  }

  within(place, time) {
    return Math.min(Math.max(time, 0), Math.max(this.length(place) - 0.05, 0));
  }

  move(place, time) {
    const video = this.videos[place];
    if (!this.ready(place)) return;
    const wanted = this.within(place, time);
    if (Math.abs(video.currentTime - wanted) <= 0.01) return;
    this.onJump(place);
    video.currentTime = wanted;
  }

  /** Go to a time of a video; linked ones move together. */
  seek(place, time) {
    this.until = null;
    this.move(place, time);
    if (this.linked) this.move(otherPlace(place), this.partner(place, time));
    this.changed();
  }

  step(seconds, place = this.chosen) {
    this.seek(place, this.time(place) + seconds);
  }

  choose(place) {
    if (!this.linked && this.chosen !== place && this.playing) this.pause();
    this.chosen = place;
    this.changed();
  }

  /** Linking keeps the current offset, so that the videos can be aligned by hand. */
  setLinked(linked) {
    const ran = this.playing;
    this.pause();
    this.linked = linked;
    if (linked) this.offset = this.time("right") - this.time("left");
    if (Math.abs(this.offset) < TOLERANCE_S) this.offset = 0;
    if (ran) this.play();
    this.changed();
  }

  /** Move both to the time of the chosen one. */
  level() {
    this.offset = 0;
    this.seek(this.chosen, this.time(this.chosen));
  }

  /** Whether neither video has been moved yet. */
  untouched() { return PLACES.every((place) => this.time(place) === 0); }

  setRate(rate) {
    this.rate = rate;
    for (const place of PLACES) {
      this.videos[place].defaultPlaybackRate = rate;
      this.videos[place].playbackRate = rate;
    }
    this.changed();
  }

  play(places = this.places) {
    const atEnd = (place) => this.videos[place].ended || this.time(place) >= this.length(place) - 0.1;
    if (places.every((place) => this.ready(place) && atEnd(place))) {
      for (const place of places) this.move(place, 0);
      this.offset = 0;
    }
    this.wanted = new Set(places.filter((place) => !(this.ready(place) && this.atEndNow(place))));
    for (const place of this.wanted) this.run(place);
    this.tick();
  }

  atEndNow(place) {
    const video = this.videos[place];
    return video.ended && !video.seeking;
  }

  run(place) {
    const video = this.videos[place];
    video.playbackRate = this.rate;
    video.play().catch((problem) => {
      // a play() that is interrupted by a pause or a new file is not an error
      if (problem.name === "AbortError") return;
      this.pause();
      if (problem.name === "NotAllowedError") this.onBlocked();
    });
  }

  onBlocked() {}

  onJump() {}

  onStretchEnd() {}

  pause() {
    this.wanted.clear();
    this.until = null;
    for (const place of PLACES) this.videos[place].pause();
    this.changed();
  }

  /** A stretch was played to its end. */
  stop() {
    this.pause();
    this.onStretchEnd();
  }

  toggle() { if (this.playing) this.pause(); else this.play(); }

  /** Show a time of a video; a linked other one shows `beside`, as far as it reaches. */
  cue(place, start, beside) {
    this.pause();
    this.chosen = place;
    this.move(place, start);
    if (this.linked) {
      this.offset = place === "left" ? beside - start : start - beside;
      this.move(otherPlace(place), this.partner(place, start));
    }
  }

  /** Play a stretch of a video to its end. */
  playStretch(place, start, end, beside) {
    this.cue(place, start, beside);
    this.play();
    this.until = { place, end: Math.min(end, this.length(place)) };
  }

  starved(place) {
    const video = this.videos[place];
    return this.wanted.has(place) && !video.paused && !video.ended && video.readyState < 3;
  }

  tick() {
    for (const place of [...this.wanted]) {
      if (this.atEndNow(place)) this.wanted.delete(place);
    }
    if (this.until && (this.time(this.until.place) >= this.until.end || !this.wanted.has(this.until.place))) this.stop();
    if (this.linked && this.wanted.size === 2) this.together();
    this.changed();
  }

  /** While one of two linked videos waits for data, the other waits too; then drift is corrected. */
  together() {
    const [left, right] = [this.videos.left, this.videos.right];
    for (const place of PLACES) {
      const other = this.videos[otherPlace(place)];
      if (this.starved(place)) other.pause();
      else if (other.paused && !other.seeking) this.run(otherPlace(place));
    }
    if (left.seeking || right.seeking) return;
    const follower = otherPlace(this.chosen);
    const wanted = this.partner(this.chosen, this.time(this.chosen));
    if (Math.abs(this.time(follower) - wanted) > TOLERANCE_S * Math.max(1, this.rate)) this.move(follower, wanted);
  }
}
