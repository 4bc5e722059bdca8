//! Tests of whole files: what was written is what every way of reading finds.

mod damage;
mod golden;
mod imitations;
mod large_values;
mod limits;
mod prefixes;
mod round_trip;
mod salvage;
mod together;

use super::*;
use crate::batch::{QUALIFIER_BYTES_MAX, ROW_BYTES_MAX};
use crate::cache::{CacheFeatures, CacheFill};
use crate::cell::{
    Column, Entry, FamilyId, Kind, RangeTombstone, Scope, SequenceNumber, Timestamp,
};
use crate::error::{Error, Result};
use crate::files::sst_meta::SstMeta;
use crate::merge_operator::{Operand, Operator};
use crate::options::{Compression, FilterGranularity, ReadPath};
use crate::request::RowRange;
use crate::semantics::model::OwnedEntry;
use crate::semantics::row_cursor::RowCursor;
use crate::shape::Shape;
use base::env::fs::{ReadFile, WriteFile};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Default)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl ReadFile for MemoryFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(part) = bytes.get(start..start.saturating_add(buf.len())) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        buf.copy_from_slice(part);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
}

impl WriteFile for MemoryFile {
    fn write_all_at(&mut self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.lock();
        let end = offset as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn allocate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.lock().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }
}

/// Rows in order, each with its entries in order.
type Rows = Vec<(Vec<u8>, Vec<OwnedEntry>)>;

fn options() -> SstOptions {
    SstOptions {
        block_bytes: 1 << 10,
        compression: Compression::None,
        filter_bits_per_key: 12,
        filter_granularity: FilterGranularity::Column,
        large_value_bytes: 4 << 10,
        row_prefix_bytes: 0,
        prefix_index: false,
        shape: Shape::DEFAULT,
    }
}

/// With everything for row prefixes of two bytes.
fn prefixed_options() -> SstOptions {
    SstOptions { row_prefix_bytes: 2, prefix_index: true, ..options() }
}

fn build(rows: &Rows, dropped: &[RangeTombstone], options: &SstOptions) -> (Vec<u8>, SstMeta) {
    build_by(rows, dropped, options, |builder| builder)
}

/// The same by a builder that `with` has changed.
fn build_by(
    rows: &Rows,
    dropped: &[RangeTombstone],
    options: &SstOptions,
    with: impl FnOnce(SstBuilder) -> SstBuilder,
) -> (Vec<u8>, SstMeta) {
    let file = MemoryFile::default();
    let builder = SstBuilder::new(Box::new(file.clone()), Path::new("7.sst"), options.clone());
    let mut builder = with(builder);
    for (row, entries) in rows {
        for entry in entries {
            builder.add(row, &entry.borrow()).unwrap();
        }
    }
    dropped.iter().for_each(|range| builder.add_range_tombstone(range));
    let meta = builder.finish(FileNumber(7)).unwrap();
    let bytes = file.0.lock().clone();
    assert_eq!(meta.bytes, bytes.len() as u64);
    (bytes, meta)
}

fn open(bytes: Vec<u8>) -> Result<Arc<SstReader>> {
    let file = MemoryFile(Arc::new(Mutex::new(bytes)));
    let cache = BlockCache::new(4 << 20, CacheFeatures::PASSING);
    SstReader::open(Arc::new(file), Path::new("7.sst"), FileNumber(7), cache)
}

/// The row the cursor stands on with its entries, which it uses up.
fn row_of(cursor: &mut SstCursor) -> Result<Option<(Vec<u8>, Vec<OwnedEntry>)>> {
    let Some(row) = cursor.row().map(<[u8]>::to_vec) else { return Ok(None) };
    let mut entries = Vec::new();
    while cursor.entry().is_some() {
        entries.push(OwnedEntry::copy_of(&cursor.entry_with_value()?));
        cursor.next_entry()?;
    }
    Ok(Some((row, entries)))
}

fn read_all(sst: &Arc<SstReader>) -> Result<Rows> {
    let mut cursor = sst.cursor(CacheFill::Insert);
    let mut rows = Vec::new();
    cursor.seek(&[])?;
    while let Some(row) = row_of(&mut cursor)? {
        rows.push(row);
        cursor.next_row()?;
    }
    Ok(rows)
}

fn put(family: u16, qualifier: &[u8], timestamp: i64, sequence: u64, value: &[u8]) -> OwnedEntry {
    let column = Column::of(FamilyId(family), qualifier);
    entry_of(column, timestamp, sequence, Kind::Put, value)
}

fn entry_of(
    column: Column<'_>,
    timestamp: i64,
    sequence: u64,
    kind: Kind,
    value: &[u8],
) -> OwnedEntry {
    let (timestamp, sequence) = (Timestamp(timestamp), SequenceNumber(sequence));
    OwnedEntry::copy_of(&Entry { column, timestamp, sequence, kind, value })
}

/// Sorts entries and drops those that are equal in order.
fn ordered(mut entries: Vec<OwnedEntry>) -> Vec<OwnedEntry> {
    entries.sort_by(|a, b| a.borrow().cmp_in_row(&b.borrow()));
    entries.dedup_by(|a, b| a.borrow().cmp_in_row(&b.borrow()).is_eq());
    entries
}

/// An SSTable with one cell in each of `rows`.
pub(super) fn sst_of_rows(rows: &[Vec<u8>]) -> Arc<SstReader> {
    let rows = rows.iter().map(|row| (row.clone(), vec![put(1, b"q", 1, 1, b"v")])).collect();
    open(build(&rows, &[], &options()).0).unwrap()
}
