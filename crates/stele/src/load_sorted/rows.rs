//! Rows on their way through a sort, and the merging of records of one key.

use crate::import::rejects::Reject;
use anyhow::{Context, Result};
use base::codec::{ByteReader, DecodeError, PutBytes};
use bytes::Bytes;
use engine::Timestamp;
use std::collections::HashSet;
use table::limits::ROW_BYTES_MAX;
use table::mutate::WriteTime;
use table::{RowMutation, RowMutations};

/// A record that is a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loaded {
    /// Number of its first line in the input.
    pub(super) line: u64,
    /// Its row: only cells, all of one timestamp.
    pub(super) row: RowMutations,
}

/// How records lie in a sort: `line varint | { family string | qualifier string | value string }`.
/// The timestamp is the load's. Nothing of it outlives the load.
pub(super) struct Packing {
    pub(super) at: Timestamp,
}

impl Packing {
    /// Packs the data that the row of `loaded` has in a sort, written over `out`.
    pub(super) fn pack(&self, loaded: &Loaded, out: &mut Vec<u8>) {
        out.clear();
        out.put_varint(loaded.line);
        for mutation in &loaded.row.mutations {
            let RowMutation::SetCell { family, qualifier, value, .. } = mutation else { continue };
            out.put_string(family.as_bytes());
            out.put_string(qualifier);
            out.put_string(value);
        }
    }

    /// The record of `row` in `packed`.
    pub(super) fn unpack(&self, row: &[u8], packed: &[u8]) -> Result<Loaded> {
        self.decode(row, packed).context("a record changed while it was sorted")
    }

    fn decode(&self, row: &[u8], packed: &[u8]) -> Result<Loaded, DecodeError> {
        // One allocation for all cells.
        let whole = Bytes::copy_from_slice(packed);
        let mut reader = ByteReader::new(&whole);
        let line = reader.varint("line")?;
        let mut mutations = Vec::new();
        while !reader.is_empty() {
            let family = String::from_utf8_lossy(reader.string("family")?).into_owned();
            let qualifier = whole.slice_ref(reader.string("qualifier")?);
            let value = whole.slice_ref(reader.string("value")?);
            let timestamp = WriteTime::At(self.at);
            mutations.push(RowMutation::SetCell { family, qualifier, timestamp, value });
        }
        let row = RowMutations { row: Bytes::copy_from_slice(row), mutations };
        Ok(Loaded { line, row })
    }
}

/// Merges records of one key that stand next to each other.
#[derive(Default)]
pub(super) struct Merger {
    row: Option<Loaded>,
    /// Bytes of its cells.
    bytes: usize,
}

/// Outcome of one record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Merged {
    /// It is part of the row being gathered.
    Kept,
    /// It begins another row; the one before is whole.
    After(Loaded),
    /// It comes before the row being gathered, that of this line and key.
    OutOfOrder(u64, Bytes),
    /// With it the row would be too large.
    TooLarge(u64, String),
}

impl Merger {
    /// Takes the next record.
    pub(super) fn add(&mut self, next: Loaded) -> Merged {
        let bytes = bytes_of(&next.row.mutations);
        match &mut self.row {
            Some(row) if next.row.row < row.row.row => {
                Merged::OutOfOrder(row.line, row.row.row.clone())
            }
            Some(row) if next.row.row == row.row.row => {
                if self.bytes + bytes > ROW_BYTES_MAX {
                    // What is overwritten does not count.
                    drop_overwritten(&mut row.row.mutations, &next.row.mutations);
                    self.bytes = bytes_of(&row.row.mutations);
                }
                let both = self.bytes + bytes;
                if both > ROW_BYTES_MAX {
                    let text = format!(
                        "this record makes its row {both} bytes, over the limit of \
                         {ROW_BYTES_MAX} bytes"
                    );
                    return Merged::TooLarge(next.line, text);
                }
                self.bytes = both;
                row.row.mutations.extend(next.row.mutations);
                Merged::Kept
            }
            _ => {
                self.bytes = bytes;
                self.row.replace(next).map_or(Merged::Kept, Merged::After)
            }
        }
    }

    /// The last row.
    pub(super) fn finish(&mut self) -> Option<Loaded> {
        self.row.take()
    }
}

/// A record that would make its row too large, as a reject.
pub(super) fn too_large(line: u64, reason: String) -> Reject {
    Reject::new(line, reason, b"")
}

/// Family, qualifier and value of a cell.
fn cell(mutation: &RowMutation) -> Option<(&str, &Bytes, &Bytes)> {
    let RowMutation::SetCell { family, qualifier, value, .. } = mutation else { return None };
    Some((family, qualifier, value))
}

fn bytes_of(mutations: &[RowMutation]) -> usize {
    let bytes = |(_, qualifier, value): (&str, &Bytes, &Bytes)| qualifier.len() + value.len();
    mutations.iter().filter_map(cell).map(bytes).sum()
}

/// Drops cells of `mutations` that a later one of them, or one of `later`, overwrites.
fn drop_overwritten(mutations: &mut Vec<RowMutation>, later: &[RowMutation]) {
    let columns = later.iter().filter_map(cell).map(|(family, name, _)| (family, name));
    let mut seen: HashSet<(&str, &Bytes)> = columns.collect();
    let newest = mutations.iter().rev().map(|mutation| {
        cell(mutation).is_some_and(|(family, qualifier, _)| seen.insert((family, qualifier)))
    });
    let mut kept: Vec<bool> = newest.collect();
    mutations.retain(|_| kept.pop().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(line: u64, key: &str, cells: &[(&str, usize)]) -> Loaded {
        let cells = cells.iter().map(|(qualifier, len)| RowMutation::SetCell {
            family: "f".to_owned(),
            qualifier: Bytes::copy_from_slice(qualifier.as_bytes()),
            timestamp: WriteTime::At(Timestamp(7000)),
            value: vec![line as u8; *len].into(),
        });
        let row = Bytes::copy_from_slice(key.as_bytes());
        Loaded { line, row: RowMutations { row, mutations: cells.collect() } }
    }

    #[test]
    fn records_come_out_of_a_sort_as_they_went_in() {
        let packing = Packing { at: Timestamp(7000) };
        let record = loaded(300, "key", &[("a", 3), ("", 0), ("b", 1000)]);
        let mut packed = vec![1];
        packing.pack(&record, &mut packed);
        assert_eq!(packing.unpack(b"key", &packed).unwrap(), record);
        for len in 0..packed.len() {
            // Cut at the end of a cell, it is a record with fewer.
            let cut = packing.unpack(b"key", &packed[..len]);
            assert!(cut.is_err() || cut.unwrap().row.mutations.len() < 3, "cut at {len}");
        }
    }

    #[test]
    fn records_of_one_key_become_one_row() {
        let mut merger = Merger::default();
        assert_eq!(merger.add(loaded(1, "a", &[("x", 1)])), Merged::Kept);
        assert_eq!(merger.add(loaded(2, "a", &[("x", 2), ("y", 1)])), Merged::Kept);
        let Merged::After(row) = merger.add(loaded(3, "b", &[("x", 1)])) else { panic!() };
        assert_eq!((row.line, row.row.mutations.len()), (1, 3));
        assert_eq!(merger.add(loaded(4, "a", &[("x", 1)])), Merged::OutOfOrder(3, "b".into()));
        assert_eq!(merger.finish().unwrap().line, 3);
        assert_eq!(merger.finish(), None);
    }

    #[test]
    fn a_row_is_too_large_by_what_it_keeps() {
        let mut merger = Merger::default();
        let half = ROW_BYTES_MAX / 2;
        for line in 1..5 {
            // The same column again and again: only one of them counts.
            assert_eq!(merger.add(loaded(line, "a", &[("x", half)])), Merged::Kept);
        }
        let Merged::TooLarge(5, text) = merger.add(loaded(5, "a", &[("y", half)])) else {
            panic!()
        };
        assert!(text.contains("268435458 bytes") && text.contains("268435456"), "{text}");
        assert_eq!(merger.add(loaded(6, "a", &[("z", 1)])), Merged::Kept);
        let row = merger.finish().unwrap();
        let names = row.row.mutations.iter().filter_map(cell).map(|(_, name, _)| name.clone());
        assert_eq!(names.collect::<Vec<_>>(), ["x", "z"]);
    }
}
