// The first page: filter and list the pairs, draw the statistics, fill the tables.
"use strict";

(() => {
  const { el, byId, clock, bytes, number, plural, excerptText, keys } = gallery;
  const data = gallery.data();
  const { aspects, sources, statistics } = data;
  const pairs = data.pairs.filter((pair) => !pair.excerpt), excerpts = data.pairs.filter((pair) => pair.excerpt);
  const PAGE = 60;
  const state = { aspect: "", source: "", show: pairs.length ? "pairs" : "excerpts", group: sources.length < 3 ? "source" : "aspect", search: "", shown: PAGE };

  const title = (aspect) => aspects[aspect]?.title ?? aspect;

  function figures() {
    const seconds = pairs.reduce((sum, pair) => sum + pair.high_s + pair.low_s, 0);
    const built = new Set(pairs.map((pair) => pair.aspect)).size;
    for (const [name, value] of [
      ["Pairs", number(pairs.length)],
      ...(excerpts.length ? [["Excerpts", number(excerpts.length)]] : []),
      ["Aspects", `${built} of ${Object.keys(aspects).length}`],
      ["Sources", number(sources.length)],
      ["Total duration", clock(seconds)],
      ["Degraded clips", number(pairs.reduce((sum, pair) => sum + pair.drawn.length, 0))],
      ...statistics.facts,
    ]) byId("figures").append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  }

  // --- pairs ------------------------------------------------------------------------------------

  const listed = () => (state.show === "excerpts" ? excerpts : pairs);

  function chosen() {
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    return listed().filter((pair) => {
      if (state.aspect && pair.aspect !== state.aspect) return false;
      if (state.source !== "" && pair.source !== Number(state.source)) return false;
      const source = sources[pair.source];
      const text = `${source.title} ${source.id} ${source.content_category} ${title(pair.aspect)} ${pair.operation} ${pair.strength} ${pair.control ? "control" : ""} ${pair.excerpt ? excerptText(pair.excerpt) : ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  function card(pair) {
    const source = sources[pair.source];
    const name = state.group === "aspect" ? source.title : title(pair.aspect);
    const label = `${title(pair.aspect)}: ${source.title}`;
    const length = pair.low_s === pair.high_s ? clock(pair.high_s) : `${clock(pair.high_s)} → ${clock(pair.low_s)}`;
    const sheet = pair.sheet
      ? el("span", { class: "sheet" },
        el("img", { src: pair.sheet, loading: "lazy", decoding: "async", alt: "" }),
        el("span", { class: "tag tag-high", "aria-hidden": "true" }, "High"),
        el("span", { class: "tag tag-low", "aria-hidden": "true" }, pair.control ? "Edited" : "Low"))
      : el("span", { class: "sheet" }, el("p", {}, source.hidden));
    return el("li", {}, el("article", { class: "card" }, sheet,
      el("div", { class: "card-text" },
        el("h3", { dir: "auto" }, el("a", { href: `${source.page}#${pair.slug}`, "aria-label": label }, name)),
        el("p", {}, `${plural(pair.drawn.length, "clip")} ${pair.control ? "edited" : "degraded"} · ${clock(pair.degraded_s)} of ${length}`),
        el("p", {}, pair.control ? el("span", { class: "tag", title: "The edit makes no side better" }, "Control") : null,
          pair.excerpt ? el("span", { class: "tag", title: "Both sides show a part of the film around the damage" }, `Excerpt, ${excerptText(pair.excerpt)}`) : null,
          pair.excerpt ? ` ${pair.operation}` : pair.control ? ` ${pair.operation}` : `${pair.operation} · strength ${pair.strength}`))));
  }

  function list() {
    const found = chosen();
    const groups = new Map();
    for (const pair of found.slice(0, state.shown)) {
      const key = state.group === "aspect" ? pair.aspect : pair.source;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(pair);
    }
    const ordered = [...groups].sort((one, other) => state.group === "source" ? one[0] - other[0] : 0);
    byId("pair-list").replaceChildren(...ordered.map(([key, members]) => {
      const heading = state.group === "aspect" ? title(key) : sources[key].title;
      const note = state.group === "aspect" ? aspects[key]?.text ?? "" : `${clock(sources[key].duration_s)} · ${sources[key].licence}`;
      return el("section", { class: "group" },
        el("div", { class: "group-head" }, el("h3", { dir: "auto" }, heading), el("p", {}, note)),
        el("ul", { class: "cards" }, ...members.map(card)));
    }));
    if (!found.length) byId("pair-list").append(el("p", { class: "quiet" }, "No pair fits. Change the filter."));
    const all = plural(listed().length, state.show === "excerpts" ? "excerpt" : "pair");
    byId("pairs-count").textContent = found.length === listed().length ? all : `${number(found.length)} of ${all}`;
    byId("more").hidden = found.length <= state.shown;
    for (const chip of byId("aspect-chips").children) {
      chip.setAttribute("aria-pressed", String(chip.dataset.aspect === state.aspect));
      const members = listed().filter((pair) => !chip.dataset.aspect || pair.aspect === chip.dataset.aspect);
      chip.lastChild.textContent = number(members.length);
    }
  }

  function change(values) {
    Object.assign(state, { shown: PAGE }, values);
    byId("group-by").value = state.group;
    list();
  }

  function filters() {
    const there = new Set(data.pairs.map((pair) => pair.aspect));
    const chip = (name, text) => el("button", {
      type: "button", class: "chip", "data-aspect": name, onclick: () => change({ aspect: name }),
    }, text, el("small", {}));
    byId("aspect-chips").append(chip("", "All"),
      ...Object.keys(aspects).filter((name) => there.has(name)).map((name) => chip(name, title(name))));
    byId("source-filter").append(el("option", { value: "" }, `all ${number(sources.length)}`),
      ...sources.map((source, place) => el("option", { value: place }, source.title)));
    byId("source-filter").addEventListener("change", (event) => change({ source: event.target.value }));
    byId("group-by").value = state.group;
    byId("group-by").addEventListener("change", (event) => change({ group: event.target.value }));
    byId("show-box").hidden = !excerpts.length;
    byId("show").value = state.show;
    byId("show").addEventListener("change", (event) => change({ show: event.target.value }));
    byId("search").addEventListener("input", (event) => change({ search: event.target.value }));
    byId("more").addEventListener("click", () => { state.shown += PAGE; list(); });
    keys({
      "/": () => byId("search").focus(),
      g: () => change({ group: state.group === "aspect" ? "source" : "aspect" }),
    });
  }

  // --- statistics -------------------------------------------------------------------------------

  function charts() {
    const wide = statistics.bin_s;
    const categories = statistics.content_categories;
    const bins = statistics.bins.map((bin) => ({ ...bin, label: clock(bin.from_s) }));
    const names = Object.keys(aspects);
    const missing = (aspect) => Math.max(aspect.planned - aspect.built - aspect.set_aside, 0);
    const sizes = [
      ["Degraded clips", statistics.degraded_bytes, "b"],
      ["Index and edit lists", statistics.index_bytes, "b"],
      ["Source frames (cache)", statistics.frames_bytes, "a"],
      ["Encoded sources (cache)", statistics.encoded_bytes, "a"],
      ["Full copies instead", statistics.full_copies_bytes, "c"],
    ];
    byId("charts").append(
      gallery.figure({
        title: "Pairs by aspect", note: "Planned pairs: built, set aside with a reason, or not tried yet.",
        key: [["a", "built"], ["b", "set aside"], ["c", "open"]],
        drawing: gallery.rows(names.map((name) => ({
          label: title(name), text: `${aspects[name].built} of ${aspects[name].planned}`,
          values: [["a", aspects[name].built], ["b", aspects[name].set_aside], ["c", missing(aspects[name])]],
        }))),
        alternative: names.map((name) => `${title(name)}: ${aspects[name].built} built, ${aspects[name].set_aside} set aside`).join("; "),
        head: ["Aspect", "Planned", "Built", "Set aside", "Reasons"],
        rows: names.map((name) => [title(name), aspects[name].planned, aspects[name].built, aspects[name].set_aside,
          Object.entries(aspects[name].reasons).map(([reason, count]) => `${reason} ${count}`).join(", ") || "–"]),
      }),
      gallery.figure({
        title: "Duration of sources", note: `Sources and their pairs in bins of ${clock(wide)}, by where the bin begins.`,
        key: [["a", "sources"], ["b", "pairs"]],
        drawing: gallery.columns(bins.map((bin) => ({
          label: bin.label, values: [["a", bin.sources], ["b", bin.pairs]],
          tip: `${clock(bin.from_s)} to ${clock(bin.from_s + wide)}: ${plural(bin.sources, "source")}, ${plural(bin.pairs, "pair")}`,
        }))),
        alternative: bins.filter((bin) => bin.sources || bin.pairs).map((bin) => `from ${clock(bin.from_s)}: ${plural(bin.sources, "source")}, ${plural(bin.pairs, "pair")}`).join("; "),
        head: ["From", "Sources", "Pairs"],
        rows: bins.map((bin) => [clock(bin.from_s), bin.sources, bin.pairs]),
      }),
      ...(categories.length ? [gallery.figure({
        title: "Content categories", note: "Sources by what kind of video they are, and their pairs.",
        drawing: gallery.rows(categories.map((one) => ({
          label: one.category, text: plural(one.sources, "source"), values: [["a", one.sources]],
        }))),
        alternative: categories.map((one) => `${one.category}: ${plural(one.sources, "source")}, ${plural(one.pairs, "pair")}`).join("; "),
        head: ["Category", "Sources", "Pairs"],
        rows: categories.map((one) => [one.category, one.sources, one.pairs]),
      })] : []),
      gallery.figure({
        title: "Bytes on the disk", wide: true,
        note: "The product is orange; what can be made again from the sources is blue. Grey is what full copies of the low-quality videos would take in the same coding.",
        drawing: gallery.rows(sizes.map(([label, value, name]) => ({ label, text: bytes(value), values: [[name, value]] }))),
        alternative: sizes.map(([label, value]) => `${label}: ${bytes(value)}`).join("; "),
        head: ["What", "Bytes"],
        rows: sizes.map(([label, value]) => [label, number(value)]),
      }));
  }

  // --- tables -----------------------------------------------------------------------------------

  function table(head, rows) {
    return el("div", { class: "table-box" }, el("table", { class: "stack" },
      el("thead", {}, el("tr", {}, ...head.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, place) =>
        el("td", { "data-label": place ? head[place] : null, dir: "auto" }, cell)))))));
  }

  function setAside() {
    const rows = data.set_aside;
    byId("set-aside-count").textContent = plural(rows.length, "item");
    byId("set-aside-list").append(rows.length
      ? table(["Source", "Aspect", "Stage", "Reason", "What was wrong, and what to do"], rows.map((row) => [
        row.location || sources.find((source) => source.id === row.source)?.title || row.source, row.aspect ? title(row.aspect) : "all", row.stage,
        el("span", { class: "reason" }, row.reason), row.message || "–"]))
      : el("p", { class: "quiet" }, "Nothing: every planned pair was built."));
  }

  function credits() {
    byId("source-list").append(table(["Source", "Category", "Credit", "Licence", "Duration", "Pairs"], sources.map((source) => [
      el("a", { href: source.page }, source.title),
      source.content_category || "–",
      source.credit || "–",
      `${source.licence}${source.redistributable ? "" : " · not to be redistributed"}`,
      `${clock(source.duration_s)}${source.damage ? ` · ${source.damage}` : ""}`, number(source.pairs)])));
  }

  figures();
  filters();
  list();
  charts();
  setAside();
  credits();
})();
