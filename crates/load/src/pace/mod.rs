//! The open loop: operations begin when a schedule says, not when earlier ones end.
//!
//! `arrivals.rs` is the schedule, `backlog.rs` holds the operations that are due and not yet begun, and
//! `pacer.rs` moves them from one to the other on a thread of its own. Latency counts from the scheduled
//! time, so a stalled server shows in the latency of every operation that it delays. `moments.rs` keeps
//! when operations were left out.

mod arrivals;
mod backlog;
mod moments;
mod pacer;

pub(crate) use arrivals::{Arrivals, Spacing};
pub(crate) use backlog::{Backlog, BacklogState};
pub(crate) use pacer::Pacer;
