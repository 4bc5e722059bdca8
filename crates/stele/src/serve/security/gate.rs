//! The gate: who calls, by certificate or token, and what the policy allows.
//!
//! Invariants:
//! 1. A request that shows a token is judged by the token alone: a wrong one is not made good by the
//!    certificate of its connection.
//! 2. A call is judged by one policy from its beginning to its end.

use super::audit::Audit;
use crate::serve::connections::Peer;
use crate::serve::request_id::RequestId;
use arc_swap::{ArcSwap, ArcSwapOption};
use base::env::{Clock, SystemClock};
use security::identity::{AccessToken, Identities, Refusal};
use security::policy::{self, Policy};
use std::sync::Arc;
use tonic::Code;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::AUTHORIZATION;

/// Header in which Google's libraries send API keys; here it holds a static token.
const API_KEY: &str = "x-goog-api-key";
/// Name of the grant of an access token in the audit log.
const GRANT: &str = "POST /token";
/// Answer to every request without good credentials, whatever is wrong with them.
pub(crate) const UNAUTHENTICATED: &str = "the request has no valid credentials: a client certificate, or a token in the header \
     authorization";

/// The gate of a server that authenticates its clients.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(super) identities: Option<ArcSwap<Identities>>,
    /// No policy lets every identity do everything.
    pub(super) policy: ArcSwapOption<Policy>,
    pub(super) audit: Audit,
}

/// A caller whom the gate let in.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    gate: Arc<Gate>,
    name: Arc<str>,
    policy: Option<Arc<Policy>>,
    /// Id of the request, if it has one.
    request: Option<RequestId>,
}

impl Gate {
    /// Returns who sent a request with these headers by a connection of `peer`.
    pub(crate) fn admit(self: &Arc<Self>, peer: &Peer, headers: &HeaderMap) -> Option<Admitted> {
        let name = match self.token(headers) {
            Some(token) => self.identify(token)?,
            None => peer.identity.clone()?,
        };
        let policy = self.policy.load_full();
        Some(Admitted { gate: Arc::clone(self), name, policy, request: None })
    }

    /// Returns the token that a request shows; one that is no text counts as an empty one.
    fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        if let Some(value) = headers.get(AUTHORIZATION) {
            let text = value.to_str().unwrap_or_default();
            let (scheme, token) = text.split_once(' ').unwrap_or_default();
            return Some(if scheme.eq_ignore_ascii_case("bearer") { token.trim() } else { "" });
        }
        headers.get(API_KEY).map(|value| value.to_str().unwrap_or_default())
    }

    fn identify(&self, token: &str) -> Option<Arc<str>> {
        let identities = self.identities.as_ref()?.load();
        let now = SystemClock.now_micros() / 1_000_000;
        identities
            .identify(token, now)
            .inspect_err(|why| tracing::debug!(?why, "refused a token"))
            .ok()
    }

    /// Gives an access token for an assertion.
    pub(crate) fn grant(&self, assertion: &str) -> Result<AccessToken, Refusal> {
        let granted = match &self.identities {
            Some(identities) => {
                identities.load().grant(assertion, SystemClock.now_micros() / 1_000_000)
            }
            None => Err(Refusal::Unknown),
        };
        match &granted {
            Ok(given) => self.audit.note(&given.name, GRANT, "", Code::Ok, None),
            Err(_) => self.note_stranger(GRANT, None),
        }
        granted
    }

    /// Waits until the notes of all calls that have ended are written.
    pub(crate) async fn flush(&self) {
        self.audit.flush().await;
    }

    /// Notes a request of an unknown caller.
    pub(crate) fn note_stranger(&self, method: &str, request: Option<&RequestId>) {
        self.audit.note("", method, "", Code::Unauthenticated, request);
    }
}

impl Admitted {
    /// Returns whether the policy gives a permission on the server itself.
    pub(crate) fn may(&self, permission: &str) -> bool {
        self.on(permission, policy::EVERYTHING) == policy::Allowed::Everything
    }

    /// Returns whether a policy says what the caller may do. Without one every identity may do everything.
    #[cfg(feature = "sql")]
    pub(crate) fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    fn on(&self, permission: &str, resource: &str) -> policy::Allowed {
        match &self.policy {
            None => policy::Allowed::Everything,
            Some(policy) => policy.allowed(&self.name, permission, resource),
        }
    }

    /// Returns the same caller, of the request with this id.
    pub(super) fn with_request(self, id: RequestId) -> Self {
        Self { request: Some(id), ..self }
    }

    /// Returns the name of the identity.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Notes a call of the HTTP side.
    pub(crate) fn note(&self, method: &str, code: Code) {
        self.gate.audit.note(&self.name, method, "", code, self.request.as_ref());
    }
}

impl bigtable::Caller for Admitted {
    fn name(&self) -> &str {
        &self.name
    }

    fn allowed(&self, permission: &str, resource: &str) -> bigtable::Allowed {
        match self.on(permission, resource) {
            policy::Allowed::Everything => bigtable::Allowed::Everything,
            policy::Allowed::Families(families) => bigtable::Allowed::Families(families),
            policy::Allowed::Nothing => bigtable::Allowed::Nothing,
        }
    }

    fn is_permission(&self, name: &str) -> bool {
        policy::is_permission(name)
    }

    fn policy(&self, resource: &str) -> bigtable::ResourcePolicy {
        let Some(policy) = &self.policy else { return bigtable::ResourcePolicy::default() };
        let bindings = policy.bindings(resource).map(|binding| bigtable::RoleBinding {
            role: binding.role.clone(),
            members: binding.members.clone(),
            families: binding.families.clone(),
        });
        bigtable::ResourcePolicy { bindings: bindings.collect(), etag: policy.etag().to_vec() }
    }

    fn note(&self, call: &bigtable::EndedCall<'_>) {
        let (method, resource, request) = (call.method, call.resource, self.request.as_ref());
        self.gate.audit.note(&self.name, method, resource, call.code, request);
    }
}

#[cfg(test)]
mod tests;
