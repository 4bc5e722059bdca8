//! Sorted sources as one: cursors over the SSTables of a run, and over several sources.
//!
//! In: cursors of memtables and SSTables, newest first. Out: rows in order, the entries of each
//! merged. Reads and compactions stand on it. May use `semantics` and `sstable`.

pub(crate) mod merge_cursor;
pub(crate) mod run_cursor;
