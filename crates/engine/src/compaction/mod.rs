//! Compaction: choosing what to merge, deciding what may vanish, and writing the result.
//!
//! - `pick` chooses the inputs of one compaction: a pure function of a version and of `signals`.
//! - `stripes`, `dropped` and `elide` decide what is written: pure functions of entries.
//! - `split` says where one output SSTable ends and the next begins, `pieces` where a large
//!   compaction is divided for several threads.
//! - `run` does the I/O, for flushes too, and returns what a version edit needs.
//! - `inherit` has the outputs take the place of the inputs in the block cache.
//!
//! Numbered rules that hold for every compaction:
//! 1. **Closure.** For every input SSTable, each SSTable of an older run down to the destination
//!    whose span overlaps it is an input as well. So no older entry of a row is left above a newer
//!    one, and what goes to the last level has nothing below it.
//! 2. **Views.** A view is a live snapshot or "now". Two entries that no live snapshot can tell
//!    apart (they lie in one stripe, `stripes`) may hide one another for good; others not.
//! 3. **Bottom.** A row is at the bottom of a compaction when no older run outside the inputs has
//!    it in its hull. Only there may tombstones vanish, sequence numbers be zeroed, and the rules
//!    of garbage collection drop cells.
//! 4. **Range tombstones** are cut at the borders of the outputs, so that spans stay disjoint in
//!    a run, and each piece goes to the run of the rows that it covers. One that no snapshot
//!    needs loses exactly the part over rows at the bottom, the same rows whose sequence numbers
//!    are zeroed: a zeroed cell never meets a tombstone older than it was.
//! 5. **Pieces** (`pieces`) are one compaction: all are read as the inputs were at one moment, judged
//!    by the same snapshots, policy and hulls, and installed by one edit, or none is.
//!
//! The list of live snapshots is taken after the inputs are fixed, and includes the sequence
//! number of every read that has not yet taken hold of the version it will read. Every input
//! entry was published before, so that any later view sees all of them.

pub mod dropped;
pub mod elide;
pub(crate) mod inherit;
mod output;
pub mod pick;
pub mod pieces;
pub mod run;
pub mod signals;
pub mod split;
#[cfg(test)]
mod testing;

pub(crate) use output::{Outputs, sst_meta};
