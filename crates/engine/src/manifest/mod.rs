//! The manifest: which SSTables make up each tree, as a log of edits over immutable versions.

pub mod version;

pub use version::{FileNumber, LogPosition, Run, SstMeta, TreeVersion};
