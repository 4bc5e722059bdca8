//! Point reads of data twenty times the cache, from disk without the system's cache.

use crate::data::DataSpec;
use crate::workloads::get::{Get, Which};
use crate::workloads::{Memory, Rows, Work, Workload};

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let data = DataSpec { rows: rows.of(4_500_000), ..rows.plain() };
    let workload = |in_flight: usize| Workload {
        name: format!("cold-get-{in_flight}"),
        about: format!("get from disk, {in_flight} in flight, data 20 times the cache"),
        data,
        memory: Memory::Scarce,
        work: Work::Reads(Box::new(Get { which: Which::Present, in_flight })),
    };
    [1, 32].map(workload).into()
}
