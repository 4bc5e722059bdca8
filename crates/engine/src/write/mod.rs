//! The way of a batch from its caller to the commit log and the memtables.
//!
//! In: frozen batches, of writers that wait on their threads or are tasks. Out: sequence numbers of batches that are in the log and in a memtable, or an
//! error. `pressure` says how hard writers are held back (`background::write_stalls` makes them wait). May
//! use `log`, `tree`, `manifest` and `compaction`.

pub(crate) mod commit_counters;
mod group;
pub(crate) mod group_commit;
pub(crate) mod numbered_log;
pub(crate) mod pressure;
pub(crate) mod request;
