// The time lines of both sides, one above the other, with bands from each clip to where it went.
"use strict";

(() => {
  const { svg, clock } = gallery;
  const LANE = 26, BETWEEN = 46, TOP = 18, LABEL = 16;

  /** Units of a high side that begins at a frame of the source: clips and the intervals between them, in frames. */
  function sourceUnits(source, first, frames) {
    const units = [];
    let place = 0;
    const inside = source.map((clip) => ({ ...clip, first: clip.first - first })).filter((clip) => clip.first >= 0 && clip.first < frames);
    for (const clip of inside.filter((one) => one.count)) {
      if (clip.first > place) units.push({ clip: null, first: place, count: clip.first - place });
      units.push({ clip: clip.clip, first: clip.first, count: clip.count });
      place = clip.first + clip.count;
    }
    if (place < frames) units.push({ clip: null, first: place, count: frames - place });
    return units.map((unit) => ({ ...unit, start: unit.first }));
  }

  /** Segments of the low side with the frame at which each begins there. */
  function lowUnits(segments) {
    let place = 0;
    return segments.map((segment) => {
      const unit = { ...segment, start: place };
      place += segment.count;
      return unit;
    });
  }

  class Timelines {
    constructor(box, { pair, units, seek, step }) {
      Object.assign(this, { box, pair, units, seek, step });
      this.heads = {};
      this.observer = new ResizeObserver(() => this.draw());
      this.observer.observe(box);
      this.draw();
    }

    close() { this.observer.disconnect(); this.box.replaceChildren(); }

    draw() {
      const width = Math.max(this.box.clientWidth, 200);
      const { pair, units } = this;
      const frames = Math.max(pair.high_frames, pair.low_frames);
      this.scale = (frame) => frame / frames * width;
      const height = TOP + 2 * LANE + BETWEEN + 2 * LABEL;
      const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
      const y = { high: TOP, low: TOP + LANE + BETWEEN };
      root.append(this.bands(y));
      for (const side of ["high", "low"]) root.append(this.lane(side, units[side], y[side], width));
      root.append(this.ticks(TOP + 2 * LANE + BETWEEN + 14, frames, width));
      const focused = this.box.contains(document.activeElement) ? document.activeElement.dataset.side : null;
      this.box.replaceChildren(root);
      if (focused) root.querySelector(`[data-side="${focused}"]`).focus();
      if (this.times) this.update(this.times);
    }

    bands(y) {
      const group = svg("g", { "aria-hidden": "true" });
      const low = new Map(this.units.low.filter((unit) => unit.clip !== null).map((unit) => [unit.clip, unit]));
      const drawn = new Set(this.pair.drawn);
      const top = y.high + LANE + 2, bottom = y.low - 2;
      let join = 0;
      const quiet = [], loud = [];
      for (const unit of this.units.high) {
        const [a, b] = [this.scale(unit.start), this.scale(unit.start + unit.count)];
        const there = unit.clip === null ? null : low.get(unit.clip);
        if (unit.clip !== null && !there) {
          const at = this.scale(join);
          loud.push(svg("path", { class: "ribbon gone", d: `M${a} ${top}H${b}L${at + 1} ${bottom}H${at - 1}Z` }));
          continue;
        }
        const start = there ? there.start : join;
        join = start + unit.count;
        if (!there) continue;
        const [c, d] = [this.scale(start), this.scale(start + unit.count)];
        const middle = (top + bottom) / 2;
        const path = `M${a} ${top}H${b}C${b} ${middle} ${d} ${middle} ${d} ${bottom}H${c}C${c} ${middle} ${a} ${middle} ${a} ${top}Z`;
        (drawn.has(unit.clip) ? loud : quiet).push(svg("path", { class: drawn.has(unit.clip) ? "ribbon moved" : "ribbon", d: path }));
      }
      group.append(...quiet, ...loud);
      return group;
    }

    lane(side, units, y, width) {
      const frames = this.pair[`${side}_frames`], fps = this.pair.fps;
      const end = this.scale(frames);
      const lane = svg("g", {
        class: "lane", role: "slider", tabindex: 0, "data-side": side,
        "aria-label": side === "high" ? "Time line of the high side" : "Time line of the low side",
        "aria-valuemin": 0, "aria-valuemax": Math.round(frames / fps), "aria-valuenow": 0,
      });
      lane.append(svg("rect", { class: "gap", x: 0, y, width: end, height: LANE }));
      for (const unit of units) {
        if (unit.clip === null) continue;
        const x = this.scale(unit.start), wide = this.scale(unit.count);
        const rect = svg("rect", { class: unit.clip % 2 ? "clip odd" : "clip", x, y, width: Math.max(wide - .75, .5), height: LANE });
        rect.append(svg("title", {}, `Clip ${unit.clip + 1}, ${clock(unit.start / fps)}–${clock((unit.start + unit.count) / fps)}`));
        lane.append(rect);
      }
      for (const [from, to] of this.pair[`${side}_intervals`]) {
        const x = this.scale(from * fps), wide = Math.max(this.scale((to - from) * fps), 2);
        const edge = side === "high" ? y - 5 : y + LANE + 1;
        lane.append(svg("rect", { class: "mark-fill", x, y, width: wide, height: LANE, "pointer-events": "none" }),
          svg("rect", { class: "mark", x, y: edge, width: wide, height: 4 }));
      }
      const current = svg("rect", { class: "current", y: y + .75, height: LANE - 1.5, visibility: "hidden", "pointer-events": "none" });
      const head = svg("g", { "pointer-events": "none" },
        svg("line", { class: "head", x1: 0, x2: 0, y1: y - 3, y2: y + LANE + 3 }),
        svg("circle", { class: "head-knob", cx: 0, cy: side === "high" ? y - 4 : y + LANE + 4, r: 4.5 }));
      lane.append(svg("rect", { class: "frame", x: .5, y: y + .5, width: Math.max(end - 1, 1), height: LANE - 1 }), current, head);
      const go = (event) => {
        const box = lane.ownerSVGElement.getBoundingClientRect();
        const frame = (event.clientX - box.left) / box.width * width / this.scale(1);
        this.seek(side, Math.min(Math.max(frame, 0), frames - .5) / fps);
      };
      lane.addEventListener("pointerdown", (event) => { lane.setPointerCapture(event.pointerId); go(event); });
      lane.addEventListener("pointermove", (event) => { if (event.buttons & 1) go(event); });
      lane.addEventListener("keydown", (event) => {
        const jump = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10 }[event.key];
        if (jump) this.step(side, jump);
        else if (event.key === "Home") this.seek(side, 0);
        else if (event.key === "End") this.seek(side, (frames - .5) / fps);
        else return;
        event.preventDefault();
      });
      this.heads[side] = { lane, head, current };
      return lane;
    }

    ticks(y, frames, width) {
      const group = svg("g", { "aria-hidden": "true" });
      const seconds = frames / this.pair.fps;
      const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
      const step = steps.find((one) => seconds / one <= width / 70) ?? 7200;
      for (let at = 0; at <= seconds; at += step) {
        const x = this.scale(at * this.pair.fps);
        if (x > width - 12 && at) break;
        group.append(svg("text", { class: "tick", x: Math.max(x, 0), y, "text-anchor": at ? "middle" : "start" }, clock(at)));
      }
      return group;
    }

    /** Put the play heads; a side that shows nothing (its clip was removed) has the time null. */
    update(times) {
      this.times = times;
      for (const side of ["high", "low"]) {
        const { lane, head, current } = this.heads[side];
        const time = times[side], fps = this.pair.fps;
        head.setAttribute("visibility", time === null ? "hidden" : "visible");
        if (time === null) { current.setAttribute("visibility", "hidden"); continue; }
        head.setAttribute("transform", `translate(${this.scale(time * fps)} 0)`);
        const frame = Math.floor(time * fps + 1e-6);
        const unit = this.units[side].find((one) => one.start <= frame && frame < one.start + one.count);
        current.setAttribute("visibility", unit?.clip == null ? "hidden" : "visible");
        if (unit) {
          current.setAttribute("x", this.scale(unit.start));
          current.setAttribute("width", Math.max(this.scale(unit.count), 2));
        }
        lane.setAttribute("aria-valuenow", Math.floor(time));
        const inside = this.pair[`${side}_intervals`].some(([from, to]) => from <= time && time < to);
        lane.setAttribute("aria-valuetext", `${clock(time)}${unit?.clip == null ? "" : `, clip ${unit.clip + 1}`}${inside ? ", degraded" : ""}`);
      }
    }
  }

  Object.assign(gallery, { Timelines, sourceUnits, lowUnits });
})();
