//! Loads of an empty engine.

use crate::data::DataSpec;
use crate::workloads::{Memory, Rows, Work, Workload};

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let data = DataSpec { rows: rows.of(1_000_000), ..rows.plain() };
    let each = [
        (
            "random-load",
            "keys in random order in batches of 100, until merging rests",
            Work::RandomLoad,
        ),
        ("bulk-load", "sorted keys by the fastest way in", Work::BulkLoad),
    ];
    let workload = |(name, about, work): (&str, &str, Work)| Workload {
        name: name.to_owned(),
        about: format!("{about}; an operation is a key"),
        data,
        memory: Memory::Ample,
        work,
    };
    each.into_iter().map(workload).collect()
}
