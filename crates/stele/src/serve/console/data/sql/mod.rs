//! Tables of SQL: their list, their structure, their trees, and pages of their rows.
//!
//! They are read from the catalog and by scans of the relational layer, and by a text of SQL in `prompt` alone.
//!
//! Invariants:
//! 1. A visitor needs the permissions of [`LIST`] and [`READ`] from a policy: what a server without one lets
//!    every identity do passes over no password and privilege of SQL. On a server without identities, and
//!    only there, one sees what a client of the same machine sees who gives no password: nothing, once each
//!    superuser has one.
//! 2. Each answer is bounded, and says when there is more.
//! 3. Only the node that has the database answers.

pub(in super::super) mod list;
pub(in super::super) mod prompt;
pub(in super::super) mod rows;
pub(in super::super) mod structure;
pub(in super::super) mod tree;

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use ::relational::{Catalog, Database, Error, SqlState, Table};
use ::sql::{Door, Seat};
use std::sync::Arc;
use tonic::Code;

/// Permission on the list and the structure of relations.
pub(in super::super) const LIST: &str = "stele.sqlTables.list";
/// Permission on rows, and on the keys that files begin and end with.
pub(in super::super) const READ: &str = "stele.sqlTables.readRows";
/// Permission on the schema of a Bigtable table, which a declared table tells of.
const GET_TABLE: &str = "bigtable.tables.get";

const NO_POLICY: &str = "this server has no policy that says who may see tables of SQL: use psql, or set \
     --policy and bind stele.sqlViewer or stele.sqlReader (docs/security.md)";
const NO_IDENTITIES: &str = "the superusers of SQL have passwords, and this server knows no identities: use \
     psql, or set --identities or --tls-client-ca, and --policy (docs/security.md)";

/// Returns the database, if this server has it now.
fn database(console: &Console) -> Result<Arc<Database>, Failure> {
    door(console).map(|door| Arc::clone(door.database()))
}

/// Returns the door to the database, if this server has it now.
fn door(console: &Console) -> Result<Door, Failure> {
    let Some(seat) = console.server.sql_seat() else {
        return Err(match console.server.store() {
            None => Failure::opening(),
            Some(_) => Failure::new(Code::NotFound, "the server does not serve PostgreSQL clients"),
        });
    };
    match &*seat.borrow() {
        Seat::Here(door) => Ok(door.clone()),
        Seat::At(address) => {
            let text = format!(
                "another node leads the database of SQL; ask the console of the node that serves \
                 PostgreSQL clients at {address}"
            );
            Err(Failure::new(Code::FailedPrecondition, text))
        }
        Seat::Unknown => {
            let text = "no node is known to lead the database of SQL; retry soon";
            Err(Failure::new(Code::Unavailable, text))
        }
    }
}

/// Refuses a visitor of whom no policy says what is allowed: one with a name always, and one of a server
/// without identities if no superuser may enter without a password.
fn check_passwords(catalog: &Catalog, visitor: &Visitor) -> Result<(), Failure> {
    if visitor.is_under_policy() {
        return Ok(());
    }
    let is_open =
        catalog.roles().any(|role| role.superuser && role.login && role.password.is_none());
    let text = match visitor.name() {
        Some(_) => NO_POLICY,
        None if is_open => return Ok(()),
        None => NO_IDENTITIES,
    };
    visitor.note_refusal("");
    Err(Failure::new(Code::PermissionDenied, text))
}

/// Returns the number of an object of the catalog, if the request has it.
fn number(params: &Params, name: &str) -> Result<Option<u32>, Failure> {
    let number = params.number(name, u64::from(u32::MAX))?;
    Ok(number.and_then(|number| u32::try_from(number).ok()))
}

/// Returns the number of a relation, which has to be there.
fn oid(params: &Params) -> Result<u32, Failure> {
    params.required("oid")?;
    number(params, "oid")?.ok_or_else(|| Failure::parameter("oid", "is missing"))
}

fn table_of(catalog: &Catalog, oid: u32) -> Result<&Arc<Table>, Failure> {
    catalog.table(oid).ok_or_else(|| missing(oid))
}

fn missing(oid: u32) -> Failure {
    Failure::new(Code::NotFound, format!("SQL has no relation with the number {oid} any more"))
}

/// Returns the failure that an error of the relational layer is.
fn of_sql(error: &Error) -> Failure {
    let code = match error.state.code() {
        "40001" | "57P03" => Code::Unavailable,
        "42P01" | "42704" => Code::NotFound,
        "57014" => Code::DeadlineExceeded,
        "XX001" | "XX002" => Code::DataLoss,
        state if state.starts_with("22") || state.starts_with("54") => Code::InvalidArgument,
        _ if error.state == SqlState::FEATURE_NOT_SUPPORTED => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Failure::new(code, error.message.clone())
}
