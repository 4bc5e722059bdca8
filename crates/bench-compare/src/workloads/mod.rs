//! The named workloads: one idea a file.

mod cold;
mod get;
mod loads;
mod multi_get;
mod runs;
mod scan;
mod seek;
mod shapes;
mod wide;

use crate::data::{Arrival, Data, DataSpec, Model};
use crate::engines::{Merging, Part, Setup, Sizes};
use crate::keys::KeyShape;
use crate::slice::{Drawn, Reads};
use bench_core::{KeyKind, SplitMix64};

/// A workload: what is loaded, and what is done.
pub(crate) struct Workload {
    /// Its name on the command line and in results.
    pub(crate) name: String,
    /// What is done, in a few words.
    pub(crate) about: String,
    /// What is loaded before, or what is loaded.
    pub(crate) data: DataSpec,
    /// What memory is given.
    pub(crate) memory: Memory,
    /// What is measured.
    pub(crate) work: Work,
}

/// What memory an engine is given for its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    /// Twice the data: everything is resident.
    Ample,
    /// A twentieth of the data, and direct reads.
    Scarce,
}

/// What a workload does.
pub(crate) enum Work {
    /// Reads of loaded data.
    Reads(Box<dyn Reads>),
    /// Loads the data, in batches in random order, until all of it is in files and merging rests.
    RandomLoad,
    /// Loads the data in key order by the engine's fastest way.
    BulkLoad,
}

/// What ratios compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Operations per second of CPU time, for work that the processor bounds.
    Cpu,
    /// Operations per second, for work that the disk bounds.
    Wall,
}

impl Workload {
    /// Whether it loads data itself.
    pub(crate) fn is_load(&self) -> bool {
        !matches!(self.work, Work::Reads(_))
    }

    /// What ratios of this workload compare.
    pub(crate) fn basis(&self) -> Basis {
        match self.memory {
            Memory::Ample => Basis::Cpu,
            Memory::Scarce => Basis::Wall,
        }
    }

    /// What engines are opened with.
    pub(crate) fn setup(&self) -> Setup {
        let bytes = self.data.bytes() as usize;
        Setup {
            model: self.data.model,
            row_bytes: if self.data.shape == KeyShape::Random { 50 } else { 0 },
            cache_bytes: match self.memory {
                Memory::Ample => (2 * bytes).max(64 << 20),
                Memory::Scarce => (bytes / 20).max(2 << 20),
            },
            memtable_bytes: match self.data.arrival {
                // One memtable takes a whole run.
                Arrival::Runs(runs) => (3 * bytes / runs as usize).max(64 << 20),
                _ => 64 << 20,
            },
            disk_bound: self.memory == Memory::Scarce,
            merging: match self.data.arrival {
                Arrival::Runs(_) | Arrival::Deleted => Merging::Never,
                _ => Merging::Automatic,
            },
            of_runs: matches!(self.data.arrival, Arrival::Runs(_)),
            sizes: Sizes::Usual,
        }
    }
}

/// All workloads, with rows multiplied by `scale`.
pub(crate) fn all(scale: f64) -> Vec<Workload> {
    let rows = Rows { scale };
    let mut all = Vec::new();
    all.extend(get::workloads(rows));
    all.extend(multi_get::workloads(rows));
    all.extend(seek::workloads(rows));
    all.extend(scan::workloads(rows));
    all.extend(wide::workloads(rows));
    all.extend(cold::workloads(rows));
    all.extend(runs::workloads(rows));
    all.extend(loads::workloads(rows));
    all.extend(shapes::workloads(rows));
    all
}

/// Reads that bring what they need into memory: keys that are there and keys that are not.
pub(crate) fn warming(model: Model, disk_bound: bool) -> Box<dyn Reads> {
    match model {
        Model::Columns => Box::new(wide::Wide { part: Part::Row }),
        Model::Keys | Model::Versions => {
            let in_flight = if disk_bound { 32 } else { 1 };
            Box::new(get::Get { which: get::Which::Half, in_flight })
        }
    }
}

/// Numbers of rows at a scale.
#[derive(Debug, Clone, Copy)]
struct Rows {
    scale: f64,
}

impl Rows {
    fn of(self, rows: u64) -> u64 {
        ((rows as f64 * self.scale) as u64).clamp(1_000, u64::from(u32::MAX))
    }

    /// 3 M random keys of 50 bytes with values of 256: what cached work is measured on.
    fn plain(self) -> DataSpec {
        DataSpec {
            rows: self.of(3_000_000),
            shape: KeyShape::Random,
            value_bytes: 256,
            model: Model::Keys,
            arrival: Arrival::Sorted,
        }
    }
}

/// A key that was loaded, all equally likely.
fn any_present(data: &Data, draw: &mut SplitMix64) -> Drawn {
    Drawn { number: draw.below(data.spec.rows), kind: KeyKind::Present, place: 0 }
}

/// A key that was never loaded.
fn any_absent(data: &Data, draw: &mut SplitMix64) -> Drawn {
    Drawn { kind: KeyKind::Absent, ..any_present(data, draw) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_promised_name_is_there_once() {
        let all = all(0.001);
        let names: BTreeSet<&str> = all.iter().map(|workload| workload.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        let promised = "get-hit get-hit-zipf get-miss multi-get-32 wide-column wide-family \
            wide-row seek-10 seek-100 scan cold-get-1 cold-get-32 runs-8-hit runs-8-miss \
            random-load bulk-load shape-url shape-sequential shape-value-1 shape-value-65536 \
            shape-absent-50 shape-overwrite-20 shape-deletes";
        for name in promised.split_whitespace() {
            assert!(names.contains(name), "{name} is missing");
        }
    }
}
