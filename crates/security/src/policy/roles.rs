//! Permissions and prebuilt roles, by the names that Google gives them, and permissions on the server itself.

use std::collections::BTreeSet;

/// Resources of Bigtable, and what may be done with each: its permissions are `bigtable.RESOURCE.VERB`.
const BIGTABLE: [(&str, &[&str]); 14] = [
    ("appProfiles", &["create", "delete", "get", "list", "update"]),
    (
        "authorizedViews",
        &[
            "create",
            "delete",
            "get",
            "getIamPolicy",
            "list",
            "mutateRows",
            "readRows",
            "sampleRowKeys",
            "setIamPolicy",
            "update",
        ],
    ),
    (
        "backups",
        &[
            "create",
            "delete",
            "get",
            "getIamPolicy",
            "list",
            "read",
            "restore",
            "setIamPolicy",
            "update",
        ],
    ),
    ("clusters", &["create", "delete", "get", "list", "update"]),
    ("hotTablets", &["list"]),
    (
        "instances",
        &[
            "create",
            "delete",
            "executeQuery",
            "get",
            "getIamPolicy",
            "list",
            "ping",
            "setIamPolicy",
            "update",
        ],
    ),
    ("keyvisualizer", &["get", "list"]),
    ("locations", &["list"]),
    (
        "logicalViews",
        &["create", "delete", "get", "getIamPolicy", "list", "readRows", "setIamPolicy", "update"],
    ),
    (
        "materializedViews",
        &[
            "create",
            "delete",
            "get",
            "getIamPolicy",
            "list",
            "readRows",
            "sampleRowKeys",
            "setIamPolicy",
            "update",
        ],
    ),
    ("memoryLayers", &["get", "list", "update"]),
    ("operations", &["cancel", "delete", "get", "list"]),
    (
        "schemaBundles",
        &["create", "delete", "get", "getIamPolicy", "list", "setIamPolicy", "update"],
    ),
    (
        "tables",
        &[
            "checkConsistency",
            "create",
            "delete",
            "generateConsistencyToken",
            "get",
            "getIamPolicy",
            "list",
            "mutateRows",
            "readRows",
            "sampleRowKeys",
            "setIamPolicy",
            "undelete",
            "update",
        ],
    ),
];
/// Permissions on the server itself, which only bindings of everything give.
const SERVER: [&str; 5] = [
    "stele.checkpoints.create",
    "stele.compactions.get",
    "stele.compactions.update",
    "stele.metrics.get",
    "stele.profiles.create",
];
/// Permissions on the tables of SQL in the console, which only bindings of everything give too: their
/// names, columns and sizes, and their rows. PostgreSQL clients have the privileges of their roles instead.
const SQL: [&str; 2] = ["stele.sqlTables.list", "stele.sqlTables.readRows"];
/// Verbs of the role `bigtable.viewer`, which sees no data.
const VIEW: [&str; 4] = ["checkConsistency", "generateConsistencyToken", "get", "list"];
/// Verbs that `bigtable.reader` has beside them.
const READ: [&str; 4] = ["executeQuery", "ping", "readRows", "sampleRowKeys"];
/// Verb that `bigtable.user` has beside them.
const WRITE: &str = "mutateRows";

/// Returns whether a permission has this name.
pub fn is_permission(name: &str) -> bool {
    SERVER.contains(&name) || SQL.contains(&name) || bigtable(|_| true).any(|known| known == name)
}

/// Returns the permissions of a prebuilt role, whose name comes without `roles/`.
pub fn role(name: &str) -> Option<BTreeSet<String>> {
    let views = |verb: &str| VIEW.contains(&verb);
    let reads = |verb: &str| VIEW.contains(&verb) || READ.contains(&verb);
    Some(match name {
        "bigtable.admin" => bigtable(|_| true).collect(),
        "bigtable.user" => bigtable(|verb| reads(verb) || verb == WRITE).collect(),
        "bigtable.reader" => bigtable(reads).collect(),
        "bigtable.viewer" => bigtable(views).collect(),
        "stele.operator" => SERVER.map(str::to_owned).into(),
        "stele.monitor" => {
            let sees = SERVER.iter().filter(|name| name.ends_with(".get"));
            sees.map(|name| (*name).to_owned()).collect()
        }
        "stele.sqlViewer" => [SQL[0].to_owned()].into(),
        "stele.sqlReader" => SQL.map(str::to_owned).into(),
        _ => return None,
    })
}

/// Returns the permissions of Bigtable with these verbs.
fn bigtable(wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = String> {
    BIGTABLE.into_iter().flat_map(move |(resource, verbs)| {
        let verbs: Vec<_> = verbs.iter().filter(|verb| wanted(verb)).collect();
        verbs.into_iter().map(move |verb| format!("bigtable.{resource}.{verb}"))
    })
}
