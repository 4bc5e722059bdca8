// The server at a glance: the last fifteen minutes, and advice.

import { get } from "../script/api.js";
import { chart } from "../script/chart.js";
import { fill, h, notice, segments } from "../script/dom.js";
import { bytes, bytesRate, count, duration, milliseconds, percent, rate } from "../script/format.js";

const WINDOW_MS = 15 * 60_000;
const OPERATIONS = [
  ["reads", "Reads", 1],
  ["writes", "Writes", 2],
  ["conditional", "Conditional", 4],
  ["queries", "Queries", 3],
  ["sql", "SQL", 6],
  ["other", "Other", 5],
];
const GRANULARITIES = { row: "Row", family: "Row and family", column: "Row and column", prefix: "Row prefix" };

/** Shows the page in `root`. Returns what stops it. */
export function overview(root, { signal, state }) {
  let samples = [];
  let uptime = -1;
  let timer = 0;
  let operation = "reads";
  const view = parts((chosen) => {
    operation = chosen;
    redraw();
  });
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "Overview"), view.since), view.advice, view.tiles, h("div", { class: "grid" }, view.cards));
  view.chooseOperation(() => operation);

  function redraw() {
    const to = Math.max(Date.now() + view.skew, samples.at(-1)?.at_ms ?? 0);
    for (const one of view.charts) one.update(samples, to - WINDOW_MS, to);
    view.showNow(samples.at(-1));
  }

  async function poll() {
    try {
      let answer = await get("/overview", { after: samples.at(-1)?.number }, signal);
      if (answer.server.uptime_seconds < uptime) {
        samples = []; // The server was started again, and numbers its samples from the beginning.
        answer = await get("/overview", {}, signal);
      }
      uptime = answer.server.uptime_seconds;
      view.skew = answer.now_ms - Date.now();
      samples = [...samples, ...answer.samples].filter((sample) => sample.at_ms > answer.now_ms - WINDOW_MS - 10_000);
      view.showAdvice(answer);
      redraw();
      const tone = { critical: "bad", warning: "warn" }[answer.advice[0]?.severity] ?? "good";
      state(tone, { serving: "Serving", opening: "Opening", stopping: "Stopping" }[answer.server.phase]);
      timer = setTimeout(poll, answer.interval_seconds * 1000);
    } catch (error) {
      if (error.name === "AbortError") return;
      state("bad", error.status === 0 ? "No connection; retrying" : "Error");
      if (error.status === 403) {
        fill(root, h("h1", {}, "Overview"), notice("note", "You may not see the metrics of the server", error.message));
        return;
      }
      timer = setTimeout(poll, 5000);
    }
  }
  poll();
  return () => {
    clearTimeout(timer);
    view.charts.forEach((one) => one.stop());
  };
}

function parts(choose) {
  let operation = () => "reads";
  const latency = (name) => (sample) => sample.operations[operation()]?.[name];
  const engine = (name) => (sample) => sample.engine?.[name];
  const charts = {
    throughput: chart({ title: "Requests", note: "a second, by operation", format: rate, series: OPERATIONS.map(([name, title, tone]) => ({ name: title, tone, of: (sample) => sample.operations[name]?.per_second ?? 0 })) }),
    latency: chart({
      title: "Latency", format: milliseconds, log: true,
      actions: segments("Operation of the latencies", OPERATIONS.slice(0, 5).map(([name, title]) => [name, title]), "reads", choose),
      series: [{ name: "p50", tone: 3, of: latency("p50_ms") }, { name: "p99", tone: 1, of: latency("p99_ms") }, { name: "p99.9", tone: 2, of: latency("p999_ms") }],
    }),
    disk: chart({ title: "Disk reads a get", format: count, most: 1, series: [{ name: "Blocks", tone: 1, of: engine("disk_reads_per_get") }] }),
    cache: chart({ title: "Gets from memory", note: "at least", format: percent, most: 1, limit: 1, series: [{ name: "Without a disk read", tone: 3, of: (sample) => fromMemory(sample.engine) }] }),
    work: chart({ title: "Bytes written", note: "a second", format: bytesRate, binary: true, series: [
      { name: "Commits", tone: 1, of: engine("committed_bytes_per_second") },
      { name: "Flushes", tone: 3, of: engine("flushed_bytes_per_second") },
      { name: "Compactions", tone: 2, of: engine("compacted_bytes_per_second") },
    ] }),
    stalls: chart({ title: "Writes that wait", note: "a second", format: rate, series: [
      { name: "Slowed", tone: 7, of: engine("slowdowns_per_second") },
      { name: "Stalled", tone: 6, of: engine("stalls_per_second") },
    ] }),
    debt: chart({ title: "Compaction debt", note: "bytes", format: bytes, binary: true, series: [{ name: "Debt", tone: 2, of: engine("compaction_debt") }] }),
  };
  const errors = errorChart();
  const [memory, filters, levels, hot, hotTablets] = [card("Memory"), card("Filters"), card("Levels"), card("Hot tables"), card("Hot tablets")];
  const advice = h("section", { class: "advice", "aria-label": "Health", "aria-live": "polite" });
  const tiles = h("ul", { class: "tiles" });
  const since = h("p", {});
  let told = "";
  const order = [charts.throughput, charts.latency, errors, charts.disk, charts.cache, charts.work, charts.stalls, charts.debt];
  return {
    advice, tiles, since,
    skew: 0,
    charts: order,
    cards: [
      ...[charts.throughput, charts.latency].map((one) => spanned(one.element, 6)),
      spanned(memory.element, 6), h("div", { class: "stack span-6" }, filters.element, levels.element),
      ...[charts.disk, charts.cache, errors].map((one) => spanned(one.element, 4)),
      ...[charts.work, charts.stalls].map((one) => spanned(one.element, 4)),
      spanned(charts.debt.element, 4), spanned(hot.element, 6), spanned(hotTablets.element, 6),
    ],
    chooseOperation: (chosen) => (operation = chosen),
    showAdvice(answer) {
      since.textContent = `up for ${duration(answer.server.uptime_seconds)}`;
      const text = JSON.stringify(answer.advice);
      if (text === told) return;
      told = text;
      fill(advice, answer.advice.length === 0
        ? notice("good", "Everything is in order", null)
        : answer.advice.map((one) => notice(one.severity, one.title, one.text, one.guide)));
    },
    showNow(sample) {
      fill(tiles, tilesOf(sample));
      fill(memory.body, memoryOf(sample?.engine));
      fill(filters.body, filtersOf(sample?.engine));
      fill(levels.body, levelsOf(sample?.engine));
      if (!hot.body.contains(document.activeElement)) fill(hot.body, hotOf(sample));
      if (!hotTablets.body.contains(document.activeElement)) fill(hotTablets.body, hotTabletsOf(sample));
    },
  };
}

function spanned(element, columns) {
  element.classList.add(`span-${columns}`);
  return element;
}

function card(title) {
  const body = h("div", { class: "card-body" });
  return { body, element: h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, title)), body) };
}

/** Returns the part of gets that read no block from disk, if each of the others read one. */
function fromMemory(engine) {
  const reads = engine?.disk_reads_per_get;
  return typeof reads === "number" ? Math.max(0, 1 - reads) : undefined;
}

/** Returns the chart of errors, whose series are the codes that came. */
function errorChart() {
  const element = h("div", { class: "contents" });
  let codes = null;
  let inner = null;
  return {
    element,
    update(samples, from, to) {
      const now = [...new Set(samples.flatMap((sample) => Object.keys(sample.errors)))].sort();
      if (inner === null || now.join() !== codes.join()) {
        inner?.stop();
        codes = now;
        const series = now.map((code, index) => ({ name: code, tone: (index % 7) + 1, of: (sample) => sample.errors[code] ?? 0 }));
        inner = chart({ title: "Errors", note: "a second, by code", format: rate, series: series.length > 0 ? series : [{ name: "Errors", tone: 6, of: () => 0 }] });
        fill(element, inner.element);
      }
      inner.update(samples, from, to);
    },
    stop: () => inner?.stop(),
  };
}

function tilesOf(sample) {
  const operations = Object.values(sample?.operations ?? {});
  const sum = (values) => values.reduce((left, right) => left + right, 0);
  const engine = sample?.engine;
  const used = engine ? sum(engine.memory.map((one) => one.bytes)) : undefined;
  const [reads, writes] = [sample?.operations.reads, sample?.operations.writes];
  const failed = sample ? sum(Object.values(sample.errors)) : undefined;
  return [
    tile("Requests", rate(sample ? sum(operations.map((one) => one.per_second)) : undefined), `${count(sample?.in_flight)} in flight`),
    tile("Reads, p99", milliseconds(reads?.p99_ms), `p50 ${milliseconds(reads?.p50_ms)}`),
    tile("Writes, p99", milliseconds(writes?.p99_ms), `p50 ${milliseconds(writes?.p50_ms)}`),
    tile("Errors", rate(failed), failed ? Object.keys(sample.errors).join(", ") : "none"),
    tile("Gets from memory", percent(fromMemory(engine)), `${count(engine?.disk_reads_per_get)} disk reads a get`),
    tile("Memory", bytes(used), `of ${bytes(engine?.memory_max)}`),
  ];
}

function tile(label, value, sub) {
  const [, number, unit] = /^([^ /]*)([ /]?.*)$/.exec(value);
  return h("li", { class: "card tile" }, h("span", { class: "tile-label" }, label),
    h("span", { class: "tile-value" }, number, unit ? h("small", {}, unit.trim()) : null),
    h("span", { class: "tile-sub" }, sub));
}

function memoryOf(engine) {
  if (!engine) return h("p", { class: "card-note" }, "No sample yet.");
  const most = engine.memory_max || 1;
  const meter = h("div", { class: "meter", "aria-hidden": "true" }, engine.memory.map((one, index) => {
    const part = h("i", { class: `tone-${(index % 7) + 1}` });
    part.style.width = `${Math.min(100, (one.bytes / most) * 100)}%`;
    return part;
  }));
  return [meter, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Owner"), h("th", { scope: "col", class: "number" }, "Bytes"), h("th", { scope: "col", class: "number" }, "Of the budget"))),
    h("tbody", {}, engine.memory.map((one, index) => h("tr", {},
      h("th", { scope: "row" }, h("span", { class: `swatch tone-${(index % 7) + 1}` }), one.owner),
      h("td", { class: "number" }, bytes(one.bytes)), h("td", { class: "number" }, percent(one.bytes / most))))))];
}

function filtersOf(engine) {
  if (!engine) return h("p", { class: "card-note" }, "No sample yet.");
  return [h("p", { class: "card-note" }, "Reads ask the filter of a file before they look into it."), h("table", { class: "data" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Asked for"), h("th", { scope: "col", class: "number" }, "Asked"), h("th", { scope: "col", class: "number" }, "Avoided a file"), h("th", { scope: "col", class: "number" }, "Wrong"))),
    h("tbody", {}, engine.filters.map((one) => {
      const bar = h("i", {});
      bar.style.width = `${(one.useful ?? 0) * 100}%`;
      return h("tr", {}, h("th", { scope: "row" }, GRANULARITIES[one.granularity] ?? one.granularity),
        h("td", { class: "number" }, rate(one.asked_per_second)),
        h("td", { class: "number" }, percent(one.useful), h("span", { class: "inline-meter", "aria-hidden": "true" }, bar)),
        h("td", { class: "number" }, percent(one.wrong)));
    })))];
}

function hotOf(sample) {
  if (!sample || sample.tables.length === 0) return h("p", { class: "card-note" }, "No table was asked for in the last sample.");
  return h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["Table", "Requests", "Rows read", "Rows written", "Bytes"].map((name, at) => h("th", { scope: "col", class: at > 0 ? "number" : null }, name)))),
    h("tbody", {}, sample.tables.map((table) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: `#/tables/${encodeURIComponent(table.name)}` }, table.name.split("/tables/").at(-1))),
      h("td", { class: "number" }, rate(table.requests_per_second)), h("td", { class: "number" }, rate(table.rows_read_per_second)),
      h("td", { class: "number" }, rate(table.rows_written_per_second)), h("td", { class: "number" }, bytesRate(table.bytes_per_second)))))));
}

function hotTabletsOf(sample) {
  if (!sample || !sample.tablets || sample.tablets.length === 0) return h("p", { class: "card-note" }, "No rows were used in the last minutes.");
  return h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["Table", "Tree", "Rows read", "Rows written"].map((name, at) => h("th", { scope: "col", class: at > 0 ? "number" : null }, name)))),
    h("tbody", {}, sample.tablets.map((tablet) => h("tr", {},
      h("th", { scope: "row" }, h("a", { href: `#/heat/${encodeURIComponent(tablet.table)}` }, tablet.table.split("/tables/").at(-1))),
      h("td", { class: "number" }, tablet.tree), h("td", { class: "number" }, rate(tablet.reads_per_second)), h("td", { class: "number" }, rate(tablet.writes_per_second)))))));
}

function levelsOf(engine) {
  if (!engine) return h("p", { class: "card-note" }, "No sample yet.");
  const names = ["Level 0: fresh runs", "Level 1: larger runs", "Level 2: the last run"];
  return h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "All tables"), h("th", { scope: "col", class: "number" }, "Sorted runs"), h("th", { scope: "col", class: "number" }, "Bytes"))),
    h("tbody", {}, engine.levels.map((level, index) => h("tr", {}, h("th", { scope: "row" }, names[index]),
      h("td", { class: "number" }, count(level.runs)), h("td", { class: "number" }, bytes(level.bytes)))))));
}
