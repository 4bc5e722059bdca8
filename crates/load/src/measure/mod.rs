//! Measurement: latencies by operation, errors by class, and the CPU of this client.
//!
//! `distribution.rs` is an HdrHistogram of microseconds, `coarse.rs` a small one for each second of the
//! timeline, `recorder.rs` collects from all workers, `machine.rs` reads CPU times and the machine.

mod coarse;
mod distribution;
mod machine;
mod operation;
mod recorder;
mod watch;

pub(crate) use coarse::Coarse;
pub(crate) use distribution::Distribution;
pub(crate) use machine::{CpuMeter, CpuUse, Machine};
pub(crate) use operation::Operation;
pub(crate) use recorder::{End, Outcome, Recorder, Tally};
pub(crate) use watch::Watch;
