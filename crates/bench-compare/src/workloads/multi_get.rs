//! Many keys in one call, counted per key.

use crate::data::Data;
use crate::engines::{Reader, Result};
use crate::slice::{Drawn, Keys, Reads};
use crate::touched::Touched;
use crate::workloads::get::expect_value;
use crate::workloads::{Memory, Rows, Work, Workload, any_present};
use bench_core::SplitMix64;

const KEYS: usize = 32;

struct MultiGet;

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    vec![Workload {
        name: "multi-get-32".to_owned(),
        about: "32 keys in one call, uniform; an operation is a key".to_owned(),
        data: rows.plain(),
        memory: Memory::Ample,
        work: Work::Reads(Box::new(MultiGet)),
    }]
}

impl Reads for MultiGet {
    fn keys_per_call(&self) -> usize {
        KEYS
    }

    fn operations_per_call(&self, _data: &Data) -> u64 {
        KEYS as u64
    }

    fn draw(&self, data: &Data, draw: &mut SplitMix64) -> Drawn {
        any_present(data, draw)
    }

    #[inline]
    fn call(
        &self,
        reader: &mut dyn Reader,
        keys: &Keys,
        first: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        let keys: [&[u8]; KEYS] = std::array::from_fn(|index| keys.key(first + index));
        reader.multi_get(&keys, touched)
    }

    fn expect(&self, data: &Data, drawn: Drawn, touched: &mut Touched) {
        expect_value(data, drawn, touched);
    }
}
