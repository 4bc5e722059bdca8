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
pub(crate) mod edit;
pub(crate) mod fuzz;
mod manifest_reader;
pub(crate) mod manifest_salvage;
mod manifest_set;
pub(crate) mod state;

pub use crate::log::LogPosition;
pub use edit::{ClusterId, Member, NodeId, Owner, StoreId};
pub(crate) use edit::{Edit, LogClosed};
pub(crate) use manifest_reader::EditReader;
pub use manifest_reader::load;
pub(crate) use manifest_set::{CommitTimes, ManifestSet, create, is_in_doubt, sync_parents};
pub use state::State;
pub(crate) use state::version::FileNumber;
pub use state::version::{ChangeLog, Run, RunId, SstMeta, TreeVersion};

#[cfg(test)]
mod tests;
