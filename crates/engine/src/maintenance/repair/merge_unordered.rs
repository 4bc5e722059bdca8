//! Makes one run of SSTables whose order is not known.
//!
//! 1. Entries of a row are ordered by what they say of themselves, sequence number included. Of
//!    entries with the same column, timestamp and number, which are one entry that was found twice,
//!    one stays: a put before an operand, for it may be what the operand was folded into.
//! 2. Nothing is elided: tombstones and all versions stay, for the files may not be all there were.
//! 3. However many files there are, few are open at a time: files that do not overlap form runs, of
//!    each of which one is open, and runs are merged 16 at a time.

use crate::cache::CacheFill;
use crate::cell::Kind;
use crate::compaction::Outputs;
use crate::compaction::covering_tombstones::Dropped;
use crate::compaction::output_split::Splitter;
use crate::compaction::row_elision::EntrySink;
use crate::compaction::writing::Writing;
use crate::error::Result;
use crate::manifest::SstMeta;
use crate::semantics::model::OwnedEntry;
use crate::semantics::row_cursor::RowCursor;
use crate::semantics::stripes::Stripes;
use crate::sstable::{Origin, SstCursor, SstReader};
use std::collections::VecDeque;
use std::sync::Arc;

/// Runs that are merged at once. Of each one file is open.
const RUNS_AT_ONCE: usize = 16;

/// What a merge reads, writes and removes.
pub(super) struct Merging<'a> {
    pub(super) writing: &'a Writing<'a>,
    /// Opens a file.
    pub(super) open: &'a dyn Fn(&SstMeta) -> Result<Arc<SstReader>>,
    /// Removes a file that was merged.
    pub(super) remove: &'a dyn Fn(&SstMeta) -> Result<()>,
}

/// Returns whether no row of `after`, and no range that it drops, comes before the end of `before`.
fn follows(before: &SstMeta, after: &SstMeta) -> bool {
    let end = before.span().end;
    end.is_some_and(|end| end <= after.span().start) && before.first_row < after.first_row
}

/// Puts `ssts` into as few runs as there are files over any one row, or little more.
pub(super) fn runs_of(mut ssts: Vec<SstMeta>) -> Vec<Vec<SstMeta>> {
    ssts.sort_by(|a, b| a.first_row.cmp(&b.first_row));
    let mut runs: Vec<Vec<SstMeta>> = Vec::new();
    for sst in ssts {
        let fits = |run: &&mut Vec<SstMeta>| run.last().is_some_and(|last| follows(last, &sst));
        match runs.iter_mut().find(fits) {
            Some(run) => run.push(sst),
            None => runs.push(vec![sst]),
        }
    }
    runs
}

impl Merging<'_> {
    /// Writes everything in `runs`, each of which has its files in order, as the files of one run.
    /// Files that were merged are removed.
    pub(super) fn merge(&self, runs: Vec<Vec<SstMeta>>) -> Result<Vec<SstMeta>> {
        let mut runs = VecDeque::from(runs);
        while runs.len() > 1 {
            let group: Vec<Vec<SstMeta>> = runs.drain(..runs.len().min(RUNS_AT_ONCE)).collect();
            runs.push_back(self.merge_at_once(&group)?);
            group.iter().flatten().try_for_each(self.remove)?;
        }
        Ok(runs.pop_front().unwrap_or_default())
    }

    fn merge_at_once(&self, runs: &[Vec<SstMeta>]) -> Result<Vec<SstMeta>> {
        let writing = self.writing;
        let mut tombstones = Vec::new();
        for sst in runs.iter().flatten().filter(|sst| sst.range_tombstones > 0) {
            tombstones.extend_from_slice((self.open)(sst)?.range_tombstones());
        }
        let dropped = Dropped::new(&tombstones, &Stripes::default());
        let options = writing.of_files(writing.tree_options.compression_last);
        let origin = Origin { tree: writing.tree, position: writing.flushed.0, inputs: Vec::new() };
        let cuts = dropped.cuts(writing.options);
        let splitter = Splitter::new(writing.options, cuts, Vec::new());
        let mut outputs = Outputs::new(writing, options, origin, dropped, splitter);
        let walks = runs.iter().map(|run| RunWalk { open: self.open, ssts: run.iter(), at: None });
        let written = write_rows(&mut walks.collect::<Vec<_>>(), &mut outputs)
            .and_then(|()| outputs.finish());
        if written.is_err() {
            outputs.discard();
        }
        written.map(|(metas, _)| metas)
    }
}

/// A walk over the rows of a run, of which one file is open.
struct RunWalk<'a> {
    open: &'a dyn Fn(&SstMeta) -> Result<Arc<SstReader>>,
    /// The files that come next.
    ssts: std::slice::Iter<'a, SstMeta>,
    at: Option<SstCursor>,
}

impl RunWalk<'_> {
    /// The row it stands on; `None` before the first and behind the last.
    fn row(&self) -> Option<&[u8]> {
        self.at.as_ref().and_then(SstCursor::row)
    }

    /// Goes on to the next file that has a row, if the one that is open has no more.
    fn settle(&mut self) -> Result<()> {
        while self.row().is_none() {
            self.at = None;
            let Some(sst) = self.ssts.next() else { break };
            let mut cursor = (self.open)(sst)?.cursor(CacheFill::Bypass);
            cursor.seek(&[])?;
            self.at = Some(cursor);
        }
        Ok(())
    }

    /// Moves the entries of the row to `entries`, if it stands on `row`, and goes on.
    fn take(&mut self, row: &[u8], entries: &mut Vec<OwnedEntry>) -> Result<()> {
        let Some(cursor) = self.at.as_mut().filter(|cursor| cursor.row() == Some(row)) else {
            return Ok(());
        };
        while cursor.entry().is_some() {
            entries.push(OwnedEntry::copy_of(&cursor.entry_with_value()?));
            cursor.next_entry()?;
        }
        cursor.next_row()?;
        self.settle()
    }
}

fn write_rows(walks: &mut [RunWalk<'_>], outputs: &mut Outputs<'_>) -> Result<()> {
    walks.iter_mut().try_for_each(RunWalk::settle)?;
    let mut entries = Vec::new();
    while let Some(row) = walks.iter().filter_map(RunWalk::row).min().map(<[u8]>::to_vec) {
        entries.clear();
        walks.iter_mut().try_for_each(|walk| walk.take(&row, &mut entries))?;
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

#[cfg(test)]
mod tests {
    use super::super::repair_ssts;
    use super::*;
    use crate::cache::CacheFeatures;
    use crate::cell::{Column, Entry, FamilyId, SequenceNumber, Timestamp, TreeId};
    use crate::files::FileNumber;
    use crate::files::open_files::OpenFiles;
    use crate::log::LogPosition;
    use crate::options::{Compression, FilterGranularity, Options, TreeOptions};
    use crate::sstable::{BlockCache, SstBuilder};
    use base::env::Env;
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;
    use std::sync::Weak;

    /// Rows of the files, by file; merges them and gives how many were open at once at most.
    fn open_at_most(files: &[Vec<u32>]) -> usize {
        let (env, dir) = (Env::real(1), tempfile::tempdir().unwrap());
        let (fs, dir) = (&*env.fs, dir.path());
        let options = Options { sst_bytes_max: 64 << 10, ..Options::default() };
        let next = Cell::new(1);
        let new_file = || FileNumber(next.replace(next.get() + 1));
        let writing = Writing {
            fs,
            dir,
            options: &options,
            tree: TreeId(1),
            flushed: LogPosition::default(),
            tree_options: &TreeOptions::default(),
            filter_granularity: FilterGranularity::Row,
            open_files: &OpenFiles::new(Arc::clone(&env.fs), &options),
            cache: &BlockCache::new(4 << 20, CacheFeatures::PASSING),
            new_file: &|| Ok(new_file()),
            cancelled: &|| false,
            wrote: &|_| (),
        };
        let value = [7; 1000];
        let write = |rows: &Vec<u32>| {
            let number = new_file();
            let path = number.sst_path(dir);
            let options = writing.of_files(Compression::None);
            let mut builder = SstBuilder::new(fs.create(&path).unwrap(), &path, options);
            for row in rows {
                let column = Column::of(FamilyId(1), b"q");
                let (timestamp, sequence) = (Timestamp(1), SequenceNumber(number.0));
                let entry = Entry { column, timestamp, sequence, kind: Kind::Put, value: &value };
                builder.add(&row.to_be_bytes(), &entry).unwrap();
            }
            builder.finish(number).unwrap()
        };
        let metas: Vec<SstMeta> = files.iter().map(write).collect();
        let (opened, most) = (RefCell::new(Vec::<Weak<SstReader>>::new()), Cell::new(0));
        let open = |meta: &SstMeta| {
            let sst = repair_ssts::open(fs, &meta.number.sst_path(dir), meta.number)?;
            let mut opened = opened.borrow_mut();
            opened.push(Arc::downgrade(&sst));
            opened.retain(|sst| sst.strong_count() > 0);
            most.set(most.get().max(opened.len()));
            Ok(sst)
        };
        let remove = |meta: &SstMeta| {
            fs.remove_file(&meta.number.sst_path(dir)).unwrap();
            Ok(())
        };
        let merging = Merging { writing: &writing, open: &open, remove: &remove };
        let merged = merging.merge(runs_of(metas)).unwrap();
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), merged.len(), "files stay");
        let most = most.get();
        let mut walk = RunWalk { open: &open, ssts: merged.iter(), at: None };
        walk.settle().unwrap();
        let (mut found, mut entries) = (Vec::new(), Vec::new());
        while let Some(row) = walk.row().map(<[u8]>::to_vec) {
            walk.take(&row, &mut entries).unwrap();
            found.push(u32::from_be_bytes(row.try_into().unwrap()));
        }
        let rows: BTreeSet<u32> = files.iter().flatten().copied().collect();
        assert!(found.iter().eq(&rows), "the rows are those of the files");
        assert_eq!(entries.len(), files.iter().map(Vec::len).sum::<usize>());
        most
    }

    #[test]
    fn few_files_are_open_however_many_there_are() {
        // All overlap: more than two merges' worth of runs.
        let overlapping: Vec<Vec<u32>> =
            (0..40).map(|file| (0..20).map(|row| row * 50 + file % 35).collect()).collect();
        assert_eq!(open_at_most(&overlapping), RUNS_AT_ONCE);
        // One over all of many that follow each other.
        let mut beside: Vec<Vec<u32>> =
            (0..60).map(|file| (0..5).map(|row| file * 10 + row).collect()).collect();
        beside.push((0..60).map(|row| row * 10).collect());
        assert_eq!(open_at_most(&beside), 2);
        assert_eq!(open_at_most(&beside[..60]), 0, "nothing is to be merged");
    }
}
