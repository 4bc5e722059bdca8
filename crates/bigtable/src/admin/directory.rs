//! The records of instances, clusters and app profiles, and what a request may name without them.
//!
//! By default every well-formed name of an instance or a profile is good, and an instance without a
//! record looks as [`invented_instance`] makes it. A strict directory knows recorded names only.
//!
//! 1. A record is the name of its resource and its message, encoded.
//! 2. Changes that depend on records are made under [`Directory::changing`].

use crate::admin::message::decoded;
use crate::api::admin::app_profile::{RoutingPolicy, SingleClusterRouting};
use crate::api::admin::instance::{State, Type};
use crate::api::admin::{AppProfile, Cluster, Instance, StorageType, cluster};
use crate::names::{self, InstanceName};
use std::sync::Arc;
use table::{Error, RecordChange, Result, Store, TableName};
use tokio::sync::{Mutex, MutexGuard};

/// The one cluster of an instance without records.
const CLUSTER_ID: &str = "stele";
/// The profile of requests that name none.
pub(crate) const DEFAULT_PROFILE: &str = "default";

/// Names that requests may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KnownNames {
    /// Every well-formed name of an instance and an app profile.
    #[default]
    All,
    /// Names of instances and app profiles that were created.
    Created,
}

/// Use that a data request makes of its app profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A read or a write of rows.
    Rows,
    /// A transaction on one row.
    Transaction,
}

/// The directory over a store.
pub(crate) struct Directory {
    store: Arc<dyn Store>,
    known: KnownNames,
    changing: Mutex<()>,
}

impl Directory {
    pub(crate) fn new(store: Arc<dyn Store>, known: KnownNames) -> Self {
        Self { store, known, changing: Mutex::default() }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Keeps other changes away until the guard is dropped.
    pub(crate) async fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Applies changes of records, all or none.
    pub(crate) async fn change(&self, changes: Vec<RecordChange>) -> Result<()> {
        self.store.change_records(changes).await
    }

    /// Returns the message in a record.
    pub(crate) fn get<M: prost::Message + Default>(&self, name: &str) -> Result<Option<M>> {
        self.store.record(name).map(|record| decoded(name, &record)).transpose()
    }

    /// Returns the messages of the records directly below `collection`, in order of name.
    pub(crate) fn list<M: prost::Message + Default>(&self, collection: &str) -> Result<Vec<M>> {
        let records = self.store.records(&format!("{collection}/"));
        let children =
            records.iter().filter(|(name, _)| !name[collection.len() + 1..].contains('/'));
        children.map(|(name, record)| decoded(name, record)).collect()
    }

    /// Returns whether names without a record are good.
    pub(crate) fn is_open(&self) -> bool {
        self.known == KnownNames::All
    }

    /// Refuses an instance that a strict directory does not know.
    pub(crate) fn check_instance(&self, name: InstanceName<'_>) -> Result<()> {
        if self.is_open() || self.store.record(&name.to_string()).is_some() {
            return Ok(());
        }
        Err(Error::NotFound { what: "instance", name: name.to_string() })
    }

    /// Refuses a table of an unknown instance.
    pub(crate) fn check_table(&self, table: &TableName) -> Result<()> {
        names::instance_of(table).map_or(Ok(()), |instance| self.check_instance(instance))
    }

    /// Refuses a data request to `instance` that its app profile does not allow. The empty name is
    /// of the default profile.
    pub(crate) fn admit(
        &self,
        instance: InstanceName<'_>,
        profile: &str,
        usage: Use,
    ) -> Result<()> {
        self.check_instance(instance)?;
        if self.is_open() && usage == Use::Rows {
            return Ok(());
        }
        let id = if profile.is_empty() { DEFAULT_PROFILE } else { profile };
        match self.get::<AppProfile>(&format!("{instance}/appProfiles/{id}"))? {
            Some(profile) if usage == Use::Transaction => check_transactions(&profile),
            None if !self.is_open() && id != DEFAULT_PROFILE => {
                Err(Error::NotFound { what: "app profile", name: names::shown(id) })
            }
            _ => Ok(()),
        }
    }

    /// As [`Directory::admit`], for a request to a table.
    pub(crate) fn admit_to(&self, table: &TableName, profile: &str, usage: Use) -> Result<()> {
        names::instance_of(table).map_or(Ok(()), |instance| self.admit(instance, profile, usage))
    }

    /// Returns an instance; `NotFound` if it is not known.
    pub(crate) fn instance(&self, name: InstanceName<'_>) -> Result<Instance> {
        self.check_instance(name)?;
        Ok(self.get(&name.to_string())?.unwrap_or_else(|| invented_instance(name)))
    }

    /// Returns the clusters of a known instance, at least one.
    pub(crate) fn clusters(&self, instance: InstanceName<'_>) -> Result<Vec<Cluster>> {
        self.check_instance(instance)?;
        let clusters = self.list(&format!("{instance}/clusters"))?;
        if clusters.is_empty() {
            return Ok(vec![invented_cluster(instance)]);
        }
        Ok(clusters)
    }

    /// Returns a cluster of an instance.
    pub(crate) fn cluster(&self, instance: InstanceName<'_>, id: &str) -> Result<Cluster> {
        let name = format!("{instance}/clusters/{id}");
        let found = self.clusters(instance)?.into_iter().find(|cluster| cluster.name == name);
        found.ok_or(Error::NotFound { what: "cluster", name })
    }

    /// Returns the ids of the clusters of an instance.
    pub(crate) fn cluster_ids(&self, instance: InstanceName<'_>) -> Result<Vec<String>> {
        let clusters = self.clusters(instance)?;
        Ok(clusters.iter().map(|cluster| last_part(&cluster.name).to_owned()).collect())
    }

    /// Returns the changes that give an instance and its clusters records, if they have none.
    pub(crate) fn recorded(&self, name: InstanceName<'_>) -> Result<Vec<RecordChange>> {
        if self.store.record(&name.to_string()).is_some() {
            return Ok(Vec::new());
        }
        let (instance, cluster) = (self.instance(name)?, invented_cluster(name));
        Ok(vec![put(&instance.name, &instance), put(&cluster.name, &cluster)])
    }
}

/// Returns the change that writes a message as a record.
pub(crate) fn put(name: &str, message: &impl prost::Message) -> RecordChange {
    RecordChange::put(name, message.encode_to_vec())
}

/// Returns the id at the end of a resource name.
pub(crate) fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

fn check_transactions(profile: &AppProfile) -> Result<()> {
    match &profile.routing_policy {
        Some(RoutingPolicy::SingleClusterRouting(SingleClusterRouting {
            allow_transactional_writes: true,
            ..
        })) => Ok(()),
        _ => {
            let text = "Single-row transactions are not allowed by this app profile";
            Err(Error::FailedPrecondition(format!("{text}: {}", profile.name)))
        }
    }
}

fn invented_instance(name: InstanceName<'_>) -> Instance {
    Instance {
        name: name.to_string(),
        display_name: name.instance.to_owned(),
        state: State::Ready as i32,
        r#type: Type::Production as i32,
        ..Default::default()
    }
}

fn invented_cluster(name: InstanceName<'_>) -> Cluster {
    Cluster {
        name: format!("{name}/clusters/{CLUSTER_ID}"),
        location: format!("projects/{}/locations/local", name.project),
        state: cluster::State::Ready as i32,
        serve_nodes: 1,
        default_storage_type: StorageType::Ssd as i32,
        ..Default::default()
    }
}
