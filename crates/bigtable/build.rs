//! Writes the server side of the services that this crate answers.
//!
//! The published crates of Google's generated API hold messages and clients, no servers; the
//! tables below name the methods we serve, and `tonic-build` turns them into server traits over
//! those message types. A method that is not listed is answered with `Unimplemented` by the
//! generated router, and `call/explain.rs` says so in words. The same tables make the services that
//! authorise each method (`call/authorize.rs`).

use tonic_build::manual::{Builder, Method, Service};

/// Number of messages in the response.
#[derive(Clone, Copy)]
enum Answer {
    One,
    Stream,
}
use Answer::{One, Stream};

/// Method, module of its messages, request, reply, answer.
type MethodRow = (&'static str, &'static str, &'static str, Answer);

const EMPTY: &str = "crate::api::Empty";
const OPERATION: &str = "crate::api::longrunning::Operation";

const DATA: &[MethodRow] = &[
    ("ReadRows", "crate::api::data::ReadRowsRequest", "crate::wire::ReadRowsMessage", Stream),
    (
        "SampleRowKeys",
        "crate::api::data::SampleRowKeysRequest",
        "crate::api::data::SampleRowKeysResponse",
        Stream,
    ),
    (
        "MutateRow",
        "crate::wire::mutations::MutateRowRequest",
        "crate::api::data::MutateRowResponse",
        One,
    ),
    (
        "MutateRows",
        "crate::wire::mutations::MutateRowsRequest",
        "crate::api::data::MutateRowsResponse",
        Stream,
    ),
    (
        "CheckAndMutateRow",
        "crate::wire::mutations::CheckAndMutateRowRequest",
        "crate::api::data::CheckAndMutateRowResponse",
        One,
    ),
    (
        "ReadModifyWriteRow",
        "crate::api::data::ReadModifyWriteRowRequest",
        "crate::api::data::ReadModifyWriteRowResponse",
        One,
    ),
    (
        "GenerateInitialChangeStreamPartitions",
        "crate::api::data::GenerateInitialChangeStreamPartitionsRequest",
        "crate::api::data::GenerateInitialChangeStreamPartitionsResponse",
        Stream,
    ),
    (
        "ReadChangeStream",
        "crate::api::data::ReadChangeStreamRequest",
        "crate::api::data::ReadChangeStreamResponse",
        Stream,
    ),
    (
        "PingAndWarm",
        "crate::api::data::PingAndWarmRequest",
        "crate::api::data::PingAndWarmResponse",
        One,
    ),
    (
        "PrepareQuery",
        "crate::api::data::PrepareQueryRequest",
        "crate::api::data::PrepareQueryResponse",
        One,
    ),
    (
        "ExecuteQuery",
        "crate::api::data::ExecuteQueryRequest",
        "crate::api::data::ExecuteQueryResponse",
        Stream,
    ),
];

const TABLE_ADMIN: &[MethodRow] = &[
    ("CreateTable", "crate::api::admin::CreateTableRequest", "crate::api::admin::Table", One),
    (
        "ListTables",
        "crate::api::admin::ListTablesRequest",
        "crate::api::admin::ListTablesResponse",
        One,
    ),
    ("GetTable", "crate::api::admin::GetTableRequest", "crate::api::admin::Table", One),
    ("UpdateTable", "crate::api::admin::UpdateTableRequest", OPERATION, One),
    ("DeleteTable", "crate::api::admin::DeleteTableRequest", EMPTY, One),
    (
        "ModifyColumnFamilies",
        "crate::api::admin::ModifyColumnFamiliesRequest",
        "crate::api::admin::Table",
        One,
    ),
    ("UndeleteTable", "crate::api::admin::UndeleteTableRequest", OPERATION, One),
    ("CreateBackup", "crate::api::admin::CreateBackupRequest", OPERATION, One),
    ("GetBackup", "crate::api::admin::GetBackupRequest", "crate::api::admin::Backup", One),
    (
        "ListBackups",
        "crate::api::admin::ListBackupsRequest",
        "crate::api::admin::ListBackupsResponse",
        One,
    ),
    ("UpdateBackup", "crate::api::admin::UpdateBackupRequest", "crate::api::admin::Backup", One),
    ("DeleteBackup", "crate::api::admin::DeleteBackupRequest", EMPTY, One),
    ("CopyBackup", "crate::api::admin::CopyBackupRequest", OPERATION, One),
    ("RestoreTable", "crate::api::admin::RestoreTableRequest", OPERATION, One),
    ("CreateAuthorizedView", "crate::api::admin::CreateAuthorizedViewRequest", OPERATION, One),
    (
        "ListAuthorizedViews",
        "crate::api::admin::ListAuthorizedViewsRequest",
        "crate::api::admin::ListAuthorizedViewsResponse",
        One,
    ),
    (
        "GetAuthorizedView",
        "crate::api::admin::GetAuthorizedViewRequest",
        "crate::api::admin::AuthorizedView",
        One,
    ),
    ("UpdateAuthorizedView", "crate::api::admin::UpdateAuthorizedViewRequest", OPERATION, One),
    ("DeleteAuthorizedView", "crate::api::admin::DeleteAuthorizedViewRequest", EMPTY, One),
    ("DropRowRange", "crate::api::admin::DropRowRangeRequest", EMPTY, One),
    (
        "GenerateConsistencyToken",
        "crate::api::admin::GenerateConsistencyTokenRequest",
        "crate::api::admin::GenerateConsistencyTokenResponse",
        One,
    ),
    (
        "CheckConsistency",
        "crate::api::admin::CheckConsistencyRequest",
        "crate::api::admin::CheckConsistencyResponse",
        One,
    ),
    ("GetIamPolicy", "crate::api::iam::GetIamPolicyRequest", "crate::api::iam::Policy", One),
    ("SetIamPolicy", "crate::api::iam::SetIamPolicyRequest", "crate::api::iam::Policy", One),
    (
        "TestIamPermissions",
        "crate::api::iam::TestIamPermissionsRequest",
        "crate::api::iam::TestIamPermissionsResponse",
        One,
    ),
];

const INSTANCE_ADMIN: &[MethodRow] = &[
    ("CreateInstance", "crate::api::admin::CreateInstanceRequest", OPERATION, One),
    ("GetInstance", "crate::api::admin::GetInstanceRequest", "crate::api::admin::Instance", One),
    (
        "ListInstances",
        "crate::api::admin::ListInstancesRequest",
        "crate::api::admin::ListInstancesResponse",
        One,
    ),
    ("UpdateInstance", "crate::api::admin::Instance", "crate::api::admin::Instance", One),
    ("PartialUpdateInstance", "crate::api::admin::PartialUpdateInstanceRequest", OPERATION, One),
    ("DeleteInstance", "crate::api::admin::DeleteInstanceRequest", EMPTY, One),
    ("CreateCluster", "crate::api::admin::CreateClusterRequest", OPERATION, One),
    ("GetCluster", "crate::api::admin::GetClusterRequest", "crate::api::admin::Cluster", One),
    (
        "ListClusters",
        "crate::api::admin::ListClustersRequest",
        "crate::api::admin::ListClustersResponse",
        One,
    ),
    ("UpdateCluster", "crate::api::admin::Cluster", OPERATION, One),
    ("PartialUpdateCluster", "crate::api::admin::PartialUpdateClusterRequest", OPERATION, One),
    ("DeleteCluster", "crate::api::admin::DeleteClusterRequest", EMPTY, One),
    (
        "CreateAppProfile",
        "crate::api::admin::CreateAppProfileRequest",
        "crate::api::admin::AppProfile",
        One,
    ),
    (
        "GetAppProfile",
        "crate::api::admin::GetAppProfileRequest",
        "crate::api::admin::AppProfile",
        One,
    ),
    (
        "ListAppProfiles",
        "crate::api::admin::ListAppProfilesRequest",
        "crate::api::admin::ListAppProfilesResponse",
        One,
    ),
    ("UpdateAppProfile", "crate::api::admin::UpdateAppProfileRequest", OPERATION, One),
    ("DeleteAppProfile", "crate::api::admin::DeleteAppProfileRequest", EMPTY, One),
    ("GetIamPolicy", "crate::api::iam::GetIamPolicyRequest", "crate::api::iam::Policy", One),
    ("SetIamPolicy", "crate::api::iam::SetIamPolicyRequest", "crate::api::iam::Policy", One),
    (
        "TestIamPermissions",
        "crate::api::iam::TestIamPermissionsRequest",
        "crate::api::iam::TestIamPermissionsResponse",
        One,
    ),
];

const OPERATIONS: &[MethodRow] = &[
    ("GetOperation", "crate::api::longrunning::GetOperationRequest", OPERATION, One),
    ("WaitOperation", "crate::api::longrunning::WaitOperationRequest", OPERATION, One),
    (
        "ListOperations",
        "crate::api::longrunning::ListOperationsRequest",
        "crate::api::longrunning::ListOperationsResponse",
        One,
    ),
    ("CancelOperation", "crate::api::longrunning::CancelOperationRequest", EMPTY, One),
    ("DeleteOperation", "crate::api::longrunning::DeleteOperationRequest", EMPTY, One),
];

fn service(package: &str, name: &str, methods: &[MethodRow]) -> Service {
    methods
        .iter()
        .fold(Service::builder().package(package).name(name), |service, row| {
            service.method(method(row))
        })
        .build()
}

fn method(&(route, request, reply, answer): &MethodRow) -> Method {
    let method = Method::builder()
        .name(snake_case(route))
        .route_name(route)
        .input_type(request)
        .output_type(reply)
        .codec_path("crate::wire::Codec");
    match answer {
        One => method.build(),
        Stream => method.server_streaming().build(),
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Package, name and methods of each service.
const SERVICES: &[(&str, &str, &[MethodRow])] = &[
    ("google.bigtable.v2", "Bigtable", DATA),
    ("google.bigtable.admin.v2", "BigtableTableAdmin", TABLE_ADMIN),
    ("google.bigtable.admin.v2", "BigtableInstanceAdmin", INSTANCE_ADMIN),
    ("google.longrunning", "Operations", OPERATIONS),
];

/// Writes the paths of all methods, and the names of all services, as constants.
fn write_names() -> std::io::Result<()> {
    let (mut services, mut methods) = (Vec::new(), Vec::new());
    for (package, name, rows) in SERVICES {
        services.push(format!("{package}.{name}"));
        methods.extend(rows.iter().map(|(route, ..)| format!("/{package}.{name}/{route}")));
    }
    let text = format!(
        "/// Full names of the services.\npub const SERVICES: &[&str] = &{services:?};\n\
         /// Paths of the methods that are served.\npub const METHODS: &[&str] = &{methods:?};\n"
    );
    let out = std::env::var_os("OUT_DIR").ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::write(std::path::Path::new(&out).join("names.rs"), text)
}

/// Writes, for each service, an implementation that authorises every method and hands it on.
fn write_guards() -> std::io::Result<()> {
    let mut text = String::new();
    for (package, name, rows) in SERVICES {
        let service = format!("crate::api::server::{}_server::{name}", snake_case(name));
        text +=
            &format!("impl<S: {service}> {service} for crate::call::authorize::Authorized<S> {{\n");
        for (route, request, reply, answer) in *rows {
            let (method, path) = (snake_case(route), format!("/{package}.{name}/{route}"));
            let reply = match answer {
                One => (*reply).to_owned(),
                Stream => {
                    text += &format!("type {route}Stream = S::{route}Stream;\n");
                    format!("S::{route}Stream")
                }
            };
            text += &format!(
                "fn {method}<'a, 't>(&'a self, request: tonic::Request<{request}>) \
                 -> futures::future::BoxFuture<'t, Result<tonic::Response<{reply}>, tonic::Status>> \
                 where 'a: 't, Self: 't {{ \
                 self.call({path:?}, request, |service, request| service.{method}(request)) }}\n"
            );
        }
        text += "}\n";
    }
    let out = std::env::var_os("OUT_DIR").ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::write(std::path::Path::new(&out).join("guards.rs"), text)
}

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let services: Vec<_> =
        SERVICES.iter().map(|(package, name, methods)| service(package, name, methods)).collect();
    Builder::new().build_client(false).compile(&services);
    write_names()?;
    write_guards()
}
