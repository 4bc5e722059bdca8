//! Rows of a statement, and what describes them.

use super::select::Scan;
use crate::query;
use relational::{DataType, Error, Oid, Result, Row, SqlState, Value};
use std::sync::Arc;
use std::vec::IntoIter;
use tokio::sync::Mutex;

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// Table that the values come from; 0 for computed values.
    pub(crate) table: Oid,
    /// Number of the column in its table; 0 for computed values.
    pub(crate) number: i16,
    /// OID of the type, if that is a vector of the catalog: an array that is shown as its numbers.
    pub(crate) vector: Option<Oid>,
}

impl Column {
    /// Returns a column of computed values.
    pub(crate) fn computed(name: &str, data_type: DataType) -> Self {
        Self { name: name.to_owned(), data_type, table: 0, number: 0, vector: None }
    }

    /// Returns whether values of another column look the same to a client, from whichever table they come.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.name, &self.data_type, self.vector) == (&other.name, &other.data_type, other.vector)
    }
}

/// Origin of the rows that a client gets.
pub(crate) enum Source {
    /// Rows that are there, all in memory.
    Ready(IntoIter<Row>),
    /// A scan of one table.
    Scan(Box<Scan>),
    /// A query by the query side.
    Stream(query::RowStream),
    /// The next rows of a cursor, which keeps the others, and how many of them.
    Shared(Arc<Mutex<Rows>>, usize),
}

/// Rows of a statement, in batches.
pub(crate) struct Rows {
    columns: Arc<[Column]>,
    source: Source,
    /// First word of the tag, or the whole tag if the number of rows is known.
    verb: String,
    is_counted: bool,
    /// Rows that the source gave beyond what was asked for.
    ahead: IntoIter<Row>,
    is_ended: bool,
    /// True while the source works, and for good once it failed or was given up.
    is_failed: bool,
}

impl Rows {
    /// Returns rows of a query.
    pub(crate) fn of(columns: Arc<[Column]>, source: Source) -> Self {
        let ahead = Vec::new().into_iter();
        let verb = "SELECT".to_owned();
        let is_counted = true;
        Self { columns, source, verb, is_counted, ahead, is_ended: false, is_failed: false }
    }

    /// Returns rows that are there, of a statement with this verb.
    pub(crate) fn ready(columns: Arc<[Column]>, rows: Vec<Row>, verb: &str) -> Self {
        let is_counted = matches!(verb, "SELECT" | "FETCH");
        Self {
            verb: verb.to_owned(),
            is_counted,
            ..Self::of(columns, Source::Ready(rows.into_iter()))
        }
    }

    /// Returns the next rows of a cursor, at most `max`, as a FETCH gives them.
    pub(crate) fn shared(columns: Arc<[Column]>, rows: Arc<Mutex<Rows>>, max: usize) -> Self {
        Self { verb: "FETCH".to_owned(), ..Self::of(columns, Source::Shared(rows, max)) }
    }

    /// Returns the columns of the rows.
    pub(crate) fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.columns)
    }

    /// Returns the tag of a statement that gave `count` rows.
    pub(crate) fn tag(&self, count: usize) -> String {
        if self.is_counted { format!("{} {count}", self.verb) } else { self.verb.clone() }
    }

    /// Returns whether the rows failed, or were given up on the way: the next ones are not known.
    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed
    }

    /// Returns the next rows, at most `max`; none at the end.
    pub(crate) async fn next(&mut self, max: usize) -> Result<Vec<Row>> {
        if let Source::Ready(rows) = &mut self.source {
            return Ok(rows.by_ref().take(max).collect());
        }
        if self.ahead.len() == 0 && !self.is_ended {
            self.is_failed = true;
            let batch = match &mut self.source {
                Source::Ready(rows) => rows.by_ref().take(max).collect(),
                Source::Scan(scan) => scan.next(max).await?,
                Source::Stream(stream) => stream.next_batch().await?.unwrap_or_default(),
                Source::Shared(_, 0) => Vec::new(),
                Source::Shared(rows, left) => {
                    let mut rows = rows.lock().await;
                    let batch = Box::pin(rows.next(max.min(*left))).await?;
                    *left -= batch.len();
                    batch
                }
            };
            self.is_failed = false;
            self.is_ended = batch.is_empty();
            self.ahead = batch.into_iter();
        }
        Ok(self.ahead.by_ref().take(max).collect())
    }
}

/// Rows that a statement keeps in memory, bounded by their bytes.
pub(crate) struct Kept {
    rows: Vec<Row>,
    bytes: usize,
    bytes_max: usize,
    what: &'static str,
}

impl Kept {
    /// Returns room for rows of `bytes_max` bytes together; `what` names the keeper in an error.
    pub(crate) fn new(bytes_max: usize, what: &'static str) -> Self {
        Self { rows: Vec::new(), bytes: 0, bytes_max, what }
    }

    /// Keeps a row. 54000 if all rows have too many bytes then.
    pub(crate) fn push(&mut self, row: Row) -> Result<()> {
        self.bytes += bytes_of(&row);
        if self.bytes > self.bytes_max {
            let message = format!("{} has rows of more than {} bytes", self.what, self.bytes_max);
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        self.rows.push(row);
        Ok(())
    }

    /// Returns the rows that were kept.
    pub(crate) fn rows(self) -> Vec<Row> {
        self.rows
    }

    /// Returns the bytes of the rows that were kept.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of rows that were kept.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Returns the bytes that a row takes in memory, about.
fn bytes_of(row: &[Value]) -> usize {
    size_of::<Row>() + row.iter().map(Value::memory_bytes).sum::<usize>()
}
