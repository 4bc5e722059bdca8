//! Write batches: mutations that take effect together, and their encoding in the log.
//!
//! Mutations of a batch take consecutive sequence numbers in their own order: a put after a
//! delete in one batch survives it, a put before it does not. The encoding is specified in
//! docs/format/commit_log.md.

use crate::cell::{
    Column, Entry, FamilyId, Kind, RangeTombstone, Scope, SequenceNumber, Timestamp,
};
use crate::merge_operator::AnyOperand;
use base::codec::{ByteReader, DecodeError, PutBytes};
use std::ops::Range;
use std::sync::Arc;

/// Longest row key, in bytes.
pub const ROW_BYTES_MAX: usize = 64 << 10;
/// Longest qualifier, in bytes.
pub const QUALIFIER_BYTES_MAX: usize = 64 << 10;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 20;
/// Largest encoded batch, in bytes.
pub const BATCH_BYTES_MAX: usize = 512 << 20;

/// A half-open range of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimestampRange {
    /// Oldest timestamp in the range.
    pub start: Timestamp,
    /// Newer than every timestamp in the range; `None` has no upper end.
    pub end: Option<Timestamp>,
}

impl TimestampRange {
    /// Every timestamp.
    pub const ALL: Self = Self { start: Timestamp::MIN, end: None };

    /// Returns whether the range has no timestamp at all.
    pub fn is_empty(&self) -> bool {
        self.end.is_some_and(|end| end <= self.start)
    }

    /// Returns whether `timestamp` lies in the range.
    pub fn contains(&self, timestamp: Timestamp) -> bool {
        self.start <= timestamp && self.end.is_none_or(|end| timestamp < end)
    }

    /// The newest timestamp in a range that is not empty.
    fn newest(&self) -> Timestamp {
        self.end.map_or(Timestamp::MAX, |end| Timestamp(end.0 - 1))
    }
}

/// Mutations of one tree that commit together. Limits are checked by `Tree::write`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The encoding; nothing at all while there are no mutations.
    bytes: Vec<u8>,
    count: u32,
    /// Where timestamps stand that are set when the batch gets its place in the order of commits.
    open_times: Vec<usize>,
}

/// A batch within all limits that does not change any more: one encoding that the log writes and
/// the memtable keeps. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenBatch {
    encoding: Arc<[u8]>,
}

/// Length of what precedes the mutations in the encoding: their count.
const COUNT_LEN: usize = 4;

/// Tags of the encoding, frozen; an entry's tag is its kind. 0 stays invalid.
const TAG_RANGE_TOMBSTONE: u8 = 4;

/// One mutation of a batch, as it will be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation<'a> {
    /// An entry of a row.
    Entry {
        /// The row.
        row: &'a [u8],
        /// The entry, with the sequence number the batch gave it.
        entry: Entry<'a>,
    },
    /// A dropped range of rows.
    DropRange(RangeTombstone),
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with memory for an encoding of `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Number of mutations.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether there are no mutations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length of the encoding in bytes.
    pub fn encoded_len(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all mutations, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
        self.open_times.clear();
    }

    /// Writes a cell, replacing one of the same row, column and timestamp.
    pub fn put(&mut self, row: &[u8], column: Column<'_>, timestamp: Timestamp, value: &[u8]) {
        assert_eq!(column.scope, Scope::Column, "a cell lies in a column");
        let _ = self.push_entry(row, column, timestamp, Kind::Put, value);
    }

    /// Merges `operand` into the cell of that row, column and timestamp.
    pub fn merge(
        &mut self,
        row: &[u8],
        column: Column<'_>,
        timestamp: Timestamp,
        operand: impl Into<AnyOperand>,
    ) {
        assert_eq!(column.scope, Scope::Column, "a cell lies in a column");
        let _ = self.push_entry(row, column, timestamp, Kind::Merge, &operand.into().encode());
    }

    /// [`Self::put`] with a timestamp that is set later: see [`crate::Tree::write_timed`].
    pub fn put_timed(&mut self, row: &[u8], column: Column<'_>, value: &[u8]) {
        assert_eq!(column.scope, Scope::Column, "a cell lies in a column");
        let at = self.push_entry(row, column, Timestamp(0), Kind::Put, value);
        self.open_times.push(at);
    }

    /// [`Self::merge`] with a timestamp that is set later: see [`crate::Tree::write_timed`].
    pub fn merge_timed(&mut self, row: &[u8], column: Column<'_>, operand: impl Into<AnyOperand>) {
        assert_eq!(column.scope, Scope::Column, "a cell lies in a column");
        let at = self.push_entry(row, column, Timestamp(0), Kind::Merge, &operand.into().encode());
        self.open_times.push(at);
    }

    /// Number of mutations so far whose timestamp is set later.
    pub fn open_times(&self) -> usize {
        self.open_times.len()
    }

    /// Deletes what `column` names (a column, a family or the row) in a range of timestamps: all
    /// cells written before, and earlier in this batch, not those written later. An empty range
    /// deletes nothing.
    pub fn delete(&mut self, row: &[u8], column: Column<'_>, range: TimestampRange) {
        if !range.is_empty() {
            let oldest = range.start.0.to_le_bytes();
            let _ = self.push_entry(row, column, range.newest(), Kind::Tombstone, &oldest);
        }
    }

    /// Deletes one column of a row.
    pub fn delete_column(&mut self, row: &[u8], family: FamilyId, qualifier: &[u8]) {
        self.delete(row, Column::of(family, qualifier), TimestampRange::ALL);
    }

    /// Deletes one family of a row.
    pub fn delete_family(&mut self, row: &[u8], family: FamilyId) {
        self.delete(row, Column::family(family), TimestampRange::ALL);
    }

    /// Deletes a row.
    pub fn delete_row(&mut self, row: &[u8]) {
        self.delete(row, Column::ROW, TimestampRange::ALL);
    }

    /// Drops all rows in `[start, end)`; `None` reaches to the end. An empty range drops nothing.
    pub fn drop_row_range(&mut self, start: &[u8], end: Option<&[u8]>) {
        if end.is_some_and(|end| end <= start) {
            return;
        }
        self.begin_mutation(TAG_RANGE_TOMBSTONE);
        self.bytes.put_string(start);
        self.bytes.push(u8::from(end.is_some()));
        self.bytes.put_string(end.unwrap_or_default());
    }

    /// Counts one mutation more and begins its encoding.
    fn begin_mutation(&mut self, tag: u8) {
        if self.bytes.is_empty() {
            self.bytes.put_u32(0);
        }
        self.count += 1;
        self.bytes[..COUNT_LEN].copy_from_slice(&self.count.to_le_bytes());
        self.bytes.push(tag);
    }

    /// Positions in the encoding of timestamps that are set later.
    pub(crate) fn open_positions(&self) -> &[usize] {
        &self.open_times
    }

    /// Adds an entry; returns where in the encoding its timestamp stands.
    fn push_entry(
        &mut self,
        row: &[u8],
        column: Column<'_>,
        timestamp: Timestamp,
        kind: Kind,
        value: &[u8],
    ) -> usize {
        self.begin_mutation(kind as u8);
        self.bytes.put_string(row);
        self.bytes.put_u16(column.family.0);
        self.bytes.push(column.scope as u8);
        self.bytes.put_string(column.qualifier);
        let at = self.bytes.len();
        self.bytes.put_i64(timestamp.0);
        self.bytes.put_string(value);
        at
    }

    /// The encoding: `count` u32, then the mutations.
    pub fn encode(&self) -> Vec<u8> {
        if self.bytes.is_empty() { vec![0; COUNT_LEN] } else { self.bytes.clone() }
    }

    /// The mutations in order, numbered from `first`.
    pub fn mutations(&self, first: SequenceNumber) -> Mutations<'_> {
        let bytes = self.bytes.get(COUNT_LEN..).unwrap_or_default();
        Mutations { reader: ByteReader::new(bytes), next: first }
    }

    /// A copy of the batch that does not change any more. Every limit is checked, and the merge
    /// operands.
    pub fn freeze(&self) -> Result<FrozenBatch, BatchError> {
        if self.bytes.len() > BATCH_BYTES_MAX {
            return Err(BatchError::Limit("batch", self.bytes.len(), BATCH_BYTES_MAX));
        }
        let frozen = match self.bytes.is_empty() {
            true => FrozenBatch { encoding: [0; COUNT_LEN].into() },
            false => FrozenBatch { encoding: self.bytes[..].into() },
        };
        frozen.check()?;
        Ok(frozen)
    }

    /// The batch as a task writes it. Checks what [`Self::freeze`] checks.
    pub fn ready(self) -> Result<ReadyBatch, BatchError> {
        Ok(ReadyBatch { frozen: self.freeze()?, open: self.open_times })
    }
}

/// A batch for [`crate::Tree::write_in_task`] or [`crate::Engine::apply`]: within all limits, and
/// unchangeable but for the times that are set when it gets its place in the order of commits. Cheap to
/// clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyBatch {
    pub(crate) frozen: FrozenBatch,
    /// Positions of open timestamps in its encoding.
    pub(crate) open: Vec<usize>,
}

impl ReadyBatch {
    /// Number of mutations whose timestamp is set later.
    pub fn open_times(&self) -> usize {
        self.open.len()
    }

    /// Length of the encoding in bytes.
    pub fn encoded_len(&self) -> usize {
        self.frozen.encoding().len()
    }

    /// Returns whether there are no mutations.
    pub fn is_empty(&self) -> bool {
        self.frozen.is_empty()
    }

    /// Sets the open times by `set`, for a batch that another log than the engine's holds. Returns the
    /// newest time that `set` told, 0 or more, with its result.
    pub fn set_times<H>(&mut self, set: impl FnOnce(&mut OpenTimes<'_>) -> H) -> (u64, H) {
        let mut times = OpenTimes::of(&self.open, &mut self.frozen);
        let held = set(&mut times);
        let newest = times.newest();
        self.open.clear();
        (newest, held)
    }

    /// The encoding of docs/format/commit_log.md: `count` u32, then the mutations.
    ///
    /// # Panics
    /// If a time is still open.
    pub fn encoding(&self) -> &[u8] {
        assert!(self.open.is_empty(), "timestamps of the batch are not set");
        self.frozen.encoding()
    }

    /// The batch encoded in `bytes`, every mutation checked. Allocates no more than `bytes` is long.
    pub fn decode(bytes: &[u8]) -> Result<Self, BatchError> {
        if bytes.len() > BATCH_BYTES_MAX {
            return Err(BatchError::Limit("batch", bytes.len(), BATCH_BYTES_MAX));
        }
        Ok(Self { frozen: FrozenBatch::decode(bytes)?, open: Vec::new() })
    }
}

/// The timestamps of a batch that its writer left open, in the order of its mutations.
#[derive(Debug)]
pub struct OpenTimes<'a> {
    encoding: &'a mut [u8],
    positions: &'a [usize],
    newest: Timestamp,
}

impl<'a> OpenTimes<'a> {
    /// The timestamps that a batch left open at `positions`, in `frozen`, which was made of it and is not
    /// shared yet.
    pub(crate) fn of(positions: &'a [usize], frozen: &'a mut FrozenBatch) -> Self {
        let encoding = Arc::make_mut(&mut frozen.encoding);
        Self { encoding, positions, newest: Timestamp(0) }
    }

    /// Sets those numbered `which`, counted from 0 in the order of their mutations.
    pub fn set(&mut self, which: Range<usize>, time: Timestamp) {
        for at in &self.positions[which] {
            self.encoding[*at..*at + size_of::<i64>()].copy_from_slice(&time.0.to_le_bytes());
        }
        self.note(time);
    }

    /// Tells that the batch carries `time`, though it was not left open.
    pub fn note(&mut self, time: Timestamp) {
        self.newest = self.newest.max(time);
    }

    /// The newest of the times told so far, 0 or more.
    pub(crate) fn newest(&self) -> u64 {
        u64::try_from(self.newest.0).unwrap_or(0)
    }
}

impl FrozenBatch {
    /// The batch encoded in `bytes`, every mutation checked. Allocates no more than `bytes` is
    /// long.
    pub fn decode(bytes: &[u8]) -> Result<Self, BatchError> {
        ByteReader::new(bytes).u32("mutation count")?;
        let batch = Self { encoding: bytes.into() };
        batch.check()?;
        Ok(batch)
    }

    fn check(&self) -> Result<(), BatchError> {
        let mut mutations = self.mutations(SequenceNumber(0));
        let mut seen = 0;
        while let Some(mutation) = mutations.next_checked()? {
            check_limits(&mutation)?;
            seen += 1;
        }
        let said = self.count();
        if seen == said { Ok(()) } else { Err(BatchError::Count { said, seen }) }
    }

    /// The encoding: `count` u32, then the mutations.
    pub fn encoding(&self) -> &[u8] {
        &self.encoding
    }

    fn count(&self) -> u32 {
        let count = self.encoding.first_chunk().expect("an encoding begins with a count");
        u32::from_le_bytes(*count)
    }

    /// Number of mutations.
    pub fn len(&self) -> usize {
        self.count() as usize
    }

    /// Returns whether there are no mutations.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The mutations in order, numbered from `first`.
    pub fn mutations(&self, first: SequenceNumber) -> Mutations<'_> {
        Mutations { reader: ByteReader::new(&self.encoding[COUNT_LEN..]), next: first }
    }

    /// Where in the encoding `part` lies, which was borrowed from it.
    pub(crate) fn offset_of(&self, part: &[u8]) -> u32 {
        let offset = part.as_ptr().addr() - self.encoding.as_ptr().addr();
        debug_assert!(offset + part.len() <= self.encoding.len());
        offset as u32
    }
}

fn check_limits(mutation: &Mutation<'_>) -> Result<(), BatchError> {
    let limit = |what, len: usize, max: usize| {
        if len > max { Err(BatchError::Limit(what, len, max)) } else { Ok(()) }
    };
    match mutation {
        Mutation::Entry { row, entry } => {
            limit("row key", row.len(), ROW_BYTES_MAX)?;
            limit("qualifier", entry.column.qualifier.len(), QUALIFIER_BYTES_MAX)?;
            limit("value", entry.value.len(), VALUE_BYTES_MAX)
        }
        Mutation::DropRange(range) => {
            limit("row key", range.start.len(), ROW_BYTES_MAX)?;
            limit("row key", range.end.as_ref().map_or(0, Vec::len), ROW_BYTES_MAX)
        }
    }
}

/// Body of the fuzz target for batches: any bytes are refused without a panic, or encode to
/// themselves. The target is in `/fuzz`.
pub fn fuzz(data: &[u8]) {
    if let Ok(batch) = FrozenBatch::decode(data) {
        assert_eq!(batch.encoding(), data);
        assert_eq!(batch.mutations(SequenceNumber(1)).count(), batch.len());
    }
}

/// What is wrong with a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes end early or are malformed.
    Decode(DecodeError),
    /// A tag, scope or flag byte that names nothing.
    Byte(&'static str, u8),
    /// An item of a value that its kind does not allow.
    Value(&'static str),
    /// The mutation count and the mutations disagree.
    Count {
        /// The count written.
        said: u32,
        /// The mutations found.
        seen: u32,
    },
    /// Something is longer than its limit: name, length, limit.
    Limit(&'static str, usize, usize),
}

impl std::fmt::Display for BatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Decode(error) => write!(f, "write batch: {error}"),
            Self::Byte(what, byte) => write!(f, "write batch: {byte} is no {what}"),
            Self::Value(what) => write!(f, "write batch: {what}"),
            Self::Count { said, seen } => {
                write!(f, "write batch: {said} mutations announced, {seen} found")
            }
            Self::Limit(what, len, max) => {
                write!(f, "{what} of {len} bytes is over the limit of {max} bytes")
            }
        }
    }
}

impl std::error::Error for BatchError {}

impl From<DecodeError> for BatchError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// Walks the mutations of a batch that was checked when it was built or decoded.
#[derive(Debug)]
pub struct Mutations<'a> {
    reader: ByteReader<'a>,
    next: SequenceNumber,
}

impl<'a> Mutations<'a> {
    fn next_checked(&mut self) -> Result<Option<Mutation<'a>>, BatchError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let tag = self.reader.u8("tag")?;
        let sequence = self.next;
        self.next.0 += 1;
        if tag == TAG_RANGE_TOMBSTONE {
            return self.range_tombstone(sequence).map(Some);
        }
        let kind = Kind::from_byte(tag).ok_or(BatchError::Byte("mutation", tag))?;
        self.entry(kind, sequence).map(Some)
    }

    fn entry(&mut self, kind: Kind, sequence: SequenceNumber) -> Result<Mutation<'a>, BatchError> {
        let row = self.reader.string("row key")?;
        let family = FamilyId(self.reader.u16("family")?);
        let scope = self.reader.u8("scope")?;
        let scope = Scope::from_byte(scope).ok_or(BatchError::Byte("scope", scope))?;
        let qualifier = self.reader.string("qualifier")?;
        let timestamp = Timestamp(self.reader.i64("timestamp")?);
        let value = self.reader.string("value")?;
        let column = Column { family, scope, qualifier };
        let entry = Entry { column, timestamp, sequence, kind, value };
        check_entry(&entry)?;
        Ok(Mutation::Entry { row, entry })
    }

    fn range_tombstone(&mut self, sequence: SequenceNumber) -> Result<Mutation<'a>, BatchError> {
        let start = self.reader.string("range start")?.to_vec();
        let bounded = match self.reader.u8("range flag")? {
            0 => false,
            1 => true,
            other => return Err(BatchError::Byte("range flag", other)),
        };
        let end = self.reader.string("range end")?;
        if !bounded && !end.is_empty() || bounded && end <= &start[..] {
            return Err(BatchError::Value("a dropped range that is empty or malformed"));
        }
        Ok(Mutation::DropRange(RangeTombstone {
            start,
            end: bounded.then(|| end.to_vec()),
            sequence,
        }))
    }
}

/// What every entry must keep to, wherever it is decoded from.
pub fn check_entry(entry: &Entry<'_>) -> Result<(), BatchError> {
    let column = &entry.column;
    if (column.scope == Scope::Row) != (column.family == FamilyId::ROW) {
        return Err(BatchError::Value("family 0 and the row scope go together"));
    }
    if column.scope != Scope::Column && !column.qualifier.is_empty() {
        return Err(BatchError::Value("only columns have a qualifier"));
    }
    match entry.kind {
        Kind::Put | Kind::Merge if column.scope != Scope::Column => {
            Err(BatchError::Value("a cell outside a column"))
        }
        Kind::Merge if AnyOperand::decode(entry.value).is_none() => {
            Err(BatchError::Value("a merge operand that is none"))
        }
        Kind::Tombstone if entry.tombstone_oldest().is_none_or(|t| t > entry.timestamp) => {
            Err(BatchError::Value("a tombstone whose time range is empty or malformed"))
        }
        _ => Ok(()),
    }
}

impl<'a> Iterator for Mutations<'a> {
    type Item = Mutation<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_checked().expect("the batch was checked when it was built or decoded")
    }
}
