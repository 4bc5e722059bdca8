//! Clusters of an instance: names with settings. No setting changes how a server works.

use super::instance::instance_ids;
use super::{EVERY_INSTANCE, InstanceAdminService};
use crate::admin::directory::{last_part, put};
use crate::admin::message::{admin_any, mask_paths, wrong_path};
use crate::api::admin::app_profile::RoutingPolicy;
use crate::api::admin::cluster::{ClusterAutoscalingConfig, Config, NodeScalingFactor, State};
use crate::api::admin::{
    AppProfile, Cluster, CreateClusterMetadata, CreateClusterRequest, ListClustersResponse,
    PartialUpdateClusterMetadata, PartialUpdateClusterRequest, StorageType, UpdateClusterMetadata,
};
use crate::api::longrunning::Operation;
use crate::api::timestamp;
use crate::call::status;
use crate::names::{self, InstanceName};
use table::{Error, RecordChange, Result};
use tonic::Status;

/// Longest id of a new cluster.
const ID_BYTES_MAX: usize = 30;
/// Most nodes of a cluster of the service, and with it of ours.
const NODES_MAX: i32 = 1_000;
/// Paths of the autoscaling settings, from the whole to a part.
const AUTOSCALING: &str = "cluster_config";

/// Refuses a cluster with a setting that a server cannot keep to.
pub(super) fn refuse_unsupported(cluster: &Cluster) -> Result<(), Status> {
    // The Go client always sends the message, mostly without a key.
    if cluster.encryption_config.as_ref().is_some_and(|config| !config.kms_key_name.is_empty()) {
        return Err(status::unsupported("cluster.encryption_config (a customer's key) is"));
    }
    Ok(())
}

/// Returns a cluster as it is kept, from a client's wish. Errors name fields of the cluster.
pub(super) fn new_cluster(
    instance: InstanceName<'_>,
    id: &str,
    wanted: &Cluster,
) -> Result<Cluster> {
    names::check_new_id("cluster_id", id, ID_BYTES_MAX)?;
    names::check_location("location", &wanted.location)?;
    let storage = match StorageType::try_from(wanted.default_storage_type) {
        Ok(StorageType::Unspecified) => StorageType::Ssd,
        Ok(storage) => storage,
        Err(_) => return Err(Error::invalid("default_storage_type", "must be SSD or HDD")),
    };
    if NodeScalingFactor::try_from(wanted.node_scaling_factor).is_err() {
        return Err(Error::invalid("node_scaling_factor", "is not a known factor"));
    }
    check_capacity(wanted)?;
    Ok(Cluster {
        name: format!("{instance}/clusters/{id}"),
        state: State::Ready as i32,
        serve_nodes: nodes(wanted),
        default_storage_type: storage as i32,
        encryption_config: None,
        ..wanted.clone()
    })
}

/// Returns the nodes of a cluster: at least one, also where a client leaves the number open.
fn nodes(cluster: &Cluster) -> i32 {
    match autoscaling(cluster).and_then(|config| config.autoscaling_limits.as_ref()) {
        Some(limits) => cluster.serve_nodes.max(limits.min_serve_nodes),
        None => cluster.serve_nodes.max(1),
    }
}

fn autoscaling(cluster: &Cluster) -> Option<&ClusterAutoscalingConfig> {
    let Some(Config::ClusterConfig(config)) = &cluster.config else { return None };
    config.cluster_autoscaling_config.as_ref()
}

fn check_capacity(cluster: &Cluster) -> Result<()> {
    if !(0..=NODES_MAX).contains(&cluster.serve_nodes) {
        let rule = format!("must be 1 to {NODES_MAX}, not {}", cluster.serve_nodes);
        return Err(Error::invalid("serve_nodes", rule));
    }
    let Some(config) = autoscaling(cluster) else { return Ok(()) };
    let invalid = |field: &str, rule: &str| {
        let field = format!("cluster_config.cluster_autoscaling_config.{field}");
        Err(Error::invalid(field, rule))
    };
    let Some(limits) = &config.autoscaling_limits else {
        return invalid("autoscaling_limits", "is not set");
    };
    let (min, max) = (limits.min_serve_nodes, limits.max_serve_nodes);
    if !(1..=NODES_MAX).contains(&min) || !(min..=NODES_MAX).contains(&max) {
        return invalid("autoscaling_limits", "must be 1 to 1000 nodes, with min at most max");
    }
    let Some(targets) = &config.autoscaling_targets else {
        return invalid("autoscaling_targets", "is not set");
    };
    if !(10..=80).contains(&targets.cpu_utilization_percent) {
        return invalid("autoscaling_targets.cpu_utilization_percent", "must be 10 to 80");
    }
    Ok(())
}

impl InstanceAdminService {
    pub(super) async fn create_cluster(&self, request: CreateClusterRequest) -> Result<Operation> {
        let instance = names::instance("parent", &request.parent)?;
        let wanted =
            request.cluster.as_ref().ok_or_else(|| Error::invalid("cluster", "is not set"))?;
        let made = new_cluster(instance, &request.cluster_id, wanted)?;
        let _changing = self.directory.changing().await;
        if self.directory.clusters(instance)?.iter().any(|cluster| cluster.name == made.name) {
            return Err(Error::AlreadyExists { what: "cluster", name: made.name });
        }
        let mut changes = self.directory.recorded(instance)?;
        changes.push(put(&made.name, &made));
        let now = Some(timestamp(self.directory.store().now_micros()));
        let metadata = CreateClusterMetadata {
            original_request: Some(request.clone()),
            request_time: now,
            finish_time: now,
            ..Default::default()
        };
        let metadata = admin_any("CreateClusterMetadata", &metadata);
        let response = admin_any("Cluster", &made);
        self.operations.finish(&made.name, metadata, response, changes).await
    }

    pub(super) fn get_cluster(&self, name: &str) -> Result<Cluster> {
        let (instance, id) = names::cluster("name", name)?;
        self.directory.cluster(instance, id)
    }

    pub(super) async fn list_clusters(&self, parent: &str) -> Result<ListClustersResponse> {
        let name = names::instance("parent", parent)?;
        if name.instance != EVERY_INSTANCE {
            let clusters = self.directory.clusters(name)?;
            return Ok(ListClustersResponse { clusters, ..Default::default() });
        }
        let mut clusters = Vec::new();
        for instance in &instance_ids(&self.directory, name.project).await? {
            clusters.extend(self.directory.clusters(InstanceName { instance, ..name })?);
        }
        Ok(ListClustersResponse { clusters, ..Default::default() })
    }

    /// Replaces what a client may change of a cluster.
    pub(super) async fn replace_cluster(&self, wanted: Cluster) -> Result<Operation> {
        let paths = ["serve_nodes", AUTOSCALING].map(str::to_owned);
        let original = wanted.clone();
        self.change_cluster("name", wanted, &paths, |now| {
            let metadata = UpdateClusterMetadata {
                original_request: Some(original),
                request_time: Some(now),
                finish_time: Some(now),
            };
            admin_any("UpdateClusterMetadata", &metadata)
        })
        .await
    }

    pub(super) async fn update_cluster(
        &self,
        request: PartialUpdateClusterRequest,
    ) -> Result<Operation> {
        let original = request.clone();
        let wanted = request.cluster.ok_or_else(|| Error::invalid("cluster", "is not set"))?;
        let paths = mask_paths(request.update_mask)?;
        self.change_cluster("cluster.name", wanted, &paths, |now| {
            let metadata = PartialUpdateClusterMetadata {
                original_request: Some(original),
                request_time: Some(now),
                finish_time: Some(now),
            };
            admin_any("PartialUpdateClusterMetadata", &metadata)
        })
        .await
    }

    async fn change_cluster(
        &self,
        field: &'static str,
        wanted: Cluster,
        paths: &[String],
        metadata: impl FnOnce(prost_types::Timestamp) -> prost_types::Any,
    ) -> Result<Operation> {
        let (instance, id) = names::cluster(field, &wanted.name)?;
        let _changing = self.directory.changing().await;
        let mut changes = self.directory.recorded(instance)?;
        let mut cluster = self.directory.cluster(instance, id)?;
        for path in paths {
            match path.split('.').next() {
                Some("serve_nodes") => cluster.serve_nodes = wanted.serve_nodes,
                Some(AUTOSCALING) => cluster.config = wanted.config,
                _ => return Err(wrong_path(path, "serve_nodes or cluster_config")),
            }
        }
        check_capacity(&cluster)?;
        cluster.serve_nodes = nodes(&cluster);
        changes.push(put(&cluster.name, &cluster));
        let metadata = metadata(timestamp(self.directory.store().now_micros()));
        let response = admin_any("Cluster", &cluster);
        self.operations.finish(&cluster.name, metadata, response, changes).await
    }

    pub(super) async fn delete_cluster(&self, name: &str) -> Result<()> {
        let (instance, id) = names::cluster("name", name)?;
        let _changing = self.directory.changing().await;
        self.directory.cluster(instance, id)?;
        let refused = |text: String| Err(Error::FailedPrecondition(text));
        if self.directory.clusters(instance)?.len() == 1 {
            return refused(format!(
                "{name} is the last cluster of its instance; delete the instance"
            ));
        }
        self.directory.check_no_backups(&format!("{name}/"))?;
        let profiles: Vec<AppProfile> = self.directory.list(&format!("{instance}/appProfiles"))?;
        if let Some(profile) = profiles.iter().find(|profile| names_cluster(profile, id)) {
            let profile = last_part(&profile.name);
            return refused(format!("app profile {profile} routes to cluster {id}"));
        }
        self.directory.change(vec![RecordChange::remove(name)]).await
    }
}

/// Returns whether a profile names a cluster.
fn names_cluster(profile: &AppProfile, id: &str) -> bool {
    match &profile.routing_policy {
        Some(RoutingPolicy::SingleClusterRouting(single)) => single.cluster_id == id,
        Some(RoutingPolicy::MultiClusterRoutingUseAny(any)) => {
            any.cluster_ids.iter().any(|cluster| cluster == id)
        }
        None => false,
    }
}
