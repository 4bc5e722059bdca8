//! Source of an export: the Bigtable service of a server, or a data directory that is opened here.
//!
//! 1. Rows come in ascending key order, each once, and inside of the range that was asked for. A server
//!    that sends anything else is refused ([`chunks`]).
//! 2. No call waits for ever ([`answered`](crate::connect::answered)): the read of a server that is
//!    silent fails, and is tried again.

mod chunks;
mod directory;
mod gather;
mod remote;

use super::selection::Range;
use crate::import::target::Failure;
use anyhow::Result;
use async_trait::async_trait;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;

pub(super) use directory::Directory;
#[cfg(test)]
pub(super) use gather::Gatherer;
pub(super) use gather::Piece;
pub(super) use remote::Remote;

/// Gives the rows of a table in order.
#[async_trait]
pub(super) trait Source: Send + Sync {
    /// Returns the identity of the table ([`table::TableIdentity`] as text), or an empty text if the
    /// source does not tell one.
    async fn identity(&self) -> Result<String, Failure>;

    /// Returns the schema of the table ([`bigtable::schema_message`]), or `None` if the source does not
    /// tell it.
    async fn schema(&self) -> Result<Option<admin::Table>, Failure>;

    /// Reads the selected cells of the rows in `range`, in key order.
    async fn read(&self, range: &Range) -> Result<Box<dyn Pieces>, Failure>;

    /// Releases what the source holds, after the last read.
    async fn close(&self) -> Result<()>;
}

/// The rows of one read.
#[async_trait]
pub(super) trait Pieces: Send {
    /// Returns the next pieces, which may be none; `None` at the end. No call may follow an error.
    async fn next(&mut self) -> Result<Option<Vec<Piece>>, Failure>;
}
