//! Rows of 3 families of 4 columns: one column, one family, the whole row.

use crate::data::{Arrival, COLUMNS, Data, DataSpec, FAMILIES, Model, QUALIFIERS};
use crate::engines::{Part, Reader, Result};
use crate::keys::KeyShape;
use crate::slice::{Drawn, Keys, Reads};
use crate::touched::Touched;
use crate::workloads::{Memory, Rows, Work, Workload, any_present};
use bench_core::SplitMix64;

/// Column read by `wide-column` and family read by `wide-family`: in the middle of the row.
const FAMILY: u8 = 1;
const COLUMN: u8 = 2;

/// Reads part of one row a call.
pub(super) struct Wide {
    pub(super) part: Part,
}

pub(super) fn workloads(rows: Rows) -> Vec<Workload> {
    let data = DataSpec {
        rows: rows.of(400_000),
        shape: KeyShape::Random,
        value_bytes: 32,
        model: Model::Columns,
        arrival: Arrival::Sorted,
    };
    let each = [
        ("wide-column", "one column of a wide row", Part::Column(FAMILY, COLUMN)),
        ("wide-family", "one family (4 columns) of a wide row", Part::Family(FAMILY)),
        ("wide-row", "a whole wide row (12 columns)", Part::Row),
    ];
    let workload = |(name, about, part): (&str, &str, Part)| Workload {
        name: name.to_owned(),
        about: format!("{about}; an operation is a row"),
        data,
        memory: Memory::Ample,
        work: Work::Reads(Box::new(Wide { part })),
    };
    each.map(workload).into()
}

impl Reads for Wide {
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
        reader.row(keys.key(first), self.part, touched)
    }

    fn expect(&self, data: &Data, drawn: Drawn, touched: &mut Touched) {
        let families = match self.part {
            Part::Column(family, column) => {
                let index = u64::from(family * COLUMNS + column);
                return touched.value(data.value(drawn.number, index));
            }
            Part::Family(family) => family..family + 1,
            Part::Row => 0..FAMILIES,
        };
        for family in families {
            for column in 0..COLUMNS {
                let index = u64::from(family * COLUMNS + column);
                touched.entry(QUALIFIERS[usize::from(column)], data.value(drawn.number, index));
            }
        }
    }
}
