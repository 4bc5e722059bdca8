//! Google's own Bigtable clients, unmodified, against the real binary: Python (synchronous and
//! asynchronous), Go, Node, Java, HBase and the `cbt` tool, before and after `kill -9`.
//!
//! And clients of PostgreSQL against the door for SQL: `psql`, `pgbench`, and drivers of four languages.
//!
//! And the module of crates/python, which needs no server, the console in a browser, and readers and
//! writers of the formats of exports.
//!
//! The suites are programs of their languages in `python/`, `go/`, `node/` and `java/`. All also make
//! the reads of `scenario.json`, each on the rows that it or another one wrote. What they need
//! is set up once below `target/clients`. A language that is missing is said to be so and skipped,
//! unless `STELE_REQUIRE_CLIENTS` is `1` (Python, Go, cbt) or `all`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failure is the test's verdict")]

mod cbt;
mod cluster;
mod console;
mod embedded;
mod exports;
mod secured;
mod setup;
mod sql;
mod suites;

#[allow(dead_code, reason = "shared with the other test binary, which uses all of it")]
#[path = "../it/server.rs"]
mod server;
