//! `/metrics` of a real server: its form, its names, and the documents that speak of them.

mod client;
mod lint;
mod monitoring;

use crate::server::Server;
use lint::Scrape;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The scrape of a server that clients wrote to and read from.
fn busy_scrape() -> String {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    client::write_and_read(server.bigtable(), &["events"]);
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200, "{text}");
    text
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn a_scrape_keeps_to_the_rules_and_is_documented() {
    let text = busy_scrape();
    let scrape = Scrape::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    let wrong = scrape.lint();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(scrape.families.len() > 80, "{} families", scrape.families.len());
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    for family in &scrape.families {
        let begin = format!("| `{}` | {} |", family.name, family.kind);
        let row = page.lines().find(|line| line.starts_with(&begin));
        let row = row.unwrap_or_else(|| panic!("docs/metrics.md has no row {begin}"));
        for label in &family.labels {
            assert!(row.contains(&format!("`{label}`")), "{row} lacks the label {label}");
        }
    }
    check_by_promtool(&text);
}

#[test]
fn a_scrape_tells_of_the_queues_that_writes_and_reads_went_through() {
    let text = busy_scrape();
    for queue in ["commits", "short_reads"] {
        let series = format!("stele_queue_wait_seconds_count{{queue=\"{queue}\"}} ");
        let count = text.lines().find_map(|line| line.strip_prefix(series.as_str()));
        let count: f64 = count.unwrap_or_else(|| panic!("no {series}")).parse().unwrap();
        assert!(count > 0.0, "{series}{count}");
    }
}

/// Hands the scrape to Prometheus's own tool, if it is there.
fn check_by_promtool(text: &str) {
    let mut command = promtool();
    command.args(["check", "metrics"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut promtool) = command.spawn() else { return promtool_is_missing() };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// Returns Prometheus's tool, which `STELE_PROMTOOL` may name.
fn promtool() -> Command {
    Command::new(std::env::var_os("STELE_PROMTOOL").unwrap_or_else(|| "promtool".into()))
}

/// Skips a test, unless a tool was named that is not there.
fn promtool_is_missing() {
    let named = std::env::var_os("STELE_PROMTOOL");
    assert!(named.is_none(), "{named:?} in STELE_PROMTOOL is no program");
    eprintln!("skipped: promtool is missing; name it in STELE_PROMTOOL");
}
