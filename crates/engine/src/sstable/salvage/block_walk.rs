//! The walk over the data blocks of a damaged SSTable.

use super::super::block::{BlockView, CellValue, DataMeta, LargeValue};
use super::super::format::block_identity::Frames;
use super::super::format::damage::ensure;
use super::super::format::{BlockType, Handle};
use super::super::index::top_index::TopIndex;
use super::super::index::{IndexMeta, IndexPartition};
use super::super::read::sst_file::Source;
use super::super::salvage::find_blocks::block_at;
use super::{Known, LostRows, Piece, Sink, span, text};
use crate::cell::{EntryKey, SequenceNumber};
use crate::error::Result;
use crate::request::RowRange;

/// Which sequence numbers entries have.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbering {
    /// Those in the file.
    Own,
    /// This one: the file was ingested.
    Given(SequenceNumber),
    /// This one where the file has none: it is not known whether it was ingested, and the manifest
    /// knows of no entry without a number.
    GivenIfZero(SequenceNumber),
}

/// What is known of the last row of a file.
pub(super) enum End {
    /// There are no entries beyond those read.
    Empty,
    Row(Vec<u8>),
    Unknown,
}

/// What a walk found on its way.
#[derive(Default)]
pub(super) struct Parts {
    /// Something that stands behind all data blocks was met.
    pub(super) past_data: bool,
    pub(super) properties: Option<Handle>,
    pub(super) ranges: Option<Handle>,
}

/// What is told of a whole file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) entries: u64,
    /// Its last row; `None` without entries.
    pub(super) last_row: Option<Vec<u8>>,
}

/// Where a walk from block to block ended early, and why.
pub(super) struct Stop {
    offset: u64,
    what: String,
}

struct Gap {
    offset: u64,
    what: String,
    start: Vec<u8>,
}

/// A walk over the data blocks.
pub(super) struct Walk<'a, 's> {
    source: &'a Source,
    numbering: Numbering,
    known: Option<&'a Known>,
    /// The first row read.
    first_row: Option<Vec<u8>>,
    /// The last row read, and whether it goes on.
    row: Option<Vec<u8>>,
    continues: bool,
    /// Entries of the rows read, those whose values are lost included.
    entries: u64,
    /// Smallest and largest sequence number of those.
    sequences: Option<(SequenceNumber, SequenceNumber)>,
    /// Something was told as lost.
    has_lost: bool,
    /// The index led to every block.
    is_whole: bool,
    /// No row from here on may come next, other than this one itself.
    row_max: Option<Vec<u8>>,
    gap: Option<Gap>,
    sink: Sink<'s>,
}

impl<'a, 's> Walk<'a, 's> {
    /// A walk over `source`, of which the manifest says `known`, that gives what it reads to `sink`.
    pub(super) fn new(
        source: &'a Source,
        numbering: Numbering,
        known: Option<&'a Known>,
        sink: Sink<'s>,
    ) -> Self {
        Self {
            source,
            numbering,
            known,
            first_row: None,
            row: None,
            continues: false,
            entries: 0,
            sequences: None,
            has_lost: false,
            is_whole: false,
            row_max: None,
            gap: None,
            sink,
        }
    }

    /// Reads all partitions; where one's index is lost, from block to block up to the next one.
    pub(super) fn by_index(&mut self, top: &TopIndex) -> Result<()> {
        let partitions = top.partitions();
        let data_end = partitions.iter().flat_map(|p| p.filter.into_iter().chain([p.index]));
        let data_end = data_end.map(|handle| handle.offset).min().unwrap_or(0);
        let mut border = self.source.frames.blocks_start();
        let mut left = partitions;
        while let Some((partition, behind)) = left.split_first() {
            left = behind;
            self.row_max = behind.first().map(|next| next.row.clone());
            match self.blocks_of(partition.index)? {
                Ok(blocks) => {
                    for (row, handle) in blocks {
                        self.data(handle, Some(&row))?;
                        border = handle.end().unwrap_or(border);
                    }
                }
                Err(_) => {
                    // The partitions before it are lost as well: this walk is theirs.
                    let next = behind.iter().enumerate().find_map(|(lost, next)| {
                        let blocks = self.blocks_of(next.index).ok()?.ok()?;
                        Some((lost, (next.row.clone(), blocks.first()?.1.offset)))
                    });
                    let (lost, next) = next.unzip();
                    left = &behind[lost.unwrap_or(behind.len())..];
                    let (row_max, region_end) = next.unzip();
                    self.row_max = row_max;
                    let region_end = region_end.unwrap_or(data_end);
                    let first = self.after_last();
                    if let Some(stop) = self.region(border, region_end, None)? {
                        self.lose_walk(stop, first);
                    }
                    border = region_end;
                }
            }
        }
        self.is_whole = !self.has_lost && self.gap.is_none();
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

    /// Reads the whole file from block to block. `own` gives what the properties say of entries and
    /// last row, if they can be read, and `known` is what the manifest says.
    pub(super) fn whole(
        &mut self,
        parts: &mut Parts,
        known: Option<Told>,
        own: impl FnOnce(&Parts) -> Result<Option<Told>>,
    ) -> Result<()> {
        let (start, end) = (self.source.frames.blocks_start(), self.source.blocks_end);
        let stop = self.region(start, end, Some(&mut *parts))?;
        let unmarked = self.source.frames == Frames::Unmarked;
        let told = match known {
            None => own(parts)?,
            known => known,
        };
        let read = Told { entries: self.entries, last_row: self.row.clone() };
        if told == Some(read) && self.gap.is_none() || !unmarked && parts.past_data {
            return Ok(());
        }
        if unmarked {
            *parts = Parts::default();
        }
        let what = "the file ends early".to_owned();
        match stop {
            None if !unmarked => {}
            stop => self.lose_walk(stop.unwrap_or(Stop { offset: end, what }), Vec::new()),
        }
        Ok(())
    }

    /// Walks from block to block. Where it does not come to `end`, why. Only the walk of a whole
    /// file has `parts`: between data blocks that an index leads to there are none.
    fn region(
        &mut self,
        start: u64,
        end: u64,
        mut parts: Option<&mut Parts>,
    ) -> Result<Option<Stop>> {
        let mut at = start;
        while at < end {
            let stop = |what| Ok(Some(Stop { offset: at, what }));
            let (kind, handle) = match block_at(self.source, at, end) {
                Ok(Some(found)) => found,
                Ok(None) => return stop("no block that verifies begins here".to_owned()),
                Err(error) => return stop(text(error)?.1),
            };
            match (kind, parts.as_deref_mut()) {
                (BlockType::Data | BlockType::LargeValue, Some(Parts { past_data: true, .. })) => {
                    return stop("a data block behind those that follow data blocks".to_owned());
                }
                (BlockType::Data, _) => self.data(handle, None)?,
                (BlockType::LargeValue, _) => {}
                (_, None) => return stop(format!("a {kind:?} block among data blocks")),
                (BlockType::RangeTombstones, Some(parts)) => parts.ranges = Some(handle),
                (BlockType::Properties, Some(parts)) => parts.properties = Some(handle),
                (_, Some(parts)) => parts.past_data = true,
            }
            at = handle.end().unwrap_or(end);
        }
        Ok(None)
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
    fn lose_walk(&mut self, Stop { offset, what }: Stop, first: Vec<u8>) {
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
        self.tell(LostRows { offset, what, rows: RowRange { start, end: Some(end) } })
    }

    /// Tells what was missing at the end.
    pub(super) fn finish(&mut self, end: End) -> Result<()> {
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
                Some(after(&last.max(self.row.clone().unwrap_or_default()).max(start.clone())))
            }
            End::Empty if gap_is_known => None,
            End::Empty => Some(after(&start)),
            End::Unknown => None,
        };
        self.tell(LostRows { offset, what, rows: RowRange { start, end } })
    }

    fn tell(&mut self, lost: LostRows) -> Result<()> {
        self.has_lost = true;
        (self.sink)(Piece::Lost(lost))
    }

    /// Returns whether what was read shows that this is another file than `known` is.
    pub(super) fn contradicts(&self, known: &Known) -> bool {
        let all = self.entries == known.entries
            && self.row.as_ref() == known.last_row()
            && self.first_row.as_ref().is_none_or(|row| *row == known.first_row);
        let (min, max) = self.sequences.unwrap_or((known.sequence_min, known.sequence_max));
        let mut ends = self.first_row.iter().zip([min]).chain(self.row.iter().zip([max]));
        let fits = ends.all(|(row, sequence)| known.has_room_for(row, sequence));
        !fits || self.entries > known.entries || (self.is_whole || !self.has_lost) && !all
    }

    /// The rows from the first to the last that was read, and where they were given to.
    pub(super) fn into_rows(self) -> (Option<RowRange>, Sink<'s>) {
        let rows = self.first_row.zip(self.row).map(|(first, last)| span(&first, &last));
        (rows, self.sink)
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
            let in_order = in_order && self.row_max.as_ref().is_none_or(|max| row <= *max);
            if !in_order {
                let what = "rows out of order".to_owned();
                let rows = RowRange::single(&row);
                self.tell(LostRows { offset: handle.offset, what, rows })?;
                continue;
            }
            if at == 0 {
                self.resume(handle.offset, &row, continued)?;
                self.continues = false;
            }
            for cell in view.cells_of(at) {
                let sequence = view.key(cell).sequence;
                self.count(sequence);
                if self.known.is_some_and(|known| !known.has_room_for(&row, sequence)) {
                    continue;
                }
                match view.value(cell) {
                    CellValue::Inline(value) => {
                        (self.sink)(Piece::Entry(&row, view.key(cell).with_value(value)))?;
                    }
                    CellValue::Large(large) => self.large(&row, view.key(cell), large)?,
                }
            }
            self.first_row.get_or_insert_with(|| row.clone());
            self.row = Some(row.clone());
        }
        self.continues = view.continues();
        Ok(())
    }

    /// Notes an entry that was read.
    fn count(&mut self, sequence: SequenceNumber) {
        self.entries += 1;
        let (min, max) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((min.min(sequence), max.max(sequence)));
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
                self.tell(LostRows { offset, what, rows })
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
