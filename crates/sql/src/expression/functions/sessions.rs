//! Functions about sessions, and the advisory locks that they hold.

use relational::{AdvisoryHold, AdvisoryKey, Error, Result, SqlState, Value};

use super::{Call, Definition, text};
use crate::expression::Acting;
use crate::statement::privilege::{is_superuser, roles_of};

pub(super) const TABLE: &[Definition] = &[
    ("pg_cancel_backend", "int4 -> bool volatile", |call| stop(call, false)),
    ("pg_terminate_backend", "int4 -> bool volatile", |call| stop(call, true)),
    ("pg_terminate_backend", "int4,int8 -> bool volatile", |call| stop(call, true)),
    ("pg_postmaster_start_time", "-> timestamptz stable", |call| {
        Ok(Value::TimestampTz(call.context.server()?.started()))
    }),
    ("txid_current", "-> int8 stable", transaction),
    ("pg_current_xact_id", "-> int8 stable", transaction),
    ("pg_advisory_lock", "int8 -> text volatile", |call| lock(call, OWN, false)),
    ("pg_advisory_lock", "int4,int4 -> text volatile", |call| lock(call, OWN, false)),
    ("pg_advisory_lock_shared", "int8 -> text volatile", |call| lock(call, SHARED, false)),
    ("pg_advisory_lock_shared", "int4,int4 -> text volatile", |call| lock(call, SHARED, false)),
    ("pg_advisory_xact_lock", "int8 -> text volatile", |call| lock(call, OWN, true)),
    ("pg_advisory_xact_lock", "int4,int4 -> text volatile", |call| lock(call, OWN, true)),
    ("pg_advisory_xact_lock_shared", "int8 -> text volatile", |call| lock(call, SHARED, true)),
    ("pg_advisory_xact_lock_shared", "int4,int4 -> text volatile", |call| lock(call, SHARED, true)),
    ("pg_try_advisory_lock", "int8 -> bool volatile", |call| try_lock(call, OWN, false)),
    ("pg_try_advisory_lock", "int4,int4 -> bool volatile", |call| try_lock(call, OWN, false)),
    ("pg_try_advisory_lock_shared", "int8 -> bool volatile", |call| try_lock(call, SHARED, false)),
    ("pg_try_advisory_lock_shared", "int4,int4 -> bool volatile", |call| {
        try_lock(call, SHARED, false)
    }),
    ("pg_try_advisory_xact_lock", "int8 -> bool volatile", |call| try_lock(call, OWN, true)),
    ("pg_try_advisory_xact_lock", "int4,int4 -> bool volatile", |call| try_lock(call, OWN, true)),
    ("pg_try_advisory_xact_lock_shared", "int8 -> bool volatile", |call| {
        try_lock(call, SHARED, true)
    }),
    ("pg_try_advisory_xact_lock_shared", "int4,int4 -> bool volatile", |call| {
        try_lock(call, SHARED, true)
    }),
    ("pg_advisory_unlock", "int8 -> bool volatile", |call| unlock(call, OWN)),
    ("pg_advisory_unlock", "int4,int4 -> bool volatile", |call| unlock(call, OWN)),
    ("pg_advisory_unlock_shared", "int8 -> bool volatile", |call| unlock(call, SHARED)),
    ("pg_advisory_unlock_shared", "int4,int4 -> bool volatile", |call| unlock(call, SHARED)),
    ("pg_advisory_unlock_all", "-> text volatile", |call| {
        call.context.server()?.unlock_all();
        text("")
    }),
];

const SHARED: bool = true;
const OWN: bool = false;

fn transaction(call: &Call<'_>) -> Result<Value> {
    Ok(Value::Int8(call.context.server()?.transaction() as i64))
}

fn key(call: &Call<'_>) -> AdvisoryKey {
    match call.arguments.len() {
        2 => AdvisoryKey::Two(call.int(0) as i32, call.int(1) as i32),
        _ => AdvisoryKey::One(call.int(0)),
    }
}

fn lock(call: &Call<'_>, is_shared: bool, is_of_transaction: bool) -> Result<Value> {
    let hold = AdvisoryHold { is_shared, is_of_transaction };
    call.context.server()?.lock(key(call), hold, false, call.context)?;
    text("")
}

fn try_lock(call: &Call<'_>, is_shared: bool, is_of_transaction: bool) -> Result<Value> {
    let hold = AdvisoryHold { is_shared, is_of_transaction };
    call.context.server()?.lock(key(call), hold, true, call.context).map(Value::Bool)
}

fn unlock(call: &Call<'_>, is_shared: bool) -> Result<Value> {
    Ok(Value::Bool(call.context.server()?.unlock(key(call), is_shared)))
}

/// Stops the statement of a session, or the session: of the own role or of one that it is a member of.
fn stop(call: &Call<'_>, ends_session: bool) -> Result<Value> {
    let server = call.context.server()?;
    let pid = call.int(0) as i32;
    let found = server.sessions().into_iter().find(|session| session.pid == pid);
    let (Some(found), Some(catalog)) = (found, &call.context.catalog) else {
        return Ok(Value::Bool(false));
    };
    let own = call.context.acting;
    if !is_superuser(catalog, own) {
        let verb = if ends_session { "terminate" } else { "cancel" };
        let what = if ends_session { "process" } else { "query" };
        let denied = |message: String| Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        if is_superuser(catalog, found.acting) {
            return denied(format!("must be a superuser to {verb} superuser {what}"));
        }
        let roles = roles_of(catalog, own);
        if !matches!(found.acting, Acting::Role(role) if roles.contains(&role)) {
            let being = if ends_session { "terminated" } else { "canceled" };
            return denied(format!(
                "must be a member of the role whose {what} is being {being} or member of pg_signal_backend"
            ));
        }
    }
    Ok(Value::Bool(server.stop(pid, ends_session)))
}
