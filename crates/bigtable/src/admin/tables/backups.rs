//! Backups of tables, each a copy that takes no disk space until the table changes.
//!
//! The record of a backup is its message. It is written and removed together with the copy.

use super::TableAdminService;
use super::backup_list::{Filter, Order, page};
use crate::admin::directory::{Directory, put};
use crate::admin::message::{admin_any, decoded, mask_paths, wrong_path};
use crate::api::admin::backup::{BackupType, State};
use crate::api::admin::restore_table_request::Source;
use crate::api::admin::table::View;
use crate::api::admin::{
    Backup, BackupInfo, CopyBackupMetadata, CopyBackupRequest, CreateBackupMetadata,
    CreateBackupRequest, EncryptionInfo, ListBackupsRequest, ListBackupsResponse,
    OperationProgress, OptimizeRestoredTableMetadata, RestoreInfo, RestoreSourceType,
    RestoreTableMetadata, RestoreTableRequest, UpdateBackupRequest, restore_info,
    restore_table_metadata,
};
use crate::api::longrunning::Operation;
use crate::api::{any, micros, timestamp};
use crate::names;
use prost_types::Timestamp;
use table::{Error, Result};

const HOUR_MICROS: i64 = 3_600_000_000;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
/// Shortest and longest time from the making of a backup to its expiry, in microseconds.
const KEPT_MIN: i64 = 6 * HOUR_MICROS;
const KEPT_MAX: i64 = 90 * DAY_MICROS;
/// Longest time from the copying of a backup to the expiry of the copy.
const COPY_KEPT_MAX: i64 = 30 * DAY_MICROS;
/// Most backups of one table in one cluster.
const BACKUPS_MAX: usize = 150;
/// In `ListBackups`, stands for every cluster of the instance.
const EVERY_CLUSTER: &str = "-";
/// Ends the name of the record that says what a table was restored from.
const RESTORE_INFO: &str = "restoreInfo";

impl Directory {
    /// Refuses the deletion of an instance or a cluster, `prefix`, that has backups.
    pub(crate) fn check_no_backups(&self, prefix: &str) -> Result<()> {
        let Some(backup) = self.backups(prefix)?.into_iter().next() else { return Ok(()) };
        let text = format!("it has backups, such as {}; delete them first", backup.name);
        Err(Error::FailedPrecondition(text))
    }

    /// Returns the backups below `prefix` whose time is not over, in order of name.
    fn backups(&self, prefix: &str) -> Result<Vec<Backup>> {
        let now = self.store().now_micros();
        let mut backups = Vec::new();
        for (name, record) in self.store().records(prefix) {
            if name.contains("/backups/") {
                let backup = decoded(&name, &record)?;
                backups.extend(Some(backup).filter(|backup| lives(backup, now)));
            }
        }
        Ok(backups)
    }

    /// Returns what a table was restored from, if it was.
    pub(crate) fn restore_info(&self, table: &str) -> Result<Option<RestoreInfo>> {
        self.get(&format!("{table}/{RESTORE_INFO}"))
    }

    /// Refuses another backup of `table` in a cluster that has many of them.
    fn check_backup_count(&self, cluster: &str, table: &str) -> Result<()> {
        let backups = self.backups(&format!("{cluster}/"))?;
        let count = backups.iter().filter(|backup| backup.source_table == table).count();
        if count < BACKUPS_MAX {
            return Ok(());
        }
        let text = format!("{table} has {count} backups in {cluster}; the limit is {BACKUPS_MAX}");
        Err(Error::ResourceExhausted(text))
    }

    /// Returns a backup; `NotFound` if no backup has the name, or its time is over.
    fn backup(&self, name: &str) -> Result<Backup> {
        let now = self.store().now_micros();
        let backup = self.get::<Backup>(name)?.filter(|backup| lives(backup, now));
        backup.ok_or_else(|| Error::NotFound { what: "backup", name: name.to_owned() })
    }
}

fn lives(backup: &Backup, now: i64) -> bool {
    backup.expire_time.as_ref().and_then(micros).is_some_and(|time| time > now)
}

impl TableAdminService {
    pub(super) async fn create_backup(&self, request: CreateBackupRequest) -> Result<Operation> {
        let (instance, cluster) = names::cluster("parent", &request.parent)?;
        names::check_resource_id("backup_id", &request.backup_id)?;
        let wanted = request.backup.ok_or_else(|| Error::invalid("backup", "is not set"))?;
        let table = names::table("backup.source_table", &wanted.source_table)?;
        if names::instance_of(&table) != Some(instance) {
            let rule = "must be a table of the backup's instance";
            return Err(Error::invalid("backup.source_table", rule));
        }
        let start = self.store().now_micros();
        let expire = expiry("backup.expire_time", wanted.expire_time, (start, start, KEPT_MAX))?;
        let _changing = self.directory.changing().await;
        self.directory.cluster(instance, cluster)?;
        self.directory.check_backup_count(&request.parent, table.as_str())?;
        let backup = Backup {
            name: format!("{}/backups/{}", request.parent, request.backup_id),
            source_table: table.to_string(),
            ..made(start, expire)
        };
        let name = backup.name.clone();
        let record = finished(backup);
        self.store().back_up_table(&table, name.clone(), expire, record).await?;
        let backup = self.directory.backup(&name)?;
        let metadata = CreateBackupMetadata {
            name: name.clone(),
            source_table: backup.source_table.clone(),
            start_time: backup.start_time,
            end_time: backup.end_time,
        };
        let metadata = admin_any("CreateBackupMetadata", &metadata);
        let response = admin_any("Backup", &backup);
        self.operations.finish(&name, metadata, response, Vec::new()).await
    }

    pub(super) async fn copy_backup(&self, request: CopyBackupRequest) -> Result<Operation> {
        let (instance, cluster) = names::cluster("parent", &request.parent)?;
        names::check_resource_id("backup_id", &request.backup_id)?;
        names::backup("source_backup", &request.source_backup)?;
        let start = self.store().now_micros();
        let expire = expiry("expire_time", request.expire_time, (start, start, COPY_KEPT_MAX))?;
        let _changing = self.directory.changing().await;
        self.directory.cluster(instance, cluster)?;
        let source = self.directory.backup(&request.source_backup)?;
        if !source.source_backup.is_empty() {
            let rule = "is itself a copy; copy its source";
            return Err(Error::invalid("source_backup", rule));
        }
        self.directory.check_backup_count(&request.parent, &source.source_table)?;
        let backup = Backup {
            name: format!("{}/backups/{}", request.parent, request.backup_id),
            source_table: source.source_table.clone(),
            source_backup: source.name.clone(),
            ..made(start, expire)
        };
        let name = backup.name.clone();
        let record = finished(backup);
        self.store().copy_backup(source.name.clone(), name.clone(), expire, record).await?;
        let backup = self.directory.backup(&name)?;
        let metadata = CopyBackupMetadata {
            name: name.clone(),
            source_backup_info: Some(info(&source)),
            progress: progress(backup.start_time, backup.end_time),
        };
        let metadata = admin_any("CopyBackupMetadata", &metadata);
        let response = admin_any("Backup", &backup);
        self.operations.finish(&name, metadata, response, Vec::new()).await
    }

    pub(super) fn get_backup(&self, name: &str) -> Result<Backup> {
        let (instance, _) = names::backup("name", name)?;
        self.directory.check_instance(instance)?;
        self.directory.backup(name)
    }

    pub(super) fn list_backups(&self, request: &ListBackupsRequest) -> Result<ListBackupsResponse> {
        let (instance, cluster) = names::cluster("parent", &request.parent)?;
        self.directory.check_instance(instance)?;
        let prefix = match cluster {
            EVERY_CLUSTER => format!("{instance}/clusters/"),
            _ => format!("{instance}/clusters/{cluster}/"),
        };
        let (filter, order) = (Filter::parse(&request.filter)?, Order::parse(&request.order_by)?);
        let mut backups = self.directory.backups(&prefix)?;
        // Backups keep their cluster, but for the one of an instance that was not created.
        if backups.is_empty() && cluster != EVERY_CLUSTER {
            self.directory.cluster(instance, cluster)?;
        }
        backups.retain(|backup| filter.passes(backup));
        let wanted = (request.page_size, request.page_token.as_str());
        let (backups, next_page_token) = page(backups, &order, wanted)?;
        Ok(ListBackupsResponse { backups, next_page_token })
    }

    pub(super) async fn update_backup(&self, request: UpdateBackupRequest) -> Result<Backup> {
        let wanted = request.backup.ok_or_else(|| Error::invalid("backup", "is not set"))?;
        names::backup("backup.name", &wanted.name)?;
        let paths = mask_paths(request.update_mask)?;
        if let Some(path) = paths.iter().find(|path| *path != "expire_time") {
            return Err(wrong_path(path, "expire_time"));
        }
        let _changing = self.directory.changing().await;
        let mut backup = self.directory.backup(&wanted.name)?;
        let start = backup.start_time.as_ref().and_then(micros).unwrap_or(0);
        let now = self.store().now_micros();
        let kept_max = if backup.source_backup.is_empty() { KEPT_MAX } else { COPY_KEPT_MAX };
        let expire = expiry("backup.expire_time", wanted.expire_time, (now, start, kept_max))?;
        backup.expire_time = Some(timestamp(expire));
        let record = put(&backup.name, &backup);
        self.store().set_backup_expiry(backup.name.clone(), expire, record).await?;
        Ok(backup)
    }

    pub(super) async fn delete_backup(&self, name: &str) -> Result<()> {
        let _changing = self.directory.changing().await;
        let backup = self.get_backup(name)?;
        self.store().delete_backup(backup.name).await
    }

    pub(super) async fn restore_table(&self, request: RestoreTableRequest) -> Result<Operation> {
        let instance = names::instance("parent", &request.parent)?;
        table::limits::check_table_id("table_id", &request.table_id)?;
        let table = format!("{instance}/tables/{}", request.table_id);
        let table = names::table("table_id", &table)?;
        let Some(Source::Backup(backup)) = request.source else {
            return Err(Error::invalid("backup", "is not set"));
        };
        names::backup("backup", &backup)?;
        let start = timestamp(self.store().now_micros());
        let _changing = self.directory.changing().await;
        self.directory.check_instance(instance)?;
        let info = info(&self.directory.backup(&backup)?);
        let restored = RestoreInfo {
            source_type: RestoreSourceType::Backup as i32,
            source_info: Some(restore_info::SourceInfo::BackupInfo(info.clone())),
        };
        let records = vec![put(&format!("{table}/{RESTORE_INFO}"), &restored)];
        let schema = self.store().restore_table(backup, table.clone(), records).await?;
        let progress = progress(Some(start), Some(timestamp(self.store().now_micros())));
        let optimized = OptimizeRestoredTableMetadata { name: table.to_string(), progress };
        let optimized = admin_any("OptimizeRestoredTableMetadata", &optimized);
        let empty = any("google.protobuf.Empty", Vec::new());
        let optimized = self.operations.finish(table.as_str(), optimized, empty, Vec::new());
        let metadata = RestoreTableMetadata {
            name: table.to_string(),
            source_type: RestoreSourceType::Backup as i32,
            optimize_table_operation_name: optimized.await?.name,
            progress,
            source_info: Some(restore_table_metadata::SourceInfo::BackupInfo(info)),
        };
        let metadata = admin_any("RestoreTableMetadata", &metadata);
        let response = admin_any("Table", &self.table_message(&schema, View::SchemaView)?);
        self.operations.finish(table.as_str(), metadata, response, Vec::new()).await
    }
}

/// Returns what makes the record of a backup when its copy is there.
fn finished(mut backup: Backup) -> table::BackupRecord {
    Box::new(move |copied| {
        backup.size_bytes = i64::try_from(copied.bytes).unwrap_or(i64::MAX);
        backup.end_time = Some(timestamp(copied.at_micros));
        put(&backup.name, &backup)
    })
}

/// Returns the parts of a new backup that do not depend on its table.
fn made(start: i64, expire: i64) -> Backup {
    Backup {
        expire_time: Some(timestamp(expire)),
        start_time: Some(timestamp(start)),
        state: State::Ready as i32,
        backup_type: BackupType::Standard as i32,
        // Go's client reads it without a look whether it is there.
        encryption_info: Some(EncryptionInfo::default()),
        ..Default::default()
    }
}

fn info(backup: &Backup) -> BackupInfo {
    BackupInfo {
        backup: backup.name.clone(),
        start_time: backup.start_time,
        end_time: backup.end_time,
        source_table: backup.source_table.clone(),
        source_backup: backup.source_backup.clone(),
    }
}

fn progress(
    start_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
) -> Option<OperationProgress> {
    Some(OperationProgress { progress_percent: 100, start_time, end_time })
}

/// Returns the time at which a backup is to expire. `now` and `start` say when the request came and
/// when the backup was made; `longest` is the longest time that it may be kept.
fn expiry(
    field: &str,
    wanted: Option<Timestamp>,
    (now, start, longest): (i64, i64, i64),
) -> Result<i64> {
    let wanted = wanted.ok_or_else(|| Error::invalid(field, "is not set"))?;
    let micros = micros(&wanted).ok_or_else(|| Error::invalid(field, "is no time"))?;
    let (first, last) = (start.saturating_add(KEPT_MIN).max(now), start.saturating_add(longest));
    if (first..=last).contains(&micros) {
        return Ok(micros);
    }
    let days = longest / DAY_MICROS;
    let rule = format!("must lie 6 hours to {days} days after the making, and in the future");
    Err(Error::invalid(field, rule))
}
