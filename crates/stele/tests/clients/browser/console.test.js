// Every page of the console in a browser: what it shows, by mouse and keyboard, wide and narrow, light
// and dark, and what axe finds.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { CONSOLE_URL: url, CONSOLE_SECURED_URL: secured, CONSOLE_TOKEN: token, CONSOLE_BROWSER: executablePath, CONSOLE_SHOTS: shots } = process.env;
const table = encodeURIComponent("projects/local/instances/local/tables/people");
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const PAGES = {
  overview: ["overview", "Requests"],
  tables: ["tables", "people"],
  table: [`tables/${table}`, "Schema"],
  tree: [`tree/${table}`, "Level 0"],
  heat: [`heat/${table}`, "Hottest keys"],
  sql: ["query", "Explain"],
  backups: ["backups", "Backups"],
};
let browser;

before(async () => {
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(() => browser.close());

/** Opens a page; fails the test for an error in it, a dialog, or a request that leaves the server. */
async function open(path, options = {}, base = url) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const tab = await context.newPage();
  const wrong = [];
  tab.on("pageerror", (error) => wrong.push(error.message));
  tab.on("console", (message) => message.type() === "error" && !message.text().includes("status of 401") && !message.text().includes("status of 400") && wrong.push(message.text()));
  tab.on("dialog", (dialog) => wrong.push(`dialog: ${dialog.message()}`));
  tab.on("request", (request) => request.url().startsWith(base) || wrong.push(`request: ${request.url()}`));
  await tab.goto(`${base}/console/#/${path}`);
  return { tab, close: async () => { await context.close(); assert.deepEqual(wrong, []); } };
}

async function check(tab) {
  const session = await tab.context().newCDPSession(tab);
  await session.send("Runtime.evaluate", { expression: axe });
  const { violations } = await tab.evaluate(() => globalThis.axe.run(document));
  assert.deepEqual(violations.map((one) => `${one.id}: ${one.nodes[0].html}`), []);
  assert.equal(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "the page is wider than the window");
}

for (const [name, [path, text]] of Object.entries(PAGES)) {
  for (const width of [1440, 390]) {
    for (const colorScheme of ["light", "dark"]) {
      test(`${name} at ${width} pixels, ${colorScheme}`, async () => {
        const { tab, close } = await open(path, { viewport: { width, height: 900 }, colorScheme });
        await tab.getByText(text, { exact: true }).first().waitFor();
        await tab.waitForLoadState("networkidle");
        if (shots) await tab.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        await check(tab);
        await close();
      });
    }
  }
}

test("keys and values that would be markup, or mislead, are shown as escapes", async () => {
  const { tab, close } = await open(`tables/${table}`);
  await tab.locator(".row").first().waitFor();
  const shown = await tab.locator(".rows").innerText();
  assert.match(shown, /<img src=x onerror=alert\(1\)>/);
  assert.match(shown, /\\xe2\\x80\\xae/, "a mark that turns text round");
  assert.match(shown, /\\x00\\xff/);
  assert.equal(await tab.locator("main img, main script, main iframe").count(), 0);
  await tab.locator(".row").first().locator(".value button").first().click();
  await tab.getByRole("button", { name: "SQL literal" }).click();
  assert.match(await tab.locator(".cell-content").innerText(), /^b'<img src=x onerror=alert\(1\)>\\x00\\xff\\xe2\\x80\\xae'$/);
  await tab.getByRole("button", { name: "Hex" }).click();
  assert.match(await tab.locator(".cell-content").innerText(), /^00000000 {2}3c 69 6d 67/);
  await check(tab);
  await tab.keyboard.press("Escape");
  await tab.locator("dialog").waitFor({ state: "detached" });
  await close();
});

test("rows are found by prefix and by pages", async () => {
  const { tab, close } = await open(`tables/${table}`);
  await tab.getByLabel("Keys that begin with").fill("user\\x23");
  await tab.getByLabel("Rows", { exact: true }).selectOption("25");
  await tab.getByRole("button", { name: "Show rows" }).click();
  await tab.getByText("25 rows, 25 cells, and more rows follow").waitFor();
  await tab.getByRole("link", { name: "Next page" }).click();
  await tab.getByText("user#0025", { exact: true }).waitFor();
  await tab.getByRole("link", { name: "First page" }).click();
  await tab.getByText("user#0000", { exact: true }).waitFor();
  await tab.getByLabel("From the key").fill("user\\");
  await tab.getByRole("button", { name: "Show rows" }).click();
  await tab.getByText("After a backslash comes x").waitFor();
  await close();
});

test("a query gives rows, a plan as a tree, or the place of its error", async () => {
  const { tab, close } = await open("query");
  await tab.getByLabel("Query", { exact: true }).fill("SELECT _key, f['name'] AS name FROM people WHERE _key LIKE 'user#%' LIMIT 3");
  await tab.getByLabel("Query", { exact: true }).press("Control+Enter");
  await tab.getByText(/^3 rows in/).waitFor();
  await check(tab);
  await tab.getByRole("button", { name: "Explain" }).click();
  await tab.getByRole("heading", { name: "Read" }).waitFor();
  assert.match(await tab.locator(".plan").innerText(), /from user# to user\$/);
  await check(tab);
  await tab.getByLabel("Query", { exact: true }).fill("SELECT _key FROM people\nWHERE _key = = 1");
  await tab.getByRole("button", { name: "Run" }).click();
  await tab.getByText("The query is wrong").waitFor();
  assert.match(await tab.locator(".place").innerText(), /\^/);
  await close();
});

test("charts are read by keyboard and as tables", async () => {
  const { tab, close } = await open("overview");
  const plot = tab.getByRole("slider", { name: "Requests: moment" });
  await tab.waitForFunction(() => document.querySelector("[aria-label='Requests: moment']")?.getAttribute("aria-valuetext").includes("Reads"));
  await plot.focus();
  await plot.press("Home");
  assert.match(await plot.getAttribute("aria-valuetext"), /^\d\d:\d\d:\d\d: Reads /);
  assert.equal(await plot.getAttribute("aria-valuenow"), "0");
  await tab.locator("figure").first().getByText("As a table").click();
  await tab.locator("figure").first().getByRole("columnheader", { name: "Writes" }).waitFor();
  await check(tab);
  await close();
});

test("the heat map is read by keyboard and as a table", async () => {
  const { tab, close } = await open(`heat/${table}`);
  const plot = tab.getByRole("slider", { name: "Heat map: range of keys" });
  await plot.focus();
  await plot.press("Home");
  assert.match(await plot.getAttribute("aria-valuetext"), /^\d\d:\d\d:\d\d, keys from the first to .*: reads .*, writes /);
  await plot.press("ArrowDown");
  assert.equal(await plot.getAttribute("aria-valuenow"), "2");
  assert.match(await tab.locator(".heat-note").innerText(), /^\d\d:\d\d:\d\d: reads /);
  await tab.getByRole("button", { name: "Writes", exact: true }).click();
  await tab.locator("figure").getByText("As a table").click();
  await tab.getByRole("columnheader", { name: "Most at once" }).waitFor();
  assert.equal(await tab.locator("main img, main script").count(), 0, "keys are shown as text");
  await check(tab);
  await close();
});

/** A cluster of three nodes as its API tells it: one is away, and one tablet has no leader. */
const CLUSTER = {
  cluster: "1f0c7a52b9d34e66", me: 1, directory_trouble: "connection refused",
  nodes: [
    { id: 1, address: "10.0.0.1:8088", region: "eu", zone: "eu-a", alive: true, leaders: 2, replicas: 3 },
    { id: 2, address: "10.0.0.2:8088", region: "eu", zone: "eu-b", alive: true, leaders: 1, replicas: 4 },
    { id: 3, address: "a-node-with-a-long-name.of.a.data.centre.example.org:8088", region: "", zone: "", alive: false, leaders: null, replicas: 4 },
  ],
  tablets: [
    { table: "projects/local/instances/local/tables/people", tree: 5, leader: 1, term: 7, members: [{ node: 1, match_lag_entries: 0 }, { node: 2, match_lag_entries: 0 }, { node: 3, match_lag_entries: 1234 }] },
    { table: "projects/local/instances/local/tables/people", tree: 6, leader: 2, term: 9, members: [{ node: 2, match_lag_entries: 0 }, { node: 3, match_lag_entries: null }, { node: 1, match_lag_entries: 3 }] },
    { table: "projects/local/instances/local/tables/<b>orders</b>", tree: 7, leader: 1, term: 2, members: [{ node: 1, match_lag_entries: 0 }, { node: 2, match_lag_entries: 0 }, { node: 3, match_lag_entries: null, behind: true }] },
    { table: "projects/local/instances/local/tables/a_table_with_a_rather_long_name", tree: 8, leader: null, term: 3, members: [{ node: 2, match_lag_entries: null }, { node: 3, match_lag_entries: null }] },
  ],
  tablets_left_out: 12,
};

/** Opens the page of a cluster, whose answers the test gives. */
async function openCluster(options = {}) {
  const { tab, close } = await open("overview", options);
  await tab.route("**/console/api/v1/session", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), cluster: true } });
  });
  await tab.route("**/console/api/v1/cluster", (route) => route.fulfill({ json: CLUSTER }));
  await tab.reload();
  await tab.getByRole("link", { name: "Cluster" }).click();
  await tab.getByRole("heading", { name: "Tablets by node" }).waitFor();
  return { tab, close };
}

for (const width of [1440, 390]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`cluster at ${width} pixels, ${colorScheme}`, async () => {
      const { tab, close } = await openCluster({ viewport: { width, height: 900 }, colorScheme });
      if (shots) await tab.screenshot({ path: join(shots, `cluster-${width}-${colorScheme}.png`), fullPage: true });
      await check(tab);
      await close();
    });
  }
}

test("a cluster shows who is away, who leads, and how far a replica is behind", async () => {
  const { tab, close } = await openCluster();
  await tab.getByText("Node 3 is away").waitFor();
  await tab.getByText("1 tablet has no leader").waitFor();
  await tab.getByText("1 tablet has a replica that cannot catch up").waitFor();
  await tab.getByText("The directory does not answer").waitFor();
  const row = tab.getByRole("row", { name: /people 5/ });
  assert.match(await row.innerText(), /leads[^]*has all entries[^]*−1,234\s*entries behind/);
  await tab.getByText("4 tablets. 12 more tablets are not told here.").waitFor();
  await tab.getByLabel("Tables whose name has").fill("ORDERS");
  await tab.getByText("1 tablet. 12 more").waitFor();
  assert.match(await tab.locator("table.map tbody").innerText(), /<b>orders<\/b>/, "names are shown as text");
  await close();
});

/** A name that would be a script, and that turns the text after it round. */
const HOSTILE = "<img src=x onerror=alert(1)>\"'&\u202e";
const shownText = (text) => ({ data: Buffer.from(text).toString("base64url"), bytes: Buffer.byteLength(text) });
const shownBytes = (...bytes) => ({ data: Buffer.from(bytes).toString("base64url"), bytes: bytes.length });

/** Tables of SQL as the API tells them. */
const SQL = {
  tables: {
    database: "stele", more: false, relations: [
      { oid: 16384, schema: "public", name: HOSTILE, kind: "table", of: null, columns: 3, bytes: 123456 },
      { oid: 16387, schema: "public", name: "by_data", kind: "index", of: HOSTILE, columns: 1, bytes: 2345 },
      { oid: 16390, schema: "public", name: "a_view_with_a_rather_long_name_that_fills_the_whole_of_its_place", kind: "view", of: null, columns: 1, bytes: null },
      { oid: 16391, schema: "public", name: "people", kind: "bigtable table", of: "projects/local/instances/local/tables/people", columns: 2, bytes: null },
    ],
  },
  table: {
    oid: 16384, database: "stele", kind: "table", schema: "public", name: HOSTILE, owner: "stele", comment: HOSTILE, tree: 17, is_shared: false, bytes: 123456, rows_bytes: 121111,
    more: { indexes: false, checks: true, foreign_keys: false },
    columns: [
      { name: "id", type: "integer", not_null: true, default: null, generated: null, is_identity: true, comment: null },
      { name: HOSTILE, type: "text", not_null: false, default: "'<b>'::text", generated: null, is_identity: false, comment: null },
      { name: "data", type: "bytea", not_null: false, default: null, generated: null, is_identity: false, comment: null },
    ],
    primary_key: { name: "t_pkey", columns: [{ name: "id", order: "" }], bytes: 121111, key_prefix: "AAE" },
    indexes: [{ oid: 16387, name: "by_data", unique: true, is_constraint: true, is_ready: false, columns: [{ name: "data", order: "DESC" }], bytes: 2345, key_prefix: "AAI" }],
    checks: [{ name: "positive", expression: "id > 0" }],
    foreign_keys: [{ name: "of_other", columns: ["id"], references: 16400, schema: "public", table: "other", referenced: ["id"] }],
  },
  rows: {
    columns: [{ name: "id", type: "integer" }, { name: HOSTILE, type: "text" }, { name: "data", type: "bytea" }],
    rows: [[{ string: shownText("1") }, { string: shownText(HOSTILE) }, { bytes: shownBytes(0, 255) }], [{ string: shownText("2") }, null, { bytes: shownBytes() }]],
    next: { data: "AAGA", bytes: 3 },
  },
  query: {
    columns: [{ name: "id", type: "integer" }, { name: HOSTILE, type: "text" }],
    rows: [[{ string: shownText("1") }, { string: shownText(HOSTILE) }], [{ string: shownText("2") }, null], [{ string: shownText("3") }]],
    more: true,
  },
  plan: {
    plan: {
      name: "HashJoinExec", facts: [{ name: "Description", text: "mode=Left" }],
      inputs: [
        { name: "Index Scan using t_pkey", facts: [{ name: "Key", text: HOSTILE }], inputs: [] },
        { name: "SortExec", facts: [], inputs: [{ name: "Seq Scan on other", facts: [], inputs: [] }] },
      ],
    },
  },
  tree: {
    schema: "public", name: HOSTILE, tree: 17, is_shared: false, indexes: [{ oid: 16387, name: "by_data", bytes: 2345 }], index_count: 501, active_bytes: 1000, frozen_bytes: [], compactions: [], paused: false,
    runs: [{ level: 0, files: 1, bytes: 5000, entries: 10, listed: [{ number: 5, bytes: 5000, entries: 10, tombstones: 0, first: shownBytes(0, 1, 0x80), last: shownBytes(0, 2, 0xff), compacting: false }] }],
  },
};

/** Opens a page of a server with tables of SQL, whose answers the test gives. */
async function openSql(path, options = {}) {
  const { tab, close } = await open("overview", options);
  await tab.route("**/console/api/v1/session", async (route) => {
    const answer = await route.fetch();
    const session = await answer.json();
    await route.fulfill({ response: answer, json: { ...session, sql: true, may: { ...session.may, sql_tables: true, sql_query: true } } });
  });
  await tab.route(/\/console\/api\/v1\/sql\//, (route) => {
    const name = new URL(route.request().url()).pathname.split("/").at(-1);
    return route.fulfill({ json: name === "query" && route.request().postDataJSON().explain ? SQL.plan : SQL[name] });
  });
  await tab.goto(`${url}/console/#/${path}`);
  await tab.reload();
  return { tab, close };
}

for (const [name, [path, text]] of Object.entries({ "sql-list": ["tables", "by_data"], "sql-table": ["tables/sql/16384", "Keys and indexes"], "sql-tree": ["tree/sql/16384", "Level 0"], "sql-prompt": ["query?of=sql", "Explain"] })) {
  for (const width of [1440, 390]) {
    for (const colorScheme of ["light", "dark"]) {
      test(`${name} at ${width} pixels, ${colorScheme}`, async () => {
        const { tab, close } = await openSql(path, { viewport: { width, height: 900 }, colorScheme });
        await tab.getByText(text, { exact: true }).first().waitFor();
        await tab.waitForLoadState("networkidle");
        if (shots) await tab.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`), fullPage: true });
        await check(tab);
        await close();
      });
    }
  }
}

test("tables of SQL show their structure and rows, whatever they are called", async () => {
  const { tab, close } = await openSql("tables");
  const list = tab.getByRole("region", { name: "SQL tables", exact: true });
  await list.getByRole("link", { name: /onerror/ }).first().waitFor();
  assert.match(await list.innerText(), /<img src=x onerror=alert\(1\)>"'&\\xe2\\x80\\xae/);
  assert.match(await list.innerText(), /declared Bigtable table/);
  await list.getByRole("link", { name: /onerror/ }).first().click();
  await tab.getByRole("heading", { name: "Foreign keys" }).waitFor();
  const structure = await tab.locator(".schema").innerText();
  assert.match(structure, /by_data\s+data DESC\s+unique constraint, being built/);
  assert.match(structure, /by default '<b>'::text/);
  assert.equal(await tab.getByText("There are more, which are not shown.").count(), 1);
  const rows = tab.getByRole("region", { name: "Rows of the table" });
  await rows.waitFor();
  assert.match(await rows.innerText(), /\\x00\\xff[^]*NULL\s+empty/);
  assert.equal(await tab.locator("main img, main script, main iframe, main b").count(), 0);
  await tab.getByLabel("From id").fill("7");
  await tab.getByRole("button", { name: "Show rows" }).click();
  await tab.waitForURL(/from=7/);
  await tab.getByRole("link", { name: "Next page" }).click();
  await tab.waitForURL(/after=AAGA/);
  await tab.getByRole("link", { name: "First page" }).waitFor();
  await close();
});

test("a query over SQL tables gives rows, a plan as a tree, or an error with its place", async () => {
  const { tab, close } = await openSql("query");
  const choice = tab.getByLabel("Tables that queries read");
  await choice.waitFor();
  assert.equal(await choice.inputValue(), "bigtable");
  await choice.selectOption("sql");
  await tab.waitForURL(/query\?of=sql/);
  await tab.getByText(/PostgreSQL's SQL that only reads/).waitFor();
  assert.equal(await tab.getByLabel("Instance").count(), 0);
  const text = tab.getByLabel("Query", { exact: true });
  await text.fill("SELECT * FROM t");
  await text.press("Control+Enter");
  await tab.getByText(/^The first 3 rows in/).waitFor();
  assert.match(await tab.getByRole("region", { name: "Rows of the result" }).innerText(), /<img src=x onerror=alert\(1\)>[^]*NULL[^]*not shown/);
  await check(tab);
  await tab.getByRole("button", { name: "Explain" }).click();
  await tab.getByRole("heading", { name: "Seq Scan on other" }).waitFor();
  assert.equal(await tab.locator(".plan .steps .steps").first().locator(":scope > li").count(), 2);
  assert.equal(await tab.locator("main img, main script").count(), 0, "texts of plans are shown as text");
  await check(tab);
  const error = { code: "INVALID_ARGUMENT", message: "syntax error", sqlstate: "42601", hint: "a hint", position: 15 };
  await tab.route(/v1\/sql\/query/, (route) => route.fulfill({ status: 400, json: { error } }));
  await text.fill("SELECT '\u{1f600}',\n 1 2");
  await tab.getByRole("button", { name: "Run" }).click();
  await tab.getByText("The query is wrong").waitFor();
  await tab.getByText("SQLSTATE: 42601").waitFor();
  await tab.getByText("Hint: a hint").waitFor();
  await tab.getByLabel("Line 2, column 3").waitFor();
  await check(tab);
  await tab.reload();
  assert.equal(await choice.inputValue(), "sql", "the address keeps the choice");
  await close();
});

test("a list that cannot be read leaves the other list, and comes back", async () => {
  const { tab, close } = await openSql("tables");
  const one = (list, name) => tab.getByRole("region", { name: list, exact: true }).getByText(name, { exact: true });
  const [bigtable, sql] = [one("List of tables", "people"), one("SQL tables", "by_data")];
  const refused = (route) => route.fulfill({ status: 400, json: { error: { code: "INVALID_ARGUMENT", message: "not now" } } });
  const filter = tab.getByLabel("Tables whose name has");
  await sql.waitFor();
  for (const [path, text, other, own] of [[/v1\/sql\/tables/, "The tables of SQL cannot be listed", bigtable, sql], [/v1\/tables/, "The tables cannot be listed", sql, bigtable]]) {
    await tab.route(path, refused);
    await filter.fill("peop");
    await tab.getByText(text, { exact: true }).waitFor();
    await other.waitFor();
    await tab.unroute(path, refused);
    await filter.fill("");
    await own.waitFor();
    assert.equal(await tab.getByText(text, { exact: true }).count(), 0);
  }
  await close();
});

test("the tree of a table of SQL is drawn by index", async () => {
  const { tab, close } = await openSql("tree/sql/16384");
  await tab.getByText("Rows and indexes of a table are in one tree.").waitFor();
  await tab.getByLabel("Rows and indexes").selectOption("16387");
  await tab.waitForURL(/index=16387/);
  await tab.getByText(/Files that have entries of the index by_data, which takes 2.29 KiB/).waitFor();
  await tab.getByText(/The first 1 of 501 indexes can be chosen/).waitFor();
  await close();
});

test("a server without the door for PostgreSQL clients tells nothing of SQL tables", async () => {
  const { tab, close } = await open("overview");
  await tab.route("**/console/api/v1/session", async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), sql: false } });
  });
  await tab.goto(`${url}/console/#/tables`);
  await tab.reload();
  await tab.getByText("people", { exact: true }).first().waitFor();
  assert.equal(await tab.getByRole("region", { name: "SQL tables", exact: true }).count(), 0);
  await tab.goto(`${url}/console/#/query`);
  await tab.getByLabel("Instance").waitFor();
  assert.equal(await tab.getByLabel("Tables that queries read").count(), 0);
  await close();
});

test("a single server has no page of a cluster", async () => {
  const { tab, close } = await open("cluster");
  await tab.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(await tab.getByRole("link", { name: "Cluster" }).count(), 0);
  await close();
});

test("the keyboard reaches the content at once, and the colours change", async () => {
  const { tab, close } = await open("overview");
  await tab.getByRole("heading", { name: "Overview" }).waitFor();
  await tab.evaluate(() => document.body.focus());
  await tab.evaluate(() => document.activeElement.blur());
  await tab.keyboard.press("Tab");
  const skip = tab.getByRole("link", { name: "Skip to content" });
  if (!(await skip.evaluate((link) => link === document.activeElement))) await skip.focus();
  await tab.keyboard.press("Enter");
  assert.equal(await tab.evaluate(() => document.activeElement.id), "main");
  await tab.getByRole("button", { name: /^Colours/ }).click();
  assert.equal(await tab.evaluate(() => document.documentElement.dataset.theme), "light");
  await tab.getByRole("button", { name: "Colours: light" }).click();
  assert.equal(await tab.evaluate(() => document.documentElement.dataset.theme), "dark");
  await tab.reload();
  assert.equal(await tab.evaluate(() => document.documentElement.dataset.theme), "dark", "the choice holds");
  await close();
});

test("a server that knows its callers wants a token, which leaves the tab with it", async () => {
  const { tab, close } = await open("overview", {}, secured);
  await tab.getByLabel("Token").fill("wrong");
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.getByText("The server does not know this token.").waitFor();
  await check(tab);
  await tab.getByLabel("Token").fill(token);
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(tab.url().includes(token), false);
  assert.deepEqual(await tab.context().cookies(), []);
  assert.equal(await tab.evaluate((token) => JSON.stringify(localStorage).includes(token), token), false);
  await tab.getByRole("button", { name: "Sign out" }).click();
  await tab.getByLabel("Token").waitFor();
  assert.equal(await tab.evaluate(() => sessionStorage.getItem("stele-token")), null);
  await close();
});
