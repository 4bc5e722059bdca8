//! What is printed: tables for people, or one JSON object a line.

use super::data::DataSet;
use super::facts::FilterUse;
use super::pairs::Compared;
use super::switches::Switch;
use super::workloads::{Warmth, Workload};
use bench_core::print;
use engine::internals::SstMemory;
use serde_json::{Value, json};

/// Published of index memory, of filters asked, and of reads that go to disk.
const INDEX_MEMORY_PUBLISHED: &str = "RocksDB: index memory -97 %";
const FILTER_USE_PUBLISHED: &str = "Bigtable: filter use x4";
const DISK_READS_PUBLISHED: &str = "YugabyteDB: one I/O a read";

/// Collects tables, or prints JSON as it comes.
pub(super) struct Report {
    json: bool,
    memory: Vec<String>,
    filters: Vec<String>,
    compared: Vec<String>,
}

impl Report {
    /// An empty report.
    pub(super) fn new(json: bool) -> Self {
        Self { json, memory: Vec::new(), filters: Vec::new(), compared: Vec::new() }
    }

    /// Bytes in memory of the files of a data set.
    pub(super) fn memory(&mut self, set: DataSet, memory: &SstMemory) {
        let per_data_byte = |bytes: u64| bytes as f64 / memory.raw_bytes.max(1) as f64;
        let index_bytes = memory.index_bytes + memory.pinned_bytes;
        let index_not_pinned = memory.index_bytes as f64 / index_bytes.max(1) as f64;
        if self.json {
            return print_json(&json!({
                "data": set.name(),
                "raw_bytes": memory.raw_bytes,
                "file_bytes": memory.file_bytes,
                "pinned_bytes": memory.pinned_bytes,
                "index_bytes": memory.index_bytes,
                "filter_bytes": memory.filter_bytes,
                "index_per_data_byte": per_data_byte(index_bytes),
                "filter_per_data_byte": per_data_byte(memory.filter_bytes),
                "index_not_pinned": index_not_pinned,
                "published": INDEX_MEMORY_PUBLISHED,
            }));
        }
        self.memory.push(format!(
            "{:<8} {:>12} {:>12.5} {:>12.5} {:>14.7} {:>12.1} %   {INDEX_MEMORY_PUBLISHED}",
            set.name(),
            memory.raw_bytes,
            per_data_byte(memory.filter_bytes),
            per_data_byte(index_bytes),
            per_data_byte(memory.pinned_bytes),
            -100.0 * index_not_pinned,
        ));
    }

    /// The filters that a workload asked.
    pub(super) fn filter_use(&mut self, workload: &str, filters: &FilterUse) {
        if self.json {
            let mut line = json!({ "workload": workload, "published": FILTER_USE_PUBLISHED });
            line["filter_use"] = json!(filters);
            return print_json(&line);
        }
        let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        for asked in &filters.asked {
            self.filters.push(format!(
                "{workload:<18} {:<8} {:>10} {:>8.2} % {:>8.2} % {:>8.3} % {:>8.2} %   \
                 {FILTER_USE_PUBLISHED}",
                asked.granularity,
                filters.reads,
                share(asked.probed, filters.candidates),
                share(asked.useful, asked.probed),
                share(asked.false_positives, asked.useful + asked.false_positives),
                share(filters.merged, filters.reads),
            ));
        }
    }

    /// What a switch does to a workload.
    pub(super) fn compared(&mut self, switch: &Switch, workload: &Workload, compared: &Compared) {
        let published = match switch.published(workload.name) {
            "" if workload.warmth == Warmth::Cold => DISK_READS_PUBLISHED,
            published => published,
        };
        if self.json {
            return print_json(&json!({
                "switch": switch.name,
                "workload": workload.name,
                "compared": compared,
                "published": published,
            }));
        }
        let Compared { on_ns, off_ns, off_by_on, on_disk_reads, off_disk_reads } = compared;
        self.compared.push(format!(
            "{:<16} {:<18} {:>9.0} {:>9.0} {:>7.2} ({:.2}..{:.2}) {:>+7.1} % {:>9.3} {:>9.3}   \
             {published}",
            switch.name,
            workload.name,
            on_ns.median,
            off_ns.median,
            off_by_on.median,
            off_by_on.low,
            off_by_on.high,
            100.0 * (1.0 / off_by_on.median - 1.0),
            on_disk_reads,
            off_disk_reads,
        ));
    }

    /// Prints the tables.
    pub(super) fn finish(&self) {
        if self.json {
            return;
        }
        print("What each part buys: CPU of an operation with everything on, and with it off");
        print(&format!(
            "{:<16} {:<18} {:>9} {:>9} {:>7} {:<12} {:>9} {:>9} {:>9}   published",
            "off", "workload", "on, ns", "off, ns", "off/on", "(spread)", "CPU", "reads on", "off"
        ));
        self.compared.iter().for_each(|line| print(line));
        print("\nFilters asked by point reads, with everything on");
        print(&format!(
            "{:<18} {:<8} {:>10} {:>10} {:>10} {:>10} {:>10}   published",
            "workload", "asked by", "reads", "files", "useful", "wrong", "merged"
        ));
        self.filters.iter().for_each(|line| print(line));
        print("\nMemory for a byte of keys and values");
        print(&format!(
            "{:<8} {:>12} {:>12} {:>12} {:>14} {:>14}   published",
            "data", "bytes", "filters", "index", "pinned", "not pinned"
        ));
        self.memory.iter().for_each(|line| print(line));
    }
}

fn print_json(line: &Value) {
    print(&line.to_string());
}
