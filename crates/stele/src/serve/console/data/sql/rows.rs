//! Pages of a table's rows, in the order of its primary key.
//!
//! A page is read in one view: rows of one moment. The next page begins behind the key of the last row, as
//! of its own moment.
//!
//! Invariants:
//! 1. A page ends after [`READ_BYTES_MAX`] bytes of rows that were read, whatever it shows of them.
//! 2. Reading ends soon after its request is gone: answered, late, or left by its client.

use super::super::super::Console;
use super::super::super::request::failure::Failure;
use super::super::super::request::guard::Visitor;
use super::super::super::request::params::Params;
use super::super::super::request::shown::{Allowance, Shown};
use super::super::super::request::work::{Place, answer, within};
use super::super::values::{NODE_BYTES, Told};
use super::{READ, check_passwords, database, of_sql, oid, table_of};
use ::relational::{CancelFlag, Isolation, KeyRange, Row, RowScan, ScanSpec, Table, Value, View};
use ::sql::values::{Settings, parse_value, value_text};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use std::ops::Bound;
use std::sync::Arc;

/// Rows of a page, unless the request says another number, and at most.
const ROWS: u64 = 50;
const ROWS_MAX: u64 = 200;
/// Rows that are read together.
const BATCH_ROWS: usize = 32;
/// Bytes of a page's values with their nodes, and of one value.
const PAGE_BYTES_MAX: usize = 1 << 20;
const VALUE_BYTES_MAX: usize = 512;
/// Bytes of rows after which a page has no more of them.
const READ_BYTES_MAX: usize = 32 << 20;
/// Longest value to begin with, in bytes of its text.
const FROM_BYTES_MAX: usize = 4 << 10;

/// A column of a page.
#[derive(Debug, Serialize)]
struct ColumnView {
    name: String,
    r#type: String,
}

/// A page of a table's rows.
#[derive(Debug, Serialize)]
struct RowsView {
    columns: Vec<ColumnView>,
    /// A value for each column.
    rows: Vec<Vec<Told>>,
    /// The key of the last row, if more rows follow.
    next: Option<Shown>,
}

/// The rows that a request asks for.
struct Asked {
    oid: u32,
    /// The encoded key of a row, behind which the page begins; nothing for the first one.
    after: Vec<u8>,
    /// The value of the first column of the key with which the page begins.
    from: Option<String>,
    limit: u64,
}

/// Answers with rows of the table `oid`, at most `limit`: those behind the key `after`, or those whose
/// first column of the primary key is `from` or comes after it.
pub(in super::super::super) async fn rows(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["oid", "after", "from", "limit"])?;
    let from = params.text("from").map(str::to_owned);
    if from.as_ref().is_some_and(|from| from.len() > FROM_BYTES_MAX) {
        return Err(Failure::parameter(
            "from",
            format!("must have at most {FROM_BYTES_MAX} bytes"),
        ));
    }
    let limit = params.number("limit", ROWS_MAX)?.unwrap_or(ROWS).max(1);
    let asked = Asked { oid: oid(&params)?, after: params.bytes("after")?, from, limit };
    visitor.needs(READ)?;
    let database = database(&console)?;
    let place = console.reads.take()?;
    let view = within(async {
        let mut transaction = database.begin(Isolation::ReadCommitted, true);
        transaction.start_statement().await.map_err(|error| of_sql(&error))?;
        Ok::<_, Failure>(transaction.view())
    });
    let view = view.await?;
    check_passwords(view.catalog(), &visitor)?;
    answer_in_time(place, move |cancel| page(&view, &asked, cancel)).await
}

/// Tells the reads of a request to end once it is gone.
struct Ends(CancelFlag);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.expire();
    }
}

/// Answers with what `make` returns, as [`answer`] does. The flag that it gets is set when the request is gone.
async fn answer_in_time<T: Serialize>(
    place: Place,
    make: impl FnOnce(CancelFlag) -> Result<T, Failure> + Send + 'static,
) -> Result<Response, Failure> {
    let ends = Ends(CancelFlag::default());
    let cancel = ends.0.clone();
    answer(place, move || make(cancel)).await
}

fn page(view: &View, asked: &Asked, cancel: CancelFlag) -> Result<RowsView, Failure> {
    let table = table_of(view.catalog(), asked.oid)?;
    let range = KeyRange { lower: lower(table, asked)?, upper: Bound::Unbounded };
    // One more, which tells that there are more.
    let limit = Some(asked.limit + 1);
    let spec = ScanSpec { ranges: vec![range], limit, cancel, ..ScanSpec::of(asked.oid) };
    let mut scan = view.scan(spec).map_err(|error| of_sql(&error))?;
    let mut page = Page::new(asked.limit);
    let more = page.fill(table, &mut scan)?;
    let last = page.last.filter(|_| more);
    let next = last.map(|key| table.layout.key.encode(&key)).transpose();
    let next = next.map_err(|error| of_sql(&error))?;
    let columns = table.columns.iter().map(|column| ColumnView {
        name: column.name.clone(),
        r#type: column.data_type.to_string(),
    });
    let next = next.map(|key| Allowance::of(0).whole(&key));
    Ok(RowsView { columns: columns.collect(), rows: page.rows, next })
}

/// Returns the bound behind which a page begins.
fn lower(table: &Table, asked: &Asked) -> Result<Bound<Vec<Value>>, Failure> {
    if !asked.after.is_empty() {
        let wrong =
            || Failure::parameter("after", "is no key of this table; begin at its first row");
        return match table.layout.key.decode(&asked.after) {
            Ok((values, [])) => Ok(Bound::Excluded(values)),
            _ => Err(wrong()),
        };
    }
    let Some(from) = &asked.from else { return Ok(Bound::Unbounded) };
    let first = table.key_places().first().and_then(|place| table.columns.get(*place));
    let first =
        first.ok_or_else(|| Failure::parameter("from", "needs a table that has a primary key"))?;
    let value = parse_value(from, &first.data_type, &Settings::default());
    let value = value.map_err(|error| Failure::parameter("from", &error.message))?;
    Ok(Bound::Included(vec![value]))
}

/// Rows of a page, as far as it has room.
struct Page {
    limit: usize,
    rows: Vec<Vec<Told>>,
    /// Key of the last row.
    last: Option<Vec<Value>>,
    left: Allowance,
    settings: Settings,
}

impl Page {
    fn new(limit: u64) -> Self {
        Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            rows: Vec::new(),
            last: None,
            left: Allowance::of(PAGE_BYTES_MAX),
            settings: Settings::default(),
        }
    }

    /// Adds the rows of a scan as far as there is room. Returns true if there are more.
    fn fill(&mut self, table: &Table, scan: &mut RowScan) -> Result<bool, Failure> {
        let mut read = 0;
        while read < READ_BYTES_MAX {
            let batch = scan.next_batch(BATCH_ROWS).map_err(|error| of_sql(&error))?;
            if batch.is_empty() {
                return Ok(false);
            }
            read += batch.iter().flatten().map(Value::memory_bytes).sum::<usize>();
            if !batch.into_iter().all(|row| self.take(table, row)) {
                return Ok(true);
            }
        }
        let next = scan.next_batch(1).map_err(|error| of_sql(&error))?;
        Ok(!next.is_empty())
    }

    /// Adds a row. Returns false, and adds nothing, if there is no room.
    fn take(&mut self, table: &Table, row: Row) -> bool {
        if self.rows.len() >= self.limit || self.left.is_spent() {
            return false;
        }
        // Behind the columns there may be a row id, which clients of SQL do not see either.
        let columns = row.iter().take(table.columns.len());
        let told = columns.map(|value| told(value, &self.settings, &mut self.left)).collect();
        self.rows.push(told);
        self.last = Some(table.key_of(&row));
        true
    }
}

/// Returns a value as people read it: bytes as bytes, and all else as its text.
fn told(value: &Value, settings: &Settings, left: &mut Allowance) -> Told {
    left.take(NODE_BYTES);
    let mut show = |bytes: &[u8]| left.show(bytes, bytes.len(), VALUE_BYTES_MAX);
    match value {
        Value::Null => Told::Null,
        Value::Bytea(bytes) => Told::Bytes { bytes: show(bytes) },
        Value::Text(text) | Value::Jsonb(text) => Told::String { string: show(text.as_bytes()) },
        other => Told::String { string: show(value_text(other, settings).as_bytes()) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::super::request::work::{Places, TIME_MAX};
    use super::*;
    use tonic::Code;

    /// Reads until it is told to end.
    fn read(cancel: CancelFlag) -> Result<(), Failure> {
        loop {
            cancel.check().map_err(|error| of_sql(&error))?;
            std::thread::yield_now();
        }
    }

    async fn until_free(places: &Places) {
        while places.free() == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reading_ends_with_a_request_that_is_late_or_gone() {
        let places = Places::new(1);
        let late = tokio::spawn(answer_in_time(places.take().unwrap(), read));
        tokio::task::yield_now().await;
        tokio::time::advance(TIME_MAX).await;
        assert_eq!(late.await.unwrap().unwrap_err().code, Code::DeadlineExceeded);
        until_free(&places).await;
        let gone = tokio::spawn(answer_in_time(places.take().unwrap(), read));
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        until_free(&places).await;
    }
}
