//! Authorisation: every call of every served method comes here before its service.
//!
//! `build.rs` writes, for each service, an implementation for [`Authorized`] that hands each method to
//! [`Authorized::call`]. A message without [`Asks`] does not compile, so no method is served that is not
//! in the table of `permissions.rs`.
//!
//! Invariants:
//! 1. A service for named callers answers no request without a [`CallerHandle`].
//! 2. A refused call does not reach the service. It learns nothing but that it is refused, not even
//!    whether the resource exists.
//! 3. Every refusal is noted, and every call that administers when it ends or is dropped.

use crate::call::caller::{Caller, CallerHandle, EndedCall};
use futures::future::{BoxFuture, ready};
use std::sync::Arc;
use tonic::{Code, Request, Response, Status};

/// A request that names what it needs.
pub(crate) trait Asks {
    /// Says that calls are noted when they end.
    const ADMINISTERS: bool;

    /// Returns the full name of what the request is about.
    fn resource(&self) -> &str;

    /// Refuses what the caller may not do, and limits the request to what the caller may see.
    fn authorize(&mut self, caller: &dyn Caller) -> Result<Sees, Denied>;
}

/// The cells that an authorised request sees. A service finds it in the extensions of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sees {
    /// All cells of its tables.
    All,
    /// Cells of some families. The answer must not tell of others, not even that they exist.
    Part,
}

/// Permission that a caller lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) permission: &'static str,
    pub(crate) resource: String,
    pub(crate) family: Option<String>,
}

/// Callers that the services answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// Everybody, who may do everything.
    Anybody,
    /// Callers that the server names by a [`CallerHandle`] in the extensions of each request. Others are
    /// answered with `Unauthenticated`, and calls that they may not make with `PermissionDenied`.
    Named,
}

/// A service whose calls are authorised.
#[derive(Debug, Clone)]
pub(crate) struct Authorized<S> {
    service: S,
    callers: Callers,
}

impl<S> Authorized<S> {
    pub(crate) fn new(service: S, callers: Callers) -> Self {
        Self { service, callers }
    }

    /// Hands an authorised request to the service.
    pub(crate) fn call<'a, Q: Asks, R: Send + 'a>(
        &'a self,
        method: &'static str,
        mut request: Request<Q>,
        serve: impl FnOnce(&'a S, Request<Q>) -> BoxFuture<'a, Result<Response<R>, Status>>,
    ) -> BoxFuture<'a, Result<Response<R>, Status>> {
        if self.callers == Callers::Anybody {
            return serve(&self.service, request);
        }
        let note = match admit(method, &mut request) {
            Ok(note) => note,
            Err(status) => return Box::pin(ready(Err(status))),
        };
        let answer = serve(&self.service, request);
        let Some(note) = note else { return answer };
        Box::pin(async move {
            let answer = answer.await;
            note.ended(answer.as_ref().map_or_else(Status::code, |_| Code::Ok));
            answer
        })
    }
}

/// Refuses the request, or returns what is to be noted at its end.
fn admit<Q: Asks>(method: &'static str, request: &mut Request<Q>) -> Result<Option<Note>, Status> {
    let Some(CallerHandle(caller)) = request.extensions().get::<CallerHandle>().cloned() else {
        return Err(Status::unauthenticated("the caller is not known"));
    };
    let sees = allow(&*caller, method, request.get_mut())?;
    request.extensions_mut().insert(sees);
    if !Q::ADMINISTERS {
        return Ok(None);
    }
    let resource = request.get_ref().resource().to_owned();
    Ok(Some(Note { caller, method, resource, code: Code::Cancelled }))
}

/// Refuses a message that `caller` may not send to `method`, and notes the refusal.
pub(crate) fn allow<Q: Asks>(
    caller: &dyn Caller,
    method: &str,
    message: &mut Q,
) -> Result<Sees, Status> {
    message.authorize(caller).map_err(|denied| {
        let (resource, code) = (denied.resource.as_str(), Code::PermissionDenied);
        caller.note(&EndedCall { method, resource, code });
        denied.status(caller.name())
    })
}

impl Denied {
    fn status(&self, name: &str) -> Status {
        let Self { permission, resource, family } = self;
        let of = family.as_ref().map_or_else(String::new, |family| format!("family {family} of "));
        Status::permission_denied(format!("{name} lacks {permission} on {of}{resource}"))
    }
}

/// A call that is noted when it ends or is dropped.
struct Note {
    caller: Arc<dyn Caller>,
    method: &'static str,
    resource: String,
    code: Code,
}

impl Note {
    fn ended(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let Self { caller, method, resource, code } = self;
        caller.note(&EndedCall { method, resource, code: *code });
    }
}
