//! Makes one run of SSTables whose order is not known.
//!
//! 1. Entries of a row are ordered by what they say of themselves, sequence number included. Of
//!    entries with the same column, timestamp and number, which are one entry that was found twice,
//!    one stays: a put before an operand, for it may be what the operand was folded into.
//! 2. Nothing is elided: tombstones and all versions stay, for the files may not be all there were.

use crate::cache::CacheFill;
use crate::cell::Kind;
use crate::compaction::Outputs;
use crate::compaction::dropped::Dropped;
use crate::compaction::elide::EntrySink;
use crate::compaction::run::Writing;
use crate::compaction::split::Splitter;
use crate::compaction::stripes::Stripes;
use crate::cursor::RowCursor;
use crate::error::Result;
use crate::manifest::SstMeta;
use crate::model::OwnedEntry;
use crate::sstable::{Origin, SstCursor, SstReader};
use std::sync::Arc;

/// Writes everything in `ssts` as the files of one run.
pub(super) fn merge(writing: &Writing<'_>, ssts: &[Arc<SstReader>]) -> Result<Vec<SstMeta>> {
    let tombstones = ssts.iter().flat_map(|sst| sst.range_tombstones().to_vec()).collect();
    let dropped = Dropped::new(tombstones, &Stripes::default());
    let options = writing.of_files(writing.tree_options.compression_last);
    let origin = Origin { tree: writing.tree, position: writing.flushed.0, inputs: Vec::new() };
    let splitter = Splitter::new(writing.options, Vec::new(), Vec::new());
    let mut outputs = Outputs::new(writing, options, origin, dropped, splitter);
    let written = write_rows(ssts, &mut outputs).and_then(|()| outputs.finish());
    if written.is_err() {
        outputs.discard();
    }
    written.map(|(metas, _)| metas)
}

fn write_rows(ssts: &[Arc<SstReader>], outputs: &mut Outputs<'_>) -> Result<()> {
    let mut cursors: Vec<SstCursor> =
        ssts.iter().map(|sst| sst.cursor(CacheFill::Bypass)).collect();
    cursors.iter_mut().try_for_each(|cursor| cursor.seek(&[]))?;
    let mut entries = Vec::new();
    while let Some(row) = cursors.iter().filter_map(SstCursor::row).min().map(<[u8]>::to_vec) {
        entries.clear();
        for cursor in cursors.iter_mut().filter(|cursor| cursor.row() == Some(&row)) {
            while cursor.entry().is_some() {
                entries.push(OwnedEntry::copy_of(&cursor.entry_with_value()?));
                cursor.next_entry()?;
            }
            cursor.next_row()?;
        }
        let operand = |entry: &OwnedEntry| entry.kind == Kind::Merge;
        entries.sort_by(|a, b| {
            a.borrow().cmp_in_row(&b.borrow()).then_with(|| operand(a).cmp(&operand(b)))
        });
        entries.dedup_by(|later, first| later.borrow().cmp_in_row(&first.borrow()).is_eq());
        outputs.start_row(&row)?;
        entries.iter().try_for_each(|entry| outputs.entry(entry.borrow()))?;
    }
    Ok(())
}
