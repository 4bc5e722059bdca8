//! The same identities and the same policy for the HTTP side.

use super::gate::{Gate, UNAUTHENTICATED};
use crate::serve::connections::Peer;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tonic::Code;

/// Passes a request on if its sender is known and has the permission of its path.
pub(crate) async fn check(
    State(gate): State<Option<Arc<Gate>>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let Some(gate) = gate else { return next.run(request).await };
    let what = format!("{} {}", request.method(), request.uri().path());
    let Some(admitted) = gate.admit(&peer, request.headers()) else {
        gate.note_stranger(&what, None);
        return (StatusCode::UNAUTHORIZED, format!("{UNAUTHENTICATED}\n")).into_response();
    };
    let permission = permission(request.method(), request.uri().path());
    if !admitted.may(permission) {
        admitted.note(&what, Code::PermissionDenied);
        let text = format!("{} lacks {permission}\n", admitted.name());
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    let administers = request.method() != Method::GET;
    let answer = next.run(request).await;
    if administers {
        let code = if answer.status().is_success() { Code::Ok } else { Code::FailedPrecondition };
        admitted.note(&what, code);
    }
    answer
}

/// Returns the permission that a path needs; an unknown path needs the strongest.
fn permission(method: &Method, path: &str) -> &'static str {
    match path {
        "/metrics" => "stele.metrics.get",
        "/debug/pprof/profile" | "/debug/pprof/heap" => "stele.profiles.create",
        "/admin/compactions" if method == Method::GET => "stele.compactions.get",
        "/admin/compactions" | "/admin/compactions/pause" | "/admin/compactions/resume" => {
            "stele.compactions.update"
        }
        _ => "stele.checkpoints.create",
    }
}
