//! Rows, cells of a row, and one cell.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::super::request::shown::{Allowance, Shown};
use super::super::request::work::{answer, within};
use super::chunks::{Bounds, Page, RowView};
use super::client;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use data::column_range::{EndQualifier, StartQualifier};
use data::row_filter::{Chain, Filter};
use data::row_range::{EndKey, StartKey};
use data::{ReadRowsRequest, RowFilter, RowRange, RowSet};
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use serde::Serialize;
use std::sync::Arc;
use table::{Granularity, Store};

/// Rows of a page, unless the request says another number, and at most.
const ROWS: u64 = 50;
const ROWS_MAX: u64 = 200;
/// Bounds of a page of rows.
const PAGE: Bounds =
    Bounds { row_cells: 60, value_bytes: 512, page_bytes: 1 << 20, read_bytes: 32 << 20 };
/// Bounds of a page of one row's cells.
const ROW: Bounds =
    Bounds { row_cells: 200, value_bytes: 4 << 10, page_bytes: 1 << 20, read_bytes: 32 << 20 };
/// Bounds of a page of one cell.
const CELL: Bounds =
    Bounds { row_cells: 1, value_bytes: 1 << 20, page_bytes: 2 << 20, read_bytes: 1 << 20 };
/// Cells of a row that may be passed over to the next page.
const OFFSET_MAX: u64 = i32::MAX as u64 - 1_000;

/// A page of a table's rows.
#[derive(Debug, Serialize)]
struct RowsView {
    rows: Vec<RowView>,
    /// First key of the next page.
    next: Option<Shown>,
}

/// A page of one row's cells.
#[derive(Debug, Serialize)]
struct CellsView {
    row: Option<RowView>,
    /// Number of cells before the next page.
    next_offset: Option<u64>,
}

/// A row with one cell.
#[derive(Debug, Serialize)]
struct CellAloneView {
    row: Option<RowView>,
}

/// Answers with rows of `table` that begin with `prefix`, from the key `start` on, at most `limit`.
pub(in super::super) async fn rows(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["table", "prefix", "start", "limit"])?;
    let limit = params.number("limit", ROWS_MAX)?.unwrap_or(ROWS).max(1);
    let range = range(params.bytes("prefix")?, params.bytes("start")?);
    let request = ReadRowsRequest {
        table_name: params.required("table")?.to_owned(),
        rows: Some(RowSet { row_ranges: vec![range], ..RowSet::default() }),
        filter: Some(cells_of_rows(PAGE)),
        rows_limit: limit as i64,
        ..ReadRowsRequest::default()
    };
    let place = console.reads.take()?;
    let (rows, full) = within(read(&console, &visitor, request, PAGE)).await?;
    let last = rows.last().filter(|_| full || rows.len() as u64 >= limit);
    let next = last.map(|row| {
        let after = [&row.raw_key[..], &[0]].concat();
        Allowance::of(0).whole(&after)
    });
    answer(place, move || Ok(RowsView { rows, next })).await
}

/// Answers with the cells of the row `key` of `table`, after the first `offset`.
pub(in super::super) async fn row(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["table", "key", "offset"])?;
    let offset = params.number("offset", OFFSET_MAX)?.unwrap_or(0);
    let mut filters = Vec::new();
    if offset > 0 {
        filters.push(Filter::CellsPerRowOffsetFilter(offset as i32));
    }
    filters.push(Filter::CellsPerRowLimitFilter(ROW.row_cells as i32 + 1));
    let request = of_row(&params, filters)?;
    let place = console.reads.take()?;
    let (rows, _) = within(read(&console, &visitor, request, ROW)).await?;
    let row = rows.into_iter().next();
    let next = row.as_ref().filter(|row| row.more_cells);
    let next = next.map(|row| offset + row.cell_count().max(1) as u64);
    answer(place, move || Ok(CellsView { row, next_offset: next })).await
}

/// Answers with one cell of `table`: that of the row `key`, `family`, `qualifier` and `timestamp`, which is
/// in microseconds.
pub(in super::super) async fn cell(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["table", "key", "family", "qualifier", "timestamp"])?;
    let timestamp = params.required("timestamp")?.parse::<i64>();
    let timestamp = timestamp
        .map_err(|_| Failure::parameter("timestamp", "must be a number of microseconds"))?;
    let qualifier = params.bytes("qualifier")?;
    let column = data::ColumnRange {
        family_name: params.required("family")?.to_owned(),
        start_qualifier: Some(StartQualifier::StartQualifierClosed(qualifier.clone().into())),
        end_qualifier: Some(EndQualifier::EndQualifierClosed(qualifier.into())),
    };
    let granularity = granularity(&console, params.required("table")?).await;
    let filters = vec![
        Filter::ColumnRangeFilter(column),
        Filter::TimestampRangeFilter(moment(timestamp, granularity)),
        Filter::CellsPerRowLimitFilter(1),
    ];
    let request = of_row(&params, filters)?;
    let place = console.reads.take()?;
    let (rows, _) = within(read(&console, &visitor, request, CELL)).await?;
    answer(place, move || Ok(CellAloneView { row: rows.into_iter().next() })).await
}

/// Returns the granularity of a table's timestamps. The read that follows refuses a table that is not
/// there, or that the visitor may not read, so that this tells no stranger of it.
async fn granularity(console: &Console, table: &str) -> Granularity {
    let (Some(store), Ok(name)) = (console.server.store(), bigtable::table_name("table", table))
    else {
        return Granularity::Millis;
    };
    store.get_table(&name).await.map_or(Granularity::Millis, |schema| schema.granularity)
}

/// Returns the shortest range of timestamps that has `micros`. Bounds of a range are of the table's
/// granularity, and 0 stands for no bound.
fn moment(micros: i64, granularity: Granularity) -> data::TimestampRange {
    let step = granularity.micros();
    let start = micros.div_euclid(step).saturating_mul(step);
    data::TimestampRange {
        start_timestamp_micros: start,
        end_timestamp_micros: start.checked_add(step).unwrap_or(0),
    }
}

/// Returns the read of one row with these filters.
fn of_row(params: &Params, filters: Vec<Filter>) -> Result<ReadRowsRequest, Failure> {
    let rows = RowSet { row_keys: vec![params.bytes("key")?.into()], ..RowSet::default() };
    Ok(ReadRowsRequest {
        table_name: params.required("table")?.to_owned(),
        rows: Some(rows),
        filter: Some(chain(filters)),
        rows_limit: 1,
        ..ReadRowsRequest::default()
    })
}

/// Returns the filter of the first cells of each row.
fn cells_of_rows(bounds: Bounds) -> RowFilter {
    RowFilter { filter: Some(Filter::CellsPerRowLimitFilter(bounds.row_cells as i32 + 1)) }
}

/// Returns the filter that applies one filter after another.
fn chain(mut filters: Vec<Filter>) -> RowFilter {
    if filters.len() == 1 {
        return RowFilter { filter: filters.pop() };
    }
    let filters = filters.into_iter().map(|filter| RowFilter { filter: Some(filter) }).collect();
    RowFilter { filter: Some(Filter::Chain(Chain { filters })) }
}

/// Reads a page. Returns its rows, and whether it ended at a bound.
async fn read(
    console: &Console,
    visitor: &Visitor,
    request: ReadRowsRequest,
    bounds: Bounds,
) -> Result<(Vec<RowView>, bool), Failure> {
    let mut client = client::data(console, visitor)?;
    let mut answers = client.read_rows(client::in_time(request)).await?.into_inner();
    let mut page = Page::new(bounds);
    while let Some(answer) = answers.message().await? {
        for chunk in answer.chunks {
            if page.add(chunk) {
                return Ok((page.rows(), true));
            }
        }
    }
    Ok((page.rows(), false))
}

/// Returns the range of keys that begin with `prefix`, from `start` on.
fn range(prefix: Vec<u8>, start: Vec<u8>) -> RowRange {
    let end = successor(&prefix);
    RowRange {
        start_key: Some(StartKey::StartKeyClosed(start.max(prefix).into())),
        end_key: end.map(|end| EndKey::EndKeyOpen(end.into())),
    }
}

/// Returns the first key after all that begin with `prefix`; `None` if nothing follows.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_one_unit_of_the_table() {
        let of = |micros, granularity| {
            let times = moment(micros, granularity);
            (times.start_timestamp_micros, times.end_timestamp_micros)
        };
        assert_eq!(of(1_234_567, Granularity::Millis), (1_234_000, 1_235_000));
        assert_eq!(of(1_234_567, Granularity::Micros), (1_234_567, 1_234_568));
        assert_eq!(of(i64::MAX, Granularity::Micros), (i64::MAX, 0));
        assert_eq!(of(i64::MAX, Granularity::Millis).1, 0);
        assert_eq!(of(-1, Granularity::Millis), (-1_000, 0));
    }

    #[test]
    fn a_prefix_ends_before_its_successor() {
        for (prefix, want) in [
            (&b""[..], None),
            (b"a", Some(&b"b"[..])),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"\x00", Some(b"\x01")),
        ] {
            assert_eq!(successor(prefix).as_deref(), want, "{prefix:?}");
        }
        let StartKey::StartKeyClosed(start) = range(b"b".into(), b"a".into()).start_key.unwrap()
        else {
            panic!("the start belongs to the range")
        };
        assert_eq!(&start[..], b"b", "a start before the prefix");
    }
}
