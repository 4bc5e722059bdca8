//! Short scans from a key that is there.

use crate::data::Data;
use crate::engines::{Reader, Result};
use crate::slice::{Drawn, Keys, Reads};
use crate::touched::Touched;
use crate::workloads::{Memory, Rows, Work, Workload};
use bench_core::{KeyKind, SplitMix64};

struct Seek {
    count: usize,
}

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let workload = |count: usize| Workload {
        name: format!("seek-{count}"),
        about: format!("seek to a random key and read {count} entries; an operation is a seek"),
        data: rows.plain(),
        memory: Memory::Ample,
        work: Work::Reads(Box::new(Seek { count })),
    };
    [10, 100].map(workload).into()
}

impl Reads for Seek {
    fn draw(&self, data: &Data, draw: &mut SplitMix64) -> Drawn {
        any_place(data, draw)
    }

    #[inline]
    fn call(
        &self,
        reader: &mut dyn Reader,
        keys: &Keys,
        first: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        reader.seek(keys.key(first), self.count, touched)
    }

    fn expect(&self, data: &Data, drawn: Drawn, touched: &mut Touched) {
        expect_entries(data, drawn.place, self.count, touched);
    }
}

/// A random place in key order, and the key there.
pub(super) fn any_place(data: &Data, draw: &mut SplitMix64) -> Drawn {
    let place = draw.below(data.spec.rows) as usize;
    Drawn { number: data.at(place), kind: KeyKind::Present, place }
}

/// What the first `count` entries that are there, from `place` on, must touch.
pub(super) fn expect_entries(data: &Data, place: usize, count: usize, touched: &mut Touched) {
    let mut key = Vec::new();
    let places = place..data.spec.rows as usize;
    let numbers = places.map(|place| data.at(place)).filter(|number| !data.is_deleted(*number));
    for number in numbers.take(count) {
        key.clear();
        data.append_key(number, KeyKind::Present, &mut key);
        touched.entry(&key, data.value(number, 0));
    }
}
