// The page of a source: choose a pair, watch both sides, read what was done.
"use strict";

(() => {
  const { el, byId, clock, number, plural, excerptText, keys } = gallery;
  const data = gallery.data();
  const { source, aspects, pairs } = data;
  const fps = source.fps;
  const captions = new Map();
  const POSITIONS = ["own", "early", "middle", "late"];
  const SPEEDS = [0.5, 1, 2, 4, 8, 16];
  let pair, units, timelines, shownClip = null, changeCards = [];

  const title = (aspect) => aspects[aspect]?.title ?? aspect;
  const inside = (intervals, time) => intervals.findIndex(([from, to]) => from <= time + 1e-6 && time + 1e-6 < to);
  const rearranged = () => pair.segments.some((segment) => segment.moved) || pair.low_frames !== pair.high_frames;

  // --- players ----------------------------------------------------------------------------------

  const players = source.media
    ? new gallery.Players({ high: byId("high"), low: byId("low") }, show)
    : null;
  gallery.players = players;

  function show(times) {
    if (!timelines) return;
    timelines.update(times);
    for (const side of ["high", "low"]) {
      const time = times[side];
      byId(`${side}-time`).textContent = time === null ? "–" : `${clock(time)} / ${clock(pair[`${side}_frames`] / pair.fps)}`;
      const degraded = time !== null && inside(pair[`${side}_intervals`], time) >= 0;
      document.querySelector(`.side.${side}`).classList.toggle("degraded", degraded);
      const veil = byId(`${side}-veil`);
      veil.hidden = time !== null;
      if (time === null) veil.textContent = players.align === "clock" ? "This side has ended." : "This clip was removed here.";
    }
    const side = players.leading, at = inside(pair[`${side}_intervals`], times[side]);
    const count = pair[`${side}_intervals`].length;
    const where = at >= 0 ? `Interval ${at + 1} of ${count}` : plural(count, "interval");
    if (byId("where").textContent !== where) byId("where").textContent = where;
    const play = byId("play");
    const label = players.playing ? "Pause" : "Play";
    if (play.textContent !== label) { play.textContent = label; play.setAttribute("aria-pressed", String(players.playing)); }
    if (byId("leader").value !== players.align) byId("leader").value = players.align;
    markClip(times);
  }

  function clipAt(times) {
    if (times.high !== null) {
      const frame = Math.floor(times.high * fps + 1e-6);
      return units.high.find((unit) => unit.start <= frame && frame < unit.start + unit.count)?.clip ?? null;
    }
    return null;
  }

  function markClip(times) {
    const clip = clipAt(times);
    if (clip === shownClip) return;
    captions.get(shownClip)?.classList.remove("now");
    captions.get(shownClip)?.removeAttribute("aria-current");
    shownClip = clip;
    for (const card of changeCards) card.setAttribute("aria-current", String(Number(card.dataset.clip) === clip));
    const item = captions.get(clip);
    if (!item) return;
    item.classList.add("now");
    item.setAttribute("aria-current", "true");
    if (byId("follow-caption").checked) {
      const list = byId("captions");
      list.scrollTop = item.offsetTop - list.offsetTop - 60;
    }
  }

  function jump(direction) {
    const side = players.leading, intervals = pair[`${side}_intervals`];
    if (!intervals.length) return;
    const now = players.times()[side];
    const at = inside(intervals, now);
    let to;
    if (direction > 0) {
      to = intervals.findIndex(([from]) => from > now + 1e-3);
      if (to < 0) to = 0;
    } else {
      const before = at >= 0 ? intervals[at][0] : now;
      to = intervals.findLastIndex(([from]) => from < before - 1e-3);
      if (to < 0) to = intervals.length - 1;
    }
    players.seek(side, intervals[to][0] + 0.5 / pair.fps);
  }

  function setView(view) {
    byId("viewer").dataset.mode = view;
    for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    byId("gain-box").hidden = view !== "difference";
    byId("wipe-box").hidden = view !== "wipe";
    const note = byId("stage-note");
    note.hidden = view === "side";
    note.textContent = view === "difference"
      ? `Absolute difference of both pictures, amplified: black is equal.${rearranged() && players.align !== "clock" ? " Clips were only moved or removed: the pictures themselves are the same." : ""}`
      : "High side on the left of the line, low side on the right.";
  }

  function controls() {
    byId("play").addEventListener("click", toggle);
    byId("step-back").addEventListener("click", () => players.step(-1));
    byId("step-on").addEventListener("click", () => players.step(1));
    byId("previous").addEventListener("click", () => jump(-1));
    byId("next").addEventListener("click", () => jump(1));
    byId("speed").addEventListener("change", (event) => players.setRate(Number(event.target.value)));
    byId("leader").addEventListener("change", (event) => { players.setAlign(event.target.value); setView(byId("viewer").dataset.mode); });
    for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => setView(button.dataset.view));
    byId("gain").addEventListener("input", gain);
    byId("wipe").addEventListener("input", wipe);
    for (const side of ["high", "low"]) byId(side).addEventListener("click", toggle);
    gain();
    wipe();
    keys({
      " ": toggle, ArrowLeft: () => players.step(-1), ArrowRight: () => players.step(1),
      p: () => jump(-1), n: () => jump(1),
      s: () => setView("side"), d: () => setView("difference"), w: () => setView("wipe"),
      "[": () => speed(-1), "]": () => speed(1),
      l: () => players.setAlign(players.leading === "high" ? "low" : "high"),
    });
  }

  function toggle() { if (players.playing) players.pause(); else players.play(); }
  function gain() {
    byId("stage").style.setProperty("--gain", byId("gain").value);
    byId("gain-value").textContent = `${byId("gain").value}×`;
  }
  function wipe() { byId("stage").style.setProperty("--wipe", `${byId("wipe").value}%`); }
  function speed(by) {
    const to = SPEEDS[Math.min(Math.max(SPEEDS.indexOf(players.rate) + by, 0), SPEEDS.length - 1)];
    byId("speed").value = String(to);
    players.setRate(to);
  }

  /** Where a clip begins and ends in the high video, in seconds. */
  function span(clip) {
    const first = clip.first - pair.first;
    return [first / fps, (first + clip.count) / fps];
  }

  // --- what was done ----------------------------------------------------------------------------

  function changes() {
    const low = new Map(units.low.filter((unit) => unit.clip !== null).map((unit) => [unit.clip, unit]));
    changeCards = pair.drawn.map((index) => {
      const clip = source.clips.find((one) => one.clip === index);
      const there = low.get(index);
      const column = pair.sheet_clips.indexOf(index);
      const picture = el("span", { class: "picture" });
      if (source.media && column >= 0) {
        // the sheet holds all clips side by side: show one column of it
        const image = el("img", { src: `../${pair.sheet}`, alt: "", loading: "lazy" });
        const many = pair.sheet_clips.length;
        image.addEventListener("load", () => {
          const tile = (image.naturalWidth - (many - 1) * 4) / many;
          picture.style.aspectRatio = `${tile} / ${image.naturalHeight}`;
          image.style.left = `${-column * (tile + 4) / tile * 100}%`;
        });
        picture.append(image);
      }
      const [from, to] = span(clip);
      const notes = [];
      if (!there) notes.push("removed");
      else if (there.moved) notes.push(`now at ${clock(there.start / fps)}`);
      if (there?.difference != null) notes.push(`mean difference ${there.difference.toFixed(1)} of 255`);
      const choice = pair.choices[String(index)];
      if (choice) notes.push(Object.entries(choice).map(([name, value]) => `${name}: ${words(value)}`).join(", "));
      if (there?.kind === "degraded" && !there.artifact) notes.push("other frames of the clip are shown");
      return el("button", { type: "button", class: "change", "data-clip": index, onclick: () => players?.seek("high", from + 0.5 / fps) },
        picture, el("span", { class: "change-text" },
          el("b", {}, `Clip ${index + 1} · ${clock(from)}–${clock(to)}`), el("span", {}, notes.join(" · "))));
    });
    byId("changes").replaceChildren(...changeCards);
  }

  function words(value) {
    return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
  }

  function list(rows) {
    return el("dl", { class: "facts" }, ...rows.filter(([, value]) => value !== "" && value != null).map(([name, value, mono]) =>
      el("div", {}, el("dt", {}, name), el("dd", { class: mono ? "mono" : null, dir: "auto" }, value))));
  }

  function facts() {
    const parameters = Object.entries(pair.parameters).map(([name, value]) => `${name} = ${words(value)}`).join("\n");
    const passed = Object.values(pair.passed_over);
    byId("facts").replaceChildren(list([
      ["Aspect", `${title(pair.aspect)} (dimension ${pair.dimension}, ${pair.category})`],
      ["Operation", `${pair.operation}, version ${pair.operation_version}`],
      ["Strength", pair.strength],
      ["Parameters", parameters ? el("pre", { class: "mono parameters" }, parameters) : "none"],
      ["Clips", `${pair.drawn.length} of ${source.clips.length}: ${pair.drawn.map((clip) => clip + 1).join(", ")}`],
      ["Passed over", passed.length ? el("ul", { class: "plain" }, ...passed.map((text) => el("li", {}, text))) : ""],
      ["Length", `${clock(pair.high_s)} high, ${clock(pair.low_s)} low; ${number(pair.high_frames)} and ${number(pair.low_frames)} frames at ${pair.fps} a second`],
      ["Excerpt", pair.excerpt ? `${excerptText(pair.excerpt)}: from ${clock(pair.first / fps)} of the film, middle of the damage at ${Math.round(100 * pair.damage_at)} %` : ""],
      ["Duration bin", `from ${clock(pair.bin_s)}`],
      ["Seed", pair.seed, true],
      ["Pair", pair.id, true],
      ["High frames", pair.high_checksum, true],
      ["Low frames", pair.low_checksum, true],
      ["Recipe", data.release.recipe],
    ]));
  }

  // --- page -------------------------------------------------------------------------------------

  function open() {
    const slug = location.hash.slice(1);
    pair = pairs.find((one) => one.slug === slug) ?? pairs.find((one) => !one.excerpt) ?? pairs[0];
    units = { high: gallery.sourceUnits(source.clips, pair.first, pair.high_frames), low: gallery.lowUnits(pair.segments) };
    document.title = `${title(pair.aspect)} · ${source.title} · SLVMEval gallery`;
    byId("pair-title").textContent = title(pair.aspect) + (pair.control ? ", control" : pair.excerpt ? `, excerpt of ${excerptText(pair.excerpt)}` : "");
    byId("pair-text").textContent = pair.control ? "A control: the low side is edited so that no side is better."
      : `${aspects[pair.aspect]?.text ?? ""}${pair.excerpt ? ` Both sides show ${clock(pair.high_s)} of ${clock(source.frame_count / fps)} around the same damage.` : ""}`;
    for (const chip of document.querySelectorAll(".chip")) {
      if (chip.dataset.slug === pair.slug) chip.setAttribute("aria-current", "page"); else chip.removeAttribute("aria-current");
    }
    let excerpts = 0;
    for (const chip of byId("excerpt-chips").children) {
      chip.hidden = chip.dataset.aspect !== pair.aspect;
      excerpts += chip.hidden ? 0 : 1;
    }
    byId("excerpts").hidden = !excerpts;
    byId("prompt-note").textContent = `${pair.excerpt ? "The captions of the excerpt's clips" : "All captions in clip order"}. Both videos share it.`;
    source.clips.forEach((clip) => {
      const item = captions.get(clip.clip), [from, to] = span(clip);
      item.hidden = Boolean(pair.excerpt) && (from < 0 || from >= pair.high_s);
      item.classList.toggle("drawn", pair.drawn.includes(clip.clip));
      item.querySelector(".caption-time").textContent = `Clip ${clip.clip + 1} · ${clip.count ? `${clock(from)}–${clock(to)}` : "no frames"}`;
    });
    changes();
    facts();
    timelines?.close();
    timelines = new gallery.Timelines(byId("timelines"), {
      pair, units,
      seek: (side, time) => players?.seek(side, time),
      step: (side, count) => players?.step(count, side),
    });
    byId("leader-box").hidden = !rearranged();
    if (!players) { timelines.update({ high: 0, low: 0 }); return; }
    players.pair = undefined;
    players.align = "high";
    byId("low").src = `../${source.media}/${pair.video}.mp4`;
    shownClip = null;
    const begin = { high: pair.first / fps, low: pair.video_first / fps };
    players.open(pair, units.low, (pair.high_intervals[0]?.[0] ?? 0) + 0.5 / pair.fps, begin);
    setView(byId("viewer").dataset.mode);
  }

  function chips() {
    const several = {};
    const whole = pairs.filter((one) => !one.excerpt);
    for (const one of whole) several[one.aspect] = (several[one.aspect] ?? 0) + 1;
    const chip = (one, text, small) => el("a", { class: "chip", href: `#${one.slug}`, "data-slug": one.slug, "data-aspect": one.aspect },
      text, small ? el("small", {}, small) : null);
    byId("pair-chips").append(...whole.map((one) =>
      chip(one, title(one.aspect), several[one.aspect] > 1 ? `${one.strength}, ${plural(one.drawn.length, "clip")}` : "")));
    const excerpts = pairs.filter((one) => one.excerpt).sort((one, other) => other.excerpt.share - one.excerpt.share
      || POSITIONS.indexOf(one.excerpt.position) - POSITIONS.indexOf(other.excerpt.position));
    byId("excerpt-chips").append(...excerpts.map((one) => chip(one, excerptText(one.excerpt), clock(one.high_s))));
  }

  function prompt() {
    const { width, height, columns } = source.strip;
    source.clips.forEach((clip, place) => {
      const picture = el("span", { class: "caption-picture", "aria-hidden": "true" });
      if (source.media) {
        const small = 0.75;
        Object.assign(picture.style, {
          width: `${width * small}px`, height: `${height * small}px`,
          backgroundImage: `url("../${source.media}/clips.jpg")`, backgroundSize: `${width * columns * small}px auto`,
          backgroundPosition: `${-(place % columns) * width * small}px ${-Math.floor(place / columns) * height * small}px`,
        });
      }
      const item = el("li", {}, picture, el("div", {},
        el("button", { type: "button", class: "caption-time", onclick: () => players?.seek("high", span(clip)[0] + 0.5 / fps) }),
        el("p", { dir: "auto" }, clip.caption || (source.hidden ? "" : "–"))));
      captions.set(clip.clip, item);
      byId("captions").append(item);
    });
  }

  function about() {
    byId("crumb-source").textContent = source.title;
    byId("source-facts").append(list([
      ["Title", source.title], ["Credit", source.credit],
      ["Licence", `${source.licence}${source.redistributable ? "" : ", not to be redistributed"}`],
      ["Category", source.content_category || "–"], ["Data set", source.adapter],
      ["Size", `${clock(source.duration_s)}, stored as ${number(source.frame_count)} frames of ${source.width}×${source.height}`],
      ...(source.damage ? [["Damage", source.damage]] : []),
      ["Prompt", `${plural(source.clips.length, "clip")}, ${plural(source.prompt_characters, "character")}`],
      ["Source id", source.id, true], ["Content", source.content_sha256, true], ["Frames", source.frames_checksum, true],
    ]));
    document.documentElement.style.setProperty("--ratio", `${source.width} / ${source.height}`);
    if (source.hidden) {
      byId("hidden-note").textContent = source.hidden;
      byId("hidden-note").hidden = false;
      document.querySelectorAll(".stage, .controls, .prompt").forEach((part) => { part.hidden = true; });
    }
  }

  about();
  chips();
  prompt();
  if (players) {
    for (const side of ["high", "low"]) {
      byId(side).addEventListener("error", () => {
        byId("hidden-note").textContent = `The ${side} video cannot be played. Is the folder "media" still beside these pages?`;
        byId("hidden-note").hidden = false;
      });
    }
    byId("high").src = `../${source.media}/high.mp4`;
    controls();
  }
  open();
  window.addEventListener("hashchange", open);
})();
