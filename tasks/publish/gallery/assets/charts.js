// Small bar charts as SVG, each with its numbers as a table.
"use strict";

(() => {
  const { el, svg } = gallery;

  /** A figure: title, note, key, drawing with a text alternative, and the same numbers as a table. */
  function figure({ title, note, key, drawing, alternative, head, rows, wide }) {
    const id = `chart-${title.toLowerCase().replace(/\W+/g, "-")}`;
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-labelledby", `${id} ${id}-text`);
    drawing.prepend(svg("desc", { id: `${id}-text` }, alternative));
    const cells = (row, name) => row.map((value, place) =>
      el(name, { class: place ? "number" : null, scope: name === "th" ? "col" : null }, String(value)));
    return el("figure", { class: wide ? "chart wide" : "chart" },
      el("figcaption", { id }, title),
      el("p", { class: "chart-note" }, note),
      key ? el("ul", { class: "key" }, ...key.map(([name, text]) => el("li", { class: name }, text))) : null,
      drawing,
      el("details", {}, el("summary", {}, "As a table"),
        el("div", { class: "table-box" }, el("table", {},
          el("thead", {}, el("tr", {}, ...cells(head, "th"))),
          el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row, "td"))))))));
  }

  /** Upright bars: `bars` are {label, values: [[class, number]], tip}. */
  function columns(bars) {
    const width = 560, height = 210, base = 176, left = 30;
    const most = Math.max(1, ...bars.flatMap((bar) => bar.values.map(([, value]) => value)));
    const step = (width - left) / Math.max(bars.length, 1);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}` });
    for (const value of new Set([0, Math.ceil(most / 2), most])) {
      const y = base - (base - 14) * (value / most);
      drawing.append(
        svg("line", { class: "rule", x1: left, x2: width, y1: y, y2: y }),
        svg("text", { class: "axis", x: left - 6, y: y + 4, "text-anchor": "end" }, String(value)));
    }
    const every = Math.ceil(bars.length / 12);
    bars.forEach((bar, place) => {
      const inner = Math.min(step * 0.76, 64), thick = inner / bar.values.length;
      const from = left + place * step + (step - inner) / 2;
      bar.values.forEach(([name, value], part) => {
        const tall = (base - 14) * (value / most);
        if (!value) return;
        drawing.append(svg("rect", {
          class: name, x: from + part * thick, y: base - tall, width: Math.max(thick - 1, 1), height: tall, rx: 2,
        }, svg("title", {}, bar.tip)));
      });
      if (place % every === 0) {
        drawing.append(svg("text", { class: "axis", x: left + (place + .5) * step, y: base + 18, "text-anchor": "middle" }, bar.label));
      }
    });
    return drawing;
  }

  /** Lying bars, parts one after the other: `bars` are {label, values: [[class, number]], text}. */
  function rows(bars, labelWidth = 175) {
    const width = 560, tall = 26, right = 84;
    const most = Math.max(1, ...bars.map((bar) => bar.values.reduce((sum, [, value]) => sum + value, 0)));
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${bars.length * tall + 4}` });
    bars.forEach((bar, place) => {
      const y = place * tall;
      let x = labelWidth;
      drawing.append(svg("text", { x: labelWidth - 8, y: y + 17, "text-anchor": "end" }, bar.label));
      for (const [name, value] of bar.values) {
        const long = (width - labelWidth - right) * (value / most);
        if (value) drawing.append(svg("rect", { class: name, x, y: y + 5, width: Math.max(long, 1.5), height: tall - 10, rx: 2 }));
        x += long;
      }
      drawing.append(svg("text", { class: "axis", x: x + 8, y: y + 17 }, bar.text));
    });
    return drawing;
  }

  Object.assign(gallery, { figure, columns, rows });
})();
