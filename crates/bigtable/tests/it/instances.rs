//! Instances, clusters, app profiles and operations that last, and the names that requests may use.

use crate::harness::{
    Clients, INSTANCE, connect_to, create_table, empty, limits, open, with_table,
};
use admin::app_profile::{MultiClusterRoutingUseAny, RoutingPolicy, SingleClusterRouting};
use bigtable::KnownNames;
use engine::Engine;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use googleapis_tonic_google_longrunning::google::longrunning as lro;
use prost::Message;
use prost_types::FieldMask;
use std::path::Path;
use tonic::{Code, Status};

const MADE: &str = "projects/p/instances/made-here";

async fn serve(dir: &Path, known: KnownNames) -> (Engine, Clients) {
    let (engine, store) = open(dir);
    let routes = bigtable::routes_for(
        store,
        known,
        bigtable::Callers::Anybody,
        &bigtable::Bounds::new(&limits()),
    );
    (engine, connect_to(routes).await)
}

/// Runs `act` with clients of a strict server, which then ends.
fn on_a_server<T>(dir: &Path, act: impl AsyncFnOnce(&mut Clients) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (engine, mut clients) = serve(dir, KnownNames::Created).await;
        let done = act(&mut clients).await;
        engine.close().unwrap();
        done
    })
}

fn cluster(zone: &str, serve_nodes: i32) -> admin::Cluster {
    let location = format!("projects/p/locations/{zone}");
    admin::Cluster { location, serve_nodes, ..Default::default() }
}

fn instance(display_name: &str) -> admin::Instance {
    admin::Instance { display_name: display_name.into(), ..Default::default() }
}

/// Creates [`MADE`] with the clusters `c-one` and `c-two`.
fn create() -> admin::CreateInstanceRequest {
    let clusters = [("c-one", cluster("z-a", 3)), ("c-two", cluster("z-b", 0))];
    admin::CreateInstanceRequest {
        parent: "projects/p".into(),
        instance_id: "made-here".into(),
        instance: Some(instance("Made here")),
        clusters: clusters.map(|(id, cluster)| (id.to_owned(), cluster)).into(),
    }
}

fn mask(paths: &[&str]) -> Option<FieldMask> {
    Some(FieldMask { paths: paths.iter().map(|path| path.to_string()).collect() })
}

fn single(cluster_id: &str, allow_transactional_writes: bool) -> Option<RoutingPolicy> {
    let cluster_id = cluster_id.into();
    let single = SingleClusterRouting { cluster_id, allow_transactional_writes };
    Some(RoutingPolicy::SingleClusterRouting(single))
}

fn any_cluster() -> Option<RoutingPolicy> {
    Some(RoutingPolicy::MultiClusterRoutingUseAny(MultiClusterRoutingUseAny::default()))
}

fn profile(
    parent: &str,
    id: &str,
    routing_policy: Option<RoutingPolicy>,
) -> admin::CreateAppProfileRequest {
    let profile = admin::AppProfile { routing_policy, ..Default::default() };
    admin::CreateAppProfileRequest {
        parent: parent.into(),
        app_profile_id: id.into(),
        app_profile: Some(profile),
        ignore_warnings: false,
    }
}

fn response<M: Message + Default>(operation: &lro::Operation) -> M {
    assert!(operation.done);
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

async fn increment(t: &mut Clients, table: &str, app_profile_id: &str) -> Result<(), Status> {
    let rule = data::ReadModifyWriteRule {
        family_name: "f".into(),
        column_qualifier: "n".into(),
        rule: Some(data::read_modify_write_rule::Rule::IncrementAmount(1)),
    };
    let request = data::ReadModifyWriteRowRequest {
        table_name: table.into(),
        row_key: "r".into(),
        rules: vec![rule],
        app_profile_id: app_profile_id.into(),
        ..Default::default()
    };
    t.data.read_modify_write_row(request).await.map(|_| ())
}

async fn get_profile(t: &mut Clients, name: &str) -> Result<admin::AppProfile, Status> {
    let request = admin::GetAppProfileRequest { name: name.into() };
    t.instances.get_app_profile(request).await.map(tonic::Response::into_inner)
}

async fn list_operations(t: &mut Clients, parent: &str) -> Vec<lro::Operation> {
    let name = format!("operations/{parent}");
    let request = lro::ListOperationsRequest { name, ..Default::default() };
    t.operations.list_operations(request).await.unwrap().into_inner().operations
}

#[test]
fn what_was_made_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (operation, made, batch) = on_a_server(dir.path(), async |t| {
        let operation = t.instances.create_instance(create()).await.unwrap().into_inner();
        let made: admin::Instance = response(&operation);
        assert_eq!((made.name.as_str(), made.display_name.as_str()), (MADE, "Made here"));
        assert_eq!(made.state, admin::instance::State::Ready as i32);
        assert!(made.create_time.is_some());
        let request = profile(MADE, "batch", single("c-two", true));
        let batch = t.instances.create_app_profile(request).await.unwrap().into_inner();
        let name = format!("{MADE}/clusters/c-one");
        let update = admin::PartialUpdateClusterRequest {
            cluster: Some(admin::Cluster { name, ..cluster("ignored", 7) }),
            update_mask: mask(&["serve_nodes"]),
        };
        t.instances.partial_update_cluster(update).await.unwrap();
        (operation, made, batch)
    });
    on_a_server(dir.path(), async |t| {
        let get = admin::GetInstanceRequest { name: MADE.into() };
        assert_eq!(t.instances.get_instance(get).await.unwrap().into_inner(), made);
        let list = admin::ListClustersRequest { parent: MADE.into(), ..Default::default() };
        let clusters = t.instances.list_clusters(list).await.unwrap().into_inner().clusters;
        let shown: Vec<_> = clusters
            .iter()
            .map(|c| (c.name.as_str(), c.location.as_str(), c.serve_nodes))
            .collect();
        assert_eq!(
            shown,
            [
                ("projects/p/instances/made-here/clusters/c-one", "projects/p/locations/z-a", 7),
                ("projects/p/instances/made-here/clusters/c-two", "projects/p/locations/z-b", 1),
            ]
        );
        assert_eq!(get_profile(t, &batch.name).await.unwrap(), batch);
        let list = admin::ListAppProfilesRequest { parent: MADE.into(), ..Default::default() };
        let profiles = t.instances.list_app_profiles(list).await.unwrap().into_inner().app_profiles;
        let ids: Vec<_> = profiles.iter().map(|p| p.name.rsplit('/').next().unwrap()).collect();
        assert_eq!(ids, ["batch", "default"]);
        assert_eq!(profiles[1].routing_policy, any_cluster());
        let again = lro::GetOperationRequest { name: operation.name.clone() };
        assert_eq!(t.operations.get_operation(again).await.unwrap().into_inner(), operation);
        assert_eq!(list_operations(t, MADE).await.len(), 2);
    });
}

#[tokio::test]
async fn a_strict_server_refuses_unknown_names() {
    let dir = tempfile::tempdir().unwrap();
    let (_engine, mut t) = serve(dir.path(), KnownNames::Created).await;
    let table = |parent: &str| admin::CreateTableRequest {
        parent: parent.into(),
        ..create_table("t", [("f", Default::default())])
    };
    let unknown = "instance not found: projects/p/instances/i";
    assert_code(t.tables.create_table(table(INSTANCE)).await, Code::NotFound, unknown);
    assert_code(t.try_read(crate::harness::read_all()).await, Code::NotFound, unknown);
    let list = admin::ListTablesRequest { parent: INSTANCE.into(), ..Default::default() };
    assert_code(t.tables.list_tables(list).await, Code::NotFound, unknown);
    let get = admin::GetInstanceRequest { name: INSTANCE.into() };
    assert_code(t.instances.get_instance(get).await, Code::NotFound, unknown);
    let ping = |name: &str, profile: &str| data::PingAndWarmRequest {
        name: name.into(),
        app_profile_id: profile.into(),
    };
    assert_code(t.data.ping_and_warm(ping(INSTANCE, "")).await, Code::NotFound, unknown);
    let prepare = data::PrepareQueryRequest {
        instance_name: INSTANCE.into(),
        query: "SELECT 1".into(),
        ..Default::default()
    };
    assert_code(t.data.prepare_query(prepare).await, Code::NotFound, unknown);
    let execute =
        data::ExecuteQueryRequest { instance_name: INSTANCE.into(), ..Default::default() };
    assert_code(t.data.execute_query(execute).await, Code::NotFound, unknown);

    let wanted = admin::CreateInstanceRequest {
        clusters: [("c-one".to_owned(), cluster("z", 1))].into(),
        ..create()
    };
    t.instances.create_instance(wanted).await.unwrap();
    t.tables.create_table(table(MADE)).await.unwrap();
    t.data.ping_and_warm(ping(MADE, "default")).await.unwrap();
    let name = format!("{MADE}/tables/t");
    increment(&mut t, &name, "").await.unwrap();
    let unknown = "app profile not found: `other`";
    assert_code(increment(&mut t, &name, "other").await, Code::NotFound, unknown);
    assert_code(t.data.ping_and_warm(ping(MADE, "other")).await, Code::NotFound, unknown);
}

#[tokio::test]
async fn profiles_say_whether_transactions_on_rows_are_allowed() {
    let mut t = with_table().await;
    let table = crate::harness::TABLE;
    // A profile that was not created is as good as any.
    increment(&mut t, table, "made-up").await.unwrap();
    let request = profile(INSTANCE, "readers", single("stele", false));
    let readers = t.instances.create_app_profile(request).await.unwrap().into_inner();
    let refused = "Single-row transactions are not allowed by this app profile";
    assert_code(increment(&mut t, table, "readers").await, Code::FailedPrecondition, refused);
    let check = data::CheckAndMutateRowRequest {
        table_name: table.into(),
        row_key: "r".into(),
        app_profile_id: "readers".into(),
        true_mutations: vec![crate::harness::set("f:q", 0, b"v")],
        ..Default::default()
    };
    let checked = t.data.check_and_mutate_row(check).await;
    assert_code(checked, Code::FailedPrecondition, refused);
    let write = data::MutateRowRequest {
        table_name: table.into(),
        row_key: "r".into(),
        app_profile_id: "readers".into(),
        mutations: vec![crate::harness::set("f:q", 0, b"v")],
        ..Default::default()
    };
    t.data.mutate_row(write).await.unwrap();
    let update = admin::UpdateAppProfileRequest {
        app_profile: Some(admin::AppProfile { routing_policy: single("stele", true), ..readers }),
        update_mask: mask(&["single_cluster_routing"]),
        ignore_warnings: false,
    };
    t.instances.update_app_profile(update).await.unwrap();
    increment(&mut t, table, "readers").await.unwrap();
}

#[tokio::test]
async fn profiles_change_under_their_etag_and_warn() {
    let mut t = empty().await;
    t.instances.create_instance(create()).await.unwrap();
    let request = profile(MADE, "one", single("c-one", true));
    let one = t.instances.create_app_profile(request.clone()).await.unwrap().into_inner();
    let twice = t.instances.create_app_profile(request).await;
    assert_code(twice, Code::AlreadyExists, "appProfiles/one");
    let mut request = profile(MADE, "two", single("c-two", true));
    let conflict = t.instances.create_app_profile(request.clone()).await;
    assert_code(conflict, Code::FailedPrecondition, "ignore_warnings");
    request.ignore_warnings = true;
    t.instances.create_app_profile(request).await.unwrap();

    let update = |profile: admin::AppProfile, paths: &[&str], ignore_warnings: bool| {
        let (app_profile, update_mask) = (Some(profile), mask(paths));
        admin::UpdateAppProfileRequest { app_profile, update_mask, ignore_warnings }
    };
    let described = admin::AppProfile { description: "first".into(), ..one.clone() };
    let request = update(described.clone(), &["description"], true);
    let operation = t.instances.update_app_profile(request.clone()).await.unwrap().into_inner();
    let now: admin::AppProfile = response(&operation);
    assert_eq!(now.description, "first");
    assert_ne!(now.etag, one.etag);
    assert_eq!(get_profile(&mut t, &one.name).await.unwrap(), now);
    assert_code(t.instances.update_app_profile(request).await, Code::Aborted, "etag");
    for (paths, code, text) in [
        (&["name"][..], Code::InvalidArgument, "`name` cannot be updated"),
        (&[], Code::InvalidArgument, "names no field"),
    ] {
        let request = update(now.clone(), paths, true);
        assert_code(t.instances.update_app_profile(request).await, code, text);
    }
    let elsewhere = admin::AppProfile { routing_policy: any_cluster(), ..now };
    let paths = ["multi_cluster_routing_use_any"];
    let request = update(elsewhere.clone(), &paths, false);
    let refused = t.instances.update_app_profile(request).await;
    assert_code(refused, Code::FailedPrecondition, "ignore_warnings");
    t.instances.update_app_profile(update(elsewhere, &paths, true)).await.unwrap();
    assert_eq!(get_profile(&mut t, &one.name).await.unwrap().routing_policy, any_cluster());

    let delete = |id: &str, ignore_warnings: bool| admin::DeleteAppProfileRequest {
        name: format!("{MADE}/appProfiles/{id}"),
        ignore_warnings,
    };
    let code = Code::FailedPrecondition;
    let refused = t.instances.delete_app_profile(delete("one", false)).await;
    assert_code(refused, code, "ignore_warnings");
    let refused = t.instances.delete_app_profile(delete("default", true)).await;
    assert_code(refused, code, "default");
    t.instances.delete_app_profile(delete("one", true)).await.unwrap();
    let gone = t.instances.delete_app_profile(delete("one", true)).await;
    assert_code(gone, Code::NotFound, "one");
}

#[tokio::test]
async fn instances_change_and_go_with_what_they_hold() {
    let mut t = with_table().await;
    let update = |paths: &[&str], instance: admin::Instance| admin::PartialUpdateInstanceRequest {
        instance: Some(admin::Instance { name: INSTANCE.into(), ..instance }),
        update_mask: mask(paths),
    };
    // An instance that was not created gets its record with its first change.
    let wanted = admin::Instance {
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        ..instance("unused")
    };
    let request = update(&["labels"], wanted);
    let operation = t.instances.partial_update_instance(request).await.unwrap().into_inner();
    let changed: admin::Instance = response(&operation);
    assert_eq!((changed.display_name.as_str(), changed.labels["team"].as_str()), ("i", "blue"));
    let replaced =
        t.instances.update_instance(admin::Instance { labels: [].into(), ..changed }).await;
    assert!(replaced.unwrap().into_inner().labels.is_empty());
    let wrong = t.instances.partial_update_instance(update(&["state"], instance("x"))).await;
    assert_code(wrong, Code::InvalidArgument, "`state` cannot be updated");

    let second = admin::CreateClusterRequest {
        parent: INSTANCE.into(),
        cluster_id: "second".into(),
        cluster: Some(cluster("z", 1)),
    };
    t.instances.create_cluster(second.clone()).await.unwrap();
    let twice = t.instances.create_cluster(second).await;
    assert_code(twice, Code::AlreadyExists, "clusters/second");
    let full = admin::GetTableRequest {
        name: crate::harness::TABLE.into(),
        view: admin::table::View::Full as i32,
    };
    let table = t.tables.get_table(full).await.unwrap().into_inner();
    assert_eq!(table.cluster_states.keys().collect::<Vec<_>>(), ["second", "stele"]);
    let request = profile(INSTANCE, "pinned", single("stele", false));
    t.instances.create_app_profile(request).await.unwrap();
    let delete =
        |id: &str| admin::DeleteClusterRequest { name: format!("{INSTANCE}/clusters/{id}") };
    let code = Code::FailedPrecondition;
    assert_code(t.instances.delete_cluster(delete("stele")).await, code, "pinned");
    t.instances.delete_cluster(delete("second")).await.unwrap();
    assert_code(t.instances.delete_cluster(delete("second")).await, Code::NotFound, "second");
    assert_code(t.instances.delete_cluster(delete("stele")).await, code, "last cluster");

    let protect = |deletion_protection| admin::UpdateTableRequest {
        table: Some(admin::Table {
            name: crate::harness::TABLE.into(),
            deletion_protection,
            ..Default::default()
        }),
        update_mask: mask(&["deletion_protection"]),
        ..Default::default()
    };
    t.tables.update_table(protect(true)).await.unwrap();
    let delete = || admin::DeleteInstanceRequest { name: INSTANCE.into() };
    assert_code(t.instances.delete_instance(delete()).await, code, "protected");
    t.tables.update_table(protect(false)).await.unwrap();
    t.instances.delete_instance(delete()).await.unwrap();
    assert_code(t.instances.delete_instance(delete()).await, Code::NotFound, INSTANCE);
    let read = t.try_read(crate::harness::read_all()).await;
    assert_code(read, Code::NotFound, "table not found");
    let pinned = get_profile(&mut t, &format!("{INSTANCE}/appProfiles/pinned")).await;
    assert_code(pinned, Code::NotFound, "pinned");
}

#[tokio::test]
async fn wrong_instances_are_refused_by_field() {
    let mut t = empty().await;
    let base = create();
    let with = |change: &dyn Fn(&mut admin::CreateInstanceRequest)| {
        let mut request = base.clone();
        change(&mut request);
        request
    };
    let one = |change: &dyn Fn(&mut admin::Cluster)| {
        with(&|request| change(request.clusters.get_mut("c-one").unwrap()))
    };
    let autoscaling = |cluster: &mut admin::Cluster| {
        let config = admin::cluster::ClusterAutoscalingConfig::default();
        cluster.config =
            Some(admin::cluster::Config::ClusterConfig(admin::cluster::ClusterConfig {
                cluster_autoscaling_config: Some(config),
            }));
    };
    for (request, text) in [
        (with(&|r| r.parent = "p".into()), "parent"),
        (with(&|r| r.instance_id = "Upper".into()), "instance_id"),
        (with(&|r| r.instance_id = "x".repeat(34)), "instance_id"),
        (with(&|r| r.instance = Some(instance(""))), "instance.display_name"),
        (with(&|r| r.instance = Some(instance(&"x".repeat(31)))), "instance.display_name"),
        (with(&|r| r.instance.as_mut().unwrap().r#type = 9), "instance.type"),
        (
            with(&|r| r.instance.as_mut().unwrap().labels = [("Up".into(), "".into())].into()),
            "instance.labels",
        ),
        (with(&|r| r.clusters.clear()), "clusters"),
        (one(&|c| c.location = "here".into()), "clusters[c-one].location"),
        (one(&|c| c.serve_nodes = -1), "clusters[c-one].serve_nodes"),
        (one(&|c| c.default_storage_type = 7), "clusters[c-one].default_storage_type"),
        (one(&autoscaling), "autoscaling_limits"),
    ] {
        assert_code(t.instances.create_instance(request).await, Code::InvalidArgument, text);
    }
    let key = |name: &str| admin::cluster::EncryptionConfig { kms_key_name: name.into() };
    let encrypted = one(&|c| c.encryption_config = Some(key("projects/p/locations/l/keyRings/r")));
    let refused = t.instances.create_instance(encrypted).await;
    assert_code(refused, Code::Unimplemented, "encryption_config");
    let plain = one(&|c| c.encryption_config = Some(key("")));
    t.instances.create_instance(plain).await.unwrap();
    assert_code(t.instances.create_instance(base).await, Code::AlreadyExists, MADE);
    for (request, text) in [
        (profile(MADE, "-x", any_cluster()), "app_profile_id"),
        (profile(MADE, "x", None), "app_profile.routing_policy"),
        (profile(MADE, "x", single("c-three", false)), "single_cluster_routing.cluster_id"),
    ] {
        assert_code(t.instances.create_app_profile(request).await, Code::InvalidArgument, text);
    }
}

#[tokio::test]
async fn operations_are_found_in_pages_and_deleted() {
    let mut t = empty().await;
    t.instances.create_instance(create()).await.unwrap();
    for nodes in 1..=3 {
        let name = format!("{MADE}/clusters/c-one");
        let wanted = admin::Cluster { name, ..cluster("z", nodes) };
        t.instances.update_cluster(wanted).await.unwrap();
    }
    let all = list_operations(&mut t, MADE).await;
    assert_eq!(all.len(), 4);
    let request = |page_token: String| lro::ListOperationsRequest {
        name: format!("operations/{MADE}"),
        page_size: 3,
        page_token,
        ..Default::default()
    };
    let first = t.operations.list_operations(request(String::new())).await.unwrap().into_inner();
    let token = first.next_page_token.clone();
    let last = t.operations.list_operations(request(token)).await.unwrap().into_inner();
    assert_eq!([first.operations, last.operations].concat(), all);
    assert_eq!(last.next_page_token, "");

    let name = all[0].name.clone();
    let wait = lro::WaitOperationRequest { name: name.clone(), timeout: None };
    assert_eq!(t.operations.wait_operation(wait).await.unwrap().into_inner(), all[0]);
    let cancel = || lro::CancelOperationRequest { name: name.clone() };
    t.operations.cancel_operation(cancel()).await.unwrap();
    let delete = || lro::DeleteOperationRequest { name: name.clone() };
    t.operations.delete_operation(delete()).await.unwrap();
    assert_code(t.operations.delete_operation(delete()).await, Code::NotFound, "operation");
    assert_code(t.operations.cancel_operation(cancel()).await, Code::NotFound, "operation");
    assert_eq!(list_operations(&mut t, MADE).await, all[1..]);
    // A record of another kind is no operation.
    let instance = lro::DeleteOperationRequest { name: MADE.into() };
    assert_code(t.operations.delete_operation(instance).await, Code::NotFound, "operation");
}
