/** Small helpers that every part of the task page uses. */

export const $ = (id) => document.getElementById(id);

/** Make an element: aria-, data-, lang and role become attributes; children are text or nodes. */
export function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (/^(aria-|data-|lang$|role$)/.test(name)) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** 754.2 → "12:34"; hours are included if there are any. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds + 1e-6));
  const two = (number) => String(number).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** Fill the placeholders of a text: fill("{a} of {b}", {a: 1, b: 2}). */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

/** Announce a text to screen readers; the same text twice is announced twice. */
export function tell(text) {
  const region = $("announcement");
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}

export const otherPlace = (place) => (place === "left" ? "right" : "left");
//: The places that the page has; a video that is rated alone is at the left.
export const PLACES = ["left", "right"].filter((place) => $(place));
