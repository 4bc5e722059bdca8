//! The instance admin service: `google.bigtable.admin.v2.BigtableInstanceAdmin`.
//!
//! Instances, clusters and app profiles are names that are kept, with the settings that clients
//! gave them. All data of a server is in one place, whatever the number of clusters. Instances need
//! not be created unless the directory is strict.

mod cluster;
mod instance;
mod profile;

use crate::admin::directory::Directory;
use crate::admin::operations::Operations;
use crate::admin::policies;
use crate::api::admin::{
    AppProfile, Cluster, CreateAppProfileRequest, CreateClusterRequest, CreateInstanceRequest,
    DeleteAppProfileRequest, DeleteClusterRequest, DeleteInstanceRequest, GetAppProfileRequest,
    GetClusterRequest, GetInstanceRequest, Instance, ListAppProfilesRequest,
    ListAppProfilesResponse, ListClustersRequest, ListClustersResponse, ListInstancesRequest,
    ListInstancesResponse, PartialUpdateClusterRequest, PartialUpdateInstanceRequest,
    UpdateAppProfileRequest,
};
use crate::api::iam;
use crate::api::longrunning::Operation;
use crate::api::server::bigtable_instance_admin_server;
use crate::call::status;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// In `ListClusters` and its like, stands for every instance of the project.
const EVERY_INSTANCE: &str = "-";

/// The service over a directory.
#[derive(Clone)]
pub(crate) struct InstanceAdminService {
    directory: Arc<Directory>,
    operations: Operations,
}

impl InstanceAdminService {
    pub(crate) fn new(directory: Arc<Directory>, operations: Operations) -> Self {
        Self { directory, operations }
    }
}

type Answer<T> = Result<Response<T>, Status>;

fn answer<T>(result: table::Result<T>) -> Answer<T> {
    result.map(Response::new).map_err(status::from_error)
}

#[tonic::async_trait]
impl bigtable_instance_admin_server::BigtableInstanceAdmin for InstanceAdminService {
    async fn create_instance(&self, request: Request<CreateInstanceRequest>) -> Answer<Operation> {
        let request = request.into_inner();
        request.clusters.values().try_for_each(cluster::refuse_unsupported)?;
        answer(self.create_instance(request).await)
    }

    async fn get_instance(&self, request: Request<GetInstanceRequest>) -> Answer<Instance> {
        answer(self.get_instance(&request.get_ref().name))
    }

    async fn list_instances(
        &self,
        request: Request<ListInstancesRequest>,
    ) -> Answer<ListInstancesResponse> {
        answer(self.list_instances(&request.get_ref().parent).await)
    }

    async fn update_instance(&self, request: Request<Instance>) -> Answer<Instance> {
        answer(self.replace_instance(request.into_inner()).await)
    }

    async fn partial_update_instance(
        &self,
        request: Request<PartialUpdateInstanceRequest>,
    ) -> Answer<Operation> {
        answer(self.update_instance(request.into_inner()).await)
    }

    async fn delete_instance(&self, request: Request<DeleteInstanceRequest>) -> Answer<()> {
        answer(self.delete_instance(&request.get_ref().name).await)
    }

    async fn create_cluster(&self, request: Request<CreateClusterRequest>) -> Answer<Operation> {
        let request = request.into_inner();
        request.cluster.iter().try_for_each(cluster::refuse_unsupported)?;
        answer(self.create_cluster(request).await)
    }

    async fn get_cluster(&self, request: Request<GetClusterRequest>) -> Answer<Cluster> {
        answer(self.get_cluster(&request.get_ref().name))
    }

    async fn list_clusters(
        &self,
        request: Request<ListClustersRequest>,
    ) -> Answer<ListClustersResponse> {
        answer(self.list_clusters(&request.get_ref().parent).await)
    }

    async fn update_cluster(&self, request: Request<Cluster>) -> Answer<Operation> {
        answer(self.replace_cluster(request.into_inner()).await)
    }

    async fn partial_update_cluster(
        &self,
        request: Request<PartialUpdateClusterRequest>,
    ) -> Answer<Operation> {
        answer(self.update_cluster(request.into_inner()).await)
    }

    async fn delete_cluster(&self, request: Request<DeleteClusterRequest>) -> Answer<()> {
        answer(self.delete_cluster(&request.get_ref().name).await)
    }

    async fn create_app_profile(
        &self,
        request: Request<CreateAppProfileRequest>,
    ) -> Answer<AppProfile> {
        let request = request.into_inner();
        request.app_profile.iter().try_for_each(profile::refuse_unsupported)?;
        answer(self.create_profile(request).await)
    }

    async fn get_app_profile(&self, request: Request<GetAppProfileRequest>) -> Answer<AppProfile> {
        answer(self.get_profile(&request.get_ref().name))
    }

    async fn list_app_profiles(
        &self,
        request: Request<ListAppProfilesRequest>,
    ) -> Answer<ListAppProfilesResponse> {
        answer(self.list_profiles(request.into_inner()).await)
    }

    async fn update_app_profile(
        &self,
        request: Request<UpdateAppProfileRequest>,
    ) -> Answer<Operation> {
        let request = request.into_inner();
        request.app_profile.iter().try_for_each(profile::refuse_unsupported)?;
        answer(self.update_profile(request).await)
    }

    async fn delete_app_profile(&self, request: Request<DeleteAppProfileRequest>) -> Answer<()> {
        answer(self.delete_profile(request.into_inner()).await)
    }

    async fn get_iam_policy(
        &self,
        request: Request<iam::GetIamPolicyRequest>,
    ) -> Answer<iam::Policy> {
        policies::get(&request)
    }

    async fn set_iam_policy(
        &self,
        request: Request<iam::SetIamPolicyRequest>,
    ) -> Answer<iam::Policy> {
        Err(policies::set(&request))
    }

    async fn test_iam_permissions(
        &self,
        request: Request<iam::TestIamPermissionsRequest>,
    ) -> Answer<iam::TestIamPermissionsResponse> {
        policies::test(request)
    }
}
