//! The read path: from a request to cells that are lent to the caller.
//!
//! In: a view of a tree, a snapshot and a request. Out: visible cells. `point` plans reads of one row
//! without I/O, `scan` walks ranges, `visible_cells` applies deletes and snapshots, and `drivers` run
//! plans: blocking, many in flight, or as tasks. May use `tree`, `merge`, `sstable`, `memtable`,
//! `semantics` and `block_loads`.

pub(crate) mod drivers;
pub(crate) mod point;
pub(crate) mod scan;
pub(crate) mod visible_cells;
