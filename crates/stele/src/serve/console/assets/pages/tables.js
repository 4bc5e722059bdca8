// Tables, their schema and their rows.

import { get } from "../script/api.js";
import { encode, decode, parse, shown, text } from "../script/bytes.js";
import { openCell } from "./cell.js";
import { relation, relations } from "./relations.js";
import { fill, h, notice } from "../script/dom.js";
import { count, date, duration } from "../script/format.js";

/** Shows the list of tables, or the table that the address names. */
export function tables(root, context) {
  if (context.parts[0] === "sql") relation(root, context, context.parts[1] ?? "");
  else if (context.parts[0]) table(root, context, context.parts[0]);
  else list(root, context);
}

function short(name) {
  const parts = /^projects\/([^/]*)\/instances\/([^/]*)\/tables\/(.*)$/.exec(name);
  return parts ? { id: parts[3], instance: `${parts[1]} / ${parts[2]}` } : { id: name, instance: "" };
}

function list(root, { session, signal, state }) {
  const body = h("tbody", {});
  const more = h("button", { class: "button", type: "button", hidden: true, onclick: () => load(true) }, "More tables");
  const status = h("div", { class: "card-note", role: "status" });
  const filter = h("input", { id: "filter", type: "search", placeholder: "Part of the name", autocomplete: "off", spellcheck: "false" });
  const ofSql = session.sql && session.may.sql_tables ? relations({ signal }) : null;
  let last;
  let timer = 0;
  let turn = 0;
  filter.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      load(false);
      ofSql?.load(filter.value);
    }, 200);
  });
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "Tables"),
    h("div", { class: "end" }, h("label", { for: "filter", class: "visually-hidden" }, "Tables whose name has"), filter)),
    h("div", { class: "stack" }, h("section", { class: "card", "aria-label": "List of tables" }, ofSql ? h("div", { class: "card-head" }, h("h2", {}, "Bigtable")) : null, h("div", { class: "card-body" }, h("div", { class: "scroll" }, h("table", { class: "data" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Table"), h("th", { scope: "col" }, "Project / instance"), h("th", { scope: "col", class: "number" }, "Families"), h("th", { scope: "col", class: "number" }, "Tablets"))), body)),
      status, more)), ofSql?.element));

  async function load(goOn) {
    const mine = ++turn;
    try {
      const answer = await get("/tables", { after: goOn ? last : undefined, filter: filter.value || undefined }, signal);
      if (mine !== turn) return;
      if (!goOn) fill(body);
      body.append(...answer.tables.map(row));
      last = answer.tables.at(-1)?.name;
      more.hidden = !answer.more;
      status.textContent = body.childElementCount === 0 ? (filter.value ? "No table has this in its name." : "There are no tables that you may list.") : "";
      state("good", "Serving");
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      if (!goOn) {
        fill(body);
        more.hidden = true;
      }
      fill(status, notice("critical", "The tables cannot be listed", error.message));
    }
  }
  load(false);
  ofSql?.load("");
}

function row(table) {
  const { id, instance } = short(table.name);
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href: `#/tables/${encodeURIComponent(table.name)}` }, id)), h("td", {}, instance),
    h("td", { class: "number" }, count(table.families)), h("td", { class: "number" }, count(table.tablets)));
}

function table(root, { query, signal, state }, name) {
  const { id, instance } = short(name);
  const field = (parameter) => {
    try {
      return text(decode(query.get(parameter) ?? ""));
    } catch {
      return "";
    }
  };
  const prefix = h("input", { id: "prefix", class: "mono", value: field("prefix"), autocomplete: "off", spellcheck: "false", placeholder: "all rows" });
  const start = h("input", { id: "start", class: "mono", value: field("start"), autocomplete: "off", spellcheck: "false", placeholder: "first row" });
  const limit = h("select", { id: "limit" }, ["25", "50", "100", "200"].map((number) => h("option", { value: number, selected: number === (query.get("limit") ?? "50") }, number)));
  const error = h("p", { class: "form-error", role: "alert" });
  const [schema, rows] = [h("div", {}), h("div", {})];
  function submit(event) {
    event.preventDefault();
    try {
      go({ prefix: parse(prefix.value), start: parse(start.value) });
    } catch (failure) {
      error.textContent = failure.message;
    }
  }
  function go(bounds) {
    const next = new URLSearchParams();
    if (bounds.prefix.length > 0) next.set("prefix", encode(bounds.prefix));
    if (bounds.start.length > 0) next.set("start", encode(bounds.start));
    if (limit.value !== "50") next.set("limit", limit.value);
    const address = `#/tables/${encodeURIComponent(name)}${next.size > 0 ? `?${next}` : ""}`;
    if (address === location.hash) load();
    else location.hash = address;
  }
  fill(root,
    h("div", { class: "page-head" }, h("h1", {}, h("a", { href: "#/tables", class: "crumb" }, "Tables"), " / ", id), h("p", {}, instance)),
    schema,
    h("form", { class: "card browse", onsubmit: submit, "aria-label": "Rows to show" },
      h("div", { class: "field" }, h("label", { for: "prefix" }, "Keys that begin with"), prefix),
      h("div", { class: "field" }, h("label", { for: "start" }, "From the key"), start),
      h("div", { class: "field narrow" }, h("label", { for: "limit" }, "Rows"), limit),
      h("button", { class: "button primary", type: "submit" }, "Show rows"),
      error, h("p", { class: "card-note" }, "Bytes that are no text stand as ", h("code", {}, "\\xNN"), ".")),
    rows);

  async function load() {
    fill(rows, h("p", { class: "empty", role: "status" }, "Reading …"));
    try {
      const answer = await get("/rows", { table: name, prefix: query.get("prefix") ?? undefined, start: query.get("start") ?? undefined, limit: limit.value }, signal);
      fill(rows, page(answer));
      state("good", "Serving");
    } catch (failure) {
      if (failure.name !== "AbortError") fill(rows, notice(failure.status === 403 ? "note" : "critical", "The rows cannot be read", failure.message));
    }
  }

  function page(answer) {
    if (answer.rows.length === 0) return h("div", { class: "card empty" }, h("strong", {}, "No rows"), "No row of the table lies in this range.");
    const following = new URLSearchParams(query);
    if (answer.next) following.set("start", answer.next.data);
    const cells = answer.rows.reduce((sum, row) => sum + row.cells.length, 0);
    const some = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;
    return [
      h("p", { class: "result-note", role: "status" }, `${some(answer.rows.length, "row")}, ${some(cells, "cell")}${answer.next ? ", and more rows follow" : ""}`),
      h("div", { class: "rows" }, answer.rows.map((row) => rowView(name, row, signal))),
      h("div", { class: "pager" }, query.get("start") ? h("a", { class: "button", href: `#/tables/${encodeURIComponent(name)}${query.get("prefix") ? `?prefix=${query.get("prefix")}` : ""}` }, "First page") : null,
        answer.next ? h("a", { class: "button", href: `#/tables/${encodeURIComponent(name)}?${following}` }, "Next page") : null),
    ];
  }

  get("/table", { name }, signal).then((told) => fill(schema, schemaView(told)), (failure) => {
    if (failure.name !== "AbortError") fill(schema, notice(failure.status === 403 ? "note" : "critical", "The schema cannot be shown", failure.message));
  });
  load();
}

function schemaView(told) {
  const facts = [
    ["Tablets", count(told.tablets)],
    ["Timestamps in", told.timestamps],
    ["Deletion", told.deletion_protection ? "protected" : "allowed"],
    ["Change stream", told.change_retention_seconds === null ? "off" : `kept for ${duration(told.change_retention_seconds)}`],
    ["Created", date(told.created_ms)],
    ["Row key", told.row_key_fields ? told.row_key_fields.map((part) => `${part.name} (${part.type})`).join(", ") : "bytes"],
  ];
  return h("details", { class: "card schema" },
    h("summary", {}, h("h2", {}, "Schema"), h("span", { class: "card-note" }, `${count(told.family_count)} ${told.family_count === 1 ? "family" : "families"}`)),
    h("div", { class: "card-body" },
      h("dl", { class: "facts" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
      h("div", { class: "scroll" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Family"), h("th", { scope: "col" }, "Type"), h("th", { scope: "col" }, "Cells that may vanish"))),
        h("tbody", {}, told.families.map((family) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, family.name)), h("td", {}, family.type), h("td", {}, family.gc)))))),
      told.family_count > told.families.length ? h("p", { class: "card-note" }, `The first ${told.families.length} families.`) : null));
}

/** Returns a row with its cells, which are grouped by column. */
function rowView(table, row, signal) {
  const body = h("tbody", {}, cellRows(table, row));
  const element = h("section", { class: "card row" },
    h("h2", { class: "row-key" }, shown(row.key)),
    h("div", { class: "scroll" }, h("table", { class: "cells" },
      h("colgroup", {}, h("col", { class: "col-column" }), h("col", { class: "col-time" }), h("col", {})),
      h("thead", { class: "visually-hidden" }, h("tr", {}, ["Column", "Time", "Value"].map((name) => h("th", { scope: "col" }, name)))), body)));
  let offset = row.cells.length;
  if (row.more_cells) {
    const more = h("button", { type: "button", class: "quiet", onclick: load }, "More cells of this row");
    async function load() {
      more.disabled = true;
      try {
        const answer = await get("/row", { table, key: row.key.data, offset }, signal);
        if (answer.row) body.append(...cellRows(table, answer.row));
        offset = answer.next_offset ?? offset;
        more.hidden = answer.next_offset === null;
      } catch (failure) {
        if (failure.name !== "AbortError") element.append(notice("critical", "The cells cannot be read", failure.message));
      }
      more.disabled = false;
    }
    element.append(more);
  }
  return element;
}

function cellRows(table, row) {
  let before = "";
  return row.cells.map((cell) => {
    const column = `${cell.family}:${cell.qualifier.data}`;
    const older = column === before;
    before = column;
    return h("tr", { class: older ? "older" : null },
      h("th", { scope: "row" }, h("span", { class: "family" }, `${cell.family}:`), shown(cell.qualifier)),
      h("td", { class: "time" }, time(cell.timestamp_micros)),
      h("td", { class: "value" }, h("button", { type: "button", title: "Show the whole value", onclick: () => openCell(table, row.key, cell) }, shown(cell.value, 160))));
  });
}

/** Microseconds as a date, unless they are small numbers that somebody counts with. */
function time(micros) {
  return Math.abs(Number(micros)) < 1e12 ? micros : date(Number(micros) / 1000);
}
