//! Backups of a store: in a directory or any S3-compatible object store (docs/format/backup.md).
//!
//! Use: [`Destination::open`], then [`create()`] of a checkpoint, [`list`], [`verify()`], [`restore()`],
//! [`remove()`]. All calls are futures of a `tokio` runtime; files are read and written on its blocking
//! threads. What is in memory at once is a few parts of 8 MiB and a record, however large the store.

mod catalog;
mod create;
mod destination;
mod error;
mod fetch;
mod frame;
pub mod fuzz;
mod meter;
mod names;
mod object;
mod ranges;
mod record;
mod remove;
mod restore;
mod send;
mod url;
mod verify;

pub use catalog::{Backup, Catalog, UnderWay, find, is_given_up, list, next_id};
pub use create::{Created, Source, create};
pub use destination::Destination;
pub use error::{Error, Result};
pub use frame::Begun;
pub use meter::{Meter, Watch};
pub use names::{BackupId, Place};
pub use record::{BackupFile, Record};
pub use remove::{Removed, give_up, remove};
pub use restore::restore;
pub use url::{Missing, PlainHttp, S3Options};
pub use verify::{Finding, Verified, verify};
