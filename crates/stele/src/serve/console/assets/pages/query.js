// A prompt for SQL: the rows of a query, or its plan.

import { get, post } from "../script/api.js";
import { shown } from "../script/bytes.js";
import { fill, h, notice } from "../script/dom.js";
import { count } from "../script/format.js";

const INSTANCE = "stele-instance";

/** Shows the page in `root`. */
export function query(root, { signal, state }) {
  const instances = h("datalist", { id: "instances" });
  const instance = h("input", { id: "instance", class: "mono", list: "instances", required: true, spellcheck: "false", autocomplete: "off", value: kept(), placeholder: "projects/PROJECT/instances/INSTANCE" });
  const text = h("textarea", { id: "sql", class: "mono", rows: 5, required: true, spellcheck: "false", autocomplete: "off", placeholder: "SELECT * FROM my_table LIMIT 20", "aria-describedby": "sql-note" });
  const result = h("div", { class: "result" });
  const [run, plan] = [h("button", { class: "button primary", type: "submit" }, "Run"), h("button", { class: "button", type: "button", onclick: () => ask("/explain") }, "Explain")];
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "SQL")),
    h("form", { class: "card prompt", onsubmit: (event) => { event.preventDefault(); ask("/query"); } },
      h("div", { class: "field" }, h("label", { for: "instance" }, "Instance"), instance, instances),
      h("div", { class: "field" }, h("label", { for: "sql" }, "Query"), text),
      h("div", { class: "prompt-end" }, run, plan, h("p", { class: "card-note", id: "sql-note" }, "Ctrl+Enter runs the query. At most 1,000 rows are shown, for at most 15 seconds of work."))),
    result);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask("/query");
  });

  async function ask(path) {
    if (!instance.reportValidity() || !text.reportValidity()) return;
    keep(instance.value);
    run.disabled = plan.disabled = true;
    fill(result, h("p", { class: "empty", role: "status" }, path === "/query" ? "Running …" : "Planning …"));
    const asked = text.value;
    const started = performance.now();
    try {
      const answer = await post(path, { instance: instance.value, query: asked }, signal);
      fill(result, path === "/query" ? rows(answer, performance.now() - started) : tree(answer.plan));
      state("good", "Serving");
    } catch (error) {
      if (error.name !== "AbortError") fill(result, failure(error, asked, text));
    }
    run.disabled = plan.disabled = false;
  }

  get("/tables", {}, signal).then((answer) => {
    state("good", "Serving");
    const names = [...new Set(answer.tables.map((table) => table.name.split("/tables/")[0]))];
    fill(instances, names.map((name) => h("option", { value: name })));
    if (!instance.value && names.length > 0) instance.value = names[0];
    const first = answer.tables.find((table) => table.name.startsWith(`${instance.value}/tables/`));
    if (first && !text.value) text.value = `SELECT * FROM \`${first.name.split("/tables/")[1]}\` LIMIT 20`;
  }, () => {}); // The prompt works without proposals.
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

/** Shows an error, with the place in the query if the message names one. */
function failure(error, asked, text) {
  const place = /Line: (\d+), Column: (\d+)/i.exec(error.message);
  const parts = [notice(error.status === 403 ? "note" : "critical", { INVALID_ARGUMENT: "The query is wrong", UNIMPLEMENTED: "The server does not have this", DEADLINE_EXCEEDED: "The query takes too long", PERMISSION_DENIED: "You may not run this query" }[error.code] ?? error.code, error.message)];
  const line = place ? asked.split("\n")[Number(place[1]) - 1] : undefined;
  if (line !== undefined) {
    const column = Math.max(0, Math.min(Number(place[2]) - 1, line.length));
    const from = Math.max(0, column - 60);
    parts.push(h("pre", { class: "card place", "aria-label": `Line ${place[1]}, column ${place[2]}` }, `${line.slice(from, column + 60)}\n${" ".repeat(column - from)}^`));
    const start = asked.split("\n").slice(0, Number(place[1]) - 1).join("\n").length + (Number(place[1]) > 1 ? 1 : 0) + column;
    text.focus();
    text.setSelectionRange(start, Math.min(start + 1, asked.length));
  }
  return parts;
}

function rows(answer, ms) {
  const columns = answer.columns;
  return [
    h("p", { class: "result-note", role: "status" }, `${answer.more ? "The first " : ""}${count(answer.rows.length)} ${answer.rows.length === 1 ? "row" : "rows"} in ${Math.round(ms)} ms${answer.more ? "; the answer is cut" : ""}`),
    answer.rows.length === 0 ? h("div", { class: "card empty" }, h("strong", {}, "No rows"), "No row fulfils the condition.") :
      h("div", { class: "card" }, h("div", { class: "scroll results", tabindex: 0, role: "region", "aria-label": "Rows of the result" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, columns.map((column, index) => h("th", { scope: "col" }, column.name || `column ${index + 1}`, h("small", {}, column.type))))),
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
    h("div", { class: "card-head" }, h("h2", {}, "Plan"), h("span", { class: "card-note" }, "each step takes the rows of the one below it")),
    h("div", { class: "card-body" }, h("ol", { class: "steps" }, step(plan))));
}

function step(of) {
  return h("li", {}, h("div", { class: "step" }, h("h3", {}, of.name),
    h("dl", {}, of.facts.map((fact) => h("div", {}, h("dt", {}, fact.name), h("dd", {}, fact.text)))),
    of.keys.length > 0 ? h("ul", { class: "key-ranges", "aria-label": "Ranges of keys" }, of.keys.map(range)) : null),
  of.input ? h("ol", { class: "steps" }, step(of.input)) : null);
}

function range({ start, end }) {
  return h("li", {}, "from ", start.bytes > 0 ? shown(start, 80) : h("span", { class: "nothing" }, "the first key"),
    " to ", end ? [shown(end, 80), " (excluded)"] : h("span", { class: "nothing" }, "the last key"));
}
