// The frame: which page is shown, who looks, and the colours.

import { get, setToken, token } from "./api.js";
import { fill, h, icon, notice } from "./dom.js";
import { signIn } from "./session.js";
import { backups } from "../pages/backups.js";
import { cluster } from "../pages/cluster.js";
import { heat } from "../pages/heat.js";
import { overview } from "../pages/overview.js";
import { query } from "../pages/query.js";
import { tables } from "../pages/tables.js";
import { tree } from "../pages/tree.js";

const PAGES = [
  { path: "overview", title: "Overview", show: overview },
  { path: "tables", title: "Tables", show: tables },
  { path: "tree", title: "LSM tree", show: tree },
  { path: "heat", title: "Heat map", show: heat },
  { path: "query", title: "SQL", show: query },
  { path: "backups", title: "Backups", show: backups },
  { path: "cluster", title: "Cluster", show: cluster, ofCluster: true },
];

const main = document.getElementById("main");
let session = null;
let leave = () => {};

function place() {
  const [path, query = ""] = location.hash.replace(/^#\//, "").split("?");
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { parts, query: new URLSearchParams(query) };
}

/** Returns the pages of this server: a single one has no cluster. */
function pages() {
  return PAGES.filter((page) => !page.ofCluster || session.cluster);
}

/** Shows the page of the address. */
function show(moveFocus) {
  leave();
  leave = () => {};
  if (!session) return;
  const { parts, query } = place();
  const page = pages().find((known) => known.path === parts[0]);
  if (!page) {
    location.replace(`#/${PAGES[0].path}`);
    return;
  }
  for (const link of document.querySelectorAll("#pages a")) {
    if (link.dataset.path === page.path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page.title} · Stele console`;
  const root = h("div", {});
  fill(main, root);
  const controller = new AbortController();
  const stop = page.show(root, { parts: parts.slice(1), query, session, signal: controller.signal, state });
  leave = () => {
    controller.abort();
    stop?.();
  };
  if (moveFocus) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

/** Shows the state of the server in the bar. */
function state(tone, text) {
  const element = document.getElementById("state");
  if (element.dataset.tone === tone && element.textContent === text) return;
  element.dataset.tone = tone;
  fill(element, h("span", { class: "dot" }), h("span", { class: "state-text" }, text));
}

function enter(known) {
  session = known;
  document.getElementById("who").textContent = known.identity ?? "";
  document.getElementById("sign-out").hidden = token() === "";
  list(pages());
  show(true);
}

/** Lists pages at the side. */
function list(listed) {
  fill(document.getElementById("pages"), listed.map((page) =>
    h("a", { href: `#/${page.path}`, "data-path": page.path }, icon(page.path), page.title)));
}

async function start() {
  list(PAGES.filter((page) => !page.ofCluster));
  try {
    enter(await get("/session"));
  } catch (error) {
    if (error.status === 401) return;
    state("bad", "Unreachable");
    fill(main, notice("critical", "The console cannot start", error.message));
  }
}

function leaveSession() {
  leave();
  leave = () => {};
  session = null;
  fill(document.getElementById("who"));
  fill(document.getElementById("state"));
  document.getElementById("sign-out").hidden = true;
  signIn(main, enter);
}

const THEMES = { auto: "as the system has them", light: "light", dark: "dark" };
function theme(next) {
  const root = document.documentElement;
  const now = root.dataset.theme ?? "auto";
  const names = Object.keys(THEMES);
  const chosen = next ? names[(names.indexOf(now) + 1) % names.length] : now;
  if (chosen === "auto") delete root.dataset.theme;
  else root.dataset.theme = chosen;
  const button = document.getElementById("theme");
  button.setAttribute("aria-label", `Colours: ${THEMES[chosen]}`);
  button.title = `Colours: ${THEMES[chosen]}`;
  fill(button, icon({ auto: "auto", light: "sun", dark: "moon" }[chosen]));
  try {
    localStorage.setItem("stele-theme", chosen);
  } catch {
    return; // The choice holds until the page is left.
  }
}

document.getElementById("theme").addEventListener("click", () => theme(true));
document.getElementById("sign-out").addEventListener("click", () => {
  setToken("");
  leaveSession();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("stele-sign-in", () => {
  if (!main.querySelector(".sign-in")) leaveSession();
});
window.addEventListener("hashchange", () => show(true));
theme(false);
start();
