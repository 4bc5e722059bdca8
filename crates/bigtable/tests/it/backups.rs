//! Backups of tables and deleted tables, by their messages.

use crate::harness::{Clients, INSTANCE, TABLE, connect, create_table, read_all, set, store};
use admin::restore_table_request::Source;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_longrunning::google::longrunning as lro;
use prost::Message;
use prost_types::{FieldMask, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use table::{Local, RecordChange, Records, Store};
use tonic::{Code, Status};

const CLUSTER: &str = "projects/p/instances/i/clusters/stele";
const HOUR: i64 = 3_600;

/// A server with a filled table, its store, and the directory of the store.
async fn served() -> (Clients, Arc<Local>, tempfile::TempDir) {
    let (store, dir) = store();
    store.keep_deleted_for(Duration::from_secs(600));
    let mut t = connect(store.clone()).await;
    t.tables.create_table(create_table("t", [("f", Default::default())])).await.unwrap();
    t.write("a", vec![set("f:q", 1000, b"v")]).await;
    (t, store, dir)
}

fn response<M: Message + Default>(operation: &lro::Operation) -> M {
    let Some(lro::operation::Result::Response(response)) = &operation.result else {
        panic!("{operation:?}")
    };
    M::decode(&response.value[..]).unwrap()
}

fn assert_code<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, text: &str) {
    let status = result.expect_err(text);
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(text), "{status}");
}

/// A time so many hours from now.
fn hours(store: &Local, hours: i64) -> Option<Timestamp> {
    let seconds = store.now_micros() / 1_000_000 + hours * HOUR;
    Some(Timestamp { seconds, nanos: 0 })
}

fn create(id: &str, expire_time: Option<Timestamp>) -> admin::CreateBackupRequest {
    let backup = admin::Backup { source_table: TABLE.into(), expire_time, ..Default::default() };
    admin::CreateBackupRequest {
        parent: CLUSTER.into(),
        backup_id: id.into(),
        backup: Some(backup),
    }
}

fn list(filter: &str, order_by: &str) -> admin::ListBackupsRequest {
    admin::ListBackupsRequest {
        parent: format!("{INSTANCE}/clusters/-"),
        filter: filter.into(),
        order_by: order_by.into(),
        ..Default::default()
    }
}

async fn listed(t: &mut Clients, request: admin::ListBackupsRequest) -> Vec<String> {
    let backups = t.tables.list_backups(request).await.unwrap().into_inner().backups;
    backups.iter().map(|backup| backup.name.rsplit('/').next().unwrap().to_owned()).collect()
}

fn restore(id: &str, backup: &str) -> admin::RestoreTableRequest {
    admin::RestoreTableRequest {
        parent: INSTANCE.into(),
        table_id: id.into(),
        source: Some(Source::Backup(format!("{CLUSTER}/backups/{backup}"))),
    }
}

#[tokio::test]
async fn a_backup_is_made_and_restored() {
    let (mut t, store, _dir) = served().await;
    let expires = hours(&store, 24);
    let request = create("one", expires);
    let operation = t.tables.create_backup(request.clone()).await.unwrap().into_inner();
    let made: admin::Backup = response(&operation);
    assert_eq!(made.name, format!("{CLUSTER}/backups/one"));
    assert_eq!((made.source_table.as_str(), made.expire_time), (TABLE, expires));
    assert!(made.size_bytes > 0 && made.end_time.is_some() && made.encryption_info.is_some());
    assert_code(t.tables.create_backup(request).await, Code::AlreadyExists, "backups/one");
    // Later changes of the table, and its deletion, do not reach the backup.
    t.write("b", vec![set("f:q", 1000, b"later")]).await;
    t.tables.delete_table(admin::DeleteTableRequest { name: TABLE.into() }).await.unwrap();

    let restored = t.tables.restore_table(restore("back", "one")).await.unwrap().into_inner();
    let table: admin::Table = response(&restored);
    assert_eq!(table.name, format!("{INSTANCE}/tables/back"));
    assert_eq!(table.column_families.keys().collect::<Vec<_>>(), ["f"]);
    let info = table.restore_info.unwrap().source_info.unwrap();
    let admin::restore_info::SourceInfo::BackupInfo(info) = info;
    assert_eq!((info.backup, info.source_table), (made.name, TABLE.into()));
    let read = data::ReadRowsRequest { table_name: table.name.clone(), ..read_all() };
    assert_eq!(t.lines(read).await, ["a f:q@1000=v"]);
    let metadata = restored.metadata.unwrap();
    let metadata = admin::RestoreTableMetadata::decode(&metadata.value[..]).unwrap();
    let name = metadata.optimize_table_operation_name;
    let optimized = t.operations.get_operation(lro::GetOperationRequest { name }).await.unwrap();
    assert!(optimized.into_inner().done);
    let again = t.tables.restore_table(restore("back", "one")).await;
    assert_code(again, Code::AlreadyExists, "tables/back");
    let unknown = t.tables.restore_table(restore("other", "two")).await;
    assert_code(unknown, Code::NotFound, "backup not found");
}

#[tokio::test]
async fn backups_are_listed_copied_changed_and_deleted() {
    let (mut t, store, _dir) = served().await;
    for (id, keep) in [("one", 24), ("two", 48), ("three", 36)] {
        t.tables.create_backup(create(id, hours(&store, keep))).await.unwrap();
    }
    let get = |id: &str| admin::GetBackupRequest { name: format!("{CLUSTER}/backups/{id}") };
    assert_eq!(listed(&mut t, list("", "")).await, ["three", "two", "one"]);
    assert_eq!(listed(&mut t, list("", "expire_time")).await, ["one", "three", "two"]);
    assert_eq!(
        listed(&mut t, list("name:backups/t AND state:READY", "name")).await,
        ["three", "two"]
    );
    let page = |page_token: String| admin::ListBackupsRequest {
        page_size: 2,
        page_token,
        ..list("", "name")
    };
    let first = t.tables.list_backups(page(String::new())).await.unwrap().into_inner();
    assert_eq!(first.backups.len(), 2);
    // A backup that is made between two pages moves nothing.
    t.tables.create_backup(create("a-new-one", hours(&store, 24))).await.unwrap();
    assert_eq!(listed(&mut t, page(first.next_page_token)).await, ["two"]);
    for (request, text) in [
        (list("owner:me", ""), "filter"),
        (list("", "owner"), "order_by"),
        (admin::ListBackupsRequest { page_token: "x".into(), ..list("", "") }, "page_token"),
    ] {
        assert_code(t.tables.list_backups(request).await, Code::InvalidArgument, text);
    }

    let copy = |id: &str, from: &str, expire_time: Option<Timestamp>| admin::CopyBackupRequest {
        parent: CLUSTER.into(),
        backup_id: id.into(),
        source_backup: format!("{CLUSTER}/backups/{from}"),
        expire_time,
    };
    let copied = t.tables.copy_backup(copy("copy", "one", hours(&store, 24))).await.unwrap();
    let copied: admin::Backup = response(&copied.into_inner());
    assert_eq!(copied.source_backup, format!("{CLUSTER}/backups/one"));
    let twice = t.tables.copy_backup(copy("again", "copy", hours(&store, 24))).await;
    assert_code(twice, Code::InvalidArgument, "is itself a copy");
    let long = t.tables.copy_backup(copy("again", "one", hours(&store, 31 * 24))).await;
    assert_code(long, Code::InvalidArgument, "expire_time");

    let update = |expire_time: Option<Timestamp>, path: &str| admin::UpdateBackupRequest {
        backup: Some(admin::Backup { expire_time, ..copied.clone() }),
        update_mask: Some(FieldMask { paths: vec![path.into()] }),
    };
    let later = hours(&store, 72);
    let changed = t.tables.update_backup(update(later, "expire_time")).await.unwrap().into_inner();
    assert_eq!(changed, admin::Backup { expire_time: later, ..copied.clone() });
    assert_eq!(t.tables.get_backup(get("copy")).await.unwrap().into_inner(), changed);
    let too_late = t.tables.update_backup(update(hours(&store, 31 * 24), "expire_time")).await;
    assert_code(too_late, Code::InvalidArgument, "expire_time");
    let wrong = t.tables.update_backup(update(later, "source_table")).await;
    assert_code(wrong, Code::InvalidArgument, "source_table");
    let delete = |id: &str| admin::DeleteBackupRequest { name: format!("{CLUSTER}/backups/{id}") };
    t.tables.delete_backup(delete("one")).await.unwrap();
    assert_code(t.tables.delete_backup(delete("one")).await, Code::NotFound, "backups/one");
    assert_code(t.tables.get_backup(get("one")).await, Code::NotFound, "backups/one");
    t.tables.restore_table(restore("from-copy", "copy")).await.unwrap();
}

#[tokio::test]
async fn a_table_has_so_many_backups_in_a_cluster_and_no_more() {
    let (mut t, store, _dir) = served().await;
    let record = |number: i64, source_table: &str, keep: i64| {
        let name = format!("{CLUSTER}/backups/{source_table}-{number}");
        let backup = admin::Backup {
            name: name.clone(),
            source_table: format!("{INSTANCE}/tables/{source_table}"),
            expire_time: hours(&store, keep),
            ..Default::default()
        };
        RecordChange::put(name, backup.encode_to_vec())
    };
    // Backups of another table, and expired ones, do not count.
    let others = (0..150).flat_map(|number| [record(number, "u", 9), record(number, "v", -1)]);
    let own = (0..149).map(|number| record(number, "t", 9));
    store.change_records(others.chain(own).collect()).await.unwrap();
    t.tables.create_backup(create("last", hours(&store, 24))).await.unwrap();
    let more = t.tables.create_backup(create("more", hours(&store, 24))).await;
    assert_code(more, Code::ResourceExhausted, "the limit is 150");
}

#[tokio::test]
async fn wrong_backups_are_refused_and_backups_keep_their_instance() {
    let (mut t, store, _dir) = served().await;
    let good = || create("b", hours(&store, 24));
    let with = |change: &dyn Fn(&mut admin::CreateBackupRequest)| {
        let mut request = good();
        change(&mut request);
        request
    };
    let backup = |change: &dyn Fn(&mut admin::Backup)| {
        with(&|request| change(request.backup.as_mut().unwrap()))
    };
    let elsewhere = "projects/p/instances/other/tables/t";
    for (request, code, text) in [
        (with(&|r| r.backup_id = "a/b".into()), Code::InvalidArgument, "backup_id"),
        (with(&|r| r.backup = None), Code::InvalidArgument, "backup"),
        (with(&|r| r.parent = INSTANCE.into()), Code::InvalidArgument, "parent"),
        (with(&|r| r.parent = format!("{CLUSTER}-2")), Code::NotFound, "cluster not found"),
        (backup(&|b| b.source_table = elsewhere.into()), Code::InvalidArgument, "source_table"),
        (backup(&|b| b.source_table += "x"), Code::NotFound, "table not found"),
        (backup(&|b| b.expire_time = None), Code::InvalidArgument, "expire_time"),
        (create("b", hours(&store, 5)), Code::InvalidArgument, "6 hours to 90 days"),
        (create("b", hours(&store, 91 * 24)), Code::InvalidArgument, "6 hours to 90 days"),
        (
            backup(&|b| b.backup_type = admin::backup::BackupType::Hot as i32),
            Code::Unimplemented,
            "HOT",
        ),
        (backup(&|b| b.backup_type = 9), Code::InvalidArgument, "backup_type"),
        (
            backup(&|b| b.hot_to_standard_time = hours(&store, 24)),
            Code::InvalidArgument,
            "hot_to_standard_time",
        ),
        (
            create("b", Some(Timestamp { seconds: i64::MAX, nanos: 0 })),
            Code::InvalidArgument,
            "time",
        ),
    ] {
        assert_code(t.tables.create_backup(request).await, code, text);
    }
    t.tables.create_backup(good()).await.unwrap();
    let delete = || admin::DeleteInstanceRequest { name: INSTANCE.into() };
    let refused = t.instances.delete_instance(delete()).await;
    assert_code(refused, Code::FailedPrecondition, "it has backups");
    let name = format!("{CLUSTER}/backups/b");
    t.tables.delete_backup(admin::DeleteBackupRequest { name }).await.unwrap();
    t.instances.delete_instance(delete()).await.unwrap();
}

#[tokio::test]
async fn deleted_tables_come_back_until_their_time_is_over() {
    let (mut t, store, _dir) = served().await;
    let delete = || admin::DeleteTableRequest { name: TABLE.into() };
    let undelete = || admin::UndeleteTableRequest { name: TABLE.into() };
    let missing = t.tables.undelete_table(undelete()).await;
    assert_code(missing, Code::NotFound, "deleted table not found");
    t.tables.delete_table(delete()).await.unwrap();
    assert_code(t.try_read(read_all()).await, Code::NotFound, "table not found");
    let list = admin::ListTablesRequest { parent: INSTANCE.into(), ..Default::default() };
    assert!(t.tables.list_tables(list).await.unwrap().into_inner().tables.is_empty());
    let operation = t.tables.undelete_table(undelete()).await.unwrap().into_inner();
    let table: admin::Table = response(&operation);
    assert_eq!((table.name.as_str(), table.column_families.len()), (TABLE, 1));
    assert_eq!(t.lines(read_all()).await, ["a f:q@1000=v"]);
    t.tables.delete_table(delete()).await.unwrap();
    store.keep_deleted_for(Duration::ZERO);
    let over = t.tables.undelete_table(undelete()).await;
    assert_code(over, Code::NotFound, "deleted table not found");
}
