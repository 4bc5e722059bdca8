//! `bench memtable`: inserts and reads of a memtable by itself.

use crate::measure::Phase;
use base::checksum::xxh3;
use bench_core::{KeyKind, SplitMix64, print, random_key};
use clap::Args;
use engine::internals::FrozenBatch;
use engine::internals::LogPosition;
use engine::internals::RowCursor;
use engine::internals::{Memtable, MemtableCursor};
use engine::{Column, FamilyId, Result, SequenceNumber, Timestamp, WriteBatch};

/// Options of `bench memtable`.
#[derive(Debug, Args)]
pub(crate) struct MemtableArgs {
    /// Rows to insert, and reads of each kind.
    #[arg(long, default_value_t = 200_000)]
    rows: u64,
    /// Bytes of each key, at least 24.
    #[arg(long, default_value_t = 50)]
    key_bytes: usize,
    /// Bytes of each value.
    #[arg(long, default_value_t = 256)]
    value_bytes: usize,
    /// Mutations in one write batch.
    #[arg(long, default_value_t = 100)]
    batch: usize,
}

/// In which order rows come, and what their keys look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Random,
    Ascending,
    /// At random, with 16 bytes that all keys begin with.
    Prefixed,
}

/// The bytes that [`Order::Prefixed`] keys begin with.
const PREFIX: &[u8; 16] = b"https://example.";

/// Runs the benchmark.
pub(crate) fn run(args: &MemtableArgs) -> Result<()> {
    for order in [Order::Random, Order::Ascending, Order::Prefixed] {
        // Its successor knows what the keys begin with, as every memtable but a tree's first does.
        let before = Memtable::default();
        Bench { args, order }.batches().iter().take(2).for_each(|batch| insert(&before, batch));
        Bench { args, order }.run(&before.successor())?;
    }
    Ok(())
}

struct Bench<'a> {
    args: &'a MemtableArgs,
    order: Order,
}

impl Bench<'_> {
    fn run(&self, memtable: &Memtable) -> Result<()> {
        let batches = self.batches();
        self.measure("insert", || {
            batches.iter().for_each(|batch| insert(memtable, batch));
            Ok(())
        })?;
        let bytes = memtable.bytes() as u64 / self.args.rows;
        print(&format!("{:?}: {bytes} bytes a row", self.order));
        let mut cursor = MemtableCursor::new(memtable);
        for (kind, name) in [(KeyKind::Present, "existing"), (KeyKind::Absent, "missing")] {
            self.reads(&format!("seek, {name}"), kind, |row| {
                cursor.seek(row)?;
                Ok(cursor.row() == Some(row) && !cursor.entry_with_value()?.value.is_empty())
            })?;
            self.reads(&format!("by hash, {name}"), kind, |row| {
                let hash = xxh3(row);
                Ok(memtable.may_have_row(hash)
                    && cursor.seek_row(row, hash)
                    && !cursor.entry_with_value()?.value.is_empty())
            })?;
        }
        self.measure("walk", || walk(memtable, self.args.rows))?;
        let hot = self.cells(|draw| (vec![b'h'; 24 + draw.below(100) as usize], Vec::new()));
        self.measure("insert into 100 rows", || {
            hot.iter().for_each(|batch| insert(memtable, batch));
            Ok(())
        })?;
        let wide =
            self.cells(|draw| (b"wide row".to_vec(), draw.next_u64().to_be_bytes().to_vec()));
        self.measure("insert into a wide row", || {
            wide.iter().for_each(|batch| insert(memtable, batch));
            Ok(())
        })
    }

    fn measure(&self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let name = format!("{:?}: {name}", self.order);
        let phase = Phase::measure(&name, || work().map(|()| self.args.rows))?;
        print(&phase.line());
        Ok(())
    }

    /// Reads rows at random; `read` tells whether the row was there.
    fn reads(
        &self,
        name: &str,
        kind: KeyKind,
        mut read: impl FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        let (mut draw, mut row) = (SplitMix64(7), vec![0; self.args.key_bytes]);
        self.measure(name, || {
            for _ in 0..self.args.rows {
                self.key(draw.below(self.args.rows), kind, &mut row);
                assert_eq!(read(&row)?, kind == KeyKind::Present);
            }
            Ok(())
        })
    }

    fn key(&self, number: u64, kind: KeyKind, out: &mut [u8]) {
        random_key(number, kind, out);
        match self.order {
            Order::Random => {}
            Order::Ascending => out[..8].copy_from_slice(&number.to_be_bytes()),
            Order::Prefixed => out[..PREFIX.len()].copy_from_slice(PREFIX),
        }
    }

    /// Every row once.
    fn batches(&self) -> Vec<FrozenBatch> {
        let mut number = 0;
        self.cells(|_| {
            let mut row = vec![0; self.args.key_bytes];
            self.key(number, KeyKind::Present, &mut row);
            number += 1;
            (row, Vec::new())
        })
    }

    /// As many cells as there are rows; `cell` gives row and qualifier of each.
    fn cells(
        &self,
        mut cell: impl FnMut(&mut SplitMix64) -> (Vec<u8>, Vec<u8>),
    ) -> Vec<FrozenBatch> {
        let (mut batches, mut batch, mut draw) = (Vec::new(), WriteBatch::new(), SplitMix64(3));
        let value = vec![7; self.args.value_bytes];
        for number in 0..self.args.rows {
            let (row, qualifier) = cell(&mut draw);
            let column = Column::of(FamilyId(1), &qualifier);
            batch.put(&row, column, Timestamp(number.cast_signed()), &value);
            if batch.len() == self.args.batch || number + 1 == self.args.rows {
                batches.push(batch.freeze().expect("the batch is within all limits"));
                batch.clear();
            }
        }
        batches
    }
}

fn insert(memtable: &Memtable, batch: &FrozenBatch) {
    let last = memtable.position().0;
    let position = LogPosition(last + batch.len() as u64);
    memtable.apply(batch, SequenceNumber(last + 1), position);
}

fn walk(memtable: &Memtable, rows: u64) -> Result<()> {
    let (mut cursor, mut met, mut bytes) = (MemtableCursor::new(memtable), 0, 0);
    cursor.seek(b"")?;
    while let Some(row) = cursor.row() {
        bytes += row.len();
        bytes += cursor.entry_with_value()?.value.len();
        met += 1;
        cursor.next_row()?;
    }
    assert_eq!(met, rows, "{bytes} bytes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_runs_small() {
        run(&MemtableArgs { rows: 300, key_bytes: 50, value_bytes: 8, batch: 7 }).unwrap();
    }
}
