//! Point reads over 8 sorted runs that all span the whole key range.

use crate::data::{Arrival, DataSpec};
use crate::workloads::get::{Get, Which};
use crate::workloads::{Memory, Rows, Work, Workload};

const RUNS: u64 = 8;

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let data = DataSpec { arrival: Arrival::Runs(RUNS), ..rows.plain() };
    let each =
        [("hit", "a key in one of them", Which::Present), ("miss", "no such key", Which::Absent)];
    let workload = |(name, about, which): (&str, &str, Which)| Workload {
        name: format!("runs-{RUNS}-{name}"),
        about: format!("get over {RUNS} overlapping runs: {about}"),
        data,
        memory: Memory::Ample,
        work: Work::Reads(Box::new(Get { which, in_flight: 1 })),
    };
    each.into_iter().map(workload).collect()
}
