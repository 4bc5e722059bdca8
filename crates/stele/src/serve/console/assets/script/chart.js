// Line charts over time, drawn as SVG. Each is read with a pointer, with the arrow keys, or as a table.

import { clock } from "./format.js";
import { fill, h, s } from "./dom.js";

const HEIGHT = 168;
const LEFT = 58;
const BOTTOM = 20;
const TOP = 8;
const ROWS = 15;

/**
 * Returns a chart of `series`, each `{ name, tone, of }`, where `of` takes a sample and returns its value.
 * `format` writes a value; `log` makes the scale logarithmic, `binary` rounds it to powers of two; `most` is the least upper end.
 * `actions` stand at the end of the title.
 */
export function chart({ title, series, format, log = false, binary = false, most = 0, limit = Infinity, note, actions }) {
  const svg = s("svg", { height: HEIGHT, "aria-hidden": "true" });
  const readout = h("div", { class: "readout", hidden: true });
  const plot = h("div", { class: "plot", tabindex: 0, role: "slider", "aria-label": `${title}: moment`, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, "aria-valuetext": "no samples yet" }, svg, readout);
  const legend = h("ul", { class: "legend" });
  const table = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}: table` });
  const details = h("details", { class: "as-table" }, h("summary", {}, "As a table"), table);
  const element = h("figure", { class: "card", "aria-label": title },
    h("div", { class: "card-head" }, h("h2", {}, title), note ? h("span", { class: "card-note" }, note) : null,
      actions ? h("div", { class: "end" }, actions) : null),
    legend, plot, details);
  let data = { samples: [], from: 0, to: 1 };
  let at = -1;
  let scale = null;

  function draw() {
    const width = Math.max(plot.clientWidth, 120);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    scale = scaled(data, series, width, { log, binary, most, limit });
    const parts = [...rules(scale, width, format), ...times(scale, width)];
    if (scale.empty) {
      parts.push(s("text", { class: "none", x: LEFT + (width - LEFT) / 2, y: HEIGHT / 2 - 4, "text-anchor": "middle" }, "No data in the last 15 minutes"));
    }
    for (const one of series) parts.push(...lines(one, data.samples, scale, series.length === 1));
    parts.push(...cursor());
    fill(svg, parts);
  }

  function cursor() {
    const sample = data.samples[at];
    if (!sample) return [];
    const x = scale.x(sample.at_ms);
    const marks = series.map((one) => [one, one.of(sample)]).filter(([, value]) => shown(value, log));
    return [
      s("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }),
      ...marks.map(([one, value]) => s("circle", { class: `mark tone-${one.tone}`, cx: x, cy: scale.y(value), r: 3.5 })),
    ];
  }

  function point(index) {
    at = Math.max(-1, Math.min(index, data.samples.length - 1));
    const sample = data.samples[at];
    readout.hidden = !sample;
    if (sample) {
      fill(readout, h("p", {}, clock(sample.at_ms)), h("ul", {}, series.map((one) =>
        h("li", {}, swatch(one), one.name, h("b", {}, format(one.of(sample)))))));
      const x = scale.x(sample.at_ms);
      const room = plot.clientWidth - readout.offsetWidth;
      readout.style.left = `${Math.max(0, x + 12 > room ? Math.min(x - 12 - readout.offsetWidth, room) : x + 12)}px`;
    }
    describe(sample ?? data.samples.at(-1), sample ? at : data.samples.length - 1);
    draw();
  }

  function describe(sample, index) {
    plot.setAttribute("aria-valuemax", String(Math.max(0, data.samples.length - 1)));
    plot.setAttribute("aria-valuenow", String(Math.max(0, index)));
    const text = sample ? `${clock(sample.at_ms)}: ${series.map((one) => `${one.name} ${format(one.of(sample))}`).join(", ")}` : "no samples yet";
    plot.setAttribute("aria-valuetext", text);
  }

  plot.addEventListener("pointermove", (event) => {
    const x = event.clientX - plot.getBoundingClientRect().left;
    point(nearest(data.samples, scale, x));
  });
  plot.addEventListener("pointerleave", () => point(-1));
  plot.addEventListener("blur", () => point(-1));
  plot.addEventListener("keydown", (event) => {
    const last = data.samples.length - 1;
    const here = at < 0 ? last : at;
    const next = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, PageUp: here + 12, PageDown: here - 12, Home: 0, End: last, Escape: -1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    point(event.key === "Escape" ? -1 : Math.max(0, next));
  });
  details.addEventListener("toggle", () => details.open && fillTable());

  function fillTable() {
    const step = Math.max(1, Math.ceil(data.samples.length / ROWS));
    const rows = data.samples.filter((_, index) => (data.samples.length - 1 - index) % step === 0).reverse();
    fill(table, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Time"), series.map((one) => h("th", { scope: "col", class: "number" }, one.name)))),
      h("tbody", {}, rows.map((sample) => h("tr", {}, h("th", { scope: "row" }, clock(sample.at_ms)),
        series.map((one) => h("td", { class: "number" }, format(one.of(sample)))))))));
  }

  const observer = new ResizeObserver(draw);
  observer.observe(plot);
  return {
    element,
    /** Shows samples between two times. */
    update(samples, from, to) {
      const held = data.samples[at]?.number;
      data = { samples, from, to };
      at = held === undefined ? -1 : samples.findIndex((sample) => sample.number === held);
      fill(legend, series.map((one) => {
        const last = samples.at(-1);
        return h("li", {}, swatch(one), one.name, h("b", {}, last ? format(one.of(last)) : "–"));
      }));
      point(at);
      if (details.open) fillTable();
    },
    stop: () => observer.disconnect(),
  };
}

function swatch(one) {
  return h("span", { class: `swatch tone-${one.tone}` });
}

function shown(value, log) {
  return typeof value === "number" && Number.isFinite(value) && (!log || value > 0);
}

/** Returns the scales of both axes. */
function scaled({ samples, from, to }, series, width, { log, binary, most, limit }) {
  const values = samples.flatMap((sample) => series.map((one) => one.of(sample))).filter((value) => shown(value, log));
  const empty = values.length === 0;
  const bottom = HEIGHT - BOTTOM;
  const span = Math.max(1, to - from);
  const x = (ms) => LEFT + ((ms - from) / span) * (width - LEFT - 6);
  if (log) {
    const low = empty ? 0 : Math.floor(Math.log10(Math.min(...values)));
    const high = Math.max(low + 1, empty ? 1 : Math.ceil(Math.log10(Math.max(...values))));
    const ticks = Array.from({ length: high - low + 1 }, (_, power) => 10 ** (low + power));
    const every = Math.ceil(ticks.length / 5);
    const y = (value) => bottom - ((Math.log10(value) - low) / (high - low)) * (bottom - TOP);
    return { x, y, ticks: ticks.filter((_, index) => index % every === 0), from, to, empty, bottom, log };
  }
  const top = Math.min(nice(Math.max(most, ...values, 0), binary), Math.max(limit, ...values));
  const y = (value) => bottom - (value / top) * (bottom - TOP);
  return { x, y, ticks: [0, 0.25, 0.5, 0.75, 1].map((part) => part * top), from, to, empty, bottom, log };
}

/** Returns the next round number that four parts divide well. */
function nice(value, binary) {
  if (!(value > 0)) return binary ? 1024 : 1;
  if (binary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].find((step) => step * power >= value);
}

function rules(scale, width, format) {
  return scale.ticks.flatMap((tick) => {
    const y = Math.round(scale.y(tick)) + 0.5;
    return [
      s("line", { class: "rule", x1: LEFT, x2: width, y1: y, y2: y }),
      s("text", { x: LEFT - 8, y: y + 3.5, "text-anchor": "end" }, format(tick)),
    ];
  });
}

function times(scale, width) {
  const minute = 60_000;
  const step = (width < 420 ? 5 : 3) * minute;
  const parts = [];
  for (let ms = Math.ceil(scale.from / step) * step; ms <= scale.to; ms += step) {
    const x = scale.x(ms);
    if (x < LEFT + 14 || x > width - 14) continue;
    parts.push(s("text", { x, y: HEIGHT - 4, "text-anchor": "middle" }, clock(ms).slice(0, 5)));
  }
  return parts;
}

/** Returns the line of a series, broken where samples are missing. */
function lines(one, samples, scale, filled) {
  const runs = [];
  let run = [];
  let before = null;
  for (const sample of samples) {
    const value = one.of(sample);
    const gap = before !== null && sample.at_ms - before > sample.seconds * 2500;
    if ((gap || !shown(value, scale.log)) && run.length > 0) {
      runs.push(run);
      run = [];
    }
    if (shown(value, scale.log)) run.push([scale.x(sample.at_ms), scale.y(value)]);
    before = sample.at_ms;
  }
  if (run.length > 0) runs.push(run);
  return runs.flatMap((points) => {
    const path = points.map(([x, y], index) => `${index === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    if (points.length === 1) return [s("circle", { class: `mark tone-${one.tone}`, cx: points[0][0], cy: points[0][1], r: 2.5 })];
    const parts = [s("path", { class: `line tone-${one.tone}`, d: path })];
    if (filled) parts.unshift(s("path", { class: `area tone-${one.tone}`, d: `${path}L${points.at(-1)[0].toFixed(1)} ${scale.bottom}L${points[0][0].toFixed(1)} ${scale.bottom}Z` }));
    return parts;
  });
}

function nearest(samples, scale, x) {
  let best = -1;
  let distance = Infinity;
  samples.forEach((sample, index) => {
    const away = Math.abs(scale.x(sample.at_ms) - x);
    if (away < distance) [best, distance] = [index, away];
  });
  return best;
}
