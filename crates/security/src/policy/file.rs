//! The file of a policy, in TOML.
//!
//! ```toml
//! [roles.loader]
//! permissions = ["bigtable.tables.mutateRows"]
//!
//! [[bindings]]
//! role = "roles/bigtable.reader"
//! members = ["cert:client", "token:ci", "serviceAccount:app@stele", "jwt:corp/ann"]
//! resource = "projects/p/instances/i/tables/t"
//! families = ["public"]
//! ```

use super::roles::{is_permission, role};
use super::{Binding, EVERYBODY, EVERYTHING, Permissions, Policy};
use crate::files;
use crate::{Error, Result};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Kinds of members that the server can know.
const KINDS: [&str; 4] = ["cert:", "token:", "serviceAccount:", "jwt:"];
/// Bytes of the hash that is the version of a policy.
const ETAG_BYTES: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parsed {
    #[serde(default)]
    roles: BTreeMap<String, OwnRole>,
    #[serde(default)]
    bindings: Vec<ParsedBinding>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnRole {
    permissions: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedBinding {
    role: String,
    members: Vec<String>,
    resource: String,
    #[serde(default)]
    families: Option<Vec<String>>,
}

/// Reads the file at `path`. An unknown role, permission, member or resource is an error.
pub(super) fn load(path: &Path) -> Result<Policy> {
    let bytes = files::read(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| Error::invalid(path, error))?;
    parse(text).map_err(|what| Error::invalid(path, what))
}

pub(super) fn parse(text: &str) -> std::result::Result<Policy, String> {
    let parsed: Parsed = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut own = BTreeMap::new();
    for (name, OwnRole { permissions }) in parsed.roles {
        if let Some(unknown) = permissions.iter().find(|name| !is_permission(name)) {
            return Err(format!("role {name}: unknown permission {unknown:?}"));
        }
        own.insert(name, Permissions::new(permissions.into_iter().collect()));
    }
    let bindings = parsed.bindings.into_iter().map(|binding| check(binding, &own));
    let bindings = bindings.collect::<std::result::Result<_, _>>()?;
    let hash = digest(&SHA256, text.as_bytes());
    Ok(Policy::new(bindings, hash.as_ref()[..ETAG_BYTES].to_vec()))
}

fn check(
    binding: ParsedBinding,
    own: &BTreeMap<String, Permissions>,
) -> std::result::Result<(Binding, Permissions), String> {
    let ParsedBinding { role: name, members, resource, families } = binding;
    let bare = name.strip_prefix("roles/").unwrap_or(&name);
    let prebuilt = || role(bare).map(Permissions::new);
    let permissions = own.get(bare).cloned().or_else(prebuilt);
    let permissions = permissions.ok_or_else(|| format!("unknown role {name:?}"))?;
    if members.is_empty() {
        return Err(format!("a binding of the role {name} has no members"));
    }
    if let Some(unknown) = members.iter().find(|member| !is_member(member)) {
        return Err(format!(
            "unknown member {unknown:?}; use cert:NAME, token:NAME, serviceAccount:EMAIL, \
             jwt:ISSUER/SUBJECT or {EVERYBODY}"
        ));
    }
    if !is_resource(&resource) {
        return Err(format!(
            "unknown resource {resource:?}; use {EVERYTHING}, projects/P, projects/P/instances/I, \
             projects/P/instances/I/tables/T and what lies below"
        ));
    }
    let families = match families {
        Some(families) if families.is_empty() => {
            return Err(format!("a binding of the role {name} has an empty list of families"));
        }
        Some(_) if !is_table(&resource) => {
            return Err(format!("families need the resource of a table, not {resource:?}"));
        }
        families => families.unwrap_or_default(),
    };
    let role = format!("roles/{bare}");
    Ok((Binding { role, members, resource, families }, permissions))
}

fn is_member(member: &str) -> bool {
    let named = |kind: &&str| member.strip_prefix(*kind).is_some_and(|name| !name.is_empty());
    member == EVERYBODY || KINDS.iter().any(named)
}

/// Returns whether a name is made of pairs, the first of which names a project.
fn is_resource(name: &str) -> bool {
    let parts: Vec<_> = name.split('/').collect();
    name == EVERYTHING
        || parts.len() % 2 == 0
            && parts[0] == "projects"
            && parts.iter().all(|part| !part.is_empty())
}

fn is_table(name: &str) -> bool {
    let parts: Vec<_> = name.split('/').collect();
    matches!(parts[..], ["projects", _, "instances", _, "tables", _])
}
