//! What is told: JSON, an object a line as each workload ends, and a table for people at the end.

use crate::engines::Result;
use bench_core::Spread;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// One engine's figures for one workload: medians over the pairs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figures {
    pub(crate) workload: String,
    pub(crate) engine: String,
    /// Operations a second on the clock.
    pub(crate) ops_per_s: f64,
    /// CPU time of the whole process for an operation.
    pub(crate) cpu_ns_per_op: f64,
    /// Median latency of a call.
    pub(crate) p50_us: f64,
    /// 99th percentile of the latency of a call.
    pub(crate) p99_us: f64,
    /// Reads from disk for an operation.
    pub(crate) disk_reads_per_op: f64,
    /// Bytes fetched from disk for an operation.
    pub(crate) bytes_per_op: f64,
    /// Who counted the disk reads: `engine`, or `system` (read calls of the process).
    pub(crate) disk_reads_by: &'static str,
    /// The configuration that was best, of those that were tried.
    pub(crate) configuration: String,
    /// Every option that was set.
    pub(crate) options: String,
    /// What calibration saw of every configuration.
    pub(crate) tried: Vec<Tried>,
}

/// A configuration in calibration: one short slice.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Tried {
    /// Which.
    pub(crate) configuration: String,
    /// Operations a second on the clock.
    pub(crate) ops_per_s: f64,
    /// CPU time of the process for an operation.
    pub(crate) cpu_ns_per_op: f64,
}

/// How Stele compares with RocksDB in one workload.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Compared {
    pub(crate) workload: String,
    /// Over the pairs; above 1 Stele is ahead.
    pub(crate) ratio_vs_rocksdb: Spread,
    /// What was compared: throughput per second of `cpu` time, or of `wall` time.
    pub(crate) basis: &'static str,
    /// The other of the two.
    pub(crate) other_ratio: Spread,
    /// The ratio of each pair, in the order of the run.
    pub(crate) pairs: Vec<f64>,
}

/// A workload that an engine did not do.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Skipped {
    pub(crate) workload: String,
    pub(crate) engine: String,
    /// Why.
    pub(crate) skipped: String,
}

/// Collects results and writes them down as they come.
pub(crate) struct Report {
    file: Option<File>,
    figures: Vec<Figures>,
    compared: Vec<Compared>,
    skipped: Vec<Skipped>,
}

impl Report {
    /// A report that writes JSON lines to `path`, replacing the file, if one is given.
    pub(crate) fn new(path: Option<&Path>) -> Result<Self> {
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("cannot create {}: {error}", path.display()))
        };
        let file = path.map(create).transpose()?;
        Ok(Self { file, figures: Vec::new(), compared: Vec::new(), skipped: Vec::new() })
    }

    fn line(&mut self, object: &impl Serialize) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut line = serde_json::to_string(object)?;
        line.push('\n');
        Ok(file.write_all(line.as_bytes())?)
    }

    /// Adds what an engine did.
    pub(crate) fn figures(&mut self, figures: Figures) -> Result<()> {
        self.line(&figures)?;
        self.figures.push(figures);
        Ok(())
    }

    /// Adds a ratio.
    pub(crate) fn compared(&mut self, compared: Compared) -> Result<()> {
        self.line(&compared)?;
        self.compared.push(compared);
        Ok(())
    }

    /// Adds what was not done; told at once.
    pub(crate) fn skipped(&mut self, workload: &str, engine: &str, why: &str) -> Result<()> {
        crate::progress(&format!("{workload}: {engine} is left out: {why}"));
        let (workload, engine, skipped) = (workload.to_owned(), engine.to_owned(), why.to_owned());
        let skipped = Skipped { workload, engine, skipped };
        self.line(&skipped)?;
        self.skipped.push(skipped);
        Ok(())
    }

    /// The table for people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{:<18} {:<8} {:>12} {:>10} {:>9} {:>9} {:>8} {:>9}  {:<18} {}\n",
            "workload",
            "engine",
            "ops/s",
            "ns CPU/op",
            "p50 us",
            "p99 us",
            "reads/op",
            "bytes/op",
            "configuration",
            "stele against rocksdb (median, low..high)"
        );
        let mut previous = "";
        for figures in &self.figures {
            let first = figures.workload != previous;
            previous = &figures.workload;
            let ratio = self.compared.iter().find(|c| first && c.workload == figures.workload);
            let ratio = ratio.map_or(String::new(), ratio_text);
            let line = format!(
                "{:<18} {:<8} {:>12.0} {:>10.0} {:>9.2} {:>9.2} {:>8.3} {:>9.0}  {:<18} {ratio}",
                if first { figures.workload.as_str() } else { "" },
                figures.engine,
                figures.ops_per_s,
                figures.cpu_ns_per_op,
                figures.p50_us,
                figures.p99_us,
                figures.disk_reads_per_op,
                figures.bytes_per_op,
                figures.configuration,
            );
            text += line.trim_end();
            text.push('\n');
        }
        self.append_notes(&mut text);
        text
    }

    fn append_notes(&self, text: &mut String) {
        let mut told: Vec<(&str, &str)> = Vec::new();
        for figures in &self.figures {
            let options = (figures.engine.as_str(), figures.options.as_str());
            if !told.contains(&options) {
                told.push(options);
                *text += &format!("\n{} {}: {}", figures.engine, figures.configuration, options.1);
            }
        }
        for skipped in &self.skipped {
            *text += &format!(
                "\n{}: {} was left out: {}",
                skipped.workload, skipped.engine, skipped.skipped
            );
        }
        text.push('\n');
    }
}

fn ratio_text(compared: &Compared) -> String {
    let Spread { median, low, high } = compared.ratio_vs_rocksdb;
    format!("{median:.2}x ({low:.2}..{high:.2}) per {} second", compared.basis)
}
