//! Point reads of data of other shapes: keys, sizes of values, absent keys, versions, deletes.

use crate::data::{Arrival, DataSpec, Model};
use crate::keys::KeyShape;
use crate::workloads::get::{Get, Which};
use crate::workloads::{Memory, Rows, Work, Workload};

const VALUE_BYTES: [usize; 7] = [1, 16, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const ROWS: u64 = 1_000_000;
/// Large values get fewer rows, so that the data stays about this large.
const BYTES: u64 = 512 << 20;

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let plain = DataSpec { rows: rows.of(ROWS), ..rows.plain() };
    let mut all = vec![
        shape("url", "keys are URLs", DataSpec { shape: KeyShape::Url, ..plain }, Which::Present),
        shape(
            "sequential",
            "keys are numbered",
            DataSpec { shape: KeyShape::Sequential, ..plain },
            Which::Present,
        ),
        shape("absent-50", "half of the keys are not there", plain, Which::Half),
        shape(
            "overwrite-20",
            "a fifth was written again later, with older timestamps",
            DataSpec { model: Model::Versions, arrival: Arrival::OverwrittenOlder, ..plain },
            Which::Present,
        ),
        shape(
            "deletes",
            "more than half of the keys were deleted, and nothing is merged since",
            DataSpec { arrival: Arrival::Deleted, ..plain },
            Which::Present,
        ),
    ];
    all.extend(VALUE_BYTES.map(|value_bytes| {
        let count = ROWS.min(BYTES / value_bytes as u64);
        let data = DataSpec { rows: rows.of(count), value_bytes, ..plain };
        shape(
            &format!("value-{value_bytes}"),
            &format!("values of {value_bytes} bytes"),
            data,
            Which::Present,
        )
    }));
    all
}

fn shape(name: &str, about: &str, data: DataSpec, which: Which) -> Workload {
    Workload {
        name: format!("shape-{name}"),
        about: format!("get; {about}"),
        data,
        memory: Memory::Ample,
        work: Work::Reads(Box::new(Get { which, in_flight: 1 })),
    }
}
