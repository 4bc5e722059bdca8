//! Resource names: `projects/P/instances/I[/tables/T | /clusters/C]`, taken apart and checked.
//!
//! Any project and instance name is accepted without being created first, as clients expect of
//! an endpoint reached through `BIGTABLE_EMULATOR_HOST`. The full table name is the store's name
//! of the table, so tables of different instances never meet.

use std::fmt;
use table::{Error, Result, TableName};

/// Longest project, instance or cluster id taken; real ones are shorter.
const ID_BYTES_MAX: usize = 128;
/// Longest id of a new app profile, view or backup.
const RESOURCE_ID_BYTES_MAX: usize = 50;

/// `projects/P/instances/I`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InstanceName<'a> {
    pub(crate) project: &'a str,
    pub(crate) instance: &'a str,
}

impl fmt::Display for InstanceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "projects/{}/instances/{}", self.project, self.instance)
    }
}

/// The project of `projects/P`, which the request has in `field`.
pub(crate) fn project<'a>(field: &'static str, name: &'a str) -> Result<&'a str> {
    match split(name) {
        Some(["projects", project]) if is_id(project) => Ok(project),
        _ => Err(malformed(field, name, "projects/PROJECT")),
    }
}

/// Project and instance of `projects/P/instances/I`.
pub(crate) fn instance<'a>(field: &'static str, name: &'a str) -> Result<InstanceName<'a>> {
    match split(name) {
        Some(["projects", project, "instances", instance]) if is_id(project) && is_id(instance) => {
            Ok(InstanceName { project, instance })
        }
        _ => Err(malformed(field, name, "projects/PROJECT/instances/INSTANCE")),
    }
}

/// The table `projects/P/instances/I/tables/T`. Names that are refused here are those of no table of a
/// server.
pub fn table(field: &'static str, name: &str) -> Result<TableName> {
    match split(name) {
        Some(["projects", project, "instances", instance, "tables", _])
            if is_id(project) && is_id(instance) =>
        {
            TableName::new(name).map_err(|error| at(field, error))
        }
        _ => Err(malformed(field, name, "projects/PROJECT/instances/INSTANCE/tables/TABLE")),
    }
}

/// Returns the name below which a request lists operations: `operations/RESOURCE`, which may stand there with
/// `/operations` behind it. A resource that is called `operations` keeps its name.
pub(crate) fn operations_parent(name: &str) -> &str {
    // Names of resources have pairs of parts.
    let is_whole = |parent: &&str| parent.split('/').count() % 2 == 1;
    name.strip_suffix("/operations").filter(is_whole).unwrap_or(name)
}

/// Instance and cluster id of `projects/P/instances/I/clusters/C`.
pub(crate) fn cluster<'a>(
    field: &'static str,
    name: &'a str,
) -> Result<(InstanceName<'a>, &'a str)> {
    match split(name) {
        Some(["projects", project, "instances", instance, "clusters", cluster])
            if is_id(project) && is_id(instance) && is_id(cluster) =>
        {
            Ok((InstanceName { project, instance }, cluster))
        }
        _ => Err(malformed(field, name, "projects/PROJECT/instances/INSTANCE/clusters/CLUSTER")),
    }
}

/// Instance and profile id of `projects/P/instances/I/appProfiles/A`.
pub(crate) fn app_profile<'a>(
    field: &'static str,
    name: &'a str,
) -> Result<(InstanceName<'a>, &'a str)> {
    match split(name) {
        Some(["projects", project, "instances", instance, "appProfiles", profile])
            if is_id(project) && is_id(instance) && is_id(profile) =>
        {
            Ok((InstanceName { project, instance }, profile))
        }
        _ => Err(malformed(field, name, "projects/PROJECT/instances/INSTANCE/appProfiles/PROFILE")),
    }
}

/// Instance and cluster id of `projects/P/instances/I/clusters/C/backups/B`.
pub(crate) fn backup<'a>(
    field: &'static str,
    name: &'a str,
) -> Result<(InstanceName<'a>, &'a str)> {
    match name.rsplit_once("/backups/") {
        Some((parent, backup)) if is_id(backup) => cluster(field, parent),
        _ => Err(malformed(
            field,
            name,
            "projects/PROJECT/instances/INSTANCE/clusters/CLUSTER/backups/BACKUP",
        )),
    }
}

/// Table and view id of `projects/P/instances/I/tables/T/authorizedViews/V`.
pub(crate) fn authorized_view<'a>(
    field: &'static str,
    name: &'a str,
) -> Result<(TableName, &'a str)> {
    match name.rsplit_once("/authorizedViews/") {
        Some((table_name, view)) if is_id(view) => Ok((table(field, table_name)?, view)),
        _ => Err(malformed(
            field,
            name,
            "projects/PROJECT/instances/INSTANCE/tables/TABLE/authorizedViews/VIEW",
        )),
    }
}

/// Refuses a location that is not of the form `projects/P/locations/L`.
pub(crate) fn check_location(field: &'static str, name: &str) -> Result<()> {
    match split(name) {
        Some(["projects", project, "locations", location]) if is_id(project) && is_id(location) => {
            Ok(())
        }
        _ => Err(malformed(field, name, "projects/PROJECT/locations/ZONE")),
    }
}

/// Refuses the id of a new instance or cluster: a lower-case letter, then up to `max` - 1 of
/// `[a-z0-9-]`, not ending with a hyphen.
pub(crate) fn check_new_id(field: &'static str, id: &str, max: usize) -> Result<()> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let first = id.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if first && id.len() <= max && id.bytes().all(inner) && !id.ends_with('-') {
        return Ok(());
    }
    let rule =
        format!("{} must match [a-z]([-a-z0-9]*[a-z0-9])? and have at most {max} bytes", shown(id));
    Err(Error::invalid(field, rule))
}

/// Refuses the id of a new app profile, view or backup: 1 to 50 of `[-_.a-zA-Z0-9]`, beginning with
/// a letter, a digit or an underscore.
pub(crate) fn check_resource_id(field: &'static str, id: &str) -> Result<()> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let first = id.bytes().next().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    if first && id.len() <= RESOURCE_ID_BYTES_MAX && id.bytes().all(inner) {
        return Ok(());
    }
    let max = RESOURCE_ID_BYTES_MAX;
    let rule = format!(
        "{} must match [_a-zA-Z0-9][-_.a-zA-Z0-9]* and have at most {max} bytes",
        shown(id)
    );
    Err(Error::invalid(field, rule))
}

/// The instance that a table's full name begins with, if it has the form of one.
pub(crate) fn instance_of(table: &TableName) -> Option<InstanceName<'_>> {
    match split(table.as_str()) {
        Some(["projects", project, "instances", instance, "tables", _]) => {
            Some(InstanceName { project, instance })
        }
        _ => None,
    }
}

fn split<const N: usize>(name: &str) -> Option<[&str; N]> {
    let mut parts = name.split('/');
    let mut out = [""; N];
    for part in &mut out {
        *part = parts.next()?;
    }
    parts.next().is_none().then_some(out)
}

/// Letters, digits and what occurs between them; `:` is of domain-scoped projects.
fn is_id(id: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
}

fn malformed(field: &'static str, name: &str, form: &str) -> Error {
    Error::invalid(field, format!("{} is not of the form {form}", shown(name)))
}

/// Returns a name from a request in a form that is safe to print.
pub(crate) fn shown(name: &str) -> String {
    let escaped: String = name.chars().take(200).flat_map(char::escape_debug).collect();
    format!("`{escaped}`")
}

/// The error, found in `field` of the request whatever the store calls it.
fn at(field: &'static str, error: Error) -> Error {
    match error {
        Error::InvalidArgument { message, .. } => Error::invalid(field, message),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_names_are_taken_apart() {
        let full = "projects/google.com:p/instances/i-1/tables/My_table.v2";
        let name = table("table_name", full).unwrap();
        assert_eq!(name.as_str(), full);
        let instance = InstanceName { project: "google.com:p", instance: "i-1" };
        assert_eq!(instance_of(&name), Some(instance));
    }

    #[test]
    fn malformed_names_are_refused_by_field() {
        let long = format!("projects/p/instances/i/tables/{}", "x".repeat(51));
        for name in [
            "",
            "t",
            "projects/p/instances/i/tables/",
            "projects/p/instances//tables/t",
            "projects/p/instances/i/tables/t/",
            "projects/p/instances/i/tables/-t",
            "projects/p/instances/i/tables/t t",
            "projects/p/instances/i/tables/t\0",
            "projects/p/instances/i/table/t",
            &long,
        ] {
            let error = table("table_name", name).unwrap_err();
            assert!(
                matches!(&error, Error::InvalidArgument { field, .. } if field == "table_name"),
                "{name}: {error}"
            );
        }
    }

    #[test]
    fn operations_are_listed_below_whole_resources() {
        for (name, parent) in [
            ("operations/projects/p", "operations/projects/p"),
            ("operations/projects/p/operations", "operations/projects/p"),
            (
                "operations/projects/p/instances/i/tables/t/operations",
                "operations/projects/p/instances/i/tables/t",
            ),
            // A table, and a project, that are called so.
            (
                "operations/projects/p/instances/i/tables/operations",
                "operations/projects/p/instances/i/tables/operations",
            ),
            ("operations/projects/operations", "operations/projects/operations"),
            ("operations/projects/operations/operations", "operations/projects/operations"),
        ] {
            assert_eq!(operations_parent(name), parent, "{name}");
        }
    }
}
