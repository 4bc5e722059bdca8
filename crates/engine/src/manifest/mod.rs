//! The manifest: which SSTables make up each tree, as a log of edits over immutable versions
//! (docs/format/manifest.md).
//!
//! In: edits. Out: states, each on disk before anybody sees it. `state` has the values: versions of
//! trees and their invariants. May use `log` (records) and `files` (numbers); never opens an SSTable.
//!
//! Use: [`ManifestSet::open`] once, `state` for the current [`State`], `install` to change it,
//! `new_file` for numbers of new files, `close` at the end. [`load`] reads a directory without
//! touching it.

pub(crate) mod current;
pub mod edit;
pub mod fuzz;
mod manifest_reader;
pub(crate) mod manifest_salvage;
mod manifest_set;
pub mod state;

pub use crate::log::LogPosition;
pub use edit::{Edit, EditError, LogClosed, Owner, StoreId};
pub use manifest_reader::{EditReader, load};
pub use manifest_set::ManifestSet;
pub(crate) use manifest_set::{CommitTimes, create, is_in_doubt, sync_parents};
pub use state::tree_map::TreeMap;
pub use state::version::{FileNumber, Run, RunId, SstMeta, TreeVersion};
pub use state::{Refusal, State};

#[cfg(test)]
mod tests;
