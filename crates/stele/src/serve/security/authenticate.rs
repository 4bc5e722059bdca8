//! The caller of each gRPC request.

use super::gate::{Gate, UNAUTHENTICATED};
use crate::serve::connections::Peer;
use crate::serve::request_id::RequestId;
use bigtable::CallerHandle;
use std::sync::Arc;
use tonic::Status;
use tonic::codegen::http::Request;

/// Service that answers everybody: probes have no credentials.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Puts the caller of a request into its extensions. Returns false, and notes the request, if `gate` does
/// not know the caller.
pub(crate) fn admit<B>(gate: &Arc<Gate>, request: &mut Request<B>, id: &RequestId) -> bool {
    let path = request.uri().path();
    if is_health(path) {
        return true;
    }
    let unknown = Peer::default();
    let peer = request.extensions().get::<Peer>().unwrap_or(&unknown);
    match gate.admit(peer, request.headers()) {
        Some(admitted) => {
            let caller = CallerHandle(Arc::new(admitted.with_request(id.clone())));
            request.extensions_mut().insert(caller);
            true
        }
        None => {
            gate.note_stranger(path, Some(id));
            false
        }
    }
}

/// Tells whether `path` is of the health service, which has no callers that are known.
pub(crate) fn is_health(path: &str) -> bool {
    path.starts_with(HEALTH)
}

/// Returns the answer to a caller who is not known.
pub(crate) fn refusal() -> Status {
    Status::unauthenticated(UNAUTHENTICATED)
}
