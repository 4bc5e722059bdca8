//! Rows of one table by an access: points in the task, ranges on blocking threads.

use crate::access::{Access, Keys};
use crate::statement::Kept;
use crate::statement::bind::{Bound, Eval};
use crate::statement::change::Returning;
use engine::{Direction, perf_context};
use relational::{CancelFlag, Error, Oid, Result, Row, RowScan, ScanSpec, Value, View};
use std::sync::Arc;

/// Rows that a blocking thread reads at once.
const BATCH_ROWS: usize = 1_024;
/// Most bytes of the rows that a statement changes or locks.
const FOUND_BYTES_MAX: usize = 512 << 20;
/// Rows of the first read, since a client may want no more.
pub(super) const FIRST_ROWS: usize = 64;

/// Rows that an access finds, before their condition is tested.
enum Found {
    Points { view: View, table: Oid, keys: std::vec::IntoIter<Vec<Value>> },
    Ranges(Option<Box<RowScan>>),
}

/// Reads the rows that an access finds, some at once.
pub(super) struct Reader {
    found: Found,
    batch: usize,
}

impl Reader {
    /// Returns the reader of the rows that `access` finds in `view`.
    pub(super) fn new(
        view: View,
        (table, access, direction): (Oid, &Access, Direction),
        eval: &Eval,
        flag: &CancelFlag,
    ) -> Result<Self> {
        let found = match access.keys(eval)? {
            Keys::Points(mut keys) => {
                if direction == Direction::Reverse {
                    keys.reverse();
                }
                Found::Points { view, table, keys: keys.into_iter() }
            }
            Keys::Ranges(ranges) => {
                let (index, cancel) = (access.index(), flag.clone());
                let spec = ScanSpec { index, ranges, direction, cancel, ..ScanSpec::of(table) };
                Found::Ranges(Some(Box::new(view.scan(spec)?)))
            }
        };
        Ok(Self { found, batch: FIRST_ROWS })
    }

    /// Returns rows that were found next, about `max` if keys name them; nothing at the end.
    pub(super) async fn next(&mut self, max: usize) -> Result<Option<Vec<Row>>> {
        match &mut self.found {
            Found::Points { view, table, keys } => {
                let Some(key) = keys.next() else { return Ok(None) };
                let mut rows: Vec<Row> = view.get(*table, &key).await?.into_iter().collect();
                while rows.len() < max.min(FIRST_ROWS) {
                    let Some(key) = keys.next() else { break };
                    rows.extend(view.get(*table, &key).await?);
                }
                Ok(Some(rows))
            }
            Found::Ranges(scan) => {
                let Some(mut reader) = scan.take() else { return Ok(None) };
                let wanted = self.batch;
                self.batch = BATCH_ROWS;
                let (reader, rows) = blocking(move || {
                    let rows = reader.next_batch(wanted);
                    (reader, rows)
                })
                .await?;
                let rows = rows?;
                *scan = Some(reader);
                Ok((!rows.is_empty()).then_some(rows))
            }
        }
    }
}

/// Rows of one table, tested, projected, and cut at the limit.
pub(crate) struct Scan {
    reader: Reader,
    plan: Arc<ScanPlan>,
    eval: Eval,
    /// Rows that are still to be passed over.
    offset: u64,
    left: u64,
}

/// The parts of a scan that its executions share.
pub(crate) struct ScanPlan {
    pub(crate) filter: Option<Bound>,
    pub(crate) projection: Returning,
}

impl Scan {
    pub(super) fn new(
        view: View,
        way: (Oid, &Access, Direction),
        plan: Arc<ScanPlan>,
        eval: Eval,
        flag: &CancelFlag,
        (offset, limit): (u64, Option<u64>),
    ) -> Result<Self> {
        let reader = Reader::new(view, way, &eval, flag)?;
        Ok(Self { reader, plan, eval, offset, left: limit.unwrap_or(u64::MAX) })
    }

    /// Returns the next rows, at most `max` and about as many as are read at once; none at the end.
    pub(crate) async fn next(&mut self, max: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while rows.is_empty() && self.left > 0 {
            let Some(found) = self.reader.next(max).await? else { break };
            for row in found {
                if let Some(filter) = &self.plan.filter
                    && filter.value(&row, &self.eval)? != Value::Bool(true)
                {
                    continue;
                }
                if self.offset > 0 {
                    self.offset -= 1;
                    continue;
                }
                if self.left == 0 {
                    break;
                }
                self.left -= 1;
                rows.push(self.plan.projection.row(&row, &self.eval)?);
            }
        }
        Ok(rows)
    }
}

/// Returns all rows of `view` that an access finds and that pass `filter`, whole.
pub(crate) async fn scan_all(
    view: View,
    way: (Oid, &Access, Direction),
    filter: Option<&Bound>,
    eval: &Eval,
    flag: &CancelFlag,
    rows_max: usize,
) -> Result<Vec<Row>> {
    let mut reader = Reader::new(view, way, eval, flag)?;
    let mut passed = Kept::new(FOUND_BYTES_MAX, "a statement that changes or locks rows");
    while let Some(rows) = reader.next(BATCH_ROWS).await? {
        for row in rows {
            if passes(filter, &row, eval)? {
                passed.push(row)?;
            }
        }
        if passed.len() > rows_max {
            return Err(Error::new(
                relational::SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("the statement changes or locks more than {rows_max} rows"),
            ));
        }
    }
    Ok(passed.rows())
}

/// Returns whether a row of `view` that an access finds passes `filter`.
pub(crate) async fn has_row(
    view: View,
    way: (Oid, &Access, Direction),
    filter: &Bound,
    eval: &Eval,
    flag: &CancelFlag,
) -> Result<bool> {
    let mut reader = Reader::new(view, way, eval, flag)?;
    while let Some(rows) = reader.next(BATCH_ROWS).await? {
        for row in rows {
            if passes(Some(filter), &row, eval)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns whether a row passes a condition, if there is one.
pub(super) fn passes(filter: Option<&Bound>, row: &Row, eval: &Eval) -> Result<bool> {
    match filter {
        Some(filter) => Ok(filter.value(row, eval)? == Value::Bool(true)),
        None => Ok(true),
    }
}

/// Runs a call that blocks on a thread for such calls.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let mut counts = perf_context::current();
    let call = move || perf_context::within(&mut counts, call);
    let outcome = tokio::task::spawn_blocking(call).await;
    outcome.map_err(|error| Error::internal(format!("a blocking call ended: {error}")))
}
