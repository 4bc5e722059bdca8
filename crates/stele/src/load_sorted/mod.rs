//! `stele load-sorted`: rows straight into the SSTables of a table, in a data directory that no
//! server has open.
//!
//! 1. Nothing of a load is seen before its end, and then all of it: the files are ingested by one
//!    edit of the manifest. What a load leaves that was stopped is removed by whoever opens the
//!    directory next.
//! 2. Input that is not in order is refused with line and keys, or sorted in the data directory
//!    within a given memory (docs/format/sort_run.md).
//! 3. Records of one key are merged into one row while they stand next to each other, which sorting
//!    sees to; a sort keeps the order of the input among them, so that the later one wins.

mod args;
mod rows;
mod run;

pub(crate) use args::LoadSortedArgs;
pub(crate) use run::run;
