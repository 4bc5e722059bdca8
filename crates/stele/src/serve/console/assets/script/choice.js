// What pages about one table share: the choice of the table, and drawing again in another width.

import { get } from "./api.js";
import { escaped } from "./bytes.js";
import { fill, h, notice } from "./dom.js";

/** Returns the address of a table on a page. A table of SQL is `sql/` and its number. */
export function tableAddress(page, table) {
  return `#/${page}/${table.startsWith("sql/") ? table : encodeURIComponent(table)}`;
}

/**
 * Fills `select` with the tables that the visitor may list, those of SQL too if `sql`, and calls `load` if one of
 * them is `chosen`. Else goes to the `page` of the first one. Says so in `body` if there are none.
 */
export async function chooseTable(select, { page, chosen, body, signal, load, sql = false }) {
  try {
    const ofSql = sql ? await sqlTables(signal) : [];
    const answer = await get("/tables", {}, signal);
    const tables = answer.tables.map((one) => [one.name, one.name.split("/tables/").at(-1)]);
    const names = [...tables, ...ofSql].map(([name]) => name);
    if (chosen.startsWith("sql/") && !names.includes(chosen)) ofSql.unshift([chosen, `number ${chosen.slice(4)}`]);
    else if (chosen && !names.includes(chosen)) tables.unshift([chosen, chosen.split("/tables/").at(-1)]);
    const options = (of) => of.map(([name, title]) => h("option", { value: name, selected: name === chosen }, title));
    fill(select, ofSql.length === 0 ? options(tables) : [h("optgroup", { label: "Bigtable" }, options(tables)), h("optgroup", { label: "SQL" }, options(ofSql))]);
    if (chosen) load();
    else if (names.length > 0) location.replace(tableAddress(page, names[0]));
    else fill(body, h("div", { class: "card empty" }, h("strong", {}, "No tables"), "There are no tables that you may list."));
  } catch (error) {
    if (error.name !== "AbortError") fill(body, notice("critical", "The tables cannot be listed", error.message));
  }
}

/** Returns the tables of SQL as options: value and title. None if they cannot be listed now. */
async function sqlTables(signal) {
  const answer = await get("/sql/tables", { kind: "table" }, signal).catch((error) => {
    if (error.name === "AbortError") throw error;
    return { relations: [] };
  });
  return answer.relations.map((one) => [`sql/${one.oid}`, `${escaped(one.schema)}.${escaped(one.name)}`]);
}

/** Calls `draw` when the window changes its size. Returns what ends that, and calls `stop`. */
export function drawnAgain(draw, stop) {
  const resized = () => draw();
  window.addEventListener("resize", resized);
  return () => {
    stop();
    window.removeEventListener("resize", resized);
  };
}

/** Returns the sum of numbers. */
export function sum(values) {
  return values.reduce((left, right) => left + right, 0);
}
