//! Policies: what an identity may do, by permissions of Google's names on resources of Google's names.
//!
//! `roles.rs` lists the permissions and the prebuilt roles, `file.rs` reads the file of a policy.
//!
//! Invariants:
//! 1. What no binding allows is not allowed.
//! 2. A binding of a resource holds for what lies below it: one of an instance for its tables.
//! 3. A binding with families allows reads and mutations of cells in those families, and nothing else.

mod file;
mod roles;

pub use roles::{is_permission, role};

use crate::Result;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Resource of a binding that stands for everything, the server itself included.
pub const EVERYTHING: &str = "*";
/// Member who is everybody that the server knows.
pub const EVERYBODY: &str = "allAuthenticatedUsers";
/// Permissions that can be given for single families.
const OF_FAMILIES: [&str; 2] = ["bigtable.tables.readRows", "bigtable.tables.mutateRows"];

/// Part of a permission that an identity has on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Everything that the permission says.
    Everything,
    /// As much of it as concerns these families.
    Families(BTreeSet<String>),
    /// No part of the permission.
    Nothing,
}

/// A role that members have on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Name of the role, such as `roles/bigtable.reader`.
    pub role: String,
    /// Names of identities, or [`EVERYBODY`].
    pub members: Vec<String>,
    /// Name of a project, an instance, a table and so on, or [`EVERYTHING`].
    pub resource: String,
    /// Families that it is limited to; none for no limit.
    pub families: Vec<String>,
}

/// Everything that identities may do.
#[derive(Debug)]
pub struct Policy {
    bindings: Vec<Binding>,
    by_member: HashMap<String, Vec<Grant>>,
    etag: Vec<u8>,
}

/// A binding as one of its members has it.
#[derive(Debug, Clone)]
struct Grant {
    permissions: Permissions,
    resource: String,
    families: Vec<String>,
}

type Permissions = Arc<BTreeSet<String>>;

impl Policy {
    /// Reads the file of a policy.
    pub fn load(path: &Path) -> Result<Self> {
        file::load(path)
    }

    fn new(bindings: Vec<(Binding, Permissions)>, etag: Vec<u8>) -> Self {
        let mut by_member: HashMap<String, Vec<Grant>> = HashMap::new();
        for (binding, permissions) in &bindings {
            for member in &binding.members {
                by_member.entry(member.clone()).or_default().push(Grant {
                    permissions: Arc::clone(permissions),
                    resource: binding.resource.clone(),
                    families: binding.families.clone(),
                });
            }
        }
        let bindings = bindings.into_iter().map(|(binding, _)| binding).collect();
        Self { bindings, by_member, etag }
    }

    /// Returns what `identity` may do with `resource`.
    pub fn allowed(&self, identity: &str, permission: &str, resource: &str) -> Allowed {
        let mut families = BTreeSet::new();
        for member in [identity, EVERYBODY] {
            let grants = self.by_member.get(member).into_iter().flatten();
            for grant in grants.filter(|grant| grant.covers(permission, resource)) {
                if grant.families.is_empty() {
                    return Allowed::Everything;
                }
                families.extend(grant.families.iter().cloned());
            }
        }
        if families.is_empty() { Allowed::Nothing } else { Allowed::Families(families) }
    }

    /// Returns the bindings of `resource` itself, without the bindings of what it lies in.
    pub fn bindings<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Binding> {
        self.bindings.iter().filter(move |binding| binding.resource == resource)
    }

    /// Returns the version of the policy, which changes with its file.
    pub fn etag(&self) -> &[u8] {
        &self.etag
    }
}

impl Grant {
    fn covers(&self, permission: &str, resource: &str) -> bool {
        let of_families = self.families.is_empty() || OF_FAMILIES.contains(&permission);
        of_families && lies_in(resource, &self.resource) && self.permissions.contains(permission)
    }
}

/// Returns whether `resource` is `whole` or lies below it.
fn lies_in(resource: &str, whole: &str) -> bool {
    if whole == EVERYTHING {
        return true;
    }
    let rest = resource.strip_prefix(whole);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
