//! The output side of a flush or compaction: entries in row order become SSTables.
//!
//! 1. A row lies in one file; files end where `split` says.
//! 2. Each file takes the pieces of the range tombstones between its border and the next one's,
//!    so that the spans of the files are disjoint. The first border and the last are those of the
//!    rows that it writes (`of_rows`).
//! 3. What the file being written gathers in memory is charged to the budget, but for what it has
//!    grown by in its last 256 KiB.
//! 4. When `finish` returns, the files and their names are on disk and open. Before that, and
//!    after an error, nobody knows of them: `discard` removes them, and so does the next open.

use super::covering_tombstones::Dropped;
use super::output_split::Splitter;
use super::row_elision::EntrySink;
use super::writing::Writing;
use crate::cell::Entry;
use crate::error::{Error, Result};
use crate::files::{FileIdentity, FileNumber};
use crate::manifest::SstMeta;
use crate::memory::budget::{Charge, Use};
use crate::request::RowRange;
use crate::sstable::{Origin, SstBuilder, SstOptions, SstReader};
use std::path::Path;
use std::sync::Arc;

/// See the file header.
pub(crate) struct Outputs<'a> {
    writing: &'a Writing<'a>,
    options: SstOptions,
    origin: Origin,
    dropped: Dropped,
    splitter: Splitter,
    /// Where the file being written begins: rows before it are in the files before.
    start: Vec<u8>,
    /// Where the last file ends.
    end: Option<Vec<u8>>,
    row: Vec<u8>,
    building: Option<Building>,
    charge: Charge,
    /// Bytes of the file being written that `Writing::wrote` was told of.
    told: u64,
    /// Numbers of all files created, finished or not.
    created: Vec<FileNumber>,
    done: Vec<SstMeta>,
}

struct Building {
    number: FileNumber,
    builder: SstBuilder,
}

impl<'a> Outputs<'a> {
    /// Outputs that take over the range tombstones `dropped`, and tell that they come from
    /// `origin`.
    pub(crate) fn new(
        writing: &'a Writing<'a>,
        options: SstOptions,
        origin: Origin,
        dropped: Dropped,
        splitter: Splitter,
    ) -> Self {
        Self {
            writing,
            options,
            origin,
            dropped,
            splitter,
            start: Vec::new(),
            end: None,
            row: Vec::new(),
            building: None,
            charge: writing.cache.budget().charge(Use::Building),
            told: 0,
            created: Vec::new(),
            done: Vec::new(),
        }
    }

    /// The same for `rows` alone: all rows that are begun lie in them, and range tombstones are
    /// clipped to them. Cuts of the splitter lie inside of them.
    pub(crate) fn of_rows(self, rows: &RowRange) -> Self {
        let RowRange { start, end } = rows.clone();
        Self { start, end, ..self }
    }

    /// Begins a row, which comes after all before it. Its entries follow, if any stay.
    pub(crate) fn start_row(&mut self, row: &[u8]) -> Result<()> {
        while let Some(cut) = self.splitter.next_cut(Some(row)) {
            self.end_file(Some(cut))?;
        }
        let bytes = self.building.as_ref().map_or(0, |file| file.builder.estimated_bytes());
        if bytes >= self.told + self.options.shape.tell_bytes as u64 {
            let memory = self.building.as_ref().map_or(0, |file| file.builder.memory_bytes());
            self.charge.set(memory);
            (self.writing.wrote)(bytes - self.told);
            self.told = bytes;
        }
        if self.splitter.is_full(row, bytes) {
            self.end_file(Some(row.to_vec()))?;
        }
        self.row.clear();
        self.row.extend_from_slice(row);
        Ok(())
    }

    /// Ends the last file. Gives the files, on disk and open, in row order.
    pub(crate) fn finish(&mut self) -> Result<(Vec<SstMeta>, Vec<Arc<SstReader>>)> {
        while let Some(cut) = self.splitter.next_cut(None) {
            self.end_file(Some(cut))?;
        }
        let end = self.end.take();
        self.end_file(end)?;
        let Writing { fs, dir, options, .. } = *self.writing;
        if !self.done.is_empty() {
            fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, &error))?;
        }
        let open = |meta: &SstMeta| {
            let path = meta.number.sst_path(dir);
            let file = self.writing.open_files.open(&path);
            let file = file.map_err(|error| Error::io("open", &path, &error))?;
            let sst = SstReader::open(file, &path, meta.number, Arc::clone(self.writing.cache))?;
            Ok(SstReader::with_read_path(sst, options.read_path))
        };
        let readers = self.done.iter().map(open).collect::<Result<_>>()?;
        Ok((std::mem::take(&mut self.done), readers))
    }

    /// Removes all files. What cannot be removed is left to the next open.
    pub(crate) fn discard(&mut self) {
        self.building = None;
        remove(self.writing, self.created.drain(..));
    }

    /// Ends the file being written before the row `border` (`None`: for good).
    fn end_file(&mut self, border: Option<Vec<u8>>) -> Result<()> {
        let rows = RowRange { start: std::mem::take(&mut self.start), end: border.clone() };
        self.start = border.unwrap_or_default();
        let pieces = self.dropped.within(&rows);
        if !pieces.is_empty() {
            let builder = &mut self.building()?.builder;
            pieces.iter().for_each(|piece| builder.add_range_tombstone(piece));
        }
        if let Some(Building { number, builder }) = self.building.take() {
            let meta = builder.finish(number)?;
            (self.writing.wrote)(meta.bytes.saturating_sub(std::mem::take(&mut self.told)));
            self.done.push(meta);
            self.charge.set(0);
        }
        Ok(())
    }

    /// The file being written, begun if there is none.
    fn building(&mut self) -> Result<&mut Building> {
        if self.building.is_none() {
            let number = (self.writing.new_file)()?;
            let path = number.sst_path(self.writing.dir);
            self.created.push(number);
            let builder = self.create(&path)?;
            self.building = Some(Building { number, builder });
        }
        Ok(self.building.as_mut().expect("begun just above"))
    }

    fn create(&self, path: &Path) -> Result<SstBuilder> {
        let file = self.writing.fs.create(path);
        let file = file.map_err(|error| Error::io("create", path, &error))?;
        let builder = SstBuilder::new(file, path, self.options.clone());
        let identity = FileIdentity::draw(self.writing.fs, path)?;
        Ok(builder.with_origin(self.origin.clone()).with_identity(identity))
    }
}

impl EntrySink for Outputs<'_> {
    fn entry(&mut self, entry: Entry<'_>) -> Result<()> {
        let row = std::mem::take(&mut self.row);
        let added = self.building().and_then(|file| file.builder.add(&row, &entry));
        self.row = row;
        added
    }
}

/// Removes files that nobody knows of. What cannot be removed is left to the next open.
pub(super) fn remove(writing: &Writing<'_>, files: impl Iterator<Item = FileNumber>) {
    for number in files {
        let path = number.sst_path(writing.dir);
        if let Err(error) = writing.fs.remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "could not delete unfinished SSTable");
        }
    }
}
