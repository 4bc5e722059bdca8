//! Bodies of fuzz targets, called by `/fuzz` and, with seeded inputs, by the tests.

use crate::api::data;
use crate::data::filter;
use crate::wire::forms::{Formed, Visitor};
use crate::wire::{forms, maps, members};
use prost::Message;
use table::{Error, Pieces, ReadRows, RowSet, Store, TableName};

/// Takes `wire` for a request of each method, as the server does before anything else. Whatever the
/// bytes are, they are walked; what this version encodes has no member that it does not know. Returns
/// the number of methods that took them.
pub fn requests(wire: &[u8]) -> usize {
    struct Take<'a> {
        wire: &'a [u8],
        taken: usize,
    }
    impl Visitor for Take<'_> {
        fn visit<M: Formed + Default>(&mut self, name: &'static str) {
            let checked = members::check(M::FORM, self.wire);
            let Ok(message) = M::decode(self.wire) else { return };
            self.taken += usize::from(checked.is_ok());
            let again = members::check(M::FORM, &maps::encode(&message));
            assert!(again.is_ok(), "{name}: {again:?}");
        }
    }
    let mut take = Take { wire, taken: 0 };
    forms::visit_requests(&mut take);
    take.taken
}

/// Reads the first rows of `table` through the row filter that `wire` may encode. Whatever the
/// bytes are, the answer is rows or `InvalidArgument`; anything else is a panic. Returns whether
/// they were a filter.
pub async fn row_filter(store: &impl Store, table: &TableName, wire: &[u8]) -> bool {
    if members::check(data::RowFilter::FORM, wire).is_err() {
        return false;
    }
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
