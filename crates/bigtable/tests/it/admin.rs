//! Table admin, instance admin and operations.

use crate::harness::{Clients, INSTANCE, TABLE, aggregate, create_table, empty, set, with_table};
use admin::drop_row_range_request::Target;
use admin::gc_rule::{Intersection, Rule, Union};
use admin::modify_column_families_request::Modification;
use admin::modify_column_families_request::modification::Mod;
use admin::table::View;
use admin::r#type::aggregate::Aggregator;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_longrunning::google::longrunning as lro;
use prost::Message;
use tonic::{Code, Status};

fn rule(rule: Rule) -> admin::GcRule {
    admin::GcRule { rule: Some(rule) }
}

fn with_gc(gc: Rule) -> admin::ColumnFamily {
    admin::ColumnFamily { gc_rule: Some(rule(gc)), ..Default::default() }
}

fn age(seconds: i64) -> Rule {
    Rule::MaxAge(prost_types::Duration { seconds, nanos: 0 })
}

async fn get(t: &mut Clients, view: View) -> admin::Table {
    let request = admin::GetTableRequest { name: TABLE.into(), view: view as i32 };
    t.tables.get_table(request).await.unwrap().into_inner()
}

async fn modify(t: &mut Clients, modifications: Vec<(&str, Mod)>) -> Result<admin::Table, Status> {
    let modifications = modifications.into_iter().map(|(id, change)| Modification {
        id: id.into(),
        r#mod: Some(change),
        ..Default::default()
    });
    let request = admin::ModifyColumnFamiliesRequest {
        name: TABLE.into(),
        modifications: modifications.collect(),
        ..Default::default()
    };
    t.tables.modify_column_families(request).await.map(tonic::Response::into_inner)
}

fn families(table: &admin::Table) -> Vec<&str> {
    table.column_families.keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_table_is_as_it_was_created() {
    let mut t = empty().await;
    let both = Rule::Intersection(Intersection {
        rules: vec![rule(Rule::MaxNumVersions(2)), rule(age(60))],
    });
    let nested = Rule::Union(Union { rules: vec![rule(both.clone()), rule(age(3_600))] });
    let mut request = create_table(
        "t",
        [
            ("keep", admin::ColumnFamily::default()),
            ("versions", with_gc(Rule::MaxNumVersions(3))),
            ("nested", with_gc(nested.clone())),
            ("top", aggregate(Aggregator::Max(Default::default()))),
        ],
    );
    request.initial_splits =
        ["m", "c", "m"].map(|key| admin::create_table_request::Split { key: key.into() }).into();
    let created = t.tables.create_table(request.clone()).await.unwrap().into_inner();
    assert_eq!(created.name, TABLE);

    let table = get(&mut t, View::Unspecified).await;
    assert_eq!(families(&table), ["keep", "nested", "top", "versions"]);
    assert_eq!(table.column_families["versions"], with_gc(Rule::MaxNumVersions(3)));
    assert_eq!(table.column_families["nested"], with_gc(nested));
    assert_eq!(table.column_families["keep"], admin::ColumnFamily::default());
    let Some(admin::r#type::Kind::AggregateType(top)) =
        table.column_families["top"].value_type.clone().unwrap().kind
    else {
        panic!("not an aggregate")
    };
    assert_eq!(top.aggregator, Some(Aggregator::Max(Default::default())));

    let only_name = get(&mut t, View::NameOnly).await;
    assert_eq!((families(&only_name).len(), only_name.cluster_states.len()), (0, 0));
    let replicas = get(&mut t, View::ReplicationView).await;
    assert_eq!((families(&replicas).len(), replicas.cluster_states.len()), (0, 1));
    let full = get(&mut t, View::Full).await;
    assert_eq!((families(&full).len(), full.cluster_states.len()), (4, 1));

    let status = t.tables.create_table(request).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
}

#[tokio::test]
async fn wrong_tables_are_refused() {
    let mut t = empty().await;
    let request = |id: &str, family: &str, gc: Rule| create_table(id, [(family, with_gc(gc))]);
    let deep = (0..40)
        .fold(age(1), |inner, _| Rule::Union(Union { rules: vec![rule(inner), rule(age(1))] }));
    for (case, request, code) in [
        ("id", request("no/slash", "f", age(1)), Code::InvalidArgument),
        ("no id", request("", "f", age(1)), Code::InvalidArgument),
        ("family name", request("t", "no:colon", age(1)), Code::InvalidArgument),
        ("no versions", request("t", "f", Rule::MaxNumVersions(0)), Code::InvalidArgument),
        ("negative versions", request("t", "f", Rule::MaxNumVersions(-1)), Code::InvalidArgument),
        ("negative age", request("t", "f", age(-1)), Code::InvalidArgument),
        ("deep rule", request("t", "f", deep), Code::InvalidArgument),
        (
            "parent",
            admin::CreateTableRequest { parent: "projects/p".into(), ..Default::default() },
            Code::InvalidArgument,
        ),
    ] {
        let status = t.tables.create_table(request).await.expect_err(case);
        assert_eq!(status.code(), code, "{case}: {status}");
    }
}

#[tokio::test]
async fn tables_are_listed_by_instance_in_pages() {
    let mut t = empty().await;
    for id in ["c", "a", "b"] {
        t.tables.create_table(create_table(id, [("f", Default::default())])).await.unwrap();
    }
    for parent in ["projects/p/instances/i2", "projects/p2/instances/i"] {
        let other = admin::CreateTableRequest { parent: parent.into(), ..create_table("a", []) };
        t.tables.create_table(other).await.unwrap();
    }
    let mut names = Vec::new();
    let mut page_token = String::new();
    for want in [2, 1] {
        let request = admin::ListTablesRequest {
            parent: INSTANCE.into(),
            page_size: 2,
            page_token,
            ..Default::default()
        };
        let page = t.tables.list_tables(request).await.unwrap().into_inner();
        assert_eq!(page.tables.len(), want);
        names.extend(page.tables.into_iter().map(|table| table.name));
        page_token = page.next_page_token;
    }
    assert_eq!(page_token, "");
    assert_eq!(names, ["a", "b", "c"].map(|id| format!("{INSTANCE}/tables/{id}")));
}

#[tokio::test]
async fn family_changes_are_all_or_nothing() {
    let mut t = with_table().await;
    t.write("r", vec![set("f:q", 1000, b"f"), set("g:q", 1000, b"g")]).await;
    let before = get(&mut t, View::Full).await;
    for (case, changes, code) in [
        (
            "drop of an unknown family",
            vec![("new", Mod::Create(Default::default())), ("nowhere", Mod::Drop(true))],
            Code::NotFound,
        ),
        (
            "create of a known family",
            vec![("g", Mod::Drop(true)), ("f", Mod::Create(Default::default()))],
            Code::AlreadyExists,
        ),
        (
            "update of an unknown family",
            vec![("nowhere", Mod::Update(with_gc(age(1))))],
            Code::NotFound,
        ),
    ] {
        let status = modify(&mut t, changes).await.expect_err(case);
        assert_eq!(status.code(), code, "{case}: {status}");
        assert_eq!(get(&mut t, View::Full).await, before, "{case}");
    }
    let changes = vec![
        ("new", Mod::Create(Default::default())),
        ("g", Mod::Drop(true)),
        ("f", Mod::Update(with_gc(Rule::MaxNumVersions(1)))),
    ];
    let after = modify(&mut t, changes).await.unwrap();
    assert_eq!(families(&after), ["f", "max", "min", "new", "sum"]);
    assert_eq!(after.column_families["f"], with_gc(Rule::MaxNumVersions(1)));
    assert_eq!(t.lines(crate::harness::read_all()).await, ["r f:q@1000=f"]);

    // A family created anew under an old name starts empty.
    modify(&mut t, vec![("g", Mod::Create(Default::default()))]).await.unwrap();
    assert_eq!(t.lines(crate::harness::read_all()).await, ["r f:q@1000=f"]);
}

#[tokio::test]
async fn row_ranges_are_dropped() {
    let mut t = with_table().await;
    for row in ["a", "ab", "abc", "b"] {
        t.write(row, vec![set("f:q", 1000, b"v")]).await;
    }
    let drop = |target: Option<Target>| admin::DropRowRangeRequest { name: TABLE.into(), target };
    let prefix = |prefix: &'static str| Some(Target::RowKeyPrefix(prefix.into()));
    t.tables.drop_row_range(drop(prefix("ab"))).await.unwrap();
    let read_all = crate::harness::read_all;
    assert_eq!(t.lines(read_all()).await, ["a f:q@1000=v", "b f:q@1000=v"]);
    for wrong in [None, prefix(""), Some(Target::DeleteAllDataFromTable(false))] {
        let status = t.tables.drop_row_range(drop(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    t.tables.drop_row_range(drop(Some(Target::DeleteAllDataFromTable(true)))).await.unwrap();
    assert_eq!(t.lines(read_all()).await.len(), 0);
    t.write("ab", vec![set("f:q", 0, b"again")]).await;
    assert_eq!(t.lines(read_all()).await, ["ab f:q@0=again"]);
}

#[tokio::test]
async fn protected_tables_are_not_deleted() {
    let mut t = with_table().await;
    let update = |protected: bool, path: &str| admin::UpdateTableRequest {
        table: Some(admin::Table {
            name: TABLE.into(),
            deletion_protection: protected,
            ..Default::default()
        }),
        update_mask: Some(prost_types::FieldMask { paths: vec![path.into()] }),
        ..Default::default()
    };
    let operation = t.tables.update_table(update(true, "deletion_protection")).await.unwrap();
    let operation = operation.into_inner();
    assert!(operation.done);
    let Some(lro::operation::Result::Response(response)) = &operation.result else {
        panic!("{operation:?}")
    };
    assert_eq!(response.type_url, "type.googleapis.com/google.bigtable.admin.v2.Table");
    assert!(admin::Table::decode(&response.value[..]).unwrap().deletion_protection);
    let again = lro::GetOperationRequest { name: operation.name.clone() };
    assert_eq!(t.operations.get_operation(again).await.unwrap().into_inner(), operation);
    let unknown = lro::GetOperationRequest { name: "operations/none".into() };
    let status = t.operations.get_operation(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);

    let delete = || admin::DeleteTableRequest { name: TABLE.into() };
    let status = t.tables.delete_table(delete()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let status = t.tables.update_table(update(false, "tiered_storage_config")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    t.tables.update_table(update(false, "deletion_protection")).await.unwrap();
    t.tables.delete_table(delete()).await.unwrap();
    let status = t.tables.delete_table(delete()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains(TABLE), "{status}");
}

#[tokio::test]
async fn consistency_tokens_are_of_their_table() {
    let mut t = with_table().await;
    let request = admin::GenerateConsistencyTokenRequest { name: TABLE.into() };
    let token = t.tables.generate_consistency_token(request).await.unwrap().into_inner();
    let check = |token: &str| admin::CheckConsistencyRequest {
        name: TABLE.into(),
        consistency_token: token.into(),
        ..Default::default()
    };
    let answer = t.tables.check_consistency(check(&token.consistency_token)).await.unwrap();
    assert!(answer.into_inner().consistent);
    // A table made anew under the name is another.
    t.tables.delete_table(admin::DeleteTableRequest { name: TABLE.into() }).await.unwrap();
    let anew = create_table("t", [("f", admin::ColumnFamily::default())]);
    t.tables.create_table(anew).await.unwrap();
    let status = t.tables.check_consistency(check(&token.consistency_token)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = t.tables.check_consistency(check("other")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn instances_exist_unasked() {
    let mut t = with_table().await;
    let get = admin::GetInstanceRequest { name: "projects/any/instances/one".into() };
    let instance = t.instances.get_instance(get).await.unwrap().into_inner();
    assert_eq!(instance.name, "projects/any/instances/one");
    let list = admin::ListInstancesRequest { parent: "projects/p".into(), ..Default::default() };
    let instances = t.instances.list_instances(list).await.unwrap().into_inner().instances;
    assert_eq!(instances.len(), 1);
    assert_eq!(instances[0].name, INSTANCE);
    for parent in [INSTANCE, "projects/p/instances/-"] {
        let list = admin::ListClustersRequest { parent: parent.into(), ..Default::default() };
        let clusters = t.instances.list_clusters(list).await.unwrap().into_inner().clusters;
        assert_eq!(clusters.len(), 1);
        let get = admin::GetClusterRequest { name: clusters[0].name.clone() };
        let cluster = t.instances.get_cluster(get).await.unwrap().into_inner();
        assert_eq!(cluster, clusters[0]);
    }
}

#[tokio::test]
async fn settings_that_are_not_served_are_refused_by_name() {
    let mut t = with_table().await;
    let tiers = admin::Table {
        tiered_storage_config: Some(admin::TieredStorageConfig::default()),
        ..Default::default()
    };
    let backups = admin::Table {
        automated_backup_config: Some(admin::table::AutomatedBackupConfig::AutomatedBackupPolicy(
            admin::table::AutomatedBackupPolicy::default(),
        )),
        ..Default::default()
    };
    for (field, table) in [("tiered_storage_config", tiers), ("automated_backup_config", backups)] {
        let request = admin::CreateTableRequest {
            parent: INSTANCE.into(),
            table_id: "tiers".into(),
            table: Some(table),
            ..Default::default()
        };
        let status = t.tables.create_table(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains(field), "{status}");
    }
}
