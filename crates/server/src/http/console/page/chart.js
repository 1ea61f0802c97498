// The time line: panels under each other over one axis of time, drawn anew each second.

import { isNumber, number } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 58;
const RIGHT = 12;
const BOTTOM = 22;
const TITLE = 20;

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** The smallest of 1, 2, 5 times a power of ten that is not below. */
function nice(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return power * ([1, 2, 5].find((step) => step * power >= most) ?? 10);
}

/** Stretches of points whose value is known, as lists of places. */
function stretches(points, key, place) {
  const all = [];
  let open = null;
  for (const point of points) {
    if (isNumber(point[key])) {
      if (open === null) all.push((open = []));
      open.push(place(point));
    } else {
      open = null;
    }
  }
  return all;
}

const path = (places) => places.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/**
 * Draws points `{at_ms, ...}` in panels `{name, unit, series: [{key, name, style, dashed, area}]}`; `span_ms` up to `now_ms` are shown.
 */
export function draw(svg, points, panels, now_ms, span_ms) {
  const width = Math.max(svg.clientWidth, 280);
  const height = Math.max(svg.clientHeight, 240);
  const right = width - RIGHT;
  const each = (height - BOTTOM) / panels.length;
  const parts = [];
  const x = (at_ms) => right - ((now_ms - at_ms) / span_ms) * (right - LEFT);
  const shown = points.filter((point) => now_ms - point.at_ms <= span_ms);
  panels.forEach((panel, order) => {
    const top = order * each + TITLE;
    const bottom = (order + 1) * each - 6;
    const values = shown.flatMap((point) => panel.series.map(({ key }) => point[key])).filter(isNumber);
    const most = nice(values.reduce((a, b) => Math.max(a, b), 0));
    const y = (value) => bottom - (Math.min(value, most) / most) * (bottom - top);
    let at = LEFT;
    const name = `${panel.name}, ${panel.unit}`;
    parts.push(element("text", { x: at, y: top - 6, class: "name" }, name));
    at += name.length * 6.5 + 12;
    for (const { name: label, style, dashed } of panel.series.length > 1 ? panel.series : []) {
      parts.push(element("line", { x1: at, x2: at + 14, y1: top - 10, y2: top - 10, class: `series ${style} ${dashed ? "dashed" : ""}` }));
      parts.push(element("text", { x: at + 18, y: top - 6, class: style }, label));
      at += label.length * 6.5 + 28;
    }
    for (const part of [0, 0.5, 1]) {
      const line = y(part * most);
      parts.push(element("line", { x1: LEFT, x2: right, y1: line, y2: line, class: part ? "grid" : "axis" }));
      parts.push(element("text", { x: LEFT - 6, y: line + 4, "text-anchor": "end" }, number(part * most)));
    }
    for (const { key, style, dashed, area } of panel.series) {
      for (const places of stretches(shown, key, (point) => [x(point.at_ms), y(point[key])])) {
        if (area) {
          const [from, to] = [places[0][0], places.at(-1)[0]];
          parts.push(element("path", { d: `${path(places)}L${to} ${bottom}L${from} ${bottom}Z`, class: "area" }));
        }
        parts.push(element("path", { d: path(places), class: `series ${style} ${dashed ? "dashed" : ""}` }));
      }
    }
    if (values.length === 0) {
      parts.push(element("text", { x: (LEFT + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle" }, panel.missing));
    }
  });
  const steps = width < 500 ? [120, 60, 0] : [120, 90, 60, 30, 0];
  for (const seconds of steps.filter((seconds) => seconds * 1000 <= span_ms)) {
    const anchor = seconds === 0 ? "end" : seconds * 1000 === span_ms ? "start" : "middle";
    const label = seconds === 0 ? "now" : `${seconds} s ago`;
    parts.push(element("text", { x: x(now_ms - seconds * 1000), y: height - 6, "text-anchor": anchor }, label));
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);
}
