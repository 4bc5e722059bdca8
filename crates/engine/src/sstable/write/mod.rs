//! Writing SSTables.
//!
//! In: entries in order. Out: a finished file and its summary. May use `format`, `block`, `index`
//! and `filter`.

pub(super) mod file_output;
pub(super) mod sst_builder;
pub(super) mod sst_options;
