//! Changes of rows: INSERT, UPDATE, DELETE.
//!
//! Invariants:
//! 1. A row is written only after its generated columns were computed and its checks passed.
//! 2. UPDATE and DELETE lock a row before they change it, and look at their condition again if the row is
//!    not as the statement's view has it.
//! 3. Foreign keys are looked at once all rows of a statement are changed, but for values that are found at once.
//! 4. A statement that finds its rows by a query, and meets one that changed since, starts again with a new
//!    view in READ COMMITTED, and fails with 40001 in REPEATABLE READ. So does one that finds them by keys, and
//!    meets one that is gone.

mod delete;
mod found;
mod insert;
mod references;
mod returning;
mod target;
mod typed;
mod update;

pub(crate) use delete::Delete;
pub(crate) use found::TRIES_MAX;
pub(crate) use insert::{Insert, Writer, places};
pub(crate) use references::References;
pub(crate) use returning::Returning;
pub(crate) use target::Target;
pub(crate) use update::Update;

use relational::catalog::Table;
use relational::{Error, Result};

/// Fails with 0A000 for a columnar table, for which `what` is not there yet.
pub(crate) fn check_of_rows(table: &Table, what: &str) -> Result<()> {
    if !table.is_columnar() {
        return Ok(());
    }
    let message = format!("{what} of columnar table \"{}\" is not supported yet", table.name);
    Err(Error::unsupported(message).with_hint("A columnar table takes INSERT, COPY and TRUNCATE."))
}
