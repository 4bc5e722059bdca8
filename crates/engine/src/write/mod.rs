//! The way of a batch from its caller to the commit log and the memtables.
//!
//! In: frozen batches. Out: sequence numbers of batches that are in the log and in a memtable, or an
//! error. `pressure` and `write_stalls` say how long a writer waits first. May use `log`, `tree`,
//! `manifest` and `health`.

pub(crate) mod group_commit;
pub(crate) mod pressure;
pub(crate) mod write_stalls;
