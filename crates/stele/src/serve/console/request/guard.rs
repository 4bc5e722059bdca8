//! The check of each request: its sender and permissions.
//!
//! Invariants:
//! 1. A server that knows no identities answers connections of its own machine only, and none that a
//!    proxy passes on: its clients may be anywhere.
//! 2. A server that knows identities answers requests of the API that show one. The policy is asked
//!    for each permission, as for the same request by gRPC.
//! 3. Each request of the API has the header [`HEADER`]. A browser sends it to another origin only
//!    after a preflight request, which is never answered.

use super::super::super::connections::Peer;
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
/// Headers by which a proxy tells of itself or of its client.
const OF_PROXIES: [&str; 6] =
    ["forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"];
const OF_PROXIES_BEGIN: &str = "x-forwarded";

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

    fn refused(&self, permission: &str, resource: &str) -> Failure {
        if let Some(admitted) = &self.admitted {
            let (method, code) = (&*self.path, Code::PermissionDenied);
            Caller::note(admitted, &EndedCall { method, resource, code });
        }
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
    let of_proxy = |name: &str| OF_PROXIES.contains(&name) || name.starts_with(OF_PROXIES_BEGIN);
    if !is_of_this_machine(peer) {
        Err(BEYOND)
    } else if headers.keys().any(|name| of_proxy(name.as_str())) {
        Err(BY_PROXY)
    } else {
        Ok(())
    }
}

/// Returns whether a connection comes from this machine. One of unknown origin counts as from beyond.
fn is_of_this_machine(peer: &Peer) -> bool {
    peer.address.is_some_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        for (address, want) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("fe80::1", false),
        ] {
            let peer = Peer { address: Some(address.parse().unwrap()), ..Peer::default() };
            assert_eq!(is_of_this_machine(&peer), want, "{address}");
        }
        assert!(!is_of_this_machine(&Peer::default()));
    }
}
