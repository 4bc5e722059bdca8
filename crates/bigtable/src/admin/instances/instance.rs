//! Instances: created, listed, changed, and deleted with their tables.

use super::{InstanceAdminService, cluster, profile};
use crate::admin::directory::{Directory, put};
use crate::admin::message::{admin_any, mask_paths, wrong_path};
use crate::api::admin::instance::{State, Type};
use crate::api::admin::{
    CreateInstanceMetadata, CreateInstanceRequest, Instance, ListInstancesResponse,
    PartialUpdateInstanceRequest, UpdateInstanceMetadata,
};
use crate::api::longrunning::Operation;
use crate::api::timestamp;
use crate::names::{self, InstanceName};
use std::collections::BTreeSet;
use table::{Error, RecordChange, Result, TableSchema};

/// Longest id of a new instance.
const ID_BYTES_MAX: usize = 33;
/// Longest display name, in characters.
const DISPLAY_NAME_MAX: usize = 30;
const LABELS_MAX: usize = 64;
/// Longest key or value of a label, in characters.
const LABEL_MAX: usize = 63;

impl InstanceAdminService {
    pub(super) async fn create_instance(
        &self,
        request: CreateInstanceRequest,
    ) -> Result<Operation> {
        let project = names::project("parent", &request.parent)?;
        names::check_new_id("instance_id", &request.instance_id, ID_BYTES_MAX)?;
        let name = InstanceName { project, instance: &request.instance_id };
        let wanted = request.instance.clone().unwrap_or_default();
        check_display_name(&wanted.display_name)?;
        check_labels(&wanted)?;
        if request.clusters.is_empty() {
            return Err(Error::invalid("clusters", "at least one cluster is needed"));
        }
        let now = timestamp(self.directory.store().now_micros());
        let instance = Instance {
            name: name.to_string(),
            state: State::Ready as i32,
            r#type: type_of(&wanted)? as i32,
            create_time: Some(now),
            satisfies_pzs: None,
            satisfies_pzi: None,
            ..wanted
        };
        let mut changes = vec![put(&instance.name, &instance)];
        let mut ids = Vec::new();
        for (id, wanted) in &request.clusters {
            let made = cluster::new_cluster(name, id, wanted)
                .map_err(|error| error.within(&format!("clusters[{id}]")))?;
            changes.push(put(&made.name, &made));
            ids.push(id.clone());
        }
        let default = profile::default_profile(name, &ids);
        changes.push(put(&default.name, &default));

        let _changing = self.directory.changing().await;
        if self.directory.get::<Instance>(&instance.name)?.is_some() {
            return Err(Error::AlreadyExists { what: "instance", name: instance.name });
        }
        let metadata = CreateInstanceMetadata {
            original_request: Some(request.clone()),
            request_time: Some(now),
            finish_time: Some(now),
        };
        let metadata = admin_any("CreateInstanceMetadata", &metadata);
        let response = admin_any("Instance", &instance);
        self.operations.finish(&instance.name, metadata, response, changes).await
    }

    pub(super) fn get_instance(&self, name: &str) -> Result<Instance> {
        self.directory.instance(names::instance("name", name)?)
    }

    pub(super) async fn list_instances(&self, parent: &str) -> Result<ListInstancesResponse> {
        let project = names::project("parent", parent)?;
        let ids = instance_ids(&self.directory, project).await?;
        let instances = ids
            .iter()
            .map(|instance| self.directory.instance(InstanceName { project, instance }))
            .collect::<Result<_>>()?;
        Ok(ListInstancesResponse { instances, ..Default::default() })
    }

    /// Replaces what a client may change of an instance.
    pub(super) async fn replace_instance(&self, wanted: Instance) -> Result<Instance> {
        let _changing = self.directory.changing().await;
        let name = names::instance("name", &wanted.name)?;
        let mut changes = self.directory.recorded(name)?;
        let all = ["display_name", "type", "labels"];
        let instance = updated(self.directory.instance(name)?, wanted.clone(), all)?;
        changes.push(put(&instance.name, &instance));
        self.directory.change(changes).await?;
        Ok(instance)
    }

    pub(super) async fn update_instance(
        &self,
        request: PartialUpdateInstanceRequest,
    ) -> Result<Operation> {
        let original_request = Some(request.clone());
        let wanted = request.instance.ok_or_else(|| Error::invalid("instance", "is not set"))?;
        let paths = mask_paths(request.update_mask)?;
        let _changing = self.directory.changing().await;
        let wanted_name = wanted.name.clone();
        let name = names::instance("instance.name", &wanted_name)?;
        let mut changes = self.directory.recorded(name)?;
        let instance =
            updated(self.directory.instance(name)?, wanted, paths.iter().map(String::as_str))?;
        changes.push(put(&instance.name, &instance));
        let now = Some(timestamp(self.directory.store().now_micros()));
        let metadata =
            UpdateInstanceMetadata { original_request, request_time: now, finish_time: now };
        let metadata = admin_any("UpdateInstanceMetadata", &metadata);
        let response = admin_any("Instance", &instance);
        self.operations.finish(&instance.name, metadata, response, changes).await
    }

    /// Deletes the tables first: a crash leaves an instance with fewer tables, never tables without
    /// their instance.
    pub(super) async fn delete_instance(&self, name: &str) -> Result<()> {
        let instance = names::instance("name", name)?;
        let store = self.directory.store();
        let _changing = self.directory.changing().await;
        let tables = store.list_tables(&format!("{instance}/tables/")).await?;
        let children = store.records(&format!("{instance}/"));
        let known = store.record(name).is_some() || !children.is_empty();
        if !known && (tables.is_empty() || !self.directory.is_open()) {
            return Err(Error::NotFound { what: "instance", name: name.to_owned() });
        }
        refuse_protected(tables.iter().map(AsRef::as_ref))?;
        self.directory.check_views_go(&format!("{instance}/tables/"))?;
        self.directory.check_no_backups(&format!("{instance}/clusters/"))?;
        for table in &tables {
            match store.drop_table(&table.name).await {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        store.purge_deleted(&format!("{instance}/tables/")).await?;
        let children = store.records(&format!("{instance}/"));
        let mut changes: Vec<_> =
            children.into_iter().map(|(name, _)| RecordChange::remove(name)).collect();
        changes.push(RecordChange::remove(name));
        self.directory.change(changes).await
    }
}

/// Returns the ids of the instances of `project` that have a record, and in an open directory of
/// those with a table, in order.
pub(super) async fn instance_ids(directory: &Directory, project: &str) -> Result<BTreeSet<String>> {
    let collection = format!("projects/{project}/instances");
    let recorded: Vec<Instance> = directory.list(&collection)?;
    let ids = recorded.iter().filter_map(|instance| instance.name.get(collection.len() + 1..));
    let mut ids: BTreeSet<String> = ids.map(str::to_owned).collect();
    if directory.is_open() {
        let tables = directory.store().list_tables(&format!("{collection}/")).await?;
        let names = tables.iter().filter_map(|table| names::instance_of(&table.name));
        ids.extend(names.map(|name| name.instance.to_owned()));
    }
    Ok(ids)
}

fn refuse_protected<'a>(mut tables: impl Iterator<Item = &'a TableSchema>) -> Result<()> {
    match tables.find(|table| table.deletion_protection) {
        None => Ok(()),
        Some(table) => {
            let text = format!("table {} of the instance is protected from deletion", table.name);
            Err(Error::FailedPrecondition(text))
        }
    }
}

/// Returns the instance with the fields at `paths` as they are in `wanted`.
fn updated<'a>(
    mut instance: Instance,
    wanted: Instance,
    paths: impl IntoIterator<Item = &'a str>,
) -> Result<Instance> {
    for path in paths {
        match path {
            "display_name" => {
                check_display_name(&wanted.display_name)?;
                instance.display_name = wanted.display_name.clone();
            }
            "labels" => {
                check_labels(&wanted)?;
                instance.labels = wanted.labels.clone();
            }
            "type" => {
                let new = type_of(&wanted)?;
                if new == Type::Development && instance.r#type == Type::Production as i32 {
                    let rule = "a PRODUCTION instance cannot become DEVELOPMENT";
                    return Err(Error::invalid("instance.type", rule));
                }
                instance.r#type = new as i32;
            }
            _ => return Err(wrong_path(path, "display_name, labels or type")),
        }
    }
    Ok(instance)
}

/// Returns the type of an instance; production if none is given.
fn type_of(instance: &Instance) -> Result<Type> {
    match Type::try_from(instance.r#type) {
        Ok(Type::Development) => Ok(Type::Development),
        Ok(Type::Unspecified | Type::Production) => Ok(Type::Production),
        Err(_) => Err(Error::invalid("instance.type", "must be PRODUCTION or DEVELOPMENT")),
    }
}

fn check_display_name(name: &str) -> Result<()> {
    let length = name.chars().count();
    if (1..=DISPLAY_NAME_MAX).contains(&length) {
        return Ok(());
    }
    let rule = format!("must have 1 to {DISPLAY_NAME_MAX} characters, not {length}");
    Err(Error::invalid("instance.display_name", rule))
}

fn check_labels(instance: &Instance) -> Result<()> {
    let invalid = |rule: String| Err(Error::invalid("instance.labels", rule));
    if instance.labels.len() > LABELS_MAX {
        return invalid(format!("has {} labels; at most {LABELS_MAX}", instance.labels.len()));
    }
    let inner = |letter: char| {
        letter.is_alphanumeric() && !letter.is_uppercase() || letter == '_' || letter == '-'
    };
    for (key, value) in &instance.labels {
        let first = key.chars().next().is_some_and(|letter| letter.is_alphabetic());
        let fits = |text: &str| text.chars().count() <= LABEL_MAX && text.chars().all(inner);
        if !first || !fits(key) || !fits(value) {
            let key = names::shown(key);
            return invalid(format!(
                "{key}: keys and values have at most {LABEL_MAX} lower-case letters, digits, `_` \
                 and `-`, and a key begins with a letter"
            ));
        }
    }
    Ok(())
}
