//! Reads what verifies of a damaged SSTable, past the damage, and tells which rows are lost.
//!
//! 1. Entries come in their order, each from a block whose checksum holds. Where blocks are missing
//!    in between, the rows that may have been in them come first: from behind the last row before
//!    to the first row after, and the rows that went on over the gap.
//! 2. Data blocks are found by the index; where a partition of it, the top index or the footer
//!    cannot be read, by walking from block to block ([`super::scan`]).
//! 3. Nothing that is given was not in the file. What the file hid may be among it, if what hid it
//!    is lost: that is for the reader of the list of lost rows to know.
//! 4. Every gap is told, at the latest at the end. Blocks of a file of version 1 can be imitated by
//!    bytes within a block, and such a walk ends in a gap sooner or later: there it may be any row
//!    from where the walk began on that is missing, or is not one of the file's own.

use super::block::{BlockView, CellValue, DataMeta, LargeValue};
use super::damage::ensure;
use super::format::{BlockType, Footer, Handle};
use super::frames::Frames;
use super::index::{IndexMeta, IndexPartition};
use super::properties::Properties;
use super::ranges;
use super::scan::block_at;
use super::source::Source;
use super::top_index::TopIndex;
use crate::cell::{Entry, EntryKey, RangeTombstone, SequenceNumber};
use crate::error::{Error, Result};
use crate::file::FileNumber;
use crate::request::RowRange;
use base::env::fs::ReadFile;
use std::path::Path;
use std::sync::Arc;

/// Rows of which entries may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRows {
    /// Where the damage begins.
    pub(crate) offset: u64,
    /// What is wrong there.
    pub(crate) what: String,
    /// The rows.
    pub(crate) rows: RowRange,
}

/// What is known of a file from elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Its last row; `None` if it has no entries.
    pub(crate) last_row: Option<&'a Vec<u8>>,
    /// The smallest sequence number of its entries.
    pub(crate) sequence_min: SequenceNumber,
    /// The largest.
    pub(crate) sequence_max: SequenceNumber,
}

/// What comes next of a damaged file.
pub(crate) enum Piece<'a> {
    /// An entry of a row.
    Entry(&'a [u8], Entry<'a>),
    /// Rows of which something is missing.
    Lost(LostRows),
}

type Sink<'a> = &'a mut dyn FnMut(Piece<'_>) -> Result<()>;

/// A damaged SSTable, its parts read as far as they can be.
pub(crate) struct SstSalvage {
    source: Source,
    footer: Option<Footer>,
    properties: Option<Properties>,
    /// `None`: lost, or not found yet.
    range_tombstones: Option<Vec<RangeTombstone>>,
    top: Option<TopIndex>,
}

impl SstSalvage {
    /// The SSTable in `file`, whose name is `path`. `Error::Unusable` if it is of a newer format,
    /// `Error::Io` if not even its length is known.
    pub(crate) fn open(file: Arc<dyn ReadFile>, path: &Path, number: FileNumber) -> Result<Self> {
        let mut source = Source::new(file, path, number)?;
        let footer = damaged_is_none(source.read_footer())?;
        if footer.is_none()
            && let Some(identity) = damaged_is_none(source.read_header())?
        {
            source.frames = Frames::Of(identity);
        }
        let mut salvage =
            Self { source, footer, properties: None, range_tombstones: None, top: None };
        if let Some(footer) = footer {
            salvage.read_properties(footer.properties)?;
            match footer.range_tombstones {
                Some(handle) => salvage.read_ranges(handle)?,
                None => salvage.range_tombstones = Some(Vec::new()),
            }
            let (kind, decode) = (BlockType::TopIndex, TopIndex::decode);
            let top = salvage.source.read_checked(footer.top_index, kind, decode);
            salvage.top = damaged_is_none(top)?;
        }
        Ok(salvage)
    }

    /// What the file says of itself, if that is known: after `read` at the latest.
    pub(crate) fn properties(&self) -> Option<&Properties> {
        self.properties.as_ref()
    }

    /// Its range tombstones, after `read`; `None` if there were some that are lost, or may have
    /// been.
    pub(crate) fn range_tombstones(&self) -> Option<&[RangeTombstone]> {
        let none = self.properties.as_ref().is_some_and(|own| own.range_tombstones == 0);
        match &self.range_tombstones {
            None if none => Some(&[]),
            ranges => ranges.as_deref(),
        }
    }

    fn read_properties(&mut self, handle: Handle) -> Result<()> {
        let read = self.source.read_checked(handle, BlockType::Properties, Properties::decode);
        self.properties = damaged_is_none(read)?;
        Ok(())
    }

    fn read_ranges(&mut self, handle: Handle) -> Result<()> {
        let read = self.source.read_checked(handle, BlockType::RangeTombstones, ranges::decode);
        self.range_tombstones = damaged_is_none(read)?;
        Ok(())
    }

    /// Gives all that verifies to `sink`, in order. The errors are those of `sink`.
    pub(crate) fn read(&mut self, known: Option<Known<'_>>, sink: Sink<'_>) -> Result<()> {
        let numbering = match (self.footer, known) {
            (Some(Footer { ingested: false, .. }), _) => Numbering::Own,
            (Some(_), known) => {
                Numbering::Given(known.map_or(SequenceNumber(0), |known| known.sequence_max))
            }
            (None, Some(known)) if known.sequence_min > SequenceNumber(0) => {
                Numbering::GivenIfZero(known.sequence_max)
            }
            (None, _) => Numbering::Own,
        };
        let mut walk =
            Walk { source: &self.source, numbering, row: None, continues: false, gap: None, sink };
        let mut parts = Parts::default();
        match &self.top {
            Some(top) => walk.by_index(top, &mut parts)?,
            None => {
                walk.region(self.source.frames.blocks_start(), self.source.blocks_end, &mut parts)?;
            }
        }
        let properties = parts.properties.filter(|_| self.properties.is_none());
        let ranges = parts.ranges.filter(|_| self.range_tombstones.is_none());
        let own = match properties {
            None => self.properties.as_ref().map(|own| (own.entries > 0, own.last_row.clone())),
            Some(handle) => {
                let read =
                    walk.source.read_checked(handle, BlockType::Properties, Properties::decode);
                damaged_is_none(read)?.map(|own| (own.entries > 0, own.last_row))
            }
        };
        let end = match (known.map(|known| known.last_row), own) {
            (Some(Some(last)), _) => End::Row(last.clone()),
            (_, Some((true, last))) => End::Row(last),
            (Some(None), _) | (_, Some((false, _))) => End::Empty,
            (None, None) if parts.past_data => End::Empty,
            (None, None) => End::Unknown,
        };
        walk.finish(end)?;
        if let Some(handle) = properties {
            self.read_properties(handle)?;
        }
        ranges.map_or(Ok(()), |handle| self.read_ranges(handle))
    }
}

/// What was read; `None` if it is damaged or cannot be read.
fn damaged_is_none<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Corruption { .. } | Error::Io { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of damage; what is none is given back.
fn text(error: Error) -> Result<(u64, String)> {
    match error {
        Error::Corruption { offset, what, .. } => Ok((offset, what)),
        Error::Io { op, message, .. } => Ok((0, format!("cannot {op} it: {message}"))),
        other => Err(other),
    }
}

/// Which sequence numbers entries have.
#[derive(Debug, Clone, Copy)]
enum Numbering {
    /// Those in the file.
    Own,
    /// This one: the file was ingested.
    Given(SequenceNumber),
    /// This one where the file has none: it is not known whether it was ingested, and the manifest
    /// knows of no entry without a number.
    GivenIfZero(SequenceNumber),
}

/// What is known of the last row of a file.
enum End {
    /// There are no entries beyond those read.
    Empty,
    Row(Vec<u8>),
    Unknown,
}

/// What a walk found on its way.
#[derive(Default)]
struct Parts {
    /// Something that stands behind all data blocks was met.
    past_data: bool,
    properties: Option<Handle>,
    ranges: Option<Handle>,
}

struct Gap {
    offset: u64,
    what: String,
    start: Vec<u8>,
}

/// A walk over the data blocks.
struct Walk<'a, 's> {
    source: &'a Source,
    numbering: Numbering,
    /// The last row read, and whether it goes on.
    row: Option<Vec<u8>>,
    continues: bool,
    gap: Option<Gap>,
    sink: Sink<'s>,
}

impl Walk<'_, '_> {
    fn by_index(&mut self, top: &TopIndex, parts: &mut Parts) -> Result<()> {
        let partitions = top.partitions();
        let data_end = partitions.iter().flat_map(|p| p.filter.into_iter().chain([p.index]));
        let data_end = data_end.map(|handle| handle.offset).min().unwrap_or(0);
        let mut border = self.source.frames.blocks_start();
        for (at, partition) in partitions.iter().enumerate() {
            match self.blocks_of(partition.index)? {
                Ok(blocks) => {
                    for (row, handle) in blocks {
                        self.data(handle, Some(&row))?;
                        border = handle.end().unwrap_or(border);
                    }
                }
                Err((offset, what)) => {
                    let next = partitions[at + 1..].iter().find_map(|next| {
                        let blocks = self.blocks_of(next.index).ok()?.ok()?;
                        blocks.first().map(|(_, handle)| handle.offset)
                    });
                    let region_end = next.unwrap_or(data_end);
                    let read = self.region(border, region_end, parts)?;
                    border = region_end;
                    if !read {
                        self.lose(offset, what, None);
                    }
                }
            }
        }
        Ok(())
    }

    /// The data blocks of an index partition, each with its first row, or why they are not known.
    #[expect(clippy::type_complexity, reason = "a result in a result, used twice")]
    fn blocks_of(
        &self,
        index: Handle,
    ) -> Result<std::result::Result<Vec<(Vec<u8>, Handle)>, (u64, String)>> {
        let read = self.source.read_checked(index, BlockType::Index, |bytes| {
            let meta = IndexMeta::check(bytes)?;
            let index = IndexPartition::of(bytes, &meta);
            let block = |block| {
                let mut row = Vec::new();
                index.copy_row(block, &mut row);
                (row, index.handle(block))
            };
            Ok((0..index.blocks()).map(block).collect())
        });
        match read {
            Ok(blocks) => Ok(Ok(blocks)),
            Err(error) => text(error).map(Err),
        }
    }

    /// Walks from block to block; whether it came to `end` or past all data blocks.
    fn region(&mut self, start: u64, end: u64, parts: &mut Parts) -> Result<bool> {
        let mut at = start;
        let first = self.after_last();
        while at < end {
            let (kind, handle) = match block_at(self.source, at, end) {
                Ok(Some(found)) => found,
                Ok(None) if parts.past_data => return Ok(true),
                Ok(None) => {
                    self.lose_walk(at, "no block that verifies begins here".to_owned(), first);
                    return Ok(false);
                }
                Err(error) => {
                    let (_, what) = text(error)?;
                    self.lose_walk(at, what, first);
                    return Ok(false);
                }
            };
            match kind {
                BlockType::Data => self.data(handle, None)?,
                BlockType::LargeValue => {}
                BlockType::Filter | BlockType::Index | BlockType::TopIndex => {
                    parts.past_data = true;
                }
                BlockType::RangeTombstones => parts.ranges = Some(handle),
                BlockType::Properties => parts.properties = Some(handle),
            }
            at = handle.end().unwrap_or(end);
        }
        Ok(true)
    }

    /// Notes that something is missing here. `first` is the first row of it, if that is known.
    fn lose(&mut self, offset: u64, what: String, first: Option<&[u8]>) {
        if self.gap.is_some() {
            return;
        }
        let start = self.after_last().max(first.unwrap_or_default().to_vec());
        self.gap = Some(Gap { offset, what, start });
    }

    /// Notes that a walk from block to block, which began before the row `first`, ends here.
    fn lose_walk(&mut self, offset: u64, what: String, first: Vec<u8>) {
        self.lose(offset, what, None);
        let Some(gap) = self.gap.as_mut().filter(|_| self.source.frames == Frames::Unmarked) else {
            return;
        };
        if first < gap.start {
            gap.start = first;
            gap.what += "; up to here blocks were told by checksums, which in a file of version 1 a \
                         value can imitate";
        }
    }

    /// The first row that may come next.
    fn after_last(&self) -> Vec<u8> {
        match &self.row {
            Some(row) if self.continues => row.clone(),
            Some(row) => after(row),
            None => Vec::new(),
        }
    }

    /// Tells what was missing before `row`, which is next; `continued` says that it began before.
    fn resume(&mut self, offset: u64, row: &[u8], continued: bool) -> Result<()> {
        if self.gap.is_none() && self.continues != continued {
            let what = "the blocks of a row do not follow each other".to_owned();
            let start = if self.continues { self.row.clone() } else { None };
            self.gap = Some(Gap { offset, what, start: start.unwrap_or(row.to_vec()) });
        }
        let Some(Gap { offset, what, start }) = self.gap.take() else { return Ok(()) };
        let end = if continued { after(row) } else { row.to_vec() };
        // Rows out of order leave no room for it, and yet something is missing.
        let end = end.max(after(&start));
        (self.sink)(Piece::Lost(LostRows {
            offset,
            what,
            rows: RowRange { start, end: Some(end) },
        }))
    }

    /// Tells what was missing at the end.
    fn finish(&mut self, end: End) -> Result<()> {
        let complete = self.gap.is_none()
            && !self.continues
            && match &end {
                End::Empty => true,
                End::Row(last) => self.row.as_ref().is_some_and(|row| row >= last),
                End::Unknown => false,
            };
        if complete {
            return Ok(());
        }
        let gap_is_known = self.gap.is_some();
        self.lose(self.source.len, "the file ends early".to_owned(), None);
        let Some(Gap { offset, what, start }) = self.gap.take() else { return Ok(()) };
        let end = match end {
            // Rows behind the last one are none of the file's own.
            End::Row(last) => {
                Some(after(&last.max(self.row.take().unwrap_or_default()).max(start.clone())))
            }
            End::Empty if gap_is_known => None,
            End::Empty => Some(after(&start)),
            End::Unknown => None,
        };
        (self.sink)(Piece::Lost(LostRows { offset, what, rows: RowRange { start, end } }))
    }

    /// Reads a data block. `first` is its first row, if the index says so.
    fn data(&mut self, handle: Handle, first: Option<&[u8]>) -> Result<()> {
        let numbering = self.numbering;
        let read = self.source.read_checked(handle, BlockType::Data, |bytes| {
            let meta = DataMeta::check(bytes)?;
            let meta = match numbering {
                Numbering::Own => meta,
                Numbering::Given(sequence) => meta.with_sequence(sequence)?,
                Numbering::GivenIfZero(sequence) => meta.with_sequence(sequence).unwrap_or(meta),
            };
            Ok((bytes.to_vec(), meta))
        });
        match read {
            Ok((bytes, meta)) => self.rows(handle, BlockView::of(&bytes, &meta)),
            Err(error) => {
                let (offset, what) = text(error)?;
                self.lose(offset.max(handle.offset), what, first);
                Ok(())
            }
        }
    }

    fn rows(&mut self, handle: Handle, view: BlockView<'_>) -> Result<()> {
        let mut row = Vec::new();
        for at in 0..view.rows() {
            view.copy_row(at, &mut row);
            let continued = at == 0 && view.continued();
            let in_order = self.row.as_ref().is_none_or(|last| match continued {
                true => *last <= row,
                false => *last < row,
            });
            if !in_order {
                let what = "rows out of order".to_owned();
                let rows = RowRange::single(&row);
                (self.sink)(Piece::Lost(LostRows { offset: handle.offset, what, rows }))?;
                continue;
            }
            if at == 0 {
                self.resume(handle.offset, &row, continued)?;
                self.continues = false;
            }
            for cell in view.cells_of(at) {
                match view.value(cell) {
                    CellValue::Inline(value) => {
                        (self.sink)(Piece::Entry(&row, view.key(cell).with_value(value)))?;
                    }
                    CellValue::Large(large) => self.large(&row, view.key(cell), large)?,
                }
            }
            self.row = Some(row.clone());
        }
        self.continues = view.continues();
        Ok(())
    }

    fn large(&mut self, row: &[u8], key: EntryKey<'_>, large: LargeValue) -> Result<()> {
        let read = self.source.read_checked(large.handle, BlockType::LargeValue, |bytes| {
            ensure(bytes.len() == large.len as usize, 0, "a large value of another length")?;
            Ok(bytes.to_vec())
        });
        match read {
            Ok(value) => (self.sink)(Piece::Entry(row, key.with_value(&value))),
            Err(error) => {
                let (offset, what) = text(error)?;
                let (offset, rows) = (offset.max(large.handle.offset), RowRange::single(row));
                (self.sink)(Piece::Lost(LostRows { offset, what, rows }))
            }
        }
    }
}

/// The smallest row key after `row`.
fn after(row: &[u8]) -> Vec<u8> {
    let mut after = row.to_vec();
    after.push(0);
    after
}
