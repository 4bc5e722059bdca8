//! The manifest: which SSTables make up each tree, as a log of edits over immutable versions
//! (docs/format/manifest.md).
//!
//! Use: [`ManifestSet::open`] once, `state` for the current [`State`], `install` to change it,
//! `new_file` for numbers of new files, `close` at the end. [`load`] reads a directory without
//! touching it.

pub mod check;
pub(crate) mod current;
pub mod edit;
pub mod fuzz;
mod reader;
pub(crate) mod salvage;
mod set;
mod state;
mod tree_map;
pub mod version;

pub use crate::log::LogPosition;
pub use edit::{Edit, EditError, LogClosed, Owner, StoreId};
pub use reader::{EditReader, load};
pub use set::ManifestSet;
pub(crate) use set::{CommitTimes, create, is_in_doubt, sync_parents};
pub use state::{Refusal, State};
pub use tree_map::TreeMap;
pub use version::{FileNumber, Run, RunId, SstMeta, TreeVersion};

#[cfg(test)]
mod tests;
