//! What every room of Stele stands on: the environment (files, clock, randomness, background
//! tasks, each real or simulated), byte codecs, memory on huge pages, reports of the process's memory,
//! what a program asks of the system's allocator, locks in order, counters and histograms of many threads, and what tests need of every room: constants as values, coverage
//! marks.
//!
//! The list is closed: something belongs here only when two rooms need it and it knows nothing
//! of cells, tables or protocols.

pub mod allocator;
pub mod checksum;
pub mod codec;
pub mod env;
pub mod histogram;
pub mod marks;
pub mod memory;
pub mod rss_monitor;
pub mod shape;
pub mod striped;
pub mod sync;
#[doc(hidden)]
pub mod testing;
