//! The results of a run: tables for people, and one JSON object.
//!
//! 1. A ratio is Stele's CPU time over that of another engine: below 1 Stele is better.
//! 2. Totals and means count only queries that all engines answered.

use super::HitsArgs;
use super::answers::Verdict;
use super::engine::{Cost, Kind, Loaded};
use super::machine;
use super::outcome::Answered;
use crate::AnyError;
use bench_core::{Spread, print};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes of a mebibyte, in which memory is told.
const MIB: f64 = 1_048_576.0;

/// The results of a run so far.
pub(super) struct Report {
    args: HitsArgs,
    pub(super) loads: Vec<(Kind, Loaded)>,
    pub(super) deltas: Vec<(Kind, u64, Cost)>,
    pub(super) queries: Vec<Answered>,
    versions: BTreeMap<Kind, String>,
    peaks: BTreeMap<Kind, u64>,
}

impl Loaded {
    /// Returns a line about one load.
    pub(super) fn line(&self, kind: Kind) -> String {
        let Cost { cpu_s, wall_s } = self.cost;
        format!(
            "load {:<11} {:>10} rows  CPU {cpu_s:>8.2} s  wall {wall_s:>8.2} s  peak {:>6} MiB",
            kind.name(),
            self.rows,
            self.peak_bytes >> 20
        )
    }
}

/// Returns a line about further rows.
pub(super) fn delta_line(kind: Kind, rows: u64, cost: &Cost) -> String {
    let Cost { cpu_s, wall_s } = cost;
    let name = kind.name();
    format!("add  {name:<11} {rows:>10} rows  CPU {cpu_s:>8.2} s  wall {wall_s:>8.2} s")
}

impl Report {
    pub(super) fn new(args: &HitsArgs) -> Self {
        Self {
            args: args.clone(),
            loads: Vec::new(),
            deltas: Vec::new(),
            queries: Vec::new(),
            versions: BTreeMap::new(),
            peaks: BTreeMap::new(),
        }
    }

    pub(super) fn note_version(&mut self, kind: Kind, version: String) {
        print(&format!("{}: {version}", kind.name()));
        self.versions.insert(kind, version);
    }

    pub(super) fn note_peak(&mut self, kind: Kind, bytes: u64) {
        self.peaks.insert(kind, bytes);
    }

    /// Prints the medians of the loads.
    pub(super) fn print_loads(&self, kinds: &[Kind]) {
        print("");
        let sizes = "peak MiB | directory MB | table MB";
        print(&format!("| load | rows | CPU s | CPU s a million rows | wall s | {sizes} |"));
        print("|---|---|---|---|---|---|---|---|");
        for kind in kinds {
            if let Some(line) = self.load_line(*kind) {
                print(&line);
            }
        }
    }

    fn load_line(&self, kind: Kind) -> Option<String> {
        let loads =
            || self.loads.iter().filter(move |(other, _)| *other == kind).map(|(_, load)| load);
        let rows = loads().next()?.rows;
        let median = |part: fn(&Loaded) -> f64| Spread::of(loads().map(part)).median;
        let cpu = median(|load| load.cost.cpu_s);
        let wall = median(|load| load.cost.wall_s);
        let million = cpu * 1e6 / rows as f64;
        let peak = median(|load| load.peak_bytes as f64) / MIB;
        let directory = median(|load| load.directory_bytes as f64) / 1e6;
        let table = loads().next()?.table_bytes.map_or("–".to_owned(), |_| {
            let bytes = median(|load| load.table_bytes.unwrap_or_default() as f64);
            format!("{:.1}", bytes / 1e6)
        });
        let times = format!("{cpu:.2} | {million:.2} | {wall:.2}");
        let sizes = format!("{peak:.0} | {directory:.1} | {table}");
        Some(format!("| {} | {rows} | {times} | {sizes} |", kind.name()))
    }

    /// Returns the head of the table of queries.
    pub(super) fn header(&self, kinds: &[Kind]) -> String {
        let mut head = "\n| query |".to_owned();
        let mut rule = "|---|".to_owned();
        for kind in kinds {
            let scale = self.args.scale_of(*kind);
            let times = if scale > 1.0 { format!(" × {scale:.0}") } else { String::new() };
            let _ = write!(head, " {} CPU ms{times} |", kind.name());
            rule += "---|";
        }
        for kind in others(kinds) {
            let _ = write!(head, " over {} |", kind.name());
            rule += "---|";
        }
        format!("{head} answer |\n{rule}---|")
    }

    /// Returns the line of a query in the table.
    pub(super) fn line_of(&self, answered: &Answered, kinds: &[Kind]) -> String {
        let mut line = format!("| {} |", answered.number);
        for kind in kinds {
            let _ = match self.cpu(answered, *kind) {
                Some(cpu) => write!(line, " {:.1} |", cpu * 1e3),
                None => write!(line, " failed |"),
            };
        }
        for kind in others(kinds) {
            let _ = match self.ratio(answered, kind) {
                Some(ratio) => write!(line, " {ratio:.2} |"),
                None => write!(line, " – |"),
            };
        }
        let verdict = answered.verdict(Kind::Columnar).map_or("–".to_owned(), Verdict::text);
        format!("{line} {verdict} |")
    }

    /// Prints totals, means, errors, differences, and the memory of each engine.
    pub(super) fn print_summary(&self, kinds: &[Kind]) {
        if !self.queries.is_empty() {
            print(&self.total_line(kinds));
            print(&self.mean_line(kinds));
            print("");
            self.print_failures(kinds);
        }
        for (kind, bytes) in &self.peaks {
            print(&format!("{}: peak memory of the whole run {} MiB", kind.name(), bytes >> 20));
        }
    }

    fn total_line(&self, kinds: &[Kind]) -> String {
        let mut line = "| total |".to_owned();
        let totals: BTreeMap<Kind, f64> = kinds
            .iter()
            .map(|kind| {
                let each = self.complete(kinds).filter_map(|query| self.cpu(query, *kind));
                (*kind, each.sum::<f64>())
            })
            .collect();
        for total in kinds.iter().filter_map(|kind| totals.get(kind)) {
            let _ = write!(line, " {:.1} |", total * 1e3);
        }
        let ours = totals.get(&Kind::Columnar).copied().unwrap_or(f64::NAN);
        for total in others(kinds).filter_map(|kind| totals.get(&kind)) {
            let _ = write!(line, " {:.2} |", ours / total);
        }
        let count = self.complete(kinds).count();
        format!("{line} queries that all answered: {count} |")
    }

    fn mean_line(&self, kinds: &[Kind]) -> String {
        let mut line = "| geometric mean |".to_owned();
        line += &" |".repeat(kinds.len());
        for kind in others(kinds) {
            let ratios = self.complete(kinds).filter_map(|query| self.ratio(query, kind));
            let _ = match geometric_mean(ratios) {
                Some(mean) => write!(line, " {mean:.2} |"),
                None => write!(line, " – |"),
            };
        }
        format!("{line} |")
    }

    fn print_failures(&self, kinds: &[Kind]) {
        for query in &self.queries {
            for kind in kinds {
                let (number, name) = (query.number, kind.name());
                if let Some(error) = query.error(*kind) {
                    print(&format!("query {number} failed on {name}: {error}"));
                }
                if let Some(verdict) = query.difference(*kind) {
                    print(&format!("query {number} of {name} beside postgres: {verdict}"));
                }
            }
        }
    }

    /// Returns the queries that all engines answered.
    fn complete(&self, kinds: &[Kind]) -> impl Iterator<Item = &Answered> {
        self.queries
            .iter()
            .filter(move |query| kinds.iter().all(|kind| query.median(*kind).is_some()))
    }

    /// Returns the CPU seconds of a query on the whole table.
    fn cpu(&self, query: &Answered, kind: Kind) -> Option<f64> {
        Some(query.median(kind)?.cpu_s * self.args.scale_of(kind))
    }

    /// Returns the CPU time of Stele over that of another engine. None if an engine used too little to be
    /// measured.
    fn ratio(&self, query: &Answered, kind: Kind) -> Option<f64> {
        let (ours, theirs) = (self.cpu(query, Kind::Columnar)?, self.cpu(query, kind)?);
        (ours > 0.0 && theirs > 0.0).then_some(ours / theirs)
    }

    /// Returns all results as one JSON object.
    pub(super) fn json(&self, kinds: &[Kind]) -> Value {
        let machine = machine::facts().into_iter();
        let machine: Map<String, Value> =
            machine.map(|(name, fact)| (name.to_owned(), Value::from(fact))).collect();
        let engines: Map<String, Value> = kinds.iter().map(|kind| self.json_of(*kind)).collect();
        json!({
            "machine": machine,
            "rows": self.args.rows,
            "seed": self.args.seed,
            "delta_rows": self.args.delta_rows,
            "memory_bytes_max": self.args.memory_bytes_max,
            "engines": engines,
            "queries": self.queries.iter().map(Answered::json).collect::<Vec<_>>(),
        })
    }

    fn json_of(&self, kind: Kind) -> (String, Value) {
        let loads = self.loads.iter().filter(|(other, _)| *other == kind);
        let delta = self.deltas.iter().find(|(other, ..)| *other == kind);
        let value = json!({
            "version": self.versions.get(&kind),
            "scale": self.args.scale_of(kind),
            "loads": loads.map(|(_, load)| load).collect::<Vec<_>>(),
            "delta": delta.map(|(_, rows, cost)| json!({ "rows": rows, "cost": cost })),
            "peak_bytes": self.peaks.get(&kind),
        });
        (kind.name().to_owned(), value)
    }

    /// Fails if answers differ in what must be the same.
    pub(super) fn verdict(&self) -> Result<(), AnyError> {
        let differ: Vec<usize> =
            self.queries.iter().filter(|query| query.differs()).map(|query| query.number).collect();
        if differ.is_empty() {
            return Ok(());
        }
        Err(format!("answers of Stele and PostgreSQL differ in queries {differ:?}").into())
    }
}

/// Returns the engines that Stele's columnar table is compared with.
fn others(kinds: &[Kind]) -> impl Iterator<Item = Kind> {
    kinds.iter().copied().filter(|kind| *kind != Kind::Columnar)
}

/// Returns the geometric mean of some numbers above 0, or none without a number.
fn geometric_mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) =
        numbers.fold((0.0, 0_u32), |(sum, count), number: f64| (sum + number.ln(), count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::answered;
    use super::super::tests::args;
    use super::*;

    #[test]
    fn ratios_are_of_the_whole_table() {
        let kinds = [Kind::Columnar, Kind::Rows, Kind::DuckDb];
        let mut report = Report::new(&args("--rows 1000 --rows-of-rows 100 --duckdb"));
        let runs = [(Kind::Columnar, 0.5), (Kind::Rows, 1.0), (Kind::DuckDb, 0.25)];
        report.queries.push(answered(&runs));
        let line = report.line_of(&report.queries[0], &kinds);
        assert_eq!(line, "| 3 | 500.0 | 10000.0 | 250.0 | 0.05 | 2.00 | – |");
        report.queries.push(answered(&runs[..2]));
        let failed = report.line_of(&report.queries[1], &kinds);
        assert_eq!(failed, "| 3 | 500.0 | 10000.0 | failed | 0.05 | – | – |");
        let total = report.total_line(&kinds);
        let want =
            "| total | 500.0 | 10000.0 | 250.0 | 0.05 | 2.00 | queries that all answered: 1 |";
        assert_eq!(total, want);
        assert_eq!(report.mean_line(&kinds), "| geometric mean | | | | 0.05 | 2.00 | |");
        assert_eq!(report.header(&kinds).matches('|').count(), 2 * line.matches('|').count());
        assert!(report.verdict().is_ok());
    }

    #[test]
    fn the_geometric_mean_of_numbers() {
        assert_eq!(geometric_mean([].into_iter()), None);
        let mean = geometric_mean([0.5, 2.0, 1.0].into_iter()).unwrap();
        assert!((mean - 1.0).abs() < 1e-9);
    }
}
