//! The table admin service: `google.bigtable.admin.v2.BigtableTableAdmin`.

mod backup_list;
mod backups;
mod views;

use crate::admin::directory::Directory;
use crate::admin::message::{admin_any, mask_paths, page};
use crate::admin::operations::Operations;
use crate::admin::{policies, schema, types};
use crate::api::admin::backup::BackupType;
use crate::api::admin::drop_row_range_request::Target;
use crate::api::admin::table::View;
use crate::api::admin::{
    AuthorizedView, Backup, CheckConsistencyRequest, CheckConsistencyResponse, CopyBackupRequest,
    CreateAuthorizedViewRequest, CreateBackupRequest, CreateTableRequest,
    DeleteAuthorizedViewRequest, DeleteBackupRequest, DeleteTableRequest, DropRowRangeRequest,
    GenerateConsistencyTokenRequest, GenerateConsistencyTokenResponse, GetAuthorizedViewRequest,
    GetBackupRequest, GetTableRequest, ListAuthorizedViewsRequest, ListAuthorizedViewsResponse,
    ListBackupsRequest, ListBackupsResponse, ListTablesRequest, ListTablesResponse,
    ModifyColumnFamiliesRequest, RestoreTableRequest, Table, UndeleteTableMetadata,
    UndeleteTableRequest, UpdateAuthorizedViewRequest, UpdateBackupRequest, UpdateTableMetadata,
    UpdateTableRequest,
};
use crate::api::iam;
use crate::api::longrunning::Operation;
use crate::api::server::bigtable_table_admin_server;
use crate::api::timestamp;
use crate::call::status;
use crate::names;
use std::sync::Arc;
use table::{
    CreateTable, DropRows, Error, Store, TableIdentity, TableName, TableSchema, TableUpdate,
};
use tonic::{Request, Response, Status};

/// Most tables of one page of `ListTables`.
const PAGE_TABLES_MAX: usize = 1_000;

/// The service over a store.
#[derive(Clone)]
pub(crate) struct TableAdminService {
    directory: Arc<Directory>,
    operations: Operations,
}

impl TableAdminService {
    pub(crate) fn new(directory: Arc<Directory>, operations: Operations) -> Self {
        Self { directory, operations }
    }

    fn store(&self) -> &dyn Store {
        self.directory.store()
    }

    async fn get(&self, table: &TableName) -> Result<Arc<TableSchema>, Status> {
        self.store().get_table(table).await.map_err(status::from_error)
    }

    /// Returns the table that a request names, if its instance is known.
    fn table(&self, field: &'static str, name: &str) -> Result<TableName, Status> {
        let table = names::table(field, name).map_err(status::from_error)?;
        self.directory.check_table(&table).map_err(status::from_error)?;
        Ok(table)
    }

    /// Returns a table as a message, with the clusters of its instance.
    fn message(&self, table: &TableSchema, view: View) -> Result<Table, Status> {
        self.table_message(table, view).map_err(status::from_error)
    }

    fn table_message(&self, table: &TableSchema, view: View) -> table::Result<Table> {
        let clusters = match names::instance_of(&table.name) {
            Some(instance) => self.directory.cluster_ids(instance)?,
            None => Vec::new(),
        };
        let message = schema::table_message(table, view, &clusters);
        self.completed(message, &table.name, view)
    }

    /// Adds to the message of a table what its schema does not tell: its change stream, none if the table
    /// was deleted meanwhile, and the backup that it was restored from.
    fn completed(&self, mut message: Table, name: &TableName, view: View) -> table::Result<Table> {
        if matches!(view, View::Unspecified | View::SchemaView | View::Full) {
            let retention = self.store().change_retention(name).ok().flatten();
            message.change_stream_config = retention.map(schema::change_stream_config);
            message.restore_info = self.directory.restore_info(name.as_str())?;
        }
        Ok(message)
    }

    /// The consistency token of a table as it is now: its identity. A table created anew under an old
    /// name has another.
    async fn token(&self, table: &TableName) -> Result<String, Status> {
        let identity = self.store().identity(table).await.map_err(status::from_error)?;
        Ok(identity.to_string())
    }
}

#[tonic::async_trait]
impl bigtable_table_admin_server::BigtableTableAdmin for TableAdminService {
    async fn create_table(
        &self,
        request: Request<CreateTableRequest>,
    ) -> Result<Response<Table>, Status> {
        let request = request.into_inner();
        let config = request.table.as_ref().and_then(|table| table.change_stream_config);
        let retention = schema::change_retention(config).map_err(status::from_error)?;
        let table = new_table(request)?;
        self.directory.check_table(&table.name).map_err(status::from_error)?;
        let created = self.store().create_table(table).await.map_err(status::from_error)?;
        if retention.is_some()
            && let Err(error) = self.store().keep_changes(&created.name, retention).await
        {
            // The client has no table, and may try again.
            let _ = self.store().drop_table(&created.name).await;
            return Err(status::from_error(error));
        }
        Ok(Response::new(self.message(&created, View::SchemaView)?))
    }

    async fn list_tables(
        &self,
        request: Request<ListTablesRequest>,
    ) -> Result<Response<ListTablesResponse>, Status> {
        let request = request.into_inner();
        let parent = names::instance("parent", &request.parent).map_err(status::from_error)?;
        self.directory.check_instance(parent).map_err(status::from_error)?;
        let view = schema::view(request.view, View::NameOnly).map_err(status::from_error)?;
        let prefix = format!("{}/tables/", request.parent);
        let tables = self.store().list_tables(&prefix).await.map_err(status::from_error)?;
        let wanted = (request.page_size, request.page_token.as_str());
        let (shown, next_page_token) =
            page(tables, |table| table.name.as_str(), wanted, PAGE_TABLES_MAX)
                .map_err(status::from_error)?;
        let clusters = self.directory.cluster_ids(parent).map_err(status::from_error)?;
        let message = |table: &Arc<TableSchema>| {
            let message = schema::table_message(table, view, &clusters);
            self.completed(message, &table.name, view)
        };
        let tables = shown.iter().map(message).collect::<Result<_, _>>();
        let tables = tables.map_err(status::from_error)?;
        Ok(Response::new(ListTablesResponse { tables, next_page_token }))
    }

    async fn get_table(
        &self,
        request: Request<GetTableRequest>,
    ) -> Result<Response<Table>, Status> {
        let request = request.into_inner();
        let view = schema::view(request.view, View::SchemaView).map_err(status::from_error)?;
        let table = self.get(&self.table("name", &request.name)?).await?;
        Ok(Response::new(self.message(&table, view)?))
    }

    async fn update_table(
        &self,
        request: Request<UpdateTableRequest>,
    ) -> Result<Response<Operation>, Status> {
        let request = request.into_inner();
        let wanted = request.table.ok_or_else(|| invalid("table", "is not set"))?;
        let name = self.table("table.name", &wanted.name)?;
        let paths = mask_paths(request.update_mask).map_err(status::from_error)?;
        let update = table_update(&paths, wanted, request.ignore_warnings)?;
        let updated = self.store().update_table(&name, update).await.map_err(status::from_error)?;
        let table = self.message(&updated, View::SchemaView)?;
        let now = Some(timestamp(self.store().now_micros()));
        let metadata =
            UpdateTableMetadata { name: table.name.clone(), start_time: now, end_time: now };
        let metadata = admin_any("UpdateTableMetadata", &metadata);
        let response = admin_any("Table", &table);
        let operation = self.operations.finish(name.as_str(), metadata, response, Vec::new()).await;
        let operation = operation.map_err(status::from_error)?;
        Ok(Response::new(operation))
    }

    async fn delete_table(
        &self,
        request: Request<DeleteTableRequest>,
    ) -> Result<Response<()>, Status> {
        let table = self.table("name", &request.get_ref().name)?;
        let _changing = self.directory.changing().await;
        let views = self.directory.check_views_go(&format!("{table}/"));
        views.map_err(status::from_error)?;
        answer(self.store().delete_table(&table).await)
    }

    async fn undelete_table(
        &self,
        request: Request<UndeleteTableRequest>,
    ) -> Result<Response<Operation>, Status> {
        let table = names::table("name", &request.get_ref().name).map_err(status::from_error)?;
        let started = Some(timestamp(self.store().now_micros()));
        let _changing = self.directory.changing().await;
        self.directory.check_table(&table).map_err(status::from_error)?;
        let back = self.store().undelete_table(&table).await.map_err(status::from_error)?;
        let message = self.message(&back, View::SchemaView)?;
        let metadata = UndeleteTableMetadata {
            name: message.name.clone(),
            start_time: started,
            end_time: Some(timestamp(self.store().now_micros())),
        };
        let metadata = admin_any("UndeleteTableMetadata", &metadata);
        let response = admin_any("Table", &message);
        answer(self.operations.finish(table.as_str(), metadata, response, Vec::new()).await)
    }

    async fn create_backup(
        &self,
        request: Request<CreateBackupRequest>,
    ) -> Result<Response<Operation>, Status> {
        let request = request.into_inner();
        if let Some(backup) = &request.backup {
            check_backup_type(backup)?;
        }
        answer(self.create_backup(request).await)
    }

    async fn get_backup(
        &self,
        request: Request<GetBackupRequest>,
    ) -> Result<Response<Backup>, Status> {
        answer(self.get_backup(&request.get_ref().name))
    }

    async fn list_backups(
        &self,
        request: Request<ListBackupsRequest>,
    ) -> Result<Response<ListBackupsResponse>, Status> {
        answer(self.list_backups(request.get_ref()))
    }

    async fn update_backup(
        &self,
        request: Request<UpdateBackupRequest>,
    ) -> Result<Response<Backup>, Status> {
        answer(self.update_backup(request.into_inner()).await)
    }

    async fn delete_backup(
        &self,
        request: Request<DeleteBackupRequest>,
    ) -> Result<Response<()>, Status> {
        answer(self.delete_backup(&request.get_ref().name).await)
    }

    async fn copy_backup(
        &self,
        request: Request<CopyBackupRequest>,
    ) -> Result<Response<Operation>, Status> {
        answer(self.copy_backup(request.into_inner()).await)
    }

    async fn restore_table(
        &self,
        request: Request<RestoreTableRequest>,
    ) -> Result<Response<Operation>, Status> {
        answer(self.restore_table(request.into_inner()).await)
    }

    async fn create_authorized_view(
        &self,
        request: Request<CreateAuthorizedViewRequest>,
    ) -> Result<Response<Operation>, Status> {
        answer(self.create_view(request.into_inner()).await)
    }

    async fn list_authorized_views(
        &self,
        request: Request<ListAuthorizedViewsRequest>,
    ) -> Result<Response<ListAuthorizedViewsResponse>, Status> {
        answer(self.list_views(request.get_ref()).await)
    }

    async fn get_authorized_view(
        &self,
        request: Request<GetAuthorizedViewRequest>,
    ) -> Result<Response<AuthorizedView>, Status> {
        answer(self.get_view(request.get_ref()))
    }

    async fn update_authorized_view(
        &self,
        request: Request<UpdateAuthorizedViewRequest>,
    ) -> Result<Response<Operation>, Status> {
        answer(self.update_view(request.into_inner()).await)
    }

    async fn delete_authorized_view(
        &self,
        request: Request<DeleteAuthorizedViewRequest>,
    ) -> Result<Response<()>, Status> {
        answer(self.delete_view(request.into_inner()).await)
    }

    async fn modify_column_families(
        &self,
        request: Request<ModifyColumnFamiliesRequest>,
    ) -> Result<Response<Table>, Status> {
        let request = request.into_inner();
        let table = self.table("name", &request.name)?;
        let changes = request
            .modifications
            .into_iter()
            .map(schema::family_change)
            .collect::<Result<_, _>>()?;
        let changed = self.store().modify_families(&table, changes).await;
        let changed = changed.map_err(status::from_error)?;
        Ok(Response::new(self.message(&changed, View::SchemaView)?))
    }

    async fn drop_row_range(
        &self,
        request: Request<DropRowRangeRequest>,
    ) -> Result<Response<()>, Status> {
        let request = request.into_inner();
        let table = self.table("name", &request.name)?;
        let rows = match request.target {
            Some(Target::RowKeyPrefix(prefix)) if prefix.is_empty() => {
                return Err(invalid("row_key_prefix", "must not be empty"));
            }
            Some(Target::RowKeyPrefix(prefix)) => DropRows::Prefix(prefix),
            Some(Target::DeleteAllDataFromTable(true)) => DropRows::All,
            Some(Target::DeleteAllDataFromTable(false)) => {
                return Err(invalid("delete_all_data_from_table", "must be true"));
            }
            None => return Err(invalid("target", "is not set")),
        };
        self.store().drop_rows(&table, rows).await.map_err(status::from_error)?;
        Ok(Response::new(()))
    }

    async fn generate_consistency_token(
        &self,
        request: Request<GenerateConsistencyTokenRequest>,
    ) -> Result<Response<GenerateConsistencyTokenResponse>, Status> {
        let consistency_token = self.token(&self.table("name", &request.get_ref().name)?).await?;
        Ok(Response::new(GenerateConsistencyTokenResponse { consistency_token }))
    }

    /// Every read sees every acknowledged write, so a token is consistent as soon as it exists. Before
    /// it says so, what was acknowledged is on disk, whatever the store's durability mode: a client can
    /// rely on it for good.
    async fn check_consistency(
        &self,
        request: Request<CheckConsistencyRequest>,
    ) -> Result<Response<CheckConsistencyResponse>, Status> {
        let request = request.into_inner();
        let (then, now) =
            (request.consistency_token, self.token(&self.table("name", &request.name)?).await?);
        if TableIdentity::lasting(&then) != TableIdentity::lasting(&now) {
            return Err(invalid("consistency_token", "was not generated for this table"));
        }
        if then != now {
            let text = "the server restarted after it generated the token; acknowledged writes may be \
                 lost, because its durability is not `sync`";
            return Err(status::from_error(Error::FailedPrecondition(text.to_owned())));
        }
        self.store().sync().await.map_err(status::from_error)?;
        Ok(Response::new(CheckConsistencyResponse { consistent: true }))
    }

    async fn get_iam_policy(
        &self,
        request: Request<iam::GetIamPolicyRequest>,
    ) -> Result<Response<iam::Policy>, Status> {
        policies::get(&request)
    }

    async fn set_iam_policy(
        &self,
        request: Request<iam::SetIamPolicyRequest>,
    ) -> Result<Response<iam::Policy>, Status> {
        Err(policies::set(&request))
    }

    async fn test_iam_permissions(
        &self,
        request: Request<iam::TestIamPermissionsRequest>,
    ) -> Result<Response<iam::TestIamPermissionsResponse>, Status> {
        policies::test(request)
    }
}

/// Refuses backups that are not standard ones.
fn check_backup_type(backup: &Backup) -> Result<(), Status> {
    match BackupType::try_from(backup.backup_type) {
        Ok(BackupType::Hot) => Err(status::unsupported("a backup of type HOT is")),
        Ok(_) if backup.hot_to_standard_time.is_some() => {
            Err(invalid("backup.hot_to_standard_time", "must not be set for a standard backup"))
        }
        Ok(_) => Ok(()),
        Err(_) => Err(invalid("backup.backup_type", "is not a type of backup")),
    }
}

fn answer<T>(result: table::Result<T>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(status::from_error)
}

fn invalid(field: &str, rule: &str) -> Status {
    status::from_error(Error::invalid(field, rule))
}

/// The update of a table that a mask of `paths` picks from `wanted`.
fn table_update(
    paths: &[String],
    wanted: Table,
    ignore_warnings: bool,
) -> Result<TableUpdate, Status> {
    let mut update = TableUpdate { ignore_warnings, ..TableUpdate::default() };
    for path in paths {
        match path.as_str() {
            "deletion_protection" => update.deletion_protection = Some(wanted.deletion_protection),
            "row_key_schema" => {
                let schema = types::row_key_schema(wanted.row_key_schema.clone())?;
                update.row_key_schema = Some(schema);
            }
            "change_stream_config" | "change_stream_config.retention_period" => {
                let retention = schema::change_retention(wanted.change_stream_config);
                update.change_retention = Some(retention.map_err(status::from_error)?);
            }
            "granularity" => return Err(invalid("update_mask", "`granularity` is immutable")),
            other => return Err(status::unsupported(&format!("an update of table.{other} is"))),
        }
    }
    Ok(update)
}

fn new_table(request: CreateTableRequest) -> Result<CreateTable, Status> {
    names::instance("parent", &request.parent).map_err(status::from_error)?;
    table::limits::check_table_id("table_id", &request.table_id).map_err(status::from_error)?;
    let name = format!("{}/tables/{}", request.parent, request.table_id);
    let wanted = request.table.unwrap_or_default();
    refuse_unsupported(&wanted)?;
    let name = names::table("table_id", &name).map_err(status::from_error)?;
    let splits = request.initial_splits.into_iter().map(|split| split.key).collect();
    schema::table_of_message(name, splits, wanted)
}

/// Refuses a table with settings that are not supported, instead of dropping them silently.
fn refuse_unsupported(table: &Table) -> Result<(), Status> {
    for (field, is_set) in [
        ("tiered_storage_config", table.tiered_storage_config.is_some()),
        ("automated_backup_config", table.automated_backup_config.is_some()),
        ("restore_info", table.restore_info.is_some()),
    ] {
        if is_set {
            return Err(status::unsupported(&format!("table.{field} is")));
        }
    }
    Ok(())
}
