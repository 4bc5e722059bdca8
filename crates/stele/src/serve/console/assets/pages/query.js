// A prompt for SQL over Bigtable tables, or over SQL tables: the rows of a query, or its plan.

import { get, post } from "../script/api.js";
import { escaped, named, shown } from "../script/bytes.js";
import { fill, h, notice } from "../script/dom.js";
import { count } from "../script/format.js";

const INSTANCE = "stele-instance";

/** Shows the page in `root`. */
export function query(root, { query: parameters, session, signal, state }) {
  const hasSql = session.sql && session.may.sql_query;
  const prompt = hasSql && parameters.get("of") === "sql" ? sqlPrompt(signal) : bigtablePrompt(signal);
  const text = h("textarea", { id: "sql", class: "mono", rows: 5, required: true, spellcheck: "false", autocomplete: "off", placeholder: "SELECT * FROM my_table LIMIT 20", "aria-describedby": "sql-note" });
  const result = h("div", { class: "result" });
  const [run, plan] = [h("button", { class: "button primary", type: "submit" }, "Run"), h("button", { class: "button", type: "button", onclick: () => ask(true) }, "Explain")];
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "SQL")),
    h("form", { class: "card prompt", onsubmit: (event) => { event.preventDefault(); ask(false); } },
      hasSql ? choice(prompt.of) : null, prompt.fields,
      h("div", { class: "field" }, h("label", { for: "sql" }, "Query"), text),
      h("div", { class: "prompt-end" }, run, plan, h("p", { class: "card-note", id: "sql-note" }, `Ctrl+Enter runs the query. ${prompt.note}`))),
    result);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(false);
  });

  async function ask(explain) {
    if (!prompt.isReady() || !text.reportValidity()) return;
    run.disabled = plan.disabled = true;
    fill(result, h("p", { class: "empty", role: "status" }, explain ? "Planning …" : "Running …"));
    const asked = text.value;
    const started = performance.now();
    try {
      const answer = await prompt.send(asked, explain);
      fill(result, explain ? tree(answer.plan) : rows(answer, performance.now() - started));
      state("good", "Serving");
    } catch (error) {
      if (error.name !== "AbortError") fill(result, failure(error, asked, text));
    }
    run.disabled = plan.disabled = false;
  }

  prompt.example().then((example) => {
    state("good", "Serving");
    if (example && !text.value) text.value = example;
  }, () => {}); // The prompt works without proposals.
}

/** Returns the choice of the tables that queries read, which the address keeps. */
function choice(of) {
  const select = h("select", { id: "tables-of" }, [["bigtable", "Bigtable tables"], ["sql", "SQL tables"]].map(([value, title]) => h("option", { value, selected: value === of }, title)));
  select.addEventListener("change", () => (location.hash = select.value === "sql" ? "#/query?of=sql" : "#/query"));
  return h("div", { class: "field" }, h("label", { for: "tables-of" }, "Tables that queries read"), select);
}

/** Returns the prompt of ExecuteQuery: its fields, and what sends a query. */
function bigtablePrompt(signal) {
  const instances = h("datalist", { id: "instances" });
  const instance = h("input", { id: "instance", class: "mono", list: "instances", required: true, spellcheck: "false", autocomplete: "off", value: kept(), placeholder: "projects/PROJECT/instances/INSTANCE" });
  return {
    of: "bigtable",
    fields: h("div", { class: "field" }, h("label", { for: "instance" }, "Instance"), instance, instances),
    note: "At most 1,000 rows are shown, for at most 15 seconds of work.",
    isReady: () => instance.reportValidity(),
    send(asked, explain) {
      keep(instance.value);
      return post(explain ? "/explain" : "/query", { instance: instance.value, query: asked }, signal);
    },
    async example() {
      const { tables } = await get("/tables", {}, signal);
      const names = [...new Set(tables.map((table) => table.name.split("/tables/")[0]))];
      fill(instances, names.map((name) => h("option", { value: name })));
      if (!instance.value && names.length > 0) instance.value = names[0];
      const first = tables.find((table) => table.name.startsWith(`${instance.value}/tables/`));
      return first ? `SELECT * FROM \`${first.name.split("/tables/")[1]}\` LIMIT 20` : null;
    },
  };
}

/** Returns the prompt of SQL tables. */
function sqlPrompt(signal) {
  const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
  return {
    of: "sql",
    fields: null,
    note: "One statement of PostgreSQL's SQL that only reads. At most 1,000 rows are shown, for at most 10 seconds of work.",
    isReady: () => true,
    send: (asked, explain) => post("/sql/query", { sql: asked, explain }, signal),
    async example() {
      const { relations } = await get("/sql/tables", { kind: "table" }, signal);
      // Of a name that misleads no query is proposed.
      const first = relations.find((one) => one.kind === "table" && [one.schema, one.name].every((name) => escaped(name) === name));
      return first ? `SELECT * FROM ${quoted(first.schema)}.${quoted(first.name)} LIMIT 20` : null;
    },
  };
}

function kept() {
  try {
    return sessionStorage.getItem(INSTANCE) ?? "";
  } catch {
    return "";
  }
}

function keep(instance) {
  try {
    sessionStorage.setItem(INSTANCE, instance);
  } catch {
    return; // The choice holds until the page is left.
  }
}

const WRONG = {
  INVALID_ARGUMENT: "The query is wrong", UNIMPLEMENTED: "The server does not have this", DEADLINE_EXCEEDED: "The query takes too long", ABORTED: "The query was cancelled",
  PERMISSION_DENIED: "You may not run this query", RESOURCE_EXHAUSTED: "The server has no room for this query now", UNAVAILABLE: "The server cannot run the query now",
};

/** Shows an error, with the place in the query if the server tells one. */
function failure(error, asked, text) {
  const calm = [403, 409, 503].includes(error.status);
  const told = notice(calm ? "note" : "critical", WRONG[error.code] ?? error.code, h("bdi", {}, error.message));
  const facts = [["Detail", error.detail], ["Hint", error.hint], ["SQLSTATE", error.sqlstate]];
  told.append(...facts.filter(([, fact]) => fact).map(([name, fact]) => h("p", {}, `${name}: `, h("bdi", {}, fact))));
  const place = placeOf(error, asked);
  const line = place ? asked.split("\n")[place.line] : undefined;
  if (line === undefined) return [told];
  const column = Math.max(0, Math.min(place.column, line.length));
  const from = Math.max(0, column - 60);
  const start = asked.split("\n").slice(0, place.line).join("\n").length + (place.line > 0 ? 1 : 0) + column;
  text.focus();
  text.setSelectionRange(start, Math.min(start + 1, asked.length));
  return [told, h("pre", { class: "card place", "aria-label": `Line ${place.line + 1}, column ${column + 1}` }, `${line.slice(from, column + 60)}\n${" ".repeat(column - from)}^`)];
}

/** Returns line and column of an error, from 0: from its position in characters, or from its message. */
function placeOf(error, asked) {
  if (error.position) {
    const lines = [...asked].slice(0, error.position - 1).join("").split("\n");
    return { line: lines.length - 1, column: lines.at(-1).length };
  }
  const place = /Line: (\d+), Column: (\d+)/i.exec(error.message);
  return place ? { line: Number(place[1]) - 1, column: Number(place[2]) - 1 } : null;
}

function rows(answer, ms) {
  const columns = answer.columns;
  return [
    h("p", { class: "result-note", role: "status" }, `${answer.more ? "The first " : ""}${count(answer.rows.length)} ${answer.rows.length === 1 ? "row" : "rows"} in ${Math.round(ms)} ms${answer.more ? "; the answer is cut" : ""}`),
    answer.rows.length === 0 ? h("div", { class: "card empty" }, h("strong", {}, "No rows"), "No row fulfils the condition.") :
      h("div", { class: "card" }, h("div", { class: "scroll results", tabindex: 0, role: "region", "aria-label": "Rows of the result" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, columns.map((column, index) => h("th", { scope: "col" }, column.name ? named(column.name) : `column ${index + 1}`, h("small", {}, column.type))))),
        h("tbody", {}, answer.rows.map((row) => h("tr", {}, columns.map((column, index) => h("td", {}, index < row.length ? value(row[index], column.type) : h("span", { class: "nothing" }, "not shown"))))))))),
  ];
}

/** Shows a value of a result: NULL, bytes, a text or what stands for another type. */
export function value(of, type) {
  if (of === null) return h("span", { class: "nothing" }, "NULL");
  if (of.bytes) return shown(of.bytes, 200);
  if (of.string) return shown(of.string, 400);
  if (of.array) {
    const map = type.startsWith("MAP<");
    const items = of.array.map((item) => h("li", {}, map && item?.array?.length === 2 ? [value(item.array[0], ""), " → ", value(item.array[1], "")] : value(item, "")));
    if (of.items > of.array.length) items.push(h("li", { class: "nothing" }, `${of.items - of.array.length} more`));
    return items.length === 0 ? h("span", { class: "nothing" }, "empty") : h("ul", { class: "items" }, items);
  }
  if (of.timestamp_micros !== undefined) return h("code", {}, moment(of.timestamp_micros));
  return h("code", {}, String(Object.values(of)[0]));
}

function moment(micros) {
  const when = new Date(Number(BigInt(micros) / 1000n));
  if (Number.isNaN(when.getTime())) return `${micros} µs`;
  return `${when.toISOString().slice(0, 19).replace("T", " ")}.${String(((BigInt(micros) % 1000000n) + 1000000n) % 1000000n).padStart(6, "0")}Z`;
}

/** Shows a plan as a tree: the result on top, the read at the bottom. */
function tree(plan) {
  return h("section", { class: "card plan", "aria-label": "Plan of the query" },
    h("div", { class: "card-head" }, h("h2", {}, "Plan"), h("span", { class: "card-note" }, "each step takes the rows of the steps below it")),
    h("div", { class: "card-body" }, h("ol", { class: "steps" }, step(plan))));
}

function step(of) {
  const below = of.inputs ?? (of.input ? [of.input] : []);
  const keys = of.keys ?? [];
  return h("li", {}, h("div", { class: "step" }, h("h3", {}, h("bdi", {}, of.name)),
    of.facts.length > 0 ? h("dl", {}, of.facts.map((fact) => h("div", {}, h("dt", {}, fact.name), h("dd", {}, h("bdi", {}, fact.text))))) : null,
    keys.length > 0 ? h("ul", { class: "key-ranges", "aria-label": "Ranges of keys" }, keys.map(range)) : null),
  below.length > 0 ? h("ol", { class: "steps" }, below.map(step)) : null);
}

function range({ start, end }) {
  return h("li", {}, "from ", start.bytes > 0 ? shown(start, 80) : h("span", { class: "nothing" }, "the first key"),
    " to ", end ? [shown(end, 80), " (excluded)"] : h("span", { class: "nothing" }, "the last key"));
}
