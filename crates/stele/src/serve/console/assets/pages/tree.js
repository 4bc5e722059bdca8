// The LSM tree of a tablet, or of a table of SQL, drawn level by level.

import { get } from "../script/api.js";
import { decode, escaped, shown, text } from "../script/bytes.js";
import { chooseTable, drawnAgain, sum, tableAddress } from "../script/choice.js";
import { fill, h, notice, s, segments } from "../script/dom.js";
import { bytes, count, duration, percent } from "../script/format.js";

const ROW_HEIGHT = 18;
const GAP = 4;
const LEVELS = ["Level 0", "Level 1", "Level 2"];
const MEANINGS = ["fresh runs, newest on top", "larger runs", "the last run"];
const EVERY_MS = 5000;

/** Shows the page in `root`. Returns what stops it. */
export function tree(root, { parts, query, session, signal, state }) {
  const ofSql = parts[0] === "sql";
  const chosen = ofSql ? `sql/${parts[1] ?? ""}` : parts[0] ?? "";
  const tablet = ofSql ? query.get("index") ?? "" : query.get("tablet") ?? "0";
  const table = h("select", { id: "table" });
  const tablets = h("select", { id: "tablet" });
  const body = h("div", {});
  let by = "keys";
  let told = null;
  let timer = 0;
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "LSM tree"),
    h("div", { class: "end" },
      h("label", { for: "table", class: "visually-hidden" }, "Table"), table,
      h("label", { for: "tablet", class: "visually-hidden" }, ofSql ? "Rows and indexes" : "Tablet"), tablets,
      segments("Width of a file", [["keys", "By keys"], ["bytes", "By size"]], by, (next) => {
        by = next;
        draw();
      }))),
  body);
  const go = (part) => (location.hash = `${tableAddress("tree", table.value)}${part && part !== "0" ? `?${ofSql ? "index" : "tablet"}=${part}` : ""}`);
  table.addEventListener("change", () => go(""));
  tablets.addEventListener("change", () => go(tablets.value));

  function draw() {
    if (!told) return;
    const width = Math.max(280, body.clientWidth - 30);
    fill(body, summary(told), ofSql ? sqlNote(told, tablet) : null, told.compactions.length > 0 ? running(told.compactions) : null,
      h("div", { class: "levels" }, [0, 1, 2].map((level) => levelView(told, level, by, width))));
  }

  async function load() {
    try {
      told = ofSql ? await get("/sql/tree", { oid: parts[1], index: tablet || undefined }, signal) : await get("/tree", { name: chosen, tablet }, signal);
      const choices = ofSql ? indexChoices(told) : tabletChoices(told);
      fill(tablets, choices.map(([value, title]) => h("option", { value, selected: value === tablet }, title)));
      tablets.hidden = choices.length < 2;
      if (!body.contains(document.activeElement)) draw();
      state("good", "Serving");
      timer = setTimeout(load, EVERY_MS);
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(body, notice([403, 409].includes(error.status) ? "note" : "critical", "The tree cannot be shown", error.message));
    }
  }
  tablets.hidden = true;

  chooseTable(table, { page: "tree", chosen, body, signal, load, sql: session.sql && session.may.sql_tables });
  return drawnAgain(draw, () => clearTimeout(timer));
}

function tabletChoices(told) {
  return told.tablets.map((start, at) => [String(at), at === 0 ? "Tablet 0" : `Tablet ${at}, from ${text(decode(start.data)).slice(0, 40)}`]);
}

function indexChoices(told) {
  return [["", "Rows and indexes"], ...told.indexes.map((one) => [String(one.oid), `Index ${escaped(one.name)}`])];
}

/** Returns what is different in the tree of a table of SQL. */
function sqlNote(told, index) {
  const one = told.indexes.find((known) => String(known.oid) === index);
  const texts = [
    one ? `Files that have entries of the index ${escaped(one.name)}, which takes ${bytes(one.bytes)} of them. Memtables and compactions are of the whole tree.` : "Rows and indexes of a table are in one tree.",
    told.is_shared ? "All tables of SQL on a cluster share the tree; files that have keys of this one are drawn." : "Two bytes at the beginning of a key tell rows and indexes apart.",
  ];
  if (told.index_count > told.indexes.length) texts.push(`The first ${count(told.indexes.length)} of ${count(told.index_count)} indexes can be chosen.`);
  return h("p", { class: "card-note page-note" }, texts.join(" "));
}

function summary(told) {
  const files = sum(told.runs.map((run) => run.files));
  const frozen = sum(told.frozen_bytes);
  const facts = [
    ["On disk", bytes(sum(told.runs.map((run) => run.bytes))), `${count(files)} ${files === 1 ? "file" : "files"}`],
    ["Sorted runs", count(told.runs.length), "a read may visit each"],
    ["Active memtable", bytes(told.active_bytes), "takes writes"],
    ["To flush", bytes(frozen), `${count(told.frozen_bytes.length)} ${told.frozen_bytes.length === 1 ? "memtable" : "memtables"}`],
    ["Entries", count(sum(told.runs.map((run) => run.entries))), "in files, deleted ones too"],
    ["Compactions", count(told.compactions.length), told.paused ? "paused" : "running"],
  ];
  return h("ul", { class: "tiles" }, facts.map(([label, value, sub]) => h("li", { class: "card tile" },
    h("span", { class: "tile-label" }, label), h("span", { class: "tile-value" }, value), h("span", { class: "tile-sub" }, sub))));
}

const REASONS = { shape: "a level had too much", garbage: "a file was mostly deleted cells", reads: "reads visited several runs", manual: "a person asked for it" };

function running(compactions) {
  return h("section", { class: "card running", "aria-label": "Compactions that run" }, h("div", { class: "card-body scroll", tabindex: 0, role: "group", "aria-label": "Table of compactions" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Compaction"), h("th", { scope: "col" }, "Because"), h("th", { scope: "col", class: "number" }, "Files"), h("th", { scope: "col", class: "number" }, "Written"), h("th", { scope: "col", class: "number" }, "For"))),
    h("tbody", {}, compactions.map((one) => {
      const bar = h("i", {});
      const part = one.bytes > 0 ? Math.min(1, one.bytes_written / one.bytes) : 0;
      bar.style.width = `${part * 100}%`;
      return h("tr", {}, h("th", { scope: "row" }, `into ${LEVELS[one.to_level] ?? `level ${one.to_level}`}`.toLowerCase()), h("td", {}, REASONS[one.reason] ?? one.reason),
        h("td", { class: "number" }, count(one.files)),
        h("td", { class: "number" }, `${bytes(one.bytes_written)} of ${bytes(one.bytes)} (${percent(part)})`, h("span", { class: "inline-meter", "aria-hidden": "true" }, bar)),
        h("td", { class: "number" }, duration(one.seconds)));
    })))));
}

function levelView(told, level, by, width) {
  const runs = told.runs.filter((run) => run.level === level);
  const total = sum(runs.map((run) => run.bytes));
  const files = sum(runs.map((run) => run.files));
  const listed = sum(runs.map((run) => run.listed.length));
  const readout = h("p", { class: "card-note file-note", role: "status" }, "Point at a file, or choose one with the keyboard.");
  const head = h("div", { class: "card-head" }, h("h2", {}, LEVELS[level]), h("span", { class: "card-note" }, MEANINGS[level]),
    h("span", { class: "card-note end" }, `${count(runs.length)} ${runs.length === 1 ? "run" : "runs"}, ${count(files)} ${files === 1 ? "file" : "files"}, ${bytes(total)}`));
  if (runs.length === 0) return h("section", { class: "card level", "aria-label": LEVELS[level] }, head, h("div", { class: "card-body" }, h("p", { class: "card-note" }, "No files.")));
  const place = by === "keys" ? keyScale(told) : null;
  const rows = runs.map((run, at) => bars(run, at, place, width, total / Math.max(1, runs.length), (file) => fill(readout, fileText(file))));
  const height = runs.length * (ROW_HEIGHT + GAP);
  const list = h("details", { class: "as-table" }, h("summary", {}, "As a table"));
  list.addEventListener("toggle", () => list.open && list.childElementCount === 1 && list.append(fileTable(runs)));
  return h("section", { class: "card level", "aria-label": LEVELS[level] }, head,
    h("div", { class: "card-body" }, s("svg", { class: "files", viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": `${LEVELS[level]}: files` }, rows), readout,
      listed < files ? h("p", { class: "card-note" }, `The first ${count(listed)} files are drawn.`) : null), list);
}

/** Returns the place of each key of the tree: its rank among the borders of all files. */
function keyScale(told) {
  const borders = told.runs.flatMap((run) => run.listed.flatMap((file) => [key(file.first), key(file.last)]));
  const sorted = [...new Set(borders)].sort();
  return { rank: new Map(sorted.map((border, at) => [border, at])), most: Math.max(1, sorted.length - 1) };
}

/** Returns a text whose order is that of the bytes. */
function key(of) {
  return [...decode(of.data)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function bars(run, at, scale, width, usual, tell) {
  const y = at * (ROW_HEIGHT + GAP);
  let x = 0;
  const all = Math.max(1, sum(run.listed.map((file) => file.bytes)));
  const room = Math.max(8, Math.min(width, (width * run.bytes) / Math.max(1, usual * 2)));
  return run.listed.map((file, index) => {
    let left;
    let wide;
    if (scale) {
      left = (scale.rank.get(key(file.first)) / scale.most) * width;
      wide = (scale.rank.get(key(file.last)) / scale.most) * width - left;
    } else {
      wide = (file.bytes / all) * room;
      left = x;
      x += wide;
    }
    wide = Math.max(3, wide - 1);
    return s("rect", {
      class: `file${file.compacting ? " compacting" : ""}`, x: Math.min(left, width - 3).toFixed(1), y, width: wide.toFixed(1), height: ROW_HEIGHT, rx: 3,
      tabindex: index === 0 ? 0 : -1, role: "img", "aria-label": `File ${file.number}, ${bytes(file.bytes)}, ${count(file.entries)} entries${file.compacting ? ", being compacted" : ""}`,
      onpointerenter: () => tell(file), onfocus: () => tell(file), onkeydown: step,
    });
  });
}

/** Moves the focus to the next file of a run, or to that of the next run. */
function step(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by === undefined) return;
  const next = by > 0 ? event.target.nextElementSibling : event.target.previousElementSibling;
  if (next) next.focus();
  event.preventDefault();
}

function fileText(file) {
  return [`File ${file.number}: ${bytes(file.bytes)}, ${count(file.entries)} entries, ${count(file.tombstones)} of them tombstones. Keys from `, shown(file.first, 80), " to ", shown(file.last, 80), file.compacting ? ". A compaction reads it." : ""];
}

function fileTable(runs) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Files" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["Run", "File", "Bytes", "Entries", "Tombstones", "First key", "Last key"].map((name, at) => h("th", { scope: "col", class: at > 0 && at < 5 ? "number" : null }, name)))),
    h("tbody", {}, runs.flatMap((run, at) => run.listed.slice(0, 200).map((file) => h("tr", {}, h("td", {}, at + 1), h("td", { class: "number" }, file.number),
      h("td", { class: "number" }, bytes(file.bytes)), h("td", { class: "number" }, count(file.entries)), h("td", { class: "number" }, count(file.tombstones)), h("td", {}, shown(file.first, 60)), h("td", {}, shown(file.last, 60))))))));
}
