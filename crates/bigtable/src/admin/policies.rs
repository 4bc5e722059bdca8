//! The methods of IAM, which both admin services have: what the server's policy says.

use crate::api::google_type::Expr;
use crate::api::iam;
use crate::call::caller::{Allowed, CallerHandle, RoleBinding};
use crate::call::status;
use table::Error;
use tonic::{Request, Response, Status};

/// Version of a policy that may have conditions.
const WITH_CONDITIONS: i32 = 3;
/// Permissions of one question, as at Google.
const PERMISSIONS_MAX: usize = 100;

/// Returns the roles that are bound to the resource itself; none on a server that knows no callers.
pub(crate) fn get(
    request: &Request<iam::GetIamPolicyRequest>,
) -> Result<Response<iam::Policy>, Status> {
    let resource = named(&request.get_ref().resource)?;
    let Some(CallerHandle(caller)) = request.extensions().get() else {
        return Ok(Response::new(iam::Policy::default()));
    };
    let policy = caller.policy(resource);
    let bindings: Vec<_> = policy.bindings.into_iter().map(binding).collect();
    let version = if bindings.iter().any(|binding| binding.condition.is_some()) {
        WITH_CONDITIONS
    } else {
        1
    };
    Ok(Response::new(iam::Policy {
        version,
        bindings,
        etag: policy.etag.into(),
        ..Default::default()
    }))
}

/// Refuses to change a policy: the operator's file is the only source of it, so that no request can widen
/// what its caller may do.
pub(crate) fn set(request: &Request<iam::SetIamPolicyRequest>) -> Status {
    if let Err(status) = named(&request.get_ref().resource) {
        return status;
    }
    Status::failed_precondition(
        "SetIamPolicy changes nothing: policies are in the policy file of the server (`policy`, \
         `--policy`), which it reads again when the file changes",
    )
}

/// Returns the permissions in the request that the caller has, for some families at least. On a server
/// that knows no callers, everybody has all.
pub(crate) fn test(
    request: Request<iam::TestIamPermissionsRequest>,
) -> Result<Response<iam::TestIamPermissionsResponse>, Status> {
    let caller = request.extensions().get::<CallerHandle>().cloned();
    let iam::TestIamPermissionsRequest { resource, mut permissions } = request.into_inner();
    named(&resource)?;
    if permissions.len() > PERMISSIONS_MAX {
        let rule = format!("must not have more than {PERMISSIONS_MAX} names");
        return Err(status::from_error(Error::invalid("permissions", rule)));
    }
    if let Some(CallerHandle(caller)) = caller {
        if let Some(unknown) = permissions.iter().find(|name| !caller.is_permission(name)) {
            let rule = format!("{unknown:?} is no permission");
            return Err(status::from_error(Error::invalid("permissions", rule)));
        }
        permissions.retain(|name| caller.allowed(name, &resource) != Allowed::Nothing);
    }
    Ok(Response::new(iam::TestIamPermissionsResponse { permissions }))
}

fn named(resource: &str) -> Result<&str, Status> {
    if resource.starts_with("projects/") {
        return Ok(resource);
    }
    let rule = "must be the full name of an instance, a table or what lies below";
    Err(status::from_error(Error::invalid("resource", rule)))
}

fn binding(RoleBinding { role, members, families }: RoleBinding) -> iam::Binding {
    let condition = (!families.is_empty()).then(|| Expr {
        title: "families".to_owned(),
        expression: format!("family in {families:?}"),
        ..Default::default()
    });
    iam::Binding { role, members, condition }
}
