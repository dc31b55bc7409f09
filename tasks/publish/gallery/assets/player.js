// Two videos that run together although one of them may have clips removed or moved.
"use strict";

(() => {
  const TOLERANCE_S = 0.3;

  /** Which time of the other side shows the same content; null where that was removed. */
  function mapping(lowUnits, fps) {
    const toHigh = (time) => {
      const unit = lowUnits.find((one) => one.start <= time * fps + 1e-6 && time * fps + 1e-6 < one.start + one.count);
      return unit ? unit.first / fps + (time - unit.start / fps) : null;
    };
    const toLow = (time) => {
      const unit = lowUnits.find((one) => one.first <= time * fps + 1e-6 && time * fps + 1e-6 < one.first + one.count);
      return unit ? unit.start / fps + (time - unit.first / fps) : null;
    };
    return { toHigh, toLow };
  }

  /** The leader runs by itself; the other side follows by content, or by the clock. */
  class Players {
    constructor(videos, show) {
      this.videos = videos;
      this.show = show;
      this.align = "high";
      this.rate = 2;
      this.playing = false;
      this.waiting = 0;
      for (const side of ["high", "low"]) {
        for (const name of ["seeked", "loadeddata", "timeupdate"]) {
          videos[side].addEventListener(name, () => this.tick());
        }
        videos[side].addEventListener("ended", () => { if (side === this.leading) this.pause(); });
      }
    }

    get leading() { return this.align === "low" ? "low" : "high"; }
    get following() { return this.leading === "high" ? "low" : "high"; }
    get leader() { return this.videos[this.leading]; }
    get follower() { return this.videos[this.following]; }

    /** `begin`: where the pair begins in the files of both sides, in seconds. */
    open(pair, lowUnits, time, begin) {
      this.pause();
      this.pair = pair;
      this.begin = begin;
      this.map = mapping(lowUnits, pair.fps);
      this.seek(this.leading, time);
    }

    at(side) { return this.videos[side].currentTime - this.begin[side]; }
    length(side) { return this.pair[`${side}_frames`] / this.pair.fps; }

    /** Time of the follower that belongs to a time of the leader; null where there is none. */
    partner(time) {
      if (this.align === "clock") return time < this.length("low") ? time : null;
      return this.leading === "high" ? this.map.toLow(time) : this.map.toHigh(time);
    }

    times() {
      // the file of an excerpt may continue after it
      const time = Math.min(this.target ?? this.at(this.leading), this.length(this.leading) - 0.25 / this.pair.fps);
      return { [this.leading]: time, [this.following]: this.partner(time) };
    }

    /** Go to a time of a side; where the leader has no such content, go to the nearest that it has. */
    seek(side, time) {
      let wanted = time;
      if (side !== this.leading && this.align !== "clock") {
        wanted = (side === "high" ? this.map.toLow(time) : this.map.toHigh(time));
        if (wanted === null) { this.setAlign(side); wanted = time; }
      }
      this.target = Math.min(Math.max(wanted, 0), this.length(this.leading) - 0.25 / this.pair.fps);
      this.tick();
    }

    step(count, side = this.leading) {
      this.pause();
      const now = this.times()[side] ?? 0;
      const frame = Math.floor(now * this.pair.fps + 1e-6) + count;
      this.seek(side, (Math.min(Math.max(frame, 0), this.pair[`${side}_frames`] - 1) + 0.5) / this.pair.fps);
    }

    setAlign(align) {
      const times = this.pair ? this.times() : null;
      const running = this.playing;
      this.pause();
      this.align = align;
      if (times) this.target = times[this.leading] ?? times[this.following];
      this.tick();
      if (running) this.play();
    }

    setRate(rate) {
      this.rate = rate;
      for (const video of Object.values(this.videos)) video.playbackRate = rate;
    }

    play() {
      if (this.leader.ended || this.at(this.leading) >= this.length(this.leading) - 0.3 / this.pair.fps) this.target = 0;
      this.playing = true;
      this.setRate(this.rate);
      this.tick();
      this.run(this.leader);
      const loop = () => {
        if (!this.playing) return;
        this.tick();
        this.waiting = requestAnimationFrame(loop);
      };
      loop();
    }

    run(video) {
      // a play() that a pause or a new file overtakes is not an error
      video.play().catch((problem) => { if (problem.name !== "AbortError") this.pause(); });
    }

    pause() {
      this.playing = false;
      cancelAnimationFrame(this.waiting);
      this.videos.high.pause();
      this.videos.low.pause();
      if (this.pair) this.tick();
    }

    tick() {
      if (!this.pair) return;
      const { leader, follower } = this;
      if (this.target !== undefined && leader.readyState >= 1 && !leader.seeking) {
        if (Math.abs(this.at(this.leading) - this.target) > 0.01) leader.currentTime = this.begin[this.leading] + this.target;
        else this.target = undefined;
      }
      if (this.playing && this.target === undefined && this.at(this.leading) >= this.length(this.leading)) {
        this.pause();
        return;
      }
      const times = this.times();
      const wanted = times[this.following];
      if (wanted === null) {
        if (!follower.paused) follower.pause();
      } else if (follower.readyState >= 1 && !follower.seeking) {
        const off = Math.abs(this.at(this.following) - wanted);
        if (off > (this.playing ? TOLERANCE_S * Math.max(this.rate / 2, 1) : 0.02)) follower.currentTime = this.begin[this.following] + wanted;
        if (this.playing && follower.paused) { follower.playbackRate = this.rate; this.run(follower); }
      }
      this.show(times);
    }
  }

  Object.assign(gallery, { Players, mapping });
})();
