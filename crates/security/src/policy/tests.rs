use super::file::parse;
use super::*;

const TABLE: &str = "projects/p/instances/i/tables/t";

fn policy(text: &str) -> Policy {
    parse(text).unwrap()
}

fn families(names: &[&str]) -> Allowed {
    Allowed::Families(names.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_binding_holds_for_its_resource_and_what_lies_below() {
    let policy = policy(
        "[[bindings]]\nrole = 'roles/bigtable.reader'\nmembers = ['token:a']\n\
         resource = 'projects/p/instances/i'\n",
    );
    let read = "bigtable.tables.readRows";
    for (resource, allowed) in [
        ("projects/p/instances/i", true),
        (TABLE, true),
        ("projects/p/instances/i/tables/t/authorizedViews/v", true),
        ("projects/p", false),
        ("projects/p/instances/ii", false),
        ("projects/p/instances/ii/tables/t", false),
        ("projects/q/instances/i/tables/t", false),
        ("", false),
    ] {
        let got = policy.allowed("token:a", read, resource);
        assert_eq!(got == Allowed::Everything, allowed, "{resource}");
        assert_eq!(policy.allowed("token:b", read, resource), Allowed::Nothing);
    }
    let write = policy.allowed("token:a", "bigtable.tables.mutateRows", TABLE);
    assert_eq!(write, Allowed::Nothing);
}

#[test]
fn bindings_add_up_and_families_limit_reads_and_writes_alone() {
    let limited = |member: &str, family: &str| {
        format!(
            "[[bindings]]\nrole = 'bigtable.admin'\nmembers = ['{member}']\n\
             resource = '{TABLE}'\nfamilies = ['{family}']\n"
        )
    };
    let both = policy(&(limited("token:a", "x") + &limited(EVERYBODY, "y")));
    for permission in OF_FAMILIES {
        assert_eq!(both.allowed("token:a", permission, TABLE), families(&["x", "y"]));
        assert_eq!(both.allowed("jwt:corp/ann", permission, TABLE), families(&["y"]));
    }
    for permission in ["bigtable.tables.delete", "bigtable.tables.sampleRowKeys"] {
        assert_eq!(both.allowed("token:a", permission, TABLE), Allowed::Nothing, "{permission}");
    }
    let whole = format!(
        "[[bindings]]\nrole = 'bigtable.reader'\nmembers = ['token:a']\nresource = '{EVERYTHING}'\n"
    );
    let more = policy(&(limited("token:a", "x") + &whole));
    assert_eq!(more.allowed("token:a", OF_FAMILIES[0], TABLE), Allowed::Everything);
    assert_eq!(more.allowed("token:a", OF_FAMILIES[1], TABLE), families(&["x"]));
}

#[test]
fn prebuilt_roles_allow_what_they_do_at_google() {
    for (name, permission, has) in [
        ("bigtable.viewer", "bigtable.tables.get", true),
        ("bigtable.viewer", "bigtable.tables.readRows", false),
        ("bigtable.reader", "bigtable.tables.readRows", true),
        ("bigtable.reader", "bigtable.instances.ping", true),
        ("bigtable.reader", "bigtable.tables.mutateRows", false),
        ("bigtable.reader", "bigtable.tables.getIamPolicy", false),
        ("bigtable.user", "bigtable.tables.mutateRows", true),
        ("bigtable.user", "bigtable.tables.create", false),
        ("bigtable.user", "bigtable.tables.setIamPolicy", false),
        ("bigtable.admin", "bigtable.tables.create", true),
        ("bigtable.admin", "bigtable.backups.restore", true),
        ("bigtable.admin", "stele.checkpoints.create", false),
        ("stele.operator", "stele.checkpoints.create", true),
        ("stele.operator", "stele.profiles.create", true),
        ("stele.operator", "stele.sqlTables.list", false),
        ("stele.sqlViewer", "stele.sqlTables.list", true),
        ("stele.sqlViewer", "stele.sqlTables.readRows", false),
        ("stele.sqlReader", "stele.sqlTables.list", true),
        ("stele.sqlReader", "stele.sqlTables.readRows", true),
        ("bigtable.admin", "stele.sqlTables.readRows", false),
        ("stele.monitor", "stele.metrics.get", true),
        ("stele.monitor", "stele.profiles.create", false),
        ("stele.monitor", "stele.compactions.update", false),
    ] {
        assert!(is_permission(permission), "{permission}");
        assert_eq!(role(name).unwrap().contains(permission), has, "{name} {permission}");
    }
    assert_eq!(role("bigtable.owner"), None);
    assert!(!is_permission("bigtable.*"));
}

#[test]
fn own_roles_have_the_permissions_that_they_list() {
    let policy = policy(&format!(
        "[roles.loader]\npermissions = ['bigtable.tables.mutateRows']\n\
         [[bindings]]\nrole = 'loader'\nmembers = ['cert:x']\nresource = '{TABLE}'\n"
    ));
    assert_eq!(policy.allowed("cert:x", OF_FAMILIES[1], TABLE), Allowed::Everything);
    assert_eq!(policy.allowed("cert:x", OF_FAMILIES[0], TABLE), Allowed::Nothing);
    let bindings: Vec<_> = policy.bindings(TABLE).collect();
    assert_eq!(bindings.len(), 1);
    assert_eq!(bindings[0].role, "roles/loader");
    assert_eq!(policy.bindings("projects/p/instances/i").count(), 0);
    assert_eq!(policy.etag().len(), 8);
}

#[test]
fn mistakes_are_refused_by_name() {
    let binding = |role: &str, member: &str, resource: &str, more: &str| {
        format!(
            "[[bindings]]\nrole = '{role}'\nmembers = ['{member}']\nresource = '{resource}'\n{more}"
        )
    };
    let reader = "bigtable.reader";
    for (text, said) in [
        (binding("reader", "token:a", TABLE, ""), "unknown role \"reader\""),
        (binding(reader, "ann", TABLE, ""), "unknown member \"ann\""),
        (binding(reader, "token:", TABLE, ""), "unknown member \"token:\""),
        (binding(reader, "allUsers", TABLE, ""), "unknown member \"allUsers\""),
        (binding(reader, "token:a", "instances/i", ""), "unknown resource"),
        (binding(reader, "token:a", "projects/p/instances", ""), "unknown resource"),
        (binding(reader, "token:a", "projects//instances/i", ""), "unknown resource"),
        (binding(reader, "token:a", TABLE, "families = []"), "empty list of families"),
        (
            binding(reader, "token:a", "projects/p", "families = ['f']"),
            "need the resource of a table",
        ),
        (binding(reader, "token:a", TABLE, "family = 'f'"), "unknown field"),
        ("[roles.x]\npermissions = ['bigtable.tables.read']\n".into(), "unknown permission"),
        (format!("[[bindings]]\nrole = '{reader}'\nmembers = []\nresource = '*'\n"), "no members"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    assert!(policy("").bindings(EVERYTHING).next().is_none());
}
