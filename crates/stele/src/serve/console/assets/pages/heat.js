// The heat map of a table: uses of its rows by ranges of keys (down) and time (across).

import { get } from "../script/api.js";
import { decode, shown, text } from "../script/bytes.js";
import { chooseTable, drawnAgain, sum } from "../script/choice.js";
import { fill, h, notice, s, segments } from "../script/dom.js";
import { clock, count, percent, rate } from "../script/format.js";

const EVERY_MS = 10_000;
const ROW = 9;
const BOTTOM = 20;
const STEPS = 7;
/** Rates are told apart down to this part of the greatest one. */
const DEPTH = 1000;
const KINDS = { both: "Reads and writes", reads: "Reads", writes: "Writes" };

/** Shows the page in `root`. Returns what stops it. */
export function heat(root, { parts, signal, state }) {
  const chosen = parts[0] ?? "";
  const table = h("select", { id: "table" });
  const body = h("div", {});
  let kind = "both";
  let told = null;
  let map = null;
  let timer = 0;
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "Heat map"),
    h("div", { class: "end" },
      h("label", { for: "table", class: "visually-hidden" }, "Table"), table,
      segments("Uses", Object.entries(KINDS), kind, (next) => {
        kind = next;
        draw();
      }))),
  body);
  table.addEventListener("change", () => (location.hash = `#/heat/${encodeURIComponent(table.value)}`));

  function draw() {
    if (!told) return;
    if (told.samples === 0) {
      map = null;
      fill(body, h("div", { class: "card empty" }, h("strong", {}, "No uses"), "No row of this table was read or written in the last minutes."));
      return;
    }
    if (!map) {
      map = heatMap();
      map.keys = card("Hottest keys", "of single rows, over all times shown");
      map.tablets = card("Hottest tablets", "by the rows that were used");
      fill(body, map.element, h("div", { class: "heat-lists" }, map.keys.element, map.tablets.element));
    }
    map.show(told, kind);
    fill(map.keys.body, keysOf(told, chosen));
    fill(map.tablets.body, tabletsOf(told, chosen));
  }

  async function load() {
    try {
      told = await get("/heat", { name: chosen }, signal);
      if (!body.contains(document.activeElement) || !map) draw();
      state("good", "Serving");
      timer = setTimeout(load, EVERY_MS);
    } catch (error) {
      if (error.name === "AbortError") return;
      map = null;
      fill(body, notice(error.status === 403 ? "note" : "critical", "The heat map cannot be shown", error.message));
    }
  }

  chooseTable(table, { page: "heat", chosen, body, signal, load });
  return drawnAgain(draw, () => clearTimeout(timer));
}

function card(title, note) {
  const body = h("div", { class: "card-body" });
  return { body, element: h("section", { class: "card", "aria-label": title }, h("div", { class: "card-head" }, h("h2", {}, title), h("span", { class: "card-note" }, note)), body) };
}

/** Returns the rate of a range at a time. */
function rateOf(range, at, kind) {
  return (kind === "writes" ? 0 : range.reads[at]) + (kind === "reads" ? 0 : range.writes[at]);
}

function heatMap() {
  const svg = s("svg", { "aria-hidden": "true" });
  const plot = h("div", { class: "plot heat", tabindex: 0, role: "slider", "aria-orientation": "vertical", "aria-label": "Heat map: range of keys", "aria-valuemin": 1, "aria-valuemax": 1, "aria-valuenow": 1, "aria-valuetext": "no samples yet" }, svg);
  const readout = h("p", { class: "card-note heat-note" });
  const legend = h("div", { class: "heat-legend card-note" });
  const rows = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Ranges of keys" });
  const details = h("details", { class: "as-table" }, h("summary", {}, "As a table"), rows);
  const note = h("span", { class: "card-note" });
  const element = h("figure", { class: "card", "aria-label": "Uses by key and time" },
    h("div", { class: "card-head" }, h("h2", {}, "Uses by key and time"), note, h("div", { class: "end" }, legend)),
    h("div", { class: "card-body" }, plot, readout), details);
  let data = null;
  let kind = "both";
  let place = null;
  // The cell under the pointer or the keyboard: range, time.
  let at = null;

  function show(told, of) {
    [data, kind] = [told, of];
    note.textContent = `${KINDS[of]}, ${count(told.samples)} samples. Ranges of keys go down and have about as many bytes each.`;
    if (at && (at[0] >= told.ranges.length || at[1] >= told.times.length)) at = null;
    draw();
    if (details.open) fillTable();
  }

  function draw() {
    const width = Math.max(260, plot.clientWidth);
    const left = width > 700 ? 172 : 6;
    const height = data.ranges.length * ROW + BOTTOM;
    const span = Math.max(1, data.to_ms - data.from_ms);
    const x = (ms) => left + ((Math.max(ms, data.from_ms) - data.from_ms) / span) * (width - left - 6);
    place = { left, x };
    const rates = data.ranges.flatMap((range) => data.times.map((_, time) => rateOf(range, time, kind)));
    const most = Math.max(...rates, 0);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const cells = [];
    data.ranges.forEach((range, row) => data.times.forEach((time, column) => {
      const step = stepOf(rateOf(range, column, kind), most);
      if (step === 0) return;
      const from = x(time.begin_ms);
      cells.push(s("rect", { class: "heat-cell", "fill-opacity": opacity(step), x: from.toFixed(1), y: row * ROW, width: Math.max(2, x(time.end_ms) - from).toFixed(1), height: ROW - 1 }));
    }));
    fill(svg, s("rect", { class: "heat-ground", x: left, y: 0, width: width - left - 6, height: data.ranges.length * ROW }),
      cells, left > 6 ? names() : [], times(x, width, left, height), cursor());
    fill(legend, "Less", Array.from({ length: STEPS }, (_, step) => s("svg", { viewBox: "0 0 14 12", width: 14, height: 12, "aria-hidden": "true" }, s("rect", { class: "heat-cell", "fill-opacity": opacity(step + 1), width: 13, height: 12 }))), `up to ${rate(most)} a range`);
    tell();
  }

  /** Returns the first keys of some ranges, at the left. */
  function names() {
    return data.ranges.flatMap((range, row) => (row % 4 === 0
      ? [s("text", { class: "heat-name", x: place.left - 8, y: row * ROW + 8, "text-anchor": "end" }, nameOf(range, 22))] : []));
  }

  function cursor() {
    if (!at) return [];
    const time = data.times[at[1]];
    const from = place.x(time.begin_ms);
    return [s("rect", { class: "heat-cursor", x: from.toFixed(1), y: at[0] * ROW - 0.5, width: Math.max(3, place.x(time.end_ms) - from).toFixed(1), height: ROW })];
  }

  function tell() {
    const [row, column] = at ?? [0, data.times.length - 1];
    const range = data.ranges[row];
    const time = data.times[column];
    const end = data.ranges[row + 1];
    const reads = rate(range.reads[column]);
    const writes = rate(range.writes[column]);
    plot.setAttribute("aria-valuemax", String(data.ranges.length));
    plot.setAttribute("aria-valuenow", String(row + 1));
    plot.setAttribute("aria-valuetext", `${clock(time.begin_ms)}, keys from ${nameOf(range, 60)} to ${end ? nameOf(end, 60) : "the end"}: reads ${reads}, writes ${writes}`);
    if (!at) return fill(readout, "Point at the map, or go through it with the arrow keys.");
    return fill(readout, `${clock(time.begin_ms)}: reads ${reads}, writes ${writes}. Keys from `, range.start.bytes === 0 ? "the first" : shown(range.start, 80), " to ", end ? shown(end.start, 80) : "the last", ".");
  }

  function go(row, column) {
    at = [Math.max(0, Math.min(row, data.ranges.length - 1)), Math.max(0, Math.min(column, data.times.length - 1))];
    draw();
  }

  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const column = data.times.findIndex((time) => event.clientX - box.left <= place.x(time.end_ms));
    go(Math.floor((event.clientY - box.top) / ROW), column < 0 ? data.times.length - 1 : column);
  });
  const leave = () => {
    at = null;
    draw();
  };
  plot.addEventListener("pointerleave", leave);
  plot.addEventListener("blur", leave);
  plot.addEventListener("keydown", (event) => {
    const [row, column] = at ?? [0, data.times.length - 1];
    const next = { ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], PageUp: [row - 8, column], PageDown: [row + 8, column], Home: [row, 0], End: [row, data.times.length - 1] }[event.key];
    if (event.key === "Escape") leave();
    else if (next) go(...next);
    else return;
    event.preventDefault();
  });
  details.addEventListener("toggle", () => details.open && fillTable());

  function fillTable() {
    const last = data.times.length - 1;
    fill(rows, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, ["Keys from", "Reads now", "Writes now", "Most at once"].map((name, index) => h("th", { scope: "col", class: index > 0 ? "number" : null }, name)))),
      h("tbody", {}, data.ranges.map((range) => {
        const all = data.times.map((_, time) => rateOf(range, time, "both"));
        const most = all.indexOf(Math.max(...all));
        return h("tr", {}, h("th", { scope: "row" }, range.start.bytes === 0 ? "the first" : shown(range.start, 60)), h("td", { class: "number" }, rate(range.reads[last])), h("td", { class: "number" }, rate(range.writes[last])),
          h("td", { class: "number" }, sum(all) > 0 ? `${rate(all[most])} at ${clock(data.times[most].begin_ms)}` : "–"));
      }))));
  }
  return { element, show };
}

/** Returns the first key of a range as a text. */
function nameOf(range, most) {
  if (range.start.bytes === 0) return "the first";
  const name = text(decode(range.start.data));
  return name.length > most ? `${name.slice(0, 6)}…${name.slice(7 - most)}` : name;
}

/** Returns the step of a rate on a logarithmic scale; 0 for none. */
function stepOf(value, most) {
  if (!(value > 0) || !(most > 0)) return 0;
  const part = 1 + Math.log10(value / most) / Math.log10(DEPTH);
  return 1 + Math.round(Math.max(0, part) * (STEPS - 1));
}

function opacity(step) {
  return (0.1 + (0.9 * (step - 1)) / (STEPS - 1)).toFixed(2);
}

function times(x, width, left, height) {
  const minute = 60_000;
  const step = (width < 420 ? 5 : 3) * minute;
  const now = Date.now();
  const parts = [];
  for (let ms = Math.floor(now / step) * step; x(ms) > left + 14; ms -= step) {
    if (x(ms) < width - 14) parts.push(s("text", { x: x(ms).toFixed(1), y: height - 4, "text-anchor": "middle" }, clock(ms).slice(0, 5)));
    if (x(ms - step) === x(ms)) break;
  }
  return parts;
}

function listOf(names, rows) {
  return h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, names.map((name, at) => h("th", { scope: "col", class: at > 0 ? "number" : null }, name)))),
    h("tbody", {}, rows)));
}

function keysOf(told, table) {
  if (told.keys.length === 0) return h("p", { class: "card-note" }, "No key has three samples: the uses are spread.");
  return listOf(["Key", "Reads", "Writes", "Of all uses"], told.keys.map((one) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/tables/${encodeURIComponent(table)}?start=${one.key.data}` }, shown(one.key, 60))),
    h("td", { class: "number" }, rate(one.reads)), h("td", { class: "number" }, rate(one.writes)), h("td", { class: "number" }, percent(one.part)))));
}

function tabletsOf(told, table) {
  if (told.tablets.length === 0) return h("p", { class: "card-note" }, "No uses.");
  return [listOf(["Tablet", "Tree", "Reads", "Writes"], told.tablets.map((one) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: `#/tree/${encodeURIComponent(table)}${one.tablet > 0 ? `?tablet=${one.tablet}` : ""}` }, `Tablet ${one.tablet}`), one.start.bytes === 0 ? null : [", from ", shown(one.start, 40)]),
    h("td", { class: "number" }, one.tree), h("td", { class: "number" }, rate(one.reads)), h("td", { class: "number" }, rate(one.writes))))),
  h("p", { class: "card-note" }, `Of ${count(told.tablet_count)} ${told.tablet_count === 1 ? "tablet" : "tablets"}. Metrics tell a tablet by the number of its tree.`)];
}
