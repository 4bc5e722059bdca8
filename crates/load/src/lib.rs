//! A load tester for any Bigtable endpoint: Stele, Google's emulator, the cloud service.
//!
//! A tour of the rooms, in the order in which a run passes them. `args` reads the command line.
//! `workload` turns it into operations on the data that `data` makes and `choose` chooses, and verifies
//! every value that is read. `pace` says when operations begin in an open loop. `client` calls the
//! endpoint. `run` lets workers work, `measure` collects what they measured, and `report` shows it.
//!
//! The crate prints nothing and reads no configuration: its caller brings connections and outputs.
#![forbid(unsafe_code)]

mod args;
mod choose;
mod client;
mod data;
mod error;
mod measure;
mod pace;
mod report;
mod run;
mod workload;

pub use args::{
    Command, HotKeysArgs, KeyValueArgs, MergeArgs, MissingKeysArgs, ReportArgs, ScansArgs,
    TimeSeriesArgs, WideRowsArgs, YcsbArgs,
};
pub use client::{Dial, Stream};
pub use error::Error;
pub use report::Report;
pub use run::{Servers, run};
pub use workload::Sink;
