// The map of a cluster: its nodes, and which of them have and lead the tablets.

import { get } from "../script/api.js";
import { sum } from "../script/choice.js";
import { fill, h, notice } from "../script/dom.js";
import { count, percent } from "../script/format.js";

const EVERY_MS = 5000;
/** What a node may have of a tablet. */
const MARKS = { lead: "leads", has: "has all entries", behind: "is behind", lost: "cannot catch up", unknown: "not known" };
/** Tablets that are listed at a time. */
const LISTED = 200;

/** Shows the page in `root`. Returns what stops it. */
export function cluster(root, { signal, state }) {
  const note = h("span", { class: "card-note" });
  const body = h("div", {});
  const search = h("input", { id: "filter", type: "search", autocomplete: "off", spellcheck: "false" });
  const list = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Tablets" });
  const listed = h("p", { class: "card-note" });
  const tablets = h("section", { class: "card", "aria-label": "Tablets by node" },
    h("div", { class: "card-head" }, h("h2", {}, "Tablets by node"), legend(),
      h("div", { class: "end" }, h("label", { for: "filter", class: "visually-hidden" }, "Tables whose name has"), search)),
    h("div", { class: "card-body" }, list, listed));
  search.placeholder = "Filter by table";
  let told = null;
  let timer = 0;
  fill(root, h("div", { class: "page-head" }, h("h1", {}, "Cluster"), note), body);
  search.addEventListener("input", drawTablets);

  function draw() {
    note.textContent = `${told.cluster}, as node ${told.me} sees it`;
    const parts = [warnings(told), summary(told), h("div", { class: "nodes" }, told.nodes.map((node) => nodeCard(node, told)))];
    // The list stays in its place, with what was typed and chosen in it.
    if (tablets.parentNode === body) {
      while (body.firstChild !== tablets) body.firstChild.remove();
      tablets.before(...parts.filter(Boolean));
    } else fill(body, parts, tablets);
    if (!list.contains(document.activeElement)) drawTablets();
  }

  function drawTablets() {
    if (!told) return;
    const wanted = search.value.trim().toLowerCase();
    const found = told.tablets.filter((tablet) => tablet.table.toLowerCase().includes(wanted));
    fill(list, tabletTable(found.slice(0, LISTED), told));
    const beyond = told.tablets_left_out > 0 ? ` ${count(told.tablets_left_out)} more tablets are not told here.` : "";
    listed.textContent = `${found.length > LISTED ? `The first ${LISTED} of ${count(found.length)} tablets.` : `${count(found.length)} ${found.length === 1 ? "tablet" : "tablets"}.`}${beyond}`;
  }

  async function load() {
    try {
      told = await get("/cluster", {}, signal);
      draw();
      state("good", "Serving");
      timer = setTimeout(load, EVERY_MS);
    } catch (error) {
      if (error.name === "AbortError") return;
      const single = error.status === 404;
      fill(body, notice(single || error.status === 403 ? "note" : "critical", single ? "This server is in no cluster" : "The cluster cannot be shown", error.message));
    }
  }
  load();
  return () => clearTimeout(timer);
}

/** Returns the largest lag of a tablet's members behind its leader, in entries; null without a leader. */
function lagOf(tablet) {
  const lags = tablet.members.map((member) => member.match_lag_entries).filter((lag) => typeof lag === "number");
  return tablet.leader === null ? null : Math.max(0, ...lags);
}

function warnings(told) {
  const away = told.nodes.filter((node) => !node.alive);
  const leaderless = told.tablets.filter((tablet) => tablet.leader === null).length;
  const lost = told.tablets.filter((tablet) => tablet.members.some((member) => member.behind)).length;
  const all = [];
  if (told.directory_trouble) all.push(notice("warning", "The directory does not answer", `${told.directory_trouble}. Rows are read and written meanwhile; tables cannot be created or deleted.`));
  if (lost > 0) all.push(notice("critical", `${count(lost)} ${lost === 1 ? "tablet has a replica" : "tablets have replicas"} that cannot catch up`, "The leader's log no longer has what it lacks. The log of the leader names the node, and docs/cluster.md says what to do."));
  if (away.length > 0) all.push(notice("warning", away.length === 1 ? `Node ${away[0].id} is away` : `${away.length} nodes are away`, "Tablets with a majority of their replicas elsewhere are served on. Bring it back, or see its log."));
  if (leaderless > 0) all.push(notice("critical", `${count(leaderless)} ${leaderless === 1 ? "tablet has" : "tablets have"} no leader`, "Their rows can be neither read nor written until a majority of their replicas is there. An election takes a few seconds."));
  return all.length > 0 ? h("div", { class: "advice" }, all) : null;
}

function summary(told) {
  const alive = told.nodes.filter((node) => node.alive).length;
  const behind = told.tablets.filter((tablet) => lagOf(tablet) > 0);
  const most = Math.max(0, ...behind.map(lagOf));
  const all = told.tablets.length + (told.tablets_left_out ?? 0);
  const facts = [
    ["Nodes", `${alive} of ${told.nodes.length}`, "alive"],
    ["Tablets", count(all), `of ${count(new Set(told.tablets.map((tablet) => tablet.table)).size)} tables`],
    ["Without a leader", count(told.tablets.filter((tablet) => tablet.leader === null).length), "neither read nor written"],
    ["Behind", count(behind.length), most > 0 ? `${count(most)} entries at most` : "all replicas have all entries"],
  ];
  return h("ul", { class: "tiles four" }, facts.map(([label, value, sub]) => h("li", { class: "card tile" },
    h("span", { class: "tile-label" }, label), h("span", { class: "tile-value" }, value), h("span", { class: "tile-sub" }, sub))));
}

function nodeCard(node, told) {
  const leaders = sum(told.nodes.map((one) => one.leaders ?? 0));
  const part = leaders > 0 ? node.leaders / leaders : 0;
  const bar = h("i", {});
  bar.style.width = `${part * 100}%`;
  const place = [node.region, node.zone].filter(Boolean).join(" / ");
  return h("section", { class: `card node${node.alive ? "" : " away"}`, "aria-label": `Node ${node.id}` },
    h("div", { class: "card-head" }, h("h2", {}, `Node ${node.id}`), node.id === told.me ? h("span", { class: "tag" }, "this one") : null,
      h("span", { class: "tag end", "data-tone": node.alive ? "good" : "critical" }, node.alive ? "alive" : "away")),
    h("div", { class: "card-body" }, h("p", { class: "mono" }, node.address), h("p", { class: "card-note" }, place || "no region"),
      h("dl", {},
        h("div", {}, h("dt", {}, "Leads"), h("dd", {}, node.leaders === null ? "not known" : `${count(node.leaders)} (${percent(part)})`)),
        h("div", {}, h("dt", {}, "Replicas"), h("dd", {}, count(node.replicas)))),
      h("div", { class: "meter tone-1", "aria-hidden": "true" }, bar)));
}

function legend() {
  return h("div", { class: "card-note map-legend" }, Object.entries(MARKS).map(([kind, words]) => h("span", {}, mark(kind), words)));
}

function mark(kind) {
  return h("i", { class: `mark-${kind}`, "aria-hidden": "true" });
}

/** Returns what a node has of a tablet: a mark, and words for all who do not see it. */
function cell(tablet, node) {
  const member = tablet.members.find((one) => one.node === node.id);
  if (!member) return h("td", { class: "map-cell" }, hidden("no replica"));
  const kind = kindOf(tablet, member);
  const lag = kind === "behind" ? h("span", { class: "lag" }, `−${count(member.match_lag_entries)}`) : null;
  return h("td", { class: "map-cell" }, mark(kind), lag, hidden(kind === "behind" ? " entries behind" : MARKS[kind]));
}

function kindOf(tablet, member) {
  if (tablet.leader === member.node) return "lead";
  if (member.behind) return "lost";
  if (typeof member.match_lag_entries !== "number") return "unknown";
  return member.match_lag_entries > 0 ? "behind" : "has";
}

function hidden(words) {
  return h("span", { class: "visually-hidden" }, words);
}

function tabletTable(tablets, told) {
  if (tablets.length === 0) return h("p", { class: "card-note" }, "No tablet has such a table.");
  return h("table", { class: "data map" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Table"), h("th", { scope: "col", class: "number" }, "Tree"), told.nodes.map((node) => h("th", { scope: "col", class: "map-cell" }, `Node ${node.id}`)), h("th", { scope: "col", class: "number" }, "Term"))),
    h("tbody", {}, tablets.map((tablet) => h("tr", { class: tablet.leader === null ? "leaderless" : null },
      h("th", { scope: "row" }, h("a", { href: `#/tables/${encodeURIComponent(tablet.table)}` }, tablet.table.split("/tables/").at(-1)), tablet.leader === null ? h("span", { class: "tag", "data-tone": "critical" }, "no leader") : null),
      h("td", { class: "number" }, tablet.tree), told.nodes.map((node) => cell(tablet, node)), h("td", { class: "number" }, tablet.term)))));
}
