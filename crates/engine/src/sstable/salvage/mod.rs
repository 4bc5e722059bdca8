//! Reads what verifies of a damaged SSTable, past the damage, and tells which rows are lost.
//!
//! 1. Entries come in their order, each from a block whose checksum holds. Where blocks are missing
//!    in between, the rows that may have been in them come first: from behind the last row before
//!    to the first row after, and the rows that went on over the gap.
//! 2. Data blocks are found by the index; where a partition of it, the top index or the footer
//!    cannot be read, by walking from block to block ([`find_blocks`]).
//! 3. Nothing that is given was not in the file. What the file hid may be among it, if what hid it
//!    is lost: that is for the reader of the list of lost rows to know.
//! 4. Every gap is told, at the latest at the end.
//! 5. Blocks of a file of version 1 can be imitated by bytes within a block. A walk over the whole
//!    file is believed if it read as many entries, and the same last row, as the manifest says or
//!    the properties that it came to. Any other one, and a walk between partitions that meets what
//!    is no data block, ends in a gap: any row from where the walk began on may be missing, or be
//!    none of the file's own. What a walk that is not believed found behind the data blocks counts
//!    for nothing. What was made on purpose to agree is not noticed.
//! 6. A footer that leads to nothing that verifies is none, unless the header has its identity: a
//!    file may have been cut where an SSTable ends that a value holds. A header is none if the file
//!    begins with a value of version 1: no other block can begin like a header. Without either, the
//!    identity is that of the properties. Where header and footer have two identities, the footer's
//!    counts if the properties that it leads to are those that the manifest means.
//! 7. A file is held against its entry in the manifest, where there is one. If its properties are not
//!    those of the entry, nothing of it is taken; if only its rows show that it is another file,
//!    those are told as lost that it had and those that it should have had, and its range
//!    tombstones are not taken. What the entry leaves no room for, by row or
//!    sequence number, is never given.

mod block_walk;
pub(super) mod find_blocks;
mod known;

pub(crate) use known::Known;

use super::format::block_identity::Frames;
use super::format::properties::{Properties, identity_in};
use super::format::range_block;
use super::format::{BlockType, Footer, Handle, TRAILER_LEN};
use super::index::top_index::TopIndex;
use super::read::sst_file::Source;
use crate::batch::VALUE_BYTES_MAX;
use crate::cell::{Entry, RangeTombstone, SequenceNumber};
use crate::error::{Corruption, Error, Result};
use crate::files::{FileIdentity, FileNumber};
use crate::request::RowRange;
use base::env::fs::ReadFile;
use block_walk::{End, Numbering, Parts, Told, Walk};
use find_blocks::block_at;
use std::path::Path;
use std::sync::Arc;

/// Rows of which entries may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostRows {
    /// Start of the damage.
    pub(crate) offset: u64,
    /// Description of the damage.
    pub(crate) what: String,
    pub(crate) rows: RowRange,
}

/// What comes next of a damaged file.
pub(crate) enum Piece<'a> {
    /// An entry of a row.
    Entry(&'a [u8], Entry<'a>),
    /// Rows of which something is missing.
    Lost(LostRows),
}

type Sink<'a> = &'a mut dyn FnMut(Piece<'_>) -> Result<()>;

/// The length of the first block of a file at most: a value of any length.
const FIRST_BLOCK_BYTES_MAX: u64 = VALUE_BYTES_MAX as u64 + TRAILER_LEN as u64;

/// Bytes at the end of a file in which its properties end, footer and all.
const TAIL_BYTES: u64 = 4 << 10;

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
        let source = Source::new(file, path, number)?;
        let (properties, range_tombstones, top) = (None, None, None);
        let mut salvage = Self { source, footer: None, properties, range_tombstones, top };
        salvage.footer = damaged_is_none(salvage.source.read_footer())?;
        if let Some(footer) = salvage.footer {
            salvage.read_by_footer(footer)?;
        }
        if salvage.properties.is_none() && salvage.top.is_none() {
            salvage.look_at_the_start()?;
        }
        Ok(salvage)
    }

    /// Reads what the footer leads to.
    fn read_by_footer(&mut self, footer: Footer) -> Result<()> {
        self.read_properties(footer.properties)?;
        match footer.range_tombstones {
            Some(handle) => self.read_ranges(handle)?,
            None => self.range_tombstones = Some(Vec::new()),
        }
        let (kind, decode) = (BlockType::TopIndex, TopIndex::decode);
        self.top = damaged_is_none(self.source.read_checked(footer.top_index, kind, decode))?;
        Ok(())
    }

    /// Learns from the start of the file what its end does not tell. A footer counts from then on
    /// if the header has the same identity.
    fn look_at_the_start(&mut self) -> Result<()> {
        let footer = (self.source.frames, self.source.blocks_end);
        (self.source.frames, self.source.blocks_end) = (Frames::Unmarked, self.source.len);
        let end = self.source.len.min(FIRST_BLOCK_BYTES_MAX);
        let first = damaged_is_none(block_at(&self.source, 0, end))?.flatten();
        let found = match first {
            Some((BlockType::LargeValue, _)) => Some(Frames::Unmarked),
            first => match damaged_is_none(self.source.read_header())? {
                Some(identity) => Some(Frames::Of(identity)),
                None if first.is_some() => Some(Frames::Unmarked),
                None => self.identity_of_properties()?.map(Frames::Of),
            },
        };
        if found == Some(footer.0) && footer.0 != Frames::Unmarked {
            (self.source.frames, self.source.blocks_end) = footer;
        } else {
            (self.footer, self.range_tombstones) = (None, None);
            self.source.frames = found.unwrap_or(footer.0);
        }
        Ok(())
    }

    /// Takes the footer's word against the header's if the properties that it leads to are `known`.
    fn believe_footer(&mut self, known: &Known) -> Result<()> {
        let Some((start, footer)) = damaged_is_none(self.source.decode_footer())? else {
            return Ok(());
        };
        let before = (self.source.frames, self.source.blocks_end);
        (self.source.frames, self.source.blocks_end) = (footer.frames(), start);
        self.read_properties(footer.properties)?;
        if self.properties.as_ref().is_some_and(|own| known.is_of(own)) {
            self.footer = Some(footer);
            return self.read_by_footer(footer);
        }
        self.properties = None;
        (self.source.frames, self.source.blocks_end) = before;
        Ok(())
    }

    /// The identity that the properties seem to have, at the end of the file, if the first block has
    /// the checksum that it wants.
    fn identity_of_properties(&mut self) -> Result<Option<FileIdentity>> {
        let len = self.source.len;
        let tail_len = len.min(TAIL_BYTES);
        let mut tail = vec![0; tail_len as usize];
        let read = self.source.read_exact(&mut tail, len - tail_len);
        let Some(identity) = damaged_is_none(read)?.and_then(|()| identity_in(&tail)) else {
            return Ok(None);
        };
        self.source.frames = Frames::Of(identity);
        let start = self.source.frames.blocks_start();
        let end = len.min(start + FIRST_BLOCK_BYTES_MAX);
        let first = damaged_is_none(block_at(&self.source, start, end))?.flatten();
        Ok(first.map(|_| identity))
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
        let read =
            self.source.read_checked(handle, BlockType::RangeTombstones, range_block::decode);
        self.range_tombstones = damaged_is_none(read)?;
        Ok(())
    }

    /// Gives all that verifies to `sink`, in order. The errors are those of `sink`.
    /// `known` is what the manifest says of the file.
    pub(crate) fn read(&mut self, known: Option<&Known>, sink: Sink<'_>) -> Result<()> {
        if let (Some(known), None, None) = (known, &self.footer, &self.properties) {
            self.believe_footer(known)?;
        }
        if let (Some(known), Some(own)) = (known, &self.properties)
            && !known.is_of(own)
        {
            let rows = (own.entries > 0).then(|| span(&own.first_row, &own.last_row));
            return self.give_up(known, rows, sink);
        }
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
        let mut walk = Walk::new(&self.source, numbering, known, sink);
        let mut parts = Parts::default();
        let by_footer = self.properties.as_ref();
        match &self.top {
            Some(top) => walk.by_index(top)?,
            None => {
                let told = known.map(|known| Told {
                    entries: known.entries,
                    last_row: known.last_row().cloned(),
                });
                let own = |parts: &Parts| match by_footer {
                    Some(own) => Ok(Some(told_by(own))),
                    None => Ok(self.properties_at(parts.properties)?.as_ref().map(told_by)),
                };
                walk.whole(&mut parts, told, own)?;
            }
        }
        let found = match by_footer {
            Some(_) => None,
            None => self.properties_at(parts.properties)?,
        };
        let end = match (known.map(Known::last_row), by_footer.or(found.as_ref())) {
            (Some(Some(last)), _) => End::Row(last.clone()),
            (_, Some(own)) if own.entries > 0 => End::Row(own.last_row.clone()),
            (Some(None), _) | (None, Some(_)) => End::Empty,
            (None, None) if parts.past_data => End::Empty,
            (None, None) => End::Unknown,
        };
        walk.finish(end)?;
        let other = |known: &&Known| {
            found.as_ref().is_some_and(|own| !known.is_of(own)) || walk.contradicts(known)
        };
        if let Some(known) = known.filter(other) {
            let (rows, sink) = walk.into_rows();
            return self.give_up(known, rows, sink);
        }
        if found.is_some() {
            self.properties = found;
        }
        if let Some(handle) = parts.ranges.filter(|_| self.range_tombstones.is_none()) {
            self.read_ranges(handle)?;
        }
        let told = |ranges: &Vec<_>| {
            known.is_none_or(|known| known.range_tombstones == ranges.len() as u64)
        };
        self.range_tombstones = self.range_tombstones.take().filter(told);
        Ok(())
    }

    /// Tells that this is another file than the manifest means; it has the rows `own`.
    fn give_up(&mut self, known: &Known, own: Option<RowRange>, sink: Sink<'_>) -> Result<()> {
        (self.properties, self.range_tombstones) = (None, None);
        let told = [
            (Some(known.span.clone()), "this is not the file that the manifest names"),
            (own, "rows of a file that is not the one that the manifest names"),
        ];
        told.into_iter().filter_map(|(rows, what)| Some((rows?, what))).try_for_each(
            |(rows, what)| sink(Piece::Lost(LostRows { offset: 0, what: what.to_owned(), rows })),
        )
    }

    /// The properties that a walk came to, if they can be read.
    fn properties_at(&self, handle: Option<Handle>) -> Result<Option<Properties>> {
        let Some(handle) = handle else { return Ok(None) };
        damaged_is_none(self.source.read_checked(handle, BlockType::Properties, Properties::decode))
    }
}

/// The rows from `first` to `last`.
fn span(first: &[u8], last: &[u8]) -> RowRange {
    RowRange { start: first.to_vec(), ..RowRange::single(last) }
}

/// What the properties tell of the whole file.
fn told_by(own: &Properties) -> Told {
    let last_row = (own.entries > 0).then(|| own.last_row.clone());
    Told { entries: own.entries, last_row }
}

/// What was read; `None` if it is damaged or cannot be read.
fn damaged_is_none<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(Error::Corruption(_) | Error::Io { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of damage; what is none is given back.
fn text(error: Error) -> Result<(u64, String)> {
    match error {
        Error::Corruption(Corruption { offset, what, .. }) => Ok((offset, what)),
        Error::Io { op, source, .. } => Ok((0, format!("cannot {op} it: {source}"))),
        other => Err(other),
    }
}
