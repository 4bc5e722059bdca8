// Tables of SQL: their list, the structure of one of them, and its rows. Names may hold anything, as keys do.

import { get } from "../script/api.js";
import { escaped, named } from "../script/bytes.js";
import { fill, h, notice } from "../script/dom.js";
import { bytes, count } from "../script/format.js";
import { value } from "./query.js";

/** Returns the list of tables, indexes and views: its element, and what loads those whose name has a text. */
export function relations({ signal }) {
  const body = h("tbody", {});
  const note = h("span", { class: "card-note" });
  const status = h("div", { class: "card-note", role: "status" });
  const more = h("button", { class: "button", type: "button", hidden: true, onclick: () => load(wanted, true) }, "More of SQL");
  const element = h("section", { class: "card", "aria-label": "List of SQL tables" },
    h("div", { class: "card-head" }, h("h2", {}, "SQL"), note),
    h("div", { class: "card-body" }, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "SQL tables" }, h("table", { class: "data" },
      head(["Name", "Schema", "Kind"], ["Columns", "Size"]), body)), status, more));
  let wanted = "";
  let last;
  let turn = 0;
  let before = new AbortController();
  signal.addEventListener("abort", () => before.abort());

  /** Ends the load before it: the server reads sizes for each. */
  async function load(filter, goOn = false) {
    const mine = ++turn;
    wanted = filter;
    before.abort();
    before = new AbortController();
    try {
      const after = goOn && last ? { after_schema: last.schema, after: last.name } : {};
      const answer = await get("/sql/tables", { ...after, filter: filter || undefined }, before.signal);
      if (mine !== turn) return;
      if (!goOn) fill(body);
      body.append(...answer.relations.map(row));
      last = answer.relations.at(-1);
      more.hidden = !answer.more;
      fill(note, "database ", named(answer.database));
      status.textContent = body.childElementCount > 0 ? "" : filter ? "Nothing of SQL has this in its name." : "There are no tables of SQL.";
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      if (!goOn) {
        fill(body);
        more.hidden = true;
      }
      fill(status, notice(tone(error), "The tables of SQL cannot be listed", error.message));
    }
  }
  return { element, load };
}

/** A node that does not have the database, and a visitor without a permission, are nothing that went wrong. */
function tone(error) {
  return [403, 409, 503].includes(error.status) ? "note" : "critical";
}

function head(names, numbers = []) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)), numbers.map((name) => h("th", { scope: "col", class: "number" }, name))));
}

function row(one) {
  const kind = { index: ["index of ", named(one.of ?? "")], "bigtable table": ["declared Bigtable table"] }[one.kind] ?? [one.kind];
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href: `#/tables/sql/${one.oid}` }, named(one.name))), h("td", {}, named(one.schema)), h("td", {}, kind),
    h("td", { class: "number" }, count(one.columns)), h("td", { class: "number" }, one.bytes === null ? "–" : bytes(one.bytes)));
}

/** Shows one relation in `root`. */
export function relation(root, { query, session, signal, state }, oid) {
  const title = h("span", {}, "SQL");
  const place = h("p", {});
  const [structure, rows] = [h("div", {}), h("div", {})];
  fill(root, h("div", { class: "page-head" }, h("h1", {}, h("a", { href: "#/tables", class: "crumb" }, "Tables"), " / ", title), place), structure, rows);
  if (!session.sql) {
    fill(structure, notice("note", "The server does not serve PostgreSQL clients", null));
    return;
  }
  get("/sql/table", { oid }, signal).then((told) => {
    fill(title, named(told.name));
    fill(place, named(told.database), " / ", named(told.schema));
    fill(structure, structureView(told));
    state("good", "Serving");
    if (told.kind === "table") browse(rows, told, query, signal);
  }, (error) => {
    if (error.name !== "AbortError") fill(structure, notice(tone(error), "The structure cannot be shown", error.message));
  });
}

function structureView(told) {
  const sizes = told.kind !== "table" ? [] : [
    ["Size", [bytes(told.bytes), told.is_shared ? " on disk" : " on disk and in memory"]],
    ["Of the rows", [bytes(told.rows_bytes), " on disk"]],
    ["LSM tree", told.tree === null ? "–" : [h("a", { href: `#/tree/sql/${told.oid}` }, `Tree ${told.tree}`), told.is_shared ? ", which all tables of SQL share" : ""]],
  ];
  const facts = [
    ["Kind", told.kind === "bigtable table" ? "declared Bigtable table" : told.kind],
    ["Owner", named(told.owner)],
    ...sizes,
    told.table ? ["Reads", h("a", { href: `#/tables/${encodeURIComponent(told.table)}` }, named(told.table))] : null,
    told.comment ? ["Comment", named(told.comment)] : null,
  ].filter((fact) => fact !== null);
  return h("details", { class: "card schema", open: true },
    h("summary", {}, h("h2", {}, "Structure"), h("span", { class: "card-note" }, `${count(told.columns.length)} ${told.columns.length === 1 ? "column" : "columns"}`)),
    h("div", { class: "card-body" },
      h("dl", { class: "facts" }, facts.map(([term, text]) => h("div", {}, h("dt", {}, term), h("dd", {}, text)))),
      part("Columns", ["Column", "Type", "NULL", "Comes from"], told.columns.map(column)),
      told.primary_key || told.indexes?.length > 0 ? part("Keys and indexes", ["Name", "Columns", "Kind", "Size on disk"], keys(told), told.more?.indexes) : null,
      told.foreign_keys?.length > 0 ? part("Foreign keys", ["Name", "Columns", "References"], told.foreign_keys.map(foreignKey), told.more?.foreign_keys) : null,
      told.checks?.length > 0 ? part("Checks", ["Name", "Condition"], told.checks.map((one) => [named(one.name), h("code", {}, named(one.expression))]), told.more?.checks) : null,
      told.query !== undefined ? [h("h3", {}, "Query"), h("pre", { class: "wrapped" }, named(told.query))] : null));
}

/** Returns a table below a heading. The first cell of each row names it. Says so if there are `more` rows. */
function part(title, names, cells, more = false) {
  return [h("h3", {}, title), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, h("table", { class: "data" }, head(names),
    h("tbody", {}, cells.map(([first, ...others]) => h("tr", {}, h("th", { scope: "row" }, first), others.map((cell) => h("td", {}, cell))))))),
    more ? h("p", { class: "card-note" }, "There are more, which are not shown.") : null];
}

function column(one) {
  const from = one.source ?? (one.generated ? ["always ", h("code", {}, named(one.generated))] : one.is_identity ? "a sequence" : one.default ? ["by default ", h("code", {}, named(one.default))] : "");
  return [named(one.name), one.type, one.not_null === undefined ? "" : one.not_null ? "no" : "yes", [typeof from === "string" ? named(from) : from, one.comment ? [" ", h("span", { class: "nothing" }, named(one.comment))] : null]];
}

function keys(told) {
  const columns = (parts) => parts.map((one, at) => [at > 0 ? ", " : "", named(one.name), one.order ? ` ${one.order}` : ""]);
  const key = told.primary_key ? [[named(told.primary_key.name), columns(told.primary_key.columns), "primary key, the order of the rows", [bytes(told.rows_bytes), ", the rows"]]] : [];
  return [...key, ...told.indexes.map((one) => [named(one.name), columns(one.columns),
    `${one.unique ? "unique" : "index"}${one.is_constraint ? " constraint" : ""}${one.is_ready ? "" : ", being built"}`,
    h("a", { href: `#/tree/sql/${told.oid}?index=${one.oid}`, title: "Files with its entries" }, bytes(one.bytes))])];
}

function foreignKey(one) {
  const list = (names) => names.map((name, at) => [at > 0 ? ", " : "", named(name)]);
  const other = one.table === null ? "–" : [h("a", { href: `#/tables/sql/${one.references}` }, named(one.schema), ".", named(one.table)), " (", list(one.referenced), ")"];
  return [named(one.name), list(one.columns), other];
}

/** Shows pages of a table's rows, in the order of its primary key. */
function browse(root, told, query, signal) {
  const first = told.primary_key?.columns[0]?.name;
  const from = h("input", { id: "from", class: "mono", value: query.get("from") ?? "", autocomplete: "off", spellcheck: "false", placeholder: "first row", disabled: first === undefined });
  const limit = h("select", { id: "limit" }, ["25", "50", "100", "200"].map((number) => h("option", { value: number, selected: number === (query.get("limit") ?? "50") }, number)));
  const result = h("div", {});
  const here = (parameters) => `#/tables/sql/${told.oid}${parameters.size > 0 ? `?${parameters}` : ""}`;
  function submit(event) {
    event.preventDefault();
    const next = new URLSearchParams();
    if (from.value !== "") next.set("from", from.value);
    if (limit.value !== "50") next.set("limit", limit.value);
    if (here(next) === location.hash) load();
    else location.hash = here(next);
  }
  fill(root, h("form", { class: "card browse", onsubmit: submit, "aria-label": "Rows to show" },
    h("div", { class: "field" }, h("label", { for: "from" }, first === undefined ? "The table has no primary key" : `From ${escaped(first)}`), from),
    h("div", { class: "field narrow" }, h("label", { for: "limit" }, "Rows"), limit),
    h("button", { class: "button primary", type: "submit" }, "Show rows"),
    h("p", { class: "card-note" }, "Rows come in the order of the primary key, each page as of its own moment. Long values are cut.")), result);

  async function load() {
    fill(result, h("p", { class: "empty", role: "status" }, "Reading …"));
    const parameter = (name) => query.get(name) ?? undefined;
    try {
      const after = parameter("after");
      fill(result, page(await get("/sql/rows", { oid: told.oid, after, from: after === undefined ? parameter("from") : undefined, limit: limit.value }, signal)));
    } catch (error) {
      if (error.name !== "AbortError") fill(result, notice(error.status === 400 ? "note" : tone(error), "The rows cannot be read", error.message));
    }
  }

  function page(answer) {
    if (answer.rows.length === 0) return h("div", { class: "card empty" }, h("strong", {}, "No rows"), "No row of the table lies here.");
    const following = new URLSearchParams(query);
    following.delete("from");
    if (answer.next) following.set("after", answer.next.data);
    const begin = new URLSearchParams(query);
    begin.delete("after");
    return [
      h("p", { class: "result-note", role: "status" }, `${count(answer.rows.length)} ${answer.rows.length === 1 ? "row" : "rows"}${answer.next ? ", and more rows follow" : ""}`),
      h("div", { class: "card" }, h("div", { class: "scroll results", tabindex: 0, role: "region", "aria-label": "Rows of the table" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, answer.columns.map((one) => h("th", { scope: "col" }, named(one.name), h("small", {}, one.type))))),
        h("tbody", {}, answer.rows.map((cells) => h("tr", {}, answer.columns.map((one, at) => h("td", {}, at < cells.length ? value(cells[at], one.type) : h("span", { class: "nothing" }, "not shown"))))))))),
      h("div", { class: "pager" }, query.get("after") ? h("a", { class: "button", href: here(begin) }, "First page") : null,
        answer.next ? h("a", { class: "button", href: here(following) }, "Next page") : null),
    ];
  }
  load();
}
