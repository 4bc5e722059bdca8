//! Callers with permissions: what they may do, what they see, and what is noted.

use crate::assemble::lines;
use crate::harness::{
    Clients, INSTANCE, TABLE, connect_as, create_table, entry, filter, mutation, read_all, set,
    store, wants_progress,
};
use bigtable::{Allowed, Caller, CallerHandle, EndedCall, ResourcePolicy, RoleBinding};
use data::mutation::{DeleteFromFamily, DeleteFromRow, Mutation};
use data::read_rows_request::RequestStatsView;
use data::request_stats::StatsView;
use data::row_filter::{Chain, Condition, Filter};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_iam_v1::google::iam::v1 as iam;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tonic::{Code, Status};

const READ: &str = "bigtable.tables.readRows";
const WRITE: &str = "bigtable.tables.mutateRows";

/// A caller with these permissions, on anything; calls that were noted.
#[derive(Default)]
struct Fake {
    permissions: BTreeMap<&'static str, Option<&'static [&'static str]>>,
    noted: Mutex<Vec<String>>,
}

impl Fake {
    /// Permissions for these families; `None` for all.
    fn with<const N: usize>(
        permissions: [(&'static str, Option<&'static [&'static str]>); N],
    ) -> Arc<Self> {
        Arc::new(Self { permissions: permissions.into(), noted: Mutex::default() })
    }

    fn noted(&self) -> Vec<String> {
        std::mem::take(&mut self.noted.lock().unwrap())
    }
}

impl Caller for Fake {
    fn name(&self) -> &str {
        "token:fake"
    }

    fn allowed(&self, permission: &str, _: &str) -> Allowed {
        match self.permissions.get(permission) {
            None => Allowed::Nothing,
            Some(None) => Allowed::Everything,
            Some(Some(families)) => {
                Allowed::Families(families.iter().map(|name| (*name).to_owned()).collect())
            }
        }
    }

    fn is_permission(&self, name: &str) -> bool {
        name.starts_with("bigtable.")
    }

    fn policy(&self, resource: &str) -> ResourcePolicy {
        let binding = RoleBinding {
            role: "roles/bigtable.reader".into(),
            members: vec![resource.to_owned()],
            families: vec!["f".into()],
        };
        ResourcePolicy { bindings: vec![binding], etag: vec![7] }
    }

    fn note(&self, call: &EndedCall<'_>) {
        let method = call.method.rsplit('/').next().unwrap();
        self.noted.lock().unwrap().push(format!("{method} {} {:?}", call.resource, call.code));
    }
}

/// A server with the table of families `f` and `g`, and its clients as this caller.
async fn clients(caller: &Arc<Fake>) -> (Clients, tempfile::TempDir) {
    let (store, dir) = store();
    let mut admin = crate::harness::connect(store.clone()).await;
    let families = [("f", admin::ColumnFamily::default()), ("g", admin::ColumnFamily::default())];
    admin.tables.create_table(create_table("t", families)).await.unwrap();
    admin.write("r", vec![set("f:a", 1_000, b"1"), set("g:b", 1_000, b"2")]).await;
    admin.write("s", vec![set("g:b", 1_000, b"3")]).await;
    let caller: Arc<dyn Caller> = caller.clone();
    (connect_as(store, Some(CallerHandle(caller))).await, dir)
}

fn denied<T>(result: Result<T, Status>, words: &[&str]) {
    let Err(status) = result else { panic!("the call should be refused: {words:?}") };
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    for word in words {
        assert!(status.message().contains(word), "{word} is not in {}", status.message());
    }
}

#[tokio::test]
async fn without_a_caller_nothing_is_answered() {
    let (store, _dir) = store();
    let mut clients = connect_as(store, None).await;
    let status = clients.try_read(read_all()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let request = admin::ListTablesRequest { parent: INSTANCE.into(), ..Default::default() };
    let status = clients.tables.list_tables(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_call_without_its_permission_is_refused_by_name_and_noted() {
    let caller = Fake::with([(READ, None), ("bigtable.tables.get", None)]);
    let (mut clients, _dir) = clients(&caller).await;
    assert_eq!(clients.lines(read_all()).await.len(), 3);
    denied(clients.try_write(b"r", vec![]).await, &["token:fake", WRITE, TABLE]);
    let parent = || INSTANCE.to_owned();
    let request = admin::ListTablesRequest { parent: parent(), ..Default::default() };
    denied(clients.tables.list_tables(request).await, &["bigtable.tables.list", INSTANCE]);
    let families = [("f", admin::ColumnFamily::default())];
    denied(clients.tables.create_table(create_table("u", families)).await, &["tables.create"]);
    let request = admin::GetInstanceRequest { name: parent() };
    denied(clients.instances.get_instance(request).await, &["bigtable.instances.get"]);
    let table = |name: &str| admin::GetTableRequest { name: name.into(), ..Default::default() };
    clients.tables.get_table(table(TABLE)).await.unwrap();
    let missing = format!("{TABLE}x");
    assert_eq!(clients.tables.get_table(table(&missing)).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(
        caller.noted(),
        [
            format!("MutateRow {TABLE} PermissionDenied"),
            format!("ListTables {INSTANCE} PermissionDenied"),
            format!("CreateTable {INSTANCE} PermissionDenied"),
            format!("GetInstance {INSTANCE} PermissionDenied"),
            format!("GetTable {TABLE} Ok"),
            format!("GetTable {missing} NotFound"),
        ]
    );
}

#[tokio::test]
async fn backups_need_permissions_on_both_ends() {
    let cluster = format!("{INSTANCE}/clusters/stele");
    let name = format!("{cluster}/backups/b");
    let create = || admin::CreateBackupRequest {
        parent: cluster.clone(),
        backup_id: "b".into(),
        backup: Some(admin::Backup { source_table: TABLE.into(), ..Default::default() }),
    };
    let copy = || admin::CopyBackupRequest {
        parent: cluster.clone(),
        source_backup: name.clone(),
        ..Default::default()
    };
    let restore = || admin::RestoreTableRequest {
        parent: INSTANCE.into(),
        table_id: "u".into(),
        source: Some(admin::restore_table_request::Source::Backup(name.clone())),
    };
    let caller = Fake::with([(READ, None), ("bigtable.backups.read", None)]);
    let (mut t, _dir) = clients(&caller).await;
    denied(t.tables.create_backup(create()).await, &["bigtable.backups.create", &cluster]);
    denied(t.tables.copy_backup(copy()).await, &["bigtable.backups.create", &cluster]);
    denied(t.tables.restore_table(restore()).await, &["bigtable.tables.create", INSTANCE]);

    let some: Option<&[&str]> = Some(&["f"]);
    let ends = [(READ, some), ("bigtable.backups.create", None), ("bigtable.tables.create", None)];
    let caller = Fake::with(ends);
    let (mut t, _dir) = clients(&caller).await;
    denied(t.tables.create_backup(create()).await, &[READ, TABLE]);
    denied(t.tables.copy_backup(copy()).await, &["bigtable.backups.read", &name]);
    denied(t.tables.restore_table(restore()).await, &["bigtable.backups.restore", &name]);
    let undelete = admin::UndeleteTableRequest { name: TABLE.into() };
    denied(t.tables.undelete_table(undelete).await, &["bigtable.tables.undelete", TABLE]);
}

#[tokio::test]
async fn a_reader_of_some_families_sees_rows_as_if_they_had_no_others() {
    let caller = Fake::with([(READ, Some(&["f", "h.i"]))]);
    let (mut clients, _dir) = clients(&caller).await;
    let f = ["r f:a@1000 = 1"];
    assert_eq!(clients.lines(read_all()).await.len(), 1);
    let only = clients.lines(read_all()).await;
    assert!(only[0].contains("f:a") && f[0].contains("f:a"), "{only:?}");
    // No filter brings the other families back: not a condition, a sink or an interleave.
    let pass = || filter(Filter::PassAllFilter(true));
    let condition = Filter::Condition(Box::new(Condition {
        predicate_filter: Some(Box::new(filter(Filter::FamilyNameRegexFilter("g".into())))),
        true_filter: Some(Box::new(pass())),
        false_filter: None,
    }));
    let sink = Filter::Chain(Chain { filters: vec![pass(), filter(Filter::Sink(true))] });
    for (wanted, count) in
        [(condition, 0), (sink, 1), (Filter::FamilyNameRegexFilter("g|f".into()), 1)]
    {
        let seen = clients.filtered(wanted.clone()).await;
        assert_eq!(seen.len(), count, "{wanted:?}: {seen:?}");
        assert!(seen.iter().all(|line| line.contains("f:a")), "{seen:?}");
    }
    assert_eq!(lines(&clients.try_read(read_all()).await.unwrap()).len(), 1);
}

#[tokio::test]
async fn a_reader_of_some_families_is_not_told_of_rows_without_them() {
    let caller = Fake::with([(READ, Some(&["f"]))]);
    let (mut clients, _dir) = clients(&caller).await;
    let mut request = wants_progress(read_all());
    request.get_mut().request_stats_view = RequestStatsView::RequestStatsFull as i32;
    let mut answer = clients.data.read_rows(request).await.unwrap().into_inner();
    let (mut scanned, mut seen) = (Vec::new(), None);
    while let Some(message) = answer.message().await.unwrap() {
        scanned.extend(Some(message.last_scanned_row_key).filter(|key| !key.is_empty()));
        if let Some(StatsView::FullReadStatsView(view)) =
            message.request_stats.and_then(|stats| stats.stats_view)
        {
            let counts = view.read_iteration_stats.unwrap();
            seen = Some((counts.rows_seen_count, counts.cells_seen_count));
        }
    }
    assert!(scanned.is_empty(), "{scanned:?}");
    assert_eq!(seen, Some((1, 1)));
}

#[tokio::test]
async fn a_predicate_sees_only_families_that_its_caller_may_read() {
    let caller = Fake::with([(READ, Some(&["f"])), (WRITE, None)]);
    let (mut clients, _dir) = clients(&caller).await;
    for (row, predicate, matches) in [
        ("r", None, true),
        ("s", None, false),
        ("r", Some(filter(Filter::FamilyNameRegexFilter("g".into()))), false),
    ] {
        let request = data::CheckAndMutateRowRequest {
            table_name: TABLE.into(),
            row_key: row.to_owned().into(),
            predicate_filter: predicate,
            true_mutations: vec![set("f:yes", 1_000, b"")],
            false_mutations: vec![set("g:no", 1_000, b"")],
            ..Default::default()
        };
        let answer = clients.data.check_and_mutate_row(request).await.unwrap().into_inner();
        assert_eq!(answer.predicate_matched, matches, "{row}");
    }
}

#[tokio::test]
async fn a_writer_of_some_families_is_refused_the_others() {
    let caller = Fake::with([(READ, None), (WRITE, Some(&["f"]))]);
    let (mut clients, _dir) = clients(&caller).await;
    clients.write("r", vec![set("f:a", 2_000, b"x")]).await;
    let family = |family: &str| {
        let family_name = family.to_owned();
        mutation(Mutation::DeleteFromFamily(DeleteFromFamily { family_name }))
    };
    clients.write("r", vec![family("f")]).await;
    let of_g = &["family g of", WRITE][..];
    denied(clients.try_write(b"r", vec![set("f:a", 1, b""), set("g:a", 1, b"")]).await, of_g);
    denied(clients.try_write(b"r", vec![family("g")]).await, of_g);
    let whole = mutation(Mutation::DeleteFromRow(DeleteFromRow {}));
    denied(clients.try_write(b"r", vec![whole]).await, &[WRITE, TABLE]);
    let entries = vec![entry("r", vec![set("f:a", 0, b"")]), entry("s", vec![set("g:a", 0, b"")])];
    denied(clients.write_rows(entries).await, of_g);
    let rule = |family: &str| data::ReadModifyWriteRowRequest {
        table_name: TABLE.into(),
        row_key: "r".into(),
        rules: vec![data::ReadModifyWriteRule {
            family_name: family.into(),
            rule: Some(data::read_modify_write_rule::Rule::AppendValue("x".into())),
            ..Default::default()
        }],
        ..Default::default()
    };
    clients.data.read_modify_write_row(rule("f")).await.unwrap();
    denied(clients.data.read_modify_write_row(rule("g")).await, of_g);
    let drop = admin::DropRowRangeRequest { name: TABLE.into(), ..Default::default() };
    denied(clients.tables.drop_row_range(drop).await, &[WRITE]);
}

#[tokio::test]
async fn views_need_permissions_of_their_own() {
    let caller = Fake::with([(READ, None), (WRITE, None)]);
    let (mut clients, _dir) = clients(&caller).await;
    let view = format!("{TABLE}/authorizedViews/v");
    let request =
        data::ReadRowsRequest { authorized_view_name: view.clone(), ..Default::default() };
    denied(clients.try_read(request).await, &["bigtable.authorizedViews.readRows", &view]);
    let request = data::SampleRowKeysRequest { table_name: TABLE.into(), ..Default::default() };
    denied(clients.data.sample_row_keys(request).await, &["bigtable.tables.sampleRowKeys"]);
    let request = data::PingAndWarmRequest { name: INSTANCE.into(), ..Default::default() };
    denied(clients.data.ping_and_warm(request).await, &["bigtable.instances.ping", INSTANCE]);
}

#[tokio::test]
async fn iam_says_what_the_policy_says() {
    let caller = Fake::with([(READ, Some(&["f"])), ("bigtable.tables.getIamPolicy", None)]);
    let (mut clients, _dir) = clients(&caller).await;
    let ask = |resource: &str, permissions: &[&str]| iam::TestIamPermissionsRequest {
        resource: resource.to_owned(),
        permissions: permissions.iter().map(|name| (*name).to_owned()).collect(),
    };
    for resource in [TABLE, INSTANCE] {
        let asked = ask(resource, &[WRITE, READ]);
        let answer = clients.instances.test_iam_permissions(asked).await.unwrap();
        assert_eq!(answer.into_inner().permissions, [READ], "{resource}");
    }
    for (asked, word) in [
        (ask(TABLE, &["storage.read"]), "storage.read"),
        (ask(TABLE, &[READ; 101]), "100"),
        (ask("t", &[READ]), "full name"),
    ] {
        let status = clients.tables.test_iam_permissions(asked).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(word), "{}", status.message());
    }
    let get = |resource: &str| iam::GetIamPolicyRequest {
        resource: resource.to_owned(),
        ..Default::default()
    };
    let policy = clients.tables.get_iam_policy(get(TABLE)).await.unwrap().into_inner();
    assert_eq!((policy.version, &policy.etag[..]), (3, &[7][..]));
    assert_eq!(policy.bindings[0].role, "roles/bigtable.reader");
    assert_eq!(policy.bindings[0].members, [TABLE]);
    let condition = policy.bindings[0].condition.as_ref().unwrap();
    assert_eq!(condition.expression, "family in [\"f\"]");
    denied(
        clients.instances.get_iam_policy(get(INSTANCE)).await,
        &["bigtable.instances.getIamPolicy"],
    );
    let set = iam::SetIamPolicyRequest { resource: TABLE.into(), ..Default::default() };
    denied(clients.tables.set_iam_policy(set).await, &["bigtable.tables.setIamPolicy"]);
}

#[tokio::test]
async fn policies_are_not_set_by_requests() {
    let (store, _dir) = store();
    let mut clients = crate::harness::connect(store).await;
    let set = |resource: &str| iam::SetIamPolicyRequest {
        resource: resource.to_owned(),
        ..Default::default()
    };
    for status in [
        clients.tables.set_iam_policy(set(TABLE)).await.unwrap_err(),
        clients.instances.set_iam_policy(set(INSTANCE)).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("--policy"), "{}", status.message());
    }
    let status = clients.tables.set_iam_policy(set("t")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_server_that_knows_no_callers_lets_everybody_do_everything() {
    let (store, _dir) = store();
    let mut clients = crate::harness::connect(store).await;
    let permissions = vec![READ.to_owned(), "anything".to_owned()];
    let asked =
        iam::TestIamPermissionsRequest { resource: TABLE.into(), permissions: permissions.clone() };
    let answer = clients.tables.test_iam_permissions(asked).await.unwrap();
    assert_eq!(answer.into_inner().permissions, permissions);
    let asked = iam::GetIamPolicyRequest { resource: TABLE.into(), ..Default::default() };
    let policy = clients.tables.get_iam_policy(asked).await.unwrap().into_inner();
    assert_eq!(policy, iam::Policy::default());
}
