//! Data sets: what is loaded before a workload is measured, the same for every engine.

use crate::keys::{KeyShape, ValuePool};
use bench_core::{KeyKind, SplitMix64, mix};

/// What the rows of a data set look like to the reader, and so how peers encode them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Model {
    /// A map of keys to values.
    Keys,
    /// Each key holds versions by timestamp; a read wants the newest timestamp, whenever it was
    /// written.
    Versions,
    /// Each row holds columns in families.
    Columns,
}

/// Families of a row of [`Model::Columns`].
pub(crate) const FAMILIES: u8 = 3;
/// Columns of a family.
pub(crate) const COLUMNS: u8 = 4;
/// Names of the columns of each family.
pub(crate) const QUALIFIERS: [&[u8]; COLUMNS as usize] =
    [b"column-0", b"column-1", b"column-2", b"column-3"];

/// How the data arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arrival {
    /// Sorted, by bulk load; one sorted run.
    Sorted,
    /// In so many runs that all span the whole key range; nothing merges them.
    Runs(u64),
    /// Sorted; then a fifth of the keys again, in random order, with older timestamps.
    OverwrittenOlder,
    /// Sorted; then every second stretch of 64 keys and a quarter of the others are deleted.
    Deleted,
}

/// Names a data set; workloads with equal ones share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DataSpec {
    /// Rows (keys) loaded.
    pub(crate) rows: u64,
    pub(crate) shape: KeyShape,
    pub(crate) value_bytes: usize,
    /// What a row holds.
    pub(crate) model: Model,
    /// How it arrives.
    pub(crate) arrival: Arrival,
}

impl DataSpec {
    /// Keys and values, in bytes, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let mut key = Vec::new();
        self.shape.append(0, KeyKind::Present, &mut key);
        let row = match self.model {
            Model::Columns => (key.len() + 9 + self.value_bytes) * CELLS_PER_WIDE_ROW as usize,
            Model::Versions => (key.len() + 8 + self.value_bytes) * 6 / 5,
            Model::Keys => key.len() + self.value_bytes,
        };
        self.rows * row as u64
    }
}

/// Cells of a row of [`Model::Columns`].
pub(crate) const CELLS_PER_WIDE_ROW: u64 = FAMILIES as u64 * COLUMNS as u64;

/// Which cells of a row are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Those first loaded.
    First,
    /// The older version written later.
    Older,
    /// The deletion of the row.
    Deletion,
}

/// A cell to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// Row key.
    pub(crate) row: &'a [u8],
    /// Family, from 0; 0 unless the model is [`Model::Columns`].
    pub(crate) family: u8,
    /// Column name; empty unless the model is [`Model::Columns`].
    pub(crate) qualifier: &'a [u8],
    /// Version; 0 unless the model is [`Model::Versions`].
    pub(crate) timestamp: u64,
    /// The value; `None` deletes the row.
    pub(crate) value: Option<&'a [u8]>,
}

/// The timestamp of the first write of every key of [`Model::Versions`].
pub(crate) const NEWER: u64 = 2_000;
/// The timestamp of the overwrites, which come later.
pub(crate) const OLDER: u64 = 1_000;

/// A data set with what is needed to make it.
pub(crate) struct Data {
    /// What it is.
    pub(crate) spec: DataSpec,
    pool: ValuePool,
    /// Key numbers in key order.
    sorted: Vec<u32>,
    /// One bit per number: whether its key was deleted.
    deleted: Vec<u64>,
    seed: u64,
}

impl Data {
    /// Prepares a data set: sorts its keys.
    pub(crate) fn new(spec: DataSpec, seed: u64) -> Self {
        let sorted = sorted_numbers(&spec);
        let mut data = Self { spec, pool: ValuePool::new(seed), sorted, deleted: Vec::new(), seed };
        if spec.arrival == Arrival::Deleted {
            data.choose_deleted();
        }
        data
    }

    fn choose_deleted(&mut self) {
        let mut deleted = vec![0u64; (self.spec.rows as usize).div_ceil(64)];
        for (position, number) in self.sorted.iter().enumerate() {
            if (position / 64).is_multiple_of(2)
                || mix(u64::from(*number) ^ self.seed).is_multiple_of(4)
            {
                deleted[*number as usize / 64] |= 1 << (number % 64);
            }
        }
        self.deleted = deleted;
    }

    /// Whether key `number` was deleted after it was loaded.
    pub(crate) fn is_deleted(&self, number: u64) -> bool {
        let word = self.deleted.get(number as usize / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The value that a read of key `number` must give (of a column, where there are columns).
    pub(crate) fn value(&self, number: u64, column: u64) -> &[u8] {
        self.pool.value(number, column, self.spec.value_bytes)
    }

    /// The number of the key at `place` in key order.
    pub(crate) fn at(&self, place: usize) -> u64 {
        u64::from(self.sorted[place])
    }

    /// All key numbers in key order.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = u64> + '_ {
        self.sorted.iter().map(|number| u64::from(*number))
    }

    /// All key numbers in an order that looks random; numbers are random keys already, but URLs
    /// and sequential keys come in order.
    pub(crate) fn shuffled(&self) -> impl Iterator<Item = u64> + '_ {
        let rows = self.spec.rows;
        let mut draw = SplitMix64(self.seed ^ 0x7368_7566);
        let mut numbers: Vec<u32> = (0..rows as u32).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, draw.below(at as u64 + 1) as usize);
        }
        numbers.into_iter().map(u64::from)
    }

    /// Key numbers that are written a second time, with an older timestamp.
    pub(crate) fn overwritten(&self) -> impl Iterator<Item = u64> + '_ {
        self.shuffled().filter(|number| mix(number ^ self.seed ^ 0x6f76).is_multiple_of(5))
    }

    /// Key numbers that are deleted.
    pub(crate) fn deleted(&self) -> impl Iterator<Item = u64> + '_ {
        self.shuffled().filter(|number| self.is_deleted(*number))
    }

    /// Appends the key of row `number` to `out`.
    pub(crate) fn append_key(&self, number: u64, kind: KeyKind, out: &mut Vec<u8>) {
        self.spec.shape.append(number, kind, out);
    }

    /// How many cells of kind `what` a row has.
    pub(crate) fn cells_per_row(&self, what: What) -> u64 {
        match (what, self.spec.model) {
            (What::First, Model::Columns) => CELLS_PER_WIDE_ROW,
            _ => 1,
        }
    }

    /// Cell `index` of kind `what` of row `number`, whose key is `row`; cells of a row count up
    /// in cell order.
    pub(crate) fn cell<'a>(
        &'a self,
        what: What,
        number: u64,
        index: u64,
        row: &'a [u8],
    ) -> Cell<'a> {
        let whole = Cell { row, family: 0, qualifier: b"", timestamp: 0, value: None };
        match (what, self.spec.model) {
            (What::Deletion, _) => whole,
            (What::Older, _) => {
                Cell { timestamp: OLDER, value: Some(self.value(number, 1)), ..whole }
            }
            (What::First, Model::Keys) => Cell { value: Some(self.value(number, 0)), ..whole },
            (What::First, Model::Versions) => {
                Cell { timestamp: NEWER, value: Some(self.value(number, 0)), ..whole }
            }
            (What::First, Model::Columns) => Cell {
                family: (index / u64::from(COLUMNS)) as u8,
                qualifier: QUALIFIERS[(index % u64::from(COLUMNS)) as usize],
                value: Some(self.value(number, index)),
                ..whole
            },
        }
    }
}

/// Sorts by the first 8 bytes that differ at all, then by the whole key.
fn sorted_numbers(spec: &DataSpec) -> Vec<u32> {
    if spec.shape == KeyShape::Sequential {
        return (0..spec.rows as u32).collect();
    }
    let key = |number: u32| {
        let mut key = Vec::new();
        spec.shape.append(u64::from(number), KeyKind::Present, &mut key);
        key
    };
    if spec.shape == KeyShape::Url {
        let mut numbers: Vec<u32> = (0..spec.rows as u32).collect();
        numbers.sort_by_cached_key(|number| key(*number));
        return numbers;
    }
    let head = |number| {
        let key = key(number);
        key.first_chunk().map_or(0, |head| u64::from_be_bytes(*head))
    };
    let mut heads: Vec<(u64, u32)> = (0..spec.rows as u32).map(|n| (head(n), n)).collect();
    heads.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
    heads.into_iter().map(|(_, number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(shape: KeyShape) -> DataSpec {
        let (model, arrival) = (Model::Keys, Arrival::Deleted);
        DataSpec { rows: 3000, shape, value_bytes: 20, model, arrival }
    }

    #[test]
    fn sorted_rows_come_in_key_order_and_each_once() {
        for shape in [KeyShape::Random, KeyShape::Url, KeyShape::Sequential] {
            let data = Data::new(spec(shape), 1);
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for number in data.sorted() {
                let mut key = Vec::new();
                data.append_key(number, KeyKind::Present, &mut key);
                keys.push(key);
            }
            assert_eq!(keys.len(), 3000);
            assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{shape:?}");
        }
    }

    #[test]
    fn deletes_are_heavy_and_shuffling_keeps_every_row() {
        let data = Data::new(spec(KeyShape::Random), 1);
        let share = data.deleted().count() as f64 / 3000.0;
        assert!((0.55..0.7).contains(&share), "{share}");
        let mut all: Vec<u64> = data.shuffled().collect();
        all.sort_unstable();
        assert_eq!(all, (0..3000).collect::<Vec<_>>());
    }
}
