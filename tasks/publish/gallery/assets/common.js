// What all pages share: elements, numbers, the help. Text from the data only ever
// becomes text nodes.
"use strict";

const gallery = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  /** Make an element; `children` are elements or strings, and strings become text. */
  function el(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
  }

  function svg(name, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
  }

  function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const byId = (id) => document.getElementById(id);

  /** Seconds as 1:02:03 or 2:03. */
  function clock(seconds) {
    const whole = Math.floor(seconds + 1e-6);
    const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    const tail = String(parts[2]).padStart(2, "0");
    return parts[0] ? `${parts[0]}:${String(parts[1]).padStart(2, "0")}:${tail}` : `${parts[1]}:${tail}`;
  }

  function bytes(count) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let value = count, unit = 0;
    while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
  }

  const number = (value) => value.toLocaleString("en");
  /** How much of its source an excerpt has, and where the damage is in it. */
  const excerptText = ({ share, position }) => `${number(100 * share)} %${position === "own" ? "" : `, ${position} damage`}`;
  const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

  /** Call the function that belongs to a key, unless the reader is typing. */
  function keys(actions) {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target;
      const typing = target.matches?.("input:not([type=range]):not([type=checkbox]), textarea, select");
      if (typing || document.querySelector("dialog[open]")) return;
      const pressing = target.matches?.("button, a, summary, input");
      if (event.key === " " && pressing) return;
      if (event.key.startsWith("Arrow") && target.matches?.("input, [role=slider]")) return;
      const action = actions[event.key];
      if (action) { event.preventDefault(); action(); }
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const help = byId("help");
    byId("help-open").addEventListener("click", () => help.showModal());
    help.addEventListener("click", (event) => { if (event.target === help) help.close(); });
    keys({ "?": () => help.showModal(), t: pageTheme.toggle });
  });

  const data = () => JSON.parse(byId("data").textContent);
  return { el, svg, byId, clock, bytes, number, plural, excerptText, keys, data };
})();
