//! Compaction: choosing what to merge, deciding what may vanish, and writing the result.
//!
//! In: a version, signals, and the files and memtables to merge. Out: a plan, or finished files and
//! the edits that install them; nothing here changes a version. May use `manifest` (its values),
//! `memtable`, `sstable`, `merge`, `semantics` and `block_loads`.
//!
//! - `pick` chooses the inputs of one compaction: a pure function of a version and of `signals`.
//! - `covering_tombstones` and `row_elision` decide what is written: pure functions of entries.
//! - `output_split` says where one output SSTable ends and the next begins, `subcompactions` where a
//!   large compaction is divided for several threads.
//! - `execute` does the I/O, for flushes too, and returns what a version edit needs.
//! - `cache_warming` has the outputs take the place of the inputs in the block cache.
//!
//! Numbered rules that hold for every compaction:
//! 1. **Closure.** For every input SSTable, each SSTable of an older run down to the destination
//!    whose span overlaps it is an input as well. So no older entry of a row is left above a newer
//!    one, and what goes to the last level has nothing below it.
//! 2. **Views.** A view is a live snapshot or "now". Two entries that no live snapshot can tell
//!    apart (they lie in one stripe, `semantics::stripes`) may hide one another for good; others not.
//! 3. **Bottom.** A row is at the bottom of a compaction when no older run outside the inputs has
//!    it in its hull. Only there may tombstones vanish, sequence numbers be zeroed, and the rules
//!    of garbage collection drop cells.
//! 4. **Range tombstones** are cut at the borders of the outputs, so that spans stay disjoint in
//!    a run, and each piece goes to the run of the rows that it covers. One that no snapshot
//!    needs loses exactly the part over rows at the bottom, the same rows whose sequence numbers
//!    are zeroed: a zeroed cell never meets a tombstone older than it was.
//! 5. **Pieces** (`subcompactions`) are one compaction: all are read as the inputs were at one moment, judged
//!    by the same snapshots, policy and hulls, and installed by one edit, or none is.
//!
//! The list of live snapshots is taken after the inputs are fixed, and includes the sequence
//! number of every read that has not yet taken hold of the version it will read. Every input
//! entry was published before, so that any later view sees all of them.

pub(crate) mod cache_warming;
pub(crate) mod covering_tombstones;
pub(crate) mod execute;
pub(crate) mod output_split;
mod outputs;
pub(crate) mod pick;
pub(crate) mod row_elision;
pub(crate) mod signals;
pub(crate) mod subcompactions;
#[cfg(test)]
mod testing;
pub(crate) mod writing;

pub(crate) use outputs::Outputs;
