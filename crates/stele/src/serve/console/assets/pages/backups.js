// Backups of tables.

import { get } from "../script/api.js";
import { fill, h, notice } from "../script/dom.js";
import { bytes, date } from "../script/format.js";

/** Shows the page in `root`. */
export function backups(root, { signal, state }) {
  const lists = h("div", { class: "stack" });
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "Backups")), lists,
    h("p", { class: "card-note page-note" }, "Backups of the whole store are made and kept by ", h("code", {}, "stele backup"), " at their destination, which the server does not know. List them with ", h("code", {}, "stele backup list"), "."));

  async function load() {
    fill(lists, h("p", { class: "empty", role: "status" }, "Reading …"));
    try {
      const answer = await get("/tables", {}, signal);
      const instances = [...new Set(answer.tables.map((table) => table.name.split("/tables/")[0]))].slice(0, 20);
      const told = await Promise.all(instances.map(async (instance) => ({ instance, answer: await get("/backups", { instance }, signal).catch((error) => ({ error })) })));
      const listed = told.filter(({ answer }) => answer.error || answer.backups.length > 0);
      fill(lists, listed.length === 0
        ? h("div", { class: "card empty" }, h("strong", {}, "No backups of tables"), "Clients make them with CreateBackup, and the server keeps them beside the tables.")
        : listed.map(list));
      state("good", "Serving");
    } catch (error) {
      if (error.name !== "AbortError") fill(lists, notice("critical", "The backups cannot be listed", error.message));
    }
  }

  function list({ instance, answer }) {
    if (answer.error) return notice(answer.error.status === 403 ? "note" : "critical", instance, answer.error.message);
    const body = h("tbody", {}, answer.backups.map(row));
    let next = answer.next;
    const more = h("button", { class: "button", type: "button", hidden: !next, onclick: load }, "More backups");
    async function load() {
      const following = await get("/backups", { instance, token: next }, signal).catch((error) => ({ backups: [], next, error }));
      if (following.error) more.after(notice("critical", "The backups cannot be listed", following.error.message));
      body.append(...following.backups.map(row));
      next = following.next;
      more.hidden = !next;
    }
    return h("section", { class: "card" }, h("div", { class: "card-head" }, h("h2", {}, instance.replace(/^projects\/([^/]*)\/instances\//, "$1 / "))),
      h("div", { class: "card-body" }, h("div", { class: "scroll" }, h("table", { class: "data" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Backup"), h("th", { scope: "col" }, "Table"), h("th", { scope: "col" }, "State"), h("th", { scope: "col", class: "number" }, "Bytes"), h("th", { scope: "col" }, "Made"), h("th", { scope: "col" }, "Expires"))),
        body)), more));
  }
  load();
}

function row(backup) {
  const moment = (ms) => (ms === null ? "–" : date(ms));
  return h("tr", {}, h("th", { scope: "row" }, backup.name.split("/backups/").at(-1)),
    h("td", {}, h("a", { href: `#/tables/${encodeURIComponent(backup.source_table)}` }, backup.source_table.split("/tables/").at(-1))),
    h("td", {}, backup.state), h("td", { class: "number" }, bytes(backup.bytes)), h("td", {}, moment(backup.start_ms)), h("td", {}, moment(backup.expire_ms)));
}
