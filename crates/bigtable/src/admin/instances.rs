//! The instance admin service: `google.bigtable.admin.v2.BigtableInstanceAdmin`, reading only.
//!
//! Instances need not be created: every well-formed name is one, with one cluster, and those
//! that hold a table are listed. What would have to be kept (creation, app profiles, policies)
//! is not served.

use crate::api::admin::instance::{State, Type};
use crate::api::admin::{
    Cluster, GetClusterRequest, GetInstanceRequest, Instance, ListClustersRequest,
    ListClustersResponse, ListInstancesRequest, ListInstancesResponse, StorageType, cluster,
};
use crate::api::server::bigtable_instance_admin_server;
use crate::call::status;
use crate::names;
use crate::names::InstanceName;
use std::collections::BTreeSet;
use std::sync::Arc;
use table::{Error, Store};
use tonic::{Request, Response, Status};

/// The one cluster of every instance.
pub(crate) const CLUSTER_ID: &str = "stele";
/// In `ListClusters`, stands for every instance of the project.
const EVERY_INSTANCE: &str = "-";

/// The service over a store.
#[derive(Clone)]
pub(crate) struct InstanceAdminService {
    store: Arc<dyn Store>,
}

impl InstanceAdminService {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Ids of the instances of `project` that hold a table, in order.
    async fn instances(&self, project: &str) -> Result<BTreeSet<String>, Status> {
        let prefix = format!("projects/{project}/instances/");
        let tables = self.store.list_tables(&prefix).await.map_err(status::from_error)?;
        let ids = tables.iter().filter_map(|table| names::instance_of(&table.name));
        Ok(ids.map(|name| name.instance.to_owned()).collect())
    }
}

#[tonic::async_trait]
impl bigtable_instance_admin_server::BigtableInstanceAdmin for InstanceAdminService {
    async fn get_instance(
        &self,
        request: Request<GetInstanceRequest>,
    ) -> Result<Response<Instance>, Status> {
        let name = names::instance("name", &request.get_ref().name).map_err(status::from_error)?;
        Ok(Response::new(instance_message(name)))
    }

    async fn list_instances(
        &self,
        request: Request<ListInstancesRequest>,
    ) -> Result<Response<ListInstancesResponse>, Status> {
        let parent = &request.get_ref().parent;
        let project = names::project("parent", parent).map_err(status::from_error)?;
        let ids = self.instances(project).await?;
        let instances =
            ids.iter().map(|instance| instance_message(InstanceName { project, instance }));
        let instances = instances.collect();
        Ok(Response::new(ListInstancesResponse { instances, ..Default::default() }))
    }

    async fn get_cluster(
        &self,
        request: Request<GetClusterRequest>,
    ) -> Result<Response<Cluster>, Status> {
        let name = &request.get_ref().name;
        match names::cluster("name", name).map_err(status::from_error)? {
            (instance, CLUSTER_ID) => Ok(Response::new(cluster_message(instance))),
            _ => {
                let error = Error::NotFound { what: "cluster", name: name.clone() };
                Err(status::from_error(error))
            }
        }
    }

    async fn list_clusters(
        &self,
        request: Request<ListClustersRequest>,
    ) -> Result<Response<ListClustersResponse>, Status> {
        let parent = &request.get_ref().parent;
        let name = names::instance("parent", parent).map_err(status::from_error)?;
        let clusters = if name.instance == EVERY_INSTANCE {
            let ids = self.instances(name.project).await?;
            let project = name.project;
            ids.iter().map(|id| cluster_message(InstanceName { project, instance: id })).collect()
        } else {
            vec![cluster_message(name)]
        };
        Ok(Response::new(ListClustersResponse { clusters, ..Default::default() }))
    }
}

fn instance_message(name: InstanceName<'_>) -> Instance {
    Instance {
        name: format!("projects/{}/instances/{}", name.project, name.instance),
        display_name: name.instance.to_owned(),
        state: State::Ready as i32,
        r#type: Type::Production as i32,
        ..Default::default()
    }
}

fn cluster_message(name: InstanceName<'_>) -> Cluster {
    let InstanceName { project, instance } = name;
    Cluster {
        name: format!("projects/{project}/instances/{instance}/clusters/{CLUSTER_ID}"),
        location: format!("projects/{project}/locations/local"),
        state: cluster::State::Ready as i32,
        serve_nodes: 1,
        default_storage_type: StorageType::Ssd as i32,
        ..Default::default()
    }
}
