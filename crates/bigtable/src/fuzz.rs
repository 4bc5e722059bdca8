//! Bodies of fuzz targets, called by `/fuzz` and, with seeded inputs, by the tests.

use crate::api::data;
use crate::data::filter;
use crate::query::Queries;
use crate::wire::forms::{Formed, Visitor};
use crate::wire::{forms, maps, members};
use futures::StreamExt;
use prost::Message;
use std::sync::Arc;
use table::{Error, Pieces, ReadRows, RowSet, Store, TableName};
use tonic::{Code, Status};

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

/// Prepares and executes the query that `wire` may be, and takes `wire` for a prepared query and for a
/// token, for `instance`. Whatever the bytes are, the answer is rows or a status that says what is
/// wrong. Returns whether a query was executed to its end.
pub async fn query(store: Arc<impl Store>, instance: &str, wire: &[u8]) -> bool {
    let queries = Queries::new(store);
    let prepare = data::PrepareQueryRequest {
        instance_name: instance.to_owned(),
        query: String::from_utf8_lossy(wire).into_owned(),
        data_format: Some(data::prepare_query_request::DataFormat::ProtoFormat(
            data::ProtoFormat {},
        )),
        ..Default::default()
    };
    let bytes = bytes::Bytes::copy_from_slice(wire);
    let execute = data::ExecuteQueryRequest {
        instance_name: instance.to_owned(),
        prepared_query: bytes.clone(),
        ..Default::default()
    };
    let executed = execute_query(&queries, execute.clone()).await;
    let prepared = match queries.prepare(prepare).await {
        Ok(prepared) => prepared.prepared_query,
        Err(status) => return check_status(&status) || executed,
    };
    let execute = data::ExecuteQueryRequest { prepared_query: prepared, ..execute };
    execute_query(&queries, data::ExecuteQueryRequest { resume_token: bytes, ..execute.clone() })
        .await;
    execute_query(&queries, execute).await || executed
}

/// Returns whether a query was executed to its end.
async fn execute_query<S: Store>(queries: &Queries<S>, request: data::ExecuteQueryRequest) -> bool {
    let mut results = match queries.execute(request, None).await {
        Ok(results) => results,
        Err(status) => return check_status(&status),
    };
    while let Some(message) = results.next().await {
        if let Err(status) = message {
            return check_status(&status);
        }
    }
    true
}

fn check_status(status: &Status) -> bool {
    use Code::{FailedPrecondition, InvalidArgument, NotFound, OutOfRange, Unimplemented};
    let codes = [FailedPrecondition, InvalidArgument, NotFound, OutOfRange, Unimplemented];
    assert!(codes.contains(&status.code()), "{status}");
    false
}
