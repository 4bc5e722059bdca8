//! Everything in key order.

use crate::data::Data;
use crate::engines::{Reader, Result};
use crate::slice::{Drawn, Keys, Reads};
use crate::touched::Touched;
use crate::workloads::seek::expect_entries;
use crate::workloads::{Memory, Rows, Work, Workload, any_present};
use bench_core::SplitMix64;

struct Scan;

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    vec![Workload {
        name: "scan".to_owned(),
        about: "every entry in key order; an operation is an entry".to_owned(),
        data: rows.plain(),
        memory: Memory::Ample,
        work: Work::Reads(Box::new(Scan)),
    }]
}

impl Reads for Scan {
    fn operations_per_call(&self, data: &Data) -> u64 {
        data.spec.rows
    }

    fn calls_per_chunk(&self) -> u64 {
        1
    }

    /// A scan begins at the beginning; the key is not looked at.
    fn draw(&self, data: &Data, draw: &mut SplitMix64) -> Drawn {
        any_present(data, draw)
    }

    fn call(
        &self,
        reader: &mut dyn Reader,
        _keys: &Keys,
        _first: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        reader.scan(touched)
    }

    fn expect(&self, data: &Data, _drawn: Drawn, touched: &mut Touched) {
        expect_entries(data, 0, usize::MAX, touched);
    }
}
