//! Bodies of fuzz targets, called by `/fuzz` and, with seeded inputs, by the tests.

use crate::api::data;
use crate::filter;
use prost::Message;
use table::{Error, Pieces, ReadRows, RowSet, Store, TableName};

/// Reads the first rows of `table` through the row filter that `wire` may encode. Whatever the
/// bytes are, the answer is rows or `InvalidArgument`; anything else is a panic. Returns whether
/// they were a filter.
pub async fn row_filter(store: &impl Store, table: &TableName, wire: &[u8]) -> bool {
    let Ok(message) = data::RowFilter::decode(wire) else { return false };
    let filter = match filter::optional("filter", Some(message)) {
        Ok(filter) => filter,
        Err(error) => return check_refusal(error),
    };
    let request = ReadRows { rows: RowSet::all(), filter, rows_limit: 10, ..ReadRows::default() };
    match store.read_rows(table, request, Pieces::default()).await {
        Ok(rows) => match rows.collect_rows().await {
            Ok(rows) => {
                assert!(rows.iter().all(|row| !row.cells.is_empty()));
                true
            }
            Err(error) => panic!("a read that began must end: {error}"),
        },
        Err(error) => check_refusal(error),
    }
}

fn check_refusal(error: Error) -> bool {
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    false
}
