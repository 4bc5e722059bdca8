//! Callers: who makes a call and what they may do, as the server that mounts the services says.

use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::Code;

/// Sender of requests. A server puts one as a [`CallerHandle`] into the extensions of each request to
/// services that know their callers ([`Callers::Named`](crate::Callers::Named)).
pub trait Caller: Send + Sync {
    /// Returns the name of the identity, for messages.
    fn name(&self) -> &str;

    /// Returns what the caller may do with `resource`, a full name such as
    /// `projects/P/instances/I/tables/T`. Permissions have the names of Google's IAM.
    fn allowed(&self, permission: &str, resource: &str) -> Allowed;

    /// Returns whether a permission has this name.
    fn is_permission(&self, name: &str) -> bool;

    /// Returns the roles that are bound to the resource itself.
    fn policy(&self, resource: &str) -> ResourcePolicy;

    /// Takes note of a call that was refused, or of one that administers and has ended.
    fn note(&self, call: &EndedCall<'_>);
}

/// A caller as requests carry it.
#[derive(Clone)]
pub struct CallerHandle(pub Arc<dyn Caller>);

/// Part of a permission that a caller has on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Everything that the permission says.
    Everything,
    /// As much of it as concerns these families.
    Families(BTreeSet<String>),
    /// No part of the permission.
    Nothing,
}

/// Roles that are bound to a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePolicy {
    /// The roles with their members.
    pub bindings: Vec<RoleBinding>,
    /// Version, which changes with the policy.
    pub etag: Vec<u8>,
}

/// A role with its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleBinding {
    /// Name of the role, such as `roles/bigtable.reader`.
    pub role: String,
    /// Names of identities that have it.
    pub members: Vec<String>,
    /// Families that the binding is limited to; none for no limit.
    pub families: Vec<String>,
}

/// A call and its end.
#[derive(Debug, Clone, Copy)]
pub struct EndedCall<'a> {
    /// Path of the called method.
    pub method: &'a str,
    /// Full name of the resource; as the client wrote it.
    pub resource: &'a str,
    /// Code that the call ended with.
    pub code: Code,
}
