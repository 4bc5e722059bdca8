//! App profiles. Routing is kept and checked but has one target, this server; of a profile's
//! settings the permission of single-row transactions changes what a request may do.

use super::instance::instance_ids;
use super::{EVERY_INSTANCE, InstanceAdminService};
use crate::admin::directory::{DEFAULT_PROFILE, last_part, put};
use crate::admin::message::{admin_any, check_etag, mask_paths, next_etag, page, wrong_path};
use crate::api::admin::app_profile::{
    Isolation, MultiClusterRoutingUseAny, Priority, RoutingPolicy, SingleClusterRouting,
    StandardIsolation,
};
use crate::api::admin::{
    AppProfile, CreateAppProfileRequest, DeleteAppProfileRequest, ListAppProfilesRequest,
    ListAppProfilesResponse, UpdateAppProfileMetadata, UpdateAppProfileRequest,
};
use crate::api::longrunning::Operation;
use crate::call::status;
use crate::names::{self, InstanceName};
use table::{Error, RecordChange, Result};
use tonic::Status;

/// Most profiles of one page.
const PAGE_MAX: usize = 1_000;
/// Longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1 << 10;

/// Refuses a profile with a setting that a server cannot keep to.
pub(super) fn refuse_unsupported(profile: &AppProfile) -> Result<(), Status> {
    match &profile.isolation {
        Some(Isolation::DataBoostIsolationReadOnly(_)) => {
            Err(status::unsupported("app_profile.data_boost_isolation_read_only is"))
        }
        _ => Ok(()),
    }
}

/// Returns the profile of requests that name none, in an instance with these clusters.
pub(super) fn default_profile(instance: InstanceName<'_>, clusters: &[String]) -> AppProfile {
    let routing_policy = match clusters {
        [only] => RoutingPolicy::SingleClusterRouting(SingleClusterRouting {
            cluster_id: only.clone(),
            allow_transactional_writes: true,
        }),
        _ => RoutingPolicy::MultiClusterRoutingUseAny(MultiClusterRoutingUseAny::default()),
    };
    let mut profile = AppProfile {
        name: format!("{instance}/appProfiles/{DEFAULT_PROFILE}"),
        routing_policy: Some(routing_policy),
        isolation: Some(standard(Priority::High)),
        ..Default::default()
    };
    profile.etag = next_etag(&profile);
    profile
}

fn standard(priority: Priority) -> Isolation {
    Isolation::StandardIsolation(StandardIsolation { priority: priority as i32 })
}

impl InstanceAdminService {
    pub(super) async fn create_profile(
        &self,
        request: CreateAppProfileRequest,
    ) -> Result<AppProfile> {
        let instance = names::instance("parent", &request.parent)?;
        let id = &request.app_profile_id;
        names::check_resource_id("app_profile_id", id)?;
        let wanted =
            request.app_profile.ok_or_else(|| Error::invalid("app_profile", "is not set"))?;
        let name = format!("{instance}/appProfiles/{id}");
        let isolation = isolation(&wanted)?;
        let mut profile = AppProfile { name, isolation, etag: String::new(), ..wanted };
        let _changing = self.directory.changing().await;
        self.directory.check_instance(instance)?;
        self.check_profile(instance, &profile)?;
        let exists = self.profiles(instance)?.iter().any(|other| other.name == profile.name);
        if exists {
            return Err(Error::AlreadyExists { what: "app profile", name: profile.name });
        }
        if !request.ignore_warnings {
            self.warn_of_conflicts(instance, &profile)?;
        }
        profile.etag = next_etag(&profile);
        self.directory.change(vec![put(&profile.name, &profile)]).await?;
        Ok(profile)
    }

    pub(super) fn get_profile(&self, name: &str) -> Result<AppProfile> {
        let (instance, _) = names::app_profile("name", name)?;
        let found = self.profiles(instance)?.into_iter().find(|profile| profile.name == name);
        found.ok_or_else(|| Error::NotFound { what: "app profile", name: name.to_owned() })
    }

    pub(super) async fn list_profiles(
        &self,
        request: ListAppProfilesRequest,
    ) -> Result<ListAppProfilesResponse> {
        let name = names::instance("parent", &request.parent)?;
        let mut profiles = Vec::new();
        if name.instance == EVERY_INSTANCE {
            for instance in &instance_ids(&self.directory, name.project).await? {
                profiles.extend(self.profiles(InstanceName { instance, ..name })?);
            }
            profiles.sort_by(|a, b| a.name.cmp(&b.name));
        } else {
            profiles = self.profiles(name)?;
        }
        let wanted = (request.page_size, request.page_token.as_str());
        let (app_profiles, next_page_token) =
            page(profiles, |profile| profile.name.as_str(), wanted, PAGE_MAX)?;
        Ok(ListAppProfilesResponse { app_profiles, next_page_token, ..Default::default() })
    }

    pub(super) async fn update_profile(
        &self,
        request: UpdateAppProfileRequest,
    ) -> Result<Operation> {
        let wanted =
            request.app_profile.ok_or_else(|| Error::invalid("app_profile", "is not set"))?;
        let paths = mask_paths(request.update_mask)?;
        let (instance, _) = names::app_profile("app_profile.name", &wanted.name)?;
        let _changing = self.directory.changing().await;
        let old = self.get_profile(&wanted.name)?;
        check_etag(&wanted.etag, &old.etag, &old.name)?;
        let mut profile = updated(old.clone(), &wanted, &paths)?;
        self.check_profile(instance, &profile)?;
        if !request.ignore_warnings {
            warn_of_change(&old, &profile)?;
            self.warn_of_conflicts(instance, &profile)?;
        }
        profile.etag = next_etag(&profile);
        let metadata = admin_any("UpdateAppProfileMetadata", &UpdateAppProfileMetadata {});
        let response = admin_any("AppProfile", &profile);
        let changes = vec![put(&profile.name, &profile)];
        self.operations.finish(&profile.name, metadata, response, changes).await
    }

    pub(super) async fn delete_profile(&self, request: DeleteAppProfileRequest) -> Result<()> {
        let _changing = self.directory.changing().await;
        let profile = self.get_profile(&request.name)?;
        if last_part(&profile.name) == DEFAULT_PROFILE {
            let text =
                "the default app profile cannot be deleted; requests without a profile use it";
            return Err(Error::FailedPrecondition(text.into()));
        }
        if !request.ignore_warnings {
            let text = "requests that name the app profile may fail after its deletion";
            return Err(warning(text));
        }
        self.directory.change(vec![RecordChange::remove(profile.name)]).await
    }

    /// Returns the profiles of a known instance in order of name, the default one among them.
    fn profiles(&self, instance: InstanceName<'_>) -> Result<Vec<AppProfile>> {
        let clusters = self.directory.cluster_ids(instance)?;
        let mut profiles: Vec<AppProfile> =
            self.directory.list(&format!("{instance}/appProfiles"))?;
        let is_default = |profile: &AppProfile| last_part(&profile.name) == DEFAULT_PROFILE;
        if !profiles.iter().any(is_default) {
            profiles.push(default_profile(instance, &clusters[..1]));
            profiles.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(profiles)
    }

    /// Refuses a profile without a route, or with one to an unknown cluster.
    fn check_profile(&self, instance: InstanceName<'_>, profile: &AppProfile) -> Result<()> {
        table::limits::check_len(
            "app_profile.description",
            profile.description.len(),
            DESCRIPTION_BYTES_MAX,
        )?;
        let clusters = self.directory.cluster_ids(instance)?;
        let check = |field: &str, id: &String| {
            if clusters.contains(id) {
                return Ok(());
            }
            let rule = format!("{} is not a cluster of {instance}", names::shown(id));
            Err(Error::invalid(format!("app_profile.{field}"), rule))
        };
        match &profile.routing_policy {
            Some(RoutingPolicy::SingleClusterRouting(single)) => {
                check("single_cluster_routing.cluster_id", &single.cluster_id)
            }
            Some(RoutingPolicy::MultiClusterRoutingUseAny(any)) => any
                .cluster_ids
                .iter()
                .try_for_each(|id| check("multi_cluster_routing_use_any.cluster_ids", id)),
            None => {
                let rule = "must be single_cluster_routing or multi_cluster_routing_use_any";
                Err(Error::invalid("app_profile.routing_policy", rule))
            }
        }
    }

    /// Refuses transactions on rows by way of two clusters.
    fn warn_of_conflicts(&self, instance: InstanceName<'_>, profile: &AppProfile) -> Result<()> {
        let Some(cluster) = transactional(profile) else { return Ok(()) };
        for other in self.profiles(instance)? {
            let elsewhere = transactional(&other).is_some_and(|other| other != cluster);
            if elsewhere && other.name != profile.name {
                let other = last_part(&other.name);
                return Err(warning(&format!(
                    "app profile {other} allows single-row transactions on another cluster"
                )));
            }
        }
        Ok(())
    }
}

/// Returns the cluster on which a profile allows single-row transactions.
fn transactional(profile: &AppProfile) -> Option<&str> {
    match &profile.routing_policy {
        Some(RoutingPolicy::SingleClusterRouting(single)) if single.allow_transactional_writes => {
            Some(&single.cluster_id)
        }
        _ => None,
    }
}

/// Refuses a change that may break the users of a profile.
fn warn_of_change(old: &AppProfile, new: &AppProfile) -> Result<()> {
    let cluster = |profile: &AppProfile| match &profile.routing_policy {
        Some(RoutingPolicy::SingleClusterRouting(single)) => Some(single.cluster_id.clone()),
        _ => None,
    };
    if cluster(old) != cluster(new) {
        return Err(warning("the change routes the requests of the profile elsewhere"));
    }
    if transactional(old).is_some() && transactional(new).is_none() {
        return Err(warning("the change forbids single-row transactions, which clients may use"));
    }
    Ok(())
}

fn warning(text: &str) -> Error {
    Error::FailedPrecondition(format!("{text}; set ignore_warnings to do it all the same"))
}

/// Returns the profile with the fields at `paths` as they are in `wanted`.
fn updated(mut profile: AppProfile, wanted: &AppProfile, paths: &[String]) -> Result<AppProfile> {
    for path in paths {
        match path.split('.').next().unwrap_or_default() {
            "description" => profile.description.clone_from(&wanted.description),
            "single_cluster_routing" | "multi_cluster_routing_use_any" | "routing_policy" => {
                profile.routing_policy.clone_from(&wanted.routing_policy);
            }
            "isolation" | "priority" | "standard_isolation" => {
                profile.isolation = isolation(wanted)?;
            }
            "etag" => {}
            _ => {
                let allowed = "description, single_cluster_routing, multi_cluster_routing_use_any \
                               or standard_isolation";
                return Err(wrong_path(path, allowed));
            }
        }
    }
    Ok(profile)
}

/// Returns the isolation of a profile, in the newer of its two forms.
#[expect(deprecated, reason = "clients still send the old form")]
fn isolation(profile: &AppProfile) -> Result<Option<Isolation>> {
    let priority = match &profile.isolation {
        Some(Isolation::Priority(priority)) => *priority,
        Some(Isolation::StandardIsolation(standard)) => standard.priority,
        _ => Priority::Unspecified as i32,
    };
    match Priority::try_from(priority) {
        Ok(Priority::Unspecified) => Ok(Some(standard(Priority::High))),
        Ok(priority) => Ok(Some(standard(priority))),
        Err(_) => Err(Error::invalid("app_profile.priority", "must be LOW, MEDIUM or HIGH")),
    }
}
