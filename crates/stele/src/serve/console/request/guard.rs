//! The check of each request: its sender and permissions.
//!
//! Invariants:
//! 1. A server that knows no identities answers connections of its own machine only, and none that a
//!    proxy passes on: its clients may be anywhere.
//! 2. A server that knows identities answers requests of the API that show one. The policy is asked
//!    for each permission, as for the same request by gRPC.
//! 3. Each request of the API has the header [`HEADER`]. A browser sends it to another origin only
//!    after a preflight request, which is never answered.

use super::super::super::connections::{Origin, Peer};
use super::super::super::security::gate::{Admitted, UNAUTHENTICATED};
use super::super::Console;
use super::super::assets::secured;
use super::failure::Failure;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bigtable::{Allowed, Caller, CallerHandle, EndedCall};
use std::sync::Arc;
use tonic::Code;

/// Header without which the API answers nothing; its value does not matter.
pub(in super::super) const HEADER: &str = "x-stele-console";
const BEYOND: &str = "the console of a server without identities answers its own machine only; set \
     --tls-cert, --tls-key and --identities or --tls-client-ca (docs/security.md), or tunnel to \
     127.0.0.1 of the server";

const BY_PROXY: &str = "a proxy passes this request on, and the console of a server without identities \
     answers its own machine only; set --tls-cert, --tls-key and --identities or --tls-client-ca \
     (docs/security.md), or open the address of the server itself";
/// The sender of a request of the API.
#[derive(Clone)]
pub(in super::super) struct Visitor {
    /// `None` for a server that knows no identities.
    admitted: Option<Admitted>,
    path: Arc<str>,
}

impl Visitor {
    /// Returns the name of the identity.
    pub(in super::super) fn name(&self) -> Option<&str> {
        self.admitted.as_ref().map(Admitted::name)
    }

    /// Returns the handle with which services know the visitor.
    pub(in super::super) fn caller(&self) -> Option<CallerHandle> {
        self.admitted.clone().map(|admitted| CallerHandle(Arc::new(admitted)))
    }

    /// Returns whether a policy says what the visitor may do.
    #[cfg(feature = "sql")]
    pub(in super::super) fn is_under_policy(&self) -> bool {
        self.admitted.as_ref().is_some_and(Admitted::has_policy)
    }

    /// Returns whether the visitor has a permission on the server itself.
    pub(in super::super) fn may(&self, permission: &str) -> bool {
        self.admitted.as_ref().is_none_or(|admitted| admitted.may(permission))
    }

    /// Returns whether the visitor has the whole of a permission on a resource.
    pub(in super::super) fn may_on(&self, permission: &str, resource: &str) -> bool {
        let allowed = |admitted: &Admitted| admitted.allowed(permission, resource);
        self.admitted.as_ref().is_none_or(|admitted| allowed(admitted) == Allowed::Everything)
    }

    /// Refuses a visitor without a permission on the server itself.
    pub(in super::super) fn needs(&self, permission: &str) -> Result<(), Failure> {
        if self.may(permission) { Ok(()) } else { Err(self.refused(permission, "")) }
    }

    /// Refuses a visitor without the whole of a permission on a resource.
    pub(in super::super) fn needs_on(
        &self,
        permission: &str,
        resource: &str,
    ) -> Result<(), Failure> {
        match self.may_on(permission, resource) {
            true => Ok(()),
            false => Err(self.refused(permission, resource)),
        }
    }

    /// Notes that the request is refused, of a visitor with a name.
    pub(in super::super) fn note_refusal(&self, resource: &str) {
        if let Some(admitted) = &self.admitted {
            let (method, code) = (&*self.path, Code::PermissionDenied);
            Caller::note(admitted, &EndedCall { method, resource, code });
        }
    }

    fn refused(&self, permission: &str, resource: &str) -> Failure {
        self.note_refusal(resource);
        let on = if resource.is_empty() { "the server" } else { resource };
        let name = self.name().unwrap_or_default();
        Failure::new(Code::PermissionDenied, format!("{name} lacks {permission} on {on}"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let visitor = parts.extensions.get::<Self>().cloned();
        visitor.ok_or_else(|| Failure::new(Code::Unauthenticated, UNAUTHENTICATED))
    }
}

/// Passes a request of the API on if its sender is known, or on this machine.
pub(in super::super) async fn check(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut answer = match admit(&console, &peer, &request) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(failure) => failure.into_response(),
    };
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    secured(answer)
}

fn admit(console: &Console, peer: &Peer, request: &Request) -> Result<Visitor, Failure> {
    let path: Arc<str> =
        format!("{} {}{}", request.method(), super::super::API, request.uri().path()).into();
    let Some(gate) = &console.gate else {
        from_this_machine(peer, request.headers())
            .map_err(|text| Failure::new(Code::PermissionDenied, text))?;
        return headed(request).map(|()| Visitor { admitted: None, path });
    };
    headed(request)?;
    let Some(admitted) = gate.admit(peer, request.headers()) else {
        gate.note_stranger(&path, None);
        return Err(Failure::new(Code::Unauthenticated, UNAUTHENTICATED));
    };
    Ok(Visitor { admitted: Some(admitted), path })
}

fn headed(request: &Request) -> Result<(), Failure> {
    match request.headers().contains_key(HEADER) {
        true => Ok(()),
        false => {
            let text = format!("send the header {HEADER} with any value");
            Err(Failure::new(Code::PermissionDenied, text))
        }
    }
}

/// Passes a request of a page on if it comes from this machine, or if strangers can sign in: the pages
/// hold no data.
pub(in super::super) async fn check_place(
    State(console): State<Arc<Console>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let refused = match &console.gate {
        Some(_) => None,
        None => from_this_machine(&peer, request.headers()).err(),
    };
    match refused {
        None => next.run(request).await,
        Some(text) => secured((StatusCode::FORBIDDEN, format!("{text}\n")).into_response()),
    }
}

/// Refuses a request whose sender may be on another machine, with what helps.
fn from_this_machine(peer: &Peer, headers: &HeaderMap) -> Result<(), &'static str> {
    match Origin::of(peer, headers) {
        Origin::ThisMachine => Ok(()),
        Origin::Beyond => Err(BEYOND),
        Origin::Proxy => Err(BY_PROXY),
    }
}
