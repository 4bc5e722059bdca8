//! Scans of tables in the order of their keys, or of an index.

use super::entries::EntryCursor;
use super::projection::Projection;
use crate::Row;
use crate::catalog::Table;
use crate::error::{Error, Result};
use crate::format::key::{KeyCodec, after_prefix};
use crate::state::SqlState;
use crate::transaction::Entries;
use crate::types::{Oid, Value};
use engine::{Direction, RowRange, Snapshot};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Rows that an index scan fetches together.
const FETCH_ROWS: usize = 128;
/// Bytes after which a batch has no more rows.
const BATCH_BYTES: usize = 4 << 20;
/// Entries after which a scan looks if it was cancelled. Deleted ones are passed in steps of their own.
pub(super) const CANCEL_EVERY: u64 = 256;

/// Tells running reads to end. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<AtomicU8>);

/// Values of a flag: nothing, a request of the user, the end of the statement's time.
const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const EXPIRED: u8 = 2;

impl CancelFlag {
    /// Lets reads that have the flag end with 57014.
    pub fn cancel(&self) {
        self.0.store(CANCELLED, Ordering::Relaxed);
    }

    /// Lets reads that have the flag end with 57014, since the time of their statement is over.
    pub fn expire(&self) {
        self.0.store(EXPIRED, Ordering::Relaxed);
    }

    /// Returns true once it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) != RUNNING
    }

    /// Takes the cancellation back, for the next statement.
    pub fn reset(&self) {
        self.0.store(RUNNING, Ordering::Relaxed);
    }

    /// Fails with 57014 once it was cancelled.
    pub fn check(&self) -> Result<()> {
        let why = match self.0.load(Ordering::Relaxed) {
            RUNNING => return Ok(()),
            EXPIRED => "statement timeout",
            _ => "user request",
        };
        let message = format!("canceling statement due to {why}");
        Err(Error::new(SqlState::QUERY_CANCELED, message))
    }
}

/// A range of keys, by values of the first columns of the key. A bound that is a beginning of keys
/// stands for all of them: `Included([5])` below begins at the first key with 5, `Excluded([5])` behind
/// the last. The order is that of the key: in a descending column the larger value is the lower bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The beginning of the range in the order of the key.
    pub lower: Bound<Vec<Value>>,
    /// The end of the range in the order of the key.
    pub upper: Bound<Vec<Value>>,
}

impl KeyRange {
    /// The range of every key.
    pub const ALL: Self = Self { lower: Bound::Unbounded, upper: Bound::Unbounded };

    /// Returns the keys that begin with these values.
    pub fn prefix(values: Vec<Value>) -> Self {
        Self { lower: Bound::Included(values.clone()), upper: Bound::Included(values) }
    }

    pub(crate) fn rows(&self, codec: &KeyCodec) -> Result<RowRange> {
        let beginning = codec.prefix();
        let start = match &self.lower {
            Bound::Unbounded => Some(beginning.to_vec()),
            Bound::Included(values) => Some(codec.encode_bound(values)?),
            Bound::Excluded(values) => after_prefix(&codec.encode_bound(values)?),
        };
        let end = match &self.upper {
            Bound::Unbounded => after_prefix(&beginning),
            Bound::Included(values) => after_prefix(&codec.encode_bound(values)?),
            Bound::Excluded(values) => Some(codec.encode_bound(values)?),
        };
        Ok(match start {
            Some(start) => RowRange { start, end },
            None => RowRange { start: Vec::new(), end: Some(Vec::new()) },
        })
    }
}

/// The rows that a scan reads.
#[derive(Debug, Clone)]
pub struct ScanSpec {
    /// The table whose rows are wanted.
    pub table: Oid,
    /// The index whose order is wanted; none, or the primary key, for the order of the rows.
    pub index: Option<Oid>,
    /// Ranges of keys of the table or the index, disjoint and in ascending order. Without a range nothing
    /// is read.
    pub ranges: Vec<KeyRange>,
    /// Places of the wanted columns in a row, in the order of the result; none means all, and the row id.
    pub columns: Option<Vec<usize>>,
    /// The direction in which keys are walked.
    pub direction: Direction,
    /// The most rows to return.
    pub limit: Option<u64>,
    /// Ends the scan with 57014.
    pub cancel: CancelFlag,
    /// True if of a columnar table the rows are wanted that lie in no segment.
    pub delta_rows: bool,
}

impl ScanSpec {
    /// Returns the scan of all rows of a table.
    pub fn of(table: Oid) -> Self {
        Self {
            table,
            index: None,
            ranges: vec![KeyRange::ALL],
            columns: None,
            direction: Direction::Forward,
            limit: None,
            cancel: CancelFlag::default(),
            delta_rows: false,
        }
    }
}

/// Counts of a scan, for EXPLAIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanStatistics {
    /// Entries of the table or of the index that were met.
    pub entries: u64,
    /// Rows that an index scan fetched by their keys.
    pub fetched: u64,
    /// Rows that the scan returned.
    pub rows: u64,
}

/// A scan, read batch by batch. Its calls block.
pub struct RowScan {
    table: Arc<Table>,
    snapshot: Snapshot,
    own: Option<Arc<Entries>>,
    projection: Projection,
    direction: Direction,
    /// Place of the index among the indexes of the table; nothing for a scan of the rows.
    index: Option<usize>,
    /// Ranges to come, the next one last.
    ranges: Vec<RowRange>,
    cursor: Option<EntryCursor>,
    left: u64,
    cancel: CancelFlag,
    statistics: ScanStatistics,
}

impl RowScan {
    pub(super) fn new(
        table: Arc<Table>,
        snapshot: Snapshot,
        own: Option<Arc<Entries>>,
        spec: ScanSpec,
    ) -> Result<Self> {
        if table.is_columnar() && !spec.delta_rows {
            let text = format!("columnar table \"{}\" is read by queries only", table.name);
            return Err(Error::unsupported(text));
        }
        let is_primary = |oid: Oid| table.primary_key.as_ref().is_some_and(|key| key.oid == oid);
        let index = match spec.index {
            Some(oid) if !is_primary(oid) => {
                let at = table.indexes.iter().position(|index| index.oid == oid && index.ready);
                let missing = || Error::internal(format!("index {oid} cannot be read"));
                Some(at.ok_or_else(missing)?)
            }
            _ => None,
        };
        let codec = match index {
            Some(at) => &table.layout.indexes[at].codec,
            None => &table.layout.key,
        };
        let ranges: Result<Vec<_>> = spec.ranges.iter().map(|range| range.rows(codec)).collect();
        let mut ranges = ranges?;
        ranges.retain(|range| !range.is_empty());
        if spec.direction == Direction::Forward {
            ranges.reverse();
        }
        let projection = match &spec.columns {
            Some(places) => Projection::of(&table, places)?,
            None => Projection::all(&table),
        };
        Ok(Self {
            projection,
            snapshot,
            own,
            direction: spec.direction,
            index,
            ranges,
            cursor: None,
            left: spec.limit.unwrap_or(u64::MAX),
            cancel: spec.cancel,
            statistics: ScanStatistics::default(),
            table,
        })
    }

    /// Returns the next rows, `max_rows` at most, and fewer if they are large; an empty batch at the end.
    /// Blocks. 57014 once it is cancelled, XX001 if a row is damaged.
    pub fn next_batch(&mut self, max_rows: usize) -> Result<Vec<Row>> {
        self.cancel.check()?;
        let max_rows = max_rows.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let rows = match self.index {
            None => self.next_rows(max_rows)?,
            Some(at) => self.next_of_index(at, max_rows)?,
        };
        self.left -= rows.len() as u64;
        self.statistics.rows += rows.len() as u64;
        Ok(rows)
    }

    /// Returns the number of rows that are left, and ends the scan. Blocks.
    pub fn count(&mut self) -> Result<u64> {
        let mut count = 0;
        while count < self.left && self.next_entry(|_, _, _| Ok(()))?.is_some() {
            count += 1;
        }
        self.left = 0;
        Ok(count)
    }

    /// Returns what the scan has read up to now.
    pub fn statistics(&self) -> ScanStatistics {
        self.statistics
    }

    fn next_rows(&mut self, max_rows: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(max_rows.min(1024));
        let mut bytes = 0;
        while rows.len() < max_rows && bytes < BATCH_BYTES {
            let row = |this: &Self, key: &[u8], cell: &[u8]| {
                Ok((this.projection.row(&this.table, key, cell)?, key.len() + cell.len()))
            };
            let Some((row, len)) = self.next_entry(row)? else { break };
            bytes += len;
            rows.push(row);
        }
        Ok(rows)
    }

    /// Lends the next key and cell of the ranges.
    fn next_entry<R>(
        &mut self,
        use_entry: impl Fn(&Self, &[u8], &[u8]) -> Result<R>,
    ) -> Result<Option<R>> {
        loop {
            let mut cursor = match self.cursor.take() {
                Some(cursor) => cursor,
                None => {
                    let Some(rows) = self.ranges.pop() else { return Ok(None) };
                    let (table, own) = (&self.table.storage()?.keys, self.own.as_ref());
                    let cancel = self.cancel.clone();
                    EntryCursor::new(table, &self.snapshot, own, rows, self.direction, cancel)?
                }
            };
            if let Some(found) = cursor.next(|key, cell| use_entry(self, key, cell))? {
                self.cursor = Some(cursor);
                self.statistics.entries += 1;
                if self.statistics.entries.is_multiple_of(CANCEL_EVERY) {
                    self.cancel.check()?;
                }
                return Ok(Some(found));
            }
        }
    }

    fn next_of_index(&mut self, at: usize, max_rows: usize) -> Result<Vec<Row>> {
        let mut rows: Vec<Row> = Vec::with_capacity(max_rows.min(1024));
        let (mut bytes, mut counted) = (0, 0);
        while rows.len() < max_rows && bytes < BATCH_BYTES {
            let wanted = FETCH_ROWS.min(max_rows - rows.len());
            let mut keys = Vec::with_capacity(wanted);
            while keys.len() < wanted {
                let key = |this: &Self, key: &[u8], value: &[u8]| this.row_key(at, key, value);
                match self.next_entry(key)? {
                    Some(key) => keys.push(key),
                    None => break,
                }
            }
            if keys.is_empty() {
                break;
            }
            self.fetch(&keys, &mut rows)?;
            bytes += rows[counted..].iter().flatten().map(Value::memory_bytes).sum::<usize>();
            counted = rows.len();
        }
        Ok(rows)
    }

    /// Returns the key of the row that an index entry is of.
    fn row_key(&self, at: usize, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let mut row_key = self.table.layout.key.prefix().to_vec();
        match value.is_empty() {
            false => row_key.extend_from_slice(value),
            true => {
                let codec = &self.table.layout.indexes[at].codec;
                row_key.extend_from_slice(codec.decode_each(key, |_, _| ())?);
            }
        }
        Ok(row_key)
    }

    /// Fetches rows by their keys, in their order.
    fn fetch(&mut self, keys: &[Vec<u8>], rows: &mut Vec<Row>) -> Result<()> {
        let storage = Arc::clone(self.table.storage()?);
        let mut found: Vec<Option<Result<Row>>> = Vec::new();
        found.resize_with(keys.len(), || None);
        let mut wanted = Vec::with_capacity(keys.len());
        let mut places = Vec::with_capacity(keys.len());
        for (at, key) in keys.iter().enumerate() {
            match self.own.as_ref().and_then(|own| own.get(key.as_slice())) {
                Some(Some(cell)) => found[at] = Some(self.projection.row(&self.table, key, cell)),
                Some(None) => {}
                None => {
                    places.push(at);
                    wanted.push(key.as_slice());
                }
            }
        }
        storage.keys.get_many(&self.snapshot, &wanted, |at, cell| {
            let at = places[at];
            found[at] = cell.map(|cell| self.projection.row(&self.table, &keys[at], cell));
        })?;
        self.statistics.fetched += keys.len() as u64;
        for (row, key) in found.into_iter().zip(keys) {
            match row {
                Some(row) => rows.push(row?),
                None => {
                    let (name, key) = (&self.table.name, key.escape_ascii());
                    let text =
                        format!("an index of table {name} names row {key}, which is not there");
                    return Err(Error::new(SqlState::INDEX_CORRUPTED, text));
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for RowScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowScan").field("table", &self.table.name).finish_non_exhaustive()
    }
}

/// Returns the largest row id of a table without a primary key; 0 if it has no rows. Blocks.
pub(crate) fn last_row_id(table: &Table) -> Result<i64> {
    let rows = KeyRange::ALL.rows(&table.layout.key)?;
    let mut scan = table.storage()?.keys.scan(None, rows, Direction::Reverse)?;
    let Some(key) = scan.next_key()? else { return Ok(0) };
    match table.layout.key.decode(key)?.0.first() {
        Some(Value::Int8(id)) => Ok(*id),
        _ => Err(Error::corrupted(format!("table {} has a key that is no row id", table.name))),
    }
}
