//! Long-running operations. Everything here completes before it is answered, so an operation is
//! born done; the last ones are kept in memory for clients that ask again by name.
//!
//! Thread-safety: `Operations` is shared by the services; its lock is held for a look-up only.

use crate::api::longrunning::operation;
use crate::api::longrunning::{
    GetOperationRequest, ListOperationsRequest, ListOperationsResponse, Operation,
    WaitOperationRequest,
};
use crate::api::server::operations_server;
use crate::call::status;
use parking_lot::Mutex;
use prost_types::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use table::Error;
use tonic::{Request, Response, Status};

/// Finished operations kept; the oldest is forgotten first.
const KEPT_MAX: usize = 1_000;

/// The finished operations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    finished: VecDeque<Operation>,
}

impl Operations {
    /// Records that work on the resource `parent` has ended with `response`.
    pub(crate) fn finished(&self, parent: &str, metadata: Any, response: Any) -> Operation {
        let mut inner = self.inner.lock();
        inner.last += 1;
        let operation = Operation {
            name: format!("operations/{parent}/operations/{}", inner.last),
            metadata: Some(metadata),
            done: true,
            result: Some(operation::Result::Response(response)),
        };
        if inner.finished.len() == KEPT_MAX {
            inner.finished.pop_front();
        }
        inner.finished.push_back(operation.clone());
        operation
    }

    fn get(&self, name: &str) -> Result<Response<Operation>, Status> {
        let inner = self.inner.lock();
        let found = inner.finished.iter().rev().find(|operation| operation.name == name);
        found.cloned().map(Response::new).ok_or_else(|| {
            status::from_error(Error::NotFound { what: "operation", name: name.to_owned() })
        })
    }
}

#[tonic::async_trait]
impl operations_server::Operations for Operations {
    async fn get_operation(
        &self,
        request: Request<GetOperationRequest>,
    ) -> Result<Response<Operation>, Status> {
        self.get(&request.get_ref().name)
    }

    async fn wait_operation(
        &self,
        request: Request<WaitOperationRequest>,
    ) -> Result<Response<Operation>, Status> {
        self.get(&request.get_ref().name)
    }

    async fn list_operations(
        &self,
        request: Request<ListOperationsRequest>,
    ) -> Result<Response<ListOperationsResponse>, Status> {
        let parent = request.get_ref().name.trim_end_matches("/operations");
        let inner = self.inner.lock();
        let operations = inner.finished.iter().filter(|operation| {
            operation.name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
        });
        Ok(Response::new(ListOperationsResponse {
            operations: operations.cloned().collect(),
            ..Default::default()
        }))
    }
}
