//! The table of permissions: what each request needs, by the names of Google's IAM, and where in the
//! request the resource stands.
//!
//! A new method needs a row here, or it does not compile. A request that touches cells says which
//! families it touches: a caller who may read some families sees only them, and one who may write some
//! is refused the others.

use crate::api::data::mutation::Mutation as Change;
use crate::api::data::{self, RowFilter};
use crate::api::{admin, iam, longrunning};
use crate::call::authorize::{Asks, Denied, Sees};
use crate::call::caller::{Allowed, Caller};
use crate::data::families;
use crate::names;
use crate::wire::mutations::{
    CheckAndMutateRowRequest, MutateRowRequest, MutateRowsRequest, Mutation,
};
use std::collections::BTreeSet;

const READ: &str = "bigtable.tables.readRows";
const WRITE: &str = "bigtable.tables.mutateRows";
const SAMPLE: &str = "bigtable.tables.sampleRowKeys";
const READ_VIEW: &str = "bigtable.authorizedViews.readRows";
const WRITE_VIEW: &str = "bigtable.authorizedViews.mutateRows";
const SAMPLE_VIEW: &str = "bigtable.authorizedViews.sampleRowKeys";
const READ_MATERIALIZED: &str = "bigtable.materializedViews.readRows";
const SAMPLE_MATERIALIZED: &str = "bigtable.materializedViews.sampleRowKeys";

/// Requests that need one permission on one resource.
macro_rules! asks {
    ($($message:ty: $permission:literal on |$request:ident| $resource:expr;)*) => {$(
        impl Asks for $message {
            const ADMINISTERS: bool = true;

            fn resource(&self) -> &str {
                let $request = self;
                $resource
            }

            fn authorize(&mut self, caller: &dyn Caller) -> Result<Sees, Denied> {
                all(need(caller, $permission, self.resource()))
            }
        }
    )*};
}

asks! {
    admin::CreateTableRequest: "bigtable.tables.create" on |request| &request.parent;
    admin::ListTablesRequest: "bigtable.tables.list" on |request| &request.parent;
    admin::GetTableRequest: "bigtable.tables.get" on |request| &request.name;
    admin::UpdateTableRequest: "bigtable.tables.update" on
        |request| request.table.as_ref().map_or("", |table| &table.name);
    admin::DeleteTableRequest: "bigtable.tables.delete" on |request| &request.name;
    admin::ModifyColumnFamiliesRequest: "bigtable.tables.update" on |request| &request.name;
    admin::DropRowRangeRequest: "bigtable.tables.mutateRows" on |request| &request.name;
    admin::GenerateConsistencyTokenRequest: "bigtable.tables.generateConsistencyToken" on
        |request| &request.name;
    admin::CheckConsistencyRequest: "bigtable.tables.checkConsistency" on |request| &request.name;
    admin::CreateAuthorizedViewRequest: "bigtable.authorizedViews.create" on
        |request| &request.parent;
    admin::ListAuthorizedViewsRequest: "bigtable.authorizedViews.list" on
        |request| &request.parent;
    admin::GetAuthorizedViewRequest: "bigtable.authorizedViews.get" on |request| &request.name;
    admin::UpdateAuthorizedViewRequest: "bigtable.authorizedViews.update" on
        |request| request.authorized_view.as_ref().map_or("", |view| &view.name);
    admin::DeleteAuthorizedViewRequest: "bigtable.authorizedViews.delete" on
        |request| &request.name;
    admin::UndeleteTableRequest: "bigtable.tables.undelete" on |request| &request.name;
    admin::GetBackupRequest: "bigtable.backups.get" on |request| &request.name;
    admin::ListBackupsRequest: "bigtable.backups.list" on |request| &request.parent;
    admin::UpdateBackupRequest: "bigtable.backups.update" on
        |request| request.backup.as_ref().map_or("", |backup| &backup.name);
    admin::DeleteBackupRequest: "bigtable.backups.delete" on |request| &request.name;
    admin::GetInstanceRequest: "bigtable.instances.get" on |request| &request.name;
    admin::ListInstancesRequest: "bigtable.instances.list" on |request| &request.parent;
    admin::CreateInstanceRequest: "bigtable.instances.create" on |request| &request.parent;
    admin::Instance: "bigtable.instances.update" on |request| &request.name;
    admin::PartialUpdateInstanceRequest: "bigtable.instances.update" on
        |request| request.instance.as_ref().map_or("", |instance| &instance.name);
    admin::DeleteInstanceRequest: "bigtable.instances.delete" on |request| &request.name;
    admin::CreateClusterRequest: "bigtable.clusters.create" on |request| &request.parent;
    admin::GetClusterRequest: "bigtable.clusters.get" on |request| &request.name;
    admin::ListClustersRequest: "bigtable.clusters.list" on |request| &request.parent;
    admin::Cluster: "bigtable.clusters.update" on |request| &request.name;
    admin::PartialUpdateClusterRequest: "bigtable.clusters.update" on
        |request| request.cluster.as_ref().map_or("", |cluster| &cluster.name);
    admin::DeleteClusterRequest: "bigtable.clusters.delete" on |request| &request.name;
    admin::CreateAppProfileRequest: "bigtable.appProfiles.create" on |request| &request.parent;
    admin::GetAppProfileRequest: "bigtable.appProfiles.get" on |request| &request.name;
    admin::ListAppProfilesRequest: "bigtable.appProfiles.list" on |request| &request.parent;
    admin::UpdateAppProfileRequest: "bigtable.appProfiles.update" on
        |request| request.app_profile.as_ref().map_or("", |profile| &profile.name);
    admin::DeleteAppProfileRequest: "bigtable.appProfiles.delete" on |request| &request.name;
    longrunning::GetOperationRequest: "bigtable.operations.get" on
        |request| operation(&request.name);
    longrunning::WaitOperationRequest: "bigtable.operations.get" on
        |request| operation(&request.name);
    longrunning::ListOperationsRequest: "bigtable.operations.list" on
        |request| operation(names::operations_parent(&request.name));
    longrunning::CancelOperationRequest: "bigtable.operations.cancel" on
        |request| operation(&request.name);
    longrunning::DeleteOperationRequest: "bigtable.operations.delete" on
        |request| operation(&request.name);
}

/// Requests that need several permissions, each on a resource of its own. The first resource is what the
/// request is about.
macro_rules! asks_twice {
    ($($message:ty, |$request:ident| $($permission:expr => $resource:expr),+;)*) => {$(
        impl Asks for $message {
            const ADMINISTERS: bool = true;

            fn resource(&self) -> &str {
                let $request = self;
                let resources: &[&str] = &[$($resource),+];
                resources[0]
            }

            fn authorize(&mut self, caller: &dyn Caller) -> Result<Sees, Denied> {
                let $request = self;
                $(need(caller, $permission, $resource)?;)+
                Ok(Sees::All)
            }
        }
    )*};
}

asks_twice! {
    admin::CreateBackupRequest, |request|
        "bigtable.backups.create" => &request.parent,
        READ => request.backup.as_ref().map_or("", |backup| &backup.source_table);
    admin::CopyBackupRequest, |request|
        "bigtable.backups.create" => &request.parent,
        "bigtable.backups.read" => &request.source_backup;
    admin::RestoreTableRequest, |request|
        "bigtable.tables.create" => &request.parent,
        "bigtable.backups.restore" => match &request.source {
            Some(admin::restore_table_request::Source::Backup(backup)) => backup,
            None => "",
        };
}

/// Returns the resource below which an operation of this name runs.
fn operation(name: &str) -> &str {
    name.strip_prefix("operations/").unwrap_or(name)
}

/// Requests about the policy of a resource, whose kind its name tells.
macro_rules! asks_of_policies {
    ($($message:ty: $verb:literal;)*) => {$(
        impl Asks for $message {
            const ADMINISTERS: bool = true;

            fn resource(&self) -> &str {
                &self.resource
            }

            fn authorize(&mut self, caller: &dyn Caller) -> Result<Sees, Denied> {
                let permission = match self.resource.rsplit('/').nth(1).unwrap_or_default() {
                    "tables" => concat!("bigtable.tables.", $verb),
                    "authorizedViews" => concat!("bigtable.authorizedViews.", $verb),
                    "backups" => concat!("bigtable.backups.", $verb),
                    "logicalViews" => concat!("bigtable.logicalViews.", $verb),
                    "materializedViews" => concat!("bigtable.materializedViews.", $verb),
                    "schemaBundles" => concat!("bigtable.schemaBundles.", $verb),
                    _ => concat!("bigtable.instances.", $verb),
                };
                all(need(caller, permission, &self.resource))
            }
        }
    )*};
}

asks_of_policies! {
    iam::GetIamPolicyRequest: "getIamPolicy";
    iam::SetIamPolicyRequest: "setIamPolicy";
}

/// Everybody may ask what they may do.
impl Asks for iam::TestIamPermissionsRequest {
    const ADMINISTERS: bool = false;

    fn resource(&self) -> &str {
        &self.resource
    }

    fn authorize(&mut self, _: &dyn Caller) -> Result<Sees, Denied> {
        Ok(Sees::All)
    }
}

/// Requests of the data service.
macro_rules! asks_of_data {
    ($($message:ty, |$request:ident| $resource:expr, |$asked:ident, $caller:ident| $authorize:expr;)*) => {$(
        impl Asks for $message {
            const ADMINISTERS: bool = false;

            fn resource(&self) -> &str {
                let $request = self;
                $resource
            }

            fn authorize(&mut self, $caller: &dyn Caller) -> Result<Sees, Denied> {
                let $asked = self;
                $authorize
            }
        }
    )*};
}

asks_of_data! {
    data::ReadRowsRequest,
        |request| first(&[&request.authorized_view_name, &request.materialized_view_name, &request.table_name]),
        |request, caller| {
            let permission = if !request.authorized_view_name.is_empty() {
                READ_VIEW
            } else if !request.materialized_view_name.is_empty() {
                READ_MATERIALIZED
            } else {
                READ
            };
            let Some(families) = some(caller, permission, request.resource())? else {
                return Ok(Sees::All);
            };
            limit(&mut request.filter, &families);
            Ok(Sees::Part)
        };
    data::SampleRowKeysRequest,
        |request| first(&[&request.authorized_view_name, &request.materialized_view_name, &request.table_name]),
        |request, caller| {
            let permission = if !request.authorized_view_name.is_empty() {
                SAMPLE_VIEW
            } else if !request.materialized_view_name.is_empty() {
                SAMPLE_MATERIALIZED
            } else {
                SAMPLE
            };
            all(need(caller, permission, request.resource()))
        };
    MutateRowRequest,
        |request| first(&[&request.authorized_view_name, &request.table_name]),
        |request, caller| {
            let permission = of_view(&request.authorized_view_name, WRITE_VIEW, WRITE);
            all(write(caller, permission, request.resource(), &request.mutations))
        };
    MutateRowsRequest,
        |request| first(&[&request.authorized_view_name, &request.table_name]),
        |request, caller| {
            let permission = of_view(&request.authorized_view_name, WRITE_VIEW, WRITE);
            let changes = request.entries.iter().flat_map(|entry| &entry.mutations);
            all(write(caller, permission, request.resource(), changes))
        };
    CheckAndMutateRowRequest,
        |request| first(&[&request.authorized_view_name, &request.table_name]),
        |request, caller| {
            let view = &request.authorized_view_name;
            let changes = request.true_mutations.iter().chain(&request.false_mutations);
            write(caller, of_view(view, WRITE_VIEW, WRITE), request.resource(), changes)?;
            let permission = of_view(view, READ_VIEW, READ);
            if let Some(families) = some(caller, permission, request.resource())? {
                limit(&mut request.predicate_filter, &families);
            }
            Ok(Sees::All)
        };
    data::ReadModifyWriteRowRequest,
        |request| first(&[&request.authorized_view_name, &request.table_name]),
        |request, caller| {
            let view = &request.authorized_view_name;
            for permission in [of_view(view, WRITE_VIEW, WRITE), of_view(view, READ_VIEW, READ)] {
                if let Some(families) = some(caller, permission, request.resource())? {
                    let touched = request.rules.iter().map(|rule| Some(rule.family_name.as_str()));
                    within(permission, request.resource(), &families, touched)?;
                }
            }
            Ok(Sees::All)
        };
    data::PrepareQueryRequest,
        |request| &request.instance_name,
        |request, caller| all(query(caller, &request.instance_name));
    data::ExecuteQueryRequest,
        |request| &request.instance_name,
        |request, caller| all(query(caller, &request.instance_name));
    data::GenerateInitialChangeStreamPartitionsRequest,
        |request| &request.table_name,
        |request, caller| all(need(caller, READ, &request.table_name));
    data::ReadChangeStreamRequest,
        |request| &request.table_name,
        |request, caller| all(need(caller, READ, &request.table_name));
    data::PingAndWarmRequest,
        |request| &request.name,
        |request, caller| all(need(caller, "bigtable.instances.ping", &request.name));
}

/// The outcome for a request that sees all cells of its tables, or none at all.
fn all(outcome: Result<(), Denied>) -> Result<Sees, Denied> {
    outcome.map(|()| Sees::All)
}

/// Refuses a caller who may not read every table of the instance: the text of a query names the table.
fn query(caller: &dyn Caller, instance: &str) -> Result<(), Denied> {
    need(caller, "bigtable.instances.executeQuery", instance)?;
    need(caller, READ, instance)
}

/// Returns the first name that is set.
fn first<'a>(names: &[&'a String]) -> &'a str {
    names.iter().find(|name| !name.is_empty()).map_or("", |name| name)
}

fn of_view(view: &str, on_view: &'static str, on_table: &'static str) -> &'static str {
    if view.is_empty() { on_table } else { on_view }
}

/// Refuses a caller who has the permission for some families only, or not at all.
fn need(caller: &dyn Caller, permission: &'static str, resource: &str) -> Result<(), Denied> {
    match caller.allowed(permission, resource) {
        Allowed::Everything => Ok(()),
        Allowed::Families(_) | Allowed::Nothing => Err(denied(permission, resource, None)),
    }
}

/// Returns the families for which the caller has the permission; nothing if it is for all.
fn some(
    caller: &dyn Caller,
    permission: &'static str,
    resource: &str,
) -> Result<Option<BTreeSet<String>>, Denied> {
    match caller.allowed(permission, resource) {
        Allowed::Everything => Ok(None),
        Allowed::Families(families) => Ok(Some(families)),
        Allowed::Nothing => Err(denied(permission, resource, None)),
    }
}

fn write<'a>(
    caller: &dyn Caller,
    permission: &'static str,
    resource: &str,
    changes: impl IntoIterator<Item = &'a Mutation>,
) -> Result<(), Denied> {
    match some(caller, permission, resource)? {
        None => Ok(()),
        Some(families) => {
            let touched = changes.into_iter().filter_map(|change| change.mutation.as_ref());
            within(permission, resource, &families, touched.map(family))
        }
    }
}

/// Refuses what touches other families; `None` touches all.
fn within<'a>(
    permission: &'static str,
    resource: &str,
    families: &BTreeSet<String>,
    mut touched: impl Iterator<Item = Option<&'a str>>,
) -> Result<(), Denied> {
    let outside = |family: &Option<&str>| family.is_none_or(|name| !families.contains(name));
    match touched.find(outside) {
        None => Ok(()),
        Some(family) => Err(denied(permission, resource, family)),
    }
}

fn denied(permission: &'static str, resource: &str, family: Option<&str>) -> Denied {
    Denied { permission, resource: resource.to_owned(), family: family.map(str::to_owned) }
}

/// Returns the family that a mutation touches; nothing for one that touches all.
fn family(change: &Change) -> Option<&str> {
    match change {
        Change::SetCell(set) => Some(&set.family_name),
        Change::AddToCell(add) => Some(&add.family_name),
        Change::MergeToCell(merge) => Some(&merge.family_name),
        Change::DeleteFromColumn(delete) => Some(&delete.family_name),
        Change::DeleteFromFamily(delete) => Some(&delete.family_name),
        Change::DeleteFromRow(_) => None,
    }
}

/// Lets a filter see the cells of `families` alone.
fn limit(filter: &mut Option<RowFilter>, families: &BTreeSet<String>) {
    *filter = Some(families::limited(filter.take(), families));
}
