//! Point reads of one key: uniform, zipfian, and of keys that are not there.

use crate::data::Data;
use crate::engines::{Reader, Result};
use crate::slice::{Drawn, Keys, Reads};
use crate::touched::Touched;
use crate::workloads::{Memory, Rows, Work, Workload, any_absent, any_present};
use crate::zipfian::Zipfian;
use bench_core::{KeyKind, SplitMix64};

/// Which keys are read.
pub(super) enum Which {
    /// Loaded keys, all equally likely.
    Present,
    /// Loaded keys, few of them very popular.
    Popular(Zipfian),
    /// Keys that were never loaded.
    Absent,
    Half,
}

/// Reads one key a call.
pub(super) struct Get {
    /// Which.
    pub(super) which: Which,
    /// How many reads are in flight.
    pub(super) in_flight: usize,
}

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let data = rows.plain();
    let each = [
        ("get-hit", "get of a key that is there, uniform", Which::Present),
        (
            "get-hit-zipf",
            "get of a key that is there, zipfian 0.99",
            Which::Popular(Zipfian::new(data.rows)),
        ),
        ("get-miss", "get of a key that is not there", Which::Absent),
    ];
    let workload = |(name, about, which): (&str, &str, Which)| Workload {
        name: name.to_owned(),
        about: about.to_owned(),
        data,
        memory: Memory::Ample,
        work: Work::Reads(Box::new(Get { which, in_flight: 1 })),
    };
    each.into_iter().map(workload).collect()
}

impl Reads for Get {
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn draw(&self, data: &Data, draw: &mut SplitMix64) -> Drawn {
        match &self.which {
            Which::Present => any_present(data, draw),
            Which::Popular(zipfian) => {
                Drawn { number: zipfian.draw(draw), kind: KeyKind::Present, place: 0 }
            }
            Which::Absent => any_absent(data, draw),
            Which::Half if draw.below(2) == 0 => any_present(data, draw),
            Which::Half => any_absent(data, draw),
        }
    }

    #[inline]
    fn call(
        &self,
        reader: &mut dyn Reader,
        keys: &Keys,
        first: usize,
        touched: &mut Touched,
    ) -> Result<()> {
        reader.get(keys.key(first), touched)
    }

    fn expect(&self, data: &Data, drawn: Drawn, touched: &mut Touched) {
        expect_value(data, drawn, touched);
    }
}

/// What reading one key must touch.
pub(super) fn expect_value(data: &Data, drawn: Drawn, touched: &mut Touched) {
    if drawn.kind == KeyKind::Present && !data.is_deleted(drawn.number) {
        touched.value(data.value(drawn.number, 0));
    } else {
        touched.missing();
    }
}
