//! A data directory without a server: `check`, `dump` and `repair`.

mod check;
mod dump;
mod progress;
mod repair;

pub(crate) use check::{CheckArgs, check};
pub(crate) use dump::{DumpArgs, dump};
pub(crate) use repair::{RepairArgs, repair};
