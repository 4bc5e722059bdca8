//! External sort: rows in any order in, the same rows in order out, within a given memory.
//!
//! Rows are gathered in memory ([`row_buffer`]); when the memory is full they are sorted and written to
//! a file ([`sort_run`], docs/format/sort_run.md), and all files are merged at the end ([`merge_runs`]), in
//! several passes if they are many.
//!
//! Invariants:
//! 1. Rows come out ascending; equal rows in the order in which they were added. Runs are kept in
//!    that order, and only neighbours are merged into one, which takes their place.
//! 2. The files lie in the data directory under names of their own. They belong to the sort and are
//!    removed with it; it keeps the engine open, so nobody else can open the directory and take
//!    their numbers. What a crash leaves, the next open removes.
//! 3. Nothing counts that is in these files, so nothing is synced. What is read from them is
//!    checked.

mod merge_runs;
mod row_buffer;
mod sort_run;
#[cfg(test)]
mod tests;

pub use sort_run::fuzz;

use crate::batch::ROW_BYTES_MAX;
use crate::error::{Error, Result};
use crate::marks::Mark;
use crate::shape::Shape;
use crate::state::{Handle, Shared};
use merge_runs::Merge;
use row_buffer::Buffer;
use sort_run::{RunFile, RunWriter};
use std::sync::Arc;

/// Longest payload of a row.
pub(crate) const SORT_PAYLOAD_BYTES_MAX: usize = 512 << 20;
/// Least memory that a sort works with.
pub const SORT_MEMORY_BYTES_MIN: usize = Shape::DEFAULT.sort_memory_bytes_min;

/// What a sort may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortOptions {
    /// Memory for rows before they are written to a file, and for the files' frames while they are
    /// merged. A row that is larger is sorted as well, and takes what it needs: a frame is as large
    /// as the largest row in it, and two at least are merged at once. From
    /// [`SORT_MEMORY_BYTES_MIN`] on, default 256 MiB: 64 GiB of rows that are not large are then
    /// merged in one pass.
    pub memory_bytes: usize,
}

impl Default for SortOptions {
    fn default() -> Self {
        Self { memory_bytes: 256 << 20 }
    }
}

/// Sorts rows, each with bytes of the caller's. Made by [`Engine::row_sorter`]. Dropped, it removes
/// its files.
///
/// ```
/// # use engine::{Engine, Options, SortOptions};
/// # fn main() -> engine::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let engine = Engine::open(dir.path(), Options::default())?;
/// let mut sorter = engine.row_sorter(&SortOptions::default())?;
/// for (row, payload) in [("b", "1"), ("a", "2"), ("b", "3")] {
///     sorter.add(row.as_bytes(), payload.as_bytes())?;
/// }
/// let mut sorted = sorter.finish()?;
/// let mut payloads = Vec::new();
/// while let Some((_, payload)) = sorted.next_row()? {
///     payloads.extend_from_slice(payload);
/// }
/// assert_eq!(payloads, b"213");
/// # Ok(())
/// # }
/// ```
pub struct RowSorter {
    place: Place,
    memory_bytes: usize,
    buffer: Buffer,
    /// In the order in which their rows were added.
    runs: Vec<RunFile>,
    rows: u64,
    spilled_bytes: u64,
    /// Why the sort cannot go on.
    failed: Option<Error>,
}

/// Where the files of a sort lie.
#[derive(Clone)]
struct Place {
    shared: Arc<Shared>,
    /// Keeps it open (invariant 2).
    _open: Handle,
}

impl RowSorter {
    /// A sort whose files lie in the directory of `engine`.
    pub(crate) fn new(handle: Handle, options: &SortOptions) -> Result<Self> {
        let memory_bytes = options.memory_bytes;
        let shared = Arc::clone(handle.shared());
        let least = shared.options.shape.sort_memory_bytes_min;
        if memory_bytes < least {
            return Err(Error::InvalidArgument(format!(
                "a sort needs {least} bytes of memory or more, not {memory_bytes}"
            )));
        }
        Ok(Self {
            buffer: Buffer::new(shared.options.shape.sort_chunk_bytes),
            place: Place { shared, _open: handle },
            memory_bytes,
            runs: Vec::new(),
            rows: 0,
            spilled_bytes: 0,
            failed: None,
        })
    }

    /// Adds `row`, which may be there already, with `payload`.
    ///
    /// `InvalidArgument` if either is over its limit, which the text names: it is not added, and
    /// the sort can go on. After any other error every call fails with it.
    pub fn add(&mut self, row: &[u8], payload: &[u8]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        check("row key", row.len(), ROW_BYTES_MAX)?;
        check("payload of a row", payload.len(), SORT_PAYLOAD_BYTES_MAX)?;
        if self.buffer.memory_with(row, payload) > self.memory_bytes
            && let Err(error) = self.spill()
        {
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.buffer.add(row, payload);
        self.rows += 1;
        Ok(())
    }

    /// Rows added so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Files written so far.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Bytes written to files so far.
    pub fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
    }

    /// Sorts what is in memory and writes it to a file, if there is anything.
    fn spill(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        Mark::SortSpilled.hit();
        self.buffer.sort();
        let mut writer = RunWriter::create(&self.place)?;
        for row in self.buffer.rows() {
            writer.add_encoded(row)?;
        }
        let run = writer.finish()?;
        self.spilled_bytes += run.bytes();
        self.runs.push(run);
        self.buffer.clear();
        Ok(())
    }

    /// The rows in order. If there are more files than can be merged at once, they are merged to
    /// fewer first.
    pub fn finish(mut self) -> Result<SortedRows> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let rows = self.rows;
        if self.runs.is_empty() {
            Mark::SortInMemory.hit();
            self.buffer.sort();
            let buffer = self.buffer;
            return Ok(SortedRows { rows, source: Source::Memory { buffer, next: 0 } });
        }
        self.spill()?;
        let Self { place, memory_bytes, mut runs, buffer, .. } = self;
        drop(buffer);
        let fan_in = FanIn { memory_bytes, runs: place.shared.options.shape.sort_fan_in_max };
        while fan_in.first_of(&runs, 0) < runs.len() {
            Mark::SortInPasses.hit();
            runs = merge_neighbours(&place, runs, &fan_in)?;
        }
        Ok(SortedRows { rows, source: Source::Files(Merge::open(runs)?) })
    }
}

impl std::fmt::Debug for RowSorter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows, runs, .. } = self;
        f.debug_struct("RowSorter").field("rows", rows).field("runs", &runs.len()).finish()
    }
}

fn check(what: &str, len: usize, max: usize) -> Result<()> {
    if len <= max {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("a {what} of {len} bytes is over the limit of {max} bytes")))
}

/// How many runs are merged at once: each has a frame in memory.
struct FanIn {
    memory_bytes: usize,
    runs: usize,
}

impl FanIn {
    /// How many of the first of `runs` are merged: as many as have room for their largest frames,
    /// and for `writers` more that is as large as those; 2 at least, if there are so many.
    fn first_of(&self, runs: &[RunFile], writers: usize) -> usize {
        let (mut bytes, mut largest) = (0usize, 0);
        let fits = runs.iter().take(self.runs.max(2)).take_while(|run| {
            bytes = bytes.saturating_add(run.frame_bytes());
            largest = largest.max(run.frame_bytes());
            bytes.saturating_add(writers * largest) <= self.memory_bytes
        });
        fits.count().max(2).min(runs.len())
    }
}

/// One pass: neighbours, as many as `fan_in` says, become one run.
fn merge_neighbours(place: &Place, mut runs: Vec<RunFile>, fan_in: &FanIn) -> Result<Vec<RunFile>> {
    let mut merged = Vec::new();
    while !runs.is_empty() {
        let rest = runs.split_off(fan_in.first_of(&runs, 1));
        let mut group = std::mem::replace(&mut runs, rest);
        if group.len() == 1 {
            merged.append(&mut group);
            continue;
        }
        let mut merge = Merge::open(group)?;
        let mut writer = RunWriter::create(place)?;
        while let Some((row, payload)) = merge.next()? {
            writer.add(row, payload)?;
        }
        merged.push(writer.finish()?);
    }
    Ok(merged)
}

/// Rows that were sorted. Dropped, it removes the files that they lie in.
pub struct SortedRows {
    rows: u64,
    source: Source,
}

enum Source {
    Memory { buffer: Buffer, next: usize },
    Files(Merge),
}

impl SortedRows {
    /// The next row and what belongs to it, lent until the next call; `None` after the last.
    /// After an error only dropping it makes sense.
    pub fn next_row(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        match &mut self.source {
            Source::Memory { buffer, next } => {
                *next += 1;
                Ok(buffer.row(*next - 1))
            }
            Source::Files(merge) => merge.next(),
        }
    }

    /// Number of rows, those already taken included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of memory that the files being merged take for their largest frames.
    #[cfg(test)]
    fn frame_bytes(&self) -> usize {
        match &self.source {
            Source::Memory { .. } => 0,
            Source::Files(merge) => merge.frame_bytes(),
        }
    }

    /// Files that are being merged; 0 if all rows are in memory.
    pub fn runs(&self) -> usize {
        match &self.source {
            Source::Memory { .. } => 0,
            Source::Files(merge) => merge.runs(),
        }
    }
}

impl std::fmt::Debug for SortedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedRows").field("rows", &self.rows).field("runs", &self.runs()).finish()
    }
}
