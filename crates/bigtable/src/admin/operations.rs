//! Long-running operations. Everything here completes before it is answered, so an operation is
//! born done. The last ones are kept as records, for clients that ask again by name.
//!
//! An operation and the changes that it reports are written together: both or none.

use crate::admin::message::{decoded, page};
use crate::api::longrunning::operation;
use crate::api::longrunning::{
    CancelOperationRequest, DeleteOperationRequest, GetOperationRequest, ListOperationsRequest,
    ListOperationsResponse, Operation, WaitOperationRequest,
};
use crate::api::server::operations_server;
use crate::call::status;
use crate::names;
use prost::Message;
use prost_types::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use table::{Error, RecordChange, Result, Store};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};

/// Finished operations kept; the oldest is forgotten first.
const KEPT_MAX: usize = 1_000;
/// Bytes of finished operations kept. One alone may be larger.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Most operations of one page of `ListOperations`.
const PAGE_MAX: usize = 1_000;
/// Begins the names of operations.
const PREFIX: &str = "operations/";

/// The finished operations of a store.
#[derive(Clone)]
pub(crate) struct Operations {
    store: Arc<dyn Store>,
    /// By number, which grows with time.
    kept: Arc<Mutex<BTreeMap<u64, Kept>>>,
}

/// A finished operation, as a record of so many bytes.
struct Kept {
    name: String,
    bytes: usize,
}

impl Operations {
    /// Returns the operations that the store has kept.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let kept = store.records(PREFIX).into_iter().filter_map(|(name, record)| {
            let bytes = name.len() + record.len();
            Some((number(&name)?, Kept { name, bytes }))
        });
        let kept = kept.collect();
        Self { store, kept: Arc::new(Mutex::new(kept)) }
    }

    /// Writes `changes`, and that they ended the work on the resource `parent` with `response`.
    pub(crate) async fn finish(
        &self,
        parent: &str,
        metadata: Any,
        response: Any,
        mut changes: Vec<RecordChange>,
    ) -> Result<Operation> {
        let mut kept = self.kept.lock().await;
        let last = kept.last_key_value().map_or(0, |(number, _)| *number);
        let now = u64::try_from(self.store.now_micros()).unwrap_or_default();
        let number = now.max(last + 1);
        let operation = Operation {
            name: format!("{PREFIX}{parent}/operations/{number}"),
            metadata: Some(metadata),
            done: true,
            result: Some(operation::Result::Response(response)),
        };
        let record = operation.encode_to_vec();
        let bytes = operation.name.len() + record.len();
        let forgotten = surplus(&kept, bytes);
        changes.extend(forgotten.iter().map(|number| RecordChange::remove(&kept[number].name)));
        changes.push(RecordChange::put(&operation.name, record));
        self.store.change_records(changes).await?;
        forgotten.iter().for_each(|number| drop(kept.remove(number)));
        kept.insert(number, Kept { name: operation.name.clone(), bytes });
        Ok(operation)
    }

    fn get(&self, name: &str) -> Result<Operation> {
        let record = self.store.record(name).filter(|_| name.starts_with(PREFIX));
        let record = record.ok_or_else(|| not_found(name))?;
        decoded(name, &record)
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let mut kept = self.kept.lock().await;
        self.get(name)?;
        self.store.change_records(vec![RecordChange::remove(name)]).await?;
        number(name).map(|number| kept.remove(&number));
        Ok(())
    }

    fn list(&self, request: &ListOperationsRequest) -> Result<ListOperationsResponse> {
        if !request.filter.is_empty() {
            let rule = "filters of operations are not supported; leave it empty";
            return Err(Error::invalid("filter", rule));
        }
        let parent = names::operations_parent(&request.name);
        let operations = self.store.records(PREFIX).into_iter().filter(|(name, _)| {
            name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
        });
        let wanted = (request.page_size, request.page_token.as_str());
        let (shown, next_page_token) =
            page(operations.collect(), |(name, _)| name.as_str(), wanted, PAGE_MAX)?;
        let operations = shown.iter().map(|(name, record)| decoded(name, record));
        let operations = operations.collect::<Result<_>>()?;
        Ok(ListOperationsResponse { operations, next_page_token, ..Default::default() })
    }
}

/// Returns the numbers of the operations to forget before one of `bytes` is kept, oldest first.
fn surplus(kept: &BTreeMap<u64, Kept>, bytes: usize) -> Vec<u64> {
    let (mut count, mut all) = (kept.len() + 1, bytes);
    all += kept.values().map(|kept| kept.bytes).sum::<usize>();
    let is_over = |(_, kept): &(&u64, &Kept)| {
        let over = count > KEPT_MAX || all > KEPT_BYTES_MAX;
        (count, all) = (count - 1, all - kept.bytes);
        over
    };
    kept.iter().take_while(is_over).map(|(number, _)| *number).collect()
}

fn number(name: &str) -> Option<u64> {
    name.rsplit('/').next()?.parse().ok()
}

fn not_found(name: &str) -> Error {
    Error::NotFound { what: "operation", name: crate::names::shown(name) }
}

fn answer<T>(result: Result<T>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(status::from_error)
}

#[tonic::async_trait]
impl operations_server::Operations for Operations {
    async fn get_operation(
        &self,
        request: Request<GetOperationRequest>,
    ) -> Result<Response<Operation>, Status> {
        answer(self.get(&request.get_ref().name))
    }

    async fn wait_operation(
        &self,
        request: Request<WaitOperationRequest>,
    ) -> Result<Response<Operation>, Status> {
        answer(self.get(&request.get_ref().name))
    }

    async fn list_operations(
        &self,
        request: Request<ListOperationsRequest>,
    ) -> Result<Response<ListOperationsResponse>, Status> {
        answer(self.list(request.get_ref()))
    }

    /// An operation is done before its name is known, so that there is nothing to cancel.
    async fn cancel_operation(
        &self,
        request: Request<CancelOperationRequest>,
    ) -> Result<Response<()>, Status> {
        answer(self.get(&request.get_ref().name).map(|_| ()))
    }

    async fn delete_operation(
        &self,
        request: Request<DeleteOperationRequest>,
    ) -> Result<Response<()>, Status> {
        answer(self.delete(&request.get_ref().name).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_operations_are_forgotten_by_number_and_by_bytes() {
        let of = |count: u64, bytes: usize| -> BTreeMap<u64, Kept> {
            (0..count).map(|number| (number, Kept { name: number.to_string(), bytes })).collect()
        };
        assert!(surplus(&of(999, 1), 1).is_empty());
        assert_eq!(surplus(&of(1_000, 1), 1), [0]);
        assert!(surplus(&of(7, 1 << 20), 1 << 20).is_empty());
        assert_eq!(surplus(&of(8, 1 << 20), 1 << 20), [0]);
        assert_eq!(surplus(&of(8, 1 << 20), 3 << 19), [0, 1]);
        assert_eq!(surplus(&of(3, 1 << 20), KEPT_BYTES_MAX + 1), [0, 1, 2]);
    }
}
